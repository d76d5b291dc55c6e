"""What a realization's training begins with, and what it comes to."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import polars as pl

from pwfl import streams
from pwfl.learning import datasets, features, partition
from pwfl.systems.multicell.assigned import KEYS, assigned
from pwfl.systems.multicell.beyond.integers import grids
from pwfl.systems.multicell.beyond.server import step_sizes
from pwfl.systems.multicell.beyond.sums import groups, rounds_heard
from pwfl.systems.multicell.model import start_weights
from pwfl.systems.multicell.parameters import Multicell, Training
from pwfl.systems.multicell.rounds import Senders


class Start(NamedTuple):
    """What a realization's training begins with.

    Attributes
    ----------
    weights
        Start weights.
    rows
        Places in the training data of each user's samples.
    samples, scheduled, noise_std, group
        K_i, shape (user,); who sends in each interval, with which noise, and in which group, shape (interval, user).
    heard
        Who is heard in each round, shape (round, user); None: all who send.
    step
        Of the senders' grids, shape (interval, user), where messages are integers.
    status
        Why it is not trained; None: it is.
    """

    realization: int
    weights: list[np.ndarray]
    rows: list[np.ndarray]
    samples: np.ndarray
    scheduled: np.ndarray
    noise_std: np.ndarray
    group: np.ndarray
    heard: np.ndarray | None
    step: np.ndarray | None
    status: str | None

    def senders(self, training: Training) -> tuple[Senders, np.ndarray, np.ndarray]:
        """Who is heard; the rounds' step sizes, which follow from the noise as planned; places of senders' records."""
        sends = self.scheduled.any(axis=0)
        heard = None if self.heard is None else self.heard[:, sends]
        own = self.samples[sends], self.scheduled[:, sends], self.noise_std[:, sends], self.group[:, sends]
        grid = None if self.step is None else self.step[:, sends]
        senders = planned = Senders.of(training, *own, step=grid)
        if heard is not None:
            senders = Senders.of(training, *own, heard, grid)
        steps = step_sizes(training, planned.noise_std.numpy(), self.scheduled.any(axis=1))
        return senders, steps, np.concatenate([self.rows[user] for user in np.flatnonzero(sends)])


class Course(NamedTuple):
    """What a training comes to, by evaluation: accuracies (`network.evaluate_labels`), losses, and shares clipped."""

    accuracies: np.ndarray
    losses: np.ndarray
    clipped: np.ndarray


def periods(scenario: Multicell, tables: dict[str, pl.DataFrame]) -> int:
    """How many periods of as many rounds each there are in which the same users are heard."""
    return scenario.training.rounds if scenario.privacy.dropouts else tables["schedule"]["interval"].n_unique()


def starts(scenario: Multicell, data: datasets.Dataset, tables: dict[str, pl.DataFrame]) -> Callable[[int], Start]:
    """A function that gives what a realization's training begins with. Raises integers.RoundingError."""
    training, privacy, seed, size = scenario.training, scenario.privacy, scenario.seed, features.size(scenario)
    count = tables["schedule"]["interval"].n_unique()
    frame = assigned(tables).sort(KEYS)
    if training.bits:
        frame = frame.with_columns(step=pl.Series(grids(scenario, frame).ravel()))
    by_realization = frame.partition_by("realization", as_dict=True)

    def begin(realization: int) -> Start:
        users = by_realization[realization,]
        samples, scheduled, noise_std, cell = (
            users[name].to_numpy().reshape(count, -1) for name in ("samples", "scheduled", "noise_std", "cell")
        )
        group, heard = groups(privacy.observer, cell), None
        step = users["step"].to_numpy().reshape(count, -1) if training.bits else None
        if privacy.dropouts:
            drawn = streams.generator(seed, "dropouts", realization)
            heard = rounds_heard(privacy, scheduled, group, training.rounds, drawn)
        owned = partition.deal_out(scenario.data, data.y_train, samples[0], seed, realization, data.users)
        weights = start_weights(training, size, streams.generator(seed, "weights", realization))
        status = None if scheduled.any() else "no_user_scheduled"
        status = "noise_infeasible" if np.isnan(noise_std).any() else status
        return Start(realization, weights, owned, samples[0], scheduled, noise_std, group, heard, step, status)

    return begin
