"""Count realizations with no user scheduled: their model learns nothing, but its accuracy counts in means.

With each mean, reports contain their number, and that of realizations that diverged, which means of training results
leave out. Tables of realizations have the column COLUMN, by which they can be filtered.
"""

import textwrap

import polars as pl

COLUMN, DIVERGED = "no_user_scheduled", "diverged"
STATUSES = ("no_user_scheduled", "nobody_took_part")  # of a training run, or of each of its rounds
INCLUDED = "means include realizations with no user scheduled"
LEFT_OUT = "left out, as no user is scheduled"
LINE_LENGTH = 90  # characters of a subtitle's lines


def find_unscheduled(history: pl.DataFrame) -> pl.DataFrame:
    """Find where no user was scheduled, by scheme and realization of a history: `scheme`, `realization` and COLUMN."""
    status = pl.col("status").cast(pl.String)
    groups = history.group_by("scheme", "realization", maintain_order=True)
    return groups.agg(status.is_in(STATUSES).all().alias(COLUMN))


def known(table: pl.DataFrame) -> pl.DataFrame:
    """Return a table of realizations with COLUMN: false if it is missing, as all users of that system take part."""
    return table if COLUMN in table.columns else table.with_columns(pl.lit(value=False).alias(COLUMN))


def count(column: str) -> pl.Expr:
    """Return an expression for the number of realizations in a column's mean that have no user scheduled."""
    return (pl.col(column).is_not_null() & pl.col(COLUMN)).sum().cast(pl.Int64)


def counted(table: pl.DataFrame) -> pl.DataFrame:
    """Count by scheme: `scheme`, `realizations`, and in COLUMN the number of these with no user scheduled.

    Realizations in which COLUMN is null, as they were not trained, do not count.
    """
    groups = table.group_by("scheme", maintain_order=True)
    return groups.agg(pl.col(COLUMN).count().alias("realizations"), pl.col(COLUMN).sum())


def share(row: dict) -> str:
    """Describe a row with `realizations` and COLUMN; '' if no realization is without a scheduled user.

    >>> share({"realizations": 10, "no_user_scheduled": 3}), share({"realizations": 10, "no_user_scheduled": 0})
    ('no user scheduled in 3 of 10 realizations', '')
    """
    total = row["realizations"]
    noun = "realization" if total == 1 else "realizations"
    return f"no user scheduled in {row[COLUMN]} of {total} {noun}" if row[COLUMN] else ""


def diverged(outcomes: pl.DataFrame) -> list[str]:
    """Return a subtitle's lines on schemes with realizations that diverged, from rows of a study's `outcomes`."""
    counts = outcomes.with_columns((pl.col("realizations") + pl.col(DIVERGED)).alias("realizations"))
    return lines(counts, "left out, as training diverged", column=DIVERGED)


def lines(counts: pl.DataFrame, words: str = INCLUDED, column: str = COLUMN) -> list[str]:
    """Return a subtitle's lines on the schemes with a positive number in `column`; empty if there are none.

    `counts` has rows as from `counted`, several of a scheme if several points are drawn.
    """
    parts = []
    for (scheme,), rows in counts.filter(pl.col(column) > 0).group_by("scheme", maintain_order=True):
        worst = rows.sort(column, maintain_order=True).row(-1, named=True)
        upto = "up to " if len(counts.filter(scheme=scheme).unique([column, "realizations"])) > 1 else ""
        parts.append(f"{scheme}, {upto}{worst[column]} of {worst['realizations']}")
    return textwrap.wrap(f"{words}: {'; '.join(parts)}", LINE_LENGTH) if parts else []
