"""Federated learning of ul Zuhra et al.: local SGD, clipped updates, their sum over many antennas.

The users' signals and noise reach the server's update (4) as a weighted sum of updates and one
Gaussian noise of known variance, given the channels: that is what is drawn, not each antenna's signal.
"""

import logging
from collections.abc import Callable

import numpy as np
import polars as pl
import tensorflow as tf

from pwfl import datasets, streams
from pwfl.mlp import parameter_count
from pwfl.tables import to_array
from pwfl.train import local_sgd

log = logging.getLogger(__name__)

HISTORY = {
    "realization": pl.Int64,
    "round": pl.Int64,
    "accuracy": pl.Float64,
    "loss": pl.Float64,
    "update_norm": pl.Float64,
    "clipped_share": pl.Float64,
    "transmit_energy": pl.Float64,
    "status": pl.String,
}


def trainer(parameters: dict, data: datasets.Dataset, tables: dict[str, pl.DataFrame]) -> Callable[[int], pl.DataFrame]:
    """A function that trains one realization and returns its accuracy and loss after every round.

    Shares of the data, mini-batches and the server's noise come from streams of their own, the same
    for all schemes, and for any number of antennas. A training whose loss leaves the finite numbers
    stops there; the column `status` says so.
    """
    training, seed = parameters["training"], parameters["seed"]
    size = datasets.SIZES[parameters["data"]["dataset"]]
    dimension = parameter_count([size.features, size.classes])
    schedule, noise = tables["schedule"], tables["noise"]
    rows = {realization: row for row, realization in enumerate(noise["realization"].unique(maintain_order=True))}
    shape = (len(rows), training["rounds"], -1)
    coupling = to_array(schedule, "coupling_real", *shape)
    amplitude = to_array(schedule, "amplitude", *shape)[..., 0]
    noise_std = to_array(noise, "noise_std", *shape[:2])
    effective_std = to_array(noise, "effective_noise_std", *shape[:2])
    users = coupling.shape[-1]
    samples = tables["users"]["samples"][0]
    history_of = history_function(users, samples, size, training, data)

    def train(realization: int) -> pl.DataFrame:
        row = rows[realization]
        owned = streams.generator(seed, "data", realization).permutation(size.train)[: users * samples]
        accuracy, loss, norm, clipped, energy = (
            values.numpy().astype(float)
            for values in history_of(
                owned=tf.constant(owned.reshape(users, samples), tf.int32),
                weight=tf.constant(coupling[row] / users, tf.float32),
                noise_std=tf.constant(effective_std[row], tf.float32),
                batch_key=tf.constant(streams.key(seed, "batches", realization), tf.int64),
                noise_key=tf.constant(streams.key(seed, "noise", realization), tf.int64),
            )
        )
        done = len(energy)
        sent = amplitude[row, :done] ** 2 * (energy + dimension * noise_std[row, :done] ** 2)
        status = "trained" if np.isfinite(loss[-1]) else "diverged"
        log.info("realization %d: %s, accuracy %.4f", realization, status, accuracy[-1])
        columns = {"accuracy": accuracy, "loss": loss} | {
            name: [None, *values]  # nothing is sent before round 1
            for name, values in (("update_norm", norm), ("clipped_share", clipped), ("transmit_energy", sent))
        }
        keys = {"realization": [realization] * (done + 1), "round": range(done + 1)}
        return pl.DataFrame(keys | columns | {"status": [status] * (done + 1)}, schema=HISTORY)

    return train


def history_function(users: int, samples: int, size: datasets.Size, training: dict, data: datasets.Dataset):
    """A whole training as one graph.

    Returns a function of the samples that each user owns, (user, sample), the updates' weights,
    (round, user), the standard deviations of the noise, (round,), and two keys. It returns, up to
    the first loss that is not finite, test accuracies and losses after rounds 0, 1, ..., and for
    rounds 1, ... means over users: norm of the update before clipping, whether it was clipped,
    squared norm after it.
    """
    rounds, clip_norm = training["rounds"], training["clip_norm"]
    x_train, x_test = (local_sgd.with_bias(tf.constant(x)) for x in (data.x_train, data.x_test))
    y_train, y_test = tf.constant(data.y_train), tf.constant(data.y_test)
    features = size.features + 1

    @tf.function(
        input_signature=[
            tf.TensorSpec([users, samples], tf.int32),
            tf.TensorSpec([rounds, users], tf.float32),
            tf.TensorSpec([rounds], tf.float32),
            tf.TensorSpec([], tf.int64),
            tf.TensorSpec([], tf.int64),
        ]
    )
    def history(owned, weight, noise_std, batch_key, noise_key):
        x, y = tf.gather(x_train, owned), tf.gather(y_train, owned)
        weights = tf.zeros([size.classes, features])
        tests = tf.TensorArray(tf.float32, rounds + 1, element_shape=[2])
        sent = tf.TensorArray(tf.float32, rounds, element_shape=[3])
        start = evaluate(weights, x_test, y_test)
        tests, done = tests.write(0, start), tf.constant(0)
        for t in tf.range(rounds):
            batches = local_sgd.minibatches(
                batch_key, t, users, samples, training["batch_size"], training["local_steps"]
            )
            update, norms = clipped_updates(weights, x, y, batches, training, local_sgd.cross_entropy_derivative)
            weights += local_sgd.received(update, weight[t], noise_std[t], noise_key, t)
            test = evaluate(weights, x_test, y_test)
            clipped = tf.cast(norms > clip_norm, tf.float32)
            measured = tf.stack([norms, clipped, tf.minimum(norms, clip_norm) ** 2])
            sent = sent.write(t, tf.reduce_mean(measured, axis=1))
            done = t + 1
            tests = tests.write(done, test)
            if not tf.math.is_finite(test[1]):
                break
        accuracy, loss = tf.unstack(tests.stack()[: done + 1], axis=1)
        return accuracy, loss, *tf.unstack(sent.stack()[:done], axis=1)

    return history


def clipped_updates(
    weights: tf.Tensor,
    x: tf.Tensor,
    y: tf.Tensor | None,
    batches: tf.Tensor,
    training: dict,
    derivative: local_sgd.Derivative,
) -> tuple[tf.Tensor, tf.Tensor]:
    """What the users send in a round, and the norms of their updates before clipping; see `local_sgd`."""
    raw = local_sgd.updates(weights, x, y, batches, tf.constant(training["learning_rate"]), derivative)
    return local_sgd.clip(raw, tf.constant(training["clip_norm"]))


def evaluate(weights: tf.Tensor, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Accuracy and mean cross-entropy of softmax regression, shape (2,)."""
    outputs = tf.matmul(x, weights, transpose_b=True)
    hits = tf.equal(tf.argmax(outputs, axis=1, output_type=tf.int32), y)
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(y, outputs)
    return tf.stack([tf.reduce_mean(tf.cast(hits, tf.float32)), tf.reduce_mean(loss)])
