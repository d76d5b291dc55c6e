"""The fully connected ReLU network with softmax cross-entropy, as the engine wants it."""

import math

import tensorflow as tf

from pwfl.learning.engine import Weights


def backward(weights: Weights, x: tf.Tensor, y: tf.Tensor) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    """Inputs of the layers, and derivatives of each sample's cross-entropy by the layers' outputs, layer by layer.

    Features `x` are float32, shape (sample, feature), classes `y` int32, shape (sample,).
    """
    inputs, logits = _forward(weights, x)
    deltas = [tf.nn.softmax(logits) - tf.one_hot(y, logits.shape[1])]
    for kernel, a in zip(weights[-2:0:-2], inputs[:0:-1], strict=True):
        deltas.insert(0, tf.raw_ops.ReluGrad(gradients=tf.matmul(deltas[0], kernel, transpose_b=True), features=a))
    return inputs, deltas


def evaluate(weights: Weights, x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Accuracy and mean cross-entropy, in nats, float32 scalars; variants' predicted probabilities are averaged."""
    accuracies, loss = evaluate_labels(weights, x, y)
    return accuracies[0], loss


def evaluate_labels(weights: Weights, x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """As `evaluate`, with the accuracies on the samples of each class after that on all, shape (1 + class,).

    Where `x` has the shape (sample, variant, feature), predicted probabilities are means over variants.
    """
    if len(x.shape) == 2:
        _, logits = _forward(weights, x)
        return measured(logits, y)
    _, variants, features = x.shape
    _, logits = _forward(weights, tf.reshape(x, [-1, features]))
    each = tf.math.log_softmax(tf.reshape(logits, [-1, variants, logits.shape[1]]))
    return measured(tf.reduce_logsumexp(each, axis=1) - math.log(variants), y)


def logits(weights: Weights, x: tf.Tensor) -> tf.Tensor:
    """The outputs of the last layer, shape (sample, class); arguments as for `backward`."""
    return _forward(weights, x)[1]


def measured(logits: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """What `evaluate_labels` returns, of outputs of shape (sample, class); NaN of a class without samples."""
    hits = tf.cast(tf.equal(tf.argmax(logits, axis=1, output_type=tf.int32), y), tf.float32)
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)
    classes = logits.shape[1]
    right, count = (tf.math.unsorted_segment_sum(values, y, classes) for values in (hits, tf.ones_like(hits)))
    return tf.concat([[tf.reduce_mean(hits)], right / count], axis=0), tf.reduce_mean(loss)


def _forward(weights: Weights, x: tf.Tensor) -> tuple[list[tf.Tensor], tf.Tensor]:
    inputs = [x]
    for kernel, bias in zip(weights[:-2:2], weights[1:-2:2], strict=True):
        inputs.append(tf.nn.relu(tf.matmul(inputs[-1], kernel) + bias))
    return inputs, tf.matmul(inputs[-1], weights[-2]) + weights[-1]
