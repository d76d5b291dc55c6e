"""Schedulers of the system `utility_fair`: what each device can do in each round, and the benchmark's choice.

A device that maximizes its utility does so round by round, by what training tells it: `train` decides for it.
"""

import numpy as np
import polars as pl

from pwfl.systems.utility_fair import link
from pwfl.systems.utility_fair.parameters import UtilityFair
from pwfl.tables.arrays import joined

ENDS = {"utility": "chosen_in_training", "benchmark": "full_power"}


def run(scenario: UtilityFair, scheduler: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Limits (20), (21) of every device and round of the table `links`, and who decides.

    `scheduler` is `utility` (nulls, to be decided in training) or `benchmark` (full power, and as many
    iterations as fit). A device that saves effort transmits at P_min, whatever the scheduler. A device that cannot do
    the least number of iterations sits the round out.
    """
    limits = link.limits(scenario.radio, scenario.device)
    links, users = tables["links"], tables["users"].select("realization", "device", "path_loss_db")
    unit = link.unit_power_w(links["gain"].to_numpy(), scenario.radio)
    z = link.log_snr(limits.max_power_w, unit)
    takes_part = z >= link.least_z(limits)
    saves = pl.col("device") < scenario.network.savers
    with np.errstate(over="ignore", divide="ignore"):
        least = link.power_w(link.least_z(limits), unit)
        chosen = np.nan if scheduler == "utility" else limits.max_power_w
        power = np.where(takes_part, np.where(links.select(saves).to_series(), least, chosen), 0.0)
        decided, iterations = takes_part & ~np.isnan(power), np.where(takes_part, np.nan, 0.0)
        sent_at = link.log_snr(power[decided], unit[decided])
        iterations[decided] = link.whole(link.iterations(sent_at, limits))
        schedule = links.select("realization", "round", "device").with_columns(
            unit_power_w=unit,
            min_power_w=least,
            max_iterations=link.whole(np.maximum(link.iterations(z, limits), 0)),
            takes_part=takes_part,
            power_w=pl.Series(power, nan_to_null=True),
            iterations=pl.Series(iterations, nan_to_null=True),
        )
    sits_out = ~pl.col("takes_part")
    devices = schedule.group_by("realization", "device", maintain_order=True)
    status = joined(users, devices.agg(rounds_out=sits_out.sum(), always=sits_out.all()), "realization", "device")
    ended = pl.when("always").then(pl.lit("always_out")).when(saves).then(pl.lit("least_effort"))
    ended = ended.otherwise(pl.lit(ENDS[scheduler]))
    return {"schedule": schedule, "schedule_status": status.with_columns(status=ended)}
