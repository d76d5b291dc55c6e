"""What data collected at t tell at the deployment time T >= t, and what a mechanism on them leaves of privacy then.

Lin, Lin, Hsu and Huang, "Age Aware Scheduling for Differentially-Private Federated Learning". epsilon_C is what the
mechanism has about the data at t, Delta(T - t) in [0, 1] a total variation distance; arrays broadcast.
"""

import numpy as np
import polars as pl

from pwfl.systems.age_aware import markov


def age_epsilon(classical: np.ndarray, total_variation: np.ndarray) -> np.ndarray:
    """(1): epsilon about the data at T, ln(1 + Delta (e^epsilon_C - 1)); with delta_C, (1) has delta = Delta delta_C.

    Fresh data are as private as the mechanism makes them, data that tell nothing any more are so by themselves.

    Examples
    --------
    >>> age_epsilon(1.0, np.array([1.0, 0.5, 0.0])).round(3)
    array([1.  , 0.62, 0.  ])
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        exact = np.log1p(total_variation * np.expm1(classical))
        # Where e^epsilon_C overflows, the 1s no longer count.
        large = classical + np.log(total_variation)
    return np.where(np.asarray(total_variation) == 0, 0.0, np.where(np.asarray(classical) > 700, large, exact))


def required_epsilon(target: np.ndarray, total_variation: np.ndarray) -> np.ndarray:
    """(4): the epsilon_C that a `target` at T asks for, ln(1 + (e^target - 1) / Delta); infinite where Delta is 0.

    The inverse of `age_epsilon`.
    """
    with np.errstate(divide="ignore"):
        return np.log1p(np.expm1(target) / total_variation)


def laplace_scale(sensitivity: np.ndarray, classical: np.ndarray) -> np.ndarray:
    """Scale b of the Laplace noise that makes a query of this l1 sensitivity `classical`-DP."""
    return sensitivity / classical


def profiles(users: pl.DataFrame, horizon: int) -> pl.DataFrame:
    """Every chain of the table `users` seen from every collection time t = 0..T = horizon, a row for each.

    Columns as in `tables.Links`, with the chain for its client. spectral_decay, (1 - gap)^(T - t), is the paper's bound
    on Delta(T - t) with its constant lost, which bounds nothing; information_nats the bound ln(1 + (m - 1) / n) on what
    the mean of n samples with m possible values tells of each of them (docs/age_aware.md).
    """
    age, frames = np.arange(horizon, -1, -1), []
    for row in users.unique("chain", maintain_order=True).iter_rows(named=True):
        transition, start, states = (np.array(row[key]) for key in ("transition", "start", "states_wh"))
        mu = markov.laws(transition, start, horizon)
        mean = mu @ states
        columns = {
            "chain": [row["chain"]] * len(age),
            "collection_time": horizon - age,
            "age": age,
            "total_variation": markov.total_variation(markov.reverse_kernels(transition, start, horizon)),
            "total_variation_bound": markov.total_variation_bound(transition, start, horizon),
            "spectral_decay": (1 - markov.spectral_gap(transition)) ** age,
            "divergence_nats": markov.divergence(mu, mu[-1]),
            "information_nats": np.log1p(((mu > 0).sum(axis=1) - 1) / row["samples"]),
            "mean_wh": mean,
            "variance_wh2": (mu * (states - mean[:, None]) ** 2).sum(axis=1),
        }
        frames.append(pl.DataFrame(columns))
    return pl.concat(frames)
