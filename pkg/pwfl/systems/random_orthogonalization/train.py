"""Federated learning of ul Zuhra et al.: local SGD, clipped updates, their sum over many antennas.

The users' signals and noise reach the server's update (4) as a weighted sum of updates and one Gaussian noise of known
variance, given the channels: that is what is drawn, not each antenna's signal.
"""

import logging
from collections.abc import Callable

import numpy as np
import polars as pl
import tensorflow as tf

from pwfl import streams
from pwfl.learning import datasets, features, partition, side_by_side
from pwfl.learning.mlp import parameter_count
from pwfl.systems.random_orthogonalization import together
from pwfl.systems.random_orthogonalization.parameters import RandomOrthogonalization
from pwfl.systems.random_orthogonalization.rounds import Start, history_function
from pwfl.tables.arrays import to_array

log = logging.getLogger(__name__)


def trainer(
    scenario: RandomOrthogonalization, data: datasets.Dataset, tables: dict[str, pl.DataFrame]
) -> Callable[[int], pl.DataFrame]:
    """A function that trains one realization and returns its accuracy and loss after every round.

    Shares of the data and mini-batches come from streams of their own, the same for all schemes; the server's noise is
    each scheme's own. All are the same for any number of antennas. A training whose loss leaves the finite numbers
    stops there; the column `status` says so.
    """
    size, samples = features.size(scenario), tables["users"]["samples"][0]
    begin, told = starts(scenario, data, tables), history_table(scenario, data, tables)
    users = tables["schedule"]["user"].n_unique()
    history_of = history_function(users, samples, size, scenario.training, data)

    def train(realization: int) -> pl.DataFrame:
        start = begin(realization)
        measured = history_of(
            owned=tf.constant(np.stack(start.owned), tf.int32),
            weight=tf.constant(start.weight, tf.float32),
            noise_std=tf.constant(start.noise_std, tf.float32),
            batch_key=tf.constant(start.batch_key, tf.int64),
            noise_key=tf.constant(start.noise_key, tf.int64),
        )
        return told(start, *(values.numpy() for values in measured))

    return train


def batch_trainer(
    scenario: RandomOrthogonalization, data: datasets.Dataset, tables: dict[str, pl.DataFrame]
) -> tuple[Callable[[list[int]], dict[int, pl.DataFrame]], float]:
    """As `trainer`, a function that trains some realizations side by side, and how many bytes each takes."""
    begin, told = starts(scenario, data, tables), history_table(scenario, data, tables)
    train = side_by_side.batch_function(begin, together.together(scenario, data), told)
    return train, together.bytes_each(scenario, tables["schedule"]["user"].n_unique(), data)


def starts(
    scenario: RandomOrthogonalization, data: datasets.Dataset, tables: dict[str, pl.DataFrame]
) -> Callable[[int], Start]:
    """A function that gives what a realization's training goes by."""
    seed, keys = scenario.seed, ("realization", "round", "user")
    coupling = to_array(tables["schedule"], "coupling_real", *keys)
    noise_std = to_array(tables["noise"], "effective_noise_std", *keys[:2])
    rows, users, samples = rows_of(tables), coupling.shape[-1], tables["users"]["samples"][0]

    def begin(realization: int) -> Start:
        row = rows[realization]
        return Start(
            realization,
            owned=partition.deal_out(
                scenario.data, data.y_train, np.full(users, samples), seed, realization, data.users
            ),
            weight=coupling[row] / users,
            noise_std=noise_std[row],
            batch_key=streams.key(seed, "batches", realization),
            noise_key=streams.key(*streams.of_noise(scenario), realization),
        )

    return begin


def rows_of(tables: dict[str, pl.DataFrame]) -> dict[int, int]:
    """The place of each realization in arrays of the tables."""
    return {
        realization: row for row, realization in enumerate(tables["noise"]["realization"].unique(maintain_order=True))
    }


def history_table(
    scenario: RandomOrthogonalization, data: datasets.Dataset, tables: dict[str, pl.DataFrame]
) -> Callable[..., pl.DataFrame]:
    """A function that makes a realization's rows of `history` of what `history_function` measures."""
    size, keys = features.size(scenario), ("realization", "round", "user")
    dimension, rows = parameter_count([size.features, size.classes]), rows_of(tables)
    amplitude = to_array(tables["schedule"], "amplitude", *keys)
    noise_std = to_array(tables["noise"], "noise_std", *keys[:2])

    def table(start: Start, *measured: np.ndarray) -> pl.DataFrame:
        row = rows[start.realization]
        accuracies, loss, norm, clipped, energy = (values.astype(float) for values in measured)
        rounds = np.arange(len(loss))
        sent = amplitude[row, rounds[1:] - 1, 0] ** 2 * (energy + dimension * noise_std[row, rounds[1:] - 1] ** 2)
        status = "trained" if np.isfinite(loss[-1]) else "diverged"
        log.info("realization %d: %s, accuracy %.4f", start.realization, status, accuracies[-1, 0])
        held = partition.held(data.y_train, start.owned, size.classes)
        columns = {"round": rounds, "accuracy": accuracies[:, 0], "loss": loss}
        columns |= partition.user_accuracies(accuracies[:, 1:], held)
        columns["air_seconds_so_far"] = dimension * rounds / scenario.radio.bandwidth_hz
        history = pl.DataFrame(columns).with_columns(
            pl.col(partition.USER_ACCURACIES).fill_nan(None),
            realization=pl.lit(start.realization),
            transmit_energy_j_so_far=pl.lit(None, pl.Float64),  # signals have no unit
            status=pl.lit(status),
        )
        # Nothing is sent before round 1.
        uploads = {"round": rounds[1:], "update_norm": norm, "clipped_share": clipped, "transmit_energy": sent}
        return history.join(pl.DataFrame(uploads), on="round", how="left", maintain_order="left")

    return table
