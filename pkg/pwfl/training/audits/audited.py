"""What is audited: a system's training, of data and tables of the audit's own."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from pwfl.learning import datasets
from pwfl.scenario.values import value_of
from pwfl.training import trainings

TESTED = 16  # records that lively data have to evaluate a model on
FEW = 3  # records that a user holds at most, of the audit's own: more take longer, and move messages no further
BATCHES = 3  # mini-batches at least of what a user holds, so that few records are in each


@dataclass(frozen=True)
class Audited:
    """A system's training: of a scenario, by its `parts`, its tables, and records of a size.

    `receiver`: the server's update may have more noise in it than users add. `few`: users hold FEW records, unless
    tables say of how many messages are; not of learners by which a message depends on how many there are.
    """

    parts: Callable[..., trainings.Parts]
    scenario: Any
    tables: dict[str, pl.DataFrame]
    size: datasets.Size
    receiver: bool = True
    few: bool = False

    def training(self, data: datasets.Dataset, compiled: bool = False) -> trainings.Training:
        """That of some data, which users hold one after the other."""
        parts = self.parts(self.scenario, data, self.audited_tables, compiled)
        return trainings.training(parts, self.scenario, data, self.audited_tables, compiled, in_turn)

    def untested(self, used: trainings.Training) -> str | None:
        """Why what trains cannot be tested, as the table `audit` calls it; None: it can."""
        model = getattr(used.parts.learner, "model", None)  # which those of softmax regression alone do not have
        return model.untested() if model else None

    @cached_property
    def audited_tables(self) -> dict[str, pl.DataFrame]:
        """The tables; of users who hold few records, if so few do."""
        if not self.few or self.tables["reception"]["records"].is_not_null().any():
            return self.tables
        most = max(FEW, BATCHES * (value_of(self.scenario, "training.batch_size") or 0))
        users = self.tables["users"].with_columns(pl.col("samples").clip(upper_bound=most))
        return self.tables | {"users": users}

    @cached_property
    def records(self) -> int:
        """How many the users of a realization have at most."""
        return (
            self.audited_tables["users"].group_by("realization").agg(pl.sum("samples")).select(pl.max("samples")).item()
        )


def in_turn(samples: np.ndarray, realization: int) -> list[np.ndarray]:
    """Records of users, one user after the other."""
    return np.split(np.arange(samples.sum()), samples.cumsum())[:-1]


def random_data(size: datasets.Size, records: int, generator: np.random.Generator) -> datasets.Dataset:
    """Data of which there are gradients."""
    x = generator.random((records + TESTED, size.features), np.float32)
    y = generator.integers(size.classes, size=records + TESTED).astype(np.int32)
    return datasets.Dataset(x[:records], y[:records], x[records:], y[records:])


def blank(size: datasets.Size, records: int) -> datasets.Dataset:
    """Data of zeros, all of the first class."""
    x = np.zeros((records, size.features), np.float32)
    return datasets.Dataset(x, np.zeros(records, np.int32), x[:1], np.zeros(1, np.int32))
