"""Stage train: the server steps along the mean of the gradients that it receives."""

from collections.abc import Callable

import numpy as np
import polars as pl

from local_dp_mac.reception import mean_std
from pwfl.learning import datasets, descent


def trainer(scenario, data: datasets.Dataset, tables: dict[str, pl.DataFrame]) -> Callable[[int], pl.DataFrame]:
    """A function that trains one realization and returns its rows of `history`.

    Devices have equally many records, so the mean of their mean gradients is that over all records.
    """
    records = tables["users"].group_by("realization").agg(pl.col("samples").sum())
    noise = mean_std(tables).sort("round")

    def received(realization: int) -> descent.Received:
        std = noise.filter(realization=realization)["mean_std"].to_numpy()
        counts = np.ones((len(std), records.filter(realization=realization)["samples"].item()))
        return descent.Received(counts, std)  # no bandwidth, and powers without a unit

    return descent.trainer(scenario, data, tables, received)
