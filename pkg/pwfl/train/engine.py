"""Federated gradient descent with clipping and noise, fused over all scheduled users.

With full-batch steps and averages weighted by samples, users, stations and server together compute
one sum over all scheduled samples. So a round is one forward and one backward pass over them. A
dense layer's gradient for one sample is the outer product of its input a (and 1, for the bias) and
its output's delta, of norm ||delta|| sqrt(||a||^2 + 1): per-sample norms need no per-sample
gradients. The users' noise adds up to one Gaussian draw.

Weights are lists [kernel, bias, kernel, bias, ...]. A model is a function
`backward(weights, x, y) -> inputs, deltas`, the input of each layer and the derivative of each
sample's loss by the layer's output.
"""

from collections.abc import Callable

import tensorflow as tf

Weights = list[tf.Tensor]
Gradient = Callable[[Weights], Weights]
Backward = Callable[[Weights, tf.Tensor, tf.Tensor], tuple[list[tf.Tensor], list[tf.Tensor]]]


def train_rounds(
    gradient: Gradient,
    weights: Weights,
    step_size: tf.Tensor,
    noise_std: tf.Tensor,
    key: tf.Tensor,
    first_round: tf.Tensor,
    rounds: tf.Tensor,
) -> Weights:
    """Run rounds `first_round`, ... of w <- w - step_size (gradient(w) + noise), Algorithm 1.

    `noise_std` is the standard deviation per coordinate of the aggregated noise, `key` an int64
    that with the round's number determines it.
    """
    for t in tf.range(first_round, first_round + rounds):
        update = [g + noise_std * n for g, n in zip(gradient(weights), normals(weights, key, t), strict=True)]
        weights = [w - step_size * u for w, u in zip(weights, update, strict=True)]
    return weights


def normals(weights: Weights, key: tf.Tensor, t: tf.Tensor) -> Weights:
    """Standard normal numbers of the weights' shapes, one draw from the stream (key, t)."""
    sizes = [w.shape.num_elements() for w in weights]
    draw = tf.random.stateless_normal([sum(sizes)], seed=tf.stack([key, tf.cast(t, tf.int64)]))
    return [tf.reshape(part, w.shape) for part, w in zip(tf.split(draw, sizes), weights, strict=True)]


def per_sample_gradient(backward: Backward, x: tf.Tensor, y: tf.Tensor, clip_norm: tf.Tensor) -> Gradient:
    """The mean over all samples of their loss's gradient, each clipped to `clip_norm`."""
    samples = tf.cast(tf.shape(x)[0], tf.float32)
    x_squares = _row_squares(x)  # the same in every round

    def gradient(weights: Weights) -> Weights:
        inputs, deltas = backward(weights, x, y)
        squares = [x_squares, *(_row_squares(a) for a in inputs[1:])]
        square = tf.add_n([_row_squares(d) * (s + 1) for s, d in zip(squares, deltas, strict=True)])
        factor = tf.minimum(1.0, clip_norm * tf.math.rsqrt(square)) / samples
        return _layer_gradients(inputs, [factor[:, None] * d for d in deltas])

    return gradient


def per_user_gradient(
    backward: Backward, x: tf.Tensor, y: tf.Tensor, clip_norm: tf.Tensor, samples: tf.Tensor
) -> Gradient:
    """The average of the users' mean gradients, each clipped to `clip_norm`, weighted by their samples.

    `samples` holds the users' numbers of samples, whose rows follow each other in x and y.
    """
    stop = tf.cumsum(samples)

    def gradient(weights: Weights) -> Weights:
        inputs, deltas = backward(weights, x, y)
        total = [tf.zeros_like(w) for w in weights]
        for user in tf.range(tf.size(samples)):
            rows = slice(stop[user] - samples[user], stop[user])
            summed = _layer_gradients([a[rows] for a in inputs], [d[rows] for d in deltas])
            norm = tf.linalg.global_norm(summed) / tf.cast(samples[user], tf.float32)
            factor = tf.minimum(1.0, clip_norm / norm) / tf.cast(tf.shape(x)[0], tf.float32)
            total = [t + factor * g for t, g in zip(total, summed, strict=True)]
        return total

    return gradient


def _layer_gradients(inputs: list[tf.Tensor], deltas: list[tf.Tensor]) -> Weights:
    gradients = []
    for a, d in zip(inputs, deltas, strict=True):
        gradients += [tf.matmul(a, d, transpose_a=True), tf.reduce_sum(d, axis=0)]
    return gradients


def _row_squares(matrix: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.square(matrix), axis=1)
