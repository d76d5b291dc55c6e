"""Training of the system `anonymous_oac`: (2) of Hasircioglu and Gunduz, batches that differ from round to round."""

import logging
from collections.abc import Callable

import numpy as np
import polars as pl
import tensorflow as tf

from pwfl import datasets, streams
from pwfl.mlp import glorot_uniform
from pwfl.train import engine, network
from pwfl.train.engine import Backward, Weights

log = logging.getLogger(__name__)

DRAWN = 10_000  # batches drawn at once


def trainer(parameters: dict, data: datasets.Dataset, tables: dict[str, pl.DataFrame]) -> Callable[[int], pl.DataFrame]:
    """A function that trains one realization and returns its test accuracy and loss over the rounds.

    A round's update is the sum of the batch's clipped gradients over the table noise's `divisor`,
    privacy noise and channel noise; in a round without records the server, which cannot know, adds
    the noise it hears. Start weights, records and noise come from streams of their own, the same for
    all schemes. A loss that leaves the finite numbers ends a training; the column `status` says so.
    """
    training, seed = parameters["training"], parameters["seed"]
    size = datasets.SIZES[parameters["data"]["dataset"]]
    widths = [size.features, *training["hidden_layers"], size.classes]
    rounds = engine.evaluation_rounds(training["rounds"], training["evaluate_every"])
    history_of = history_function(widths, rounds, training, data)
    over_the_air = tables["schedule"]["slot"].is_null().all()
    channel_noise = np.float32(parameters["radio"]["noise_variance"] if over_the_air else 0.0)  # digital: no error
    users = tables["users"].partition_by("realization", as_dict=True)
    schedule = tables["schedule"].partition_by("realization", as_dict=True)
    noise = tables["noise"].partition_by("realization", as_dict=True)

    def train(realization: int) -> pl.DataFrame:
        samples = users[realization,]["samples"].to_numpy()
        owned = streams.generator(seed, "data", realization).permutation(size.train)[: samples.sum()]
        taken = schedule.get((realization,), tables["schedule"].clear())
        rows, stops = batches(taken, samples, training["rounds"], streams.generator(seed, "records", realization))
        std = np.sqrt(noise[realization,]["noise_std"].to_numpy().astype(np.float32) ** 2 + channel_noise)
        accuracies, losses = history_of(
            [tf.constant(w) for w in glorot_uniform(widths, streams.generator(seed, "weights", realization))],
            rows=tf.constant(owned[rows], tf.int32),
            stops=tf.constant(stops, tf.int32),
            mean_weight=tf.constant(mean_weights(stops, noise[realization,]["divisor"].to_numpy()), tf.float32),
            noise_std=tf.constant(std, tf.float32),
            key=tf.constant(streams.key(seed, "noise", realization), tf.int64),
        )
        history = list(zip(rounds, accuracies.numpy().tolist(), losses.numpy().tolist(), strict=False))
        status = "trained" if np.isfinite(history[-1][2]) else "diverged"
        log.info(
            "realization %d: %.1f records a round, %s, accuracy %.4f",
            realization, len(rows) / training["rounds"], status, history[-1][1],
        )  # fmt: skip
        return pl.DataFrame([(realization, *row, status) for row in history], schema=engine.HISTORY, orient="row")

    return train


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


def train_rounds(
    backward: Backward,
    weights: Weights,
    x: tf.Tensor,
    y: tf.Tensor | None,
    stops: tf.Tensor,
    mean_weight: tf.Tensor,
    noise_std: tf.Tensor,
    training: dict,
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
    clip, step_size = (tf.constant(training[name], tf.float32) for name in ("clip_norm", "learning_rate"))
    for t in tf.range(first_round, first_round + rounds):
        batch = rows[stops[t] : stops[t + 1]]
        labels = None if y is None else tf.gather(y, batch)
        gradient = engine.per_sample_gradient(backward, tf.gather(x, batch), labels, clip)(weights)
        noise = engine.normals(weights, key, t)
        update = [mean_weight[t] * g + noise_std[t] * n for g, n in zip(gradient, noise, strict=True)]
        weights = [w - step_size * u for w, u in zip(weights, update, strict=True)]
    return weights


def history_function(widths: list[int], rounds: list[int], training: dict, data: datasets.Dataset):
    """A whole training as one graph, traced once for batches of any size.

    Returns a function of start weights and a realization's batches, their weights, noise and key. It
    returns test accuracies and losses after the given rounds, up to the first loss that is not finite.
    """
    x, y, x_test, y_test = tf.constant(data.x_train), tf.constant(data.y_train), data.x_test, data.y_test

    @tf.function(reduce_retracing=True)
    def history(weights, rows, stops, mean_weight, noise_std, key):
        def advance(weights, first, count):
            return train_rounds(
                network.backward, weights, x, y, stops, mean_weight, noise_std, training, key, first, count, rows
            )

        return engine.history(
            weights, tf.constant(rounds), advance, lambda weights: network.evaluate(weights, x_test, y_test)
        )

    return history
