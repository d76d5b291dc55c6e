"""Learners whose messages are gradients.

With g the gradient of a record's cross-entropy and clip(g) = g min(1, L / ||g||), the message of user k is

    `Gradients`:      sum of clip(g) over its records,         `UserGradients`:  clip(mean of g over its records).

`trainable.Model` computes the gradients.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pwfl import streams
from pwfl.learning import adversarial, datasets
from pwfl.process.tensorflow import tf
from pwfl.tables.reception import Reception
from pwfl.training.batching import Numbers, Weights, norm, repeated, times
from pwfl.training.trainable import Model

DRAWN = 10_000  # batches drawn at once
OUTWEIGHED = 100  # ratio of an audit's large gradient to all other records' together


class Data(NamedTuple):
    """Training and test records: features, float32, (record, feature), and classes, int32, (record,)."""

    x: tf.Tensor
    y: tf.Tensor
    x_test: tf.Tensor
    y_test: tf.Tensor


class Fixed(NamedTuple):
    """Inputs that are the same in all rounds (`Learner.inputs`): gradients need none."""


class Rows(NamedTuple):
    """The records of each interval's gradients, of all users together.

    With the n = sizes[i] records of interval i, the weighted sum of messages is computed as

        sum_k weight[k] message[k] = total[i] (1 / n) sum_j counts[i, j] clip(g_j).

    Attributes
    ----------
    rows
        Indices of records in the training data, int32, shape (interval, record), padded beyond `sizes`.
    sizes
        Number of records, int32, shape (interval,).
    counts
        n weight[k] for the user k of each record, float32, shape (interval, record): 1 where all users' weights are
        1 / n. () if `Gradients.alike`: all are 1.
    total
        Float32, shape (interval,): 1, or n weight[k] if `Gradients.alike`.
    """

    rows: Numbers
    sizes: Numbers
    counts: Numbers
    total: Numbers

    by_record = "rows", "counts"


@dataclass(frozen=True)
class Gradients:
    """A user's sum of its records' clipped gradients; replacing a record changes it by at most 2 L.

    The users' weighted sums are one sum over all records, so a round is one forward and one backward pass.

    Attributes
    ----------
    model
        What is trained.
    clip_norm
        The L2 norm L to which each record's gradient is clipped.
    alike
        Whether all records of an interval have the same weight, in all realizations.
    compiled
        Whether XLA compiles the graph.
    """

    model: Model
    clip_norm: float
    alike: bool = False
    compiled: bool = False
    message: ClassVar = "sum of gradients"
    lasting: ClassVar = False
    measured: ClassVar = 2  # number of records clipped, and of all

    @property
    def sensitivity(self) -> float:
        return 2 * self.clip_norm

    @property
    def reached(self) -> bool:
        return self.model.known

    def start(self, draws: Callable[[], np.random.Generator]) -> list[np.ndarray]:
        return self.model.start(draws)

    def tensors(self, data: datasets.Dataset) -> Data:
        return Data(*(tf.constant(part) for part in (data.x_train, data.y_train, data.x_test, data.y_test)))

    def inputs(
        self, reception: Reception, user_records: list[np.ndarray], seed: int, realization: int
    ) -> tuple[Fixed, Any]:
        samples = np.array([len(mine) for mine in user_records])
        if reception.records is None:
            taken = [
                np.concatenate([np.empty(0, int), *(user_records[k] for k in np.flatnonzero(s))])
                for s in reception.sends
            ]
            records = reception.sends * samples
        else:
            if reception.length > 1:
                raise NotImplementedError("batches are drawn by interval; intervals must be rounds")
            generator, records = streams.generator(seed, "records", realization), reception.records * reception.sends
            every = np.concatenate(user_records)
            taken = [every[rows] for rows in batches(reception.sends, records, samples, generator)]
        sizes = records.sum(axis=1)
        # Weights are times the number of records, so that those of a plain mean are exactly 1 in float32.
        counted = reception.weight * sizes[:, None]
        there = np.arange(sizes.max(initial=0)) < sizes[:, None]
        rows = np.zeros(there.shape, np.int32)
        rows[there] = np.concatenate(taken)
        if self.alike:
            total = np.array([c[r > 0][0] if (r > 0).any() else 0.0 for c, r in zip(counted, records, strict=True)])
            return Fixed(), Rows(rows, sizes.astype(np.int32), (), total.astype(np.float32))
        counts = np.zeros(rows.shape, np.float32)
        counts[there] = np.concatenate([np.repeat(c, r) for c, r in zip(counted, records, strict=True)])
        return Fixed(), Rows(rows, sizes.astype(np.int32), counts, np.ones(len(sizes), np.float32))

    def gather(self, fixed: Fixed, varying: Any, data: Data) -> tuple:
        """Return `(x, y, counts, prepared)` of the interval's records: the arguments of `Model.clipped_mean`."""
        rows = varying.rows if self.compiled else varying.rows[..., : tf.reduce_max(varying.sizes)]
        x, y, counts = tf.gather(data.x, rows), tf.gather(data.y, rows), None
        if not self.alike:
            counts = varying.counts if self.compiled else varying.counts[..., : tf.reduce_max(varying.sizes)]
        return x, y, counts, self.model.prepared(x)

    def summed(
        self, weights: Weights, fixed: Fixed, varying: Any, used: tuple, uniforms: Callable
    ) -> tuple[Weights, tf.Tensor]:
        """Compute the weighted sum of clipped gradients; statistics: number of records clipped, and of all."""
        x, y, counts, prepared = used
        mean, clipped = self.model.clipped_mean(weights, x, y, self.clip_norm, varying.sizes, counts, prepared)
        return [times(varying.total, g) for g in mean], tf.stack([clipped, tf.cast(varying.sizes, tf.float32)], axis=-1)

    def evaluate(self, weights: Weights, data: Data) -> tuple[tf.Tensor, tf.Tensor]:
        return self.model.evaluate(weights, data.x_test, data.y_test)

    # For audits.
    def silent(self) -> list[np.ndarray]:
        """Return parameters at which a record that is all zero and of class 0 has gradient 0 in float32."""
        return self.model.silent()

    def opposed(self, generator: np.random.Generator, records: int) -> Iterator[adversarial.Opposed]:
        """Yield parameters and two records with opposite gradients whose norms exceed L; `records` is not used."""
        return self.model.opposed(self.clip_norm, generator)

    def place(self, start, target: int, round_: int) -> int:
        """Return the training-data index of one of the target's records that is in some message; `start`: a `Start`."""
        if start.reception.records is None:
            return int(start.user_records[target][0])
        taken = np.concatenate(
            [rows[:size] for rows, size in zip(start.varying.rows, start.varying.sizes, strict=True)]
        )
        return int(taken[np.isin(taken, start.user_records[target])][0])


class UserRows(NamedTuple):
    """The records of each interval's senders, padded beyond the senders and beyond each one's records.

    With n[i] the number of all senders' records, the weighted sum of messages is computed as

        sum_s weight[s] message[s] = (1 / n[i]) sum_s counts[i, s] sizes[i, s] message[s].

    Attributes
    ----------
    rows
        Indices of records in the training data, int32, shape (interval, sender, record).
    sizes
        Number of a sender's records, int32, shape (interval, sender); 0 beyond the senders.
    counts
        weight[s] n[i] / sizes[i, s], float32, shape (interval, sender).
    """

    rows: np.ndarray
    sizes: np.ndarray
    counts: np.ndarray

    by_record = ("rows",)


@dataclass(frozen=True)
class UserGradients(Gradients):
    """A user's mean gradient, clipped as a whole; replacing one or all of its records changes it by at most 2 L."""

    message: ClassVar = "mean gradient"
    measured: ClassVar = 2  # number of users clipped, and of all who send

    def inputs(
        self, reception: Reception, user_records: list[np.ndarray], seed: int, realization: int
    ) -> tuple[Fixed, UserRows]:
        if reception.records is not None:  # the account would count sampling that is not done
            raise NotImplementedError("means are of all of a user's records, and not of Poisson batches")
        samples, sends = np.array([len(mine) for mine in user_records]), reception.sends
        shape = len(sends), sends.sum(axis=1).max()
        rows = np.zeros((*shape, samples[sends.any(axis=0)].max(initial=0)), np.int32)
        sizes, counts = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
        number = (sends * samples).sum(axis=1)
        for interval, place in enumerate(map(np.flatnonzero, sends)):
            sizes[interval, : len(place)] = samples[place]
            counts[interval, : len(place)] = reception.weight[interval, place] * number[interval] / samples[place]
            for sender, user in enumerate(place):
                rows[interval, sender, : samples[user]] = user_records[user]
        return Fixed(), UserRows(rows, sizes, counts)

    def gather(self, fixed: Fixed, varying: Any, data: Data) -> tuple:
        """Return features and classes of the senders' records.

        For one realization that is not compiled, shapes are (record, feature) and (record,), one sender's records after
        the other's; otherwise (..., sender, record, feature) and (..., sender, record), padded.
        """
        single = not self.compiled and varying.sizes.shape.rank == 1
        rows = varying.rows[tf.sequence_mask(varying.sizes, tf.shape(varying.rows)[-1])] if single else varying.rows
        return tf.gather(data.x, rows), tf.gather(data.y, rows)

    def summed(self, weights: Weights, fixed: Fixed, varying: Any, used: tuple, uniforms: Callable):
        """Compute the weighted sum of mean gradients, one sender after the other, to hold one gradient at a time."""
        (x, y), number = used, tf.cast(tf.reduce_sum(varying.sizes, axis=-1), tf.float32)
        place, single = tf.range(tf.shape(y)[-1]), y.shape.rank == 1  # records follow each other, of all users
        passed, stop = self.model.passed(weights, x, y) if single else (), tf.cumsum(varying.sizes, axis=-1)
        senders = tf.math.count_nonzero(varying.sizes, axis=-1, dtype=tf.int32)

        def add_sender(sender, total, clipped):
            size = varying.sizes[..., sender]
            if single:
                rows = slice(stop[sender] - size, stop[sender])
                own_part = tf.nest.map_structure(lambda part: part[rows], passed)
                summed = self.model.sums(weights, own_part, tf.ones([size]))
            else:
                mine = tf.gather(x, sender, axis=-3), tf.gather(y, sender, axis=-2)
                factor = tf.cast(place < size[..., None], tf.float32)
                summed = self.model.sums(weights, self.model.passed(weights, *mine), factor)
            length = tf.linalg.global_norm(summed) if single else norm(summed, size)
            length = tf.math.divide_no_nan(length, tf.cast(size, tf.float32))
            factor = tf.minimum(1.0, self.clip_norm / length) / number * varying.counts[..., sender]
            factor = tf.where(size > 0, factor, 0.0)
            total = [t + times(factor, g) for t, g in zip(total, summed, strict=True)]
            return total, clipped + tf.cast(length > self.clip_norm, tf.float32)

        state = [tf.zeros_like(w) for w in weights], tf.zeros_like(number)
        total, clipped = repeated(add_sender, 0, tf.reduce_max(senders), state)
        return total, tf.stack([clipped, tf.cast(senders, tf.float32)], axis=-1)

    def opposed(self, generator: np.random.Generator, records: int) -> Iterator[adversarial.Opposed]:
        """As `Gradients.opposed`, with gradients so large that one dominates its user's mean over `records` records."""
        return self.model.opposed(OUTWEIGHED * records * self.clip_norm, generator)


def batches(sends: np.ndarray, records: np.ndarray, samples: np.ndarray, generator: np.random.Generator) -> list:
    """Draw each round's batch: of each sender, a uniform choice of a given number of its records.

    Returns one int32 array per round: positions in the concatenation of all users' records, without repetition, senders
    one after the other.

    Parameters
    ----------
    sends
        Whether a user sends, boolean, shape (round, user).
    records
        Number of records to draw, int, shape (round, user).
    samples
        Number of records that a user holds, int, shape (user,).
    generator
        Draws them.
    """
    round_, user = np.nonzero(sends)
    size, first, most = records[round_, user], np.concatenate([[0], np.cumsum(samples)]), samples.max()
    column, rows = np.arange(most), [np.empty(0, np.int32)]
    for start in range(0, len(user), DRAWN):
        part = slice(start, start + DRAWN)
        # The smallest of i.i.d. keys are a uniform choice; columns beyond a user's records never win.
        keys = generator.random((len(user[part]), most), dtype=np.float32)
        keys[column >= samples[user[part], None]] = np.inf
        order = np.argsort(keys, axis=1, kind="stable") + first[user[part], None]
        rows.append(order[column < size[part, None]].astype(np.int32))
    return np.split(np.concatenate(rows), np.cumsum(records.sum(axis=1))[:-1])
