"""Rounds of Tavangaran et al. as one graph: clipped gradients, aggregated noise (Algorithm 1)."""

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from pwfl.learning import engine, network

if TYPE_CHECKING:
    from pwfl.systems.multicell.scenario import Training


def aggregated_noise_std(samples: np.ndarray, scheduled: np.ndarray, noise_std: np.ndarray) -> float:
    """Standard deviation, per coordinate, of the users' noise in the global gradient.

    By (8) and (9) the server's average weighs user i by K_i / Ka: the square root of the sum of
    (K_i sigma_i / Ka)^2 over scheduled users. 0 where nobody is scheduled; NaN if a user's noise is.

    Examples
    --------
    >>> aggregated_noise_std(np.array([30, 10, 50]), np.array([True, True, False]), np.array([0.4, 1.6, 0.0]))
    0.5
    """
    weighted = samples[scheduled] * noise_std[scheduled]
    return float(np.sqrt((weighted**2).sum()) / max(samples[scheduled].sum(), 1))


def clipped_gradient(
    backward: engine.Backward, x: tf.Tensor, y: tf.Tensor | None, samples: tf.Tensor, training: "Training"
) -> engine.Gradient:
    """The users' gradients as the server averages them, clipped as `training` says; `samples` are the users' K_i."""
    clip = tf.constant(training.clip_norm, tf.float32)
    if training.clipping == "per_user":
        return engine.per_user_gradient(backward, x, y, clip, samples)
    return engine.per_sample_gradient(backward, x, y, clip)


def history_function(
    widths: list[int], rounds: list[int], training: "Training", x_test: tf.Tensor, y_test: tf.Tensor
) -> Callable:
    """A whole training as one graph, traced once for any numbers of users and samples.

    Parameters
    ----------
    widths
        Of the network's layers, input and output included.
    rounds
        Those after which the model is evaluated.
    x_test, y_test
        Features, shape (sample, feature), and classes, shape (sample,).

    Returns
    -------
    A function of start weights, the scheduled users' samples x and y, how many each user has, the aggregated noise's
    standard deviation and the key that determines it. It returns test accuracies, losses and clipped shares after the
    given rounds, up to the first loss that is not finite.
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
        step_size = tf.constant(training.learning_rate, tf.float32)
        gradient = clipped_gradient(network.backward, x, y, samples, training)

        def advance(weights, first, count):
            return engine.train_rounds(gradient, weights, step_size, noise_std, key, first, count)

        return engine.history(
            weights, tf.constant(rounds), advance, lambda weights: network.evaluate(weights, x_test, y_test)
        )

    return history
