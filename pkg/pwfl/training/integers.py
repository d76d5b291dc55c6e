"""The learner whose messages are integers, for sums modulo 2^bits: gradients sent user by user, dense networks only."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from pwfl.learning import modular, rotation
from pwfl.privacy import discrete
from pwfl.tables.reception import Reception
from pwfl.training import dense
from pwfl.training.batching import Weights
from pwfl.training.gradients import Gradients, Own
from pwfl.training.trainable import Dense


class Sent(NamedTuple):
    """As `gradients.Rows`, and what each sender's message is of, shape (interval, sender), filled up.

    Attributes
    ----------
    samples
        How many records; 0 beyond the senders.
    weight, grid_step, noise_std, group
        Of the message in the update, of its grid, of its noise in units of the message, and where it is summed.
    """

    rows: np.ndarray
    sizes: np.ndarray
    counts: tuple
    total: np.ndarray
    samples: np.ndarray
    weight: np.ndarray
    grid_step: np.ndarray
    noise_std: np.ndarray
    group: np.ndarray


@dataclass(frozen=True)
class IntegerGradients(Gradients):
    """Sums of clipped gradients, sent user by user. Raises NotImplementedError for other than dense networks."""

    alike: bool = True

    def __post_init__(self):
        if not isinstance(self.model, Dense):
            raise NotImplementedError("sums are sent user by user of dense networks only")
        if self.compiled:
            raise NotImplementedError("sums of integers are taken round by round, outside of a graph")

    def inputs(self, reception: Reception, owned: list[np.ndarray], seed: int, realization: int) -> tuple[Own, Sent]:
        if reception.grid_step is None:
            raise NotImplementedError("messages without a grid are no integers")
        own, rows = super().inputs(reception, owned, seed, realization)
        samples = reception.sends * np.array([len(mine) for mine in owned])
        with np.errstate(divide="ignore", invalid="ignore"):
            std = np.nan_to_num(reception.user_noise_std / reception.weight)
        parts = samples, reception.weight, reception.grid_step, std, reception.group
        kinds = np.int32, float, float, float, np.int32
        sent, most = [], reception.sends.sum(axis=1).max()
        for part, kind in zip(parts, kinds, strict=True):
            full = np.zeros((len(samples), most), kind)
            for row, values, sends in zip(full, part, reception.sends, strict=True):
                row[: sends.sum()] = values[sends]
            sent.append(full)
        return own, Sent(*rows, *sent)

    def summed(
        self, weights: Weights, own: Own, at: Sent, used: tuple, uniforms: Callable
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Each sender's sum of clipped gradients, shape (sender, weight)."""
        x, y, _, x_squares = used
        vectors, clipped = dense.clipped_sums(weights, x, y, self.clip_norm, at.samples, x_squares)
        return vectors, tf.stack([clipped, tf.cast(at.sizes, tf.float32)])


@cache
def summed(bits: int) -> Callable:
    """What the server makes of sums of integers, which have users' noise in them: see `rounds.Loop`."""

    def received(weights: Weights, vectors: tf.Tensor, at: Sent, key: tf.Tensor, t: tf.Tensor) -> Weights:
        own = at.samples, at.weight, at.grid_step, at.noise_std, at.group
        flat = tf.numpy_function(partial(_sum, bits), [key, t, vectors, *own], tf.float32)
        sizes = [w.shape.num_elements() for w in weights]
        parts = tf.split(tf.ensure_shape(flat, [sum(sizes)]), sizes)
        return [tf.reshape(part, w.shape) for part, w in zip(parts, weights, strict=True)]

    return received


def round_signs(key: int, t: int, size: int) -> tuple[np.ndarray, np.random.Generator]:
    """The signs of a round's public rotation, and the generator of its private numbers."""
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence([int(key), int(t)])))
    return rotation.random_signs(generator, size), generator


def _sum(bits, key, t, vectors, samples, weight, grid_step, noise_std, group):
    (signs, generator), sends = round_signs(key, t, vectors.shape[1]), samples > 0
    given = (values[sends] for values in (vectors.astype(float), weight, grid_step, noise_std, group))
    return server_sum(*given, bits, signs, generator).astype(np.float32)


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
    """What the server makes of a round's messages, the weighted sum of the groups' sums, shape (coordinate,).

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
    for each in np.unique(variance[variance > 0]).astype(float):
        own = variance == each
        shape = (int(own.sum()), vectors.shape[1])
        noise[own] = discrete.discrete_gaussian(generator, each, shape)
    sent = modular.integers(vectors, noise, signs, step[:, None], bits, generator)
    _, first, place = np.unique(group, return_index=True, return_inverse=True)
    totals = np.zeros((len(first), vectors.shape[1]), np.int64)
    np.add.at(totals, place, sent)
    return weights[first] @ modular.decoded(totals, signs, step[first, None], bits)
