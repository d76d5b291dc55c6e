"""How a study's claims came out: one verdict of each, in however many scenarios it was measured."""

import polars as pl

from pwfl.report.claims import INCONCLUSIVE, NOT_MEASURED, REFUTED, SUPPORTED

DEPENDS = "depends on interpretation"
SIGNS = {SUPPORTED: "✓", REFUTED: "✗", DEPENDS: "±", INCONCLUSIVE: "?", NOT_MEASURED: "-", None: "·"}
OUTCOMES = SUPPORTED, REFUTED, INCONCLUSIVE, DEPENDS, NOT_MEASURED


def judged(claims: pl.DataFrame) -> pl.DataFrame:
    """A row for each claim of a table of claims: `system`, `origin`, `claim`, `statement`, `verdict` and `outcome`.

    A paper's claim that was measured in other settings alone has no verdict. `outcome` says in how many cases it came
    out otherwise; a case is a row.
    """
    keys = ("system", "origin", "claim", "statement")
    rows = [
        (*key, verdict := judge(group["verdict"].to_list(), group["interpretation"].to_list()), outcome(group, verdict))
        for key, group in claims.group_by(keys, maintain_order=True)
    ]
    return pl.DataFrame(rows, schema=dict.fromkeys((*keys, "verdict", "outcome"), pl.String), orient="row")


def judge(verdicts: list[str | None], interpretations: list[str | None]) -> str | None:
    """The verdict of a claim, of those of its rows and of the interpretations that these are measured under.

    It has to hold in each: refuted in one is refuted. Supported as this project interprets the paper, and refuted as it
    might be interpreted as well, depends on that. Null, outside of the paper's setting, does not count.

    >>> judge(["supported", "refuted", "supported"], [None, None, None])
    'refuted'
    >>> judge(["supported", "refuted"], [None, "I4: training.clipping per_user"])
    'depends on interpretation'
    >>> judge(["supported", "inconclusive", None], [None, None, None])
    'inconclusive'
    """
    known = [(verdict, reading) for verdict, reading in zip(verdicts, interpretations, strict=True) if verdict]
    chosen = {verdict for verdict, reading in known if reading is None}
    others = {verdict for verdict, reading in known if reading is not None}
    order = (REFUTED, INCONCLUSIVE, NOT_MEASURED, SUPPORTED)
    worst = next((kind for kind in order if kind in (chosen or others)), None)
    if chosen and {worst, *others} >= {SUPPORTED, REFUTED}:
        return DEPENDS
    return INCONCLUSIVE if worst == SUPPORTED and INCONCLUSIVE in others else worst


def outcome(rows: pl.DataFrame, verdict: str | None) -> str:
    """In how many of a claim's rows it came out otherwise than supported; just its verdict where it is one row's."""
    counted = rows.filter(pl.col("verdict").is_not_null())
    if len(counted) < 2 or verdict in (None, SUPPORTED):
        return verdict or "measured outside the paper's setting"
    counts = {kind: (counted["verdict"] == kind).sum() for kind in (REFUTED, INCONCLUSIVE, NOT_MEASURED)}
    otherwise = ", ".join(f"{kind} in {count}" for kind, count in counts.items() if count)
    cases = f"{otherwise} of {len(counted)} cases"
    return f"{DEPENDS}: {cases}" if verdict == DEPENDS else cases
