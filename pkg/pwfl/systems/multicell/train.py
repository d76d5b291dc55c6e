"""Algorithm 1 of Tavangaran et al.: two-level federated learning with clipping and noise."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import tensorflow as tf

from pwfl import streams
from pwfl.learning import datasets, engine, features, partition
from pwfl.systems.multicell.assigned import KEYS, assigned
from pwfl.systems.multicell.beyond.costs import interval_costs
from pwfl.systems.multicell.beyond.server import step_sizes
from pwfl.systems.multicell.model import start_weights
from pwfl.systems.multicell.rounds import Senders, history_function, model_of

if TYPE_CHECKING:
    from pwfl.systems.multicell.parameters import Multicell

log = logging.getLogger(__name__)


def trainer(
    scenario: "Multicell", data: datasets.Dataset, tables: dict[str, pl.DataFrame]
) -> Callable[[int], pl.DataFrame]:
    """A function that trains one realization and returns its test accuracy and loss over the rounds.

    Every realization starts from weights and shares out data by streams of its own, the same for all schemes; noise is
    each scheme's own. One where nobody is scheduled keeps its start weights; one without feasible noise, in one of its
    intervals, is not trained; one whose loss leaves the finite numbers stops there. The column `status` says so.
    """
    training, seed = scenario.training, scenario.seed
    size = features.size(scenario)
    rounds = engine.evaluation_rounds(training.rounds, training.evaluate_every)
    x_train, x_test, y_test = tf.constant(data.x_train), tf.constant(data.x_test), tf.constant(data.y_test)
    count = tables["schedule"]["interval"].n_unique()
    _, evaluate = model_of(training, size)
    history_of = history_function(size, rounds, count, training, x_test, y_test)
    spent_of = interval_costs(scenario, tables).partition_by("realization", as_dict=True)
    by_realization = assigned(tables).sort(KEYS).partition_by("realization", as_dict=True)

    def train(realization: int) -> pl.DataFrame:
        users = by_realization[realization,]
        samples, scheduled, noise_std = (
            users[name].to_numpy().reshape(count, -1) for name in ("samples", "scheduled", "noise_std")
        )
        samples, sends = samples[0], scheduled.any(axis=0)
        owned = partition.deal_out(scenario.data, data.y_train, samples, seed, realization)
        weights = start_weights(training, size, streams.generator(seed, "weights", realization))
        if np.isnan(noise_std).any():
            accuracies = np.full((1, 1 + size.classes), np.nan)
            status, history = "noise_infeasible", [(0, None, None, None)]
        elif not scheduled.any():
            accuracies, loss = (value.numpy() for value in evaluate(weights, x_test, y_test))
            accuracies = np.tile(accuracies, (len(rounds), 1))
            status, history = "no_user_scheduled", [(t, float(accuracies[0, 0]), float(loss), None) for t in rounds]
        else:
            mine = np.concatenate([owned[user] for user in np.flatnonzero(sends)])
            senders = Senders.of(training, samples[sends], scheduled[:, sends], noise_std[:, sends])
            steps = step_sizes(training, senders.noise_std.numpy(), scheduled.any(axis=1))
            evaluated = history_of(
                [tf.constant(w) for w in weights],
                x=tf.gather(x_train, mine),
                y=tf.constant(data.y_train[mine]),
                senders=senders,
                step_sizes=tf.constant(steps, tf.float32),
                key=tf.constant(streams.key(*streams.of_noise(scenario), realization), tf.int64),
            )
            accuracies, losses, shares = (values.numpy() for values in evaluated)
            history = list(zip(rounds, *(v.tolist() for v in (accuracies[:, 0], losses, shares)), strict=False))
            status = "trained" if np.isfinite(history[-1][2]) else "diverged"
        told = (realization, sends.sum(), samples[sends].sum(), status, history[-1][1])
        log.info("realization %d: %d users, %d samples, %s, accuracy %s", *told)
        history = pl.DataFrame([(realization, *row, status) for row in history], schema=engine.HISTORY, orient="row")
        counts = partition.held(data.y_train, owned, size.classes)
        history = history.with_columns(**partition.user_accuracies(accuracies[:, 1:], counts))
        history = history.with_columns(pl.col("clipped_share", *partition.USER_ACCURACIES).fill_nan(None))
        done, spent = history["round"].to_numpy(), spent_of[realization,]
        return history.with_columns(
            so_far(done, training.rounds, spent[cost].to_numpy()).alias(f"{cost}_so_far")
            for cost in ("air_seconds", "transmit_energy_j")
        )

    return train


def so_far(done: np.ndarray, rounds: int, spent: np.ndarray) -> pl.Series:
    """What a training has spent after some numbers of its rounds, by what the rounds of each interval spend."""
    interval, into = np.divmod(done, rounds // len(spent))
    before = np.concatenate([[0.0], spent.cumsum()])
    return pl.Series(before[interval] + into / (rounds // len(spent)) * np.append(spent, 0.0)[interval])
