"""Rounds of Hasircioglu and Gunduz as one graph: records of Poisson batches, clipped one by one, summed on air."""

from typing import NamedTuple, Self

import numpy as np
import polars as pl
import tensorflow as tf

from pwfl.learning import datasets, engine, network
from pwfl.learning.engine import Backward, Weights
from pwfl.systems.anonymous_oac.parameters import Training
from pwfl.tables.arrays import to_array

DRAWN = 10_000  # batches drawn at once


def batches(
    schedule: pl.DataFrame, samples: np.ndarray, rounds: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The records of all rounds' batches, each a uniform choice of its size without repetition.

    `schedule` has rows (round, user, batch); a device's records, of which there are `samples`, shape (device,), follow
    those of the one before. Returns their positions, batch after batch, and where each round starts and ends in them,
    shape (rounds + 1,).
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


class Sent(NamedTuple):
    """What some rounds send.

    Round t takes the samples rows[stops[t]:stops[t + 1]], int32. The mean over its batch is multiplied by
    mean_weight[t] (1 where the sum is divided by the batch's size); noise_std[t] is that of the noise, per coordinate.
    """

    rows: tf.Tensor
    stops: tf.Tensor
    mean_weight: tf.Tensor
    noise_std: tf.Tensor

    @classmethod
    def of(cls, rows: np.ndarray, stops: np.ndarray, mean_weight: np.ndarray, noise_std: np.ndarray) -> Self:
        """As tensors, from arrays of any precision."""
        types = (tf.int32, tf.int32, tf.float32, tf.float32)
        return cls(*map(tf.constant, (rows, stops, mean_weight, noise_std), types))


class Start(NamedTuple):
    """What a realization's training begins with.

    Attributes
    ----------
    weights
        Start weights.
    owned
        Places in the training data of each device's records.
    sent
        What its rounds send, of places in the training data.
    key
        Of the noise.
    """

    realization: int
    weights: list[np.ndarray]
    owned: list[np.ndarray]
    sent: Sent
    key: int


def drawn(
    schedule: pl.DataFrame,
    noise: pl.DataFrame,
    samples: np.ndarray,
    generator: np.random.Generator,
    channel_noise: float = 0.0,
) -> Sent:
    """What a realization sends: batches drawn by its schedule, and noise as its table says.

    Rows are places of records that follow each other device by device.

    Parameters
    ----------
    schedule, noise
        The realization's rows of the tables.
    samples
        Each device's number of records, shape (device,).
    channel_noise
        Variance of the noise that the server hears beside.
    """
    noise_std, divisor = (to_array(noise, name, "round") for name in ("noise_std", "divisor"))
    rows, stops = batches(schedule, samples, len(divisor), generator)
    std = np.sqrt(noise_std.astype(np.float32) ** 2 + np.float32(channel_noise))
    return Sent.of(rows, stops, mean_weights(stops, divisor), std)


def received(
    backward: Backward,
    weights: Weights,
    x: tf.Tensor,
    y: tf.Tensor | None,
    sent: Sent,
    clip_norm: tf.Tensor,
    key: tf.Tensor,
    t: tf.Tensor,
) -> tuple[Weights, tf.Tensor]:
    """What the server receives in round t, (2), and the share of clipped ones among the batch's records.

    mean_weight mean of the batch's clipped gradients + noise; parameters are those of `train_rounds`.
    """
    batch = sent.rows[sent.stops[t] : sent.stops[t + 1]]
    labels = None if y is None else tf.gather(y, batch)
    gradient, share = engine.per_sample_gradient(backward, tf.gather(x, batch), labels, clip_norm)(weights)
    noise = engine.normals(weights, key, t)
    update = [sent.mean_weight[t] * g + sent.noise_std[t] * n for g, n in zip(gradient, noise, strict=True)]
    return update, share


def train_rounds(
    backward: Backward,
    weights: Weights,
    x: tf.Tensor,
    y: tf.Tensor | None,
    sent: Sent,
    step: Step,
    key: tf.Tensor,
    first_round: tf.Tensor,
    rounds: tf.Tensor,
) -> tuple[Weights, tf.Tensor]:
    """Run rounds of w <- w - eta of what is `received`, (2).

    `x`, shape (sample, feature), and `y`, (sample,), are all samples; round t takes the noise of the stream (key, t).
    Returns the weights after the last round, and the share of clipped ones among all records of the rounds, NaN of
    none.
    """
    clip, step_size = tf.constant(step.clip_norm, tf.float32), tf.constant(step.learning_rate, tf.float32)
    clipped, records = tf.constant(0.0), tf.constant(0.0)
    for t in tf.range(first_round, first_round + rounds):
        update, share = received(backward, weights, x, y, sent, clip, key, t)
        weights = [w - step_size * u for w, u in zip(weights, update, strict=True)]
        count = tf.cast(sent.stops[t + 1] - sent.stops[t], tf.float32)
        clipped, records = clipped + tf.math.multiply_no_nan(share, count), records + count
    return weights, clipped / records


def history_function(widths: list[int], rounds: list[int], training: Training, data: datasets.Dataset):
    """A whole training as one graph, traced once for batches of any size.

    Returns a function of start weights, of what is sent, and of the noise's key, to test accuracies
    (`network.evaluate_labels`), losses and clipped shares after the given rounds, up to the first loss that is not
    finite.
    """
    step = Step(training.clip_norm, training.learning_rate)
    x, y, x_test, y_test = tf.constant(data.x_train), tf.constant(data.y_train), data.x_test, data.y_test

    @tf.function(reduce_retracing=True)
    def history(weights, sent, key):
        def advance(weights, first, count):
            return train_rounds(network.backward, weights, x, y, sent, step, key, first, count)

        return engine.history(
            weights, tf.constant(rounds), advance, lambda weights: network.evaluate_labels(weights, x_test, y_test)
        )

    return history
