"""Federated gradient descent with clipping and noise, fused over all scheduled users.

With full-batch steps and averages weighted by samples, users, stations and server together compute one sum over all
scheduled samples: a round is one forward and one backward pass over them. A dense layer's gradient for one sample is
the outer product of its input a (and 1, for the bias) and its output's delta, of norm ||delta|| sqrt(||a||^2 + 1):
per-sample norms need no per-sample gradients. The users' noise adds up to one Gaussian draw.

Weights are lists [kernel, bias, kernel, bias, ...]. A model is a function `backward(weights, x, y) -> inputs, deltas`,
the input of each layer and the derivative of each sample's loss by the layer's output.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod

import polars as pl
import tensorflow as tf

BLOCKS = 6  # of samples, in a large network; 4 to 12 are as fast
LARGE_LAYER = 2**14  # weights in a layer that makes a network large
HISTORY = {  # columns of a training's history
    "realization": pl.Int64,
    "round": pl.Int64,
    "accuracy": pl.Float64,
    "loss": pl.Float64,
    "clipped_share": pl.Float64,
    "status": pl.String,
}

Weights = list[tf.Tensor]
Gradient = Callable[[Weights], tuple[Weights, tf.Tensor]]
Backward = Callable[[Weights, tf.Tensor, tf.Tensor | None], tuple[list[tf.Tensor], list[tf.Tensor]]]


def with_noise(
    gradient: Gradient, weights: Weights, noise_std: tf.Tensor, key: tf.Tensor, t: tf.Tensor
) -> tuple[Weights, tf.Tensor]:
    """What a server receives in round t, the gradient with the users' noise in it; and the share clipped."""
    mean, share = gradient(weights)
    return [g + noise_std * n for g, n in zip(mean, normals(weights, key, t), strict=True)], share


def train_rounds(
    gradient: Gradient,
    weights: Weights,
    step_size: tf.Tensor,
    noise_std: tf.Tensor,
    key: tf.Tensor,
    first_round: tf.Tensor,
    rounds: tf.Tensor,
    released: Callable = with_noise,
) -> tuple[Weights, tf.Tensor]:
    """Run rounds `first_round`, `first_round + 1`, ... of w <- w - step_size (gradient(w) + noise), Algorithm 1.

    `step_size` is a float32 scalar, or of shape (round,) by the rounds' numbers; `noise_std` is per coordinate, of the
    aggregated noise; the int64 scalar `key` and a round's number determine its noise. `released` is `with_noise`, or
    another function of its kind.

    Returns the weights after the last round, and the mean over the rounds of the clipped share, NaN of none.
    """
    clipped = tf.constant(0.0)
    for t in tf.range(first_round, first_round + rounds):
        update, share = released(gradient, weights, noise_std, key, t)
        step = step_size[t] if step_size.shape.rank else step_size
        weights = [w - step * u for w, u in zip(weights, update, strict=True)]
        clipped += share
    return weights, clipped / tf.cast(rounds, tf.float32)


def evaluation_rounds(rounds: int, every: int) -> list[int]:
    """The rounds after which the model is evaluated: 0 (start), 1, multiples of `every`, the last."""
    return sorted({0, 1, rounds, *range(every, rounds + 1, every)})


def history(
    weights: Weights,
    stops: tf.Tensor,
    advance: Callable[[Weights, tf.Tensor, tf.Tensor], tuple[Weights, tf.Tensor]],
    evaluate: Callable[[Weights], tuple[tf.Tensor, tf.Tensor]],
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Accuracies, losses and clipped shares of a training, float32, up to the first loss that is not finite.

    The model is evaluated after the rounds `stops`, int32, increasing. `advance(weights, first_round, rounds)` trains,
    and gives the rounds' mean clipped share, as `train_rounds`; `evaluate(weights)` gives accuracy, or an array of
    several, and loss.
    """
    arrays = [tf.TensorArray(tf.float32, tf.size(stops)) for _ in range(3)]
    evaluated, done = tf.constant(0), tf.constant(0)
    for stop in stops:
        weights, clipped = advance(weights, done, stop - done)
        accuracy, loss = evaluate(weights)
        arrays = [array.write(evaluated, value) for array, value in zip(arrays, (accuracy, loss, clipped), strict=True)]
        evaluated, done = evaluated + 1, stop
        if not tf.math.is_finite(loss):
            break
    return tuple(array.stack()[:evaluated] for array in arrays)


def normals(weights: Weights, key: tf.Tensor, t: tf.Tensor) -> Weights:
    """Standard normal numbers of the weights' shapes, one draw from the stream (key, t)."""
    sizes = [w.shape.num_elements() for w in weights]
    draw = tf.random.stateless_normal([sum(sizes)], seed=tf.stack([key, tf.cast(t, tf.int64)]))
    return [tf.reshape(part, w.shape) for part, w in zip(tf.split(draw, sizes), weights, strict=True)]


def per_sample_gradient(
    backward: Backward, x: tf.Tensor, y: tf.Tensor | None, clip_norm: tf.Tensor, counts: tf.Tensor | None = None
) -> Gradient:
    """The mean over all samples of their loss's gradient, each clipped to a norm of `clip_norm`; and the share clipped.

    `x` has shape (sample, feature); `y` is what the model compares with, shape (sample,), or None. `counts`, of mean 1,
    shape (sample,), are as how many each sample counts in the mean; None: each as one. Returns a function of weights,
    for use inside a graph.

    For a large network the samples go through in BLOCKS blocks, one after the other on one core, side by side on
    several: what lies between the matrix products then stays in the cache.
    """
    samples = tf.shape(x)[0]
    x_squares = _row_squares(x)  # the same in every round

    def of_block(weights: Weights, rows: slice) -> tuple[Weights, tf.Tensor]:
        inputs, deltas = backward(weights, x[rows], None if y is None else y[rows])
        kept = _scale(inputs, deltas, x_squares[rows], clip_norm)
        factor = tf.minimum(1.0, kept) * (1.0 if counts is None else counts[rows]) / tf.cast(samples, tf.float32)
        return _weighted_gradients(inputs, deltas, factor), tf.math.count_nonzero(kept < 1, dtype=tf.float32)

    def gradient(weights: Weights) -> tuple[Weights, tf.Tensor]:
        blocks = BLOCKS if max(prod(w.shape) for w in weights) >= LARGE_LAYER else 1
        edges = [samples * k // blocks for k in range(blocks + 1)]
        parts, clipped = zip(*(of_block(weights, slice(first, stop)) for first, stop in pairwise(edges)), strict=True)
        mean = [_sum(layer) for layer in zip(*parts, strict=True)]
        return mean, _sum(clipped) / tf.cast(samples, tf.float32)

    return gradient


def clipped_sums(
    backward: Backward, x: tf.Tensor, y: tf.Tensor | None, clip_norm: tf.Tensor, samples: tf.Tensor
) -> Callable[[Weights], tuple[tf.Tensor, tf.Tensor]]:
    """Each user's sum of its samples' clipped gradients, shape (user, weight); and the share of samples clipped.

    As `per_sample_gradient`, with the users' numbers of samples, int32, shape (user,), whose rows follow each other.
    """
    stop, x_squares = tf.cumsum(samples), _row_squares(x)

    def sums(weights: Weights) -> tuple[tf.Tensor, tf.Tensor]:
        inputs, deltas = backward(weights, x, y)
        kept = _scale(inputs, deltas, x_squares, clip_norm)
        factor = tf.minimum(1.0, kept)

        def of_user(user: tf.Tensor) -> tf.Tensor:
            rows = slice(stop[user] - samples[user], stop[user])
            summed = _weighted_gradients([a[rows] for a in inputs], [d[rows] for d in deltas], factor[rows])
            return tf.concat([tf.reshape(g, [-1]) for g in summed], axis=0)

        users = tf.range(tf.size(samples))
        each = tf.map_fn(of_user, users, fn_output_signature=tf.float32, parallel_iterations=1)
        clipped = tf.math.count_nonzero(kept < 1, dtype=tf.float32) / tf.cast(tf.size(factor), tf.float32)
        return tf.reshape(each, [-1, sum(prod(w.shape) for w in weights)]), clipped

    return sums


def _scale(inputs: list[tf.Tensor], deltas: list[tf.Tensor], x_squares: tf.Tensor, clip_norm: tf.Tensor) -> tf.Tensor:
    """What clipping multiplies each sample's gradient by, where that is less than 1."""
    squares = [x_squares, *(_row_squares(a) for a in inputs[1:])]
    square = _sum([_row_squares(d) * (s + 1) for s, d in zip(squares, deltas, strict=True)])
    return clip_norm * tf.math.rsqrt(square)


def _weighted_gradients(inputs: list[tf.Tensor], deltas: list[tf.Tensor], weight: tf.Tensor) -> Weights:
    """The sum over samples of their gradients times their weights."""
    pairs = [
        (tf.matmul(a, weight[:, None] * d, transpose_a=True), tf.linalg.matvec(d, weight, transpose_a=True))
        for a, d in zip(inputs, deltas, strict=True)
    ]
    return [gradient for pair in pairs for gradient in pair]


def _sum(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    # Not tf.add_n: where memory is short, TensorFlow's optimizer gives it temporary variables, which collide
    # in loops and end the training.
    return tf.reduce_sum(tf.stack(tensors), axis=0)


def _row_squares(matrix: tf.Tensor) -> tf.Tensor:
    # One pass over memory, where the sum of tf.square takes two.
    return tf.square(tf.math.reduce_euclidean_norm(matrix, axis=1))
