"""Messages of devices: sums of their records' gradients of ridge regression, clipped by record and by device."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import tensorflow as tf

from pwfl.learning.adversarial import Opposed
from pwfl.learning.datasets import Dataset
from pwfl.tables.reception import Reception
from pwfl.training.batching import Weights

BEYOND = 1.5  # norm of the gradients of opposed records, over the clipping norm
CLASSES = 1  # number of classes in a `Dataset`; all labels are 0


class Records(NamedTuple):
    """Training records of all devices, u and then v, shape (record, d + 1)."""

    x: tf.Tensor


class Fixed(NamedTuple):
    """Indices of each device's training records, shape (device, record)."""

    rows: np.ndarray


class Varying(NamedTuple):
    """Each device's factor in the update, shape (interval, device), 0 if its message is not received.

    The field's name is not `weight`, with which `rounds.play_round` would expect one message per device.
    """

    factor: np.ndarray


@dataclass(frozen=True)
class RidgeGradients:
    """Sums of a device's gradients, each clipped to gamma; a sum of norm above D G is scaled down to this norm.

    A replaced record moves the sum of clipped gradients by at most 2 gamma. Scaling down is a projection onto a ball,
    and never increases the distance of two sums. The messages of all devices are computed and added up together.
    """

    clip_norm: float
    mean_norm: float
    weight_decay: float
    dimension: int
    message: ClassVar = "sum of gradients"
    # One record attains the sensitivity. All records of a device together do not attain the sum of theirs, as its
    # message has a norm of at most D G; if `reached` were true, the audit would expect that, too.
    reached: ClassVar = False
    measured: ClassVar = 4  # numbers of clipped records, records, scaled-down devices, devices
    lasting: ClassVar = True

    @property
    def sensitivity(self) -> float:
        """Upper bound on the L2 norm of a message's change if one record is replaced."""
        return 2 * self.clip_norm

    def start(self, draws: Callable[[], np.random.Generator]) -> list[np.ndarray]:
        """Return start parameters that are all zero; nothing is drawn."""
        return [np.zeros(self.dimension, np.float32)]

    def tensors(self, data: Dataset) -> Records:
        """Convert the training records to a tensor; there are no test records."""
        return Records(tf.constant(data.x_train))

    def inputs(
        self, reception: Reception, user_records: list[np.ndarray], seed: int, realization: int
    ) -> tuple[Fixed, Varying]:
        """Return record indices and factors, as `Learner.inputs`. Raises NotImplementedError for unsupported inputs."""
        if reception.records is not None or reception.group is not None:  # else accounted for, but not computed
            raise NotImplementedError("sums are of all of a device's records, and are no integers")
        if len({len(mine) for mine in user_records}) > 1:
            raise NotImplementedError("devices must have equally many records")
        factor = (reception.weight * reception.sends).astype(np.float32)
        return Fixed(np.array(user_records, np.int32)), Varying(factor)

    def gather(self, fixed: Fixed, varying: Varying, data: Records) -> tuple:
        """Return the records' u, shape (..., device, record, d), and v and |u|^2, shape (..., device, record)."""
        x = tf.gather(data.x, fixed.rows)
        return x[..., :-1], x[..., -1], tf.reduce_sum(x[..., :-1] ** 2, axis=-1)

    def summed(self, weights: Weights, fixed: Fixed, varying: Varying, used: tuple, uniforms: Callable):
        """Compute the weighted sum of all messages, and the four numbers of `measured`.

        A record's gradient is r u + s, with its residual r and s = 2 lambda w. Gradients are not formed: their squared
        norms are r^2 |u|^2 + 2 r u's + |s|^2.
        """
        (w,), (u, v, squares) = weights, used
        predicted = tf.linalg.matvec(u, w[..., None, :])
        residual, decay, size = predicted - v, 2 * self.weight_decay * w, tf.cast(tf.shape(v)[-1], tf.float32)
        decays = tf.reduce_sum(decay**2, axis=-1)[..., None, None]
        norms = tf.sqrt(residual * (residual * squares + 4 * self.weight_decay * predicted) + decays)
        factor = tf.minimum(1.0, tf.math.divide_no_nan(self.clip_norm, norms))
        sums = tf.linalg.matvec(u, factor * residual, transpose_a=True)
        sums += tf.reduce_sum(factor, axis=-1)[..., None] * decay[..., None, :]
        lengths, most = tf.norm(sums, axis=-1), self.mean_norm * size
        scale = varying.factor * tf.minimum(1.0, tf.math.divide_no_nan(most, lengths))
        numbers = [norms > self.clip_norm, norms >= 0, lengths > most, lengths >= 0]
        axes = [[-2, -1], [-2, -1], [-1], [-1]]
        counts = [tf.reduce_sum(tf.cast(n, tf.float32), axis=a) for n, a in zip(numbers, axes, strict=True)]
        return [tf.linalg.matvec(sums, scale, transpose_a=True)], tf.stack(counts, axis=-1)

    def evaluate(self, weights: Weights, data: Records) -> tuple[tf.Tensor, tf.Tensor]:
        """Compute the objective on the training records, as the loss; accuracies are NaN."""
        (w,), (u, v) = weights, (data.x[:, :-1], data.x[:, -1])
        residual = tf.linalg.matvec(u, w) - v
        loss = tf.reduce_mean(residual**2, axis=-1) / 2 + self.weight_decay * tf.reduce_sum(w**2, axis=-1)
        return tf.fill(tf.concat([tf.shape(loss), [1 + CLASSES]], 0), np.float32(np.nan)), loss

    # For audits.
    def place(self, start, target: int, round_: int) -> int:
        """Return the index of the target's first record in the training data; `start` is a `trainings.Start`."""
        return int(start.user_records[target][0])

    def silent(self) -> list[np.ndarray]:
        """Return model parameters, all zero, at which a record of zeros has the gradient zero."""
        return [np.zeros(self.dimension, np.float32)]

    def opposed(self, generator: np.random.Generator, records: int) -> Iterator[Opposed]:
        """Yield one case: parameters, all zero, and two records with opposite gradients, which are clipped."""
        u = generator.standard_normal(self.dimension)
        u *= BEYOND * self.clip_norm / np.linalg.norm(u)
        x = np.column_stack([np.stack([u, u]), [1.0, -1.0]]).astype(np.float32)
        yield Opposed(self.silent(), x, np.zeros(2, np.int32))
