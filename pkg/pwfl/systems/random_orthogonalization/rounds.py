"""Rounds of ul Zuhra et al. as one graph: local SGD, clipped updates, their sum over many antennas."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from pwfl.learning import datasets, network
from pwfl.systems.random_orthogonalization import local_sgd
from pwfl.systems.random_orthogonalization.parameters import Training


class Start(NamedTuple):
    """What a realization's training goes by.

    Attributes
    ----------
    owned
        Places in the training data of each user's samples.
    weight, noise_std
        The updates' weights, shape (round, user), and the deviations of the noise, shape (round,).
    batch_key, noise_key
        Of mini-batches and of noise.
    """

    realization: int
    owned: list[np.ndarray]
    weight: np.ndarray
    noise_std: np.ndarray
    batch_key: int
    noise_key: int


def history_function(users: int, samples: int, size: datasets.Size, training: Training, data: datasets.Dataset):
    """A whole training as one graph.

    Returns a function of the samples that each user owns, (user, sample), the updates' weights, (round, user), the
    standard deviations of the noise, (round,), and two keys. It returns, up to the first loss that is not finite, test
    accuracies (`network.evaluate_labels`) and losses after rounds 0, 1, ..., and for rounds 1, ... means over users:
    norm of the update before clipping, whether it was clipped, squared norm after it.
    """
    rounds, clip_norm = training.rounds, training.clip_norm
    x_train, x_test = (local_sgd.with_bias(tf.constant(x)) for x in (data.x_train, data.x_test))
    y_train, y_test = tf.constant(data.y_train), tf.constant(data.y_test)
    kinds = ([users, samples], tf.int32), ([rounds, users], tf.float32), ([rounds], tf.float32)
    key = tf.TensorSpec([], tf.int64)

    @tf.function(input_signature=[*(tf.TensorSpec(*kind) for kind in kinds), key, key])
    def history(owned, weight, noise_std, batch_key, noise_key):
        x, y = tf.gather(x_train, owned), tf.gather(y_train, owned)
        weights = tf.zeros([size.classes, size.features + 1])
        tests = tf.TensorArray(tf.float32, rounds + 1, element_shape=[2 + size.classes])
        sent = tf.TensorArray(tf.float32, rounds, element_shape=[3])
        tests, done = tests.write(0, evaluate(weights, x_test, y_test)), tf.constant(0)
        for t in tf.range(rounds):
            batches = local_sgd.minibatches(batch_key, t, users, samples, training.batch_size, training.local_steps)
            update, norms = clipped_updates(weights, x, y, batches, training, local_sgd.cross_entropy_derivative)
            weights += local_sgd.received(update, weight[t], noise_std[t], noise_key, t)
            test = evaluate(weights, x_test, y_test)
            clipped = tf.cast(norms > clip_norm, tf.float32)
            measured = tf.stack([norms, clipped, tf.minimum(norms, clip_norm) ** 2])
            sent = sent.write(t, tf.reduce_mean(measured, axis=1))
            done = t + 1
            tests = tests.write(done, test)
            if not tf.math.is_finite(test[0]):
                break
        loss, accuracies = tf.split(tests.stack()[: done + 1], [1, 1 + size.classes], axis=1)
        return accuracies, loss[:, 0], *tf.unstack(sent.stack()[:done], axis=1)

    return history


def clipped_updates(
    weights: tf.Tensor,
    x: tf.Tensor,
    y: tf.Tensor | None,
    batches: tf.Tensor,
    training: Training,
    derivative: local_sgd.Derivative,
) -> tuple[tf.Tensor, tf.Tensor]:
    """What the users send in a round, and the norms of their updates before clipping; see `local_sgd`."""
    raw = local_sgd.updates(weights, x, y, batches, tf.constant(training.learning_rate), derivative)
    return local_sgd.clip(raw, tf.constant(training.clip_norm))


def evaluate(weights: tf.Tensor, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Mean cross-entropy and accuracies (`network.evaluate_labels`) of softmax regression, shape (2 + class,)."""
    accuracies, loss = network.measured(tf.matmul(x, weights, transpose_b=True), y)
    return tf.concat([[loss], accuracies], axis=0)
