"""Channels of the system `multicell`: users, samples and links by Sec. VI-A of Tavangaran et al."""

import numpy as np
import polars as pl
from scipy.special import ndtri

from pwfl import streams
from pwfl.learning import datasets, partition
from pwfl.radio.path_loss import link_gain, rayleigh_power
from pwfl.radio.units import db_to_ratio
from pwfl.systems.multicell import hexagons
from pwfl.systems.multicell.beyond import urban
from pwfl.systems.multicell.beyond.intervals import intervals
from pwfl.systems.multicell.parameters import Data, Multicell
from pwfl.tables.arrays import to_array, to_table

KEYS = ("realization", "user")
MEAN_ONE = 0.5**0.5  # scale of a Rayleigh amplitude of mean power 1
MIN_DISTANCE_M = 1.0  # below this distance, the path loss is constant
MOST_SAMPLES = 10**9  # of a user: more than any data set has; sums of it do not overflow


def run(
    scenario: Multicell, realizations: range, imported: dict[str, pl.DataFrame] | None = None
) -> dict[str, pl.DataFrame]:
    """Make the tables `users` and `links` of some consecutive realizations.

    `imported` contains their tables `imported_users` and `imported_links`; None: channels are drawn. Raises
    datasets.DataError if a realization's numbers of samples are drawn, and exceed those of the data set.
    """
    if imported is None:
        users, links = drawn(scenario, realizations)
    else:
        users = imported["imported_users"]
        links = imported["imported_links"].join(users, on=KEYS, how="left", maintain_order="left")
        east, north = (pl.col(f"station_{axis}") - pl.col(axis) for axis in ("x_m", "y_m"))
        links = links.with_columns(distance_m=(east**2 + north**2).sqrt(), line_of_sight=None).drop(
            "x_m", "y_m", "cell", "samples"
        )
    _, samples = cells_and_samples(scenario, realizations, users)
    return {"users": users.with_columns(samples=pl.Series(samples.ravel())), "links": links}


def cells_and_samples(scenario: Multicell, realizations: range, users: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return each user's cell and samples K_i, drawn if `users` has none, both of shape (realization, user)."""
    cell = to_array(users, "cell", *KEYS)
    if users["samples"].null_count():
        return cell, sample_counts(scenario.seed, scenario.data, realizations, cell.shape[1])
    return cell, to_array(users, "samples", *KEYS)


def drawn(scenario: Multicell, realizations: range) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Draw users' positions and cells, their samples null, and links to the base stations of a hexagonal grid.

    Positions, line of sight and shadow fading are the same in all coherence intervals.
    """
    users, distance = located(scenario, realizations)
    gain, line_of_sight = gains(scenario, realizations, distance)
    axes = dict(zip(("interval", "station", "user"), map(range, gain.shape[1:]), strict=True))
    sight = None if line_of_sight is None else pl.Series(np.broadcast_to(line_of_sight[:, None], gain.shape).ravel())
    links = to_table({"realization": realizations} | axes, distance_m=distance[:, None], gain=gain)
    place = hexagons.stations(scenario.network.rings, scenario.network.cell_radius_m)[links["station"].to_numpy()]
    return users, links.with_columns(line_of_sight=sight, station_x_m=place[:, 0], station_y_m=place[:, 1])


def located(scenario: "Multicell", realizations: range) -> tuple[pl.DataFrame, np.ndarray]:
    """Draw users' positions and cells, samples null; and distances to stations, m, (realization, station, user)."""
    network = scenario.network
    station = hexagons.stations(network.rings, network.cell_radius_m)
    half = hexagons.half_side(network.rings, network.cell_radius_m)
    position = half * (2 * streams.uniforms(scenario.seed, "position", realizations, (network.users, 2)) - 1)
    dx, dy = (position[:, None, :, axis] - station[:, axis, None] for axis in range(2))
    distance = np.sqrt(dx**2 + dy**2)
    keys = {"realization": realizations, "user": range(network.users)}
    users = to_table(keys, x_m=position[..., 0], y_m=position[..., 1], cell=distance.argmin(axis=1))
    return users.with_columns(samples=None), distance


def gains(scenario: Multicell, realizations: range, distance_m: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Draw power gains of links, shape (realization, interval, station, user), and whether they have line of sight.

    `distance_m` has shape (realization, station, user), as has the line of sight; it is None for the path loss (17),
    which does not model it. Only the Rayleigh fading is drawn again in each interval.
    """
    seed, radio, shape = scenario.seed, scenario.radio, distance_m.shape[1:]
    # One stream per interval: its channel does not depend on their number.
    purposes = ["fading", *(f"fading/{interval}" for interval in range(1, intervals(scenario)))]
    uniform = np.stack([streams.uniforms(seed, purpose, realizations, shape) for purpose in purposes], axis=1)
    if radio.path_loss == "power_law":
        fading = rayleigh_power(uniform, radio.fading_scale)
        beyond = np.maximum(distance_m, MIN_DISTANCE_M)[:, None]
        return link_gain(beyond, radio.frequency_hz, radio.path_loss_exponent, fading), None  # (17)
    environment = urban.ENVIRONMENTS[radio.path_loss]
    beyond = np.maximum(distance_m, urban.DISTANCE_M[0])
    probability = urban.los_probability(environment, beyond)
    line_of_sight = streams.uniforms(seed, "line_of_sight", realizations, shape) < probability
    normal = ndtri(streams.uniforms(seed, "shadowing", realizations, shape))
    loss = urban.path_loss_db(environment, beyond, radio.frequency_hz, line_of_sight)
    loss += urban.shadowing_db(environment, line_of_sight, normal)
    return rayleigh_power(uniform, MEAN_ONE) * db_to_ratio(-loss)[:, None], line_of_sight


def sample_counts(seed: int, data: Data, realizations: range, users: int) -> np.ndarray:
    """Draw the numbers of training samples K_i, round(offset + lognormal), int64, shape (realization, user).

    With `samples_total`, sizes are scaled to that sum by largest remainders, and every user has at least one sample.
    With `partition: given`, users have the numbers of samples of the data set's users.
    Raises datasets.DataError if a realization needs more samples than there are.
    """
    if data.content is not None and data.content.users:
        held = np.array(data.content.users)
        return np.stack([partition.samples_by_user(held, users, seed, realization) for realization in realizations])
    normal = ndtri(streams.uniforms(seed, "samples", realizations, (users,)))
    size = data.samples_offset + np.exp(data.samples_log_mean + data.samples_log_sd * normal)
    counts = np.clip(np.rint(size), 1, MOST_SAMPLES).astype(np.int64)
    if data.samples_total is not None:
        counts = _apportion(size, data.samples_total)
    total, available = counts.sum(axis=1), datasets.size(data).train
    if (total > available).any():
        worst = int(total.argmax())
        raise datasets.DataError(
            f"realization {realizations[worst]}: the users hold {total[worst]} samples, but {data.dataset} has only "
            f"{available}; lower network.users, data.samples_offset or data.samples_log_mean, or set "
            "data.samples_total"
        )
    return counts


def _apportion(size: np.ndarray, total: int) -> np.ndarray:
    """Return integers 1 + n with row sums `total`, where n is in proportion to `size`, rounded."""
    users = size.shape[1]
    share = (total - users) * size / size.sum(axis=1, keepdims=True)
    counts = np.floor(share).astype(np.int64)
    left = total - users - counts.sum(axis=1, keepdims=True)
    rank = (counts - share).argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    return 1 + counts + (rank < left)
