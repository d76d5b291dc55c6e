"""Messages other than the paper's sums of clipped gradients, and the server's rules for them."""

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from pwfl.learning import features
from pwfl.systems.multicell.parameters import Multicell, Training
from pwfl.training import trainable, trainings
from pwfl.training.gradients import UserGradients
from pwfl.training.integers import IntegerGradients, summed
from pwfl.training.local_sgd import ModelLocalSgd, Steps
from pwfl.training.sent import SentGradients, majority


def select_learner(scenario: Multicell, model: trainable.Model, compiled: bool) -> trainings.Learner | None:
    """Return the learner of other messages; None: messages are the paper's."""
    training, size = scenario.training, features.size(scenario)
    if training.learner == "local_steps":
        steps = Steps(training.local_steps, training.batch_size, training.learning_rate, training.clip_norm)
        return ModelLocalSgd(size.features, size.classes, steps, compiled=compiled, model=model)
    if training.clipping == "per_user":
        return UserGradients(model, training.clip_norm, compiled=compiled)
    if by_votes(scenario):
        return SentGradients(model, training.clip_norm, compiled=compiled)
    return IntegerGradients(model, training.clip_norm, compiled=compiled) if training.bits else None


def by_votes(scenario: Multicell) -> bool:
    """Return whether messages are signs, of which the server computes the majority."""
    return scenario.radio.air == "majority"


def list_rules(scenario: Multicell) -> tuple[Callable | None, Callable | None]:
    """Return the server's functions for integers and for votes; None: a weighted sum, as in the paper."""
    bits = scenario.training.bits
    return summed(bits) if bits else None, majority if by_votes(scenario) else None


def select_columns(training: Training, stops: Sequence[int]) -> Callable:
    """Return the function for the column of `history` on clipped updates or gradients, between `stops`."""
    return clipped_updates(stops) if training.learner == "local_steps" else trainings.clipped_share


def clipped_updates(stops: Sequence[int]) -> Callable[[trainings.Start, np.ndarray], dict[str, pl.Series]]:
    """Return a function that makes the column of the share of updates clipped since the previous evaluation."""

    def columns(start: trainings.Start, sums: np.ndarray) -> dict[str, pl.Series]:
        rounds = np.diff(stops[: len(sums)], prepend=0)
        with np.errstate(invalid="ignore"):
            share = sums[:, 1].astype(float) / rounds
        return {"clipped_share": pl.Series(share).fill_nan(None)}

    return columns
