"""Learners whose messages are gradients: sums over a user's records, each clipped, or its mean, clipped as a whole."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import tensorflow as tf

from pwfl import streams
from pwfl.learning import adversarial, datasets
from pwfl.tables.reception import Reception
from pwfl.training.batching import Numbers, Weights, norm, repeated, times
from pwfl.training.trainable import Model

DRAWN = 10_000  # batches drawn at once
OUTWEIGHED = 100  # times all records' clipping norms: what a record's gradient is to be over the others' biases


class Data(NamedTuple):
    """Records that users train on, and test records."""

    x: tf.Tensor
    y: tf.Tensor
    x_test: tf.Tensor
    y_test: tf.Tensor


class Fixed(NamedTuple):
    """Inputs that are the same in all rounds: none."""


class Rows(NamedTuple):
    """The records of each interval's gradients, padded beyond `sizes`.

    Attributes
    ----------
    rows
        Indices of records in the training data, shape (interval, record).
    sizes
        How many there are, shape (interval,).
    counts
        By how much more than the mean record each record's gradient counts, shape (interval, record); empty where all
        count alike.
    total
        What the mean gradient is multiplied by, shape (interval,).
    """

    rows: Numbers
    sizes: Numbers
    counts: Numbers
    total: Numbers

    by_record = "rows", "counts"


@dataclass(frozen=True)
class Gradients:
    """Sums of a user's records' gradients, each clipped to a norm L: a replaced record moves a sum by 2 L at most.

    The users' weighted sums are one sum over all records, so a round is one forward and one backward pass. `alike`: in
    each interval all records count alike, in all realizations.
    """

    model: Model
    clip_norm: float
    alike: bool = False
    compiled: bool = False
    message: ClassVar = "sum of gradients"
    lasting: ClassVar = False
    measured: ClassVar = 2  # how many records are clipped, and how many there are

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
        # The mean record's weight is taken out, so that numbers that are 1 stay 1 in float32.
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
        rows = varying.rows if self.compiled else varying.rows[..., : tf.reduce_max(varying.sizes)]
        x, y, counts = tf.gather(data.x, rows), tf.gather(data.y, rows), None
        if not self.alike:
            counts = varying.counts if self.compiled else varying.counts[..., : tf.reduce_max(varying.sizes)]
        return x, y, counts, self.model.prepared(x)

    def summed(
        self, weights: Weights, fixed: Fixed, varying: Any, used: tuple, uniforms: Callable
    ) -> tuple[Weights, tf.Tensor]:
        x, y, counts, prepared = used
        mean, clipped = self.model.clipped_mean(weights, x, y, self.clip_norm, varying.sizes, counts, prepared)
        return [times(varying.total, g) for g in mean], tf.stack([clipped, tf.cast(varying.sizes, tf.float32)], axis=-1)

    def evaluate(self, weights: Weights, data: Data) -> tuple[tf.Tensor, tf.Tensor]:
        return self.model.evaluate(weights, data.x_test, data.y_test)

    # What an audit asks for.
    def silent(self) -> list[np.ndarray]:
        """Weights at which a blank record of the first class has no gradient, not even in float32."""
        return self.model.silent()

    def opposed(self, generator: np.random.Generator, records: int) -> Iterator[adversarial.Opposed]:
        """Weights and two records each, whose gradients are opposite and clipped; of so many records in all."""
        return self.model.opposed(self.clip_norm, generator)

    def place(self, start, target: int, round_: int) -> int:
        """One of the target's records that is in a message, of a `trainings.Start`."""
        if start.reception.records is None:
            return int(start.user_records[target][0])
        taken = np.concatenate(
            [rows[:size] for rows, size in zip(start.varying.rows, start.varying.sizes, strict=True)]
        )
        return int(taken[np.isin(taken, start.user_records[target])][0])


class UserRows(NamedTuple):
    """Records of the users who send in an interval, first in the second axis; padded beyond `sizes`.

    Attributes
    ----------
    rows
        Shape (interval, sender, record).
    sizes
        Shape (interval, sender); 0 beyond the senders.
    counts
        As how many each of a sender's records counts in the mean of all, likewise.
    """

    rows: np.ndarray
    sizes: np.ndarray
    counts: np.ndarray

    by_record = ("rows",)


@dataclass(frozen=True)
class UserGradients(Gradients):
    """A user's mean gradient, clipped as a whole: whoever replaces a record, or all, moves it by 2 L at most."""

    message: ClassVar = "mean gradient"
    measured: ClassVar = 2  # how many users are clipped, and how many there are

    def inputs(
        self, reception: Reception, user_records: list[np.ndarray], seed: int, realization: int
    ) -> tuple[Fixed, UserRows]:
        if reception.records is not None:  # what is not done must not be accounted for
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
        single = not self.compiled and varying.sizes.shape.rank == 1
        rows = varying.rows[tf.sequence_mask(varying.sizes, tf.shape(varying.rows)[-1])] if single else varying.rows
        return tf.gather(data.x, rows), tf.gather(data.y, rows)

    def summed(self, weights: Weights, fixed: Fixed, varying: Any, used: tuple, uniforms: Callable):
        """One user after the other, so that one gradient more than the sum is kept."""
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
        """As `Gradients.opposed`; one record is to outweigh the others' biases in a mean."""
        return self.model.opposed(OUTWEIGHED * records * self.clip_norm, generator)


def batches(sends: np.ndarray, records: np.ndarray, samples: np.ndarray, generator: np.random.Generator) -> list:
    """The records of all rounds' batches, each user's a uniform choice of its number without repetition.

    `sends` and `records` have shape (round, user), `samples` (user,); places are of all users' records, one user after
    the other.
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
