"""Stage account: the privacy each user is left with."""

from importlib import import_module

import polars as pl


def run(parameters: dict, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The tables `leakage` and `outcome`, from `users`, `schedule` and `noise`."""
    return import_module(f"pwfl.account.{parameters['system']}").run(parameters, tables)
