"""Schedule of the system `anonymous_oac`: participants of each round, and the sizes of their batches."""

import polars as pl

from pwfl.process import user_code
from pwfl.systems.anonymous_oac import participation
from pwfl.systems.anonymous_oac.parameters import AnonymousOac


def run(scenario: AnonymousOac, scheduler: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Make the tables `schedule` and `schedule_status`, by channels or a user-defined function; see `participation`."""
    schedule = participation.batches(scenario, scheduler, tables)
    ended = "own" if user_code.is_reference(scheduler) else scheduler
    status = participation.counts(tables["users"], schedule, scenario.training.rounds)
    return {"schedule": schedule, "schedule_status": status.with_columns(status=pl.lit(ended))}
