"""Trainings of many realizations side by side, as one program: users of all realizations in one batch of products.

Each realization keeps its own streams, and ends as `rounds.history_function` has it but for rounding.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from pwfl.learning import datasets, features, philox, side_by_side
from pwfl.systems.random_orthogonalization import local_sgd
from pwfl.systems.random_orthogonalization.parameters import RandomOrthogonalization, Training
from pwfl.systems.random_orthogonalization.rounds import Start


class Given(NamedTuple):
    """What the rounds of all realizations go by, as `rounds.Start` has it of one; the first axis is realizations."""

    owned: tf.Tensor
    weight: tf.Tensor
    noise_std: tf.Tensor
    batch_keys: tf.Tensor
    noise_keys: tf.Tensor


def together(
    scenario: RandomOrthogonalization, data: datasets.Dataset
) -> Callable[[list[Start]], list[tuple[np.ndarray, ...]]]:
    """A function that trains some realizations side by side, and returns what `rounds.history_function` measures."""
    training = scenario.training
    samples = local_sgd.with_bias(tf.constant(data.x_train)), tf.constant(data.y_train)
    tested = local_sgd.with_bias(tf.constant(data.x_test)), tf.constant(data.y_test)
    size = features.size(scenario)
    play = round_function(training)

    def train(starts: list[Start]) -> list[tuple[np.ndarray, ...]]:
        given = stacked(starts)
        weights = tf.zeros([len(starts), size.classes, size.features + 1])
        tests, sent = [evaluate(weights, *tested)], []
        for t in range(training.rounds):
            weights, uploads = play(weights, samples, given, tf.constant(t))
            tests.append(evaluate(weights, *tested))
            sent.append(uploads)
            if not np.isfinite(tests[-1][1]).any():
                break
        accuracies, losses = (np.stack([part.numpy() for part in parts], axis=1) for parts in zip(*tests, strict=True))
        measured = np.stack([uploads.numpy() for uploads in sent], axis=1)
        lengths = side_by_side.lengths(losses)
        return [
            (accuracies[b, :n], losses[b, :n], *np.moveaxis(measured[b, : n - 1], 1, 0)) for b, n in enumerate(lengths)
        ]

    return train


def stacked(starts: list[Start]) -> Given:
    """What realizations go by, in arrays."""
    columns = zip(*((np.stack(s.owned), s.weight, s.noise_std, s.batch_key, s.noise_key) for s in starts), strict=True)
    types = (tf.int32, tf.float32, tf.float32, tf.int64, tf.int64)
    return Given(*(tf.constant(np.array(column), kind) for column, kind in zip(columns, types, strict=True)))


def round_function(training: Training) -> Callable:
    """A round of all realizations as a graph.

    Of weights, shape (realization, class, feature), all samples, `Given` and the round's number. It returns new weights
    and, shape (realization, 3), means over users: norm of the update before clipping, whether it was clipped, squared
    norm after it.
    """

    @tf.function(jit_compile=True)
    def play(weights, data, given, t):
        realizations, users, samples = given.owned.shape
        batches = minibatches(given.batch_keys, t, users, samples, training.batch_size, training.local_steps)
        rows = tf.gather(tf.reshape(given.owned, [-1, samples]), batches, batch_dims=1)
        raw = updates(tf.repeat(weights, users, axis=0), data, rows, training.learning_rate)
        update, norms = local_sgd.clip(raw, tf.constant(training.clip_norm))
        update = tf.reshape(update, [realizations, users, -1])
        noise = philox.normals(given.noise_keys, t, update.shape[-1])
        received = tf.einsum("bu,bud->bd", given.weight[:, t], update) + given.noise_std[:, t, None] * noise
        norms = tf.reshape(norms, [realizations, users])
        clipped = tf.cast(norms > training.clip_norm, tf.float32)
        measured = tf.stack([norms, clipped, tf.minimum(norms, training.clip_norm) ** 2], axis=1)
        return weights + tf.reshape(received, tf.shape(weights)), tf.reduce_mean(measured, axis=2)

    return play


def minibatches(keys: tf.Tensor, t: tf.Tensor, users: int, samples: int, batch_size: int, steps: int) -> tf.Tensor:
    """As `local_sgd.minibatches` of each key, int32, shape (realization and user, step, batch)."""
    batches = samples // batch_size
    passes = -(-steps // batches)
    drawn = tf.reshape(philox.uniforms(keys, t, users * passes * samples), [-1, passes, samples])
    order = tf.argsort(drawn, axis=-1)[..., : batches * batch_size]
    return tf.reshape(order, [-1, passes * batches, batch_size])[:, :steps]


def updates(start: tf.Tensor, data: tuple[tf.Tensor, tf.Tensor], rows: tf.Tensor, learning_rate: float) -> tf.Tensor:
    """As `local_sgd.updates` of users whose samples are places in data that all share, shape (user, step, batch)."""
    scale, local = learning_rate / rows.shape[2], start
    for step in tf.range(rows.shape[1]):
        x, y = (tf.gather(part, rows[:, step]) for part in data)
        slope = scale * local_sgd.cross_entropy_derivative(tf.matmul(x, local, transpose_b=True), y)
        local -= tf.matmul(slope, x, transpose_a=True)
    return local - start


@tf.function(jit_compile=True)
def evaluate(weights: tf.Tensor, x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """As `side_by_side.evaluate`, of weights whose last feature is the bias's."""
    return side_by_side.measured(tf.einsum("nf,bcf->bnc", x, weights), y)


def bytes_each(scenario: RandomOrthogonalization, users: int, data: datasets.Dataset) -> float:
    """About how many bytes of a GPU's memory one realization takes, of all that are trained side by side."""
    training = scenario.training
    (tested, columns), classes = data.x_test.shape, features.size(scenario).classes
    a_step = users * training.batch_size * (columns + 3 * classes)
    order = users * training.local_steps * training.batch_size * 4
    return 4.0 * (max(a_step, 3 * tested * classes) + 4 * users * classes * columns + order)
