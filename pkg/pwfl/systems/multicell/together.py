"""Trainings of many realizations side by side, as one program (`pwfl.learning.side_by_side`)."""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import tensorflow as tf

from pwfl import streams
from pwfl.learning import datasets, engine, side_by_side
from pwfl.systems.multicell.beyond.server import step_sizes, tail_start
from pwfl.systems.multicell.rounds import Senders
from pwfl.systems.multicell.start import Course, Start

if TYPE_CHECKING:
    from pwfl.systems.multicell.parameters import Multicell, Training


def together(
    scenario: "Multicell", data: datasets.Dataset, tables: dict[str, pl.DataFrame]
) -> Callable[[list[Start]], list[Course]]:
    """A function that trains some realizations side by side, each as `train.single` would but for rounding.

    Of fully connected networks; raises NotImplementedError for others.
    """
    training = scenario.training
    if training.model != "dense":
        raise NotImplementedError(f"training.model: {training.model}: realizations are trained one after the other")
    stops = engine.evaluation_rounds(training.rounds, training.evaluate_every)
    samples = tf.constant(data.x_train), tf.constant(data.y_train)
    tested = tf.constant(data.x_test), tf.constant(data.y_test)
    intervals = tables["schedule"]["interval"].n_unique()
    coherence = training.rounds // intervals
    tail = tail_start(training) if training.tail_average > 0 else training.rounds

    def train(starts: list[Start]) -> list[Course]:
        senders, places = zip(*(_senders(training, start) for start in starts), strict=True)
        noise_std = np.array([own.noise_std.numpy() for own in senders])
        sending = [start.scheduled.any(axis=1) for start in starts]
        steps = np.array([step_sizes(training, *each) for each in zip(noise_std, sending, strict=True)], np.float32)
        keys = [streams.key(*streams.of_noise(scenario), start.realization) for start in starts]
        records = cache(lambda interval: _records(training, senders, places, interval))

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


def _senders(training: "Training", start: Start) -> tuple[Senders, np.ndarray]:
    """Who sends, and the places in the data of the records of all who ever do."""
    sends = start.scheduled.any(axis=0)
    senders = Senders.of(training, start.samples[sends], start.scheduled[:, sends], start.noise_std[:, sends])
    return senders, np.concatenate([start.rows[user] for user in np.flatnonzero(sends)])


def _records(training: "Training", senders: list[Senders], places: list[np.ndarray], interval: int):
    """The records of an interval's senders, of all realizations."""
    parts, counts = [], []
    for own, mine in zip(senders, places, strict=True):
        rows, samples, counted = (of[interval].numpy() for of in (own.rows, own.samples, own.counts))
        users = training.clipping == "per_user"
        parts.append(np.split(mine[rows], samples.cumsum()[:-1]) if users else [mine[rows]])
        counts.append(list(counted) if users else [np.repeat(counted, samples)])
    return side_by_side.Records(*map(tf.constant, side_by_side.stacked(parts, counts)))
