"""A stage's work, without files: of one job, and of all stages of a scenario in this process."""

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType

import polars as pl

from pwfl import tables
from pwfl.runtime import devices
from pwfl.runtime.quiet import quiet_tensorflow
from pwfl.scenario.common import Scenario
from pwfl.scenario.values import Values
from pwfl.stages import AUDIT, GRAPH
from pwfl.systems import registry
from pwfl.work.stage import Tables, Task, rows_of
from pwfl.workflow import plan


def execute(task: Task, found: Mapping) -> dict:
    """What a stage makes, by name: tables, or arrays of the stages before the channel.

    Of what it reads, by name, of at least the task's realizations, or of paths of files from outside. This module
    stands in no address, so nothing that it does may change a table.
    """
    work = _loaded(GRAPH[task.stage].work, task.stage, task.values)
    with devices.used(devices.ONLY_CPU):  # but what trains
        return work.run(task, found)


def in_memory(scenario: Scenario, description: dict, found: Mapping, realizations: range | None = None) -> dict:
    """What a stage makes of a scenario, as it comes back from files.

    The stage is that of a description of a route of the scenario (`pwfl.workflow.plan`); `found` is what the stages
    before it made, by name. It gets the rows of the realizations; None: all.
    """
    inputs: dict = dict(plan.outside(scenario, description))
    for table in (table for made in plan.read(scenario, description).values() for table in made):
        held = found[table]
        inputs[table] = rows_of(held, realizations) if realizations and isinstance(held, pl.DataFrame) else held
    values, device = Values(description["parameters"]), plan.device(scenario)
    task = Task(description["stage"], values, description["variant"], realizations, device=device)
    return {
        name: tables.finished(made, name, scenario.system) if isinstance(made, pl.DataFrame) else made
        for name, made in execute(task, inputs).items()
    }


def audit(values: Values, found: Tables) -> pl.DataFrame:
    """The table `audit` of all schemes of a scenario, from the stages' tables (`pwfl.work.audit`)."""
    work = _loaded("pwfl.work.audit", AUDIT, values)
    with devices.used(devices.ONLY_CPU):
        return work.run(values, found)


def _loaded(work: str, stage: str, values: Values) -> ModuleType:
    """The module `work`, once it and a system's module of a stage, if any, are imported without TensorFlow's noise."""
    with quiet_tensorflow():
        if "system" in vars(values):
            registry.system(values.system).part(stage)
        return import_module(work)
