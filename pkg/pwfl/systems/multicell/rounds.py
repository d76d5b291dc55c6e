"""Rounds of Tavangaran et al. as one graph: clipped gradients, aggregated noise (Algorithm 1)."""

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
import tensorflow as tf

from pwfl.learning import engine, network

if TYPE_CHECKING:
    from pwfl.systems.multicell.scenario import Training


class Senders(NamedTuple):
    """Who sends in each interval of rounds, of users whose records stand one user after the other.

    Attributes
    ----------
    rows
        Places of the senders' records, int32, shape (interval, None).
    samples
        The senders' K_i, int32, same shape.
    noise_std
        Standard deviation of the aggregated noise, float32, shape (interval,).
    """

    rows: tf.RaggedTensor
    samples: tf.RaggedTensor
    noise_std: tf.Tensor

    @classmethod
    def of(cls, samples: np.ndarray, scheduled: np.ndarray, noise_std: np.ndarray) -> Self:
        """From the users' K_i, shape (user,), and who sends with which noise, shape (interval, user)."""
        std = [aggregated_noise_std(samples, sends, noise) for sends, noise in zip(scheduled, noise_std, strict=True)]
        rows = [np.flatnonzero(np.repeat(sends, samples)) for sends in scheduled]
        own = [samples[sends] for sends in scheduled]
        return cls(_ragged(rows), _ragged(own), tf.constant(std, tf.float32))


def _ragged(parts: list[np.ndarray]) -> tf.RaggedTensor:
    lengths = [len(part) for part in parts]
    return tf.RaggedTensor.from_row_lengths(
        tf.constant(np.concatenate(parts), tf.int32), tf.constant(lengths, tf.int64)
    )


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


def advance_function(
    backward: engine.Backward,
    x: tf.Tensor,
    y: tf.Tensor | None,
    senders: Senders,
    intervals: int,
    training: "Training",
    step_size: tf.Tensor,
    key: tf.Tensor,
) -> Callable:
    """A function that trains some rounds, each with those who send in it; for use inside a graph.

    Parameters
    ----------
    backward
        The model.
    x, y
        The records of all users who ever send, features of shape (sample, feature), classes of shape (sample,).
    senders
        Who sends when.
    intervals
        How many intervals there are, of as many rounds each.
    step_size, key
        As `engine.train_rounds` takes them.

    Returns
    -------
    As `engine.history` takes it.
    """
    if intervals == 1:
        gradient = clipped_gradient(backward, x, y, senders.samples[0], training)

        def advance(weights, first, count):
            return engine.train_rounds(gradient, weights, step_size, senders.noise_std[0], key, first, count)

        return advance
    coherence = training.rounds // intervals
    users = training.clipping == "per_user"  # are what is clipped; else samples

    def advance_intervals(weights, first, count):
        clipped, gradients, done = tf.constant(0.0), tf.constant(0.0), first
        while done < first + count:
            interval = done // coherence
            rounds = tf.minimum(first + count, (interval + 1) * coherence) - done
            rows, samples = senders.rows[interval], senders.samples[interval]
            sent = (tf.gather(x, rows), None if y is None else tf.gather(y, rows))
            gradient = clipped_gradient(backward, *sent, samples, training)
            weights, share = engine.train_rounds(
                gradient, weights, step_size, senders.noise_std[interval], key, done, rounds
            )
            each = tf.cast(rounds * tf.size(samples if users else rows), tf.float32)
            clipped += tf.math.multiply_no_nan(share, each)  # an interval without senders has no share
            gradients += each
            done += rounds
        return weights, clipped / gradients

    return advance_intervals


def history_function(
    widths: list[int], rounds: list[int], intervals: int, training: "Training", x_test: tf.Tensor, y_test: tf.Tensor
) -> Callable:
    """A whole training as one graph, traced once for any numbers of users and samples.

    Parameters
    ----------
    widths
        Of the network's layers, input and output included.
    rounds
        Those after which the model is evaluated.
    intervals
        How many intervals of rounds there are in which the same users send.
    x_test, y_test
        Features, shape (sample, feature), and classes, shape (sample,).

    Returns
    -------
    A function of start weights, the records x and y of all users who ever send, `Senders`, and the key that determines
    the noise. It returns test accuracies (`network.evaluate_labels`), losses and clipped shares after the given rounds,
    up to the first loss that is not finite.
    """
    shapes = [shape for inputs, outputs in pairwise(widths) for shape in ((inputs, outputs), (outputs,))]
    ragged = tf.RaggedTensorSpec([intervals, None], tf.int32)

    @tf.function(
        input_signature=[
            [tf.TensorSpec(shape, tf.float32) for shape in shapes],
            tf.TensorSpec([None, widths[0]], tf.float32),
            tf.TensorSpec([None], tf.int32),
            Senders(ragged, ragged, tf.TensorSpec([intervals], tf.float32)),
            tf.TensorSpec([], tf.int64),
        ]
    )
    def history(weights, x, y, senders, key):
        step_size = tf.constant(training.learning_rate, tf.float32)
        advance = advance_function(network.backward, x, y, senders, intervals, training, step_size, key)
        return engine.history(
            weights, tf.constant(rounds), advance, lambda weights: network.evaluate_labels(weights, x_test, y_test)
        )

    return history
