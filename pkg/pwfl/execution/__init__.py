"""Execution of a stage without files: from the tables that it reads to the tables that it makes.

The system's function of a stage computes; this package loads it, and calls it with the tables that the system declares.
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

    `tables` contains the tables that it reads, which must cover the task's realizations, or paths of imported files.
    """
    work = _loaded(GRAPH[task.stage].work, task.stage, task.values)
    with devices.used(devices.ONLY_CPU):  # except training
        return work.run(task, tables)


def audit_schemes(values: Scenario, tables: Tables) -> pl.DataFrame:
    """Make the table `audit` of all schemes of a scenario, from the stages' tables (`pwfl.execution.audit`)."""
    work = _loaded("pwfl.execution.audit", AUDIT, values)
    with devices.used(devices.ONLY_CPU):
        return work.run(values, tables)


def _loaded(work: str, stage: str, values: Scenario) -> ModuleType:
    """Import the module `work`, and a system's module of a stage, if any, without TensorFlow's messages."""
    with tensorflow_import():
        if "system" in vars(values):
            registry.function(values.system, stage)
        return import_module(work)
