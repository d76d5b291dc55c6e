"""One round of Alvi et al. as a graph: noisy copies, local steps, uploads, and their average.

A graph is for one realization or a batch of several, with a leading axis in all arrays; devices of all realizations
train together. Messages that leave a party are released: the graph returns them, and may receive others in their place.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

from pwfl.process.tensorflow import tf
from pwfl.systems.utility_fair import local_steps, uploads
from pwfl.systems.utility_fair.model_steps import ModelSteps
from pwfl.training.batching import Draws, Weights, clipping, times
from pwfl.training.trainable import Dense, Differentiated, Model

# Random streams of the noise of copies, and of a device's uploads, gradients and updates.
STREAMS = COPIES, GRADIENTS, UPDATES = "noise", "gradient_noise", "update_noise"


class Noise(NamedTuple):
    """The noise of one round: of the devices' copies of the model, and of their uploads.

    Attributes
    ----------
    copy_std
        Standard deviation of a copy's noise, shape (..., device).
    vectors
        Numbers of the noise vectors, int32, same shape; devices with the same number have the same noise.
    copy_key, gradient_key, update_key
        Keys of STREAMS, int64, shape (...,).
    upload_std
        Standard deviation of an upload's noise, shape (..., device); None: uploads are clean.
    """

    copy_std: tf.Tensor
    vectors: tf.Tensor
    copy_key: tf.Tensor
    gradient_key: tf.Tensor
    update_key: tf.Tensor
    upload_std: tf.Tensor | None = None


class Learning(NamedTuple):
    """Parameters of local training: step size eta; the average gradient has weight xi = 1, (3).

    Updates are compared with the `mean_update` or the new `model`, (15), and clipped by `uploads.radius`.
    """

    step_size: float
    compared_with: str
    radius: float | None = None


def learning(scenario) -> Learning:
    """Return the `Learning` of a scenario's devices."""
    training = scenario.training
    radius = uploads.radius(training.clip_norm, scenario.device.batch_size)
    return Learning(training.learning_rate, scenario.utility.deviation, radius)


def round_function(model: Model, learned: Learning, vectors: int, compiled: bool = False) -> Callable:
    """Return a function that computes one round of all devices as a graph, traced once.

    It is a function of the model's parameters, the devices' batches x and y, (..., device, sample, feature) and (...,
    device, sample), their iterations (0: no participation), the round's `Noise`, with vectors numbered below `vectors`,
    and the round's number. It returns the new parameters (4), the copies' losses on their batches, and the cosine of
    each received update with its reference. It also returns the released messages by STREAMS, tensors of shape
    (realizations' devices, ...). Messages in its argument `instead`, by the same names, are received in their place.
    """
    steps_of: Any = local_steps if isinstance(model, Dense) else ModelSteps(cast(Differentiated, model))
    radius = learned.radius

    @tf.function(jit_compile=compiled or None, autograph=False)
    def play(weights, x, y, iterations, noise, t, instead=None):
        kept = {}
        lead = iterations.shape.rank - 1  # number of axes of realizations, 0 or 1
        shape, draws = tf.shape(iterations), Draws(t, compiled)

        def in_a_row(part):
            return tf.reshape(part, tf.concat([[-1], tf.shape(part)[lead + 1 :]], axis=0)) if lead else part

        def by_device(part):
            return tf.repeat(part, shape[1], axis=0) if lead else part[None]

        def released(purpose, parts):
            kept[purpose] = parts
            return parts if instead is None else instead.get(purpose, parts)

        def with_noise(parts, key):
            if noise.upload_std is None:
                return parts
            std = tf.reshape(noise.upload_std, [-1])
            return noisy_uploads(parts, std, draws, key, iterations.shape[-1])

        x, y, steps = in_a_row(x), in_a_row(y), in_a_row(iterations)
        copied = released(COPIES, noisy_copies(weights, noise, draws, vectors))
        active = tf.cast(iterations > 0, tf.float32)
        share = tf.math.divide_no_nan(active, tf.reduce_sum(active, axis=-1, keepdims=True))
        losses = steps_of.losses(copied, x, y)
        sent = steps_of.gradients(copied, x, y, radius)
        sent = released(GRADIENTS, with_noise(sent, noise.gradient_key))
        direction = [by_device(mean(share, gradient)) for gradient in sent]
        update = steps_of.updates(copied, x, y, direction, steps, learned.step_size)
        if radius is not None:
            update = near(update, local_steps.straight(direction, steps, learned.step_size), radius)
        update = released(UPDATES, with_noise(update, noise.update_key))
        mean_update = [mean(share, moved) for moved in update]
        new = [w + m for w, m in zip(weights, mean_update, strict=True)]
        reference = mean_update if learned.compared_with == "mean_update" else new
        similarity = cosines(update, [by_device(part) for part in reference])
        return new, tf.reshape(losses, shape), tf.reshape(similarity, shape), kept

    return play


def mean(share: tf.Tensor, part: tf.Tensor) -> tf.Tensor:
    """Average a part, (realizations' devices, ...), over each realization's devices by their shares, (..., device)."""
    if share.shape.rank == 1:
        return tf.tensordot(share, part, 1)
    parts = tf.reshape(part, tf.concat([tf.shape(share), [-1]], axis=0))
    summed = tf.einsum("bd,bdn->bn", share, parts)
    return tf.reshape(summed, tf.concat([tf.shape(share)[:1], tf.shape(part)[1:]], axis=0))


def noisy_copies(weights: Weights, noise: Noise, draws: Draws, vectors: int) -> Weights:
    """Compute all devices' noisy copies of their realization's parameters, (realizations' devices, ...)."""
    lead = noise.vectors.shape.rank - 1
    sizes = [w.shape[lead:].num_elements() for w in weights]
    normal = tf.gather(draws.rows(noise.copy_key, vectors, sum(sizes)), noise.vectors, batch_dims=lead)
    parts = tf.split(tf.reshape(noise.copy_std[..., None] * normal, [-1, sum(sizes)]), sizes, axis=1)
    devices = tf.shape(noise.vectors)[-1]
    copied = [tf.repeat(w, devices, axis=0) if lead else w[None] for w in weights]
    return [w + tf.reshape(n, [-1, *w.shape[1:]]) for w, n in zip(copied, parts, strict=True)]


def noisy_uploads(parts: Weights, std: tf.Tensor, draws: Draws, key: tf.Tensor, devices: int) -> Weights:
    """Add a separate noise vector, of standard deviation `std`, to each message, (realizations' devices, ...)."""
    sizes = [part.shape[1:].num_elements() for part in parts]
    normal = tf.reshape(draws.rows(key, devices, sum(sizes)), [-1, sum(sizes)])
    noise = tf.split(std[:, None] * normal, sizes, axis=1)
    return [p + tf.reshape(n, tf.shape(p)) for p, n in zip(parts, noise, strict=True)]


def near(update: Weights, known: Weights, radius: float) -> Weights:
    """Clip the devices' updates, (device, ...), to at most `radius` from their known parts."""
    change = clipped([u - k for u, k in zip(update, known, strict=True)], radius)
    return [k + c for k, c in zip(known, change, strict=True)]


def clipped(parts: Weights, clip_norm: float) -> Weights:
    """Scale each device's vector down to a norm of at most `clip_norm`; one that is not finite becomes zero."""
    norms = tf.norm(_flat(parts), axis=1)
    factor = clipping(norms, clip_norm)
    return [times(factor, tf.where(tf.math.is_finite(p), p, 0.0)) for p in parts]


def cosines(update: Weights, reference: Weights) -> tf.Tensor:
    """Compute the cosine of each device's update with its reference (axis of 1: one for all); 0 if either is zero."""
    flat, direction = _flat(update), _flat(reference)
    one = reference[0].shape[0] == 1
    product = tf.linalg.matvec(flat, direction[0]) if one else tf.reduce_sum(flat * direction, axis=1)
    return tf.math.divide_no_nan(product, tf.norm(flat, axis=1) * tf.norm(direction, axis=1))


def _flat(parts: Weights) -> tf.Tensor:
    """Concatenate each device's tensors into one vector, shape (device, weight)."""
    return tf.concat([tf.reshape(part, [tf.shape(part)[0], -1]) for part in parts], axis=1)
