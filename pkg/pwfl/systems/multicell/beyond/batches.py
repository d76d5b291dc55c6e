"""Poisson sampling of records under scheduling: a record of an active user is in a round's message by chance."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
import scipy  # its modules are imported when they are first used

from pwfl import streams
from pwfl.privacy.accountant import USER, Account, Claim, Losses
from pwfl.privacy.labels import Kind
from pwfl.systems.multicell.parameters import Multicell
from pwfl.tables.arrays import joined, span_of
from pwfl.tables.reception import by_round

if TYPE_CHECKING:
    from pwfl.privacy import sampled

ALIKE = 0.1  # relative amount by which mu of users may be rounded up
ROUNDING = 1e-9  # rounding error of equal mu
ABSENT = 0.5  # as in `sampled.replace_one`: the noise does not depend on the batch


def drawn(
    scenario: Multicell, reception: pl.DataFrame, noise: pl.DataFrame, users: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Draw each message's number of records, binomial; return both tables with each round as an interval.

    Training then draws the records uniformly. A user without records still sends noise. All schemes use the same.
    """
    rounds, count = scenario.training.rounds, users["user"].n_unique()
    held = users.select("realization", "user", "samples")
    sizes = joined(by_round(reception).drop("records"), held, "realization", "user")
    realization, round_, user = (sizes[key].to_numpy() for key in ("realization", "interval", "user"))
    span = span_of(users)
    draws = streams.uniforms(scenario.seed, "batch", span, (rounds, count))
    chosen = draws[realization - span.start, round_, user]
    records = scipy.stats.binom.ppf(chosen, sizes["samples"].to_numpy(), scenario.data.sampling).astype(np.int64)
    return sizes.drop("samples").with_columns(records=pl.Series(records, dtype=pl.Int64)), by_round(noise)


class PoissonBatches(NamedTuple):
    """Poisson sampling of records of known users, a mechanism of `accountant`, proved for all pairs of records.

    For a realization's most exposed user, mu is not rounded. Other mu are rounded up to few values, to save time.
    """

    rate: float

    @property
    def sampling(self) -> str:
        """Description of the sampling."""
        return f"Poisson: a record of a sender is in a round with probability {self.rate:g}, whoever sends is known"

    @property
    def record_batches(self) -> sampled.Batches:
        """Mechanism for the replacement of one record."""
        from pwfl.privacy import sampled  # here, so that other accounts do not wait for its libraries

        return sampled.Batches(sampled.Rates(np.array([self.rate]), np.ones(1)), "proved", ABSENT, sampled.COARSE)

    def worth(self, losses: Losses, claim: Claim, delta: float) -> tuple[np.ndarray, np.ndarray | Kind]:
        """Compute epsilon by privacy losses; for all of a user's records, by the distribution of their number."""
        if claim.unit == USER:
            return users_epsilons(losses, np.asarray(claim.records), self.rate, delta)
        return self.record_batches.worth(rounded(losses), claim, delta)

    def attack_rate(self, account: Account, worst: np.ndarray) -> np.ndarray | float:
        """Compute the rate; NaN for all of a user's records, for which only epsilon at delta is known."""
        return np.nan if account.claim.unit == USER else self.record_batches.attack_rate(account, worst)


def rounded(losses: Losses) -> Losses:
    """Round up mu to few values, except that of a realization's most exposed user; `losses` have one interval."""
    mu = losses.mu[:, 0]
    worst = mu.max(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.floor(np.log(worst / mu) / ALIKE + ROUNDING)
        higher = np.where(np.isfinite(worst) & (mu > 0), worst * np.exp(-ALIKE * steps), mu)
    return losses._replace(mu=higher[:, None])


def users_epsilons(losses: Losses, samples: np.ndarray, rate: float, delta: float) -> tuple[np.ndarray, np.ndarray]:
    """Bound each user's epsilon if all its records are replaced, (realization, user); also return its kind."""
    from pwfl.privacy import users  # here, so that other accounts do not wait for its libraries

    rounds = int(losses.rounds[0])

    @cache
    def price(held: int, mu: float) -> tuple[float, Kind]:
        if not mu > 0:  # 0: the user does not send; NaN: no noise is feasible
            return mu, Kind.EXACT
        sizes = np.arange(held + 1)
        records = users.Messages(sizes, scipy.stats.binom.pmf(sizes, held, rate), 1.0, 1.0)
        return users.worth(records, 1 / mu, rounds, delta)

    prices = [price(*pair) for pair in zip(samples.ravel(), losses.mu[:, 0].ravel(), strict=True)]
    epsilon, kind = (np.reshape(values, samples.shape) for values in zip(*prices, strict=True))
    return epsilon, kind
