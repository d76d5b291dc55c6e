"""Start values of the schedulers (Algorithm 2): each user's random resource block, power and noise."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from pwfl.radio.units import dbm_to_w
from pwfl.systems.multicell.beyond.intervals import uniforms
from pwfl.systems.multicell.bounds import alternatives
from pwfl.systems.multicell.interference import round_robin
from pwfl.systems.multicell.parameters import Multicell
from pwfl.tables.arrays import to_table

MAX_ATTEMPTS = 1000
NOISE_RANGE = (1.0, 6.0)  # of K_i sigma_i, in multiples of Nmin
READS = (  # parameters of the stage `schedule` that start values depend on
    "seed",
    "radio.resource_blocks",
    "radio.max_power_dbm",
    "privacy.max_noise_error",
    "privacy.min_noise",
    "bounded",
    "start_noise",
)


class StartValueError(ValueError):
    """No start values were found that satisfy (21)."""


class StartValues(NamedTuple):
    """Start values, each of shape (realization, user)."""

    block: np.ndarray  # resource block, -1 for none
    power_w: np.ndarray
    noise_std: np.ndarray  # sigma_i, per coordinate, in the units of `privacy.bounds`; NaN: no scheme uses it


def drawn(
    scenario: Multicell, realizations: Sequence[int], cell: np.ndarray, samples: np.ndarray, cells: int
) -> StartValues:
    """Draw random resource blocks, powers (watts) and noise, and repeat the draw until they satisfy (21)-(25).

    `realizations` increase. `cell`, each user's of `cells` cells, and `samples` K_i have shape (realization, user). If
    the scenario is not `bounded`, the first draw need not satisfy (21). Noise that no scheme uses is NaN. Raises
    StartValueError if a realization's start values violate (21) in all MAX_ATTEMPTS draws.
    """
    seed, blocks, users = scenario.seed, scenario.radio.resource_blocks, cell.shape[1]
    start = StartValues(np.full(cell.shape, -1), np.zeros(cell.shape), np.full(cell.shape, np.nan))
    missing = np.arange(len(realizations))
    typical = np.zeros(len(realizations))  # noise error of a draw, mean over attempts
    for attempt in range(MAX_ATTEMPTS):
        draw = uniforms(seed, f"start/{attempt}", realizations, (3, users))[missing]
        order = uniforms(seed, f"start/blocks/{attempt}", realizations, (cells, blocks))[missing]
        start.block[missing] = round_robin(cell[missing], draw[:, 0], order)
        start.power_w[missing] = dbm_to_w(scenario.radio.max_power_dbm) * draw[:, 1]
        if scenario.start_noise:
            low, high = NOISE_RANGE
            start.noise_std[missing] = scenario.privacy.min_noise / samples[missing] * (low + (high - low) * draw[:, 2])
        if not scenario.bounded:
            return start
        scheduled = start.block >= 0
        error = (scheduled * samples * start.noise_std**2).sum(axis=1)
        weight = (scheduled * samples).sum(axis=1)
        typical += error / weight / MAX_ATTEMPTS
        missing = np.flatnonzero(error > scenario.privacy.max_noise_error * weight)
        if not missing.size:
            return start
    first, privacy = missing[0], scenario.privacy
    raise StartValueError(
        f"realization {realizations[first]}: all {MAX_ATTEMPTS} draws of start values violate the constraint (21) "
        f"of the paper (docs/explanation/multicell.md) on the noise error, whose mean is {typical[first]:.3g} with "
        f"privacy.min_noise: {privacy.min_noise:g} and {samples[first].mean():.3g} samples per user, above "
        f"privacy.max_noise_error: {privacy.max_noise_error:g}; set "
        f"{alternatives(privacy, typical[missing].max())}, or give users more samples"
    )


def table(start: StartValues, realizations: Sequence[int]) -> pl.DataFrame:
    """Make the table `start_values`."""
    keys = {"realization": realizations, "user": range(start.block.shape[1])}
    columns = {"resource_block": start.block, "power_w": start.power_w, "noise_std": start.noise_std}
    return to_table(keys, **columns).with_columns(
        pl.col("resource_block").replace(-1, None), pl.col("noise_std").fill_nan(None)
    )
