"""Local mini-batch SGD of a linear model, of all users at once, and the clipping of what they learned.

Weights have shape (output, feature): a sample's outputs are weights @ x, its bias a feature that is 1. Each user has
weights of its own during local steps, so matrix products are batched over users. The loss comes in by
`derivative(outputs, y)`, the derivative of each sample's loss by its outputs.
"""

from collections.abc import Callable

import tensorflow as tf

CACHE_BYTES = 2**22  # that a block of users' samples may take; at MNIST's sizes 1.7 times as fast as all users at once

Derivative = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def cross_entropy_derivative(outputs: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Derivative of each sample's softmax cross-entropy, shape (..., output); `y` holds classes."""
    return tf.nn.softmax(outputs) - tf.one_hot(y, outputs.shape[-1])


def with_bias(x: tf.Tensor) -> tf.Tensor:
    """Samples with a last feature that is 1."""
    return tf.concat([x, tf.ones_like(x[..., :1])], axis=-1)


def minibatches(key: tf.Tensor, t: tf.Tensor, users: int, samples: int, batch_size: int, steps: int) -> tf.Tensor:
    """Which of its samples each user takes in each step of round t, int32, shape (user, step, batch).

    A user goes through its samples in random order, of the stream (key, t), leaving out the rest that fills no batch,
    and begins a new pass when none is left.
    """
    batches = samples // batch_size
    passes = -(-steps // batches)
    order = tf.random.stateless_uniform([users, passes, samples], seed=tf.stack([key, tf.cast(t, tf.int64)]))
    order = tf.argsort(order, axis=-1)[..., : batches * batch_size]
    return tf.reshape(order, [users, passes * batches, batch_size])[:, :steps]


def updates(
    weights: tf.Tensor, x: tf.Tensor, y: tf.Tensor, batches: tf.Tensor, step_size: tf.Tensor, derivative: Derivative
) -> tf.Tensor:
    """What each user's local steps change in the common weights, shape (user, output, feature).

    `x` has shape (user, sample, feature), `y` (user, sample), `batches` as from `minibatches`. Blocks of users go
    through all steps one after the other, so that their samples stay in the cache.
    """
    users, samples, features = x.shape
    size = max(CACHE_BYTES // (4 * samples * features), 1)
    blocks = -(-users // size)
    done = tf.TensorArray(tf.float32, blocks, element_shape=[None, *weights.shape], infer_shape=False)
    for block in tf.range(blocks):
        rows = slice(block * size, (block + 1) * size)
        done = done.write(block, _updates(weights, x[rows], y[rows], batches[rows], step_size, derivative))
    return tf.ensure_shape(done.concat(), [users, *weights.shape])


def _updates(weights, x, y, batches, step_size, derivative):
    scale = step_size / tf.cast(tf.shape(batches)[2], tf.float32)
    local = tf.repeat(weights[None], tf.shape(x)[0], axis=0)
    for step in tf.range(tf.shape(batches)[1]):
        chosen = batches[:, step]
        samples = tf.gather(x, chosen, batch_dims=1)
        outputs = tf.matmul(samples, local, transpose_b=True)
        slope = scale * derivative(outputs, tf.gather(y, chosen, batch_dims=1))
        local -= tf.matmul(slope, samples, transpose_a=True)
    return local - weights


def clip(update: tf.Tensor, clip_norm: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Each user's update scaled down to a norm of at most `clip_norm`, and the norms before, shape (user,)."""
    norms = tf.sqrt(tf.reduce_sum(tf.square(update), axis=[1, 2]))
    return tf.math.minimum(1.0, clip_norm / norms)[:, None, None] * update, norms


def received(update: tf.Tensor, weight: tf.Tensor, noise_std: tf.Tensor, key: tf.Tensor, t: tf.Tensor) -> tf.Tensor:
    """The users' updates as a server gets them over the air: weighted sum and Gaussian noise, shape (output, feature).

    `weight` has shape (user,); `noise_std` is per coordinate, and the noise is drawn from the stream (key, t).
    """
    draw = tf.random.stateless_normal(update.shape[1:], seed=tf.stack([key, tf.cast(t, tf.int64)]))
    # The noise is one more summand of the product. With the sum that the result goes into, a sum of its own
    # would make three, for which TensorFlow's optimizer takes a temporary variable; in loops, these collide.
    summands, factors = tf.concat([update, draw[None]], axis=0), tf.concat([weight, noise_std[None]], axis=0)
    return tf.tensordot(factors, summands, axes=1)
