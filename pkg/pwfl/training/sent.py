"""The learner that leaves each sender's message apart, for servers that do more than add messages up.

`SentGradients` computes each sender's sum of clipped gradients (dense networks only). `rounds.receive_messages` then
adds each sender's noise (`noisy`) and combines the noisy messages: `added` computes their weighted sum, `majority` a
vote on signs; `integers` sends them as integers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from pwfl.process.tensorflow import tf
from pwfl.tables.reception import Reception
from pwfl.training import dense
from pwfl.training.batching import Draws, Numbers, Weights
from pwfl.training.gradients import Fixed, Gradients
from pwfl.training.trainable import Dense


class Sent(NamedTuple):
    """The records of each interval's messages, and their weights and noise by sender.

    Arrays have shape (interval, sender), with the interval's senders in the order of users, padded with 0.

    Attributes
    ----------
    rows, sizes, counts, total
        As in `gradients.Rows`.
    samples
        Number of records in a sender's message, int32; 0 beyond the senders.
    weight
        Weight of the message in the update.
    noise_std
        Standard deviation of the noise that the sender adds to each coordinate of its message, in the message's unit.
    grid_step
        Messages sent as integers: step of the sender's grid, in the message's unit. () for real numbers.
    group
        Messages sent as integers: number of the group of senders whose integers are added up. () for real numbers.
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
    """As `Gradients`, but `summed` returns each sender's message, without weight and noise.

    Raises NotImplementedError for networks other than `trainable.Dense`, and if `compiled`.
    """

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
        """Compute each sender's sum of clipped gradients, shape (sender, coordinate), of one realization."""
        x, y, _, x_squares = used
        vectors, clipped = dense.clipped_sums(weights, x, y, self.clip_norm, varying.samples, x_squares)
        return vectors, tf.stack([clipped, tf.cast(varying.sizes, tf.float32)])


def select_senders(sends: np.ndarray, *parts: np.ndarray) -> list[np.ndarray]:
    """Select the senders' values of each interval from arrays of all users.

    `sends`, boolean, and `parts` have shape (interval, user); each result has shape (interval, sender), padded with 0.
    """
    padded = [np.zeros((len(sends), sends.sum(axis=1).max(initial=0)), part.dtype) for part in parts]
    for interval, mine in enumerate(sends):
        for full, part in zip(padded, parts, strict=True):
            full[interval, : mine.sum()] = part[interval, mine]
    return padded


def is_by_user(learner) -> bool:
    """Return whether a learner's `summed` returns each sender's message without noise, shape (sender, coordinate).

    It is the learner's attribute `by_user`, false if missing, so that other learners need not define it.
    """
    return getattr(learner, "by_user", False)


def noisy(vectors: tf.Tensor, varying: Sent, key: tf.Tensor, draws: Draws) -> tuple[tf.Tensor, tf.Tensor]:
    """Add each sender's Gaussian noise to its message, and draw the receiver's.

    Parameters
    ----------
    vectors
        Messages, shape (sender, coordinate).
    varying
        The interval's inputs; `noise_std`, shape (sender,), is used.
    key, draws
        Key of the noise's stream, int64, shape (), and random numbers of the round.

    Returns
    -------
    noised
        Shape (sender, coordinate).
    normals
        Standard normal numbers for the receiver's noise, shape (coordinate,).
    """
    senders, size = tf.unstack(tf.shape(vectors))
    normals = draws.rows(key, senders + 1, size)
    return vectors + tf.cast(varying.noise_std, tf.float32)[:, None] * normals[1:], normals[0]


def added(messages: tf.Tensor, weight: tf.Tensor, receiver: tf.Tensor) -> tf.Tensor:
    """Compute the update sum_s weight[s] messages[s] + receiver, shape (coordinate,).

    `messages` are noisy, shape (sender, coordinate); `weight` has shape (sender,); `receiver` is the receiver's noise,
    shape (coordinate,).
    """
    return tf.linalg.matvec(messages, tf.cast(weight, tf.float32), transpose_a=True) + receiver


def majority(messages: tf.Tensor, weight: tf.Tensor, receiver: tf.Tensor) -> tf.Tensor:
    """Compute the majority vote sign(sum_s weight[s] sign(messages[s]) + receiver); arguments as in `added`."""
    return tf.sign(added(tf.sign(messages), weight, receiver))
