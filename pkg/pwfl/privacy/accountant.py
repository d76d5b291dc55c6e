"""Compute the privacy loss of all rounds from the table `visibility`, for every system's stage `account`.

Replacing a record moves a user's message by at most a learner's `sensitivity`. A round is then a Gaussian mechanism of
mu = sensitivity visibility, where visibility is weight / noise standard deviation of what the observer receives. mu^2
adds up over rounds, rho = mu^2 / 2 (zero-concentrated DP, zCDP). If records are sampled at random, or messages are
integers, another `Mechanism` computes epsilon (`sampled.Batches`, `multicell.beyond.integers`).

Every epsilon has a `labels.Kind`: exact, a bound, or an estimate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from typing import NamedTuple, Protocol

import numpy as np
import polars as pl

from pwfl.privacy import gaussian, labels
from pwfl.privacy.gaussian import exact_epsilon, zcdp
from pwfl.privacy.labels import Kind

ROUNDING = 1e-9  # relative difference up to which epsilons are treated as equal
FALSE_POSITIVES = 0.01  # false-positive rate of the attack whose true-positive rate is stated
RECORD, USER = "record", "user"  # units of privacy
USERS, ALL = "users", "users and receivers"  # whose noise counts
REPLACE_ONE = "replace-one"
KEY = ("observer", "unit", "noise_from")  # columns that identify a row of `guarantees` within a realization


class Losses(NamedTuple):
    """mu of each user's messages, by interval.

    Attributes
    ----------
    mu
        Sensitivity / noise standard deviation of a round, shape (realization, interval, user): 0 if the user does not
        send, NaN if no noise is feasible, infinite without noise.
    rounds
        Number of rounds of each interval, shape (interval,).
    """

    mu: np.ndarray
    rounds: np.ndarray

    @property
    def rho(self) -> np.ndarray:
        """rho = sum of mu^2 / 2 over all rounds (zCDP), shape (realization, user); NaN counts as 0."""
        mu = np.nan_to_num(self.mu, nan=0.0, posinf=np.inf)
        with np.errstate(over="ignore"):  # overflow is infinite, as without noise
            return zcdp(mu, 1.0, self.rounds[:, None]).sum(axis=1)

    @property
    def multiplier(self) -> float:
        """The smallest noise multiplier 1 / mu of all rounds and users; 0 without noise, infinite if nobody sends."""
        largest = self.mu.max(initial=0.0)
        return 1 / largest if largest > 0 else np.inf

    def moved(self, by: np.ndarray | float) -> Losses:
        """Multiply mu by a factor: a number, or one per user, shape (realization, user); 0 stays 0."""
        factor = np.asarray(by)
        with np.errstate(invalid="ignore"):  # 0 times infinity, which `where` leaves at 0
            return self._replace(
                mu=np.where(self.mu > 0, self.mu * (factor[:, None] if factor.ndim else factor), self.mu)
            )

    def select_users(self, rows: np.ndarray, users: np.ndarray) -> Losses:
        """Select user `users[j]` of realization `rows[j]` for each j: mu of shape (j, interval, 1)."""
        return self._replace(mu=self.mu[rows, :, users][..., None])


class Claim(NamedTuple):
    """What an epsilon is computed for.

    Attributes
    ----------
    observer
        The observer, as in the table `observers`.
    unit
        What is protected: a RECORD, all records of a USER, or a name that the system defines.
    sensitivity
        L2 norm by which replacing one record moves a message, at most: a number, or one per user, shape (realization,
        user).
    records
        Number of records that are replaced, each of which moves it that far: a number, or one per user, shape
        (realization, user).
    noise
        Whose noise counts, USERS or ALL.
    assumes
        Assumptions of the sensitivity, of `labels.ASSUMPTIONS`.
    rows
        The observer whose rows of `visibility` are used; "": `observer`.
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
        """Its key in `accounts`: observer, unit, noise."""
        return self.observer, self.unit, self.noise


class Account(NamedTuple):
    """Each user's rho and epsilon for a claim.

    Attributes
    ----------
    claim
        What they are computed for.
    delta
        The delta of epsilon.
    view
        The observer's rows of the table `observers`, one per realization.
    there
        Whether the user has any row in `visibility`, boolean, shape (realization, user).
    rho
        zCDP after all rounds, shape (realization, user).
    epsilon
        epsilon after all rounds, shape (realization, user).
    kind
        `labels.Kind` of each epsilon, int, shape (realization, user).
    record_losses
        mu of one record; None: epsilon does not follow from it.
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
        """mu of one record, for accounts whose epsilon follows from it."""
        assert self.record_losses is not None
        return self.record_losses


class Release(Protocol):
    """A mechanism whose epsilons are already known, as `guarantees` needs it."""

    @property
    def sampling(self) -> str:
        """Which sampling of records or users its epsilons use, a value of the column `sampling`."""
        ...

    def attack_rate(self, account: Account, worst: np.ndarray) -> np.ndarray | float:
        """Compute the largest true-positive rate of any attack with false-positive rate FALSE_POSITIVES.

        The attack is on user `worst[r]` of realization r, shape (realization,), as is the result; NaN if nothing is
        known beyond one (epsilon, delta).
        """
        ...


class Mechanism(Release, Protocol):
    """A mechanism that computes epsilon from mu of the rounds."""

    def worth(self, losses: Losses, claim: Claim, delta: float) -> tuple[np.ndarray, np.ndarray | Kind]:
        """Compute each user's epsilon at `delta`, shape (realization, user), and its kind.

        `losses` are of one record; `claim.records` is the number of records that are replaced.
        """
        ...


class Gaussian(NamedTuple):
    """The Gaussian mechanism: every record is in each of its user's messages."""

    sampling: str = "none"

    def worth(self, losses: Losses, claim: Claim, delta: float) -> tuple[np.ndarray, Kind]:
        """Compute epsilon from rho of all rounds (`gaussian.exact_epsilon`)."""
        return labels.labeled(exact_epsilon, losses.moved(claim.records).rho, delta)

    def attack_rate(self, account: Account, worst: np.ndarray) -> np.ndarray:
        """Compute the rate from rho of all rounds (`gaussian.attack_rate`)."""
        return gaussian.attack_rate(account.rho[np.arange(len(worst)), worst], FALSE_POSITIVES)


def losses(
    tables: dict[str, pl.DataFrame], observer: str, sensitivity: np.ndarray | float, users_only: bool = False
) -> Losses:
    """Compute mu of each user's messages against an observer, from the table `visibility`.

    `sensitivity` is a number, or one per user, shape (realization, user). `users_only`: only users' noise counts, not
    the receivers'.
    """
    return shown(tables, observer)[0][USERS if users_only else ALL].moved(sensitivity)


def shown(
    tables: dict[str, pl.DataFrame], observer: str, users: int | None = None
) -> tuple[dict[str, Losses], np.ndarray]:
    """Read an observer's visibilities from the table `visibility`: mu for a sensitivity of 1.

    Returns `Losses` by whose noise counts (ALL, USERS), and whether a user has any row, boolean, shape (realization,
    user). `users` is the number of users; None: that of the table `users`.
    """
    rows, holders = tables["visibility"].filter(observer=observer), tables["users"]
    realizations = holders["realization"].unique().sort()
    interval = rows["interval"].to_numpy()
    count = int(interval.max(initial=0)) + 1  # intervals in which nobody sends have no rows
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


def accounts(
    tables: dict[str, pl.DataFrame],
    claims: Iterable[Claim],
    mechanism: Mechanism,
    delta: float,
    lost: float = 0.0,
    users: int | None = None,
) -> dict[tuple, Account]:
    """Compute the accounts of claims from the table `visibility`, by the claims' keys (`Claim.key`).

    Parameters
    ----------
    tables
        By name; `visibility`, `users` and `observers` are used.
    claims
        What to compute.
    mechanism
        Computes epsilon.
    delta
        The delta of epsilon.
    lost
        Part of delta spent on events in which nothing is private; epsilon is computed at `delta - lost`.
    users
        Number of users; None: that of the table `users`.
    """
    seen = cache(lambda observer: shown(tables, observer, users))
    view = cache(lambda observer: view_of(tables["observers"], observer))
    priced = {}
    for claim in claims:
        one, there = seen(claim.rows or claim.observer)
        moved = one[claim.noise].moved(claim.sensitivity)
        priced[claim.key] = account(claim, moved, mechanism, delta, view(claim.observer), there, lost)
    return priced


def view_of(observers: pl.DataFrame, observer: str) -> pl.DataFrame:
    """Select an observer's rows of the table `observers`, sorted by realization."""
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
    """Compute the account of a claim from mu of one record.

    The kind of an epsilon is that of the mechanism's formula, weakened by that of the observer's view; without noise,
    epsilon is infinite and exact.

    Parameters
    ----------
    claim, mechanism, delta, lost
        As in `accounts`.
    losses
        mu of one record.
    view
        The observer's rows of the table `observers` (`view_of`).
    there
        Whether a user has any row in `visibility`, boolean, shape (realization, user).
    """
    epsilon, kind = mechanism.worth(losses, claim, delta - lost)
    kind = np.broadcast_to(kind | labels.numbers(view["kind"].to_numpy())[:, None], epsilon.shape)
    known = np.isfinite(claim.sensitivity).all()
    bare = np.isinf(losses.mu).any(axis=1) & known
    kind = np.where(bare, Kind.EXACT, kind | (Kind.EXACT if known else Kind.UPPER))
    rho = losses.moved(claim.records).rho
    return Account(claim, delta, view, np.broadcast_to(there, rho.shape), rho, epsilon, kind, losses)


def guarantees(accounts: dict[tuple, Account], mechanism: Release) -> pl.DataFrame:
    """Make the table `guarantees`: for each claim and realization, the most exposed user's epsilon, with its label.

    The maximum over users is an upper bound if the largest value is one, and a lower bound (or an estimate) if any
    value is. Its assumptions are those of the observer's view and of the sensitivity, and the receivers' noise if
    epsilon would be larger without it. Whom it trusts is the view's.
    """
    parts = [_guarantee(accounts, account, mechanism) for account in accounts.values()]  # one frame at the end: faster
    table = pl.DataFrame({name: list(chain.from_iterable(part[name] for part in parts)) for name in parts[0]})
    return table.with_columns(
        pl.col("attack_rate", "rho").fill_nan(None),
        neighbouring_relation=pl.lit(REPLACE_ONE),
        sampling=pl.lit(mechanism.sampling),
    ).filter(np.concatenate([account.there.any(axis=1) for account in accounts.values()]))


def _guarantee(accounts: dict[tuple, Account], account: Account, mechanism: Release) -> dict[str, list]:
    """Compute the columns of a claim's rows of `guarantees`."""
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
    """Return an expression for the guarantee of an epsilon, one of `labels.GUARANTEES`; null if nobody sends.

    `prefix` is the name of the column of epsilon; `_kind` and `_assumes` are appended for those of its label.
    """
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
    """Select from `guarantees` the columns of `outcome` on privacy, one row per realization in which anybody sends.

    These are epsilon of a record and of a user against the declared observer, and of a record against the server, the
    observer that remains if those whom the declared one trusts fail (`Observer.weaker`).

    Parameters
    ----------
    table
        The table `guarantees`.
    observers
        The table `observers`.
    declared
        The observer that the scenario assumes.
    noise
        Whose noise counts against it, USERS or ALL.
    server_noise
        Whose noise counts against the server; None: `noise`.
    keys
        Columns that identify a row of `outcome`.
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
