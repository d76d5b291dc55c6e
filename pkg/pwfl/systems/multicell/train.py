"""Algorithm 1 of Tavangaran et al.: two-level federated learning with clipping and noise."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import tensorflow as tf

from pwfl import streams
from pwfl.learning import datasets, engine, network
from pwfl.learning.mlp import glorot_uniform
from pwfl.learning.partition import deal
from pwfl.systems.multicell.assigned import KEYS, assigned
from pwfl.systems.multicell.costs import costs
from pwfl.systems.multicell.rounds import aggregated_noise_std, history_function

if TYPE_CHECKING:
    from pwfl.systems.multicell.scenario import Multicell

log = logging.getLogger(__name__)


def trainer(
    scenario: "Multicell", data: datasets.Dataset, tables: dict[str, pl.DataFrame]
) -> Callable[[int], pl.DataFrame]:
    """A function that trains one realization and returns its test accuracy and loss over the rounds.

    Every realization starts from weights, shares out data and draws noise by streams of its own,
    the same for all schemes. One where nobody is scheduled keeps its start weights; one without
    feasible noise is not trained; one whose loss leaves the finite numbers stops there. The column
    `status` says so.
    """
    training, seed = scenario.training, scenario.seed
    size = datasets.SIZES[scenario.data.dataset]
    widths = [size.features, *training.hidden_layers, size.classes]
    rounds = engine.evaluation_rounds(training.rounds, training.evaluate_every)
    x_train, x_test, y_test = tf.constant(data.x_train), tf.constant(data.x_test), tf.constant(data.y_test)
    history_of = history_function(widths, rounds, training, x_test, y_test)
    spent_of = costs(scenario, tables).rows_by_key("realization", named=True, unique=True)
    by_realization = assigned(tables).sort(KEYS).partition_by("realization", as_dict=True)

    def train(realization: int) -> pl.DataFrame:
        users = by_realization[realization,]
        samples, scheduled = users["samples"].to_numpy(), users["scheduled"].to_numpy()
        noise = aggregated_noise_std(samples, scheduled, users["noise_std"].to_numpy())
        weights = glorot_uniform(widths, streams.generator(seed, "weights", realization))
        if np.isnan(noise):
            status, history = "noise_infeasible", [(0, None, None)]
        elif not scheduled.any():
            accuracy, loss = (float(value) for value in network.evaluate(weights, x_test, y_test))
            status, history = "no_user_scheduled", [(t, accuracy, loss) for t in rounds]
        else:
            owned = deal(size.train, samples, seed, realization)
            mine = np.concatenate([owned[user] for user in np.flatnonzero(scheduled)])
            accuracies, losses = history_of(
                [tf.constant(w) for w in weights],
                x=tf.gather(x_train, mine),
                y=tf.constant(data.y_train[mine]),
                samples=tf.constant(samples[scheduled], tf.int32),
                noise_std=tf.constant(noise, tf.float32),
                key=tf.constant(streams.key(seed, "noise", realization), tf.int64),
            )
            history = list(zip(rounds, accuracies.numpy().tolist(), losses.numpy().tolist(), strict=False))
            status = "trained" if np.isfinite(history[-1][2]) else "diverged"
        log.info(
            "realization %d: %d users, %d samples, %s, accuracy %s",
            realization,
            scheduled.sum(),
            samples[scheduled].sum(),
            status,
            history[-1][1],
        )
        history = pl.DataFrame([(realization, *row, status) for row in history], schema=engine.HISTORY, orient="row")
        done, spent = pl.col("round") / training.rounds, spent_of[realization]
        return history.with_columns(
            air_seconds_so_far=done * spent["air_seconds"], transmit_energy_j_so_far=done * spent["transmit_energy_j"]
        )

    return train
