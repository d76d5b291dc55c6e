"""Gradient descent along what a server receives: a trainer for systems that say how much each record counts when.

In round t the server's step is along the sum over all R records of counts[t, i] / R times the record's clipped
gradient, and noise of deviation noise_std[t] in each coordinate. `pwfl.privacy.received` audits it.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import polars as pl
import tensorflow as tf

from pwfl import streams
from pwfl.learning import datasets, engine, features, mlp, network, partition

log = logging.getLogger(__name__)


class Received(NamedTuple):
    """What the server receives of records, which stand user by user.

    Attributes
    ----------
    counts
        As how many each record counts in the mean over all records, shape (round, record); 0: it is not sent.
    noise_std
        Standard deviation of all noise in a coordinate of that mean, shape (round,).
    air_seconds, transmit_energy_j
        What each round takes, shape (round,); None where there is no bandwidth, or no unit of power.
    """

    counts: np.ndarray
    noise_std: np.ndarray
    air_seconds: np.ndarray | None = None
    transmit_energy_j: np.ndarray | None = None


def trainer(
    scenario, data: datasets.Dataset, tables: dict[str, pl.DataFrame], received: Callable[[int], Received]
) -> Callable[[int], pl.DataFrame]:
    """A system's `trainer`: a function that trains one realization and returns its rows of `history`.

    The stage reads the scenario's sections `data`, a `common.DataSource`, and `training`: `hidden_layers`, `rounds`,
    `learning_rate`, `clip_norm`, `evaluate_every`. `tables["users"]` has `samples`; `received` is of a realization. A
    loss that is not finite ends a training: its accuracy and loss are null, and its status is `diverged`.
    """
    training, widths = scenario.training, widths_of(scenario)
    stops = engine.evaluation_rounds(training.rounds, training.evaluate_every)
    users = tables["users"].partition_by("realization", as_dict=True)
    x_test, y_test = tf.constant(data.x_test), tf.constant(data.y_test)

    @tf.function(reduce_retracing=True)
    def run(weights, x, y, counts, noise_std, key):
        step_size = tf.constant(training.learning_rate, tf.float32)
        advance = advance_function(network.backward, x, y, training.clip_norm, counts, noise_std, step_size, key)
        return engine.history(
            weights, tf.constant(stops), advance, lambda w: network.evaluate_labels(w, x_test, y_test)
        )

    def train(realization: int) -> pl.DataFrame:
        samples = users[realization,].sort("user")["samples"].to_numpy()
        owned = partition.deal_out(scenario.data, data.y_train, samples, scenario.seed, realization, data.users)
        mine, sent = np.concatenate(owned), received(realization)
        weights = mlp.glorot_uniform(widths, streams.generator(scenario.seed, "weights", realization))
        # Noise that is none draws nothing.
        key = streams.key(*streams.of_noise(scenario), realization) if np.any(sent.noise_std) else 0
        accuracies, losses, _ = run(
            [tf.constant(w) for w in weights],
            tf.constant(data.x_train[mine]),
            tf.constant(data.y_train[mine]),
            tf.constant(sent.counts, tf.float32),
            tf.constant(sent.noise_std, tf.float32),
            tf.constant(key, tf.int64),
        )
        accuracies, losses = (values.numpy().astype(float) for values in (accuracies, losses))
        status = "trained" if np.isfinite(losses[-1]) else "diverged"
        log.info("realization %d: %s, accuracy %.4f", realization, status, accuracies[-1, 0])
        done = stops[: len(losses)]
        held = partition.held(data.y_train, owned, widths[-1])
        columns = {"accuracy": accuracies[:, 0], "loss": losses} | partition.user_accuracies(accuracies[:, 1:], held)
        history = pl.DataFrame({"realization": realization, "round": done} | columns).with_columns(
            pl.when(np.isfinite(losses)).then(pl.col(list(columns)).fill_nan(None)), status=pl.lit(status)
        )
        return history.with_columns(
            air_seconds_so_far=so_far(sent.air_seconds, done),
            transmit_energy_j_so_far=so_far(sent.transmit_energy_j, done),
        )

    return train


def widths_of(scenario) -> list[int]:
    """Widths of the network's layers, the input's first."""
    size = features.size(scenario)
    return [size.features, *scenario.training.hidden_layers, size.classes]


def advance_function(
    backward: engine.Backward,
    x: tf.Tensor,
    y: tf.Tensor | None,
    clip_norm: float,
    counts: tf.Tensor,
    noise_std: tf.Tensor,
    step_size: tf.Tensor,
    key: tf.Tensor,
) -> Callable:
    """A function that trains some rounds, as `engine.history` takes it, inside a graph.

    `x`, `y` and `key` are as `engine` takes them; `counts` and `noise_std` those of `Received`, float32.
    """

    def advance(weights, first_round, rounds):
        for t in tf.range(first_round, first_round + rounds):
            gradient = engine.per_sample_gradient(backward, x, y, tf.constant(clip_norm, tf.float32), counts[t])
            weights, _ = engine.train_rounds(gradient, weights, step_size, noise_std[t], key, t, tf.constant(1))
        return weights, tf.constant(np.nan, tf.float32)

    return advance


def so_far(spent: np.ndarray | None, done: list[int]) -> pl.Series:
    """What is spent after some numbers of rounds, by what each round takes; null where nothing counts it."""
    if spent is None:
        return pl.Series([None] * len(done), dtype=pl.Float64)
    return pl.Series(np.concatenate([[0.0], np.cumsum(spent)])[done])
