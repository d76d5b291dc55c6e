"""Per-record clipping by automatic differentiation, for any model that TensorFlow differentiates.

All functions are of one realization. A model is a function `losses(weights, x, y)`: it maps parameters, features, shape
(record, feature), and classes, int32, (record,), to losses in nats, (record,), each of which must depend on its own
record alone. `dense` is faster, but computes dense networks only.
"""

from collections.abc import Callable
from functools import cache
from math import prod
from typing import TYPE_CHECKING

from pwfl.learning import cnn
from pwfl.process.tensorflow import tf
from pwfl.training import dense
from pwfl.training.batching import Weights, repeated

if TYPE_CHECKING:
    import keras

NUMBERS = 2**22  # parameters times records of a block: its gradients have 16 MiB, intermediate tensors a few times that
BATCH = 1000  # records evaluated at a time
Outputs = Callable[[Weights, tf.Tensor], tf.Tensor]  # (weights, x) to logits, (record, class)
Losses = Callable[[Weights, tf.Tensor, tf.Tensor], tf.Tensor]  # (weights, x, y) to losses, (record,)


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
    """Compute the mean of the records' clipped gradients, and the number of gradients that were clipped.

    As `dense.clipped_mean`, for one realization. The gradients of a block of records are computed at a time
    (`tf.vectorized_map`).

    Parameters
    ----------
    losses
        The model.
    weights
        Its parameters.
    x, y
        Features, shape (record, feature), and classes, int32, shape (record,).
    clip_norm
        The L2 norm to which each record's gradient is clipped.
    sizes
        Number of records, int32, shape ().
    counts
        Weights of records in the mean, shape (record,); None: 1.
    filled_up
        Whether records from `sizes` on are padding. All blocks then have the same size, as XLA requires.
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
    """Compute sum_j factor[j] g_j over records j with gradients g_j, one tensor per tensor of the model.

    `x` and `y` are as in `clipped_mean`; `factor` has shape (record,).
    """
    with tf.GradientTape() as tape:
        tape.watch(weights)
        loss = tf.reduce_sum(factor * losses(weights, x, y))
    return _slopes(tape, loss, weights)


def _slopes(tape: tf.GradientTape, loss: tf.Tensor, weights: Weights) -> Weights:
    """Compute the gradient of a loss as dense tensors, also for embeddings, whose gradients TensorFlow makes sparse."""
    slopes = tape.gradient(loss, weights, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    return [tf.convert_to_tensor(slope) for slope in slopes]


def evaluate(outputs: Outputs, weights: Weights, x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Compute accuracies, shape (1 + class,), and mean loss, as `dense.evaluate`, BATCH records at a time."""
    parts = (x[first : first + BATCH] for first in range(0, x.shape[0], BATCH))
    return dense.measured(tf.concat([outputs(weights, part) for part in parts], axis=0), y)


@cache
def convolutional(image: tuple[int, ...], classes: int) -> "keras.Model":
    """Build the convolutional network of `learning.cnn` in Keras.

    Its input is a flattened image, shape (record, pixel), of shape `image`: (row, column) or (row, column, channel).
    """
    import keras  # takes seconds, which dense networks need not wait for

    layers = [keras.layers.Input([prod(image)]), keras.layers.Reshape([*image[:2], cnn.channels(image)])]
    for filters, kernel, padded in zip(cnn.FILTERS, cnn.KERNELS, cnn.padding(image), strict=True):
        layers.append(keras.layers.Conv2D(filters, kernel, cnn.STRIDE, padded, activation="relu"))
        layers.append(keras.layers.MaxPool2D(cnn.POOL, 1))
    last = keras.layers.Dense(cnn.HIDDEN, activation="relu"), keras.layers.Dense(classes)
    return keras.Sequential([*layers, keras.layers.Flatten(), *last])
