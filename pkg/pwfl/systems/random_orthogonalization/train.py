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


def trainer(
    scenario: "RandomOrthogonalization", data: datasets.Dataset, tables: dict[str, pl.DataFrame]
) -> Callable[[int], pl.DataFrame]:
    """A function that trains one realization and returns its accuracy and loss after every round.

    Shares of the data and mini-batches come from streams of their own, the same for all schemes; the server's noise is
    each scheme's own. All are the same for any number of antennas. A training whose loss leaves the finite numbers
    stops there; the column `status` says so.
    """
    training, seed, size = scenario.training, scenario.seed, features.size(scenario)
    dimension = parameter_count([size.features, size.classes])
    schedule, noise, keys = tables["schedule"], tables["noise"], ("realization", "round", "user")
    rows = {realization: row for row, realization in enumerate(noise["realization"].unique(maintain_order=True))}
    coupling, amplitude = (to_array(schedule, name, *keys) for name in ("coupling_real", "amplitude"))
    noise_std, effective_std = (to_array(noise, name, *keys[:2]) for name in ("noise_std", "effective_noise_std"))
    users, samples = coupling.shape[-1], tables["users"]["samples"][0]
    history_of = history_function(users, samples, size, training, data)

    def train(realization: int) -> pl.DataFrame:
        row = rows[realization]
        owned = partition.deal_out(scenario.data, data.y_train, np.full(users, samples), seed, realization)
        measured = history_of(
            owned=tf.constant(np.stack(owned), tf.int32),
            weight=tf.constant(coupling[row] / users, tf.float32),
            noise_std=tf.constant(effective_std[row], tf.float32),
            batch_key=tf.constant(streams.key(seed, "batches", realization), tf.int64),
            noise_key=tf.constant(streams.key(*streams.of_noise(scenario), realization), tf.int64),
        )
        accuracies, loss, norm, clipped, energy = (values.numpy().astype(float) for values in measured)
        rounds = np.arange(len(loss))
        sent = amplitude[row, rounds[1:] - 1, 0] ** 2 * (energy + dimension * noise_std[row, rounds[1:] - 1] ** 2)
        status = "trained" if np.isfinite(loss[-1]) else "diverged"
        log.info("realization %d: %s, accuracy %.4f", realization, status, accuracies[-1, 0])
        by_user = partition.user_accuracies(accuracies[:, 1:], partition.held(data.y_train, owned, size.classes))
        columns = {"round": rounds, "accuracy": accuracies[:, 0], "loss": loss} | by_user
        columns["air_seconds_so_far"] = dimension * rounds / scenario.radio.bandwidth_hz
        history = pl.DataFrame(columns).with_columns(
            pl.col(partition.USER_ACCURACIES).fill_nan(None),
            realization=pl.lit(realization),
            transmit_energy_j_so_far=pl.lit(None, pl.Float64),  # signals have no unit
            status=pl.lit(status),
        )
        # Nothing is sent before round 1.
        uploads = {"round": rounds[1:], "update_norm": norm, "clipped_share": clipped, "transmit_energy": sent}
        return history.join(pl.DataFrame(uploads), on="round", how="left", maintain_order="left")

    return train
