"""Claims of all systems: declared as a list, measured in a study's scenarios, and decided by a required range.

A claim is a sentence and an expression of schemes that decides it: `OPT - RND`, `RND / OPT_DP`, or `(RND -
OPT).at(MORE_BLOCKS) - (RND - OPT)`, where `at` moves schemes to a scenario that differs as a `Comparison` states. The
expression's value is a fact or an estimate. An estimate decides by its whole 95% interval, clipped to the quantity's
bounds. A paper's claim is judged only in the paper's setting.
"""

import json
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from pwfl.learning import datasets
from pwfl.report import unscheduled
from pwfl.report.measures import LOSSES, ONE_SIDED, Measure, accuracies, estimate, losses, paired
from pwfl.scenario.values import plain, value_of

PAPER, PROJECT = "paper", "project"  # origins of claims, and of required ranges
VERDICTS = SUPPORTED, REFUTED, INCONCLUSIVE, NOT_MEASURED = "supported", "refuted", "inconclusive", "not measured"
SCHEMA = {  # of the table `claims`; `pwfl.report.meanings` explains its columns
    "claim": pl.String,
    "statement": pl.String,
    "scenario": pl.String,
    "against": pl.String,
    "interpretation": pl.String,
    "origin": pl.String,
    "source": pl.String,
    "reported": pl.String,
    "quantity": pl.String,
    "measured": pl.Float64,
    "measured_ci_low": pl.Float64,
    "measured_ci_high": pl.Float64,
    "interval": pl.String,
    "required_range": pl.String,
    "range_source": pl.String,
    "verdict": pl.String,
    "realizations": pl.Int64,
    unscheduled.COLUMN: pl.Int64,
}
UNBOUNDED, SHARE, POSITIVE = (-np.inf, np.inf), (0.0, 1.0), (0.0, np.inf)
# The setting of the papers' learning task: unchanged MNIST, assigned to users at random.
MNIST = {"data.dataset": ("mnist",), "data.partition": ("iid", "quantity"), "training.features": ("pixels",)}


class Band(NamedTuple):
    """The range of numbers that supports a claim: ends `above` and `below` are open, `least` and `most` closed."""

    above: float | None = None
    least: float | None = None
    below: float | None = None
    most: float | None = None

    def contains(self, low: float, high: float) -> bool:
        """Return whether the whole interval is in the band."""
        from_low = (self.above is None or low > self.above) and (self.least is None or low >= self.least)
        to_high = (self.below is None or high < self.below) and (self.most is None or high <= self.most)
        return from_low and to_high

    def excludes(self, low: float, high: float) -> bool:
        """Return whether the whole interval is outside the band, on one side."""
        under = (self.above is not None and high <= self.above) or (self.least is not None and high < self.least)
        over = (self.below is not None and low >= self.below) or (self.most is not None and low > self.most)
        return under or over

    def __str__(self) -> str:
        if self.least is not None and self.most is not None:
            return f"{self.least:g} to {self.most:g}"
        signs = {"above": ">", "least": ">=", "below": "<", "most": "<="}
        return ", ".join(f"{signs[end]} {value:g}" for end, value in self._asdict().items() if value is not None)


LESS, MORE = Band(below=0), Band(above=0)


class Reported(NamedTuple):
    """A number that the source reports, and the range that rounds to it; the interval must intersect this range."""

    value: float
    least: float
    most: float

    def contains(self, low: float, high: float) -> bool:
        """Return whether the interval, bounded on both sides, contains a number that rounds to the reported one."""
        return bool(np.isfinite([low, high]).all()) and low <= self.most and high >= self.least

    def excludes(self, low: float, high: float) -> bool:
        """Return whether no number in the interval rounds to the reported one."""
        return high < self.least or low > self.most

    def __str__(self) -> str:
        return f"interval contains {self.value:g}"


@dataclass(frozen=True)
class Comparison:
    """A selection of the scenarios of a study that are measured, or compared."""

    #: Returns groups of scenarios' names; the others of a group are compared with its first. The argument maps each
    #: name to the scenario's content: `scenario` and the report's tables.
    find: Callable[[dict[str, dict]], Iterable[Sequence[str]]]
    words: str = ""  #: How the others differ from the first, `at larger γ`.
    together: bool = False  #: Whether all others are compared with the first at once; a series `at` them is a list.


def pairs(words: str, *keys: str, matches: Callable[[Any, Any], object], together: bool = False) -> Comparison:
    """Return a comparison of scenarios that are equal except in `keys` (`section.key`) if `matches(first, other)`."""

    def find(contents: dict[str, dict]) -> Iterator[tuple[str, ...]]:
        for names in comparable(contents, *keys):
            for first in names:
                reference = contents[first]["scenario"]
                others = [name for name in names if name != first and matches(reference, contents[name]["scenario"])]
                yield from [(first, *others)] if together and others else product([first], others)

    return Comparison(find, words, together)


def larger(key: str, words: str) -> Comparison:
    """Return a comparison of scenarios that are equal except for a larger value of a key.

    They may differ in `training_realizations`, so no results of training are to be compared.
    """
    keys = key, "training_realizations"
    return pairs(words, *keys, matches=lambda first, other: value_of(other, key) > value_of(first, key))


def only(where: Callable[[Any], object]) -> Comparison:
    """Return a comparison that measures single scenarios, those with `where(scenario)`."""
    return Comparison(lambda contents: [(name,) for name, content in contents.items() if where(content["scenario"])])


EACH = only(lambda _: True)


def once(
    *keys: str,
    where: Callable[[Any], object] = lambda _: True,
    same: Callable[[Any], Hashable] = lambda _: None,
) -> Comparison:
    """Return a comparison that measures the first of scenarios that are equal except in `keys`, with equal `same`.

    Only scenarios with `where(scenario)` count. Use it for a number that cannot differ between such scenarios: several
    rows would repeat it.
    """

    def find(contents: dict[str, dict]) -> Iterator[tuple[str, ...]]:
        kept = {name: content for name, content in contents.items() if where(content["scenario"])}
        for names in comparable(kept, *keys):
            groups = {same(contents[name]["scenario"]): name for name in reversed(names)}
            yield from ((name,) for name in names if name in groups.values())

    return Comparison(find)


@dataclass(frozen=True)
class Series:
    """An input of a term: a scheme's column by realization, or another value that a system names."""

    name: Hashable  #: A scheme's scheduler and noise, or the value's name.
    column: str | None = None  #: The scheme's column; None: that of the claim's quantity.
    is_scheme: bool = True  #: Whether it belongs to a scheme.
    at: Comparison | None = None  #: The comparison that selects other scenarios; None: the first.

    def key(self, column: str | None) -> Hashable:
        """Return the key of the values in the dict that a system's `series` returns."""
        return (self.name, self.column or column) if self.is_scheme else self.name

    def places(self, values: list[dict]) -> list[dict]:
        """Select the series' scenarios from the values of compared scenarios: the others with `at`, else the first."""
        return values[1:] if self.at else values[:1]


@dataclass(frozen=True)
class Term:
    """A number computed from series: arithmetic on their means over realizations, or a statistic of their values."""

    words: str  #: Its description, `OptSched - RndSched`.
    series: tuple[Series, ...]  #: Its inputs.
    function: Callable[[np.ndarray], np.ndarray] = lambda means: means[0]  #: Of the series' means, an array by series.
    #: Returns the bounds of the number, given those of a series.
    range: Callable[[tuple[float, float]], tuple[float, float]] = lambda bounds: bounds
    #: Computes the statistic of the series' values; None: the number is `function`'s estimate.
    measured: Callable[..., Measure | None] | None = None

    def __sub__(self, other: "Term | float") -> "Term":
        return _combined(self, _term(other), "-")

    def __rsub__(self, other: float) -> "Term":
        return _combined(_term(other), self, "-")

    def __truediv__(self, other: "Term") -> "Term":
        return _combined(self, other, "/")

    def __getitem__(self, column: str) -> "Term":
        """Return the term for another column of the same schemes, in place of the claim's quantity."""
        series = tuple(replace(series, column=column) for series in self.series)
        return replace(self, words=f"{column.replace('_', ' ')} of {self.words}", series=series)

    def at(self, comparison: Comparison) -> "Term":
        """Return the term in the other scenario of a comparison, or in all others if these are `together`."""
        series = tuple(replace(series, at=comparison) for series in self.series)
        return replace(self, words=f"{_bracketed(self.words)} {comparison.words}", series=series)

    def measure(self, values: list) -> Measure | None:
        """Measure the term from its series' values; None if it is undefined, as without a common realization."""
        if self.measured:
            return self.measured(*values)
        together = paired(*values)
        return estimate(self.function, together) if together.shape[1] else None


def scheme(scheduler: str, noise: str, name: str) -> Term:
    """Return the term of a scheme, identified by its scheduler and noise."""
    return Term(name, (Series((scheduler, noise)),))


def value(name: Hashable, words: str = "") -> Term:
    """Return the term of the value that a system's `series` has under a name."""
    return Term(words or str(name), (Series(name, is_scheme=False),))


def statistic(
    words: str,
    measured: Callable[..., Measure | None],
    *terms: Term,
    bounds: tuple[float, float] = UNBOUNDED,
) -> Term:
    """Return a term that is a statistic of the values of other terms' series, within `bounds`."""
    return Term(words, _series(*terms), range=lambda _: bounds, measured=measured)


def combine_means(words: str, function: Callable, *terms: Term, bounds: tuple[float, float] = UNBOUNDED) -> Term:
    """Return a term that is a smooth function of the means of other terms' series, within `bounds`."""
    return Term(words, _series(*terms), function, lambda _: bounds)


def _series(*terms: Term) -> tuple[Series, ...]:
    return tuple(series for term in terms for series in term.series)


def _term(number: "Term | float") -> Term:
    if isinstance(number, Term):
        return number
    return Term(f"{number:g}", (), lambda _: np.asarray(number), lambda _: (number, number))


def _bracketed(words: str) -> str:
    return f"({words})" if " " in words else words


def _combined(one: Term, other: Term, sign: str) -> Term:
    count = len(one.series)

    def function(means: np.ndarray) -> np.ndarray:
        left, right = one.function(means[:count]), other.function(means[count:])
        return left - right if sign == "-" else left / right

    def range_of(bounds: tuple[float, float]) -> tuple[float, float]:
        (low, high), (other_low, other_high) = one.range(bounds), other.range(bounds)
        if sign == "-":
            return low - other_high, high - other_low
        return POSITIVE if min(low, other_low) >= 0 else UNBOUNDED

    left = one.words if sign == "-" else _bracketed(one.words)
    return Term(f"{left} {sign} {_bracketed(other.words)}", one.series + other.series, function, range_of)


class Quantity(NamedTuple):
    """A number of each realization: its column, its description, and its bounds."""

    column: str | None
    words: str
    bounds: tuple[float, float] = UNBOUNDED


NOTHING, ANYTHING = Quantity(None, ""), Band()  # for statements that are not measured


class Interpretation(NamedTuple):
    """An open point of a paper: `id` (I1, I2, ...), what is left open, and this project's choice.

    `chosen_values` maps parameters to the values with which a scenario follows the choice; empty: no parameter decides.
    `concerns` contains the ids of the paper's claims that it affects; empty: all of them.
    """

    id: str
    left_open: str
    chosen: str
    chosen_values: Mapping[str, Collection] = {}
    concerns: Collection[str] = ()


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A statement, and how it is measured and decided."""

    #: Figure, section, theorem, ... and a number in the paper's order: `F4-1`; `X-1` of this project's. Never changed.
    id: str
    statement: str  #: The claim as a sentence.
    source: str  #: Its place in the paper, or in this project.
    quantity: Quantity = NOTHING  #: The number of each realization that is compared.
    #: The term that decides; several, each of which must hold; or a function from a scenario to such terms by name.
    #: None: the statement is not measured; `why` contains the reason.
    compare: Term | tuple[Term, ...] | Callable[[Any], Mapping[str, Term]] | None = None
    #: The band that must contain the number, the reported number, or a function from the first scenario's series to a
    #: band.
    required: Band | Reported | Callable[[dict], Band] = ANYTHING
    #: The terms under other interpretations, by id and description, joined by a colon.
    otherwise: Mapping[str, Term] = field(default_factory=dict)
    #: PAPER if the range follows from the source alone: a direction, or a number that it reports. PROJECT if this
    #: project chose how much is slight, similar, or acceptable.
    range_source: str = PAPER
    reported: str | None = None  #: The paper's number or words.
    #: The paper's setting: the values of parameters, or combinations of values of several, that a scenario must have.
    #: None: the claim is this project's.
    setting: Mapping[Any, Collection] | None = None
    #: The scenarios in which a term is measured, unless it moves schemes `at` a comparison, which then selects them.
    among: Comparison = EACH
    why: str = ""

    def terms(self, scenario: object) -> Iterator[tuple[str | None, str, Term]]:
        """Yield (interpretation or None, name in `compare` or "", term) for each term measured in a scenario."""
        yield from ((None, "", term) for term in self.declared)
        if not isinstance(self.compare, Term | tuple | None):
            yield from ((None, part, term) for part, term in self.compare(scenario).items())
        yield from ((interpretation, "", term) for interpretation, term in self.otherwise.items())

    @property
    def declared(self) -> tuple[Term, ...]:
        """The terms of `compare`, unless it is a function of the scenario."""
        if isinstance(self.compare, tuple):
            return self.compare
        return (self.compare,) if isinstance(self.compare, Term) else ()


def measure(
    claims: Iterable[Claim],
    contents: dict[str, dict],
    series: Callable[[dict], dict] | None = None,
    interpretations: Iterable[Interpretation] = (),
) -> pl.DataFrame:
    """Make the table of claims, in their order, as far as a study's scenarios and schemes allow measuring them.

    `contents` maps each scenario's name to its `scenario` and the report's tables; `series` returns a scenario's values
    by name. None: claims name columns of `realizations` and, in a `value`, the scenario's parameters `section.key`.
    """
    claims = tuple(claims)
    values = {name: series(content) if series else _named(claims, content) for name, content in contents.items()}
    rows = []
    for claim in claims:
        moves = [_moves(claim, term) for term in (*claim.declared, *claim.otherwise.values())]
        comparisons = dict.fromkeys(moves if claim.declared else (claim.among, *moves))
        for comparison, names in ((move, names) for move in comparisons for names in move.find(contents)):
            compared, known = {name: contents[name]["scenario"] for name in names}, [values[name] for name in names]
            others = list(_otherwise(claim, interpretations, compared))
            for interpretation, part, term in claim.terms(compared[names[0]]):
                measured = _measured(term, claim.quantity.column, known) if _moves(claim, term) == comparison else None
                if measured is not None:
                    label = "; ".join(text for text in (interpretation, *others) if text)
                    measured = measured._replace(detail="; ".join(text for text in (part, measured.detail) if text))
                    declared = claim.required
                    required = declared if isinstance(declared, Band | Reported) else declared(known[0])
                    absent = without_users(term, claim.quantity.column, known)
                    rows.append(row(claim, term, compared, measured, required, label, absent))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _named(claims: Iterable[Claim], content: dict) -> dict:
    """Return the columns of schemes and the parameters that claims name."""
    scenario, columns, parameters = content["scenario"], set(), {}
    for claim in claims:
        for series in (series for *_, term in claim.terms(scenario) for series in term.series):
            if series.is_scheme:
                columns.add(series.column or claim.quantity.column)
            else:
                parameters[series.name] = value_of(scenario, str(series.name))
    return by_scheme(scenario, content["realizations"], columns) | parameters


def _moves(claim: Claim, term: Term) -> Comparison:
    """Return the comparison that moves a term's schemes, or else `claim.among`. Raises ValueError for several."""
    moved = {series.at for series in term.series if series.at}
    if len(moved) > 1:
        raise ValueError(f"claim {claim.id}: {term.words} is moved by several comparisons; a number has one")
    return moved.pop() if moved else claim.among


def _measured(term: Term, column: str | None, values: list[dict]) -> Measure | None:
    """Measure a term from the values of compared scenarios; None if any of its series has no value."""
    known = []
    for series in term.series:
        numbers = [place.get(series.key(column)) for place in series.places(values)]
        if any(number is None for number in numbers):
            return None
        known.append(numbers if series.at and series.at.together else numbers[0])
    return term.measure(known)


def without_users(term: Term, column: str | None, values: list[dict]) -> int:
    """Count the realizations with values of all schemes of a term in which one of them has no user scheduled."""
    flags, valued = [], []
    for series in term.series:
        for place in series.places(values):
            if series.is_scheme and (flag := place.get((series.name, unscheduled.COLUMN))) is not None:
                flags.append(flag)
                valued.append(place[series.key(column)])
    if not flags:
        return 0
    count = min(map(len, flags))
    some, known = (np.stack([part[:count] for part in series]) for series in (flags, valued))
    return int((some.any(axis=0) & ~np.isnan(known).any(axis=0)).sum())


def _otherwise(
    claim: Claim, interpretations: Iterable[Interpretation], scenarios: Mapping[str, object]
) -> Iterator[str]:
    """Yield the interpretations of a paper's claim in which scenarios depart from the chosen ones, and how."""
    for interpretation in interpretations:
        differences = []
        for key, chosen in interpretation.chosen_values.items():
            values = [value_of(scenario, key) for scenario in scenarios.values()]
            others = {str(value): None for value in values if value not in chosen}
            differences += [f"{key} {' and '.join(others)}"] * bool(others)
        if (
            differences
            and claim.setting is not None
            and (not interpretation.concerns or claim.id in interpretation.concerns)
        ):
            yield f"{interpretation.id}: {', '.join(differences)}"


def row(
    claim: Claim,
    term: Term,
    scenarios: Mapping[str, object],
    measured: Measure,
    required: Band | Reported,
    interpretation: str = "",
    no_user_scheduled: int = 0,
) -> tuple:
    """Make a row of the table of claims, columns SCHEMA; the first of several scenarios is that compared with."""
    bounds = term.range(claim.quantity.bounds)
    low, high = (None if end is None else float(np.clip(end, *bounds)) for end in (measured.low, measured.high))
    value, measured = None if np.isnan(measured.value) else measured.value, measured._replace(low=low, high=high)
    shown = (low, high) if measured.shown else (None, None)
    first, *others = scenarios
    quantity = "; ".join(text for text in (f"{claim.quantity.words}: {term.words}", measured.detail) if text)
    return (
        *(claim.id, claim.statement, " and ".join(others) or first, first if others else None, interpretation or None),
        *(PROJECT if claim.setting is None else PAPER, claim.source, claim.reported, quantity, value, *shown),
        *(measured.interval, str(required), claim.range_source),
        verdict(measured, required) if in_setting(claim, scenarios.values()) else None,
        *(measured.realizations, no_user_scheduled),
    )


def in_setting(claim: Claim, scenarios: Iterable) -> bool:
    """Return whether all scenarios are in the setting of a claim's paper; true for this project's claims."""

    def has(scenario: object, keys: str | tuple[str, ...], values: Collection) -> bool:
        if isinstance(keys, str):
            return value_of(scenario, keys) in values
        return tuple(value_of(scenario, key) for key in keys) in values

    return all(has(scenario, *allowed) for scenario in scenarios for allowed in (claim.setting or {}).items())


def verdict(measure: Measure, required: Band | Reported) -> str:
    """Return SUPPORTED if the interval is in the band, or has the reported number; REFUTED if it is outside of it.

    Else INCONCLUSIVE; NOT_MEASURED for an undefined value. A one-sided interval does not estimate a reported number:
    all of it must round to that number.
    """
    if np.isnan(measure.value):
        return NOT_MEASURED
    low = -np.inf if measure.low is None else measure.low
    high = np.inf if measure.high is None else measure.high
    if isinstance(required, Reported) and measure.interval.startswith(ONE_SIDED):
        required = Band(least=required.least, most=required.most)
    return SUPPORTED if required.contains(low, high) else REFUTED if required.excludes(low, high) else INCONCLUSIVE


def comparable(contents: dict[str, dict], *keys: str) -> list[list[str]]:
    """Group scenarios that are equal in all parameters except the keys `section.key`, or `key` of the scenario."""
    groups: dict[str, list[str]] = {}
    for name, content in contents.items():
        rest = plain(content["scenario"])
        for *section, key in (path.split(".") for path in keys):
            (rest.get(section[0], {}) if section else rest).pop(key, None)
        groups.setdefault(json.dumps(rest, sort_keys=True), []).append(name)
    return list(groups.values())


def by_scheme(scenario, frame: pl.DataFrame, columns: Iterable[str]) -> dict[tuple, np.ndarray]:
    """Return the values by realization of every scheme, by (scheduler, noise) and column; null is NaN.

    The column `unscheduled.COLUMN`, boolean, is always among them.
    """
    series = {}
    for scheme, column in product(scenario.schemes, (*columns, unscheduled.COLUMN)):
        rows = unscheduled.known(frame).filter(scheme=scheme.name).sort("realization")
        if column == unscheduled.COLUMN:
            values = rows[column].fill_null(value=False).to_numpy()
        elif column == "accuracy":
            values = accuracies(rows, datasets.size(scenario.data).classes)
        else:
            values = losses(rows, column) if column in LOSSES else rows[column].cast(pl.Float64).to_numpy()
        series[(scheme.scheduler, scheme.noise), column] = values
    return series
