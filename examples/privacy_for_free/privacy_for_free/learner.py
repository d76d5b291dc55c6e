"""What devices send: sums of their records' gradients of ridge regression, clipped by record and by device."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import tensorflow as tf

from pwfl.learning.adversarial import Opposed
from pwfl.learning.datasets import Dataset
from pwfl.tables.reception import Reception
from pwfl.training.batching import Weights

BEYOND = 1.5  # times the clipping norm: gradients of opposed records
CLASSES = 1  # of Dataset's labels, all 0


class Records(NamedTuple):
    """Records of all devices, u and then v, shape (record, d + 1)."""

    x: tf.Tensor


class Fixed(NamedTuple):
    """Places of each device's records, shape (device, record)."""

    rows: np.ndarray


class Varying(NamedTuple):
    """Each device's factor in the update, shape (interval, device), 0 if it is not heard.

    It is not called `weight`: `rounds.advance_function` would expect messages by device then.
    """

    factor: np.ndarray


@dataclass(frozen=True)
class RidgeGradients:
    """A device's sum of its records' gradients, each clipped to gamma; a sum beyond D G is scaled down to that norm.

    A replaced record moves the sum of clipped gradients by at most 2 gamma. Scaling down to a ball is a projection, and
    brings no two sums further apart. The sum of all devices' messages is formed at once.
    """

    clip_norm: float
    mean_norm: float
    weight_decay: float
    dimension: int
    message: ClassVar = "sum of gradients"
    # One record moves a sum so far. All records together do not, as a sum has a bound of its own; with `reached`, the
    # audit would expect this of them, too.
    reached: ClassVar = False
    measured: ClassVar = 4  # records clipped, records, devices limited, devices
    lasting: ClassVar = True

    @property
    def sensitivity(self) -> float:
        """How far a replaced record moves a device's message at most."""
        return 2 * self.clip_norm

    def start(self, draws: Callable[[], np.random.Generator]) -> list[np.ndarray]:
        """All zeros; nothing is drawn."""
        return [np.zeros(self.dimension, np.float32)]

    def tensors(self, data: Dataset) -> Records:
        """The training records."""
        return Records(tf.constant(data.x_train))

    def inputs(
        self, reception: Reception, user_records: list[np.ndarray], seed: int, realization: int
    ) -> tuple[Fixed, Varying]:
        """The devices' records, and their factors in the update of each round."""
        if reception.records is not None or reception.group is not None:  # what is not done must not be accounted for
            raise NotImplementedError("sums are of all of a device's records, and are no integers")
        if len({len(mine) for mine in user_records}) > 1:
            raise NotImplementedError("devices must have equally many records")
        factor = (reception.weight * reception.sends).astype(np.float32)
        return Fixed(np.array(user_records, np.int32)), Varying(factor)

    def gather(self, fixed: Fixed, varying: Varying, data: Records) -> tuple:
        """Coordinates, shape (..., device, record, d), values v and squared norms of the devices' records."""
        x = tf.gather(data.x, fixed.rows)
        return x[..., :-1], x[..., -1], tf.reduce_sum(x[..., :-1] ** 2, axis=-1)

    def summed(self, weights: Weights, fixed: Fixed, varying: Varying, used: tuple, uniforms: Callable):
        """The weighted sum of all messages. A record's gradient is r u + s, r its residual and s = 2 lambda w.

        Its squared norm is r^2 |u|^2 + 2 r u's + |s|^2, so that no gradient is formed.
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
        """No accuracies (NaN), and the objective on the training records."""
        (w,), (u, v) = weights, (data.x[:, :-1], data.x[:, -1])
        residual = tf.linalg.matvec(u, w) - v
        loss = tf.reduce_mean(residual**2, axis=-1) / 2 + self.weight_decay * tf.reduce_sum(w**2, axis=-1)
        return tf.fill(tf.concat([tf.shape(loss), [1 + CLASSES]], 0), np.float32(np.nan)), loss

    # What an audit asks for.
    def place(self, start, target: int, round_: int) -> int:
        """One of the target's records, of a `trainings.Start`."""
        return int(start.user_records[target][0])

    def silent(self) -> list[np.ndarray]:
        """Weights at which a record of zeros has no gradient."""
        return [np.zeros(self.dimension, np.float32)]

    def opposed(self, generator: np.random.Generator, records: int) -> Iterator[Opposed]:
        """Weights and two records, whose gradients are opposite and clipped."""
        u = generator.standard_normal(self.dimension)
        u *= BEYOND * self.clip_norm / np.linalg.norm(u)
        x = np.column_stack([np.stack([u, u]), [1.0, -1.0]]).astype(np.float32)
        yield Opposed(self.silent(), x, np.zeros(2, np.int32))
