"""What systems with a linear air say alike: their tables `leakage`, `outcome` and `guarantees`, made of tables."""

from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from pwfl.privacy import accountant
from pwfl.privacy.accountant import RECORD, REPLACE_ONE, USER, USERS, Account, Claim, Mechanism
from pwfl.tables.arrays import to_table


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
    observer. `noise` and `server_noise` are those of `accountant.stated`, and `terms` columns of `outcome`.
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
    return {"leakage": rows, "outcome": outcome(parts, {"delta": delta, **terms}), "guarantees": guarantees}


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
