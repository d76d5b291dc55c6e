"""The uplink: who occupies which resource block, what that does to the other cells, and at which rates users send."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np
import polars as pl

from pwfl.radio.units import dbm_to_w
from pwfl.systems.multicell.intervals import each_interval
from pwfl.tables.arrays import to_array

if TYPE_CHECKING:
    from pwfl.systems.multicell.scenario import Radio


@dataclass(frozen=True)
class Uplink:
    """The uplink of some realizations.

    Where the channel is drawn anew during the rounds, each interval in which it stays counts as a realization: arrays
    have a row for each pair of both, here and wherever an uplink is handed on.

    Attributes
    ----------
    gain
        Power gains h_i,s (17), shape (realization, station, user).
    cell
        Each user's station, shape (realization, user).
    blocks
        Resource blocks R of each cell.
    bandwidth_hz
        Bandwidth B of a block.
    noise_w
        Thermal noise B N0 in a block.
    max_power_w
        Pmax.
    min_rate_bps
        Rmin.
    realizations
        The rows' realizations; each one's intervals follow each other.
    """

    gain: np.ndarray
    cell: np.ndarray
    blocks: int
    bandwidth_hz: float
    noise_w: float
    max_power_w: float
    min_rate_bps: float
    realizations: Sequence[int]

    @classmethod
    def of(cls, radio: "Radio", tables: dict[str, pl.DataFrame]) -> Self:
        """The uplink of all realizations and intervals in the tables `users` and `links`."""
        users = tables["users"]
        gain = to_array(tables["links"], "gain", "realization", "interval", "station", "user")
        intervals = gain.shape[1]
        return cls(
            gain.reshape(-1, *gain.shape[2:]),
            each_interval(to_array(users, "cell", "realization", "user"), intervals),
            radio.resource_blocks,
            radio.bandwidth_hz,
            dbm_to_w(radio.noise_density_dbm_hz) * radio.bandwidth_hz,
            dbm_to_w(radio.max_power_dbm),
            radio.min_rate_bps,
            each_interval(users["realization"].unique().sort().to_numpy(), intervals).tolist(),
        )

    def heard(self, users: np.ndarray) -> Self:
        """The uplink where no station hears the other users, who can have no block then; shape (realization, user)."""
        return replace(self, gain=np.where(users[:, None], self.gain, 0.0))

    def row(self, number: int) -> str:
        """What a row is of, for messages."""
        realization = self.realizations[number]
        several = self.realizations.count(realization) > 1
        interval = f", interval {number - self.realizations.index(realization)}" if several else ""
        return f"realization {realization}{interval}"

    @property
    def cells(self) -> int:
        """Number of cells."""
        return self.gain.shape[1]

    @property
    def sinr(self) -> float:
        """The signal-to-interference-plus-noise ratio that the minimum rate needs."""
        return threshold(self.min_rate_bps, self.bandwidth_hz)


def occupants(uplink: Uplink, block: np.ndarray) -> np.ndarray:
    """The user on each resource block of each cell, -1 for none, shape (realization, cell, block).

    `block` holds each user's resource block (-1: none), shape (realization, user).
    """
    table = np.full((len(block), uplink.cells, uplink.blocks), -1)
    realization, user = np.nonzero(block >= 0)
    table[realization, uplink.cell[realization, user], block[realization, user]] = user
    return table


def interference(gain: np.ndarray, power_w: np.ndarray, occupant: np.ndarray, cell: int) -> np.ndarray:
    """Power I_s^(n) that a cell's station receives from the other cells' users, watts, eq. (16).

    Parameters
    ----------
    gain
        Power gains, shape (realization, station, user).
    power_w
        Transmit powers, shape (realization, user).
    occupant
        As returned by `occupants`.
    cell
        The cell.

    Returns
    -------
    Shape (realization, block).
    """
    realization = np.arange(len(gain))[:, None, None]
    user = np.maximum(occupant, 0)
    received = np.where(occupant >= 0, gain[realization, cell, user] * power_w[realization, user], 0.0)
    received[:, cell] = 0.0
    return received.sum(axis=1)


def rates(uplink: Uplink, block: np.ndarray, power_w: np.ndarray) -> np.ndarray:
    """Uplink rates (18) of users with a resource block, bit/s; 0 for the others.

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
    """The signal-to-interference-plus-noise ratio that a minimum rate needs, 2^(Rmin/B) - 1.

    Examples
    --------
    >>> round(threshold(360e3, 180e3), 12)
    3.0
    """
    return float(np.expm1(np.log(2) * min_rate_bps / bandwidth_hz))
