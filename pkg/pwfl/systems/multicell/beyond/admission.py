"""Admission of users to a resource block that others already occupy, and the powers for it.

A block's users, at most one per cell, are feasible if powers up to Pmax exist that give each of them the rate Rmin.
With powers in units of Pmax and gains as signal-to-noise ratios g at Pmax, the least powers solve M p = theta, where M
has g_i,s_i on its diagonal and -theta g_k,s_j off it: an M-matrix, so powers exist if its inverse is not negative. The
paper's test (34) considers only the user who enters. A user who enters adds a row and a column to M, one who leaves
removes them. So the inverse is stored, and both are a rank-one change of it.
"""

from typing import Self

import numpy as np

from pwfl.systems.multicell.interference import Uplink

MOST_POWER = 1 - 1e-9  # largest power over Pmax, with a margin for rounding


class Blocks:
    """Some resource blocks of some rows of an uplink: their users, `user`, and the inverses of M, `inverse`."""

    def __init__(self, snr: np.ndarray, sinr: float, rows: np.ndarray, blocks: int):
        """Create empty blocks, `blocks` in each of `rows` of `snr` (`signal_to_noise`); rows may be repeated.

        `sinr` is the ratio theta that the minimum rate requires.
        """
        self.snr, self.sinr, self.rows = snr, sinr, rows
        cells = snr.shape[2]
        self.user = np.full((len(rows), blocks, cells), -1)  # of each cell, -1 for none
        self.inverse = np.zeros((len(rows), blocks, cells, cells))  # of M, zero at cells without a user

    def select_rows(self, chosen: np.ndarray) -> Self:
        """Return a copy of some rows."""
        copy = type(self)(self.snr, self.sinr, self.rows[chosen], 0)
        copy.user, copy.inverse = self.user[chosen], self.inverse[chosen]
        return copy

    def vacate(self, cell: np.ndarray) -> None:
        """Remove the user of a cell from every block; `cell` of each row has shape (row,)."""
        row = np.arange(len(self.rows))
        column = self.inverse[row, :, :, cell]  # (row, block, cell)
        line = self.inverse[row, :, cell]
        corner = column[row, :, cell]
        share = np.divide(1.0, corner, where=corner > 0, out=np.zeros_like(corner))
        self.inverse -= column[..., None] * (line * share[..., None])[..., None, :]
        self.inverse[row, :, cell] = 0.0
        self.inverse[row, :, :, cell] = 0.0
        self.user[row, :, cell] = -1

    def largest_power(self, cell: np.ndarray, candidate: np.ndarray) -> np.ndarray:
        """Compute the largest of the block's powers over Pmax if a candidate enters, infinite if it cannot.

        `cell`, shape (row,), has no users yet; `candidate` are users of it, shape (row, candidate). Returns shape (row,
        block, candidate).
        """
        undisturbed, disturbed, before, signal, caused = self._bordering(cell, candidate)
        pivot = signal[:, None] - np.vecdot(disturbed[:, :, None], caused[:, None])
        power = np.divide(undisturbed[..., None], pivot, where=pivot > 0, out=np.full_like(pivot, np.inf))
        others = np.matvec(self.inverse[:, :, None], caused[:, None])  # (row, block, candidate, cell)
        others *= np.where(np.isfinite(power), power, 0.0)[..., None]
        others += before[:, :, None]
        largest = np.maximum(others.max(axis=-1), power)
        return np.where(largest <= MOST_POWER, largest, np.inf)

    def enter(self, cell: np.ndarray, user: np.ndarray) -> None:
        """Put users on the blocks of a cell without users, -1 for none, shape (row, block)."""
        row, block = np.nonzero(user >= 0)
        entering, station = user[row, block], cell[row]
        _, disturbed, _, signal, caused = self._bordering(cell, np.maximum(user, 0))
        disturbed, signal, caused = disturbed[row, block], signal[row, block], caused[row, block]
        inverse = self.inverse[row, block]
        pivot = (signal - np.vecdot(disturbed, caused))[:, None]
        rise = np.matvec(inverse, caused) / pivot
        row_numbers = np.arange(len(row))
        inverse += rise[:, :, None] * disturbed[:, None]
        inverse[row_numbers, :, station] = rise
        inverse[row_numbers, station] = disturbed / pivot
        inverse[row_numbers, station, station] = 1 / pivot[:, 0]
        self.inverse[row, block] = inverse
        self.user[row, block, station] = entering

    def _bordering(self, cell: np.ndarray, candidate: np.ndarray) -> tuple[np.ndarray, ...]:
        """Compute what candidates of a cell add to M, times the inverse if it is the same for all candidates.

        Returns theta times interference and noise over noise at the cell, shape (row, block); the added row times the
        inverse, and powers of the users on the block, both of shape (row, block, cell); the candidates' ratios at their
        base station, shape (row, candidate); and the added column, shape (row, candidate, cell). Signs are positive.
        """
        row, at = self.rows[:, None], cell[:, None]
        caused = self.sinr * self.snr[row, candidate]
        signal = self.snr[row, candidate, at]
        # For an empty cell, this value is multiplied by a zero of the inverse.
        received = self.sinr * self.snr[row[..., None], np.maximum(self.user, 0), at[..., None]]
        before = self.sinr * self.inverse.sum(axis=-1)
        undisturbed = self.sinr + np.vecdot(received, before)
        return undisturbed, np.vecmat(received, self.inverse), before, signal, caused


def signal_to_noise(uplink: Uplink) -> np.ndarray:
    """Compute users' signal-to-noise ratios at each base station with Pmax, shape (realization, user, station)."""
    return np.ascontiguousarray(uplink.gain.transpose(0, 2, 1)) * (uplink.max_power_w / uplink.noise_w)
