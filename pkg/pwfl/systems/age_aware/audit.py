"""Audit of the system `age_aware`: one record of the worst-off client, by what it is at T.

The canary's chain is simulated forward as all are, and it counts where it ends in one of the two
states that reveal most; all other records are known to the observer, who takes them away. So the
reverse kernels that the account rests on are tested from the other side of time.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from scipy.special import logsumexp

from pwfl import streams
from pwfl.privacy.audit import Attack, worst
from pwfl.systems.age_aware import markov
from pwfl.systems.age_aware.rounds import Clients, sample_means, uploads

if TYPE_CHECKING:
    from pwfl.systems.age_aware.parameters import AgeAware

CHAINS = 100  # simulated for each score asked for: they are cheap, and count where they end in one of two states
DECIMALS = 6  # of a score: the last digits of noisy floating-point numbers tell more than real numbers do


def attacks(scenario: "AgeAware", tables: dict[str, pl.DataFrame]) -> Iterator[Attack]:
    """On the noisy upload of the worst-off client of the worst-off case, held to the exact epsilon at T."""
    outcome = worst(tables["outcome"])
    realization, horizon = outcome["realization"], scenario.schedule.horizon
    chosen = (pl.col("realization") == realization) & (pl.col("case") == outcome["case"])
    leakage = tables["leakage"].filter(chosen).sort("epsilon_exact", descending=True, maintain_order=True)
    client = leakage.row(0, named=True)
    user = (
        tables["users"]
        .filter(pl.col("realization") == realization, pl.col("user") == client["user"])
        .row(0, named=True)
    )
    scale = tables["noise"].filter(chosen, pl.col("user") == client["user"])["noise_scale_wh"][0]
    generator, chains = streams.generator(scenario.seed, "audit", realization), CHAINS * scenario.audit.canaries
    first, scores = canary_scores(generator, chains, user, client["collection_time"], horizon, scale)
    observer = f"client {client['user']}'s upload, target {client['target_epsilon']:g}; a record as it is at T"
    yield Attack(realization, observer, outcome["delta"], outcome["epsilon_exact"], False, first, scores)


def canary_scores(
    generator: np.random.Generator, chains: int, user: dict, time: int, horizon: int, scale: float
) -> tuple[np.ndarray, np.ndarray]:
    """Coins and scores of independent runs of one record.

    Parameters
    ----------
    generator
        Of the chains and the noise.
    chains
        How many are simulated; those that end in one of the two states that reveal most count.
    user
        The client's row of the table `users`.
    time, horizon
        When it collects, and T.
    scale
        Of its Laplace noise, Wh.

    Returns
    -------
    Coins and scores, shape (run,). A score is the log-likelihood ratio of the upload, of which the other records'
    part is taken away.
    """
    states, start, transition = (np.array(user[name]) for name in ("states_wh", "start", "transition"))
    kernel = markov.reverse_kernels(transition, start, horizon)[time]  # Pr(X_t = column | X_T = row)
    # What the largest uploads tell of each pair of states at T, which no upload exceeds.
    with np.errstate(divide="ignore"):
        log_kernel = np.log(kernel)
    far = logsumexp(log_kernel + states / user["samples"] / scale, axis=1)
    near = logsumexp(log_kernel - states / user["samples"] / scale, axis=1)
    told = np.maximum(np.abs(far[:, None] - far), np.abs(near[:, None] - near))
    ends = np.unravel_index(told.argmax(), told.shape)
    record = Clients(states, np.array([1]), start[None], transition[None])
    drawn = sample_means(generator, record, horizon, chains)
    kept = drawn[np.isin(drawn[:, 0, horizon], states[list(ends)]), 0]
    value, first = kept[:, time] / user["samples"], kept[:, horizon] == states[ends[0]]
    upload = uploads(value, scale, generator.laplace(size=len(kept)))
    likelihoods = [
        logsumexp(log_kernel[end] - np.abs(upload[:, None] - states / user["samples"]) / scale, axis=1) for end in ends
    ]
    return first, (likelihoods[0] - likelihoods[1]).round(DECIMALS)
