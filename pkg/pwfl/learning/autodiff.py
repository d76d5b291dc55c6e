"""Per-sample clipping for any model that TensorFlow differentiates, and Keras models as it wants them.

A model is a function `losses(weights, x, y)` that gives each sample's loss from no other sample. The fused pass of
`engine` is faster, but for dense networks only.
"""

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING

import tensorflow as tf

from pwfl.learning import cnn, network
from pwfl.learning.engine import Gradient, Weights

if TYPE_CHECKING:
    import keras

NUMBERS = 2**22  # of all samples' gradients in a block: 16 MiB, and a few times that in all
BATCH = 1000  # samples evaluated at a time
Losses = Callable[[Weights, tf.Tensor, tf.Tensor | None], tf.Tensor]


def per_sample_gradient(
    losses: Losses, x: tf.Tensor, y: tf.Tensor | None, clip_norm: tf.Tensor, counts: tf.Tensor | None = None
) -> Gradient:
    """As `engine.per_sample_gradient` of the model `losses`: the gradients of a block of samples, vectorized."""
    samples = tf.shape(x)[0]
    each = tf.ones([samples]) if counts is None else counts

    def of_sample(weights: Weights, row: tf.Tensor) -> Weights:
        with tf.GradientTape() as tape:
            tape.watch(weights)
            loss = losses(weights, tf.gather(x, row[None]), None if y is None else tf.gather(y, row[None]))
        return tape.gradient(loss, weights, unconnected_gradients=tf.UnconnectedGradients.ZERO)

    def gradient(weights: Weights) -> tuple[Weights, tf.Tensor]:
        size = max(NUMBERS // sum(prod(w.shape) for w in weights), 1)
        total, clipped = [tf.zeros_like(w) for w in weights], tf.constant(0.0)
        for first in tf.range(0, samples, size):
            rows = tf.range(first, tf.minimum(first + size, samples))
            gradients = tf.vectorized_map(lambda row: of_sample(weights, row), rows)
            square = tf.reduce_sum(
                tf.stack([tf.reduce_sum(tf.square(g), axis=list(range(1, g.shape.rank))) for g in gradients]), axis=0
            )
            kept = clip_norm * tf.math.rsqrt(square)
            factor = tf.minimum(1.0, kept) * tf.gather(each, rows) / tf.cast(samples, tf.float32)
            total = [t + tf.tensordot(factor, g, 1) for t, g in zip(total, gradients, strict=True)]
            clipped += tf.math.count_nonzero(kept < 1, dtype=tf.float32)
        return total, clipped / tf.cast(samples, tf.float32)

    return gradient


def cross_entropy(model: "keras.Model") -> Losses:
    """A Keras classifier's loss, of logits. Raises ValueError for a model with state, such as batch normalization."""
    if model.non_trainable_variables:
        named = ", ".join(variable.path for variable in model.non_trainable_variables)
        raise ValueError(f"{model.name}: has state beside its weights: {named}; a sample's gradient must be its own")

    def losses(weights: Weights, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(y, model.stateless_call(weights, [], x)[0])

    return losses


def evaluate_labels(model: "keras.Model", weights: Weights, x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """As `network.evaluate_labels`, of a Keras classifier with these weights."""
    batches = -(-tf.shape(x)[0] // BATCH)
    logits = tf.TensorArray(tf.float32, batches, infer_shape=False, element_shape=[None, *model.output_shape[1:]])
    for batch in tf.range(batches):
        outputs, _ = model.stateless_call(weights, [], x[batch * BATCH : (batch + 1) * BATCH])
        logits = logits.write(batch, outputs)
    return network.measured(logits.concat(), y)


def convolutional(image: tuple[int, ...], classes: int) -> "keras.Model":
    """The network of `cnn` in Keras, of images whose pixels follow one another."""
    import keras  # takes seconds, which dense networks need not wait for

    layers = [keras.layers.Input([prod(image)]), keras.layers.Reshape([*image[:2], cnn.channels(image)])]
    for filters, kernel, padded in zip(cnn.FILTERS, cnn.KERNELS, cnn.padding(image), strict=True):
        layers.append(keras.layers.Conv2D(filters, kernel, cnn.STRIDE, padded, activation="relu"))
        layers.append(keras.layers.MaxPool2D(cnn.POOL, 1))
    dense = keras.layers.Dense(cnn.HIDDEN, activation="relu"), keras.layers.Dense(classes)
    return keras.Sequential([*layers, keras.layers.Flatten(), *dense])
