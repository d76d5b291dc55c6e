"""What data collected at t tell at the deployment time T >= t, and what a mechanism on them leaves of privacy then.

Lin, Lin, Hsu and Huang, "Age Aware Scheduling for Differentially-Private Federated Learning". epsilon_C is what the
mechanism has about the data at t, Delta(T - t) in [0, 1] a total variation distance; arrays broadcast.
"""

import numpy as np
import polars as pl

from pwfl.privacy.labels import Kind, gives
from pwfl.systems.age_aware import markov

LARGEST = 600.0  # epsilon_C whose exponential is no rounding matter
BLOCK = 2**22  # numbers in an array, at most


def age_epsilon(classical: np.ndarray, total_variation: np.ndarray) -> np.ndarray:
    """(1): a bound on epsilon about the data at T, ln(1 + Delta (e^epsilon_C - 1)).

    With delta_C, (1) has delta = Delta delta_C.

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


def exact_epsilon(classical: np.ndarray, kernel: np.ndarray, states: np.ndarray) -> np.ndarray:
    """The largest privacy loss of a record as it is at T, to an observer of the upload who knows the other records.

    Given a state x at T, the record was state a when collected with probability kernel[x, a], and Laplace noise of
    scale b = (max - min of the states) / epsilon_C (both times the record's weight) is added, so what is seen has the
    density f_x(y) ~ sum over a of kernel[x, a] exp(-|y - states[a]| / b). epsilon is the largest |ln f_x(y) / f_x'(y)|
    over x, x' and y. It is there at one of the states: between neighbouring ones f_x(y) = A_x e^(y/b) + B_x e^(-y/b)
    with A_x, B_x >= 0, so f_x / f_x' is (A_x u + B_x) / (A_x' u + B_x'), a Moebius map of u = e^(2y/b) without a pole
    at u > 0, which is monotone; beyond the least and the largest state it is constant.

    It is at most (1) with the exact Delta, a bound that holds whatever the mechanism.

    Parameters
    ----------
    classical
        epsilon_C, positive and at most LARGEST, shape (n,).
    kernel
        Pr(X_t = a | X_T = x), shape (x, a).
    states
        Their values, shape (a,).
    """
    distance = np.abs(states[:, None] - states) / np.ptp(states)
    density = np.log(np.exp(-classical[:, None, None] * distance) @ kernel.T)  # (n, y, x)
    return np.ptp(density, axis=2).max(axis=1)


@gives(Kind.EXACT)
def exact_epsilons(mechanisms: pl.DataFrame, users: pl.DataFrame, horizon: int) -> pl.DataFrame:
    """Distinct `chain`, `collection_time` and `classical_epsilon` of a table, with the `epsilon` of each.

    Rounded up by what sums can be off. Infinite where epsilon_C is more than LARGEST: as without noise, where
    chance alone would hide what a record was.
    """
    distinct = mechanisms.select("chain", "collection_time", "classical_epsilon").unique(maintain_order=True)
    frames = []
    for row in users.unique("chain", maintain_order=True).iter_rows(named=True):
        transition, start, states = (np.array(row[key]) for key in ("transition", "start", "states_wh"))
        kernels = markov.reverse_kernels(transition, start, horizon)
        chain_rows = distinct.filter(chain=row["chain"]).group_by("collection_time", maintain_order=True)
        for (time,), part in chain_rows:
            classical, epsilon = part["classical_epsilon"].to_numpy(), np.full(len(part), np.inf)
            usual = np.flatnonzero(classical <= LARGEST)
            for block in np.array_split(usual, len(usual) * len(states) ** 2 // BLOCK + 1):
                epsilon[block] = exact_epsilon(classical[block], kernels[time], states)
            epsilon += markov.rounding(horizon + 1, len(states)) * (1 + classical)
            frames.append(part.with_columns(epsilon=epsilon))
    return pl.concat(frames)


@gives(Kind.EXACT)
def laplace_scale(sensitivity, classical):
    """Scale b of the Laplace noise that makes a query of this l1 sensitivity `classical`-DP; of arrays, or columns."""
    return sensitivity / classical


@gives(Kind.EXACT)
def epsilon_together(epsilon, records):
    """epsilon_C of all of a client's n_k records: they move its mean by the states' range, n_k times as far as one."""
    return records * epsilon


@gives(Kind.UPPER)
def epsilon_in_turn(epsilon, records):
    """epsilon at T of all of a client's records, at most n_k times one's: each replaced in turn, others averaged over.

    The records are independent.
    """
    return records * epsilon


def profiles(users: pl.DataFrame, horizon: int) -> pl.DataFrame:
    """Every chain of the table `users` seen from every collection time t = 0..T = horizon, a row for each.

    Columns as in `tables.Links`, with the chain for its client. spectral_decay, (1 - gap)^(T - t), is the paper's bound
    on Delta(T - t) with its constant lost, which bounds nothing; information_nats the bound ln(1 + (m - 1) / n) on what
    the mean of n samples with m possible values tells of each of them (docs/explanation/age_aware.md).
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
