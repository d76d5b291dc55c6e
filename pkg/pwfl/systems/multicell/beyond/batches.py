"""Poisson sampling of records under scheduling: each record of a sender is in a round's message by chance."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
import scipy  # whose modules are imported where they are first used

from pwfl import streams
from pwfl.privacy import labels
from pwfl.privacy.accountant import USER, Account, Claim, Losses
from pwfl.privacy.labels import Kind
from pwfl.systems.multicell.parameters import Multicell
from pwfl.tables.arrays import joined, span_of
from pwfl.tables.reception import by_round

if TYPE_CHECKING:
    from pwfl.privacy import sampled

ALIKE = 0.1  # by which mu of users may be rounded up, relative
ROUNDING = 1e-9  # of mu that are alike
ABSENT = 0.5  # of `sampled.replace_one`: noise is of the same strength whatever the batch


def drawn(
    scenario: Multicell, reception: pl.DataFrame, noise: pl.DataFrame, users: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """What is received with each round an interval, and the number of records in each message: binomial, then uniform.

    Who has none sends its noise all the same. The numbers are the same for all schemes.
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
    """A record of a sender is in a round by chance, who sends is known; a mechanism of `accountant`, for all pairs.

    The worst-off user's epsilon of a realization is its own; others' mu are rounded up, so that few are computed.
    """

    rate: float

    @property
    def sampling(self) -> str:
        """In words."""
        return f"Poisson: a record of a sender is in a round with probability {self.rate:g}, whoever sends is known"

    @property
    def record_batches(self) -> sampled.Batches:
        """The mechanism of one record, of one interval."""
        from pwfl.privacy import sampled  # here, as all other accounts would wait for its libraries

        return sampled.Batches(sampled.Rates(np.array([self.rate]), np.ones(1)), "proved", ABSENT, sampled.COARSE)

    def worth(self, losses: Losses, claim: Claim, delta: float) -> tuple[np.ndarray, np.ndarray | Kind]:
        """By privacy losses; of all of a user's records by the law of their number."""
        if claim.unit == USER:
            return users_epsilons(losses, np.asarray(claim.records), self.rate, delta)
        return self.record_batches.worth(rounded(losses), claim, delta)

    def attack_rate(self, account: Account, worst: np.ndarray) -> np.ndarray | float:
        """Of a user's records no more is known than epsilon at delta."""
        return np.nan if account.claim.unit == USER else self.record_batches.attack_rate(account, worst)


def rounded(losses: Losses) -> Losses:
    """Losses of one interval with mu of all but a realization's worst-off user rounded up, to few different ones."""
    mu = losses.mu[:, 0]
    worst = mu.max(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.floor(np.log(worst / mu) / ALIKE + ROUNDING)
        higher = np.where(np.isfinite(worst) & (mu > 0), worst * np.exp(-ALIKE * steps), mu)
    return losses._replace(mu=higher[:, None])


def users_epsilons(losses: Losses, samples: np.ndarray, rate: float, delta: float) -> tuple[np.ndarray, np.ndarray]:
    """A bound on each user's epsilon if all its records are replaced, (realization, user), and its kind."""
    from pwfl.privacy import users  # here, as all other accounts would wait for its libraries

    rounds = int(losses.rounds[0])

    @cache
    def bound(held: int, mu: float) -> tuple[float, Kind]:
        sizes = np.arange(held + 1)
        records = users.Messages(sizes, scipy.stats.binom.pmf(sizes, held, rate), 1.0, 1.0)
        return labels.labeled(users.epsilon, records, 1 / mu, rounds, delta)

    def price(held: int, mu: float) -> tuple[float, Kind]:
        return bound(held, mu) if 0 < mu < np.inf else (float(mu), Kind.EXACT)

    prices = [price(*pair) for pair in zip(samples.ravel(), losses.mu[:, 0].ravel(), strict=True)]
    epsilon, kind = (np.reshape(values, samples.shape) for values in zip(*prices, strict=True))
    return epsilon, kind
