"""What the server receives in each slot, and the mean gradient that it makes of it."""

import polars as pl

from pwfl.tables.arrays import joined


def received(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """`schedule` with `received_std`, the standard deviation of all noise in what the server gets in a device's slot.

    It is that of the sum of gradients, what is received over its amplitude, for each coordinate: that of variance
    K sigma^2 + N0 / c^2 over the air, where all share a slot, and sigma^2 + N0 / c_k^2 one after the other.
    """
    keys = ("realization", "round", "user")
    both = joined(tables["schedule"], tables["noise"], *keys).sort(keys)
    devices = (pl.col("noise_std") ** 2).sum().over("realization", "round", "slot")
    return both.with_columns(received_std=(devices + pl.col("receiver_std") ** 2).sqrt())


def mean_std(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Columns realization, round and `mean_std`, the noise in each coordinate of the server's mean gradient.

    The server adds up what it gets in the slots and divides by the number K of devices.
    """
    rounds = received(tables).group_by("realization", "round", maintain_order=True)
    slots = pl.col("received_std").filter(pl.col("slot").is_first_distinct())
    return rounds.agg(mean_std=(slots**2).sum().sqrt() / pl.len())
