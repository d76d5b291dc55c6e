"""What the participants' uploads take: symbols and seconds on air, transmit energy."""

import numpy as np
import polars as pl

from pwfl.learning import features
from pwfl.learning.mlp import parameter_count
from pwfl.radio.units import db_to_ratio, dbm_to_w
from pwfl.systems.anonymous_oac.parameters import AnonymousOac
from pwfl.systems.anonymous_oac.participation import counts
from pwfl.systems.anonymous_oac.schemes import NOISES
from pwfl.tables.arrays import joined, to_table

FLOAT_BITS = 32
KEYS = ("realization", "round")


def costs(scenario: AnonymousOac, tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Each realization's participants, records, symbols and seconds on air, and transmit energy.

    Over the air a round takes as many symbols as the model has parameters, however many send. Device i inverts its
    channel, so sends (1 / |c_i|^2) (signal + noise); the signal's energy is at most that of b_i gradients of norm L
    over b_t, or over what stands in its place. A unit of received energy is worth what makes N0 the thermal noise.
    Orthogonally, each participant in turn sends 32 bits a parameter at the given spectral efficiency, with the energy
    that Shannon's formula asks for. Symbols follow each other, one a second and hertz.
    """
    rounds, sums = scenario.training.rounds, (pl.len().alias("transmissions"), pl.col("energy_j").sum())
    return counts(tables["users"], transmissions(scenario, tables), rounds, *sums).with_columns(
        channel_uses=symbols(scenario, tables, pl.lit(rounds)),
        air_seconds=symbols(scenario, tables, pl.lit(rounds)) / scenario.radio.bandwidth_hz,
        transmit_energy_j=pl.col("energy_j").fill_nan(None),
    )


def spent(scenario: AnonymousOac, tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Seconds on air and transmit energy up to and including each round, from 0; see `costs`."""
    sent = transmissions(scenario, tables)
    realizations = tables["users"]["realization"].unique().sort()
    shape = len(realizations), scenario.training.rounds + 1
    place = shape[1] * realizations.search_sorted(sent["realization"]).to_numpy() + sent["round"].to_numpy()

    def so_far(each: np.ndarray | None) -> np.ndarray:
        # By NumPy, row after row: Polars adds up groups in an order that depends on the other realizations.
        return np.bincount(place, each, minlength=shape[0] * shape[1]).reshape(shape).cumsum(axis=1)

    keys = {"realization": realizations.to_numpy(), "round": range(shape[1])}
    rounds = to_table(keys, transmissions=so_far(None), energy_j=so_far(sent["energy_j"].to_numpy()))
    seconds = symbols(scenario, tables, pl.col("round")) / scenario.radio.bandwidth_hz
    return rounds.select(*KEYS, air_seconds_so_far=seconds, transmit_energy_j_so_far=pl.col("energy_j").fill_nan(None))


def symbols(scenario: AnonymousOac, tables: dict[str, pl.DataFrame], rounds: pl.Expr) -> pl.Expr:
    """Symbols on air in some rounds, in which there were as many transmissions as the column of this name says."""
    if in_turn(tables):
        return pl.col("transmissions") * digital_symbols(scenario)
    return (rounds * model_size(scenario)).cast(pl.Float64)


def in_turn(tables: dict[str, pl.DataFrame]) -> bool:
    """Whether participants send one after the other: those do of whom each protects its own update."""
    return NOISES[tables["noise"]["noise"][0]].local


def transmissions(scenario: AnonymousOac, tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Every upload of those who send: the schedule's rows and `energy_j`, NaN over the air without channel noise."""
    radio = scenario.radio
    thermal = dbm_to_w(radio.noise_density_dbm_hz) * db_to_ratio(radio.path_loss_db)  # J, for unit fading
    turns, fixed = in_turn(tables), NOISES[tables["noise"]["noise"][0]].fixed
    schedule = tables["schedule"].with_columns(total=pl.col("batch").sum().over(KEYS), participants=pl.len().over(KEYS))
    sent = joined(schedule, tables["noise"], *KEYS).filter(pl.lit(fixed) | (pl.col("batch" if turns else "total") > 0))
    if turns:
        energy = digital_symbols(scenario) * thermal * np.expm1(np.log(2) * radio.digital_efficiency) / pl.col("gain")
    else:
        signal = (pl.col("batch") / pl.col("divisor") * scenario.training.clip_norm) ** 2
        noise = model_size(scenario) * pl.col("noise_std") ** 2 / pl.col("participants")
        scale = thermal / radio.noise_variance if radio.noise_variance else np.nan
        energy = (signal + noise) / pl.col("gain") * scale
    return sent.with_columns(energy_j=energy)


def digital_symbols(scenario: AnonymousOac) -> float:
    """Symbols of one participant's upload where it sends its update in bits."""
    return model_size(scenario) * FLOAT_BITS / scenario.radio.digital_efficiency


def model_size(scenario: AnonymousOac) -> int:
    """Number of trained parameters."""
    size = features.size(scenario)
    return parameter_count([size.features, *scenario.training.hidden_layers, size.classes])
