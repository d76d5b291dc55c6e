"""One engine for the claims of all systems: declared, measured from named series, decided by a band.

A claim is a sentence, the same in all scenarios, and the band in which a number must lie for it to hold. The number is
counted (not random, or a fact about the realizations at hand), or an estimate, which decides only by its whole 95%
interval over realizations, cut to the quantity's bounds. A paper's claim is judged in the paper's setting alone.
"""

import json
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from itertools import product
from typing import NamedTuple

import numpy as np
import polars as pl
from scipy.special import stdtrit

from pwfl.learning import datasets
from pwfl.report import unscheduled
from pwfl.report.statements import AGAINST, ELSEWHERE, PAPER, PROJECT
from pwfl.scenario.values import plain, value_of

CONFIDENCE = 0.95
SCHEMA = {
    "claim": pl.String,
    "scenario": pl.String,
    "whose": pl.String,  # the paper's, judged here or in another setting than its own; or this project's
    "source": pl.String,  # where the paper says it, or that it does not
    "printed": pl.String,  # the paper's number or words, null where it prints none, and whether the interval misses it
    "measured": pl.Float64,
    "low": pl.Float64,  # ends of the interval; null: none, or unbounded
    "high": pl.Float64,
    "interval": pl.String,  # what kind of interval, or why there is none
    "required": pl.String,  # the band
    "holds": pl.String,  # yes, no, or open where the interval does not decide
    "realizations": pl.Int64,
    unscheduled.COLUMN: pl.Int64,  # how many of these have no user scheduled in one of the schemes
}
FIELD = re.compile(r"\{(\w+)(?::([^{}]*))?\}")  # of a source; braces around anything else are text
STUDENT = "95%, Student's t over realizations"
ONE = "none: one realization"
NOT_RANDOM = "none: not random"
COUNTED = "none: a fact about these realizations"
INFINITE = "none: a value is not finite"
MISSED = "outside the measured interval"
LOSSES = ("loss", "batch_loss", "batch_loss_std")  # columns that are infinite where training failed
FAILED = ("diverged", "noise_infeasible")  # trainings that count against their scheme
# Bounds of quantities: shares and accuracies, differences of two, what is not negative, its relative changes, and what
# is no more than all.
UNBOUNDED, SHARE, OF_SHARES = (-np.inf, np.inf), (0.0, 1.0), (-1.0, 1.0)
POSITIVE, CHANGE, AT_MOST_ALL = (0.0, np.inf), (-1.0, np.inf), (-np.inf, 1.0)
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


class Measure(NamedTuple):
    """A number and the interval that decides with it."""

    value: float  # NaN: undefined
    low: float | None  # the interval's ends; None: no bound on that side is known
    high: float | None
    interval: str  # what kind of interval it is, or why there is none
    realizations: int | None  # how many it was measured in; None: no draw enters
    shown: bool = True  # whether tables show the ends; not those of a number that decides by itself
    no_user_scheduled: int = 0  # in how many of the realizations, in one of the schemes


class Claim(NamedTuple):
    """A sentence, and how it is measured and decided; the source may have fields in braces, see `measure`."""

    text: str
    band: Band  # where the number must lie
    source: str  # where the paper says it, or that it does not
    printed: str | None = None  # the paper's number or words
    measured: Callable[[dict], Measure | None] | None = None  # by named series; None if they do not let it be measured
    # The paper's setting: the values of parameters with which a scenario is in it. None: the claim is this project's.
    setting: Mapping[str, Collection] | None = None
    bounds: tuple[float, float] = UNBOUNDED  # between which the quantity lies, whatever is measured
    # The numbers that round to the printed one, in the unit of the measure: the row says so if the interval has none.
    rounds_to: tuple[float, float] | None = None


def measure(claims: Iterable[Claim], scenarios: dict[str, object], series: dict, **fields: object) -> list[tuple]:
    """The rows of claims about a scenario, or about several, as far as their series let them be measured.

    `scenarios` has their parameters by name, `series` values by name, `fields` those of the fields in sources.
    """
    rows = []
    for claim in claims:
        if (measured := claim.measured(series)) is not None:  # ty: ignore[not-callable]
            rows.append(row(claim._replace(source=_filled(claim.source, fields)), scenarios, measured))
    return rows


def _filled(source: str, fields: Mapping[str, object]) -> str:
    """A source with the values of its fields, as `str.format` writes them; other braces are text."""

    def value(field: re.Match) -> str:
        return format(fields[field[1]], field[2] or "") if field[1] in fields else field[0]

    return FIELD.sub(value, source)


def by(statistic: Callable[..., Measure | None], *names: Hashable) -> Callable[[dict], Measure | None]:
    """How a claim is measured: by a statistic of the series of these names, where there are all of them."""

    def measured(series: dict) -> Measure | None:
        values = [series.get(name) for name in names]
        if any(value is None for value in values) or (found := statistic(*values)) is None:
            return None
        return found._replace(no_user_scheduled=without_users(series, names))

    return measured


def without_users(series: dict, names: Iterable[Hashable]) -> int:
    """In how many realizations that all series of these names have a value of, one has no user scheduled.

    Names are those of `by_scheme`, maybe after the place of a setting; others say nothing of it.
    """
    flags = {name: series.get((*name[:-1], unscheduled.COLUMN)) for name in names if isinstance(name, tuple)}
    flags = {name: flag for name, flag in flags.items() if flag is not None}
    if not flags:
        return 0
    count = min(len(flag) for flag in flags.values())
    valued = ~np.isnan(np.stack([series[name][:count] for name in flags])).any(axis=0)
    return int((np.stack([flag[:count] for flag in flags.values()]).any(axis=0) & valued).sum())


def by_means(function: Callable, *names: Hashable) -> Callable[[dict], Measure | None]:
    """How a claim is measured: by the `estimate` of series by realization, of those realizations that all have."""

    def statistic(*series: np.ndarray) -> Measure | None:
        values = paired(*series)
        return estimate(function, values) if values.shape[1] else None

    return by(statistic, *names)


def known(measured: Measure) -> Callable[[dict], Measure]:
    """How a claim is measured that was declared when its measure was known."""
    return lambda series: measured


def row(claim: Claim, scenarios: dict[str, object], measured: Measure) -> tuple:
    """A row of the table of claims, columns SCHEMA, about scenarios, whose parameters are given by name."""
    low, high = (None if end is None else float(np.clip(end, *claim.bounds)) for end in (measured.low, measured.high))
    value, measured = None if np.isnan(measured.value) else measured.value, measured._replace(low=low, high=high)
    shown = (low, high) if measured.shown else (None, None)
    printed = f"{claim.printed}; {MISSED}" if misses(claim, *shown) else claim.printed
    said = (claim.text, AGAINST.join(scenarios), origin(claim, scenarios.values()), claim.source, printed)
    decided = (measured.interval, str(claim.band), verdict(measured, claim.band))
    return (*said, value, *shown, *decided, measured.realizations, measured.no_user_scheduled)


def misses(claim: Claim, low: float | None, high: float | None) -> bool:
    """Whether no number of an interval that ends on both sides rounds to the one that the paper prints."""
    if claim.rounds_to is None or low is None or high is None:
        return False
    return high < claim.rounds_to[0] or low > claim.rounds_to[1]


def origin(claim: Claim, scenarios: Iterable) -> str:
    """Whose a claim is, and whether scenarios, given by their parameters, are in the setting of its paper."""
    if claim.setting is None:
        return PROJECT
    within = (value_of(each, key) in values for each in scenarios for key, values in claim.setting.items())
    return PAPER if all(within) else ELSEWHERE


def verdict(measure: Measure, band: Band) -> str:
    """`yes` if the whole interval lies in the band, `no` if it lies outside, else `open`."""
    low = -np.inf if measure.low is None else measure.low
    high = np.inf if measure.high is None else measure.high
    return "yes" if band.contains(low, high) else "no" if band.excludes(low, high) else "open"


def table(rows: list[tuple]) -> pl.DataFrame:
    """The table of claims, sorted by claim."""
    return pl.DataFrame(rows, schema=SCHEMA, orient="row").sort("claim", maintain_order=True)


def fixed(value: float) -> Measure:
    """A number that no draw enters."""
    return Measure(value, value, value, NOT_RANDOM, None, shown=False)


def counted(value: float, realizations: int) -> Measure:
    """A fact about the realizations at hand: whether all of them satisfy an inequality, say."""
    return Measure(value, value, value, COUNTED, realizations, shown=False)


def estimate(function: Callable, values: np.ndarray) -> Measure:
    """A smooth function of the means of series, shape (series, realization), with its interval over realizations.

    The function takes means of shape (series, ...) and leaves out the first axis. The interval is the jackknife's with
    Student's t: of a mean or a difference of means that is Student's own, of ratios and slopes it is asymptotically
    right, and tested from five realizations on.

    Examples
    --------
    >>> mean = estimate(difference, [[3.0, 5.0, 4.0], [1.0, 2.0, 3.0]])
    >>> mean.value, round(mean.low, 3), round(mean.high, 3)
    (2.0, -0.484, 4.484)
    """
    return worst(lambda means: function(means)[None], values)


def worst(function: Callable, values: np.ndarray, *, largest: bool = True) -> Measure:
    """The largest (or least) of several functions of means, the worst case of a claim about all of them.

    As `estimate`, but `function` returns shape (case, ...). The end towards the claim's limit needs no correction for
    the number of cases: it exceeds that of the case that is truly worst. The other end takes Bonferroni's. An infinite
    mean (of losses, of a scheme that diverged) is infinite for certain, as the law's is then; of a quantity that is
    claimed to be small it says no.
    """
    sign = 1 if largest else -1
    values = np.asarray(values, float)
    means, count = values.mean(-1), values.shape[-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        centre = sign * function(means)
        value = float(sign * centre.max())
        if not np.isfinite(values).all() or not np.isfinite(centre).all():
            return Measure(value, np.inf if value == np.inf else None, None, INFINITE, count, shown=False)
        if count < 2:
            return Measure(value, None, None, ONE, count)
        means = means[..., None]
        without = sign * function(means + (means - values) / (count - 1))  # one realization left out
    if not np.isfinite(without).all():  # such as a ratio to an accuracy that only that realization reaches
        return Measure(value, None, None, INFINITE, count, shown=False)
    error = np.sqrt((count - 1) * without.var(-1))
    tail = (1 - CONFIDENCE) / 2
    high = (centre + stdtrit(count - 1, 1 - tail) * error).max()
    low = (centre - stdtrit(count - 1, 1 - tail / len(centre)) * error).max()
    low, high = sorted([float(sign * low), float(sign * high)])
    return Measure(value, low, high, STUDENT, count)


def maximum(values: np.ndarray, enough: int, bound: float | None = None) -> Measure:
    """The largest value in these realizations.

    Of as many as the paper looked at (`enough`) that is the paper's statement, a fact; of fewer only a lower end, whose
    upper end is `bound`, which no realization exceeds. Another one exceeds a maximum of N with probability 1 / (N + 1).
    """
    value, count = float(values.max()), len(values)
    if count >= enough:
        kind = f"{COUNTED}; a further one exceeds it at 1 in {count + 1}"
        return Measure(value, value, value, kind, count, shown=False)
    return Measure(value, value, bound, f"one-sided: the maximum of fewer realizations than {enough}", count)


def first(means: np.ndarray) -> np.ndarray:
    """The first mean itself."""
    return means[0]


def difference(means: np.ndarray) -> np.ndarray:
    """The first mean less the second."""
    return means[0] - means[1]


def ratio(means: np.ndarray) -> np.ndarray:
    """The first mean over the second."""
    return means[0] / means[1]


def comparable(scenarios: dict[str, dict], *keys: str) -> list[list[str]]:
    """Groups of scenarios that are equal in all parameters but the keys `section.key`, or `key` of the scenario."""
    groups: dict[str, list[str]] = {}
    for name, content in scenarios.items():
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


def accuracies(frame: pl.DataFrame, classes: int) -> np.ndarray:
    """Final accuracies of a scheme's trained realizations, in their order; one that failed has guessing's."""
    return losses(frame, "accuracy", 1 / classes)


def losses(frame: pl.DataFrame, column: str = "loss", failed: float = np.inf) -> np.ndarray:
    """Final losses of a scheme's realizations, in their order: `failed` of one that failed, NaN of one not trained."""
    value = pl.when(pl.col("training").is_in(FAILED)).then(pl.lit(failed)).otherwise(pl.col(column))
    return frame.sort("realization").select(value.cast(pl.Float64)).to_series().to_numpy()


def paired(*series: np.ndarray) -> np.ndarray:
    """Series of the same realizations, shape (series, realization), as far as all have a value (not NaN)."""
    values = np.stack([s[: min(map(len, series))] for s in series])
    return values[:, ~np.isnan(values).any(axis=0)]
