"""A stage that makes tables of tables: `schedule`, `noise`, `account`; and what the others share with it."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import polars as pl

from pwfl.runtime import threads
from pwfl.scenario.values import Values
from pwfl.stages import STAGES
from pwfl.systems import registry
from pwfl.tables import contract

Tables = dict[str, pl.DataFrame]


class Handed(dict):
    """The tables that a stage is handed; asking for another one says where it would be declared."""

    def __init__(self, stage: str, found: Tables):
        super().__init__(found)
        self.stage = stage

    def __missing__(self, table: str):
        """Raise KeyError for a table that the stage does not read."""
        raise KeyError(
            f"stage {self.stage} uses the table {table!r}, which it is not handed: it reads {', '.join(self)}; if "
            f"{table!r} is of an earlier stage, add it to `reads` in the system's catalog"
        )


def run(values: Values, stage: str, found: Tables, variant: str | None = None) -> Tables:
    """The tables of a stage, or of a variant of one, from those of earlier stages."""
    inputs = handed(values.system, stage, found, variant)
    arguments = (variant, inputs) if variant else (inputs,)
    with module(values.system, stage) as own:
        return checked(stage, own.run(values, *arguments))


@contextmanager
def module(system: str, name: str) -> Iterator[ModuleType]:
    """A module of a system, for work with one thread of BLAS in all libraries that it loads."""
    own = registry.system(system).part(name)
    with threads.one_of_blas():
        yield own


def handed(system: str, stage: str, found: Tables, variant: str | None = None) -> Handed:
    """The tables that a stage's variant reads by its catalog, in the order of their keys, whichever they came in."""
    wanted = registry.reads(system, stage, variant)
    return Handed(stage, {name: ordered(system, name, found) for name in wanted})


def ordered(system: str, name: str, found: Tables) -> pl.DataFrame:
    """A table in the order of its keys."""
    return contract.ordered(found[name], contract.schema(system, name), name)


def checked(stage: str, made: Tables) -> Tables:
    """What a stage returned. Raises TypeError where that is not its tables by name."""
    if not isinstance(made, dict) or set(made) != set(STAGES[stage].makes):
        found = sorted(made) if isinstance(made, dict) else type(made).__name__
        raise TypeError(f"stage {stage} must return a dict of the tables {STAGES[stage].makes}, returned {found}")
    return made
