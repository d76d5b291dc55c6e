"""A system's tests of its code, of each scheme, on the realizations that are asked for."""

import polars as pl

from pwfl import tables
from pwfl.privacy import audit
from pwfl.report.columns import with_terms
from pwfl.scenario.values import Values, of_scheme
from pwfl.stages import AUDIT
from pwfl.work.stage import StageTables, Tables, Task, module, tables_read


def run(values: Values, found: Tables) -> pl.DataFrame:
    """The table `audit` of a scenario, with its schemes' names in the first column, and terms of their guarantees.

    `found` are the stages' tables: those that differ from scheme to scheme have its name in the column `scheme`.
    """
    task, frames = Task(AUDIT, values), []
    with module(task) as own:
        for scheme in values.schemes:
            inputs = StageTables(AUDIT, tables_read(task, _of_scheme(found, scheme.name, values.realizations)))
            made = audit.table(own.verdicts(of_scheme(values, scheme), inputs))
            named = [tables.finished(made, AUDIT, values.system), inputs["outcome"]]
            frames.append(with_terms(*(each.select(pl.lit(scheme.name).alias("scheme"), pl.all()) for each in named)))
    return pl.concat(frames)


def _of_scheme(found: Tables, scheme: str, realizations: int) -> Tables:
    """The rows of a scheme and of so many realizations, in tables without the scheme's name."""
    own = {}
    for name, frame in found.items():
        asked = frame.filter(pl.col("realization") < realizations)
        own[name] = asked.filter(scheme=scheme).drop("scheme") if "scheme" in frame.columns else asked
    return own
