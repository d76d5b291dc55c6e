"""Age-dependent privacy: epsilon at the deployment time T >= t of a mechanism on data collected at time t.

From Lin, Lin, Hsu and Huang, "Age Aware Scheduling for Differentially-Private Federated Learning". epsilon_C is the
mechanism's epsilon about the data at t. Delta(T - t) in [0, 1] is a total variation distance. Arrays broadcast.
"""

import numpy as np
import polars as pl

from pwfl.privacy.labels import Kind, gives
from pwfl.systems.age_aware import markov

LARGEST = 600.0  # largest epsilon_C of `exact_epsilon`, for which exp(-epsilon_C) does not underflow
BLOCK = 2**22  # largest number of elements of an array


def age_epsilon(classical: np.ndarray, total_variation: np.ndarray) -> np.ndarray:
    """Eq. (1): bound epsilon about the data at T by ln(1 + Delta (e^epsilon_C - 1)).

    With a delta_C, (1) has delta = Delta delta_C.

    Fresh data (Delta = 1) have epsilon_C. Data that reveal nothing about the state at T (Delta = 0) have epsilon 0.

    Examples
    --------
    >>> age_epsilon(1.0, np.array([1.0, 0.5, 0.0])).round(3)
    array([1.  , 0.62, 0.  ])
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        exact = np.log1p(total_variation * np.expm1(classical))
        # If e^epsilon_C overflows, the 1s in (1) are negligible.
        large = classical + np.log(total_variation)
    return np.where(np.asarray(total_variation) == 0, 0.0, np.where(np.asarray(classical) > 700, large, exact))


def required_epsilon(target: np.ndarray, total_variation: np.ndarray) -> np.ndarray:
    """Eq. (4): compute the epsilon_C that a `target` at T requires, ln(1 + (e^target - 1) / Delta).

    The inverse of `age_epsilon`; infinite if Delta is 0.
    """
    with np.errstate(divide="ignore"):
        return np.log1p(np.expm1(target) / total_variation)


def exact_epsilon(classical: np.ndarray, kernel: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Compute the largest privacy loss of a record's state at T, for an observer of the upload and the other records.

    Given state x at T, the record had state a when collected with probability kernel[x, a]. The Laplace noise has scale
    b = (max - min of the states) / epsilon_C (both times the record's weight). The upload then has the density f_x(y) ~
    sum over a of kernel[x, a] exp(-|y - states[a]| / b). epsilon is the largest |ln f_x(y) / f_x'(y)| over x, x' and y.
    It is attained at one of the states: between neighbouring states, f_x(y) = A_x e^(y/b) + B_x e^(-y/b) with A_x, B_x
    >= 0. So f_x / f_x' is (A_x u + B_x) / (A_x' u + B_x'), a Moebius map of u = e^(2y/b). It has no pole at u > 0, so
    it is monotone. Below the smallest and above the largest state it is constant.

    epsilon is at most (1) with the exact Delta, a bound that holds for any mechanism.

    Parameters
    ----------
    classical
        epsilon_C, positive and at most LARGEST, shape (n,).
    kernel
        Pr(X_t = a | X_T = x), shape (x, a).
    states
        Values of the states, shape (a,).
    """
    distance = np.abs(states[:, None] - states) / np.ptp(states)
    density = np.log(np.exp(-classical[:, None, None] * distance) @ kernel.T)  # (n, y, x)
    return np.ptp(density, axis=2).max(axis=1)


@gives(Kind.EXACT)
def exact_epsilons(mechanisms: pl.DataFrame, users: pl.DataFrame, horizon: int) -> pl.DataFrame:
    """Compute `epsilon` of each distinct `chain`, `collection_time` and `classical_epsilon` of a table.

    Rounded up by the largest possible error of sums. Infinite if epsilon_C is more than LARGEST, as without noise,
    where only the chain's randomness would hide a record's state when collected.
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
    """Compute the scale b of Laplace noise that makes a query of an l1 sensitivity `classical`-DP; also of columns."""
    return sensitivity / classical


@gives(Kind.EXACT)
def epsilon_together(epsilon, records):
    """Compute epsilon_C of a client's n_k records: they move its mean by the states' range, n_k times as far as one."""
    return records * epsilon


@gives(Kind.UPPER)
def epsilon_in_turn(epsilon, records):
    """Bound epsilon at T of all n_k records of a client by n_k times a record's.

    Records are independent. Proof: replace one at a time, and average over the others.
    """
    return records * epsilon


def profiles(users: pl.DataFrame, horizon: int) -> pl.DataFrame:
    """Compute the profiles of all chains in the table `users` at collection times t = 0..T = horizon, one row each.

    Columns as in `tables.Links`, with the chain in place of the client. spectral_decay, (1 - gap)^(T - t), is the
    paper's bound on Delta(T - t) without its constant, which the text lost: it is no bound. information_nats is the
    bound ln(1 + (m - 1) / n) on the information that the mean of n samples with m possible values has about each sample
    (docs/explanation/age_aware_proofs.md).
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
