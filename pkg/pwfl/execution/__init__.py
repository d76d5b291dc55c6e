"""A stage's work, without files: what it makes of what it reads.

A system's module of a stage computes; here it is found, and called with the tables that it declares.
"""

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType

import polars as pl

from pwfl import registry
from pwfl.execution.stage import Tables, Task
from pwfl.process import devices
from pwfl.process.tensorflow_import import tensorflow_import
from pwfl.scenario.common import Scenario
from pwfl.stages import AUDIT, GRAPH


def execute(task: Task, tables: Mapping) -> dict:
    """Run a stage, and return its tables, or arrays of the stages before the channel, by name.

    `tables` holds the tables that it reads, which must cover the task's realizations, or paths of files from outside.
    """
    work = _loaded(GRAPH[task.stage].work, task.stage, task.values)
    with devices.used(devices.ONLY_CPU):  # but what trains
        return work.run(task, tables)


def audit_schemes(values: Scenario, tables: Tables) -> pl.DataFrame:
    """The table `audit` of all schemes of a scenario, from the stages' tables (`pwfl.execution.audit`)."""
    work = _loaded("pwfl.execution.audit", AUDIT, values)
    with devices.used(devices.ONLY_CPU):
        return work.run(values, tables)


def _loaded(work: str, stage: str, values: Scenario) -> ModuleType:
    """The module `work`, once it and a system's module of a stage, if any, are imported without TensorFlow's noise."""
    with tensorflow_import():
        if "system" in vars(values):
            registry.function(values.system, stage)
        return import_module(work)
