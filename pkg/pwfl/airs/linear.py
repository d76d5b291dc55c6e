"""Tables of systems with a linear air interface: of the stage `receive` if users send in slots, and of `account`."""

from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from pwfl.airs import air
from pwfl.privacy import accountant
from pwfl.privacy.accountant import RECORD, REPLACE_ONE, USER, USERS, Account, Claim, Mechanism
from pwfl.tables.arrays import to_table
from pwfl.tables.contract import ALWAYS_PUBLIC
from pwfl.tables.reception import EMPTY

EVERY_ROUND = {"local_steps": 1.0, "taken_as_public": ALWAYS_PUBLIC}  # terms, unless a system has others


def receive_slots(rows: pl.DataFrame, size: int, observers: Mapping[str, air.Observer]) -> dict[str, pl.DataFrame]:
    """Make the tables of a stage `receive` if users send in slots, one symbol per coordinate.

    Each round is an interval.

    `seconds` and `joules` are null: there is no bandwidth, and powers have no unit.

    Parameters
    ----------
    rows
        One row per realization, round, slot and active user, with the columns `weight`, `user_noise_std`,
        `update_noise_std` (the round's), and `visibility` and `visibility_users_only` to the only observer.
    size
        Number of coordinates of a message.
    observers
        The only observer, by name.
    """
    keys, (observer,) = ("realization", "interval"), observers
    rows = rows.with_columns(interval="round", rounds=pl.lit(1, pl.Int64), observer=pl.lit(observer))
    shown = rows.select(*keys, "user", "rounds", "observer", "visibility", "visibility_users_only")
    noise = rows.group_by(keys, maintain_order=True).agg(
        pl.col("rounds", "update_noise_std").first(),
        planned_noise_std=pl.col("update_noise_std").first(),
        planned_senders=pl.len().cast(pl.Int64),
        symbols=pl.col("slot").n_unique().cast(pl.Float64) * size,
        seconds=pl.lit(None, pl.Float64),
        joules=pl.lit(None, pl.Float64),
    )
    return {
        "reception": rows.select(*keys, "user", "weight", "user_noise_std", **EMPTY),
        "reception_noise": noise,
        "visibility": shown,
        "observers": air.table(observers, rows["realization"].unique().sort()),
    }


def account(
    tables: dict[str, pl.DataFrame],
    claims: Iterable[Claim],
    mechanism: Mechanism,
    delta: float,
    declared: str,
    terms: Mapping[str, object],
    noise: str = USERS,
    server_noise: str | None = None,
) -> dict[str, pl.DataFrame]:
    """Make the tables of a stage `account`: `leakage`, `outcome` and `guarantees`.

    Parameters
    ----------
    tables
        By name, `users` and those of `receive`.
    claims
        As in `accountant.accounts`. One must be on a record and one on a user against the declared observer.
    mechanism, delta
        As in `accountant.accounts`.
    declared
        The observer that the scenario assumes.
    terms
        Constant columns of `outcome`, in addition to those of EVERY_ROUND.
    noise, server_noise
        As in `accountant.stated`.

    Raises ValueError if one of the two claims against the declared observer is missing.
    """
    claims = list(claims)
    claimed = {claim.key for claim in claims}
    if lacking := [unit for unit in (RECORD, USER) if (declared, unit, noise) not in claimed]:
        raise ValueError(
            f"claims: none is on a {' or a '.join(lacking)} against {declared!r} with noise={noise!r}; add one for each"
        )
    accounts = accountant.accounts(tables, claims, mechanism, delta)
    guarantees = accountant.guarantees(accounts, mechanism)
    record, user = (accounts[declared, unit, noise] for unit in (RECORD, USER))
    rows = leakage(record, epsilon_user=user.epsilon)
    parts = (
        tables["users"].group_by("realization", maintain_order=True).agg(pl.col("samples").sum()),
        tables["reception_noise"].group_by("realization", maintain_order=True).agg(pl.col("rounds").sum()),
        spent(tables),
        rows.group_by("realization", maintain_order=True).agg(pl.col("rho").max()),
        accountant.stated(guarantees, tables["observers"], declared, noise, server_noise),
    )
    stated = outcome(parts, {"delta": delta, **EVERY_ROUND, **terms})
    return {"leakage": rows, "outcome": stated, "guarantees": guarantees}


def leakage(account: Account, **columns) -> pl.DataFrame:
    """Make the table `leakage`: rho, epsilon and `columns` of each user with messages that a claim's observer receives.

    `columns` are arrays of shape (realization, user).
    """
    keys = {"realization": account.view["realization"], "user": range(account.rho.shape[1])}
    return (
        to_table(keys, there=account.there, rho=account.rho, epsilon=account.epsilon, **columns)
        .filter("there")
        .drop("there")
    )


def outcome(parts: Sequence[pl.DataFrame], terms: Mapping[str, object]) -> pl.DataFrame:
    """Join tables to `outcome`, one row per realization of the first one, and add the constant columns `terms`.

    Of later tables, only columns that no earlier one has are added; they are null if the table lacks the realization.

    >>> samples = pl.DataFrame({"realization": [0, 1], "samples": [5, 6]})
    >>> stated = pl.DataFrame({"realization": [1], "samples": [0], "epsilon": [2.0]})
    >>> outcome([samples, stated], {"rounds": 3}).drop("neighbouring_relation").rows()
    [(0, 5, None, 3), (1, 6, 2.0, 3)]
    """
    table, *others = parts
    for part in others:
        new = [name for name in part.columns if name == "realization" or name not in table.columns]
        table = table.join(part.select(new), on="realization", how="left", maintain_order="left")
    same = {"neighbouring_relation": REPLACE_ONE, **terms}
    return table.with_columns(**{name: pl.lit(term) for name, term in same.items()})


def spent(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Compute channel uses, airtime (s) and radiated energy (J) of all rounds, columns of `outcome`.

    One row per realization; null if `reception_noise` has nulls.
    """
    columns = {"channel_uses": "symbols", "air_seconds": "seconds", "transmit_energy_j": "joules"}
    noise = tables["reception_noise"].sort("realization", "interval")
    shape = -1, noise["interval"].n_unique()  # every realization has all intervals

    def total(column: str) -> pl.Series:
        # One interval after the other, as in `history`: the order in which Polars sums a group can vary.
        per_interval = (noise[column].cast(pl.Float64) * noise["rounds"]).to_numpy().reshape(shape)
        return pl.Series(per_interval.cumsum(axis=1)[:, -1]).fill_nan(None)

    return pl.DataFrame(
        {"realization": noise["realization"].unique(maintain_order=True)}
        | {name: total(source) for name, source in columns.items()}
    )
