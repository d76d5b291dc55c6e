"""The scheduling problem (20)-(22) of Tavangaran et al.: what a schedule leaves out and what it lets leak.

With a_i = 1 for users who are scheduled, (20) is sum_i (1 - a_i) K_i + gamma sum_i a_i / (K_i sigma_i)^2, to be
minimized, and (21) is sum_i a_i K_i sigma_i^2 <= Vmax sum_i a_i K_i.
"""

import numpy as np
import polars as pl


def value(samples: np.ndarray, noise_std: np.ndarray, gamma: float) -> np.ndarray:
    """What scheduling a user takes off (20), K_i - gamma / (K_i sigma_i)^2; arrays have the same shape."""
    return samples - gamma / (samples * noise_std) ** 2


def load(samples: np.ndarray, noise_std: np.ndarray, max_error: float) -> np.ndarray:
    """What scheduling a user adds to (21), K_i (sigma_i^2 - Vmax), which must not be positive in total."""
    return samples * (noise_std**2 - max_error)


def least_load(samples: np.ndarray, max_error: float, min_noise: float) -> np.ndarray:
    """The load with the least noise that (22) allows, sigma_i = Nmin / K_i."""
    return min_noise**2 / samples - max_error * samples


def total(noise_std: pl.Expr, gamma: float) -> pl.Expr:
    """(20) of a group's users, from the columns `samples` and `scheduled`: sum K_i less the scheduled users' values."""
    left_out = pl.col("samples") - pl.col("samples") * pl.col("scheduled")
    return left_out.sum() + gamma * (pl.col("samples") * noise_std).filter("scheduled").pow(-2).sum()


def noise_error(noise_std: pl.Expr) -> pl.Expr:
    """The left side of (21) of a group's users, over the samples scheduled; null where nobody is."""
    weighted = pl.col("samples") * pl.col("scheduled")
    return pl.when(pl.col("scheduled").any()).then((weighted * noise_std.pow(2)).sum() / weighted.sum())
