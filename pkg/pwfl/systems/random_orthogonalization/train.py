"""Federated learning of ul Zuhra et al.: local SGD, clipped updates, their sum over many antennas.

Given the channels, the server's update (4) is a weighted sum of users' updates, plus Gaussian noise of known variance.
These are drawn, not each antenna's signal.
"""

from collections.abc import Callable

import numpy as np
import polars as pl

from pwfl.learning import datasets, features
from pwfl.systems.random_orthogonalization.parameters import RandomOrthogonalization
from pwfl.tables.arrays import to_array
from pwfl.training import trainable, trainings
from pwfl.training.local_sgd import LocalSgd, ModelLocalSgd, Steps
from pwfl.training.models import network, parameter_count


def parts(
    scenario: RandomOrthogonalization, data: datasets.Dataset, tables: dict[str, pl.DataFrame], compiled: bool = False
) -> trainings.Parts:
    """Return the parts of the training: w <- w + received update, (4)."""
    training, size = scenario.training, features.size(scenario)
    server = trainings.Server(lambda reception: np.full(training.rounds, -1.0))
    users = tables["users"]["user"].n_unique()
    sizes = size.features, size.classes
    steps = Steps(training.local_steps, training.batch_size, training.learning_rate, training.clip_norm)
    if training.model == "dense":  # softmax regression, of all users at once
        learner = LocalSgd(*sizes, steps, alike=True, compiled=compiled)
    else:
        model = trainable.model_of(network(training, size, hidden_layers=()), compiled)
        learner = ModelLocalSgd(*sizes, steps, alike=True, compiled=compiled, model=model)
    columns = columns_function(scenario, tables)
    stops = range(training.rounds + 1)
    return trainings.Parts(learner, server, stops, columns, bytes_each(scenario, users, data))


trainer, batch_trainer = trainings.trainers(parts)


def columns_function(
    scenario: RandomOrthogonalization, tables: dict[str, pl.DataFrame]
) -> Callable[[trainings.Start, np.ndarray], dict[str, pl.Series]]:
    """Return a function that makes columns of `history` from statistics of the updates; null before round 1."""
    keys = ("realization", "round", "user")
    dimension = parameter_count(network(scenario.training, features.size(scenario), hidden_layers=()))
    amplitudes = to_array(tables["schedule"], "amplitude", *keys)
    amplitude, share = amplitudes.max(axis=-1), (amplitudes > 0).mean(axis=-1)
    noise_std = to_array(tables["noise"], "noise_std", *keys[:2])
    realizations = tables["noise"]["realization"].unique(maintain_order=True).to_list()

    def columns(start: trainings.Start, sums: np.ndarray) -> dict[str, pl.Series]:
        row, (norm, clipped, energy) = realizations.index(start.realization), sums[1:].T.astype(float)
        rounds = slice(len(norm))
        sent = share[row, rounds] * amplitude[row, rounds] ** 2 * (energy + dimension * noise_std[row, rounds] ** 2)
        measured = {"update_norm": norm, "clipped_share": clipped, "transmit_energy": sent}
        return {name: pl.Series([None, *values]) for name, values in measured.items()}

    return columns


def bytes_each(scenario: RandomOrthogonalization, users: int, data: datasets.Dataset) -> float:
    """Estimate the GPU memory of one realization, in bytes, if realizations are trained as a batch."""
    training, columns = scenario.training, data.x_test.shape[-1]
    tested, classes = data.x_test.size // columns, features.size(scenario).classes
    a_step = users * training.batch_size * (columns + 3 * classes)
    order = users * training.local_steps * training.batch_size * 4
    return 4.0 * (max(a_step, 3 * tested * classes) + 4 * users * classes * columns + order)
