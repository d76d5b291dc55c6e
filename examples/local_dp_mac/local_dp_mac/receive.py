"""Stage receive: each device's weight and noise in the server's update, and its visibility to the server."""

import polars as pl

from local_dp_mac.parameters import LocalDpMac
from local_dp_mac.tables import SERVER
from pwfl.airs import linear
from pwfl.airs.air import Observer
from pwfl.learning import features
from pwfl.tables.arrays import joined
from pwfl.training.models import network, parameter_count

OBSERVER = Observer("the server: all symbols of all rounds, through its receiver", SERVER)  # requires no trusted party


def run(scenario: LocalDpMac, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Make the tables `reception`, `reception_noise`, `visibility` and `observers`; each round is an interval.

    A device's message is the sum of its records' clipped gradients. It sends their mean, plus noise. A slot's output,
    divided by its amplitude, is the sum of the means sent in it, plus noise: of variance K sigma^2 + N0 / c^2 over the
    air, and sigma^2 + N0 / c_k^2 one after the other. The update is the mean over all devices.
    """
    round_, slot = ("realization", "round"), ("realization", "round", "slot")
    rows = joined(tables["schedule"], tables["noise"], *round_, "user")
    rows = joined(rows, tables["users"], "realization", "user").with_columns(
        first=pl.col("user") == pl.col("user").min().over(slot),
        slot_std=(pl.col("noise_std") ** 2).sum().over(slot).sqrt(),
    )
    received = (pl.col("slot_std") ** 2 + pl.col("receiver_std") ** 2).sqrt()
    rows = rows.with_columns(
        weight=1 / (pl.len().over(round_) * pl.col("samples")),
        user_noise_std=pl.col("noise_std") / pl.len().over(round_),
        update_noise_std=((received.filter("first") ** 2).sum().sqrt() / pl.len()).over(round_),
        visibility=1 / (pl.col("samples") * received),
        visibility_users_only=1 / (pl.col("samples") * pl.col("slot_std")),
    )
    size = parameter_count(network(scenario.training, features.size(scenario)))
    return linear.receive_slots(rows, size, {SERVER: OBSERVER})
