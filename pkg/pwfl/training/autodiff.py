"""Per-sample clipping for any model that TensorFlow differentiates, and Keras models as it wants them.

A model is a function `losses(weights, x, y)` that gives each sample's loss from no other sample. The fused pass of
`dense` is faster, but for dense networks only.
"""

from collections.abc import Callable
from functools import cache
from math import prod
from typing import TYPE_CHECKING

import tensorflow as tf

from pwfl.learning import cnn
from pwfl.training import dense
from pwfl.training.batching import Weights, repeated

if TYPE_CHECKING:
    import keras

NUMBERS = 2**22  # of all samples' gradients in a block: 16 MiB, and a few times that in all
BATCH = 1000  # samples evaluated at a time
Outputs = Callable[[Weights, tf.Tensor], tf.Tensor]
Losses = Callable[[Weights, tf.Tensor, tf.Tensor], tf.Tensor]


def clipped_mean(
    losses: Losses,
    weights: Weights,
    x: tf.Tensor,
    y: tf.Tensor,
    clip_norm: float,
    sizes: tf.Tensor,
    counts: tf.Tensor | None = None,
    filled_up: bool = False,
) -> tuple[Weights, tf.Tensor]:
    """As `dense.clipped_mean`, of one realization: the gradients of a block of records, vectorized.

    With `filled_up`, records beyond `sizes` are anything, and all blocks have one size, as XLA wants them.
    """
    records, size = tf.shape(y)[0], max(NUMBERS // sum(prod(w.shape) for w in weights), 1)
    if filled_up:
        size = tf.minimum(size, records)
        block = tf.range(size)
    held = tf.cast(sizes, tf.float32)

    def record_gradient(row: tf.Tensor) -> Weights:
        with tf.GradientTape() as tape:
            tape.watch(weights)
            loss = losses(weights, tf.gather(x, row[None]), tf.gather(y, row[None]))
        return _slopes(tape, loss, weights)

    def add_block(number, total, clipped):
        first = number * size
        rows = first + block if filled_up else tf.range(first, tf.minimum(first + size, records))
        there = rows < sizes
        if filled_up:
            rows = tf.minimum(rows, records - 1)
        gradients = tf.vectorized_map(record_gradient, rows)
        squares = [tf.reduce_sum(tf.square(g), axis=list(range(1, g.shape.rank))) for g in gradients]
        kept = clip_norm * tf.math.rsqrt(tf.reduce_sum(tf.stack(squares), axis=0))
        factor = tf.minimum(1.0, kept)
        if counts is not None:
            factor *= tf.gather(counts, rows)
        factor = tf.where(there, factor / held, 0.0) if filled_up else factor / held
        total = [t + tf.tensordot(factor, g, 1) for t, g in zip(total, gradients, strict=True)]
        return total, clipped + tf.math.count_nonzero((kept < 1) & there, dtype=tf.float32)

    state = [tf.zeros_like(w) for w in weights], tf.constant(0.0)
    return repeated(add_block, 0, -(-records // size), state)


def weighted_sum(losses: Losses, weights: Weights, x: tf.Tensor, y: tf.Tensor, factor: tf.Tensor) -> Weights:
    """The sum of the records' gradients, each times its factor, of one realization."""
    with tf.GradientTape() as tape:
        tape.watch(weights)
        loss = tf.reduce_sum(factor * losses(weights, x, y))
    return _slopes(tape, loss, weights)


def _slopes(tape: tf.GradientTape, loss: tf.Tensor, weights: Weights) -> Weights:
    """A loss's gradient, dense also where few rows of a weight have any, as an embedding's."""
    slopes = tape.gradient(loss, weights, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    return [tf.convert_to_tensor(slope) for slope in slopes]


def evaluate(outputs: Outputs, weights: Weights, x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """As `dense.evaluate`, of a classifier with these weights."""
    parts = (x[first : first + BATCH] for first in range(0, x.shape[0], BATCH))
    return dense.measured(tf.concat([outputs(weights, part) for part in parts], axis=0), y)


@cache
def convolutional(image: tuple[int, ...], classes: int) -> "keras.Model":
    """The network of `cnn` in Keras, of images whose pixels follow one another."""
    import keras  # takes seconds, which dense networks need not wait for

    layers = [keras.layers.Input([prod(image)]), keras.layers.Reshape([*image[:2], cnn.channels(image)])]
    for filters, kernel, padded in zip(cnn.FILTERS, cnn.KERNELS, cnn.padding(image), strict=True):
        layers.append(keras.layers.Conv2D(filters, kernel, cnn.STRIDE, padded, activation="relu"))
        layers.append(keras.layers.MaxPool2D(cnn.POOL, 1))
    last = keras.layers.Dense(cnn.HIDDEN, activation="relu"), keras.layers.Dense(classes)
    return keras.Sequential([*layers, keras.layers.Flatten(), *last])
