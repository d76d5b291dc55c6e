"""Stage noise: how much differential-privacy noise each user adds."""

from importlib import import_module

import polars as pl


def run(parameters: dict, scheme: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The tables `noise` and `noise_status`, from `users` and `schedule`."""
    return import_module(f"pwfl.noise.{parameters['system']}").run(parameters, scheme, tables)
