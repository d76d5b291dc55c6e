"""The uplink: users on resource blocks, interference between cells, and rates."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import polars as pl

from pwfl.radio.units import dbm_to_w
from pwfl.systems.multicell.parameters import Radio
from pwfl.tables.arrays import to_array


@dataclass(frozen=True)
class Uplink:
    """The uplink of some realizations, in one coherence interval."""

    gain: np.ndarray  # power gains h_i,s (17), shape (realization, station, user)
    cell: np.ndarray  # base station that serves each user, shape (realization, user)
    blocks: int  # R, resource blocks of each cell
    bandwidth_hz: float  # B, of a resource block
    noise_w: float  # thermal noise power B N0 in a resource block
    max_power_w: float  # Pmax
    min_rate_bps: float  # Rmin
    realizations: Sequence[int]  # number of the realization in each row

    @classmethod
    def from_tables(cls, radio: Radio, users: pl.DataFrame, links: pl.DataFrame) -> Self:
        """Build the uplink of all realizations in the tables `users` and `links`; `links` has one interval."""
        return cls(
            to_array(links, "gain", "realization", "station", "user"),
            to_array(users, "cell", "realization", "user"),
            radio.resource_blocks,
            radio.bandwidth_hz,
            dbm_to_w(radio.noise_density_dbm_hz) * radio.bandwidth_hz,
            dbm_to_w(radio.max_power_dbm),
            radio.min_rate_bps,
            users["realization"].unique().sort().to_list(),
        )

    @property
    def cells(self) -> int:
        """Number of cells."""
        return self.gain.shape[1]

    @property
    def sinr(self) -> float:
        """Signal-to-interference-plus-noise ratio that the minimum rate requires."""
        return threshold(self.min_rate_bps, self.bandwidth_hz)


def occupants(uplink: Uplink, block: np.ndarray) -> np.ndarray:
    """List the user on each resource block of each cell, -1 for none, shape (realization, cell, block).

    `block` contains each user's resource block (-1: none), shape (realization, user).
    """
    table = np.full((len(block), uplink.cells, uplink.blocks), -1)
    realization, user = np.nonzero(block >= 0)
    table[realization, uplink.cell[realization, user], block[realization, user]] = user
    return table


def round_robin(cell: np.ndarray, user_order: np.ndarray, block_order: np.ndarray) -> np.ndarray:
    """Assign each cell's users to its resource blocks, one each, until users or blocks run out (Algorithm 2).

    Users are sorted by `user_order`, of the shape of `cell`, (realization, user); a cell's blocks by `block_order`,
    shape (realization, cell, block). Returns each user's block, -1 for none, shape (realization, user).
    """
    order = user_order.argsort(axis=1, kind="stable")
    member, present = members(np.take_along_axis(cell, order, axis=1), block_order.shape[1])
    block = block_order.argsort(axis=2)
    row, station, turn = np.nonzero(present[..., : block.shape[2]])
    result = np.full(cell.shape, -1)
    result[row, order[row, member[row, station, turn]]] = block[row, station, turn]
    return result


def members(cell: np.ndarray, cells: int, least: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """List the users of each cell, padded to the largest cell or to `least` entries, and which entries are real.

    `cell` has shape (realization, user); the results have shape (realization, cell, member).
    """
    realization = np.arange(len(cell))[:, None]
    size = np.bincount((realization * cells + cell).ravel(), minlength=len(cell) * cells).reshape(-1, cells, 1)
    position = np.arange(max(int(size.max()), least))
    order = np.argsort(cell, axis=1, kind="stable")
    place = np.minimum(size.cumsum(axis=1) - size + position, cell.shape[1] - 1)
    return order[realization[..., None], place], position < size


def interference(gain: np.ndarray, power_w: np.ndarray, occupant: np.ndarray, cell: int) -> np.ndarray:
    """Compute the interference power I_s^(n) in a cell from other cells, watts, eq. (16), (realization, block).

    `gain` has shape (realization, station, user), `power_w` (realization, user); `occupant` is as from `occupants`.
    """
    realization = np.arange(len(gain))[:, None, None]
    user = np.maximum(occupant, 0)
    received = np.where(occupant >= 0, gain[realization, cell, user] * power_w[realization, user], 0.0)
    received[:, cell] = 0.0
    return received.sum(axis=1)


def rates(uplink: Uplink, block: np.ndarray, power_w: np.ndarray) -> np.ndarray:
    """Compute the uplink rates (18) of users with a resource block, bit/s; 0 for the others.

    `block` (-1: none), `power_w` and the result have shape (realization, user).
    """
    occupant = occupants(uplink, block)
    received = [interference(uplink.gain, power_w, occupant, s) for s in range(uplink.cells)]
    disturbance = np.stack(received, axis=1) + uplink.noise_w
    realization, user = np.nonzero(block >= 0)
    station = uplink.cell[realization, user]
    signal = power_w[realization, user] * uplink.gain[realization, station, user]
    rate = np.zeros(power_w.shape)
    sinr = signal / disturbance[realization, station, block[realization, user]]
    rate[realization, user] = uplink.bandwidth_hz / np.log(2) * np.log1p(sinr)
    return rate


def threshold(min_rate_bps: float, bandwidth_hz: float) -> float:
    """Compute the signal-to-interference-plus-noise ratio that a minimum rate requires, 2^(Rmin/B) - 1."""
    return float(np.expm1(np.log(2) * min_rate_bps / bandwidth_hz))
