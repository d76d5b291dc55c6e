"""Algorithm 1 of Tavangaran et al.: two-level federated learning with clipping and noise."""

import numpy as np
import polars as pl

from pwfl.learning import datasets, features
from pwfl.systems.multicell.beyond import learners
from pwfl.systems.multicell.beyond.on_air import is_digital
from pwfl.systems.multicell.beyond.server import step_sizes
from pwfl.systems.multicell.parameters import Multicell
from pwfl.systems.multicell.recipes import RECIPES
from pwfl.tables.reception import Reception
from pwfl.training import batching, trainable, trainings
from pwfl.training.gradients import Gradients
from pwfl.training.models import is_softmax, network


def parts(
    scenario: Multicell, data: datasets.Dataset, tables: dict[str, pl.DataFrame], compiled: bool = False
) -> trainings.Parts:
    """Define the training (`trainings.Parts`). Raises NotImplementedError for integers or votes if `compiled`."""
    training, size = scenario.training, features.size(scenario)
    recipe = RECIPES[training.recipe]
    net = network(training, size, zero=recipe.from_zero and is_softmax(training))
    model, clip = trainable.model_of(net, compiled), training.clip_norm
    learner = learners.select_learner(scenario, model, compiled)
    if learner is None:
        alike = not recipe.inverse_variance and is_digital(scenario)  # all records of an interval have the same weight
        learner = Gradients(model, clip, alike, compiled)
    stops = trainings.evaluation_rounds(training.rounds, training.evaluate_every)
    largest = batching.padded(records(training, tables))
    bytes_each = trainable.bytes_each(net, largest, data.x_test.shape)
    columns = learners.select_columns(training, stops)
    return trainings.Parts(learner, server(scenario), stops, columns, bytes_each)


trainer, batch_trainer = trainings.trainers(parts)


def server(scenario: Multicell) -> trainings.Server:
    """Return the server's update rules; step sizes follow the planned noise, whoever drops out."""
    training = scenario.training

    def steps(reception: Reception) -> np.ndarray:
        sizes = step_sizes(training, reception.planned_noise_std.astype(np.float32), reception.planned_senders > 0)
        return -sizes if training.learner == "local_steps" else sizes  # along updates, or against gradients

    return trainings.Server(steps, *learners.list_rules(scenario))


def records(training, tables: dict[str, pl.DataFrame]) -> int:
    """Compute the largest number of records in a round; with `per_user` clipping, all active users have the most."""
    sent = tables["reception"].join(tables["users"], on=("realization", "user")).group_by("realization", "interval")
    sizes = sent.agg(pl.col("samples").max() * pl.len() if training.clipping == "per_user" else pl.col("samples").sum())
    return int(sizes.select(pl.max("samples")).item() or 0)
