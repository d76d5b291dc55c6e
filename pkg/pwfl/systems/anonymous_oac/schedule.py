"""Schedule of the system `anonymous_oac`: who takes part in a round, and with which batch."""

import polars as pl

from pwfl.systems.anonymous_oac import participation
from pwfl.systems.anonymous_oac.parameters import AnonymousOac


def run(scenario: AnonymousOac, scheduler: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Every device with a good channel takes part, with a binomial number of its records; see `participation`."""
    schedule = participation.batches(scenario, scheduler, tables)
    status = participation.counts(tables["users"], schedule, scenario.training.rounds)
    return {"schedule": schedule, "schedule_status": status.with_columns(status=pl.lit(scheduler))}
