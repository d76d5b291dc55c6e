"""Stage receive: each device's weight in the server's update, and what the server sees of it."""

import polars as pl

from privacy_for_free.parameters import PrivacyForFree
from privacy_for_free.tables import SERVER
from pwfl.airs import air
from pwfl.airs.air import Observer
from pwfl.tables.arrays import joined
from pwfl.tables.reception import EMPTY

KEYS = ("realization", "interval", "user")
OBSERVER = Observer("the server, honest but curious: all outputs of its receiver in all rounds", SERVER)


def run(scenario: PrivacyForFree, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The tables `reception`, `reception_noise`, `visibility` and `observers`; each round is an interval.

    The output of a slot, over its amplitude, is the sum of the messages sent in it plus noise. The update is the sum
    over slots, divided by the number of records.
    """
    round_, slot = ("realization", "round"), ("realization", "round", "slot")
    each = joined(tables["schedule"], tables["noise"], *round_, "user")
    each = joined(each, tables["users"], "realization", "user").with_columns(
        interval=pl.col("round"),
        total=pl.col("samples").sum().over(round_),
        first=pl.col("user") == pl.col("user").min().over(slot),
    )
    update_std = (pl.col("receiver_noise_std").filter("first") ** 2).sum().sqrt() / pl.col("total").first()
    return {
        "reception": each.select(
            *KEYS,
            weight=1 / pl.col("total"),
            user_noise_std=pl.lit(0.0),
            **EMPTY,
        ),
        "reception_noise": each.group_by(KEYS[:2], maintain_order=True).agg(
            rounds=pl.lit(1, pl.Int64),
            update_noise_std=update_std,
            planned_noise_std=update_std,
            planned_senders=pl.len().cast(pl.Int64),
            symbols=pl.col("first").sum().cast(pl.Float64) * scenario.task.dimension,
            seconds=pl.lit(None, pl.Float64),  # no bandwidth
            joules=pl.lit(None, pl.Float64),  # powers without a unit
        ),
        "visibility": each.select(
            *KEYS,
            rounds=pl.lit(1, pl.Int64),
            observer=pl.lit(SERVER),
            visibility=1 / pl.col("receiver_noise_std"),
            visibility_users_only=pl.lit(float("inf")),
        ),
        "observers": air.table({SERVER: OBSERVER}, each["realization"].unique().sort()),
    }
