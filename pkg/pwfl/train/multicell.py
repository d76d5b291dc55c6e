"""Algorithm 1 of Tavangaran et al.: two-level federated learning with clipping and noise."""

import logging
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import polars as pl
import tensorflow as tf

from pwfl import datasets, streams
from pwfl.mlp import glorot_uniform
from pwfl.train import engine, network

log = logging.getLogger(__name__)


def trainer(parameters: dict, data: datasets.Dataset, tables: dict[str, pl.DataFrame]) -> Callable[[int], pl.DataFrame]:
    """A function that trains one realization and returns its test accuracy and loss over the rounds.

    Every realization starts from weights, shares out data and draws noise by streams of its own,
    the same for all schemes. One where nobody is scheduled keeps its start weights; one without
    feasible noise is not trained; one whose loss leaves the finite numbers stops there. The column
    `status` says so.
    """
    training, seed = parameters["training"], parameters["seed"]
    size = datasets.SIZES[parameters["data"]["dataset"]]
    widths = [size.features, *training["hidden_layers"], size.classes]
    rounds = engine.evaluation_rounds(training["rounds"], training["evaluate_every"])
    x_train, x_test, y_test = tf.constant(data.x_train), tf.constant(data.x_test), tf.constant(data.y_test)
    history_of = history_function(widths, rounds, training, x_test, y_test)
    frame = (
        tables["users"]
        .select("realization", "samples")
        .with_columns(tables["noise"]["noise_std"], scheduled=tables["schedule"]["resource_block"].is_not_null())
    )
    by_realization = {realization: users for (realization,), users in frame.group_by("realization")}

    def train(realization: int) -> pl.DataFrame:
        users = by_realization[realization]
        samples, scheduled = users["samples"].to_numpy(), users["scheduled"].to_numpy()
        noise = aggregated_noise_std(samples, scheduled, users["noise_std"].to_numpy())
        weights = glorot_uniform(widths, streams.generator(seed, "weights", realization))
        if np.isnan(noise):
            status, history = "noise_infeasible", [(0, None, None)]
        elif not scheduled.any():
            accuracy, loss = (float(value) for value in network.evaluate(weights, x_test, y_test))
            status, history = "no_user_scheduled", [(t, accuracy, loss) for t in rounds]
        else:
            owned = streams.generator(seed, "data", realization).permutation(size.train)
            mine = owned[np.flatnonzero(np.repeat(scheduled, samples))]
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
            realization, scheduled.sum(), samples[scheduled].sum(), status, history[-1][1],
        )  # fmt: skip
        return pl.DataFrame([(realization, *row, status) for row in history], schema=engine.HISTORY, orient="row")

    return train


def aggregated_noise_std(samples: np.ndarray, scheduled: np.ndarray, noise_std: np.ndarray) -> float:
    """Standard deviation, per coordinate, of the users' noise in the global gradient.

    By (8) and (9) the server's average weighs user i by K_i / Ka: the square root of the sum of
    (K_i sigma_i / Ka)^2 over scheduled users. 0 where nobody is scheduled; NaN if a user's noise is.
    """
    weighted = samples[scheduled] * noise_std[scheduled]
    return float(np.sqrt((weighted**2).sum()) / max(samples[scheduled].sum(), 1))


def clipped_gradient(
    backward: engine.Backward, x: tf.Tensor, y: tf.Tensor | None, samples: tf.Tensor, training: dict
) -> engine.Gradient:
    """The users' gradients as the server averages them, clipped as `training` says; `samples` are the users' K_i."""
    clip = tf.constant(training["clip_norm"], tf.float32)
    if training["clipping"] == "per_user":
        return engine.per_user_gradient(backward, x, y, clip, samples)
    return engine.per_sample_gradient(backward, x, y, clip)


def history_function(widths: list[int], rounds: list[int], training: dict, x_test: tf.Tensor, y_test: tf.Tensor):
    """A whole training as one graph, traced once for any numbers of users and samples.

    Returns a function of start weights and a realization's samples, noise and key. It returns test
    accuracies and losses after the given rounds, up to the first loss that is not finite.
    """
    shapes = [shape for inputs, outputs in pairwise(widths) for shape in ((inputs, outputs), (outputs,))]

    @tf.function(
        input_signature=[
            [tf.TensorSpec(shape, tf.float32) for shape in shapes],
            tf.TensorSpec([None, widths[0]], tf.float32),
            tf.TensorSpec([None], tf.int32),
            tf.TensorSpec([None], tf.int32),
            tf.TensorSpec([], tf.float32),
            tf.TensorSpec([], tf.int64),
        ]
    )
    def history(weights, x, y, samples, noise_std, key):
        step_size = tf.constant(training["learning_rate"], tf.float32)
        gradient = clipped_gradient(network.backward, x, y, samples, training)

        def advance(weights, first, count):
            return engine.train_rounds(gradient, weights, step_size, noise_std, key, first, count)

        return engine.history(
            weights, tf.constant(rounds), advance, lambda weights: network.evaluate(weights, x_test, y_test)
        )

    return history
