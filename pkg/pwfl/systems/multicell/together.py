"""Trainings of many realizations side by side, as one program (`pwfl.learning.side_by_side`)."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import polars as pl
import tensorflow as tf

from pwfl import streams
from pwfl.learning import datasets, engine, features, side_by_side
from pwfl.systems.multicell.assigned import assigned
from pwfl.systems.multicell.beyond.server import tail_start
from pwfl.systems.multicell.parameters import Multicell, Training
from pwfl.systems.multicell.rounds import Senders
from pwfl.systems.multicell.start import Course, Start, periods


def together(
    scenario: Multicell, data: datasets.Dataset, tables: dict[str, pl.DataFrame]
) -> Callable[[list[Start]], list[Course]]:
    """A function that trains some realizations side by side, each as `train.single` would but for rounding.

    Of fully connected networks, and messages that are no integers; raises NotImplementedError for others.
    """
    training = scenario.training
    if training.model != "dense":
        raise NotImplementedError(f"training.model: {training.model} takes gradients of samples in blocks")
    if training.bits:
        raise NotImplementedError(f"training.bits: {training.bits} adds up integers round by round")
    stops = engine.evaluation_rounds(training.rounds, training.evaluate_every)
    samples = tf.constant(data.x_train), tf.constant(data.y_train)
    tested = tf.constant(data.x_test), tf.constant(data.y_test)
    intervals = periods(scenario, tables)
    coherence = training.rounds // intervals
    tail = tail_start(training) if training.tail_average > 0 else training.rounds

    def train(starts: list[Start]) -> list[Course]:
        senders, steps, places = zip(*(start.senders(training) for start in starts), strict=True)
        noise_std, steps = np.array([own.noise_std.numpy() for own in senders]), np.array(steps, np.float32)
        keys = [streams.key(*streams.of_noise(scenario), start.realization) for start in starts]
        room = _room(training, senders)
        records = lru_cache(1)(lambda interval: _records(training, senders, places, interval, room))

        def advance(state, first: int, count: int):
            done, clipped, gradients = first, np.zeros(len(starts)), np.zeros(len(starts))
            while done < first + count:
                interval = done // coherence
                rounds, own = min(first + count, (interval + 1) * coherence) - done, records(interval)
                state, share = side_by_side.train_rounds(
                    state,
                    samples,
                    own,
                    tf.constant(training.clip_norm, tf.float32),
                    tf.constant(steps),
                    tf.constant(noise_std[:, interval]),
                    tf.constant(keys, tf.int64),
                    tf.constant(done),
                    tf.constant(rounds),
                    tf.constant(tail),
                )
                each = rounds * (own.sizes.numpy() > 0 if own.counts.shape.rank == 2 else own.sizes.numpy()).sum(axis=1)
                clipped, gradients, done = clipped + share.numpy() * each, gradients + each, done + rounds
            with np.errstate(invalid="ignore"):
                return state, clipped / gradients  # nobody sent: there is no share

        def evaluated(weights):
            return side_by_side.evaluate(weights, *tested)

        weights = side_by_side.stacked_weights([start.weights for start in starts])
        found = side_by_side.histories(weights, stops, advance, evaluated)
        lengths = side_by_side.lengths(found[1])
        return [Course(*(part[b, :length] for part in found)) for b, length in enumerate(lengths)]

    return train


def bytes_each(scenario: Multicell, data: datasets.Dataset, tables: dict[str, pl.DataFrame]) -> float:
    """About how many bytes of a GPU's memory one realization takes, of all that are trained side by side."""
    training, size = scenario.training, features.size(scenario)
    sent = assigned(tables).filter("scheduled").group_by("realization", "interval")
    sizes = sent.agg(pl.col("samples").max() * pl.len() if training.clipping == "per_user" else pl.col("samples").sum())
    records = side_by_side.padded(int(sizes["samples"].max() or 0))
    return side_by_side.bytes_each([size.features, *training.hidden_layers, size.classes], records, data.x_test.shape)


def _room(training: Training, senders: list[Senders]) -> tuple[int, int]:
    """How many parts, and records of a part, suffice for all intervals: so all are of one shape."""
    samples = [own.samples[interval].numpy() for own in senders for interval in range(own.samples.nrows())]
    if training.clipping == "per_user":
        return max(map(len, samples)), side_by_side.padded(max(int(each.max(initial=0)) for each in samples))
    return 1, side_by_side.padded(max(int(each.sum()) for each in samples))


def _records(
    training: Training, senders: list[Senders], places: list[np.ndarray], interval: int, room: tuple[int, int]
) -> side_by_side.Records:
    """The records of an interval's senders, of all realizations."""
    parts, counts = [], []
    for own, mine in zip(senders, places, strict=True):
        rows, samples, counted = (of[interval].numpy() for of in (own.rows, own.samples, own.counts))
        users = training.clipping == "per_user"
        parts.append(np.split(mine[rows], samples.cumsum()[:-1]) if users else [mine[rows]])
        counts.append(list(counted) if users else [np.repeat(counted, samples)])
    return side_by_side.Records(*map(tf.constant, side_by_side.stacked(parts, counts, room)))
