"""What is audited: a system's training, with data of the audit's own."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from pwfl.learning import datasets
from pwfl.scenario.values import replaced, value_of
from pwfl.training import local_sgd, trainings

TESTED = 16  # test records of `random_data`
FEW = 3  # records per user, at most: more would take longer, and move messages no further
BATCHES = 3  # mini-batches that a user's records make at least
STEPS = 3  # local steps of a network, at most, where losses are compared


@dataclass(frozen=True)
class Audited:
    """A system's training of a scenario, and what the audit needs to know of it.

    Attributes
    ----------
    parts
        `parts(scenario, data, tables, compiled)` returns the system's `trainings.Parts`.
    scenario
        The scenario.
    tables
        By name; `users`, `reception` and `reception_noise` are used.
    size
        Number of features and classes of a record.
    receiver
        Whether the update may have more noise than users add, as a receiver's.
    few
        Whether the audit may give each user only FEW records, which is faster: not if the size of a message depends on
        their number. Has no effect if `reception` has numbers of sampled records.
    """

    parts: Callable[..., trainings.Parts]
    scenario: Any
    tables: dict[str, pl.DataFrame]
    size: datasets.Size
    receiver: bool = True
    few: bool = False

    def training(self, data: datasets.Dataset, compiled: bool = False) -> trainings.Training:
        """Build the training on `data`, whose records users hold one user after the other."""
        parts = self.parts(self.scenario, data, self.audited_tables, compiled)
        return trainings.training(parts, self.scenario, data, self.audited_tables, compiled, in_turn)

    def untested(self, used: trainings.Training) -> str | None:
        """Return why the training's model cannot be tested (column `reason` of `audit`); None: it can."""
        model = getattr(used.parts.learner, "model", None)  # `LocalSgd` of softmax regression has none
        return model.untested() if model else None

    @cached_property
    def of_few_steps(self) -> "Audited":
        """The same with at most STEPS local steps, if they are a network's.

        Two graphs of one training may round differently, and many local steps of a network turn a last bit into
        percents of the loss: a maximum that is nearly a tie suffices.
        """
        steps = value_of(self.scenario, "training.local_steps")  # the name in every system with such a learner
        if steps is None or steps <= STEPS:
            return self
        learner = self.training(blank(self.size, self.records)).parts.learner
        if not isinstance(getattr(learner, "learner", learner), local_sgd.ModelLocalSgd):  # within a `bands.ByBand`
            return self
        return replace(self, scenario=replaced(self.scenario, "training.local_steps", STEPS))

    @cached_property
    def audited_tables(self) -> dict[str, pl.DataFrame]:
        """The tables, with fewer records per user if `few`."""
        if not self.few or self.tables["reception"]["records"].is_not_null().any():
            return self.tables
        most = max(FEW, BATCHES * (value_of(self.scenario, "training.batch_size") or 0))
        users = self.tables["users"].with_columns(pl.col("samples").clip(upper_bound=most))
        return self.tables | {"users": users}

    @cached_property
    def records(self) -> int:
        """The largest number of records, over realizations, that all users of a realization hold together."""
        return (
            self.audited_tables["users"].group_by("realization").agg(pl.sum("samples")).select(pl.max("samples")).item()
        )


def in_turn(samples: np.ndarray, realization: int) -> list[np.ndarray]:
    """Assign records 0, 1, 2 ... to users, one user after the other; `samples`, shape (user,): how many each holds."""
    return np.split(np.arange(samples.sum()), samples.cumsum())[:-1]


def random_data(size: datasets.Size, records: int, generator: np.random.Generator) -> datasets.Dataset:
    """Draw `records` training records and TESTED test records with uniform features in [0, 1) and uniform classes."""
    x = generator.random((records + TESTED, size.features), np.float32)
    y = generator.integers(size.classes, size=records + TESTED).astype(np.int32)
    return datasets.Dataset(x[:records], y[:records], x[records:], y[records:])


def blank(size: datasets.Size, records: int) -> datasets.Dataset:
    """Make data of `records` training records and one test record whose features and classes are all zero."""
    x = np.zeros((records, size.features), np.float32)
    return datasets.Dataset(x, np.zeros(records, np.int32), x[:1], np.zeros(1, np.int32))
