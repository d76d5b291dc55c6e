"""Stage schedule: who transmits, on what, with which power."""

from importlib import import_module

import polars as pl


def run(parameters: dict, scheduler: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The tables `schedule` and `schedule_status`, from `users` and `links`."""
    return import_module(f"pwfl.schedule.{parameters['system']}").run(parameters, scheduler, tables)
