"""Combine the verdicts of a study's claims: one for each claim, over all scenarios and interpretations."""

import re
from collections.abc import Mapping, Sequence
from math import ceil, inf

import polars as pl

from pwfl.report.claims import INCONCLUSIVE, NOT_MEASURED, REFUTED, SUPPORTED

NUMBER = re.compile(r"-?[\d.]+(?:e[-+]?\d+)?")
DECIDING = 10  # multiple of the realizations up to which the number that would decide a claim is estimated
DEPENDS = "depends on interpretation"
SIGNS = {SUPPORTED: "✓", REFUTED: "✗", DEPENDS: "±", INCONCLUSIVE: "?", NOT_MEASURED: "-", None: "·"}
ORDER = REFUTED, DEPENDS, INCONCLUSIVE, NOT_MEASURED, SUPPORTED  # of verdicts on a study's page
OUTCOMES = SUPPORTED, REFUTED, INCONCLUSIVE, DEPENDS, NOT_MEASURED


def judged(claims: pl.DataFrame) -> pl.DataFrame:
    """Make a row for each claim of a table: `system`, `origin`, `claim`, `statement`, `verdict` and `divided`.

    A paper's claim that was measured only in other settings has no verdict. `divided` describes in how many cases (rows
    of the table) a claim of several has another verdict than supported.
    """
    keys = ("system", "origin", "claim", "statement")
    rows = [
        (*key, verdict := judge(group["verdict"].to_list(), group["interpretation"].to_list()), divided(group, verdict))
        for key, group in claims.group_by(keys, maintain_order=True)
    ]
    return pl.DataFrame(rows, schema=dict.fromkeys((*keys, "verdict", "divided"), pl.String), orient="row")


def judge(verdicts: list[str | None], interpretations: list[str | None]) -> str | None:
    """Return the verdict of a claim from those of its rows and their interpretations; None: the chosen ones.

    The worst verdict under the chosen interpretations counts: refuted in one row is refuted. If this verdict and those
    under other interpretations contain both supported and refuted, the claim depends on interpretation. If another
    interpretation is inconclusive, so is a supported claim. Null, outside the paper's setting, does not count.

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


def count(verdicts: Sequence[str | None], order: Sequence[str] = ORDER) -> list[tuple[str, int]]:
    """Count the claims with each verdict, in an order; verdicts without claims are left out.

    >>> count(["supported", "refuted", None, "supported"])
    [('refuted', 1), ('supported', 2)]
    """
    return [(verdict, verdicts.count(verdict)) for verdict in order if verdict in verdicts]


def divided(rows: pl.DataFrame, verdict: str | None) -> str:
    """Describe in how many of a claim's rows the verdict is not supported; "" if it has one row, or is supported."""
    counted = rows.filter(pl.col("verdict").is_not_null())
    if len(counted) < 2 or verdict == SUPPORTED:
        return ""
    counts = count(counted["verdict"].to_list(), (REFUTED, INCONCLUSIVE, NOT_MEASURED))
    return f"{', '.join(f'{kind} in {number}' for kind, number in counts)} of {len(counted)} cases"


def deciding(row: Mapping) -> str:
    """Describe how many realizations would decide an inconclusive row of the table of claims; "" for other rows.

    An interval narrows with the root of their number. It must exclude each end of the required range that is in it.

    >>> row = {"verdict": "inconclusive", "measured": -0.07, "measured_ci_low": -0.1, "measured_ci_high": -0.04}
    >>> row |= {"required_range": ">= -0.05, < 0", "realizations": 20}
    >>> deciding(row), deciding(row | {"measured": -0.0502}), deciding(row | {"verdict": "refuted"})
    ('about 45 realizations would decide it', 'ten times as many realizations would not decide it', '')
    """
    measured, low, high = (row[key] for key in ("measured", "measured_ci_low", "measured_ci_high"))
    if row["verdict"] != INCONCLUSIVE or None in (measured, low, high, row["realizations"]):
        return ""
    ends = [end for end in map(float, NUMBER.findall(row["required_range"] or "")) if low <= end <= high]
    sides = [(measured - low if end < measured else high - measured, abs(end - measured)) for end in ends]
    times = max(((half / distance) ** 2 if distance else inf for half, distance in sides), default=inf)
    if times > DECIDING:
        return "ten times as many realizations would not decide it"
    return f"about {ceil(times * row['realizations']):,} realizations would decide it"
