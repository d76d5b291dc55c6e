"""Trainings of many realizations side by side, as one program (`pwfl.learning.side_by_side`)."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import polars as pl
import tensorflow as tf

from pwfl.learning import datasets, engine, side_by_side
from pwfl.learning.engine import Weights
from pwfl.systems.anonymous_oac.parameters import AnonymousOac
from pwfl.systems.anonymous_oac.rounds import Start, Step


class SentTogether(NamedTuple):
    """What all rounds of all realizations send, as `rounds.Sent`.

    `rows` has shape (realization, round, record), filled up beyond `sizes`, which has shape (realization, round) as the
    others do.
    """

    rows: tf.Tensor
    sizes: tf.Tensor
    mean_weight: tf.Tensor
    noise_std: tf.Tensor


def together(
    scenario: AnonymousOac, data: datasets.Dataset
) -> Callable[[list[Start]], list[tuple[np.ndarray, np.ndarray, np.ndarray]]]:
    """A function that trains some realizations side by side, each as `train.trainer` would but for rounding.

    It returns each one's test accuracies, losses and clipped shares, up to the first loss that is not finite.
    """
    training = scenario.training
    stops = engine.evaluation_rounds(training.rounds, training.evaluate_every)
    samples = tf.constant(data.x_train), tf.constant(data.y_train)
    tested = tf.constant(data.x_test), tf.constant(data.y_test)
    step = Step(*(tf.constant(value, tf.float32) for value in (training.clip_norm, training.learning_rate)))

    def train(starts: list[Start]) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        sent, keys = stacked(starts), tf.constant([start.key for start in starts], tf.int64)

        def advance(state, first: int, count: int):
            weights, shares = train_rounds(state[0], samples, sent, step, keys, tf.constant(first), tf.constant(count))
            return (weights, weights), shares.numpy()

        weights = side_by_side.stacked_weights([start.weights for start in starts])
        found = side_by_side.histories(weights, stops, advance, lambda weights: side_by_side.evaluate(weights, *tested))
        lengths = side_by_side.lengths(found[1])
        return [tuple(part[b, :length] for part in found) for b, length in enumerate(lengths)]

    return train


@tf.function(jit_compile=True)
def train_rounds(
    weights: Weights,
    data: tuple[tf.Tensor, tf.Tensor],
    sent: SentTogether,
    step: Step,
    keys: tf.Tensor,
    first: tf.Tensor,
    rounds: tf.Tensor,
) -> tuple[Weights, tf.Tensor]:
    """As `rounds.train_rounds` of each realization; `data` are x and y of all samples, `keys` the noise of each."""
    clipped, records = tf.zeros(tf.shape(keys)), tf.zeros(tf.shape(keys))
    place = tf.range(tf.shape(sent.rows)[2])
    for t in tf.range(first, first + rounds):
        sizes = sent.sizes[:, t]
        x, y = (tf.gather(part, sent.rows[:, t]) for part in data)
        there = tf.cast(place < sizes[:, None], tf.float32)
        mean, share = side_by_side.per_sample_gradient(weights, x, y, step.clip_norm, there, sizes)
        noise = side_by_side.normals(weights, keys, t)
        factor, std = sent.mean_weight[:, t, None, None], sent.noise_std[:, t, None, None]
        update = [factor * g + std * n for g, n in zip(mean, noise, strict=True)]
        weights = [w - step.learning_rate * u for w, u in zip(weights, update, strict=True)]
        count = tf.cast(sizes, tf.float32)
        clipped, records = clipped + share * count, records + count
    return weights, clipped / records


def stacked(starts: list[Start]) -> SentTogether:
    """What realizations send, in arrays that have room for the largest batch of all."""
    sizes = np.array([np.diff(start.sent.stops.numpy()) for start in starts], np.int32)
    rows = np.zeros((*sizes.shape, side_by_side.padded(int(sizes.max(initial=0)))), np.int32)
    for own, count, start in zip(rows, sizes, starts, strict=True):
        own[np.arange(rows.shape[2]) < count[:, None]] = start.sent.rows.numpy()
    mean_weight, noise_std = (
        np.array([getattr(start.sent, name).numpy() for start in starts]) for name in ("mean_weight", "noise_std")
    )
    return SentTogether(*map(tf.constant, (rows, sizes, mean_weight, noise_std)))


def bytes_each(
    scenario: AnonymousOac, tables: dict[str, pl.DataFrame], widths: list[int], tested: tuple[int, ...]
) -> float:
    """About how many bytes of a GPU's memory one realization takes, of all that are trained side by side."""
    batches = tables["schedule"].group_by("realization", "round").agg(pl.col("batch").sum())["batch"]
    largest = side_by_side.padded(int(batches.max() or 0))
    return side_by_side.bytes_each(widths, largest, tested) + 4 * largest * scenario.training.rounds
