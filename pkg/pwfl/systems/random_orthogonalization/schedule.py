"""Scheduler of the system `random_orthogonalization`: all users transmit in every round."""

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from pwfl.systems.random_orthogonalization.parameters import RandomOrthogonalization


def run(
    scenario: "RandomOrthogonalization", scheduler: str, tables: dict[str, pl.DataFrame]
) -> dict[str, pl.DataFrame]:
    """Every user's amplitude in every round.

    Users do not know their channels, so all use the same alpha (2); the links come along for the stages after this one.
    """
    users = tables["users"].group_by("realization", maintain_order=True)
    return {
        "schedule": tables["links"].with_columns(amplitude=pl.lit(scenario.radio.amplitude)),
        "schedule_status": users.agg(status=pl.lit(scheduler), transmitting=pl.len()),
    }
