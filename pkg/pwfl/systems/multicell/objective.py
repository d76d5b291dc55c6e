"""Terms of the scheduling problem (20)-(22) of Tavangaran et al.: samples left out, leakage and noise.

With a_i = 1 for users who are scheduled, (20) minimizes sum_i (1 - a_i) K_i + gamma sum_i a_i / (K_i sigma_i)^2.
Constraint (21) is sum_i a_i K_i sigma_i^2 <= Vmax sum_i a_i K_i.
"""

import numpy as np
import polars as pl


def value(samples: np.ndarray, noise_std: np.ndarray, gamma: float) -> np.ndarray:
    """Compute by how much scheduling a user lowers (20), K_i - gamma / (K_i sigma_i)^2; arrays have the same shape."""
    return samples - gamma / (samples * noise_std) ** 2


def load(samples: np.ndarray, noise_std: np.ndarray, max_error: float) -> np.ndarray:
    """Compute a scheduled user's load in (21), K_i (sigma_i^2 - Vmax); the total must not be positive."""
    return samples * (noise_std**2 - max_error)


def least_load(samples: np.ndarray, max_error: float, min_noise: float) -> np.ndarray:
    """Compute the load with the least noise that (22) allows, sigma_i = Nmin / K_i."""
    return min_noise**2 / samples - max_error * samples


def total(noise_std: pl.Expr, gamma: float) -> pl.Expr:
    """Return (20) of a group's users, an expression: sum of `samples` minus the values of `scheduled` users."""
    left_out = pl.col("samples") - pl.col("samples") * pl.col("scheduled")
    return left_out.sum() + gamma * (pl.col("samples") * noise_std).filter("scheduled").pow(-2).sum()


def noise_error(noise_std: pl.Expr) -> pl.Expr:
    """Return the left side of (21) of a group's users, over the scheduled samples; null if nobody is scheduled."""
    weighted = pl.col("samples") * pl.col("scheduled")
    return pl.when(pl.col("scheduled").any()).then((weighted * noise_std.pow(2)).sum() / weighted.sum())
