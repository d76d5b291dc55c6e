"""Algorithm 1 of Tavangaran et al.: two-level federated learning with clipping and noise."""

import numpy as np
import polars as pl

from pwfl.learning import datasets, features
from pwfl.systems.multicell.beyond.server import step_sizes, tail_start
from pwfl.systems.multicell.parameters import Multicell
from pwfl.tables.reception import Reception
from pwfl.training import batching, trainable, trainings
from pwfl.training.gradients import Gradients, UserGradients
from pwfl.training.integers import IntegerGradients, summed
from pwfl.training.models import network


def parts(
    scenario: Multicell, data: datasets.Dataset, tables: dict[str, pl.DataFrame], compiled: bool = False
) -> trainings.Parts:
    """What the core trains by. Raises NotImplementedError for integers where several are trained side by side."""
    training, size = scenario.training, features.size(scenario)
    own = network(training, size, zero=training.initial_weights == "zero")
    model, clip = trainable.model_of(own, compiled), training.clip_norm
    if training.clipping == "per_user":
        learner = UserGradients(model, clip, compiled=compiled)
    elif training.bits:
        learner = IntegerGradients(model, clip, compiled=compiled)
    else:
        learner = Gradients(model, clip, training.weights == "samples", compiled)
    stops = trainings.evaluation_rounds(training.rounds, training.evaluate_every)
    largest = batching.padded(records(training, tables))
    bytes_each = trainable.bytes_each(own, largest, data.x_test.shape)
    return trainings.Parts(learner, server(training), stops, trainings.clipped_share, bytes_each)


trainer, batch_trainer = trainings.trainers(parts)


def server(training) -> trainings.Server:
    """How the server steps: by the noise as it was planned, whoever drops out."""

    def steps(reception: Reception) -> np.ndarray:
        return step_sizes(training, reception.planned_noise_std.astype(np.float32), reception.planned_senders > 0)

    tail = tail_start(training) if training.tail_average > 0 else None
    return trainings.Server(steps, tail, summed(training.bits) if training.bits else None)


def records(training, tables: dict[str, pl.DataFrame]) -> int:
    """How many records a round has room for: of its senders, or of as many as have the most each."""
    sent = tables["reception"].join(tables["users"], on=("realization", "user")).group_by("realization", "interval")
    sizes = sent.agg(pl.col("samples").max() * pl.len() if training.clipping == "per_user" else pl.col("samples").sum())
    return int(sizes["samples"].max() or 0)
