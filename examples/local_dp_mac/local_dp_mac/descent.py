"""The server's steps, as training runs and the audit attacks them."""

from collections.abc import Callable

import tensorflow as tf

from pwfl.learning import engine


def descend(gradient: engine.Gradient, step_size: tf.Tensor, noise_std: tf.Tensor, key: tf.Tensor) -> Callable:
    """A function (weights, first_round, rounds) -> weights, clipped share that trains, for use inside a graph.

    `gradient` is one of `engine`; `noise_std` is that of a coordinate of the mean gradient, float32, shape (round,).
    """

    def advance(weights, first_round, rounds):
        def step(t, weights, clipped):
            weights, share = engine.train_rounds(gradient, weights, step_size, noise_std[t], key, t, tf.constant(1))
            return t + 1, weights, clipped + share

        start = (first_round, weights, tf.constant(0.0))
        _, weights, clipped = tf.while_loop(lambda t, *_: t < first_round + rounds, step, start)
        return weights, clipped / tf.cast(rounds, tf.float32)

    return advance
