"""Run stages in this process, without a store, for `pwfl.simulate` and the conformance tests."""

from collections.abc import Mapping

import polars as pl

from pwfl import execution, tables
from pwfl.execution.stage import Task, rows_of
from pwfl.scenario.common import Scenario
from pwfl.scenario.values import build_values
from pwfl.workflow import plan


def in_memory(scenario: Scenario, description: dict, upstream: Mapping, realizations: range | None = None) -> dict:
    """Compute a stage's tables and arrays for a scenario, by name, as they would be read from files.

    `description` describes a stage of one of the scenario's routes (`pwfl.workflow.plan`). `upstream` contains the
    results of the stages before it, by name. The stage gets only rows of `realizations`; None: all rows.
    """
    inputs: dict = dict(plan.outside(scenario, description))
    for table in (table for made in plan.read(scenario, description).values() for table in made):
        data = upstream[table]
        inputs[table] = rows_of(data, realizations) if realizations and isinstance(data, pl.DataFrame) else data
    values, device = build_values(description["parameters"]), plan.device(scenario)
    task = Task(description["stage"], values, description["variant"], realizations, device=device)
    return {
        name: tables.finished(made, name, scenario.system) if isinstance(made, pl.DataFrame) else made
        for name, made in execution.execute(task, inputs).items()
    }
