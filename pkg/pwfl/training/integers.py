"""The learner and the server of messages sent as integers, which are added up modulo 2^bits (`learning.modular`).

A user rotates its sum of clipped gradients, rounds it at random to multiples of a grid step, and adds discrete Gaussian
noise (Kairouz, Liu and Steinke, 2021). Dense networks only.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from pwfl.learning import modular, rotation
from pwfl.privacy import discrete
from pwfl.process.tensorflow import tf
from pwfl.tables.reception import Reception
from pwfl.training.batching import Weights
from pwfl.training.gradients import Fixed
from pwfl.training.sent import Sent, SentGradients, select_senders


@dataclass(frozen=True)
class IntegerGradients(SentGradients):
    """As `SentGradients`, for messages sent as integers: its server is `summed(bits)`.

    `inputs` raises NotImplementedError for a reception without `grid_step` and `group`.
    """

    def inputs(
        self, reception: Reception, user_records: list[np.ndarray], seed: int, realization: int
    ) -> tuple[Fixed, Sent]:
        if reception.grid_step is None or reception.group is None:
            raise NotImplementedError("messages without a grid are no integers")
        fixed, sent = super().inputs(reception, user_records, seed, realization)
        step, group = select_senders(reception.sends, reception.grid_step, reception.group)
        return fixed, sent._replace(grid_step=step, group=group)


@cache
def summed(bits: int) -> Callable:
    """Return the server's function for `rounds.Loop.summed`: the update from users' noisy integers modulo 2^bits.

    The function is `received(weights, vectors, varying, key, t)`: parameters; messages, float32, shape (sender,
    coordinate); the interval's `Sent`; key of the noise's stream, int64, shape (); round. It returns the update, one
    tensor per tensor of the model.
    """

    def received(weights: Weights, vectors: tf.Tensor, varying: Sent, key: tf.Tensor, t: tf.Tensor) -> Weights:
        senders = varying.samples, varying.weight, varying.grid_step, varying.noise_std, varying.group
        flat = tf.numpy_function(partial(_sum, bits), [key, t, vectors, *senders], tf.float32)
        sizes = [w.shape.num_elements() for w in weights]
        parts = tf.split(tf.ensure_shape(flat, [sum(sizes)]), sizes)
        return [tf.reshape(part, w.shape) for part, w in zip(parts, weights, strict=True)]

    return received


def round_signs(key: np.integer | int, t: np.integer | int, size: int) -> tuple[np.ndarray, np.random.Generator]:
    """Draw the signs of round t's public rotation, -1 or 1, int8, shape (size,).

    The generator that drew them is returned, too: it draws the round's private numbers next.
    """
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence([int(key), int(t)])))
    return rotation.random_signs(generator, size), generator


def _sum(bits, key, t, vectors, samples, weight, grid_step, noise_std, group):
    """Compute `server_sum` in NumPy from padded arrays of senders (`Sent`), with round t's private numbers."""
    (signs, generator), sends = round_signs(key, t, vectors.shape[1]), samples > 0
    arrays = (values[sends] for values in (vectors.astype(float), weight, grid_step, noise_std, group))
    return server_sum(*arrays, bits, signs, generator).astype(np.float32)


def server_sum(
    vectors: np.ndarray,
    weights: np.ndarray,
    step: np.ndarray,
    noise_std: np.ndarray,
    group: np.ndarray,
    bits: int,
    signs: np.ndarray,
    generator: np.random.Generator,
) -> np.ndarray:
    """Compute the update: the weighted sum of each group's decoded sum of integers, shape (coordinate,).

    It is zero if nobody sends.

    Parameters
    ----------
    vectors
        Senders' sums of clipped gradients, shape (user, coordinate).
    weights
        Weight in the update, shape (user,), the same within a group.
    step
        Grid step, in the unit of `vectors`, shape (user,), the same within a group.
    noise_std
        Standard deviation of each sender's noise, in the unit of `vectors`, shape (user,).
    group
        Number of each sender's group, shape (user,).
    bits
        Integers are added up modulo 2^bits.
    signs
        Of the public rotation, -1 or 1, shape (coordinate,).
    generator
        Draws the private numbers: random rounding, and noise.
    """
    if not len(vectors):
        return np.zeros(vectors.shape[1])
    noise = np.zeros(vectors.shape, np.int64)
    variance = ((noise_std / step) ** 2).astype(np.float32)
    # Variances are rounded up to float32, so that users with equal noise share one sampler.
    variance = np.where(variance > 0, np.nextafter(variance, np.float32(np.inf)), 0)
    for value in np.unique(variance[variance > 0]).astype(float):
        same = variance == value
        shape = (int(same.sum()), vectors.shape[1])
        noise[same] = discrete.discrete_gaussian(generator, value, shape)
    sent = modular.integers(vectors, noise, signs, step[:, None], bits, generator)
    order = np.argsort(group, kind="stable")
    _, starts = np.unique(group[order], return_index=True)
    first, totals = order[starts], np.add.reduceat(sent[order], starts, axis=0)
    return weights[first] @ modular.decoded(totals, signs, step[first, None], bits)
