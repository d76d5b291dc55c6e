"""The learner whose messages are integers, for sums modulo 2^bits: gradients sent user by user, dense networks only."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import tensorflow as tf

from pwfl.learning import modular, rotation
from pwfl.privacy import discrete
from pwfl.tables.reception import Reception
from pwfl.training.batching import Weights
from pwfl.training.gradients import Fixed
from pwfl.training.sent import Sent, SentGradients, select_senders


@dataclass(frozen=True)
class IntegerGradients(SentGradients):
    """Sums of clipped gradients, sent user by user as integers."""

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
    """Return the function `summed` of `rounds.Loop` that computes the update from noisy sums modulo 2^bits."""

    def received(weights: Weights, vectors: tf.Tensor, varying: Sent, key: tf.Tensor, t: tf.Tensor) -> Weights:
        senders = varying.samples, varying.weight, varying.grid_step, varying.noise_std, varying.group
        flat = tf.numpy_function(partial(_sum, bits), [key, t, vectors, *senders], tf.float32)
        sizes = [w.shape.num_elements() for w in weights]
        parts = tf.split(tf.ensure_shape(flat, [sum(sizes)]), sizes)
        return [tf.reshape(part, w.shape) for part, w in zip(parts, weights, strict=True)]

    return received


def round_signs(key: np.integer | int, t: np.integer | int, size: int) -> tuple[np.ndarray, np.random.Generator]:
    """Draw the signs of round t's public rotation, shape (size,), and return the generator of its private numbers."""
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence([int(key), int(t)])))
    return rotation.random_signs(generator, size), generator


def _sum(bits, key, t, vectors, samples, weight, grid_step, noise_std, group):
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
    """Compute the weighted sum of the groups' decoded sums of integers, shape (coordinate,).

    Zeros where there are none: no sum was opened.

    Parameters
    ----------
    vectors
        Users' sums of gradients, shape (user, coordinate).
    weights, step, noise_std, group
        Of each user, all but noise the same within a group; its noise is in the units of the vectors.
    signs
        The public rotation's.
    generator
        Of private numbers: dithers, and noise.
    """
    if not len(vectors):
        return np.zeros(vectors.shape[1])
    noise = np.zeros(vectors.shape, np.int64)
    variance = ((noise_std / step) ** 2).astype(np.float32)
    # A sampler is of one variance, and users alike have the same if it is rounded, upwards.
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
