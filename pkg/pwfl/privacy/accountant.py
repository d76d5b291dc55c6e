"""What rounds that a table `visibility` tells of cost, and what kind of a number that is: the one call of all accounts.

A replaced record moves a user's message by a learner's `sensitivity` at most, so a round is a Gaussian mechanism of
mu = sensitivity visibility; mu^2 of rounds add. Where a record is in a round's message by chance, or messages are
integers, another mechanism says what rounds are worth (`sampled.Batches`, `multicell.beyond.integers`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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

    def of(self, rows: np.ndarray, users: np.ndarray) -> Losses:
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

    Arrays have shape (realization, user): whether there are any, rho, epsilon and what kind of a number that is.
    `found` are those of one record.
    """

    claim: Claim
    delta: float
    there: np.ndarray
    rho: np.ndarray
    epsilon: np.ndarray
    kind: np.ndarray
    found: Losses | None = None


class Mechanism(Protocol):
    """How rounds hide a record: it alone says what losses are worth."""

    sampling: str  # what sampling of records or users its epsilons count

    def worth(self, found: Losses, claim: Claim, delta: float) -> tuple[np.ndarray, np.ndarray | Kind]:
        """Each user's epsilon, (realization, user), and its kind, of losses of one record; `claim` says of how many."""
        ...

    def attack_rate(self, account: Account, worst: np.ndarray) -> np.ndarray | float:
        """The largest rate of true positives of any attack on one user of each realization, at FALSE_POSITIVES.

        Shape (realization,); NaN where no more is known than one (epsilon, delta).
        """
        ...


class Gaussian(NamedTuple):
    """Every record is in each of its user's messages: rounds are Gaussian mechanisms."""

    sampling: str = "none"

    def worth(self, found: Losses, claim: Claim, delta: float) -> tuple[np.ndarray, Kind]:
        """By rho of all rounds."""
        return labels.labeled(exact_epsilon, of_records(found, claim).rho, delta)

    def attack_rate(self, account: Account, worst: np.ndarray) -> np.ndarray:
        """By rho of all rounds."""
        return gaussian.attack_rate(account.rho[np.arange(len(worst)), worst], FALSE_POSITIVES)


def losses(
    tables: dict[str, pl.DataFrame],
    observer: str,
    sensitivity: np.ndarray | float,
    users_only: bool = False,
    users: int | None = None,
) -> Losses:
    """What an observer's view costs `users` users (None: those of the table), against all noise or users' alone.

    `sensitivity` is a number, or of each user, (realization, user).
    """
    rows, own = tables["visibility"].filter(observer=observer), tables["users"]
    realizations = own["realization"].unique().sort()
    rounds = rows.group_by("interval").agg(pl.col("rounds").first())
    count = int(rows["interval"].max() or 0) + 1  # ty: ignore  # of an interval in which nobody sends, no row tells
    length = np.ones(count, int)
    length[rounds["interval"].to_numpy()] = rounds["rounds"].to_numpy()
    mu = np.zeros((len(realizations), count, users or own["user"].n_unique()))
    realization, user = realizations.search_sorted(rows["realization"]).to_numpy(), rows["user"].to_numpy()
    column = "visibility_users_only" if users_only else "visibility"
    each = np.broadcast_to(sensitivity, (len(mu), mu.shape[2]))[realization, user]
    mu[realization, rows["interval"].to_numpy(), user] = each * rows[column].cast(pl.Float64).to_numpy()
    return Losses(mu, length)


def of_records(found: Losses, claim: Claim) -> Losses:
    """Losses if so many records are replaced: a message that sums over them moves by so many times as much."""
    records = np.asarray(claim.records)
    return found._replace(mu=found.mu * (records[:, None] if records.ndim else records))


def of_each_user(found: Losses, price: Callable) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What `price` says of each user's rounds, pairs of a noise multiplier and how many have it: (realization, user).

    `price` returns an epsilon, its kind and a rate, and is asked once of those who are alike.
    """
    realizations, _, users = found.mu.shape
    epsilon, kind, rate = (np.zeros((realizations, users), of) for of in (float, int, float))
    known: dict[tuple, tuple] = {}
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
    found = {}
    for claim in claims:
        rows = claim.rows or claim.observer
        seen = losses(tables, rows, claim.sensitivity, claim.noise == USERS, users)
        there = _there(tables, rows, (len(seen.mu), seen.mu.shape[2]))
        found[claim.key] = account(claim, seen, mechanism, delta, tables["observers"], there, lost)
    return found


def account(
    claim: Claim,
    found: Losses,
    mechanism: Mechanism,
    delta: float,
    observers: pl.DataFrame,
    there: np.ndarray | bool = True,
    lost: float = 0.0,
) -> Account:
    """What losses of one record cost each user, as a claim has it.

    A value's kind is that of the mechanism's formula, weakened by that of the observer's view; where nothing is hidden
    it is exact.
    """
    epsilon, kind = mechanism.worth(found, claim, delta - lost)
    view = observers.filter(observer=claim.observer).sort("realization", maintain_order=True)["kind"]
    kind = np.broadcast_to(kind | labels.numbers(view.to_numpy())[:, None], epsilon.shape)
    if np.isinf(claim.sensitivity).any():  # of which nothing is known
        kind = kind | Kind.UPPER
    bare = np.isinf(found.mu).any(axis=1) & np.isfinite(claim.sensitivity).all()
    rho = of_records(found, claim).rho
    return Account(claim, delta, np.broadcast_to(there, rho.shape), rho, epsilon, np.where(bare, 0, kind), found)


def _there(tables: dict[str, pl.DataFrame], rows: str, shape: tuple[int, ...]) -> np.ndarray:
    """Which users an observer's rows of `visibility` tell of, in any interval, boolean, of `shape`."""
    told = tables["visibility"].filter(pl.col("visibility").is_not_null(), observer=rows)
    found = np.zeros(shape, bool)
    realizations = tables["users"]["realization"].unique().sort()
    found[realizations.search_sorted(told["realization"]).to_numpy(), told["user"].to_numpy()] = True
    return found


def guarantees(observers: pl.DataFrame, found: dict[tuple, Account], mechanism: Mechanism) -> pl.DataFrame:
    """The table `guarantees`: of each claim and realization, what the user who loses most has, with its label.

    The largest of several values may be too large where it is itself, and too small where any of them may be. It
    assumes what the observer's view and the sensitivity do, and the receivers' noise where less than what users add
    would not do; and trusts whom the view trusts.
    """
    return pl.concat([_guarantee(observers, found, account, mechanism) for account in found.values()])


def _guarantee(
    observers: pl.DataFrame, found: dict[tuple, Account], account: Account, mechanism: Mechanism
) -> pl.DataFrame:
    claim, there = account.claim, account.there
    view = observers.filter(observer=claim.observer).sort("realization", maintain_order=True)
    rows, worst = np.arange(len(there)), np.where(there, account.epsilon, -1.0).argmax(axis=1)
    epsilon = account.epsilon[rows, worst]
    others = np.bitwise_or.reduce(np.where(there, account.kind & (Kind.LOWER | Kind.CHANCE), 0), axis=1)
    alone = found.get((claim.observer, claim.unit, USERS), account).epsilon
    counted = (there & (alone > account.epsilon * (1 + ROUNDING))).any(axis=1)  # the receivers' noise
    assumes = [
        labels.together((*claim.assumes, *more.split(", "), labels.RECEIVER if counts else "")) if hidden else ""
        for more, counts, hidden in zip(view["assumes"], counted, np.isfinite(epsilon), strict=True)
    ]
    table = view.select(
        "realization",
        **{name: pl.lit(of) for name, of in zip(("observer", "unit", "noise_from"), claim.key, strict=True)},
        epsilon=epsilon,
        epsilon_kind=pl.Series(labels.words(account.kind[rows, worst] & Kind.UPPER | others).tolist()),
        epsilon_assumes=pl.Series(assumes, dtype=pl.String),
        epsilon_trusts="trusts",
        attack_rate=np.broadcast_to(mechanism.attack_rate(account, worst), rows.shape),
        rho=np.where(there, account.rho, 0.0).max(axis=1),
        delta=pl.lit(account.delta),
        neighbouring_relation=pl.lit(REPLACE_ONE),
        sampling=pl.lit(mechanism.sampling),
    )
    return table.with_columns(pl.col("attack_rate", "rho").fill_nan(None)).filter(np.any(there, axis=1))


def guarantee(of: str = "epsilon") -> pl.Expr:
    """What the columns of an epsilon and its label come to, of `labels.GUARANTEES`; null where nobody sends."""
    stands = pl.col(of).is_finite() & pl.col(f"{of}_kind").is_in(["exact", "upper bound"])
    estimated = pl.col(of).is_finite() & (pl.col(f"{of}_kind") == "estimated")
    free = pl.col(f"{of}_assumes") == ""
    return (
        pl.when(pl.col(of).is_null())
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
    of_server: str | None = None,
    keys: Sequence[str] = ("realization",),
) -> pl.DataFrame:
    """Columns of `outcome`, a row a realization in which anybody sends: epsilons and what they are, of `guarantees`.

    Of a record and of a user against the `declared` observer, and of a record against the server: whom it can be taken
    for where those whom the observer's view trusts may fail. `noise` says whose counts, and `of_server` whose against
    the server, if not the same.
    """
    ((server,), (receives,)) = (observers.filter(observer=declared)[of].unique() for of in ("weaker", "receives"))
    found = table.select(keys).unique(maintain_order=True)
    named = {"epsilon": (declared, RECORD), "epsilon_user": (declared, USER), "epsilon_server": (server, RECORD)}
    for name, (observer, unit) in named.items():
        columns = {"epsilon": name, "epsilon_kind": f"{name}_kind", "epsilon_assumes": f"{name}_assumes"}
        if name == "epsilon":
            columns |= {of: of for of in ("epsilon_trusts", "attack_rate", "sampling")}
        elif name == "epsilon_server":
            columns |= {"rho": "rho_server"}
        counted = of_server if name == "epsilon_server" and of_server else noise
        own = table.filter(observer=observer, unit=unit, noise_from=counted)
        own = own.select(*keys, *(pl.col(of).alias(name) for of, name in columns.items()))
        found = found.join(own, on=keys, how="left", maintain_order="left")
    return found.with_columns(guarantee=guarantee(), observer=pl.lit(receives))


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
