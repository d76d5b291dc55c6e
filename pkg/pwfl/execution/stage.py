"""The stages `schedule`, `noise`, `receive` and `account`, which make tables from tables; functions for all stages."""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

import polars as pl

from pwfl import registry
from pwfl.process import threads
from pwfl.process.devices import CPU
from pwfl.tables import contract

Tables = dict[str, pl.DataFrame]


class Task(NamedTuple):
    """The task of a stage: its parameters, its variant and its realizations."""

    stage: str
    values: Any  # an object of the system's model (`pwfl.scenario.values.build_values`), or Values without a system
    variant: str | None = None
    realizations: range | None = None  # None: those of the tables that it reads
    chunks: Mapping[range, Callable[["Tables"], None]] = MappingProxyType({})  # functions that save a chunk's tables
    device: str = CPU  # for training (`pwfl.process.devices`)

    @property
    def span(self) -> range:
        """Its realizations, for a stage that requires them. Raises ValueError if they are None."""
        if self.realizations is None:
            raise ValueError(f"stage {self.stage} needs to be told its realizations")
        return self.realizations


class StageTables(dict):
    """The input tables of a stage; the error for another table names the place to declare it."""

    def __init__(self, stage: str, tables: Tables):
        super().__init__(tables)
        self.stage = stage

    def __missing__(self, table: str):
        raise KeyError(
            f"stage {self.stage} uses the table {table!r}, which is not among its inputs: {', '.join(self)}; if an "
            f"earlier stage writes {table!r}, add it to what the stage reads in the system's object"
        )


def run(task: Task, tables: Tables) -> Tables:
    """Make the tables of a stage, or of a variant of one, from those of earlier stages."""
    variant = [task.variant] if task.variant else []
    with loaded(task) as run_stage:
        return checked(task, run_stage(task.values, *variant, tables_read(task, tables)))


@contextmanager
def loaded(task: Task) -> Generator[Any]:
    """Load the function of a task's system, and limit BLAS to one thread in the block, in all loaded libraries."""
    function = registry.function(task.values.system, task.stage)
    with threads.one_of_blas():
        yield function


def tables_read(task: Task, tables: Mapping) -> StageTables:
    """Select the tables that a stage's variant reads, with rows sorted by their keys."""
    wanted = registry.reads(task.values.system, task.stage, task.variant)
    return StageTables(task.stage, {name: ordered(task, name, tables) for name in wanted})


def rows_of(frame: pl.DataFrame, realizations: range) -> pl.DataFrame:
    """Select the rows of some consecutive realizations."""
    return frame.filter(pl.col("realization").is_between(realizations.start, realizations.stop, closed="left"))


def ordered(task: Task, name: str, tables: Mapping) -> pl.DataFrame:
    """Sort a table's rows by its keys."""
    return contract.ordered(tables[name], contract.schema(task.values.system, name), name)


def checked(task: Task, made: Tables) -> Tables:
    """Check the result of a stage, and return it. Raises TypeError if it is not the stage's tables by name."""
    wanted = registry.makes(task.values.system, task.stage)
    if not isinstance(made, dict) or set(made) != set(wanted):
        returned = sorted(made) if isinstance(made, dict) else type(made).__name__
        raise TypeError(f"stage {task.stage} must return a dict of the tables {wanted}, returned {returned}")
    return made
