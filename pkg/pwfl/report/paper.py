"""Make the content of a paper's page: its figures with this project's curves, its claims, interpretations and errata.

A system's `paper.py` declares a `Paper`. The page combines it with the table `claims` and the panels' curves.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import polars as pl

from pwfl.report import statements
from pwfl.report.claims import (
    INCONCLUSIVE,
    NOT_MEASURED,
    REFUTED,
    SHARE,
    SUPPORTED,
    Band,
    Claim,
    Interpretation,
    Reported,
)
from pwfl.report.statements import DEPENDS, deciding, judge
from pwfl.report.words import interpreted, plural
from pwfl.report.words import number as three_digits
from pwfl.scenario.values import value_of

OUTSIDE = "not judged"  # measured only in scenarios outside the paper's setting
SIGNS = statements.SIGNS | {OUTSIDE: "·"}
LISTED = SUPPORTED, REFUTED, DEPENDS, INCONCLUSIVE, OUTSIDE, NOT_MEASURED
READING = re.compile(r"(?:^|; )(I\d+):")
SIGNIFICANT = 3  # digits


class Setting(NamedTuple):
    """A setting of the paper's simulations, and the values of parameters that identify it."""

    title: str
    values: Mapping[str, object]


class Mark(NamedTuple):
    """A value that the paper reports, drawn as a rule on a panel."""

    claim: str  #: The claim that reports it.
    axis: str  #: The axis of the value, "x" or "y".
    words: str  #: Its description, in a few words.
    at: float  #: The value; with a `series`, its difference from the series' last value.
    series: str = ""  #: The series that it is counted from; "": none.


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A panel of the paper's figures."""

    name: str  #: Its name in the paper, such as `5 (e)`.
    title: str  #: The quantity on the vertical axis.
    x: str  #: The quantity on the horizontal axis.
    #: From contents of its setting's scenarios, by name, to a table `series`, `x`, `y`, `y_ci_low`, `y_ci_high`.
    curves: Callable[[dict[str, dict]], pl.DataFrame]
    setting: str = ""  #: The key of `Paper.settings`; "": all scenarios.
    marks: tuple[Mark, ...] = ()
    #: The paper's claims about it, in a few words, by the claims' ids.
    captions: Mapping[str, str] = field(default_factory=dict)
    log_x: bool = False  #: Whether the horizontal axis is logarithmic.
    log_y: bool = False  #: Whether the vertical axis is logarithmic.
    percent: bool = False  #: Whether the vertical axis shows shares.
    trained: bool = False  #: Whether curves are of training runs, which may be fewer than realizations.


@dataclass(frozen=True, kw_only=True)
class Paper:
    """A paper that a system reimplements."""

    idea: str  #: Its idea, in two sentences.
    size: str  #: The size of the full-size study, compared with the paper's.
    claims: tuple[Claim, ...]
    interpretations: tuple[Interpretation, ...]
    panels: tuple[tuple[Panel, ...], ...] = ()  #: Rows of panels that share their axes, as the paper lays them out.
    settings: Mapping[str, Setting] = field(default_factory=dict)
    not_drawn: Mapping[str, str] = field(default_factory=dict)  #: Items that are not redrawn, and the reasons.
    errata: tuple[tuple[str, str, str], ...] = ()  #: Place in the paper, printed text, intended meaning.
    #: Equation or algorithm of the paper, function that implements it, figure that shows its effect.
    equations: tuple[tuple[str, str, str], ...] = ()


class Line(NamedTuple):
    """A measured row of a claim: its verdict, value and interval in words, and where it was measured."""

    verdict: str
    value: str
    interval: str
    where: str


class Row(NamedTuple):
    """A claim on the page: its verdict, the lines of each column (or one cell with all), and realizations."""

    claim: Claim
    verdict: str
    measured: str
    cells: list[list[Line]]
    interpretations: list[str]
    realizations: str


def find_settings(paper: Paper, scenarios: Mapping[str, object]) -> dict[str, str]:
    """Return the key of each scenario's setting, by name; "": none. `scenarios` maps names to parameters."""

    def key_of(scenario: object) -> str:
        matches = (
            key
            for key, setting in paper.settings.items()
            if all(value_of(scenario, name) == value for name, value in setting.values.items())
        )
        return next(matches, "")

    return {name: key_of(scenario) for name, scenario in scenarios.items()}


def rows(paper: Paper, claims: pl.DataFrame, settings: Mapping[str, str]) -> list[Row]:
    """Make a row for each claim, in the paper's order, from a system's rows of the table `claims`.

    `settings` contains the key of each scenario's setting. Measurements outside the paper's setting have no verdict;
    they are used only if a claim has no others.
    """
    statements = []
    for claim in paper.claims:
        measured = claims.filter(claim=claim.id)
        judged = measured.filter(pl.col("verdict").is_not_null())
        statements.append(_row(paper, claim, judged if len(judged) else measured, settings))
    return statements


def _row(paper: Paper, claim: Claim, rows: pl.DataFrame, settings: Mapping[str, str]) -> Row:
    in_columns = bool(paper.settings) and not rows["against"].count()  # with settings as heads
    lines = []
    same = ("scenario", "against", "quantity", "interpretation", "measured", "measured_ci_low", "measured_ci_high")
    known = {name: key for name, key in settings.items() if key}
    settled = rows.with_columns(pl.col("scenario", "against").replace(known))  # equal in one setting: once
    for row in rows.filter(settled.select(pl.struct(same).is_first_distinct()).to_series()).iter_rows(named=True):
        key = settings.get(row["scenario"], "")
        lines.append((key, _line(claim, row, is_named=not (in_columns and key in paper.settings))))
    if not in_columns:
        cells = [[line for _, line in lines]]
    else:
        cells = [[line for key, line in lines if key == setting] for setting in (*paper.settings, "")]
    readings = sorted({name for text in rows["interpretation"].drop_nulls() for name in READING.findall(text)})
    verdict = judge(rows["verdict"].to_list(), rows["interpretation"].to_list())
    verdict = verdict or (OUTSIDE if len(rows) else NOT_MEASURED)
    counts = rows["realizations"].drop_nulls().unique(maintain_order=True)
    return Row(claim, verdict, measured_words(claim), cells, readings, " / ".join(map(str, counts)) or "-")


def _line(claim: Claim, row: dict, is_named: bool) -> Line:
    """Make the line of a measured row; `is_named`: whether it names its scenarios.

    It also names them if the interpretation is one of a scenario's parameters, which the scenario's title contains.
    """
    read_as = interpreted(row["interpretation"] or "")
    is_named |= read_as != (row["interpretation"] or "")
    where = f"{row['scenario']} against {row['against']}" if row["against"] else row["scenario"] * is_named
    texts = where, row["quantity"].partition("; ")[2], read_as, deciding(row)
    where = "; ".join(text for text in texts if text)
    value = "undefined" if row["measured"] is None else number(row["measured"], claim, signed=True)
    return Line(row["verdict"] or OUTSIDE, value, interval(row, claim), where)


def is_share(claim: Claim) -> bool:
    """Return whether a claim's number is a share or a difference of shares, and so is shown in percent."""
    low, high = claim.declared[0].range(claim.quantity.bounds) if claim.declared else (-1.0, 2.0)
    return claim.quantity.bounds == SHARE and low >= -1.0 and high <= 1.0


def number(value: float, claim: Claim, signed: bool = False) -> str:
    """Write a measured number: shares in percent, differences of shares in percentage points.

    If `signed`, a positive difference has a sign, too.

    >>> from pwfl.report.claims import Quantity, scheme
    >>> accuracy = Quantity("accuracy", "accuracy", SHARE)
    >>> a, b = scheme("a", "x", "A"), scheme("b", "x", "B")
    >>> of = Claim(id="F1-1", statement="A.", source="", quantity=accuracy, compare=a - b)
    >>> number(0.0515, of, signed=True), number(-0.19, of, signed=True)
    ('+5.15 points', '−19 points')
    """
    percent, is_difference = is_share(claim), any("-" in term.words for term in claim.declared)
    shown = f"{100 * abs(value):.{SIGNIFICANT}g}" if percent else three_digits(abs(value))
    sign = "−" if value < 0 else "+" if value > 0 and signed and is_difference else ""
    unit = (" points" if is_difference else " %") if percent else ""
    return f"{sign}{shown}{unit}"


def interval(row: Mapping, claim: Claim) -> str:
    """Write the interval of a measured row, in the unit of its value; "" if it has none."""
    ends = row["measured_ci_low"], row["measured_ci_high"]
    if ends == (None, None):
        return ""
    low, high = ("unbounded" if end is None else number(end, claim).partition(" ")[0] for end in ends)
    return f"{low} to {high}"


def band(required: Band, claim: Claim) -> str:
    """Write the range that a claim requires of its number.

    >>> claim = Claim(id="F1-1", statement="A.", source="")
    >>> band(Band(above=0.06), claim), band(Band(least=0.9, most=1), claim)
    ('> 0.06', '0.9 to 1')
    """
    if required.least is not None and required.most is not None:
        return f"{number(required.least, claim)} to {number(required.most, claim)}"
    signs = {"above": ">", "least": "≥", "below": "<", "most": "≤"}
    ends = [f"{signs[end]} {number(value, claim)}" for end, value in required._asdict().items() if value is not None]
    return " and ".join(ends)


def measured_words(claim: Claim) -> str:
    """Describe what is measured, and when the claim is supported, or else the reason why it is not measured."""
    if claim.compare is None:
        return claim.why
    made = ", ".join(term.words for term in claim.declared)
    words = f"{claim.quantity.words}: {made}" if made else claim.quantity.words
    words = f"{words[:1].upper()}{words[1:]}."
    if isinstance(claim.required, Reported):
        return f"{words} Supported if the interval contains {number(claim.required.value, claim)}, as rounded."
    if not isinstance(claim.required, Band):
        return words
    whose = "" if claim.range_source == "paper" else ", this project's range"
    return f"{words} Supported if {band(claim.required, claim)}{whose}."


def counts(rows: Sequence[Row]) -> list[tuple[str, int]]:
    """Count the claims of each verdict, in the order of LISTED; verdicts without claims are left out."""
    return statements.count([row.verdict for row in rows], LISTED)


def lead(rows: Sequence[Row]) -> str:
    """Return the page's first sentence, with the number of claims of each verdict.

    >>> claim = Claim(id="F1-1", statement="A.", source="")
    >>> lead([Row(claim, verdict, "", [], [], "") for verdict in ("supported", "refuted", "refuted", "not measured")])
    'Of 4 statements, 1 is supported, 2 are refuted and 1 was not measured.'
    """
    parts = [_counted(verdict, count) for verdict, count in counts(rows)]
    verdicts = ", ".join(parts[:-1]) + f" and {parts[-1]}" if len(parts) > 1 else "".join(parts)
    return f"Of {plural(len(rows), 'statement')}, {verdicts}."


def _counted(verdict: str, count: int) -> str:
    is_, was, s = ("is", "was", "s") if count == 1 else ("are", "were", "")
    words = {
        DEPENDS: f"depend{s} on interpretation",
        NOT_MEASURED: f"{was} not measured",
        OUTSIDE: f"{was} measured outside the paper's setting and not judged",
    }
    return f"{count} {words.get(verdict, f'{is_} {verdict}')}"


def unsupported(rows: Sequence[Row]) -> list[Row]:
    """List the claims that were judged and are not supported, refuted ones first."""
    return [row for verdict in (REFUTED, DEPENDS, INCONCLUSIVE) for row in rows if row.verdict == verdict]


def caption(panel: Panel, rows: Sequence[Row], claims: pl.DataFrame, settings: Mapping[str, str]) -> list[tuple]:
    """List verdict, words and id of each claim about a panel, in the order of LISTED.

    A claim has the verdict of its rows in the panel's setting, except comparisons of scenarios, or of all rows if there
    are none. A claim that depends on interpretation remains so.
    """
    verdicts = {row.claim.id: row.verdict for row in rows}
    sentences = []
    for name, words in panel.captions.items():
        measured = claims.filter(pl.col("verdict").is_not_null(), pl.col("against").is_null(), claim=name)
        inside = measured.filter(
            pl.col("scenario").replace_strict(settings, default="", return_dtype=pl.String) == panel.setting
        )
        judged = inside if panel.setting and len(inside) else measured.clear()
        verdict = judge(judged["verdict"].to_list(), judged["interpretation"].to_list()) or verdicts[name]
        sentences.append((verdicts[name] if verdicts[name] == DEPENDS else verdict, words, name))
    return sorted(sentences, key=lambda sentence: LISTED.index(sentence[0]))
