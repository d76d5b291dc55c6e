"""Algorithm 1 of Tavangaran et al.: two-level federated learning with clipping and noise."""

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from pwfl.learning import datasets, features
from pwfl.systems.multicell.beyond.server import step_sizes
from pwfl.systems.multicell.parameters import Multicell
from pwfl.systems.multicell.recipes import RECIPES
from pwfl.tables.reception import Reception
from pwfl.training import batching, trainable, trainings
from pwfl.training.gradients import Gradients, UserGradients
from pwfl.training.integers import IntegerGradients, summed
from pwfl.training.local_sgd import ModelLocalSgd, Steps
from pwfl.training.models import is_softmax, network
from pwfl.training.sent import SentGradients, majority


def parts(
    scenario: Multicell, data: datasets.Dataset, tables: dict[str, pl.DataFrame], compiled: bool = False
) -> trainings.Parts:
    """What the core trains by. Raises NotImplementedError for integers where several are trained side by side."""
    training, size = scenario.training, features.size(scenario)
    recipe = RECIPES[training.recipe]
    own = network(training, size, zero=recipe.from_zero and is_softmax(training))
    model, clip = trainable.model_of(own, compiled), training.clip_norm
    if training.learner == "local_steps":
        steps = Steps(training.local_steps, training.batch_size, training.learning_rate, clip)
        learner = ModelLocalSgd(size.features, size.classes, steps, compiled=compiled, model=model)
    elif training.clipping == "per_user":
        learner = UserGradients(model, clip, compiled=compiled)
    elif scenario.radio.air == "majority":
        learner = SentGradients(model, clip, compiled=compiled)
    elif training.bits:
        learner = IntegerGradients(model, clip, compiled=compiled)
    else:
        alike = not recipe.inverse_variance and scenario.radio.air == "digital"  # records, in an interval
        learner = Gradients(model, clip, alike, compiled)
    stops = trainings.evaluation_rounds(training.rounds, training.evaluate_every)
    largest = batching.padded(records(training, tables))
    bytes_each = trainable.bytes_each(own, largest, data.x_test.shape)
    columns = clipped_updates(stops) if training.learner == "local_steps" else trainings.clipped_share
    return trainings.Parts(learner, server(training, scenario.radio.air), stops, columns, bytes_each)


trainer, batch_trainer = trainings.trainers(parts)


def server(training, air: str = "digital") -> trainings.Server:
    """How the server steps: by the noise as it was planned, whoever drops out."""

    def steps(reception: Reception) -> np.ndarray:
        sizes = step_sizes(training, reception.planned_noise_std.astype(np.float32), reception.planned_senders > 0)
        return -sizes if training.learner == "local_steps" else sizes  # along what changed, and against gradients

    decided = majority if air == "majority" else None
    return trainings.Server(steps, summed(training.bits) if training.bits else None, decided)


def clipped_updates(stops: Sequence[int]) -> Callable[[trainings.Start, np.ndarray], dict[str, pl.Series]]:
    """A function that makes the column of the share of users' updates that were clipped since the evaluation before."""

    def columns(start: trainings.Start, sums: np.ndarray) -> dict[str, pl.Series]:
        rounds = np.diff(stops[: len(sums)], prepend=0)
        with np.errstate(invalid="ignore"):
            share = sums[:, 1].astype(float) / rounds
        return {"clipped_share": pl.Series(share).fill_nan(None)}

    return columns


def records(training, tables: dict[str, pl.DataFrame]) -> int:
    """How many records a round has room for: of its senders, or of as many as have the most each."""
    sent = tables["reception"].join(tables["users"], on=("realization", "user")).group_by("realization", "interval")
    sizes = sent.agg(pl.col("samples").max() * pl.len() if training.clipping == "per_user" else pl.col("samples").sum())
    return int(sizes.select(pl.max("samples")).item() or 0)
