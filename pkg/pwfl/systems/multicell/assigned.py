"""Table of the schedule and noise of each user, as reception and accounting use it."""

import polars as pl

from pwfl.tables.arrays import joined

KEYS = ("realization", "interval", "user")


def assigned(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Join `users`, `schedule` and `noise` into users with their samples, whether they send, and their noise.

    Columns: realization, interval, user, samples, cell, noise_std (null if none is feasible), scheduled. A user with
    a resource block, but infinite noise, has no leakage to spend; it counts as not scheduled, with noise 0.
    """
    schedule = tables["schedule"].select(*KEYS, scheduled=pl.col("resource_block").is_not_null())
    with_noise = joined(schedule, tables["noise"].select(*KEYS, "noise_std"), *KEYS)
    with_both = joined(
        with_noise, tables["users"].select("realization", "user", "samples", "cell"), "realization", "user"
    )
    silent = pl.col("noise_std").is_infinite().fill_null(False)
    return with_both.with_columns(
        noise_std=pl.when(~silent).then("noise_std").otherwise(0.0), scheduled=pl.col("scheduled") & ~silent
    )
