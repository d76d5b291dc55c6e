"""A stage that makes tables of tables: `schedule`, `noise`, `account`; and what the others share with it."""

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
    """What a stage is to make: of which parameters, of which variant, of which realizations."""

    stage: str
    values: (
        Any  # an object of the system's model (`pwfl.scenario.values.build_values`), or Values where there is no system
    )
    variant: str | None = None
    realizations: range | None = None  # None: those of the tables that it reads
    chunks: Mapping[range, Callable[["Tables"], None]] = MappingProxyType({})  # what saves a chunk's tables, once made
    device: str = CPU  # `pwfl.process.devices`: on which it trains

    @property
    def span(self) -> range:
        """Its realizations, of a stage that is always told them. Raises ValueError where it is not."""
        if self.realizations is None:
            raise ValueError(f"stage {self.stage} needs to be told its realizations")
        return self.realizations


class StageTables(dict):
    """The tables that a stage is given; asking for another one says where it would be declared."""

    def __init__(self, stage: str, tables: Tables):
        super().__init__(tables)
        self.stage = stage

    def __missing__(self, table: str):
        raise KeyError(
            f"stage {self.stage} uses the table {table!r}, which is not among its inputs: {', '.join(self)}; if an "
            f"earlier stage writes {table!r}, add it to what the stage reads in the system's object"
        )


def run(task: Task, tables: Tables) -> Tables:
    """The tables of a stage, or of a variant of one, from those of earlier stages."""
    variant = [task.variant] if task.variant else []
    with loaded(task) as run_stage:
        return checked(task, run_stage(task.values, *variant, tables_read(task, tables)))


@contextmanager
def loaded(task: Task) -> Generator[Any]:
    """What a task runs of its system, for work with one thread of BLAS in all libraries that it loads."""
    function = registry.function(task.values.system, task.stage)
    with threads.one_of_blas():
        yield function


def tables_read(task: Task, tables: Mapping) -> StageTables:
    """The tables that a stage's variant reads, in the order of their keys, whichever they came in."""
    wanted = registry.reads(task.values.system, task.stage, task.variant)
    return StageTables(task.stage, {name: ordered(task, name, tables) for name in wanted})


def rows_of(frame: pl.DataFrame, realizations: range) -> pl.DataFrame:
    """The rows of some consecutive realizations."""
    return frame.filter(pl.col("realization").is_between(realizations.start, realizations.stop, closed="left"))


def ordered(task: Task, name: str, tables: Mapping) -> pl.DataFrame:
    """A table in the order of its keys."""
    return contract.ordered(tables[name], contract.schema(task.values.system, name), name)


def checked(task: Task, made: Tables) -> Tables:
    """What a stage returned. Raises TypeError where that is not its tables by name."""
    wanted = registry.makes(task.values.system, task.stage)
    if not isinstance(made, dict) or set(made) != set(wanted):
        returned = sorted(made) if isinstance(made, dict) else type(made).__name__
        raise TypeError(f"stage {task.stage} must return a dict of the tables {wanted}, returned {returned}")
    return made
