"""Gradients that are sent user by user: what an air that is not linear makes an update of; dense networks only."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import tensorflow as tf

from pwfl.tables.reception import Reception
from pwfl.training import dense
from pwfl.training.batching import Draws, Numbers, Weights
from pwfl.training.gradients import Fixed, Gradients
from pwfl.training.trainable import Dense


class Sent(NamedTuple):
    """As `gradients.Rows`, and what each sender's message is of, shape (interval, sender), filled up.

    Attributes
    ----------
    samples
        How many records; 0 beyond the senders.
    weight, noise_std
        Of the message in the update, and of its noise in units of the message.
    grid_step, group
        Of the message's grid, and where it is summed, of integers; empty of others.
    """

    rows: Numbers
    sizes: Numbers
    counts: Numbers
    total: Numbers
    samples: Numbers
    weight: Numbers
    noise_std: Numbers
    grid_step: Numbers = ()
    group: Numbers = ()


@dataclass(frozen=True)
class SentGradients(Gradients):
    """Sums of clipped gradients, sent user by user. Raises NotImplementedError for other than dense networks."""

    alike: bool = True
    by_user: ClassVar = True

    def __post_init__(self):
        if not isinstance(self.model, Dense):
            raise NotImplementedError("sums are sent user by user of dense networks only")
        if self.compiled:
            raise NotImplementedError("messages that are sent user by user are not batched")

    def inputs(
        self, reception: Reception, user_records: list[np.ndarray], seed: int, realization: int
    ) -> tuple[Fixed, Sent]:
        fixed, rows = super().inputs(reception, user_records, seed, realization)
        records = np.array([len(mine) for mine in user_records]) if reception.records is None else reception.records
        with np.errstate(divide="ignore", invalid="ignore"):
            std = np.nan_to_num(reception.user_noise_std / np.abs(reception.weight))
        parts = (reception.sends * records).astype(np.int32), reception.weight, std
        return fixed, Sent(*rows, *select_senders(reception.sends, *parts))

    def summed(
        self, weights: Weights, fixed: Fixed, varying: Sent, used: tuple, uniforms: Callable
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Compute each sender's sum of clipped gradients, shape (sender, coordinate)."""
        x, y, _, x_squares = used
        vectors, clipped = dense.clipped_sums(weights, x, y, self.clip_norm, varying.samples, x_squares)
        return vectors, tf.stack([clipped, tf.cast(varying.sizes, tf.float32)])


def select_senders(sends: np.ndarray, *parts: np.ndarray) -> list[np.ndarray]:
    """Select the senders' values from arrays of users, (interval, user): shape (interval, sender), padded with 0."""
    padded = [np.zeros((len(sends), sends.sum(axis=1).max(initial=0)), part.dtype) for part in parts]
    for interval, mine in enumerate(sends):
        for full, part in zip(padded, parts, strict=True):
            full[interval, : mine.sum()] = part[interval, mine]
    return padded


def is_by_user(learner) -> bool:
    """Whether a learner's `summed` returns messages, (sender, coordinate), to which noise is yet to be added."""
    return getattr(learner, "by_user", False)


def noisy(vectors: tf.Tensor, varying: Sent, key: tf.Tensor, draws: Draws) -> tuple[tf.Tensor, tf.Tensor]:
    """Add each sender's noise to its message, shape (sender, coordinate).

    Also return standard normal numbers for the receiver's noise, shape (coordinate,).
    """
    senders, size = tf.unstack(tf.shape(vectors))
    normals = draws.rows(key, senders + 1, size)
    return vectors + tf.cast(varying.noise_std, tf.float32)[:, None] * normals[1:], normals[0]


def added(messages: tf.Tensor, weight: tf.Tensor, receiver: tf.Tensor) -> tf.Tensor:
    """Compute the weighted sum of messages, (sender, coordinate), plus the receiver's noise, (coordinate,)."""
    return tf.linalg.matvec(messages, tf.cast(weight, tf.float32), transpose_a=True) + receiver


def majority(messages: tf.Tensor, weight: tf.Tensor, receiver: tf.Tensor) -> tf.Tensor:
    """Compute the majority vote: the sign of the weighted sum of messages' signs plus the receiver's noise."""
    return tf.sign(added(tf.sign(messages), weight, receiver))
