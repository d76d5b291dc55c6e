"""The stage `audit`: a system's tests of its code, on the realizations that are asked for."""

import polars as pl

from pwfl.privacy import audit
from pwfl.work.stage import StageTables, Tables, Task, module, tables_read


def run(task: Task, found: Tables) -> Tables:
    """The table `audit`, from tables of the earlier stages, which may hold more realizations."""
    asked = pl.col("realization") < task.values.realizations
    inputs = StageTables(task.stage, {name: frame.filter(asked) for name, frame in tables_read(task, found).items()})
    with module(task) as own:
        return {"audit": audit.table(own.verdicts(task.values, inputs))}
