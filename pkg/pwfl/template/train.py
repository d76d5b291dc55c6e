"""Stage train: the server steps along the mean of what the round's senders send, their noisy mean gradients."""

from collections.abc import Callable

import numpy as np
import polars as pl

from pwfl.learning import datasets, descent
from pwfl.tables.arrays import to_array


def trainer(scenario, data: datasets.Dataset, tables: dict[str, pl.DataFrame]) -> Callable[[int], pl.DataFrame]:
    """A function that trains one realization and returns its rows of `history`."""

    def received(realization: int) -> descent.Received:
        own = {name: tables[name].filter(realization=realization) for name in ("users", "schedule", "noise")}
        sends = to_array(own["schedule"], "sends", "round", "user")
        samples, noise_std = (to_array(own[name], column, "user") for name, column in COLUMNS.items())
        weight = sends / np.maximum(sends.sum(axis=1, keepdims=True), 1)  # of each device in the server's mean
        counts = np.repeat(weight * samples.sum() / samples, samples, axis=1)
        return descent.Received(counts, np.sqrt(((weight * noise_std) ** 2).sum(axis=1)))

    return descent.trainer(scenario, data, tables, received)


COLUMNS = {"users": "samples", "noise": "noise_std"}
