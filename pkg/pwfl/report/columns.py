"""Columns of a report's tables, whatever they are of: the terms of a guarantee, the values of swept parameters."""

from collections.abc import Sequence

import polars as pl

from pwfl.privacy.labels import CONDITIONAL, GUARANTEES, NONE, PROVED

TERMS = (
    *("delta", "unit", "neighbouring_relation", "sampling", "observer"),
    *("epsilon_kind", "epsilon_assumes", "epsilon_trusts", "epsilon_user_kind"),
)
SAID = {PROVED: "proved", CONDITIONAL: "conditional", NONE: "not guaranteed"}


def terms(outcome: pl.DataFrame, wanted: Sequence[str] = TERMS) -> pl.DataFrame:
    """The terms of each scheme's guarantee, a row a scheme, from a table of its realizations."""
    return outcome.group_by("scheme", maintain_order=True).agg(describe_terms(wanted))


def describe_terms(wanted: Sequence[str] = TERMS) -> pl.Expr:
    """The terms of realizations that are alike; where nobody sends, some say nothing."""
    return pl.col(wanted).drop_nulls().first()


def weakest(guarantee: str = "guarantee") -> pl.Expr:
    """The least that stands behind any of some epsilons, of `labels.GUARANTEES`; null: nobody sends in any."""
    return pl.col(guarantee).cast(pl.Enum(GUARANTEES)).max().cast(pl.String)


def in_words(row: dict) -> str:
    """What stands behind the epsilon of a row with `guarantee` and TERMS.

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
    """A table of schemes; if it has epsilons, with those TERMS that it lacks, from the table `realizations`."""
    lacking = [term for term in TERMS if term not in frame.columns]
    if not lacking or "scheme" not in frame.columns or not any(name.startswith("epsilon") for name in frame.columns):
        return frame
    return frame.join(terms(realizations, lacking), on="scheme", how="left", maintain_order="left")


def completed(frame: pl.DataFrame, kinds: dict[str, type[pl.DataType]]) -> pl.DataFrame:
    """A table with those columns that it lacks, null, of their types by name."""
    return frame.with_columns(
        pl.lit(None, kind).alias(name) for name, kind in kinds.items() if name not in frame.columns
    )


def total(values: pl.Expr) -> pl.Expr:
    """The sum of values; null where none is known."""
    return pl.when(values.count() > 0).then(values.sum())


def literals(values: dict) -> list[pl.Expr]:
    """Columns of a point's values; lists as text."""
    return [pl.lit(str(value) if isinstance(value, list) else value).alias(key) for key, value in values.items()]


def with_point(frames: dict[str, pl.DataFrame], point) -> dict[str, pl.DataFrame]:
    """A scenario's tables with columns of its values of what the study sweeps, `Study.point`, in front."""
    columns = literals(point.values)
    return {name: frame.select(*columns, pl.all()) for name, frame in frames.items()}
