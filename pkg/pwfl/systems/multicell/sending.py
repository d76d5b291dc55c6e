"""Who sends what in the system `multicell`, whatever air it goes over."""

from typing import NamedTuple

import numpy as np
import polars as pl

from pwfl.privacy.accountant import RECORD, USER, Claim
from pwfl.privacy.labels import MEANS
from pwfl.systems.multicell.assigned import KEYS
from pwfl.systems.multicell.beyond import sums
from pwfl.systems.multicell.beyond.server import counts
from pwfl.systems.multicell.parameters import Multicell, Training
from pwfl.tables.arrays import to_array

ENFORCED = "record, whatever the data"  # a unit of privacy, where that of a record rests on an assumption


class Sent(NamedTuple):
    """What is sent, arrays of shape (realization, interval, user).

    Attributes
    ----------
    scheduled, noise_std, cell
        Who sends, sigma_i (NaN: none is feasible), and the user's cell.
    counted
        As how many samples the server counts a user.
    records
        Of how many of its records a message sums clipped gradients, at most: K_i; 1 of what is clipped as a whole.
    unit
        A message over this is what the server averages: that many records are expected in a sum.
    """

    keys: dict[str, pl.Series | range]
    scheduled: np.ndarray
    noise_std: np.ndarray
    cell: np.ndarray
    counted: np.ndarray
    records: np.ndarray
    unit: np.ndarray

    @property
    def share(self) -> np.ndarray:
        """A user's in the server's average."""
        return self.counted / np.maximum(self.counted.sum(axis=-1, keepdims=True), 1)

    @property
    def users(self) -> dict[str, pl.Series | range]:
        """Keys of tables of users."""
        return self.keys | {"user": range(self.scheduled.shape[-1])}


def sent_of(scenario: Multicell, frame: pl.DataFrame) -> Sent:
    """What is sent, of users, schedule and noise as `assigned` has them."""
    columns = ("samples", "scheduled", "noise_std", "cell")
    samples, scheduled, noise_std, cell = (to_array(frame, name, *KEYS) for name in columns)
    group = sums.summed_groups(scenario.privacy, cell)
    counted = counts(scenario.training, samples, scheduled, noise_std, group)
    records = samples if sums_records(scenario.training) else np.ones_like(samples)
    unit = records * scenario.data.sampling if scenario.data.sampling else records
    keys = {"realization": frame["realization"].unique().sort(), "interval": range(scheduled.shape[1])}
    return Sent(keys, scheduled, noise_std, cell, counted, records, unit)


def sums_records(training: Training) -> bool:
    """Whether a message is a sum of its records' clipped gradients, and no mean, or update, clipped as a whole."""
    return training.learner == "gradients" and training.clipping == "per_sample"


def moves(scenario: Multicell, samples: np.ndarray) -> dict[str, Claim]:
    """How far a record, and all of a user's, move its message, of K_i `samples`, (realization, user): parts of claims.

    Of a mean clipped as a whole, (11) assumes that no record moves it by more than 2 L / K_i; any can turn it around.
    """
    training, clip = scenario.training, 2 * scenario.training.clip_norm
    moved = {RECORD: Claim("", RECORD, clip), USER: Claim("", USER, clip, samples if sums_records(training) else 1)}
    if training.clipping == "per_user":
        moved |= {RECORD: Claim("", RECORD, clip / samples, assumes=(MEANS,)), ENFORCED: Claim("", ENFORCED, clip)}
    return moved
