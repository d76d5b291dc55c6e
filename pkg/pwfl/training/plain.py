"""The stage `train` of systems whose users send sums of clipped gradients and whose server has a constant step size."""

from functools import partial

import numpy as np
import polars as pl

from pwfl.learning import datasets, features
from pwfl.training import batching, trainable, trainings
from pwfl.training.gradients import Gradients
from pwfl.training.models import network


def parts(
    scenario, data: datasets.Dataset, tables: dict[str, pl.DataFrame], compiled: bool = False, alike: bool = False
) -> trainings.Parts:
    """Build learner, server and evaluations from a scenario's section `training`.

    The section has `model`, `model_reads`, `hidden_layers`, `rounds`, `learning_rate` (the server's step size),
    `clip_norm` and `evaluate_every` (rounds).

    Parameters
    ----------
    scenario
        The scenario.
    data
        Training and test data.
    tables
        By name; `reception` and `users` are used, for the memory of a realization.
    compiled
        Whether XLA compiles the training, for a GPU.
    alike
        Whether all records in a round's messages have the same weight, in all realizations, which is a little faster.
    """
    training, network_ = scenario.training, network(scenario.training, features.size(scenario))
    learner = Gradients(trainable.model_of(network_, compiled), training.clip_norm, alike, compiled)
    server = trainings.Server(lambda reception: np.full(training.rounds, training.learning_rate))
    sent = tables["reception"].join(tables["users"], on=("realization", "user"))
    records = sent.group_by("realization", "interval").agg(pl.col("records").fill_null(pl.col("samples")).sum())
    largest = batching.padded(int(records.select(pl.max("records")).item() or 0))
    size = trainable.bytes_each(network_, largest, data.x_test.shape) + 4 * largest * training.rounds
    stops = trainings.evaluation_rounds(training.rounds, training.evaluate_every)
    return trainings.Parts(learner, server, stops, trainings.clipped_share, size)


trainer, batch_trainer = trainings.trainers(parts)
parts_alike = partial(parts, alike=True)
