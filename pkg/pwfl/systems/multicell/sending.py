"""Messages that scheduled users send in the system `multicell`, over any air interface."""

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

ENFORCED = "record, whatever the data"  # unit of privacy of a record without assumptions on the data


class Sent(NamedTuple):
    """Messages of the scheduled users; arrays have shape (realization, interval, user).

    Attributes
    ----------
    scheduled, noise_std, cell
        Whether a user sends, boolean; sigma_i (NaN: no noise is feasible); the number of the user's cell.
    counted
        Number of samples as which a user counts in the server's average (`server.counts`).
    records
        Largest number of clipped terms in a message: K_i gradients of records, or 1 if it is clipped as a whole.
    unit
        Divisor of a message before the server averages it: the expected number of those terms.
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
        """Share of each user in the server's average."""
        return self.counted / np.maximum(self.counted.sum(axis=-1, keepdims=True), 1)

    @property
    def users(self) -> dict[str, pl.Series | range]:
        """Key columns of tables with a row per user."""
        return self.keys | {"user": range(self.scheduled.shape[-1])}


def sent_of(scenario: Multicell, frame: pl.DataFrame) -> Sent:
    """Build the messages from users, schedule and noise, a table as from `assigned`."""
    columns = ("samples", "scheduled", "noise_std", "cell")
    samples, scheduled, noise_std, cell = (to_array(frame, name, *KEYS) for name in columns)
    group = sums.groups(scenario.privacy.observer, cell)
    counted = counts(scenario.training, samples, scheduled, noise_std, group)
    records = samples if sums_records(scenario.training) else np.ones_like(samples)
    unit = records * scenario.data.sampling if scenario.data.sampling else records
    keys = {"realization": frame["realization"].unique().sort(), "interval": range(scheduled.shape[1])}
    return Sent(keys, scheduled, noise_std, cell, counted, records, unit)


def sums_records(training: Training) -> bool:
    """Return whether a message is a sum of records' clipped gradients, not a mean or update clipped as a whole."""
    return training.learner == "gradients" and training.clipping == "per_sample"


def moves(scenario: Multicell, samples: np.ndarray) -> dict[str, Claim]:
    """Return claims, by unit, on how far replacing a record, or all of a user's records, moves the user's message.

    The claims have no observer; `samples` K_i have shape (realization, user). For a mean clipped as a whole, (11)
    assumes that no record moves it by more than 2 L / K_i, although any record can reverse it.
    """
    training, clip = scenario.training, 2 * scenario.training.clip_norm
    moved = {RECORD: Claim("", RECORD, clip), USER: Claim("", USER, clip, samples if sums_records(training) else 1)}
    if training.clipping == "per_user":
        moved |= {RECORD: Claim("", RECORD, clip / samples, assumes=(MEANS,)), ENFORCED: Claim("", ENFORCED, clip)}
    return moved
