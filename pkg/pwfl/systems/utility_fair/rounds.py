"""One round of Alvi et al. as a graph: noisy copies, local steps, uploads, their average."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import polars as pl
import tensorflow as tf

from pwfl.systems.utility_fair import local_steps
from pwfl.systems.utility_fair.local_steps import Weights

# Streams of the noise of copies, and of what a device sends in a round, gradients and updates.
STREAMS = ("noise", "gradient_noise", "update_noise")


class Noise(NamedTuple):
    """The noise of one round: of the devices' copies of the model, and of what they send."""

    copy_std: tf.Tensor  # shape (device,)
    vectors: tf.Tensor  # numbers of the noise vectors, int32, shape (device,): the same number, the same noise
    copy_seed: tf.Tensor  # int64, shape (2,)
    upload_std: tf.Tensor | None = None  # shape (device,); None: what they send is clean
    upload_seeds: tf.Tensor | None = None  # of gradients and of updates, int64, shape (2, 2)


def round_noise(plan: pl.DataFrame, copy_std: np.ndarray, keys: list[int], t: int) -> Noise:
    """The noise of round t as its graph takes it.

    Parameters
    ----------
    plan
        A row for each device, of the table `noise`.
    copy_std
        Of the devices' copies, shape (device,).
    keys
        Of the noise of copies, gradients and updates, by STREAMS.
    """
    key, *upload_keys = keys
    clean = plan["upload_std"].null_count() > 0
    return Noise(
        copy_std=tf.constant(copy_std, tf.float32),
        vectors=tf.constant(plan["noise_vector"].to_numpy(), tf.int32),
        copy_seed=tf.constant([key, t], tf.int64),
        upload_std=None if clean else tf.constant(plan["upload_std"].to_numpy(), tf.float32),
        upload_seeds=None if clean else tf.constant([[upload_key, t] for upload_key in upload_keys], tf.int64),
    )


def round_function(step_size: float, correction: float, compared_with: str, radius: float | None = None) -> Callable:
    """One round of all devices as a graph, traced once.

    With eta of a local iteration and xi, the weight of the average gradient in it, (3); updates are compared with the
    `mean_update` or the new `model`, (15), and clipped as `uploads.radius` says. A function of the model's weights, the
    devices' batches x and y as in `local_steps`, their iterations (0: sits out), and the round's `Noise`. It returns
    the new weights (4), the losses of the copies on their batches, and the cosine of each update, as it is received,
    with what it is compared with.
    """

    @tf.function(reduce_retracing=True)
    def play(weights, x, y, iterations, noise):
        copied = noisy_copies(weights, noise.copy_std, noise.vectors, noise.copy_seed)
        active = tf.cast(iterations > 0, tf.float32)
        share = tf.math.divide_no_nan(active, tf.reduce_sum(active))
        losses = local_steps.losses(copied, x, y)
        sent = local_steps.gradients(copied, x, y, radius)
        if noise.upload_std is not None:
            sent = noisy_uploads(sent, noise.upload_std, noise.upload_seeds[0])
        direction = [correction * tf.tensordot(share, gradient, 1)[None] for gradient in sent]
        update = local_steps.updates(copied, x, y, direction, iterations, step_size)
        if radius is not None:
            update = near(update, local_steps.straight(direction, iterations, step_size), radius)
        if noise.upload_std is not None:
            update = noisy_uploads(update, noise.upload_std, noise.upload_seeds[1])
        mean_update = [tf.tensordot(share, own, 1) for own in update]
        new = [w + tf.reshape(m, w.shape) for w, m in zip(weights, mean_update, strict=True)]
        return new, losses, cosines(update, mean_update if compared_with == "mean_update" else new)

    return play


def noisy_copies(weights: Weights, copy_std: tf.Tensor, vectors: tf.Tensor, noise_seed: tf.Tensor) -> Weights:
    """The devices' copies of the model's weights, with noise as in `Noise`, in the shapes of `local_steps`."""
    sizes = [w.shape.num_elements() for w in weights]
    normal = tf.random.stateless_normal([tf.reduce_max(vectors) + 1, sum(sizes)], seed=noise_seed)
    noise = tf.split(copy_std[:, None] * tf.gather(normal, vectors), sizes, axis=1)
    shapes = [w.shape if w.shape.rank == 2 else [1, *w.shape] for w in weights]  # biases as rows
    return [
        tf.reshape(w, shape) + tf.reshape(n, [-1, *shape]) for w, n, shape in zip(weights, noise, shapes, strict=True)
    ]


def near(update: Weights, known: Weights, radius: float) -> Weights:
    """The devices' updates, (device, ...), at most `radius` from what is known of them."""
    change = clipped([u - k for u, k in zip(update, known, strict=True)], radius)
    return [k + c for k, c in zip(known, change, strict=True)]


def clipped(parts: Weights, clip_norm: float) -> Weights:
    """Each device's vector scaled down to a norm of at most `clip_norm`; one that is not finite becomes zero."""
    norms = tf.norm(_flat(parts), axis=1)
    factor = tf.where(tf.math.is_finite(norms), tf.math.minimum(1.0, clip_norm / norms), 0.0)
    return [tf.math.multiply_no_nan(p, tf.reshape(factor, [-1] + [1] * (p.shape.rank - 1))) for p in parts]


def noisy_uploads(parts: Weights, std: tf.Tensor, noise_seed: tf.Tensor) -> Weights:
    """What the devices send, (device, ...), each with a noise vector of its own of its standard deviation."""
    sizes = [part.shape[1:].num_elements() for part in parts]
    noise = std[:, None] * tf.random.stateless_normal([tf.size(std), sum(sizes)], seed=noise_seed)
    return [p + tf.reshape(n, tf.shape(p)) for p, n in zip(parts, tf.split(noise, sizes, axis=1), strict=True)]


def cosines(update: Weights, reference: Weights) -> tf.Tensor:
    """Cosine of each device's update with a reference, shape (device,); 0 where either vanishes."""
    flat, direction = _flat(update), tf.concat([tf.reshape(r, [-1]) for r in reference], axis=0)
    return tf.math.divide_no_nan(tf.linalg.matvec(flat, direction), tf.norm(flat, axis=1) * tf.norm(direction))


def _flat(parts: Weights) -> tf.Tensor:
    """The devices' vectors in one piece each, shape (device, weight)."""
    return tf.concat([tf.reshape(part, [tf.shape(part)[0], -1]) for part in parts], axis=1)
