"""Channel of the system `multicell`: Sec. VI-A of Tavangaran et al."""

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from scipy.special import ndtri

from pwfl import streams
from pwfl.learning import datasets
from pwfl.radio.path_loss import link_gain, rayleigh_power
from pwfl.radio.units import dbm_to_w
from pwfl.systems.multicell import hexagons
from pwfl.tables.arrays import to_table

if TYPE_CHECKING:
    from pwfl.systems.multicell.scenario import Data, Multicell

MAX_ATTEMPTS = 1000
MOST_SAMPLES = 10**9  # of a user: more than any data set has, and sums of it stay whole numbers
NOISE_RANGE = (1.0, 6.0)  # start values of K_i sigma_i, in multiples of Nmin


class StartValueError(ValueError):
    """No start values were found that satisfy (21)."""


def run(scenario: "Multicell", realizations: range) -> dict[str, pl.DataFrame]:
    """Users and links of some consecutive realizations.

    Raises
    ------
    datasets.DataError
        If the users of a realization hold more samples than the data set has.
    StartValueError
        If some realization's start values keep violating (21).
    """
    seed, network, radio = scenario.seed, scenario.network, scenario.radio
    users = network.users
    station = hexagons.stations(network.rings, network.cell_radius_m)
    half = hexagons.half_side(network.rings, network.cell_radius_m)

    position = half * (2 * streams.uniforms(seed, "position", realizations, (users, 2)) - 1)
    dx, dy = (position[:, None, :, axis] - station[:, axis, None] for axis in range(2))
    distance = np.sqrt(dx**2 + dy**2)  # (realization, station, user)
    fading = rayleigh_power(streams.uniforms(seed, "fading", realizations, distance.shape[1:]), radio.fading_scale)
    beyond = np.maximum(distance, radio.min_distance_m)
    gains = link_gain(beyond, radio.frequency_hz, radio.path_loss_exponent, fading)  # (17)
    cell = distance.argmin(axis=1)
    samples = sample_counts(seed, scenario.data, realizations, users)
    block, power, noise = start_values(scenario, realizations, cell, samples, len(station))

    users_table = to_table(
        {"realization": realizations, "user": range(users)},
        x_m=position[..., 0],
        y_m=position[..., 1],
        cell=cell,
        samples=samples,
        start_resource_block=block,
        start_power_w=power,
        start_noise_std=noise,
    ).with_columns(pl.col("start_resource_block").replace(-1, None))
    keys = {"realization": realizations, "station": range(len(station)), "user": range(users)}
    return {"users": users_table, "links": to_table(keys, distance_m=distance, gain=gains)}


def sample_counts(seed: int, data: "Data", realizations: range, users: int) -> np.ndarray:
    """Numbers of training samples K_i, round(offset + lognormal), int64, shape (realization, user).

    With `samples_total`, sizes are scaled to that sum by largest remainders, every user keeping at
    least one sample.

    Raises
    ------
    datasets.DataError
        Where a realization needs more samples than there are.
    """
    normal = ndtri(streams.uniforms(seed, "samples", realizations, (users,)))
    size = data.samples_offset + np.exp(data.samples_log_mean + data.samples_log_sd * normal)
    counts = np.clip(np.rint(size), 1, MOST_SAMPLES).astype(np.int64)
    if data.samples_total is not None:
        counts = _apportion(size, data.samples_total)
    total, available = counts.sum(axis=1), datasets.SIZES[data.dataset].train
    if (total > available).any():
        worst = int(total.argmax())
        raise datasets.DataError(
            f"realization {realizations[worst]}: the users hold {total[worst]} samples, but {data.dataset} has "
            f"{available}; lower network.users, data.samples_offset or data.samples_log_mean, or set data.samples_total"
        )
    return counts


def start_values(
    scenario: "Multicell", realizations: range, cell: np.ndarray, samples: np.ndarray, cells: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random resource blocks, powers and noise that satisfy (21)-(25), drawn anew until they do.

    Parameters
    ----------
    cell
        Each user's station, shape (realization, user).
    samples
        K_i, same shape.
    cells
        Number of stations.

    Returns
    -------
    block
        Resource blocks, -1 for none, same shape.
    power
        Powers, watts.
    noise
        Standard deviations of the noise, per coordinate.

    Raises
    ------
    StartValueError
        If a realization's keep violating (21).
    """
    seed, privacy = scenario.seed, scenario.privacy
    blocks, users = scenario.radio.resource_blocks, cell.shape[1]
    block = np.full(cell.shape, -1)
    power, noise = np.zeros(cell.shape), np.zeros(cell.shape)
    missing = np.arange(len(realizations))
    for attempt in range(MAX_ATTEMPTS):
        draw = streams.uniforms(seed, f"start/{attempt}", realizations, (3, users))[missing]
        order = streams.uniforms(seed, f"start/blocks/{attempt}", realizations, (cells, blocks))[missing]
        block[missing] = round_robin(cell[missing], draw[:, 0], order)
        power[missing] = dbm_to_w(scenario.radio.max_power_dbm) * draw[:, 1]
        low, high = NOISE_RANGE
        noise[missing] = privacy.min_noise / samples[missing] * (low + (high - low) * draw[:, 2])
        scheduled = block >= 0
        error = (scheduled * samples * noise**2).sum(axis=1)
        missing = np.flatnonzero(error > privacy.max_noise_error * (scheduled * samples).sum(axis=1))
        if not missing.size:
            return block, power, noise
    raise StartValueError(
        f"realization {realizations[missing[0]]}: {MAX_ATTEMPTS} draws of start values all violate (21), the bound on "
        "the noise error; lower privacy.min_noise, raise privacy.max_noise_error or give users more samples "
        "(data.samples_offset, data.samples_log_mean)"
    )


def round_robin(cell: np.ndarray, user_order: np.ndarray, block_order: np.ndarray) -> np.ndarray:
    """One user per resource block in each cell, users and blocks in random order, until either runs out.

    Parameters
    ----------
    cell
        Each user's station, shape (realization, user).
    user_order
        Numbers by which users are ordered, same shape.
    block_order
        Numbers by which a cell's blocks are ordered, shape (realization, cell, block).

    Returns
    -------
    Each user's resource block, -1 for none, shape (realization, user).
    """
    order = np.lexsort((user_order, cell))
    sorted_cell = np.take_along_axis(cell, order, axis=1)
    position = np.broadcast_to(np.arange(cell.shape[1]), cell.shape)
    first = np.concatenate([np.ones((len(cell), 1), bool), np.diff(sorted_cell, axis=1) != 0], axis=1)
    rank = position - np.maximum.accumulate(np.where(first, position, 0), axis=1)
    blocks = block_order.argsort(axis=2)
    served = rank < blocks.shape[2]
    realization = np.arange(len(cell))[:, None]
    chosen = np.where(served, blocks[realization, sorted_cell, np.where(served, rank, 0)], -1)
    result = np.empty_like(chosen)
    np.put_along_axis(result, order, chosen, axis=1)
    return result


def _apportion(size: np.ndarray, total: int) -> np.ndarray:
    """Whole numbers of at least one, proportional to `size`, whose rows sum to `total`."""
    users = size.shape[1]
    share = (total - users) * size / size.sum(axis=1, keepdims=True)
    counts = np.floor(share).astype(np.int64)
    left = total - users - counts.sum(axis=1, keepdims=True)
    rank = (counts - share).argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    return 1 + counts + (rank < left)
