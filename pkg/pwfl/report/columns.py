"""Columns that tables of a report share: the terms of a guarantee, and the values of swept parameters."""

from collections.abc import Sequence

import polars as pl

from pwfl.privacy.labels import CONDITIONAL, GUARANTEES, NONE, PROVED

TERMS = (
    *("delta", "unit", "neighbouring_relation", "sampling", "observer"),
    *("epsilon_kind", "epsilon_assumes", "epsilon_trusts", "epsilon_user_kind"),
)
SAID = {PROVED: "proved", CONDITIONAL: "conditional", NONE: "not guaranteed"}


def terms(outcome: pl.DataFrame, wanted: Sequence[str] = TERMS) -> pl.DataFrame:
    """Return the terms of each scheme's guarantee, one row per scheme, from a table of realizations."""
    return outcome.group_by("scheme", maintain_order=True).agg(describe_terms(wanted))


def describe_terms(wanted: Sequence[str] = TERMS) -> pl.Expr:
    """Return an expression for the terms of realizations with equal terms; some are null where nobody sends."""
    return pl.col(wanted).drop_nulls().first()


def weakest(guarantee: str = "guarantee") -> pl.Expr:
    """Return the weakest guarantee of several epsilons, one of `labels.GUARANTEES`; null: nobody sends in any."""
    return pl.col(guarantee).cast(pl.Enum(GUARANTEES)).max().cast(pl.String)


def in_words(row: dict) -> str:
    """Describe the guarantee of the epsilon in a row with `guarantee` and TERMS.

    >>> label = {"epsilon_kind": "exact", "epsilon_assumes": "", "epsilon_trusts": "secure aggregation"}
    >>> in_words(label | {"guarantee": "proved"})
    'proved (exact), trusting secure aggregation'
    >>> in_words(label | {"guarantee": "conditional", "epsilon_assumes": "Markov data", "epsilon_trusts": ""})
    'conditional (exact), assuming Markov data'
    """
    if row["guarantee"] is None:
        return "nobody sends"
    assumes = f", assuming {row['epsilon_assumes']}" if row["epsilon_assumes"] else ""
    trusts = f", trusting {row['epsilon_trusts']}" if row["epsilon_trusts"] else ""
    return f"{SAID[row['guarantee']]} ({row['epsilon_kind']}){assumes}{trusts}"


def with_terms(frame: pl.DataFrame, realizations: pl.DataFrame) -> pl.DataFrame:
    """Add the missing TERMS, from the table `realizations`, to a table of schemes if it has epsilons."""
    lacking = [term for term in TERMS if term not in frame.columns]
    if not lacking or "scheme" not in frame.columns or not any(name.startswith("epsilon") for name in frame.columns):
        return frame
    return frame.join(terms(realizations, lacking), on="scheme", how="left", maintain_order="left")


def completed(frame: pl.DataFrame, kinds: dict[str, type[pl.DataType]]) -> pl.DataFrame:
    """Add the columns that a table lacks, null, of the types that `kinds` maps their names to."""
    return frame.with_columns(
        pl.lit(None, kind).alias(name) for name, kind in kinds.items() if name not in frame.columns
    )


def total(values: pl.Expr) -> pl.Expr:
    """Return the sum of values; null if all are null."""
    return pl.when(values.count() > 0).then(values.sum())


def literals(values: dict) -> list[pl.Expr]:
    """Return constant columns of a point's values by name; lists become text."""
    return [pl.lit(str(value) if isinstance(value, list) else value).alias(key) for key, value in values.items()]


def with_point(frames: dict[str, pl.DataFrame], point) -> dict[str, pl.DataFrame]:
    """Add columns with a scenario's values of the swept parameters (`Study.point`) at the left of its tables."""
    columns = literals(point.values)
    return {name: frame.select(*columns, pl.all()) for name, frame in frames.items()}
