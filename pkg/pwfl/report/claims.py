"""One engine for the claims of all systems: declared like the paper's own list, measured, and decided by a range.

A claim is a sentence and arithmetic on schemes whose value decides it: `OPT - RND`, `RND / OPT_DP`, or `(RND -
OPT).at(MORE_BLOCKS) - (RND - OPT)`, where `at` moves schemes to a scenario that differs in what a `Comparison` names.
The value is a fact, or an estimate, which decides by its whole 95% interval, cut to the quantity's bounds. A paper's
claim is judged in the paper's setting alone.
"""

import json
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import NamedTuple

import numpy as np
import polars as pl

from pwfl.learning import datasets
from pwfl.report import unscheduled
from pwfl.report.measures import LOSSES, Measure, accuracies, estimate, losses, paired
from pwfl.scenario.values import plain, value_of

PAPER, PROJECT = "paper", "project"  # whose a claim is, and whose a required range
VERDICTS = SUPPORTED, REFUTED, INCONCLUSIVE, NOT_MEASURED = "supported", "refuted", "inconclusive", "not measured"
SCHEMA = {
    "claim": pl.String,  # its id
    "statement": pl.String,
    "scenario": pl.String,
    "against": pl.String,  # with which the scenario is compared; null: with none
    "interpretation": pl.String,  # under which it is measured; null: the one that this project chose
    "origin": pl.String,  # PAPER or PROJECT
    "source": pl.String,  # where the paper says it, or where this project does
    "reported": pl.String,  # the paper's number or words, and whether the interval misses it; null: none
    "quantity": pl.String,
    "measured": pl.Float64,
    "measured_ci_low": pl.Float64,  # ends of the interval; null: none, or unbounded
    "measured_ci_high": pl.Float64,
    "interval": pl.String,  # what kind of interval, or why there is none
    "required_range": pl.String,
    "range_source": pl.String,  # PAPER or PROJECT
    "verdict": pl.String,  # of VERDICTS; null outside of the paper's setting
    "realizations": pl.Int64,
    unscheduled.COLUMN: pl.Int64,  # how many of these have no user scheduled in one of the schemes
}
MISSED = "outside the measured interval"
UNBOUNDED, SHARE, POSITIVE, AT_MOST_ALL = (-np.inf, np.inf), (0.0, 1.0), (0.0, np.inf), (-np.inf, 1.0)
# The setting of what the papers' users learn: MNIST as it is, dealt out at random.
MNIST = {"data.dataset": ("mnist",), "data.partition": ("iid", "quantity"), "training.features": ("pixels",)}


class Band(NamedTuple):
    """The numbers for which a claim holds. Ends `above` and `below` are open, `least` and `most` are closed."""

    above: float | None = None
    least: float | None = None
    below: float | None = None
    most: float | None = None

    def contains(self, low: float, high: float) -> bool:
        """Whether the whole interval lies in the band."""
        from_low = (self.above is None or low > self.above) and (self.least is None or low >= self.least)
        to_high = (self.below is None or high < self.below) and (self.most is None or high <= self.most)
        return from_low and to_high

    def excludes(self, low: float, high: float) -> bool:
        """Whether the whole interval lies outside the band, on one side."""
        under = (self.above is not None and high <= self.above) or (self.least is not None and high < self.least)
        over = (self.below is not None and low >= self.below) or (self.most is not None and low > self.most)
        return under or over

    def __str__(self) -> str:
        if self.least is not None and self.most is not None:
            return f"{self.least:g} to {self.most:g}"
        signs = {"above": ">", "least": ">=", "below": "<", "most": "<="}
        return ", ".join(f"{signs[end]} {value:g}" for end, value in self._asdict().items() if value is not None)


LESS, MORE = Band(below=0), Band(above=0)


@dataclass(frozen=True)
class Comparison:
    """Which scenarios of a study are measured, or compared.

    Attributes
    ----------
    find
        Returns groups of names, the first of each the scenario that the others are compared with, of a study's contents
        by scenario, each with `scenario` and the report's tables.
    words
        What tells the others from the first, `at larger γ`.
    together
        Whether others are compared with the first all at once: a series `at` them is a list.
    """

    find: Callable[[dict[str, dict]], Iterable[tuple[str, ...]]]
    words: str = ""
    together: bool = False


def pairs(words: str, *keys: str, matches: Callable[[object, object], object], together: bool = False) -> Comparison:
    """Compares scenarios that are equal in all but the keys `section.key`, where `matches(first, other)`."""

    def find(contents: dict[str, dict]) -> Iterator[tuple[str, ...]]:
        for names in comparable(contents, *keys):
            for first in names:
                of = contents[first]["scenario"]
                others = [name for name in names if name != first and matches(of, contents[name]["scenario"])]
                yield from [(first, *others)] if together and others else product([first], others)

    return Comparison(find, words, together)


def larger(key: str, words: str) -> Comparison:
    """Compares a scenario with one that is equal but for a larger value of a key; nothing trained is compared."""
    keys = key, "training_realizations"
    return pairs(words, *keys, matches=lambda first, other: value_of(other, key) > value_of(first, key))


def only(where: Callable[[object], object]) -> Comparison:
    """Measures single scenarios of a kind."""
    return Comparison(lambda contents: [(name,) for name, each in contents.items() if where(each["scenario"])])


EACH = only(lambda _: True)


@dataclass(frozen=True)
class Series:
    """What a term is computed from: a scheme's column by realization, or another value that a system names.

    Attributes
    ----------
    name
        A scheme's scheduler and noise, or the value's name.
    column
        Of a scheme; None: the claim's quantity.
    of_scheme
        Whether it is a scheme's.
    at
        In which of the compared scenarios; None: the first.
    """

    name: Hashable
    column: str | None = None
    of_scheme: bool = True
    at: Comparison | None = None

    def key(self, column: str | None) -> Hashable:
        """The name of the values in what a system's `series` returns."""
        return (self.name, self.column or column) if self.of_scheme else self.name


def _of_means(function: Callable, *values: np.ndarray) -> Measure | None:
    together = paired(*values)
    return estimate(function, together) if together.shape[1] else None


@dataclass(frozen=True)
class Term:
    """A number made of series: arithmetic on their means over realizations, or a statistic of their values.

    Attributes
    ----------
    words
        What it is, `OptSched - RndSched`.
    series
        What it is computed from.
    function
        Of the series' means, an array by series.
    range
        Between which numbers it lies, given between which a series does.
    measured
        The statistic of the series' values, or None for `function`'s estimate.
    """

    words: str
    series: tuple[Series, ...]
    function: Callable[[np.ndarray], np.ndarray] = lambda means: means[0]
    range: Callable[[tuple[float, float]], tuple[float, float]] = lambda bounds: bounds
    measured: Callable[..., Measure | None] | None = None

    def __sub__(self, other: "Term | float") -> "Term":
        return _combined(self, _term(other), "-")

    def __rsub__(self, other: float) -> "Term":
        return _combined(_term(other), self, "-")

    def __truediv__(self, other: "Term") -> "Term":
        return _combined(self, other, "/")

    def __getitem__(self, column: str) -> "Term":
        """Another column of the same schemes than the claim's quantity."""
        series = tuple(replace(each, column=column) for each in self.series)
        return replace(self, words=f"{column.replace('_', ' ')} of {self.words}", series=series)

    def at(self, comparison: Comparison) -> "Term":
        """The same in the other one of two scenarios that are compared."""
        series = tuple(replace(each, at=comparison) for each in self.series)
        return replace(self, words=f"{_bracketed(self.words)} {comparison.words}", series=series)

    def measure(self, values: list) -> Measure | None:
        """What it is, of the series' values."""
        return self.measured(*values) if self.measured else _of_means(self.function, *values)


def scheme(scheduler: str, noise: str, name: str) -> Term:
    """A scheme of a study, told by its scheduler and noise."""
    return Term(name, (Series((scheduler, noise)),))


def value(name: Hashable, words: str = "") -> Term:
    """A value that a system's `series` has under a name."""
    return Term(words or str(name), (Series(name, of_scheme=False),))


def statistic(
    words: str,
    measured: Callable[..., Measure | None],
    *terms: Term,
    bounds: tuple[float, float] = UNBOUNDED,
) -> Term:
    """A statistic of the values of other terms' series, which lies between some bounds."""
    return Term(words, _series(*terms), range=lambda _: bounds, measured=measured)


def of_means(words: str, function: Callable, *terms: Term, bounds: tuple[float, float] = UNBOUNDED) -> Term:
    """A smooth function of the means of other terms' series."""
    return Term(words, _series(*terms), function, lambda _: bounds)


def _series(*terms: Term) -> tuple[Series, ...]:
    return tuple(each for term in terms for each in term.series)


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
    """A number of each realization: its column, what it is in words, and between which bounds it lies."""

    column: str | None
    words: str
    bounds: tuple[float, float] = UNBOUNDED


NOTHING, ANYTHING = Quantity(None, ""), Band()  # of statements that are not measured


class Interpretation(NamedTuple):
    """What a paper leaves open: `id` (I1, I2, ...), what is open, what this project chose.

    `chosen_values` has the values of parameters with which a scenario follows the choice, if any do.
    """

    id: str
    left_open: str
    chosen: str
    chosen_values: Mapping[str, Collection] = {}


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A statement, and how it is measured and decided.

    Attributes
    ----------
    id
        By figure, section, theorem, ... and a number in the paper's order: `F4-1`; `X-1` of this project's. Kept.
    statement
        What is said, a sentence.
    source
        Where the paper says it, or where this project does.
    reported
        The paper's number or words.
    quantity
        What is compared, of each realization.
    compare
        The number that decides; several, each of which has to; or a function of a scenario that returns such by name.
        None: the statement is not measured, and `why` says why.
    otherwise
        The number under other interpretations, by their ids and, after a colon, what they are.
    required
        The band in which it must lie, or a function of the first scenario's series that returns it.
    range_source
        PAPER where the band follows from the source alone: a direction, or a number that it reports. PROJECT where this
        project says how much is slight, similar, or acceptable.
    setting
        The paper's setting: the values of parameters with which a scenario is in it. None: the claim is this project's.
    among
        Which scenarios it is measured in or, where `compare` moves schemes `at` others, compared.
    rounds_to
        The numbers that round to the reported one; a row says so if its interval has none.
    """

    id: str
    statement: str
    source: str
    quantity: Quantity = NOTHING
    compare: Term | tuple[Term, ...] | Callable[[object], Mapping[str, Term]] | None = None
    required: Band | Callable[[dict], Band] = ANYTHING
    otherwise: Mapping[str, Term] = field(default_factory=dict)
    range_source: str = PAPER
    reported: str | None = None
    setting: Mapping[str, Collection] | None = None
    among: Comparison = EACH
    rounds_to: tuple[float, float] | None = None
    why: str = ""

    def terms(self, scenario: object) -> Iterator[tuple[str | None, str, Term]]:
        """What is measured in a scenario: an interpretation or None, what it is of, and the number."""
        yield from ((None, "", term) for term in self.declared)
        if not isinstance(self.compare, Term | tuple | None):
            yield from ((None, of, term) for of, term in self.compare(scenario).items())
        yield from ((interpretation, "", term) for interpretation, term in self.otherwise.items())

    @property
    def declared(self) -> tuple[Term, ...]:
        """The numbers that do not depend on the scenario."""
        if isinstance(self.compare, tuple):
            return self.compare
        return (self.compare,) if isinstance(self.compare, Term) else ()


def measure(
    claims: Iterable[Claim],
    contents: dict[str, dict],
    series: Callable[[dict], dict] | None = None,
    interpretations: Iterable[Interpretation] = (),
) -> pl.DataFrame:
    """The table of claims, in their order, as far as a study's scenarios and schemes let them be measured.

    `contents` has by scenario `scenario` and the report's tables, `series` returns a scenario's values by name. None:
    what claims name are columns of `realizations` and, of a `value`, the scenario's parameters `section.key`.
    """
    claims = tuple(claims)
    values = {name: series(content) if series else _named(claims, content) for name, content in contents.items()}
    rows = []
    for claim in claims:
        for names in _among(claim).find(contents):
            compared = {name: contents[name]["scenario"] for name in names}
            for interpretation, of, term in claim.terms(compared[names[0]]):
                found = _measured(term, claim.quantity.column, [values[name] for name in names])
                if found is not None:
                    labels = [label for label in (interpretation, *_otherwise(interpretations, compared)) if label]
                    found = found._replace(detail="; ".join(text for text in (of, found.detail) if text))
                    required = claim.required if isinstance(claim.required, Band) else claim.required(values[names[0]])
                    absent = without_users(term, claim.quantity.column, [values[name] for name in names])
                    rows.append(row(claim, term, compared, found, required, "; ".join(labels), absent))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _named(claims: Iterable[Claim], content: dict) -> dict:
    """The columns of schemes and the parameters that claims name."""
    scenario, columns, parameters = content["scenario"], set(), {}
    for claim in claims:
        for each in (each for *_, term in claim.terms(scenario) for each in term.series):
            if each.of_scheme:
                columns.add(each.column or claim.quantity.column)
            else:
                parameters[each.name] = value_of(scenario, str(each.name))
    return by_scheme(scenario, content["realizations"], columns) | parameters


def _among(claim: Claim) -> Comparison:
    """The comparison that a claim's schemes are moved by, or where it is measured. Raises ValueError for several."""
    terms = (*claim.declared, *claim.otherwise.values())
    moved = {each.at for term in terms for each in term.series if each.at}
    if len(moved) > 1:
        raise ValueError(f"claim {claim.id}: schemes are moved by several comparisons; declare a claim for each")
    return moved.pop() if moved else claim.among


def _values(term: Term, column: str | None, values: list[dict]) -> list | None:
    """The values of a term's series in compared scenarios; None if there is one without."""
    found = []
    for each in term.series:
        places = values[1:] if each.at else values[:1]
        own = [place.get(each.key(column)) for place in places]
        if any(one is None for one in own):
            return None
        found.append(own if each.at and each.at.together else own[0])
    return found


def _measured(term: Term, column: str | None, values: list[dict]) -> Measure | None:
    known = _values(term, column, values)
    return None if known is None else term.measure(known)


def without_users(term: Term, column: str | None, values: list[dict]) -> int:
    """In how many realizations that all schemes of a term have a value of, one has no user scheduled."""
    valued, flags = [], []
    for each in term.series:
        for place in (values[1:] if each.at else values[:1]) if each.of_scheme else ():
            flag = place.get((each.name, unscheduled.COLUMN))
            if flag is not None:
                flags.append(flag)
                valued.append(place[each.key(column)])
    if not flags:
        return 0
    count = min(map(len, flags))
    known = ~np.isnan(np.stack([own[:count] for own in valued])).any(axis=0)
    return int((np.stack([flag[:count] for flag in flags]).any(axis=0) & known).sum())


def _otherwise(interpretations: Iterable[Interpretation], scenarios: Mapping[str, object]) -> Iterator[str]:
    """By which interpretations that are not the chosen ones scenarios are, and how."""
    for each in interpretations:
        for key, chosen in each.chosen_values.items():
            others = {str(value_of(own, key)): None for own in scenarios.values() if value_of(own, key) not in chosen}
            if others:
                yield f"{each.id}: {key} {' and '.join(others)}"


def row(
    claim: Claim,
    term: Term,
    scenarios: Mapping[str, object],
    measured: Measure,
    required: Band,
    interpretation: str = "",
    no_user_scheduled: int = 0,
) -> tuple:
    """A row of the table of claims, columns SCHEMA, about scenarios by name, the first of which is compared with."""
    bounds = term.range(claim.quantity.bounds)
    low, high = (None if end is None else float(np.clip(end, *bounds)) for end in (measured.low, measured.high))
    value, measured = None if np.isnan(measured.value) else measured.value, measured._replace(low=low, high=high)
    shown = (low, high) if measured.shown else (None, None)
    reported = f"{claim.reported}; {MISSED}" if misses(claim, *shown) else claim.reported
    first, *others = scenarios
    quantity = "; ".join(text for text in (f"{claim.quantity.words}: {term.words}", measured.detail) if text)
    return (
        *(claim.id, claim.statement, " and ".join(others) or first, first if others else None, interpretation or None),
        *(PROJECT if claim.setting is None else PAPER, claim.source, reported, quantity, value, *shown),
        *(measured.interval, str(required), claim.range_source),
        verdict(measured, required) if in_setting(claim, scenarios.values()) else None,
        *(measured.realizations, no_user_scheduled),
    )


def misses(claim: Claim, low: float | None, high: float | None) -> bool:
    """Whether no number of an interval that ends on both sides rounds to the one that the paper reports."""
    if claim.rounds_to is None or low is None or high is None:
        return False
    return high < claim.rounds_to[0] or low > claim.rounds_to[1]


def in_setting(claim: Claim, scenarios: Iterable) -> bool:
    """Whether scenarios are in the setting of a claim's paper; of this project's claims all are."""
    setting = claim.setting or {}
    return all(value_of(each, key) in values for each in scenarios for key, values in setting.items())


def verdict(measure: Measure, required: Band) -> str:
    """SUPPORTED if the whole interval lies in the band, REFUTED if outside; NOT_MEASURED of an undefined value."""
    if np.isnan(measure.value):
        return NOT_MEASURED
    low = -np.inf if measure.low is None else measure.low
    high = np.inf if measure.high is None else measure.high
    return SUPPORTED if required.contains(low, high) else REFUTED if required.excludes(low, high) else INCONCLUSIVE


def comparable(contents: dict[str, dict], *keys: str) -> list[list[str]]:
    """Groups of scenarios that are equal in all parameters but the keys `section.key`, or `key` of the scenario."""
    groups: dict[str, list[str]] = {}
    for name, content in contents.items():
        rest = plain(content["scenario"])
        for *section, key in (path.split(".") for path in keys):
            (rest.get(section[0], {}) if section else rest).pop(key, None)
        groups.setdefault(json.dumps(rest, sort_keys=True), []).append(name)
    return list(groups.values())


def by_scheme(scenario, frame: pl.DataFrame, columns: Iterable[str]) -> dict[tuple, np.ndarray]:
    """Series by realization of every scheme's rows, named by (scheduler, noise) and column; null is NaN.

    There is one of whether no user is scheduled, too.
    """
    series = {}
    for scheme, column in product(scenario.schemes, (*columns, unscheduled.COLUMN)):
        own = unscheduled.known(frame).filter(scheme=scheme.name).sort("realization")
        if column == unscheduled.COLUMN:
            values = own[column].fill_null(value=False).to_numpy()
        elif column == "accuracy":
            values = accuracies(own, datasets.size(scenario.data).classes)
        else:
            values = losses(own, column) if column in LOSSES else own[column].cast(pl.Float64).to_numpy()
        series[(scheme.scheduler, scheme.noise), column] = values
    return series
