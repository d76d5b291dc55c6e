"""What rounds that a table `visibility` tells of cost, and what kind of a number that is: the one call of all accounts.

A replaced record moves a user's message by a learner's `sensitivity` at most, so a round is a Gaussian mechanism of
mu = sensitivity visibility; mu^2 of rounds add. Where a record is in a round's message by chance, or messages are
integers, another mechanism says what rounds are worth (`sampled.Batches`, `multicell.beyond.integers`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import NamedTuple, Protocol

import numpy as np
import polars as pl

from pwfl.privacy import gaussian, labels
from pwfl.privacy.gaussian import exact_epsilon, zcdp
from pwfl.privacy.labels import Kind

ALIKE = 1e-9  # relative: mu that are one
ROUNDING = 1e-9  # relative: epsilons that are one
FALSE_POSITIVES = 0.01  # of the attack whose rate of true positives is stated
RECORD, USER = "record", "user"  # units of privacy
USERS, ALL = "users", "users and receivers"  # whose noise counts
REPLACE_ONE = "replace-one"
KEY = ("observer", "unit", "noise_from")  # of a row of `guarantees` of a realization


class Losses(NamedTuple):
    """mu of each round, and for how many rounds; arrays of shapes (realization, interval, user) and (interval,).

    `mu` is 0 of who does not send, NaN where no noise is feasible, infinite where nothing hides.
    """

    mu: np.ndarray
    rounds: np.ndarray

    @property
    def rho(self) -> np.ndarray:
        """zCDP after all rounds, shape (realization, user), NaN counted as nothing."""
        rounds_rho = zcdp(np.nan_to_num(self.mu, nan=0.0, posinf=np.inf), 1.0, self.rounds[:, None])
        with np.errstate(over="ignore"):  # infinite, as where nothing hides
            return np.where(self.mu > 0, rounds_rho, 0.0).sum(axis=1)

    @property
    def multiplier(self) -> float:
        """The least noise multiplier of all rounds and users: that of the largest mu; 0 without noise."""
        largest = self.mu.max(initial=0.0)
        return 1 / largest if largest > 0 else np.inf

    def moved(self, by: np.ndarray | float) -> Losses:
        """Those of messages that move so many times as far: a number, or of each user, (realization, user)."""
        factor = np.asarray(by)
        with np.errstate(invalid="ignore"):  # of none, which stays none
            return self._replace(
                mu=np.where(self.mu > 0, self.mu * (factor[:, None] if factor.ndim else factor), self.mu)
            )

    def select_users(self, rows: np.ndarray, users: np.ndarray) -> Losses:
        """Those of one user of each of some realizations, as of networks of one user."""
        return self._replace(mu=self.mu[rows, :, users][..., None])


class Claim(NamedTuple):
    """What an epsilon is asked of.

    Attributes
    ----------
    observer
        Who sees: a row of the table `observers`.
    unit
        What is replaced: a RECORD, all records of a USER, or a system's own word.
    sensitivity
        How far one record moves a message: a number, or of each user, (realization, user).
    records
        How many move it as far each: a number, or of each user, likewise.
    noise
        Whose counts, USERS or ALL.
    assumes
        What the sensitivity rests on, of `labels.ASSUMPTIONS`.
    rows
        The observer whose rows of `visibility` are these; "": its own.
    """

    observer: str
    unit: str = RECORD
    sensitivity: np.ndarray | float = 1.0
    records: np.ndarray | int = 1
    noise: str = USERS
    assumes: tuple[str, ...] = ()
    rows: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """By which it is found among others: observer, unit, noise."""
        return self.observer, self.unit, self.noise


class Account(NamedTuple):
    """What a claim's losses cost each user, at `delta`.

    Arrays have shape (realization, user): whether there are any, rho, epsilon and what kind of a number that is. `view`
    has the observer's rows of `observers`; `record_losses` are those of one record.
    """

    claim: Claim
    delta: float
    view: pl.DataFrame
    there: np.ndarray
    rho: np.ndarray
    epsilon: np.ndarray
    kind: np.ndarray
    record_losses: Losses | None = None

    @property
    def losses(self) -> Losses:
        """Those of one record, where epsilon follows from them."""
        assert self.record_losses is not None
        return self.record_losses


class Release(Protocol):
    """What hides a record, of which epsilons are known."""

    @property
    def sampling(self) -> str:
        """What sampling of records or users its epsilons count."""
        ...

    def attack_rate(self, account: Account, worst: np.ndarray) -> np.ndarray | float:
        """The largest rate of true positives of any attack on one user of each realization, at FALSE_POSITIVES.

        Shape (realization,); NaN where no more is known than one (epsilon, delta).
        """
        ...


class Mechanism(Release, Protocol):
    """How rounds hide a record: it alone says what losses are worth."""

    def worth(self, losses: Losses, claim: Claim, delta: float) -> tuple[np.ndarray, np.ndarray | Kind]:
        """Each user's epsilon, (realization, user), and its kind, of losses of one record; `claim` says of how many."""
        ...


class Gaussian(NamedTuple):
    """Every record is in each of its user's messages: rounds are Gaussian mechanisms."""

    sampling: str = "none"

    def worth(self, losses: Losses, claim: Claim, delta: float) -> tuple[np.ndarray, Kind]:
        """By rho of all rounds."""
        return labels.labeled(exact_epsilon, losses.moved(claim.records).rho, delta)

    def attack_rate(self, account: Account, worst: np.ndarray) -> np.ndarray:
        """By rho of all rounds."""
        return gaussian.attack_rate(account.rho[np.arange(len(worst)), worst], FALSE_POSITIVES)


def losses(
    tables: dict[str, pl.DataFrame], observer: str, sensitivity: np.ndarray | float, users_only: bool = False
) -> Losses:
    """What an observer's view costs users, against all noise or users' alone.

    `sensitivity` is a number, or of each user, (realization, user).
    """
    return shown(tables, observer)[0][USERS if users_only else ALL].moved(sensitivity)


def shown(
    tables: dict[str, pl.DataFrame], observer: str, users: int | None = None
) -> tuple[dict[str, Losses], np.ndarray]:
    """Losses of a sensitivity of 1, by whose noise counts, and of which users any row tells, (realization, user).

    Of `users` users; None: those of the table.
    """
    rows, holders = tables["visibility"].filter(observer=observer), tables["users"]
    realizations = holders["realization"].unique().sort()
    interval = rows["interval"].to_numpy()
    count = int(interval.max(initial=0)) + 1  # of an interval in which nobody sends, no row tells
    length = np.ones(count, int)
    length[interval] = rows["rounds"].to_numpy()
    realization, user = realizations.search_sorted(rows["realization"]).to_numpy(), rows["user"].to_numpy()
    there = np.zeros((len(realizations), users or holders["user"].n_unique()), bool)
    np.logical_or.at(there, (realization, user), rows["visibility"].is_not_null().to_numpy())
    priced = {}
    for noise, column in ((ALL, "visibility"), (USERS, "visibility_users_only")):
        mu = np.zeros((len(there), count, there.shape[1]))
        mu[realization, interval, user] = rows[column].cast(pl.Float64).to_numpy()
        priced[noise] = Losses(mu, length)
    return priced, there


def price_each_user(losses: Losses, price: Callable) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Price each user's rounds, pairs of a noise multiplier and how many have it: (realization, user).

    `price` returns an epsilon, its kind and a rate, and is asked once of those who are alike.
    """
    realizations, _, users = losses.mu.shape
    epsilon, kind, rate = (np.zeros((realizations, users), dtype) for dtype in (float, int, float))
    known: dict[tuple, tuple] = {}
    for place in np.ndindex(realizations, users):
        mu = losses.mu[place[0], :, place[1]]
        seen = mu > 0
        if not seen.any():
            continue
        values, index = np.unique(np.round(np.log(mu[seen]) / ALIKE), return_inverse=True)
        rounds = np.bincount(index, losses.rounds[seen]).astype(int)
        multipliers = [1 / mu[seen][index == k].max() for k in range(len(values))]
        key = tuple(zip(multipliers, rounds.tolist(), strict=True))
        if key not in known:
            known[key] = price(key)
        epsilon[place], kind[place], rate[place] = known[key]
    return epsilon, kind, rate


def accounts(
    tables: dict[str, pl.DataFrame],
    claims: Iterable[Claim],
    mechanism: Mechanism,
    delta: float,
    lost: float = 0.0,
    users: int | None = None,
) -> dict[tuple, Account]:
    """What claims on rows of `visibility` cost each user, by the claims' keys; of some `users`, or the table's.

    `lost` is the part of delta in which none of this holds.
    """
    priced, seen, views = {}, {}, {}
    for claim in claims:
        rows = claim.rows or claim.observer
        if rows not in seen:
            seen[rows] = shown(tables, rows, users)
        if claim.observer not in views:
            views[claim.observer] = view_of(tables["observers"], claim.observer)
        one, there = seen[rows]
        moved = one[claim.noise].moved(claim.sensitivity)
        priced[claim.key] = account(claim, moved, mechanism, delta, views[claim.observer], there, lost)
    return priced


def view_of(observers: pl.DataFrame, observer: str) -> pl.DataFrame:
    """An observer's rows of the table `observers`, by realization."""
    return observers.filter(observer=observer).sort("realization", maintain_order=True)


def account(
    claim: Claim,
    losses: Losses,
    mechanism: Mechanism,
    delta: float,
    view: pl.DataFrame,
    there: np.ndarray | bool = True,
    lost: float = 0.0,
) -> Account:
    """What losses of one record cost each user, as a claim has it; `view` is that of `view_of`.

    A value's kind is that of the mechanism's formula, weakened by that of the observer's view; where nothing is hidden
    it is exact.
    """
    epsilon, kind = mechanism.worth(losses, claim, delta - lost)
    kind = np.broadcast_to(kind | labels.numbers(view["kind"].to_numpy())[:, None], epsilon.shape)
    known = np.isfinite(claim.sensitivity).all()
    bare = np.isinf(losses.mu).any(axis=1) & known
    kind = np.where(bare, Kind.EXACT, kind | (Kind.EXACT if known else Kind.UPPER))
    rho = losses.moved(claim.records).rho
    return Account(claim, delta, view, np.broadcast_to(there, rho.shape), rho, epsilon, kind, losses)


def guarantees(accounts: dict[tuple, Account], mechanism: Release) -> pl.DataFrame:
    """The table `guarantees`: of each claim and realization, what the user who loses most has, with its label.

    The largest of several values may be too large where it is itself, and too small where any of them may be. It
    assumes what the observer's view and the sensitivity do, and the receivers' noise where less than what users add
    would not do; and trusts whom the view trusts.
    """
    parts = [_guarantee(accounts, account, mechanism) for account in accounts.values()]  # one frame at the end: faster
    table = pl.DataFrame({name: list(chain.from_iterable(part[name] for part in parts)) for name in parts[0]})
    return table.with_columns(
        pl.col("attack_rate", "rho").fill_nan(None),
        neighbouring_relation=pl.lit(REPLACE_ONE),
        sampling=pl.lit(mechanism.sampling),
    ).filter(np.concatenate([account.there.any(axis=1) for account in accounts.values()]))


def _guarantee(accounts: dict[tuple, Account], account: Account, mechanism: Release) -> dict[str, list]:
    """Columns of a claim's rows of `guarantees`."""
    claim, view, there = account.claim, account.view, account.there
    rows, worst = np.arange(len(there)), np.where(there, account.epsilon, -1.0).argmax(axis=1)
    epsilon = account.epsilon[rows, worst]
    others = np.bitwise_or.reduce(np.where(there, account.kind & (Kind.LOWER | Kind.CHANCE), 0), axis=1)
    users_only = accounts.get((claim.observer, claim.unit, USERS), account).epsilon
    counted = (there & (users_only > account.epsilon * (1 + ROUNDING))).any(axis=1)  # the receivers' noise
    assumes = [
        labels.together((*claim.assumes, *more.split(", "), labels.RECEIVER if counts else "")) if hidden else ""
        for more, counts, hidden in zip(view["assumes"], counted, np.isfinite(epsilon), strict=True)
    ]
    return {
        "realization": view["realization"].to_list(),
        "epsilon": epsilon.tolist(),
        "epsilon_kind": labels.words(account.kind[rows, worst] & Kind.UPPER | others).tolist(),
        "epsilon_assumes": assumes,
        "epsilon_trusts": view["trusts"].to_list(),
        "attack_rate": np.broadcast_to(mechanism.attack_rate(account, worst), rows.shape).tolist(),
        "rho": np.where(there, account.rho, 0.0).max(axis=1).tolist(),
        **{name: [value] * len(rows) for name, value in zip(KEY, claim.key, strict=True)},
        "delta": [account.delta] * len(rows),
    }


def guarantee(prefix: str = "epsilon") -> pl.Expr:
    """What the columns of an epsilon and its label come to, of `labels.GUARANTEES`; null where nobody sends."""
    stands = pl.col(prefix).is_finite() & pl.col(f"{prefix}_kind").is_in(["exact", "upper bound"])
    estimated = pl.col(prefix).is_finite() & (pl.col(f"{prefix}_kind") == "estimated")
    free = pl.col(f"{prefix}_assumes") == ""
    return (
        pl.when(pl.col(prefix).is_null())
        .then(None)
        .when(stands & free)
        .then(pl.lit(labels.PROVED))
        .when(stands | estimated)
        .then(pl.lit(labels.CONDITIONAL))
        .otherwise(pl.lit(labels.NONE))
    )


def stated(
    table: pl.DataFrame,
    observers: pl.DataFrame,
    declared: str,
    noise: str = USERS,
    server_noise: str | None = None,
    keys: Sequence[str] = ("realization",),
) -> pl.DataFrame:
    """Columns of `outcome`, a row a realization in which anybody sends: epsilons and what they are, of `guarantees`.

    Of a record and of a user against the `declared` observer, and of a record against the server: whom it can be taken
    for where those whom the observer's view trusts may fail. `noise` says whose counts, and `server_noise` whose
    against the server, if not the same.
    """
    ((server,), (receives,)) = (observers.filter(observer=declared)[name].unique() for name in ("weaker", "receives"))
    outcome, label = table.select(keys).unique(maintain_order=True), ("epsilon", "epsilon_kind", "epsilon_assumes")
    for name, key, more in (
        ("epsilon", (declared, RECORD, noise), ("epsilon_trusts", "attack_rate", "sampling")),
        ("epsilon_user", (declared, USER, noise), ()),
        ("epsilon_server", (server, RECORD, server_noise or noise), (pl.col("rho").alias("rho_server"),)),
    ):
        rows = table.filter(**dict(zip(KEY, key, strict=True)))
        columns = (pl.col(source).alias(source.replace("epsilon", name)) for source in label)
        outcome = outcome.join(rows.select(*keys, *columns, *more), on=keys, how="left", maintain_order="left")
    return outcome.with_columns(guarantee=guarantee(), observer=pl.lit(receives))
