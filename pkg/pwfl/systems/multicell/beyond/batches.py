"""Poisson sampling of records under scheduling: each record of a sender is in a round's message by chance."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import scipy  # whose modules are imported where they are first used

from pwfl import streams
from pwfl.privacy import accountant
from pwfl.systems.multicell.parameters import Multicell
from pwfl.tables.arrays import joined
from pwfl.tables.reception import by_round

if TYPE_CHECKING:
    from pwfl.privacy.sampled import Rates

ALIKE = 0.1  # by which mu of users may be rounded up, relative
ROUNDING = 1e-9  # of mu that are alike
ABSENT = 0.5  # of `sampled.replace_one`: noise is of the same strength whatever the batch


def drawn(
    scenario: Multicell, reception: pl.DataFrame, noise: pl.DataFrame, own: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """What is received with each round an interval, and the number of records in each message: binomial, then uniform.

    Who has none sends its noise all the same. The numbers are the same for all schemes.
    """
    rounds, count = scenario.training.rounds, own["user"].n_unique()
    held = own.select("realization", "user", "samples")
    sizes = joined(by_round(reception).drop("records"), held, "realization", "user")
    realization, round_, user = (sizes[key].to_numpy() for key in ("realization", "interval", "user"))
    first, last = own["realization"].min(), own["realization"].max()
    draws = streams.uniforms(scenario.seed, "batch", range(first, last + 1), (rounds, count))
    chosen = draws[realization - first, round_, user]
    records = scipy.stats.binom.ppf(chosen, sizes["samples"].to_numpy(), scenario.data.sampling).astype(np.int64)
    return sizes.drop("samples").with_columns(records=pl.Series(records, dtype=pl.Int64)), by_round(noise)


def law(scenario: Multicell) -> Rates | None:
    """Of a record's chance to be in its user's message, who is known to send; None: it is in each."""
    if not (rate := scenario.data.sampling):
        return None
    from pwfl.privacy.sampled import Rates  # here, as all other accounts would wait for its libraries

    return Rates(np.array([rate]), np.ones(1))


def epsilons(found: accountant.Losses, delta: float, rates: Rates) -> np.ndarray:
    """Each user's epsilon, (realization, user), proved for every replaced record; of one interval.

    The worst-off user's of a realization is its own; others' mu are rounded up, so that few are computed.
    """
    from pwfl.privacy import sampled  # see `law`

    mu = found.mu[:, 0]
    worst = mu.max(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.floor(np.log(worst / mu) / ALIKE + ROUNDING)
        rounded = np.where(np.isfinite(worst) & (mu > 0), worst * np.exp(-ALIKE * steps), mu)
    how = {"method": "proved", "absent": ABSENT, "interval": sampled.COARSE}
    return accountant.epsilons(found._replace(mu=rounded[:, None]), delta, rates, **how)


def users_epsilons(found: accountant.Losses, samples: np.ndarray, scenario: Multicell) -> np.ndarray:
    """A bound on each user's epsilon if all its records are replaced, (realization, user); of one interval."""
    from pwfl.privacy import users  # see `law`

    rate, delta, rounds = scenario.data.sampling, scenario.privacy.delta, int(found.rounds[0])

    @cache
    def bound(held: int, mu: float) -> float:
        sizes = np.arange(held + 1)
        records = users.Messages(sizes, scipy.stats.binom.pmf(sizes, held, rate), 1.0, 1.0)
        return users.epsilon(records, 1 / mu, rounds, delta) if np.isfinite(mu) else np.inf

    each = [bound(k, m) if m > 0 else 0.0 for k, m in zip(samples.ravel(), found.mu[:, 0].ravel(), strict=True)]
    return np.reshape(each, samples.shape)
