"""Stage channel: where users are, what links and data they have."""

from importlib import import_module

import polars as pl


def run(parameters: dict, realizations: range) -> dict[str, pl.DataFrame]:
    """The tables `users` and `links` of some consecutive realizations."""
    return import_module(f"pwfl.channel.{parameters['system']}").run(parameters, realizations)
