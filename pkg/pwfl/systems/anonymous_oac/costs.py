"""What the participants' uploads take: symbols and seconds on air, transmit energy."""

import numpy as np
import polars as pl

from pwfl.learning import features
from pwfl.radio.units import db_to_ratio, dbm_to_w
from pwfl.systems.anonymous_oac.parameters import AnonymousOac
from pwfl.systems.anonymous_oac.schemes import MECHANISMS
from pwfl.tables.arrays import joined, to_table
from pwfl.training.models import network, parameter_count

FLOAT_BITS = 32
DIGITAL_EFFICIENCY = 2.0  # bit/s/Hz, of orthogonal transmission
THERMAL_DBM_HZ, PATH_LOSS_DB = -174.0, 100.0  # what N0 stands for, and the loss of all: they set the scale of energies
KEYS = ("realization", "round")


def spent(scenario: AnonymousOac, tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Symbols, seconds on air and joules of each round.

    Over the air a round takes as many symbols as the model has parameters, however many send. Device i inverts its
    channel, so sends (1 / |c_i|^2) (signal + noise); the signal's energy is at most that of b_i gradients of norm L
    over b_t, or over what stands in its place. A unit of received energy is worth what makes N0 the thermal noise.
    Orthogonally, each participant in turn sends 32 bits a parameter at the given spectral efficiency, with the energy
    that Shannon's formula asks for. Symbols follow each other, one a second and hertz.
    """
    uploads, count = transmissions(scenario, tables), scenario.training.rounds
    realizations = tables["users"]["realization"].unique().sort()
    place = count * realizations.search_sorted(uploads["realization"]).to_numpy() + uploads["round"].to_numpy() - 1
    # By NumPy, row after row: Polars adds up groups in an order that depends on the other realizations.
    sums = {"transmissions": None, "energy_j": uploads["energy_j"].to_numpy()}
    shape = len(realizations), count
    sums = {name: np.bincount(place, sum_, minlength=count * shape[0]).reshape(shape) for name, sum_ in sums.items()}
    rounds = to_table({"realization": realizations, "round": range(1, count + 1)}, **sums)
    symbols = pl.lit(float(model_size(scenario)))
    if in_turn(tables):
        symbols = pl.col("transmissions") * digital_symbols(scenario)
    seconds = symbols / scenario.radio.bandwidth_hz
    return rounds.select(*KEYS, symbols=symbols, seconds=seconds, joules=pl.col("energy_j").fill_nan(None))


def in_turn(tables: dict[str, pl.DataFrame]) -> bool:
    """Whether participants send one after the other: those do of whom each protects its own update."""
    return MECHANISMS[tables["noise"]["noise"][0]].local


def uploaded(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Every upload of those who send: rows of schedule and noise."""
    turns, fixed = in_turn(tables), MECHANISMS[tables["noise"]["noise"][0]].fixed
    schedule = tables["schedule"].with_columns(total=pl.col("batch").sum().over(KEYS), participants=pl.len().over(KEYS))
    return joined(schedule, tables["noise"], *KEYS).filter(pl.lit(fixed) | (pl.col("batch" if turns else "total") > 0))


def transmissions(scenario: AnonymousOac, tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Every upload, and `energy_j`, NaN over the air without channel noise."""
    radio, sent = scenario.radio, uploaded(tables)
    thermal = dbm_to_w(THERMAL_DBM_HZ) * db_to_ratio(PATH_LOSS_DB)  # J, for unit fading
    if in_turn(tables):
        power = thermal * np.expm1(np.log(2) * DIGITAL_EFFICIENCY)
        energy = digital_symbols(scenario) * power / pl.col("fading_gain")
    else:
        signal = (pl.col("batch") / pl.col("divisor") * scenario.training.clip_norm) ** 2
        noise = model_size(scenario) * pl.col("update_noise_std") ** 2 / pl.col("participants")
        scale = thermal / radio.noise_variance if radio.noise_variance else np.nan
        energy = (signal + noise) / pl.col("fading_gain") * scale
    return sent.with_columns(energy_j=energy)


def digital_symbols(scenario: AnonymousOac) -> float:
    """Symbols of one participant's upload where it sends its update in bits."""
    return model_size(scenario) * FLOAT_BITS / DIGITAL_EFFICIENCY


def model_size(scenario: AnonymousOac) -> int:
    """Number of trained parameters."""
    return parameter_count(network(scenario.training, features.size(scenario)))
