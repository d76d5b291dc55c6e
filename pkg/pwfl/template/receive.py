"""Stage receive: what the server's update takes of each device, and what it sees of each."""

import polars as pl

from pwfl.learning import features
from pwfl.tables.arrays import joined
from pwfl.template.tables import SERVER
from pwfl.training.models import network, parameter_count

KEYS = ("realization", "interval", "user")


def run(scenario, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The tables `reception`, `reception_noise` and `visibility`; each round is an interval.

    A device's message is the sum of its records' clipped gradients, and its noise that of their mean; the server takes
    the mean of the means that are sent.
    """
    rounds = ("realization", "interval")
    schedule = tables["schedule"].rename({"round": "interval"}).with_columns(pl.col("interval") - 1)
    each = joined(joined(schedule, tables["users"], "realization", "user"), tables["noise"], "realization", "user")
    sent = each.filter("sends").with_columns(share=1 / pl.len().over(rounds))
    reception = sent.select(
        *KEYS,
        weight=pl.col("share") / pl.col("samples"),
        user_noise_std=pl.col("share") * pl.col("noise_std"),
        records=pl.lit(None, pl.Int64),  # all
        group=pl.lit(None, pl.Int64),  # no integers
        grid_step=pl.lit(None, pl.Float64),
    )
    noise = each.group_by(rounds, maintain_order=True).agg(
        rounds=pl.lit(1, pl.Int64),
        update_noise_std=(pl.col("noise_std").filter("sends") ** 2).sum().sqrt() / pl.col("sends").sum(),
        planned_senders=pl.col("sends").sum().cast(pl.Int64),
    )
    size = parameter_count(network(scenario.training, features.size(scenario)))
    noise = noise.with_columns(
        planned_noise_std="update_noise_std",
        symbols=pl.col("planned_senders").cast(pl.Float64) * size,
        seconds=pl.lit(None, pl.Float64),  # no bandwidth
        joules=pl.lit(None, pl.Float64),  # no power
    )
    seen = 1 / (pl.col("samples") * pl.col("noise_std"))
    visibility = sent.select(
        *KEYS, rounds=pl.lit(1, pl.Int64), observer=pl.lit(SERVER), visibility=seen, visibility_users_only=seen
    )
    return {"reception": reception, "reception_noise": noise, "visibility": visibility}
