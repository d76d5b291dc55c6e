"""What a realization's training begins with, and what it comes to."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from pwfl import streams
from pwfl.learning import datasets, features, partition
from pwfl.systems.multicell.assigned import KEYS, assigned
from pwfl.systems.multicell.model import start_weights

if TYPE_CHECKING:
    from pwfl.systems.multicell.parameters import Multicell


class Start(NamedTuple):
    """What a realization's training begins with.

    Attributes
    ----------
    weights
        Start weights.
    rows
        Places in the training data of each user's samples.
    samples, scheduled, noise_std
        K_i, shape (user,); who sends in each interval, and with which noise, shape (interval, user).
    status
        Why it is not trained; None: it is.
    """

    realization: int
    weights: list[np.ndarray]
    rows: list[np.ndarray]
    samples: np.ndarray
    scheduled: np.ndarray
    noise_std: np.ndarray
    status: str | None


class Course(NamedTuple):
    """What a training comes to, by evaluation: accuracies (`network.evaluate_labels`), losses, and shares clipped."""

    accuracies: np.ndarray
    losses: np.ndarray
    clipped: np.ndarray


def starts(scenario: "Multicell", data: datasets.Dataset, tables: dict[str, pl.DataFrame]) -> Callable[[int], Start]:
    """A function that gives what a realization's training begins with."""
    training, seed, size = scenario.training, scenario.seed, features.size(scenario)
    count = tables["schedule"]["interval"].n_unique()
    by_realization = assigned(tables).sort(KEYS).partition_by("realization", as_dict=True)

    def begin(realization: int) -> Start:
        users = by_realization[realization,]
        samples, scheduled, noise_std = (
            users[name].to_numpy().reshape(count, -1) for name in ("samples", "scheduled", "noise_std")
        )
        owned = partition.deal_out(scenario.data, data.y_train, samples[0], seed, realization, data.users)
        weights = start_weights(training, size, streams.generator(seed, "weights", realization))
        status = None if scheduled.any() else "no_user_scheduled"
        status = "noise_infeasible" if np.isnan(noise_std).any() else status
        return Start(realization, weights, owned, samples[0], scheduled, noise_std, status)

    return begin
