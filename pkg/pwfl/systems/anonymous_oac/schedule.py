"""Schedule of the system `anonymous_oac`: who takes part in a round, and with which batch."""

from typing import TYPE_CHECKING

import polars as pl

from pwfl.systems.anonymous_oac import participation

if TYPE_CHECKING:
    from pwfl.systems.anonymous_oac.parameters import AnonymousOac


def run(scenario: "AnonymousOac", scheduler: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Every device with a good channel takes part, with a binomial number of its records.

    `scheduler` is `over_the_air`: all at once, or `orthogonal`: one after the other.
    """
    schedule = participation.batches(scenario, scheduler, tables)
    status = _status(tables["users"], schedule, scheduler, scenario.training.rounds)
    return {"schedule": schedule, "schedule_status": status}


def _status(users: pl.DataFrame, schedule: pl.DataFrame, scheduler: str, rounds: int) -> pl.DataFrame:
    counts = schedule.group_by("realization", maintain_order=True).agg(
        participants=pl.len() / rounds,
        records=pl.col("batch").sum() / rounds,
        filled=pl.col("round").filter(pl.col("batch") > 0).n_unique(),
    )
    return (
        users.select("realization")
        .unique(maintain_order=True)
        .join(counts, on="realization", how="left", maintain_order="left")
        .with_columns(
            pl.col("participants", "records", "filled").fill_null(0), status=pl.lit(scheduler), rounds=pl.lit(rounds)
        )
        .with_columns(empty_rounds=rounds - pl.col("filled").cast(pl.Int64))
    )
