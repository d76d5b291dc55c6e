"""What rounds that a table `visibility` tells of cost, by a law of sampling or none.

A replaced record moves a user's message by a learner's `sensitivity` at most, so a round is a Gaussian mechanism of
mu = sensitivity visibility; mu^2 of rounds add. Where a record is in a round's message by chance alone, as the observer
knows it (`sampled.Rates`), a round is a sampled Gaussian mechanism instead, and rounds compose by their privacy losses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from pwfl.privacy.gaussian import exact_epsilon, zcdp

if TYPE_CHECKING:
    from pwfl.privacy import sampled

ALIKE = 1e-9  # relative: mu that are one


class Losses(NamedTuple):
    """mu of each round, and for how many rounds; arrays of shapes (realization, interval, user) and (interval,).

    `mu` is 0 of who does not send, NaN where no noise is feasible, infinite where nothing hides.
    """

    mu: np.ndarray
    rounds: np.ndarray

    @property
    def rho(self) -> np.ndarray:
        """zCDP after all rounds, shape (realization, user), NaN counted as nothing."""
        each = zcdp(np.nan_to_num(self.mu, nan=0.0, posinf=np.inf), 1.0, self.rounds[:, None])
        with np.errstate(over="ignore"):  # infinite, as where nothing hides
            return np.where(self.mu > 0, each, 0.0).sum(axis=1)

    @property
    def multiplier(self) -> float:
        """The least noise multiplier of all rounds and users: that of the largest mu; 0 without noise."""
        largest = self.mu.max(initial=0.0)
        return 1 / largest if largest > 0 else np.inf


def losses(
    tables: dict[str, pl.DataFrame],
    observer: str,
    sensitivity: float,
    users_only: bool = False,
    users: int | None = None,
) -> Losses:
    """What an observer's view costs `users` users (None: those of the table), against all noise or users' alone."""
    rows, own = tables["visibility"].filter(observer=observer), tables["users"]
    realizations = own["realization"].unique().sort()
    rounds = rows.group_by("interval").agg(pl.col("rounds").first())
    count = int(rows["interval"].max() or 0) + 1  # ty: ignore  # of an interval in which nobody sends, no row tells
    length = np.ones(count, int)
    length[rounds["interval"].to_numpy()] = rounds["rounds"].to_numpy()
    mu = np.zeros((len(realizations), count, users or own["user"].n_unique()))
    realization = realizations.search_sorted(rows["realization"]).to_numpy()
    place = realization, rows["interval"].to_numpy(), rows["user"].to_numpy()
    column = "visibility_users_only" if users_only else "visibility"
    mu[place] = sensitivity * rows[column].cast(pl.Float64).to_numpy()
    return Losses(mu, length)


def of_users(found: Losses, records: np.ndarray) -> Losses:
    """Losses if all records of a user are replaced: a message that sums over them moves by so many times as much.

    `found` is of one of `records`, shape (realization, user), or such that the shapes broadcast.
    """
    return found._replace(mu=found.mu * records[:, None])


def epsilons(
    found: Losses, delta: float, law: sampled.Rates | None = None, method: str = "tight", **more
) -> np.ndarray:
    """Each user's epsilon after all rounds, shape (realization, user).

    With a law of the chance of a record to be in a round's message, given what the observer knows, mu are those of
    rounds with it. `method` is that of `sampled.composed_epsilon`: `tight` (the usual pair), `proved` (all pairs),
    `opposite` (at least).
    """
    if law is None:
        return exact_epsilon(found.rho, delta)
    from pwfl.privacy import sampled  # here, as accounts without sampling would wait for its libraries

    realizations, _, users = found.mu.shape
    result, known = np.zeros((realizations, users)), {}
    for place in np.ndindex(realizations, users):
        mu = found.mu[place[0], :, place[1]]
        here = mu > 0
        if not here.any():
            continue
        values, index = np.unique(np.round(np.log(mu[here]) / ALIKE), return_inverse=True)
        rounds = np.bincount(index, found.rounds[here]).astype(int)
        multipliers = [1 / mu[here][index == k].max() for k in range(len(values))]
        key = tuple(zip(multipliers, rounds.tolist(), strict=True))
        if key not in known:
            known[key] = sampled.composed_epsilon(law, key, delta, method, **more)
        result[place] = known[key]
    return result


def spent(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Each realization's symbols, seconds and joules of all rounds, columns of `outcome`; null where nothing counts."""
    columns = {"channel_uses": "symbols", "air_seconds": "seconds", "transmit_energy_j": "joules"}
    noise = tables["reception_noise"].sort("realization", "interval")
    shape = -1, noise["interval"].n_unique()  # every realization has all

    def total(column: str) -> pl.Series:
        # Round after round, as `history` adds up; Polars adds up groups in an order that depends on other realizations.
        each = (noise[column].cast(pl.Float64) * noise["rounds"]).to_numpy().reshape(shape)
        return pl.Series(each.cumsum(axis=1)[:, -1]).fill_nan(None)

    return pl.DataFrame(
        {"realization": noise["realization"].unique(maintain_order=True)}
        | {name: total(of) for name, of in columns.items()}
    )
