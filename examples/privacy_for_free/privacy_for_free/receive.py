"""Stage receive: each device's weight in the server's update, and its visibility to the server."""

import polars as pl

from privacy_for_free.parameters import PrivacyForFree
from privacy_for_free.tables import SERVER
from pwfl.airs import linear
from pwfl.airs.air import Observer
from pwfl.tables.arrays import joined

OBSERVER = Observer("the server, honest but curious: all outputs of its receiver in all rounds", SERVER)


def run(scenario: PrivacyForFree, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Make the tables `reception`, `reception_noise`, `visibility` and `observers`; each round is an interval.

    A slot's output, divided by its amplitude, is the sum of the messages sent in it, plus noise. The update is the sum
    over slots, divided by the number of records.
    """
    round_, slot = ("realization", "round"), ("realization", "round", "slot")
    rows = joined(tables["schedule"], tables["noise"], *round_, "user")
    rows = joined(rows, tables["users"], "realization", "user").with_columns(
        total=pl.col("samples").sum().over(round_),
        first=pl.col("user") == pl.col("user").min().over(slot),
    )
    slots_std = (pl.col("receiver_noise_std").filter("first") ** 2).sum().sqrt()
    rows = rows.with_columns(
        weight=1 / pl.col("total"),
        user_noise_std=pl.lit(0.0),
        update_noise_std=(slots_std / pl.col("total").first()).over(round_),
        visibility=1 / pl.col("receiver_noise_std"),
        visibility_users_only=pl.lit(float("inf")),
    )
    return linear.receive_slots(rows, scenario.task.dimension, {SERVER: OBSERVER})
