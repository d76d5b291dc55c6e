"""Schedulers of the system `utility_fair`: what each device can do in each round, and the benchmark's choice.

A device that maximizes its utility does so round by round, by what training tells it: `train` decides for it.
"""

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from pwfl.systems.utility_fair import link
from pwfl.tables.arrays import beside

if TYPE_CHECKING:
    from pwfl.systems.utility_fair.parameters import UtilityFair

ENDS = {"utility": "chosen_in_training", "benchmark": "full_power"}


def run(scenario: "UtilityFair", scheduler: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Limits (20), (21) of every device and round of the table `links`, and who decides.

    `scheduler` is `utility` (nulls, to be decided in training) or `benchmark` (full power, and as many
    iterations as fit). A device that cannot do the least number of iterations sits the round out.
    """
    limits = link.limits(scenario.radio, scenario.device)
    links = tables["links"]
    unit = link.unit_power_w(links["gain"].to_numpy(), scenario.radio)
    z = link.log_snr(limits.max_power_w, unit)
    with np.errstate(over="ignore", divide="ignore"):
        least_power = link.power_w(link.least_z(limits), unit)
        most = link.whole(np.maximum(link.iterations(z, limits), 0))
    takes_part = z >= link.least_z(limits)
    power = np.where(takes_part, limits.max_power_w, 0.0)
    chosen_later = takes_part & (scheduler == "utility")

    schedule = links.select("realization", "round", "device").with_columns(
        unit_power_w=pl.Series(unit),
        min_power_w=pl.Series(least_power),
        max_iterations=pl.Series(most),
        takes_part=pl.Series(takes_part),
        power_w=pl.Series(np.where(chosen_later, np.nan, power), nan_to_null=True),
    )
    out = schedule.group_by("realization", "device", maintain_order=True).agg(
        rounds_out=(~pl.col("takes_part")).sum(), always=(~pl.col("takes_part")).all()
    )
    status = (
        tables["users"]
        .select("realization", "device", "path_loss_db")
        .pipe(beside, out, "realization", "device")
        .with_columns(status=pl.when("always").then(pl.lit("always_out")).otherwise(pl.lit(ENDS[scheduler])))
    )
    return {"schedule": schedule, "schedule_status": status}
