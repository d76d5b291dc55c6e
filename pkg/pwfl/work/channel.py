"""The stage `channel`."""

import polars as pl

from pwfl.work.stage import Tables, Task, checked, module


def run(task: Task, found: Tables) -> Tables:
    """The tables `users` and `links`; made of tables from outside where there are any, which may hold more."""
    realizations = task.realizations
    asked = pl.col("realization").is_between(realizations.start, realizations.stop, closed="left")
    outside = [{name: frame.filter(asked) for name, frame in found.items()}] if found else []
    with module(task) as own:
        return checked(task, own.run(task.values, realizations, *outside))
