"""Training of the system `anonymous_oac`: (2) of Hasircioglu and Gunduz, batches that differ from round to round."""

import numpy as np
import polars as pl

from pwfl.learning import datasets, features
from pwfl.systems.anonymous_oac.parameters import AnonymousOac
from pwfl.training import batching, trainable, trainings
from pwfl.training.gradients import Gradients
from pwfl.training.models import network


def parts(
    scenario: AnonymousOac, data: datasets.Dataset, tables: dict[str, pl.DataFrame], compiled: bool = False
) -> trainings.Parts:
    """What the core trains by."""
    training, own = scenario.training, network(scenario.training, features.size(scenario))
    server = trainings.Server(lambda reception: np.full(training.rounds, training.learning_rate))
    learner = Gradients(trainable.model_of(own, compiled), training.clip_norm, alike=True, compiled=compiled)
    records = tables["reception"].group_by("realization", "interval").agg(pl.col("records").sum())["records"]
    largest = batching.padded(int(records.max() or 0))
    size = trainable.bytes_each(own, largest, data.x_test.shape) + 4 * largest * training.rounds
    stops = trainings.evaluation_rounds(training.rounds, training.evaluate_every)
    return trainings.Parts(learner, server, stops, trainings.clipped_share, size)


trainer, batch_trainer = trainings.trainers(parts)
