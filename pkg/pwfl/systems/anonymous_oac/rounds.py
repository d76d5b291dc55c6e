"""Rounds of Hasircioglu and Gunduz as one graph: records of Poisson batches, clipped one by one, summed on air."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
import tensorflow as tf

from pwfl.learning import datasets, engine, network
from pwfl.learning.engine import Backward, Weights

if TYPE_CHECKING:
    from pwfl.systems.anonymous_oac.scenario import Training

DRAWN = 10_000  # batches drawn at once


def batches(
    schedule: pl.DataFrame, samples: np.ndarray, rounds: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The records of all rounds' batches, one after the other, and where each round starts and ends.

    `schedule` holds rows (round, user, batch), `samples` each device's number of records, which follow
    each other device by device. Each batch is a uniform choice of its size without repetition. Returns
    positions of records, and an array of shape (rounds + 1,).
    """
    frame = schedule.sort("round", "user")
    device, size = frame["user"].to_numpy(), frame["batch"].to_numpy()
    first, most = np.concatenate([[0], np.cumsum(samples)]), samples.max()
    column, rows = np.arange(most), [np.empty(0, np.int32)]
    for start in range(0, len(device), DRAWN):
        part = slice(start, start + DRAWN)
        # The smallest of i.i.d. keys are a uniform choice; columns beyond a device's records never win.
        keys = generator.random((len(device[part]), most), dtype=np.float32)
        keys[column >= samples[device[part], None]] = np.inf
        order = np.argsort(keys, axis=1, kind="stable") + first[device[part], None]
        rows.append(order[column < size[part, None]].astype(np.int32))
    counts = np.bincount(frame["round"].to_numpy() - 1, weights=size, minlength=rounds).astype(np.int64)
    return np.concatenate(rows), np.concatenate([[0], np.cumsum(counts)])


def mean_weights(stops: np.ndarray, divisor: np.ndarray) -> np.ndarray:
    """What the mean over each round's batch is to be multiplied by for its sum over `divisor`; 0 without records."""
    return np.divide(np.diff(stops), divisor, out=np.zeros(len(divisor)), where=divisor > 0)


class Step(NamedTuple):
    """What a round does with a batch's gradients."""

    clip_norm: float
    learning_rate: float


def train_rounds(
    backward: Backward,
    weights: Weights,
    x: tf.Tensor,
    y: tf.Tensor | None,
    stops: tf.Tensor,
    mean_weight: tf.Tensor,
    noise_std: tf.Tensor,
    step: Step,
    key: tf.Tensor,
    first_round: tf.Tensor,
    rounds: tf.Tensor,
    rows: tf.Tensor,
) -> Weights:
    """Run rounds `first_round`, ... of w <- w - eta (mean_weight mean of the batch's clipped gradients + noise), (2).

    Round t takes the samples rows[stops[t]:stops[t + 1]], the weight mean_weight[t] (1 where the sum is
    divided by the batch's own size) and noise of standard deviation noise_std[t] per coordinate, from
    the stream (key, t).
    """
    clip, step_size = tf.constant(step.clip_norm, tf.float32), tf.constant(step.learning_rate, tf.float32)
    for t in tf.range(first_round, first_round + rounds):
        batch = rows[stops[t] : stops[t + 1]]
        labels = None if y is None else tf.gather(y, batch)
        gradient = engine.per_sample_gradient(backward, tf.gather(x, batch), labels, clip)(weights)
        noise = engine.normals(weights, key, t)
        update = [mean_weight[t] * g + noise_std[t] * n for g, n in zip(gradient, noise, strict=True)]
        weights = [w - step_size * u for w, u in zip(weights, update, strict=True)]
    return weights


def history_function(widths: list[int], rounds: list[int], training: "Training", data: datasets.Dataset):
    """A whole training as one graph, traced once for batches of any size.

    Returns a function of start weights and a realization's batches, their weights, noise and key. It
    returns test accuracies and losses after the given rounds, up to the first loss that is not finite.
    """
    step = Step(training.clip_norm, training.learning_rate)
    x, y, x_test, y_test = tf.constant(data.x_train), tf.constant(data.y_train), data.x_test, data.y_test

    @tf.function(reduce_retracing=True)
    def history(weights, rows, stops, mean_weight, noise_std, key):
        def advance(weights, first, count):
            return train_rounds(
                network.backward, weights, x, y, stops, mean_weight, noise_std, step, key, first, count, rows
            )

        return engine.history(
            weights, tf.constant(rounds), advance, lambda weights: network.evaluate(weights, x_test, y_test)
        )

    return history
