"""Costs of the participants' uploads: channel uses, airtime and radiated energy."""

import numpy as np
import polars as pl

from pwfl.learning import features
from pwfl.radio.units import db_to_ratio, dbm_to_w
from pwfl.systems.anonymous_oac.parameters import AnonymousOac
from pwfl.systems.anonymous_oac.schemes import MECHANISMS, Mechanism
from pwfl.tables.arrays import joined, to_table
from pwfl.training.models import network, parameter_count

FLOAT_BITS = 32
DIGITAL_EFFICIENCY = 2.0  # bit/s/Hz, of orthogonal transmission
THERMAL_DBM_HZ, PATH_LOSS_DB = -174.0, 100.0  # thermal noise that N0 represents, and path loss: the scale of energies
KEYS = ("realization", "round")


def spent(scenario: AnonymousOac, tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Compute channel uses (`symbols`), airtime (s) and radiated energy (J) of each round.

    Over the air, a round uses one symbol per parameter of the model, however many devices send. Device i inverts its
    channel, so it radiates (1 / |c_i|^2) (signal + noise). The signal's energy is at most that of b_i gradients of norm
    L over b_t, or over the divisor that replaces b_t. The unit of received energy is such that N0 is the thermal noise.
    In turn, each participant sends 32 bits per parameter at the spectral efficiency DIGITAL_EFFICIENCY, with the energy
    of Shannon's formula. Symbols are sent one after the other, one per second and hertz.
    """
    uploads, count = transmissions(scenario, tables), scenario.training.rounds
    realizations = tables["users"]["realization"].unique().sort()
    place = count * realizations.search_sorted(uploads["realization"]).to_numpy() + uploads["round"].to_numpy() - 1
    # Summed by NumPy, row by row: the order in which Polars sums groups depends on the other realizations.
    sums = {"transmissions": None, "energy_j": uploads["energy_j"].to_numpy()}
    shape = len(realizations), count
    sums = {name: np.bincount(place, sum_, minlength=count * shape[0]).reshape(shape) for name, sum_ in sums.items()}
    rounds = to_table({"realization": realizations, "round": range(1, count + 1)}, **sums)
    symbols = pl.lit(float(model_size(scenario)))
    if in_turn(tables):
        symbols = pl.col("transmissions") * digital_symbols(scenario)
    seconds = symbols / scenario.radio.bandwidth_hz
    return rounds.select(*KEYS, symbols=symbols, seconds=seconds, joules=pl.col("energy_j").fill_nan(None))


def mechanism_of(tables: dict[str, pl.DataFrame]) -> Mechanism:
    """Return the mechanism in the table `noise`, the same in all rounds."""
    return MECHANISMS[tables["noise"]["noise"][0]]


def in_turn(tables: dict[str, pl.DataFrame]) -> bool:
    """Return whether participants send one after the other, as they do if each protects its own update."""
    return mechanism_of(tables).local


def uploaded(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Join the rows of `schedule` in which a device sends with `noise`: one row per upload."""
    kind, sent = mechanism_of(tables), tables["schedule"]
    sent = sent.with_columns(total=pl.col("batch").sum().over(KEYS), participants=pl.len().over(KEYS))
    records = pl.col("batch" if kind.local else "total")
    return joined(sent, tables["noise"], *KEYS).filter(pl.lit(kind.fixed) | (records > 0))


def transmissions(scenario: AnonymousOac, tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Return `uploaded` with each upload's radiated energy `energy_j` (J), NaN over the air without channel noise."""
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
    """Return the number of symbols of one participant's upload if it sends its update in bits."""
    return model_size(scenario) * FLOAT_BITS / DIGITAL_EFFICIENCY


def model_size(scenario: AnonymousOac) -> int:
    """Return the number of trained parameters."""
    return parameter_count(network(scenario.training, features.size(scenario)))
