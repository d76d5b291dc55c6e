"""Audit of the system `age_aware`: one record of the worst-off client, by what it is at T.

The canary's chain is simulated forward as all are, and it counts where it ends in one of the two
states that reveal most; all other records are known to the observer, who takes them away. So the
reverse kernels that the account rests on are tested from the other side of time.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
import polars as pl
from scipy import stats
from scipy.special import logsumexp

from pwfl import streams
from pwfl.privacy import audit
from pwfl.systems.age_aware import markov
from pwfl.systems.age_aware.parameters import AgeAware
from pwfl.systems.age_aware.rounds import Clients, sample_means, uploads

CHAINS = 100  # simulated for each score asked for: they are cheap, and count where they end in one of two states
CELL, TAIL = 1e-3, 40.0  # of an upload, and how far out it is looked at, in scales of its noise


def verdicts(scenario: AgeAware, tables: dict[str, pl.DataFrame]) -> Iterator[audit.Verdict]:
    """On the noisy upload of the worst-off client of the worst-off case, held to the exact epsilon at T."""
    outcome = audit.worst(tables["outcome"])
    realization, horizon = outcome["realization"], scenario.schedule.horizon
    chosen = (pl.col("realization") == realization) & (pl.col("case") == outcome["case"])
    leakage = tables["leakage"].filter(chosen).sort("epsilon_exact", descending=True, maintain_order=True)
    client = leakage.row(0, named=True)
    own = (pl.col("realization") == realization) & (pl.col("user") == client["user"])
    user = tables["users"].filter(own).row(0, named=True)
    observer = f"client {client['user']}'s upload, target {client['target_epsilon']:g}; a record as it is at T"
    subject = audit.Subject(realization, observer, outcome["delta"], outcome["epsilon_exact"])
    if np.isinf(subject.epsilon):
        yield audit.untested(subject)
        return
    scale = tables["noise"].filter(chosen, pl.col("user") == client["user"])["noise_scale_wh"][0]
    states, samples = np.array(user["states_wh"]), user["samples"]
    moved = np.ptp(states) / samples
    yield audit.sensitivity(subject, moves(states, samples), moved)
    stated = moved / client["epsilon_classical"]
    yield from audit.laplace(subject, noise(scenario, scale), stated)

    generator, chains = streams.generator(scenario.seed, "audit", realization), CHAINS * scenario.audit.canaries
    start, transition = np.array(user["start"]), np.array(user["transition"])
    kernel = markov.reverse_kernels(transition, start, horizon)[client["collection_time"]]
    ends = worst_ends(kernel, states / samples, stated)
    ratio = partial(log_ratio, kernel[ends], states / samples, stated)
    record = Clients(states, np.array([1]), start[None], transition[None])
    first, uploaded = canaries(
        generator, chains, record, states[ends], (client["collection_time"], horizon), samples, scale
    )
    law = partial(loss_law, kernel[ends], states / samples, stated, first.mean())
    told = np.where(first, ratio(uploaded), -ratio(uploaded))
    yield audit.distribution(subject, audit.LOSS, told, law, 2 * CELL)
    looked_at = np.concatenate([cells(states / samples, stated), states / samples])
    yield audit.bounded(subject, np.abs(ratio(looked_at)), subject.epsilon)


def moves(states: np.ndarray, samples: int) -> np.ndarray:
    """How far a mean of samples moves for each of them that is the largest state in place of the least."""
    unchanged = np.eye(len(states))[None]
    ends = [
        Clients(states, np.array([samples]), np.eye(len(states))[[state]], unchanged)
        for state in (states.argmin(), states.argmax())
    ]
    means = [sample_means(np.random.default_rng(0), end, 0, 1)[0, 0, 0] for end in ends]
    return np.array([(means[1] - means[0]) / samples])


def noise(scenario: AgeAware, scale: float) -> np.ndarray:
    """The noise of uploads of means that are zero, shape (stream, 1, draw)."""
    count = audit.width(1)
    drawn = [streams.generator(*stream).laplace(size=(1, count)) for stream in streams.of_tested_noise(scenario)]
    return np.array([uploads(np.zeros((1, count)), scale, each) for each in drawn])


def worst_ends(kernel: np.ndarray, values: np.ndarray, scale: float) -> list[int]:
    """The two states at T that some upload tells apart best: one of the values, at which the largest losses are.

    Parameters
    ----------
    kernel
        Pr(X_t = column | X_T = row).
    values
        What each state adds to an upload.
    scale
        Of the noise.
    """
    with np.errstate(divide="ignore"):
        log_kernel = np.log(kernel)
    density = logsumexp(log_kernel[:, None] - np.abs(values[:, None] - values) / scale, axis=2)  # (state at T, upload)
    told = np.abs(density[:, None] - density).max(axis=-1)
    return list(np.unravel_index(told.argmax(), told.shape))


def canaries(
    generator: np.random.Generator,
    chains: int,
    record: Clients,
    ends: np.ndarray,
    times: tuple[int, int],
    samples: int,
    scale: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Which of two values each canary has at T, and what its client uploads, the other records' part taken away.

    Parameters
    ----------
    chains
        How many are simulated; those that end in one of `ends` count.
    record
        One record alone.
    times
        When it is collected, and T.
    samples, scale
        Of the client's mean, and of its noise.
    """
    time, horizon = times
    drawn = sample_means(generator, record, horizon, chains)
    kept = drawn[np.isin(drawn[:, 0, horizon], ends), 0]
    uploaded = uploads(kept[:, time] / samples, scale, generator.laplace(size=len(kept)))
    return kept[:, horizon] == ends[0], uploaded


def log_ratio(kernel: np.ndarray, values: np.ndarray, scale: float, upload: np.ndarray) -> np.ndarray:
    """The log-likelihood ratio of two states at T, given an upload; `kernel` has a row for each of them."""
    with np.errstate(divide="ignore"):
        log_kernel = np.log(kernel)
    first, other = (logsumexp(row - np.abs(upload[:, None] - values) / scale, axis=1) for row in log_kernel)
    return first - other


def cells(values: np.ndarray, scale: float) -> np.ndarray:
    """Uploads CELL scales apart, from TAIL below the least value to TAIL above the largest."""
    return np.arange(values.min() - TAIL * scale, values.max() + TAIL * scale, CELL * scale)


def loss_law(kernel: np.ndarray, values: np.ndarray, scale: float, share: float, losses: np.ndarray) -> np.ndarray:
    """The probability that the log-likelihood ratio, in favour of what is so, is at most each loss.

    Of the two states, the first in a share of all; by the probabilities of the cells that an upload may be in.
    """
    upload = cells(values, scale)
    below = stats.laplace.cdf(upload[:, None], values, scale) @ kernel.T  # (upload, state)
    mass = np.diff(below, axis=0, prepend=0.0)
    ratio = log_ratio(kernel, values, scale, upload)
    found = np.zeros(len(losses))
    for told, weight in ((ratio, share * mass[:, 0]), (-ratio, (1 - share) * mass[:, 1])):
        order = told.argsort(kind="stable")
        total = np.concatenate([[0.0], weight[order].cumsum()])
        found += total[np.searchsorted(told[order], losses, side="right")]
    return found
