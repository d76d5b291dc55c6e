"""A model whose gradients are its records, which an audit's canaries are made for."""

import tensorflow as tf

from pwfl.learning import engine

LARGE = 1e5  # norm of a canary, in clipping norms, so that clipping leaves no bias


def linear(weights: engine.Weights, x: tf.Tensor, y: None) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    """The model <w, x> + b, whose loss is its output, as `engine` wants it."""
    return [x], [tf.ones([tf.shape(x)[0], 1])]


def linear_losses(weights: engine.Weights, x: tf.Tensor, y: None) -> tf.Tensor:
    """The same, as `autodiff` wants it."""
    kernel, bias = weights
    return tf.linalg.matvec(x, kernel[:, 0]) + bias
