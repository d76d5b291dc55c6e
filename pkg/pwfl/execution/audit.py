"""The privacy audit: a system's tests of its training code, for each scheme, on a scenario's realizations."""

import polars as pl

from pwfl import errors, registry, tables
from pwfl.execution.stage import StageTables, Tables, Task, loaded, tables_read
from pwfl.privacy import audit
from pwfl.report.columns import with_terms
from pwfl.scenario.common import Scenario
from pwfl.scenario.values import name_release
from pwfl.stages import AUDIT


class AuditError(RuntimeError):
    """A scheme's audit could not run, so its training is not tested; the message contains the scheme and the reason."""


def run(values: Scenario, inputs: Tables) -> pl.DataFrame:
    """Make the table `audit` of a scenario, with its schemes' names in the first column, and terms of their guarantees.

    `inputs` are the stages' tables; those that depend on the scheme have its name in the column `scheme`. Raises
    AuditError if a scheme's tests fail to run.
    """
    task, read, frames = Task(AUDIT, values), registry.reads(values.system, AUDIT), []
    with loaded(task) as verdicts:
        for scheme in values.schemes:
            scheme_tables = {name: _select_scheme(inputs[name], scheme.name, values.realizations) for name in read}
            scheme_inputs = StageTables(AUDIT, tables_read(task, scheme_tables))
            released = name_release(values, f"audit of {scheme.scheduler}/{scheme.noise}")
            try:
                made = audit.table(verdicts(released, scheme_inputs))
            except Exception as error:
                raise AuditError(f"{scheme.name}: the audit could not run: {errors.message(error)}") from error
            named = [tables.finished(made, AUDIT, values.system), scheme_inputs["outcome"]]
            frames.append(with_terms(*(frame.select(pl.lit(scheme.name).alias("scheme"), pl.all()) for frame in named)))
    return pl.concat(frames)


def _select_scheme(frame: pl.DataFrame, scheme: str, realizations: int) -> pl.DataFrame:
    """Select the rows of a scheme and of the first `realizations`, without the scheme's name."""
    asked = frame.filter(pl.col("realization") < realizations)
    return asked.filter(scheme=scheme).drop("scheme") if "scheme" in frame.columns else asked
