"""Who occupies which resource block, and what that does to the other cells."""

import numpy as np


def occupants(block: np.ndarray, cell: np.ndarray, cells: int, blocks: int) -> np.ndarray:
    """The user on each resource block of each cell, -1 for none, shape (realization, cell, block).

    `block` (-1: none) and `cell` have shape (realization, user).
    """
    table = np.full((len(block), cells, blocks), -1)
    realization, user = np.nonzero(block >= 0)
    table[realization, cell[realization, user], block[realization, user]] = user
    return table


def interference(gain: np.ndarray, power_w: np.ndarray, occupant: np.ndarray, cell: int) -> np.ndarray:
    """Power I_s^(n) that a cell's station receives from the other cells' users, watts, eq. (16).

    `gain` has shape (realization, station, user), `power_w` (realization, user), `occupant` as
    returned by `occupants`. The result has shape (realization, block).
    """
    realization = np.arange(len(gain))[:, None, None]
    user = np.maximum(occupant, 0)
    received = np.where(occupant >= 0, gain[realization, cell, user] * power_w[realization, user], 0.0)
    received[:, cell] = 0.0
    return received.sum(axis=1)


def threshold(min_rate_bps: float, bandwidth_hz: float) -> float:
    """The signal-to-interference-plus-noise ratio that the minimum rate needs, 2^(Rmin/B) - 1."""
    return float(np.expm1(np.log(2) * min_rate_bps / bandwidth_hz))
