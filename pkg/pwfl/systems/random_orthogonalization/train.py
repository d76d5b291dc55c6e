"""Federated learning of ul Zuhra et al.: local SGD, clipped updates, their sum over many antennas.

The users' signals and noise reach the server's update (4) as a weighted sum of updates and one Gaussian noise of known
variance, given the channels: that is what is drawn, not each antenna's signal.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import tensorflow as tf

from pwfl import streams
from pwfl.learning import datasets, features, partition
from pwfl.learning.mlp import parameter_count
from pwfl.systems.random_orthogonalization.rounds import history_function
from pwfl.tables.arrays import to_array

if TYPE_CHECKING:
    from pwfl.systems.random_orthogonalization.parameters import RandomOrthogonalization

log = logging.getLogger(__name__)

HISTORY = {
    "realization": pl.Int64,
    "round": pl.Int64,
    "accuracy": pl.Float64,
    "loss": pl.Float64,
    **dict.fromkeys(partition.USER_ACCURACIES, pl.Float64),
    "update_norm": pl.Float64,
    "clipped_share": pl.Float64,
    "transmit_energy": pl.Float64,
    "air_seconds_so_far": pl.Float64,
    "transmit_energy_j_so_far": pl.Float64,
    "status": pl.String,
}


def trainer(
    scenario: "RandomOrthogonalization", data: datasets.Dataset, tables: dict[str, pl.DataFrame]
) -> Callable[[int], pl.DataFrame]:
    """A function that trains one realization and returns its accuracy and loss after every round.

    Shares of the data, mini-batches and the server's noise come from streams of their own, the same for all schemes,
    and for any number of antennas. A training whose loss leaves the finite numbers stops there; the column `status`
    says so.
    """
    training, seed = scenario.training, scenario.seed
    size = features.size(scenario)
    dimension = parameter_count([size.features, size.classes])
    schedule, noise = tables["schedule"], tables["noise"]
    rows = {realization: row for row, realization in enumerate(noise["realization"].unique(maintain_order=True))}
    keys = ("realization", "round", "user")
    coupling = to_array(schedule, "coupling_real", *keys)
    amplitude = to_array(schedule, "amplitude", *keys)[..., 0]
    noise_std = to_array(noise, "noise_std", *keys[:2])
    effective_std = to_array(noise, "effective_noise_std", *keys[:2])
    users = coupling.shape[-1]
    samples = tables["users"]["samples"][0]
    history_of = history_function(users, samples, size, training, data)

    def train(realization: int) -> pl.DataFrame:
        row = rows[realization]
        owned = partition.deal_out(scenario.data, data.y_train, np.full(users, samples), seed, realization)
        accuracies, loss, norm, clipped, energy = (
            values.numpy().astype(float)
            for values in history_of(
                owned=tf.constant(np.stack(owned), tf.int32),
                weight=tf.constant(coupling[row] / users, tf.float32),
                noise_std=tf.constant(effective_std[row], tf.float32),
                batch_key=tf.constant(streams.key(seed, "batches", realization), tf.int64),
                noise_key=tf.constant(streams.key(seed, "noise", realization), tf.int64),
            )
        )
        done = len(energy)
        sent = amplitude[row, :done] ** 2 * (energy + dimension * noise_std[row, :done] ** 2)
        status = "trained" if np.isfinite(loss[-1]) else "diverged"
        log.info("realization %d: %s, accuracy %.4f", realization, status, accuracies[-1, 0])
        counts = partition.held(data.y_train, owned, size.classes)
        columns = {"accuracy": accuracies[:, 0], "loss": loss} | {
            name: [None, *values]  # nothing is sent before round 1
            for name, values in (("update_norm", norm), ("clipped_share", clipped), ("transmit_energy", sent))
        }
        columns |= partition.user_accuracies(accuracies[:, 1:], counts)
        keys = {"realization": [realization] * (done + 1), "round": range(done + 1)}
        spent = {
            "air_seconds_so_far": [dimension * t / scenario.radio.bandwidth_hz for t in range(done + 1)],
            "transmit_energy_j_so_far": [None] * (done + 1),  # signals have no unit
        }
        history = pl.DataFrame(keys | columns | spent | {"status": [status] * (done + 1)}, schema=HISTORY)
        return history.with_columns(pl.col(partition.USER_ACCURACIES).fill_nan(None))

    return train
