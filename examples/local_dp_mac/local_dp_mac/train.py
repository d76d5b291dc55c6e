"""Stage train: the server steps along the mean of the gradients that it receives."""

from collections.abc import Callable

import numpy as np
import polars as pl
import tensorflow as tf

from local_dp_mac.descent import descend
from local_dp_mac.reception import mean_std
from pwfl import streams
from pwfl.learning import datasets, engine, mlp, network, partition


def trainer(scenario, data: datasets.Dataset, tables: dict[str, pl.DataFrame]) -> Callable[[int], pl.DataFrame]:
    """A function that trains one realization and returns its rows of `history`.

    Devices have equally many records, so the mean of their mean gradients is that over all records.
    """
    training, size = scenario.training, datasets.size(scenario.data)
    widths = [size.features, *training.hidden_layers, size.classes]
    stops = engine.evaluation_rounds(training.rounds, training.evaluate_every)
    users, noise = tables["users"].sort("user"), mean_std(tables).sort("round")
    x_test, y_test = tf.constant(data.x_test), tf.constant(data.y_test)

    @tf.function
    def run(weights, x, y, noise_std, key):
        gradient = engine.per_sample_gradient(network.backward, x, y, tf.constant(training.clip_norm, tf.float32))
        advance = descend(gradient, tf.constant(training.learning_rate, tf.float32), noise_std, key)
        return engine.history(weights, tf.constant(stops), advance, lambda w: network.evaluate(w, x_test, y_test))

    def train(realization: int) -> pl.DataFrame:
        samples = users.filter(realization=realization)["samples"].to_numpy()
        dealt = partition.deal_out(scenario.data, data.y_train, samples, scenario.seed, realization, data.users)
        mine = np.concatenate(dealt)
        weights = mlp.glorot_uniform(widths, streams.generator(scenario.seed, "weights", realization))
        accuracy, loss, _ = run(
            [tf.constant(array, tf.float32) for array in weights],
            tf.constant(data.x_train[mine]),
            tf.constant(data.y_train[mine]),
            tf.constant(noise.filter(realization=realization)["mean_std"].to_numpy(), tf.float32),
            tf.constant(streams.key(*streams.of_noise(scenario), realization), tf.int64),
        )
        history = pl.DataFrame({"round": stops[: len(loss)], "accuracy": accuracy.numpy(), "loss": loss.numpy()})
        finite = pl.col("loss").is_finite()
        return history.select(
            pl.lit(realization).alias("realization"),
            "round",
            pl.when(finite).then(pl.col("accuracy", "loss").cast(pl.Float64)),
            pl.lit(None, pl.Float64).alias("air_seconds_so_far"),  # no bandwidth
            pl.lit(None, pl.Float64).alias("transmit_energy_j_so_far"),  # no unit
            pl.when(finite.all()).then(pl.lit("trained")).otherwise(pl.lit("diverged")).alias("status"),
        )

    return train
