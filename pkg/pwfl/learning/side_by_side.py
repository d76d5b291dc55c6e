"""The engine over realizations: trainings side by side as one program, for a GPU, which one training leaves idle.

As `engine` trains one realization, of fully connected networks: weights are lists [kernel, bias, ...] of shapes
(realization, in, out) and (realization, 1, out). Every realization keeps its own records, noise, steps and streams, and
ends as it would alone, but for the order in which float32 sums are added up. Realizations have different numbers of
records: shorter ones are filled up with records that count for nothing.

XLA compiles a program for each set of shapes, in seconds, so numbers of records are rounded up to few sizes.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from pwfl.learning import philox
from pwfl.learning.engine import Weights

SIZES = 8  # of padded numbers of records, between a power of two and the next


class Records(NamedTuple):
    """The records that a round's gradients are of, by places in data that all realizations share.

    Attributes
    ----------
    rows
        Places in the data, int32, shape (realization, part, record): one part, or users where each user's mean is what
        is clipped.
    counts
        As how many records each counts, float32, of the same shape; per part where users are clipped, shape
        (realization, part).
    sizes
        How many records each part has, int32, shape (realization, part); what lies beyond in `rows` is anything.
    """

    rows: np.ndarray
    counts: np.ndarray
    sizes: np.ndarray


def padded(number: int) -> int:
    """A size for so many records: no less, and one of SIZES between powers of two, at most an eighth more.

    >>> [padded(number) for number in (1, 16, 17, 1000, 11_000)]
    [16, 16, 18, 1024, 11264]
    """
    step = max(1, 2 ** (max(number, 16) - 1).bit_length() // 2 // SIZES)
    return -(-max(number, 16) // step) * step


def bytes_each(widths: Sequence[int], records: int, tested: tuple[int, ...]) -> float:
    """About how many bytes a realization takes, of a network of some layers' widths, the input's first.

    Of records of each round, and of test images, of shape `tested`: layers' inputs, outputs and derivatives, the
    weights and their average, gradients and noise.
    """
    layers = 3 * sum(widths[1:])
    weights = sum(a * b + b for a, b in pairwise(widths))
    of_test = tested[0] * layers * (tested[1] if len(tested) == 3 else 1)
    return 4.0 * (max(records * (widths[0] + layers), of_test) + 8 * weights)


def stacked(
    parts: Sequence[Sequence[np.ndarray]], counts: Sequence[Sequence[np.ndarray | float]], shape: tuple[int, int]
) -> Records:
    """Records of realizations, from each one's parts: places, and how much these count, by record or by part.

    `shape` is how many parts, and records of a part, there is room for.
    """
    sizes = np.zeros((len(parts), shape[0]), np.int32)
    for b, own in enumerate(parts):
        sizes[b, : len(own)] = [len(rows) for rows in own]
    shape = (len(parts), *shape)
    rows = np.zeros(shape, np.int32)
    each = np.zeros(shape if np.ndim(counts[0][0]) else sizes.shape, np.float32)
    for b, (own, counted) in enumerate(zip(parts, counts, strict=True)):
        for part, (places, count) in enumerate(zip(own, counted, strict=True)):
            rows[b, part, : len(places)] = places
            each[(b, part, slice(len(places))) if np.ndim(count) else (b, part)] = count
    return Records(rows, each, sizes)


def stacked_weights(weights: Sequence[Sequence[np.ndarray]]) -> Weights:
    """Start weights of realizations, each a list [kernel, bias, ...], as the engine has them."""
    layers = (np.stack(layer) for layer in zip(*weights, strict=True))
    return [tf.constant(layer if layer.ndim == 3 else layer[:, None], tf.float32) for layer in layers]


def forward(weights: Weights, x: tf.Tensor) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Inputs of the layers, and the last one's outputs.

    `x` has shape (realization, record, feature), or (record, feature) of records that all realizations share.
    """
    inputs = [x]
    for kernel, bias in zip(weights[:-2:2], weights[1:-2:2], strict=True):
        inputs.append(tf.nn.relu(_product(inputs[-1], kernel) + bias))
    return inputs, _product(inputs[-1], weights[-2]) + weights[-1]


def _product(x: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    # One product for all realizations where they share x, which a batch of products would copy for each.
    return tf.matmul(x, kernel) if len(x.shape) == 3 else tf.einsum("nf,bfh->bnh", x, kernel)


def backward(weights: Weights, x: tf.Tensor, y: tf.Tensor) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    """As `network.backward`, of records of shape (realization, record, feature) and classes (realization, record)."""
    inputs, logits = forward(weights, x)
    deltas = [tf.nn.softmax(logits) - tf.one_hot(y, logits.shape[-1])]
    for kernel, a in zip(weights[-2:0:-2], inputs[:0:-1], strict=True):
        deltas.insert(0, tf.where(a > 0, tf.matmul(deltas[0], kernel, transpose_b=True), 0.0))
    return inputs, deltas


def weighted_gradients(inputs: list[tf.Tensor], deltas: list[tf.Tensor], weight: tf.Tensor) -> Weights:
    """The sums over records of their gradients times their weights, shape (realization, record)."""
    pairs = []
    for a, d in zip(inputs, deltas, strict=True):
        weighted = weight[..., None] * d
        pairs.append((tf.matmul(a, weighted, transpose_a=True), tf.reduce_sum(weighted, axis=1, keepdims=True)))
    return [gradient for pair in pairs for gradient in pair]


def per_sample_gradient(
    weights: Weights, x: tf.Tensor, y: tf.Tensor, clip_norm: tf.Tensor, counts: tf.Tensor, sizes: tf.Tensor
) -> tuple[Weights, tf.Tensor]:
    """As `engine.per_sample_gradient` of each realization: the mean of clipped gradients, and the share clipped.

    `x` has shape (realization, record, feature); `counts` (realization, record); `sizes` (realization,).
    """
    inputs, deltas = backward(weights, x, y)
    square = sum(_squares(d) * (_squares(a) + 1) for a, d in zip(inputs, deltas, strict=True))
    kept = clip_norm * tf.math.rsqrt(square)
    number = tf.cast(sizes, tf.float32)
    factor = tf.minimum(1.0, kept) * tf.math.divide_no_nan(counts, number[:, None])
    there = tf.range(tf.shape(y)[1]) < sizes[:, None]
    clipped = tf.reduce_sum(tf.cast((kept < 1) & there, tf.float32), axis=1)
    return weighted_gradients(inputs, deltas, factor), tf.math.divide_no_nan(clipped, number)


def per_user_gradient(
    weights: Weights, x: tf.Tensor, y: tf.Tensor, clip_norm: tf.Tensor, counts: tf.Tensor, sizes: tf.Tensor
) -> tuple[Weights, tf.Tensor]:
    """As `engine.per_user_gradient` of each realization, of users one after the other.

    `x` has shape (realization, user, record, feature); `counts` and `sizes` (realization, user).
    """
    total, clipped = [tf.zeros_like(w) for w in weights], tf.zeros(tf.shape(sizes)[0])
    number = tf.cast(tf.reduce_sum(sizes, axis=1), tf.float32)
    records, users = tf.shape(y)[2], tf.cast(tf.math.count_nonzero(sizes, axis=1), tf.float32)
    for user in tf.range(tf.shape(sizes)[1]):
        inputs, deltas = backward(weights, x[:, user], y[:, user])
        there, size = tf.range(records) < sizes[:, user, None], sizes[:, user]
        summed = weighted_gradients(inputs, deltas, tf.cast(there, tf.float32))
        norm = tf.sqrt(sum(tf.reduce_sum(g * g, axis=(1, 2)) for g in summed))
        norm /= tf.cast(tf.maximum(size, 1), tf.float32)
        # A user that only fills up has no gradient, and counts for nothing.
        factor = tf.minimum(1.0, tf.math.divide_no_nan(clip_norm, norm) + tf.cast(norm == 0, tf.float32))
        factor *= tf.math.divide_no_nan(counts[:, user], number)
        total = [t + factor[:, None, None] * g for t, g in zip(total, summed, strict=True)]
        clipped += tf.cast(norm > clip_norm, tf.float32)
    return total, tf.math.divide_no_nan(clipped, users)


def normals(weights: Weights, keys: tf.Tensor, t: tf.Tensor) -> Weights:
    """As `engine.normals` of each realization, whose keys have shape (realization,)."""
    sizes = [w.shape[1] * w.shape[2] for w in weights]
    parts = tf.split(philox.normals(keys, t, sum(sizes)), sizes, axis=1)
    return [tf.reshape(part, [-1, *w.shape[1:]]) for part, w in zip(parts, weights, strict=True)]


@tf.function(jit_compile=True)
def train_rounds(
    state: tuple[Weights, Weights],
    data: tuple[tf.Tensor, tf.Tensor],
    records: Records,
    clip_norm: tf.Tensor,
    step_sizes: tf.Tensor,
    noise_std: tf.Tensor,
    keys: tf.Tensor,
    first: tf.Tensor,
    rounds: tf.Tensor,
    tail: tf.Tensor,
) -> tuple[tuple[Weights, Weights], tf.Tensor]:
    """As `engine.averaged_rounds` of each realization, one XLA program for all rounds.

    `data` are x, shape (sample, feature), and y, of all samples. `step_sizes` have shape (realization, round) by the
    rounds' numbers, `noise_std` and `keys` (realization,); the mean clipped shares come back in that shape.
    """
    (weights, average), users = state, records.counts.shape.rank == 2
    rows = records.rows if users else records.rows[:, 0]
    x, y = (tf.gather(part, rows) for part in data)
    counts, sizes = (records.counts, records.sizes) if users else (records.counts[:, 0], records.sizes[:, 0])
    of_gradient = per_user_gradient if users else per_sample_gradient
    clipped, std = tf.zeros(tf.shape(noise_std)), noise_std[:, None, None]
    for t in tf.range(first, first + rounds):
        mean, share = of_gradient(weights, x, y, clip_norm, counts, sizes)
        update = [g + std * n for g, n in zip(mean, normals(weights, keys, t), strict=True)]
        weights = [w - step_sizes[:, t, None, None] * u for w, u in zip(weights, update, strict=True)]
        rate = 1 / tf.cast(tf.maximum(t - tail + 1, 1), tf.float32)
        average = [(1 - rate) * a + rate * w for a, w in zip(average, weights, strict=True)]
        clipped += share
    return (weights, average), clipped / tf.cast(rounds, tf.float32)


@tf.function(jit_compile=True)
def evaluate(weights: Weights, x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """As `network.evaluate_labels` of each realization: shapes (realization, 1 + class) and (realization,)."""
    if len(x.shape) == 2:
        outputs = forward(weights, x)[1]
    else:
        _, variants, features = x.shape
        each = tf.math.log_softmax(forward(weights, tf.reshape(x, [-1, features]))[1])
        each = tf.reshape(each, [tf.shape(each)[0], -1, variants, each.shape[-1]])
        outputs = tf.reduce_logsumexp(each, axis=2) - math.log(variants)
    return measured(outputs, y)


def measured(outputs: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """As `network.measured` of each realization, of outputs of shape (realization, sample, class)."""
    hits = tf.cast(tf.equal(tf.argmax(outputs, axis=2, output_type=tf.int32), y), tf.float32)
    label = tf.one_hot(y, outputs.shape[-1])
    loss = -tf.reduce_mean(tf.reduce_sum(label * tf.math.log_softmax(outputs), axis=2), axis=1)
    of_labels = tf.matmul(hits, label) / tf.reduce_sum(label, axis=0)
    return tf.concat([tf.reduce_mean(hits, axis=1, keepdims=True), of_labels], axis=1), loss


def histories(
    weights: Weights, stops: Sequence[int], advance: Callable, evaluated: Callable
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `engine.history` of each realization: arrays with the evaluations in the second axis, all of them.

    `advance(state, first, rounds)` trains, of weights and their average, and gives mean clipped shares. Once a loss has
    left the finite numbers, what comes later in its realization means nothing; it stops no other one.
    """
    state, done, found = (weights, weights), 0, []
    for stop in stops:
        state, clipped = advance(state, done, stop - done)
        accuracies, losses = evaluated(state[1])
        found.append((accuracies.numpy(), losses.numpy(), np.asarray(clipped)))
        if not np.isfinite(found[-1][1]).any():
            break
        done = stop
    return tuple(np.stack(part, axis=1) for part in zip(*found, strict=True))


def batch_function(begin: Callable, train_all: Callable, told: Callable) -> Callable[[list[int]], dict]:
    """A function of some realizations that trains them side by side, and returns each one's rows of `history`.

    `begin(realization)` gives what one begins with, which names its `realization`; `train_all` of these what each comes
    to, a tuple; `told(start, *measured)` the rows.
    """

    def train(realizations: list[int]) -> dict:
        begun = [begin(realization) for realization in realizations]
        measured = train_all(begun)
        return {start.realization: told(start, *of_it) for start, of_it in zip(begun, measured, strict=True)}

    return train


def lengths(losses: np.ndarray) -> np.ndarray:
    """How many evaluations count, up to the first loss that is not finite, of shape (realization, evaluation)."""
    finite = np.isfinite(losses)
    return np.where(finite.all(axis=1), losses.shape[1], finite.argmin(axis=1) + 1)


def _squares(matrix: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(matrix * matrix, axis=-1)
