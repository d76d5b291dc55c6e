"""What systems with a linear air say alike: tables of `receive` where users send in slots, and those of `account`."""

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
    """The tables of a stage `receive`: each round is an interval, in whose slots users send a symbol per coordinate.

    `rows`, of (realization, round, slot, user), have `weight`, `user_noise_std`, `update_noise_std`, which is the
    round's, and `visibility` and `visibility_users_only` to the only observer. `size` is the number of coordinates.
    Seconds and joules are null: there is no bandwidth, and powers have no unit.
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
    """The tables of a stage `account`, of what `receive` made and of `users`.

    The claims are those of `accountant.accounts`; one is on a record and one on a user, against the `declared`
    observer. `noise` and `server_noise` are those of `accountant.stated`, and `terms` columns of `outcome`,
    beside EVERY_ROUND's.
    """
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
    """rho, epsilon and `columns`, (realization, user), of each user of whom a claim's observer sees anything."""
    keys = {"realization": account.view["realization"], "user": range(account.rho.shape[1])}
    return (
        to_table(keys, there=account.there, rho=account.rho, epsilon=account.epsilon, **columns)
        .filter("there")
        .drop("there")
    )


def outcome(parts: Sequence[pl.DataFrame], terms: Mapping[str, object]) -> pl.DataFrame:
    """A row for each realization of the first part: its columns, those that only later ones have, and `terms`.

    Where a later part has no row, its columns are null.

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
    """Each realization's symbols, seconds and joules of all rounds, columns of `outcome`; null where nothing counts."""
    columns = {"channel_uses": "symbols", "air_seconds": "seconds", "transmit_energy_j": "joules"}
    noise = tables["reception_noise"].sort("realization", "interval")
    shape = -1, noise["interval"].n_unique()  # every realization has all

    def total(column: str) -> pl.Series:
        # Round after round, as `history` adds up; Polars adds up groups in an order that depends on other realizations.
        per_interval = (noise[column].cast(pl.Float64) * noise["rounds"]).to_numpy().reshape(shape)
        return pl.Series(per_interval.cumsum(axis=1)[:, -1]).fill_nan(None)

    return pl.DataFrame(
        {"realization": noise["realization"].unique(maintain_order=True)}
        | {name: total(source) for name, source in columns.items()}
    )
