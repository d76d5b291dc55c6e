"""What the claims of all systems share: a table's schema, intervals by bootstrap."""

from collections.abc import Callable

import numpy as np
import polars as pl

RESAMPLES = 2000
BATCH = 40  # resamples at once: memory stays small for many realizations
CONFIDENCE = 0.95
SCHEMA = {
    "claim": pl.String,
    "scenario": pl.String,
    "measured": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "required": pl.String,
    "holds": pl.Boolean,
    "realizations": pl.Int64,
}


def mean_difference(values: np.ndarray) -> np.ndarray:
    """Mean over the last axis of the first series minus the second."""
    return (values[0] - values[1]).mean(-1)


def bootstrap(statistic: Callable, values: np.ndarray) -> tuple[float, float, float]:
    """The statistic of `values`, shape (series, realization), and its 95% percentile interval."""
    generator, n = np.random.default_rng(0), values.shape[1]
    batches = [statistic(values[:, generator.integers(n, size=(BATCH, n))]) for _ in range(RESAMPLES // BATCH)]
    resampled = np.concatenate(batches)
    tail = 100 * (1 - CONFIDENCE) / 2
    return float(statistic(values)), *(float(q) for q in np.percentile(resampled, [tail, 100 - tail]))
