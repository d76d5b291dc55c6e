"""Scheduler of the system `random_orthogonalization`: all users transmit in every round."""

import polars as pl

from pwfl.systems.random_orthogonalization.parameters import RandomOrthogonalization


def run(scenario: RandomOrthogonalization, scheduler: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Every user's amplitude in every round, the same for all, as nobody knows its channel (2); links come along."""
    users = tables["users"].group_by("realization", maintain_order=True)
    links = tables["links"].filter(users=tables["users"]["user"].max() + 1).drop("users")
    return {
        "schedule": links.with_columns(amplitude=pl.lit(scenario.radio.amplitude)),
        "schedule_status": users.agg(status=pl.lit(scheduler), transmitting=pl.len()),
    }
