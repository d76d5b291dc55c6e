"""Stage train: federated rounds, accuracy and loss."""

from importlib import import_module

import polars as pl

from pwfl import datasets


def run(
    parameters: dict, data: datasets.Dataset, realizations: range, tables: dict[str, pl.DataFrame]
) -> dict[str, pl.DataFrame]:
    """The table `history` of some realizations, which `users`, `schedule` and `noise` must cover."""
    return import_module(f"pwfl.train.{parameters['system']}").run(parameters, data, realizations, tables)
