"""Numbers by which claims of a study are decided, with their intervals: facts, means over realizations, maxima.

An estimate has a 95% interval over realizations. A fact, or a number that is not random, has none and decides alone.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import polars as pl
from scipy.special import stdtrit

CONFIDENCE = 0.95
STUDENT = "95%, Student's t over realizations"
ONE = "none: one realization"
NOT_RANDOM = "none: not random"
COUNTED = "none: a fact about these realizations"
INFINITE = "none: a value is not finite"
ONE_SIDED = "one-sided"  # prefix of the kinds of intervals with a bound on one side only
LOSSES = ("loss", "batch_loss", "batch_loss_std")  # columns that are infinite if training failed
FAILED = ("diverged", "noise_infeasible")  # statuses of training runs that count against their scheme


class Measure(NamedTuple):
    """A number, and the interval by which a claim about it is decided."""

    value: float  # NaN: undefined
    low: float | None  # the interval's ends; None: no bound on that side is known
    high: float | None
    interval: str  # kind of the interval, or the reason that there is none
    realizations: int | None  # number of realizations it was measured in; None: it is not random
    shown: bool = True  # whether tables show the ends; false if the number decides alone
    detail: str = ""  # further text for tables, such as a number of users


def fixed(value: float) -> Measure:
    """Make the measure of a number that is not random."""
    return Measure(value, value, value, NOT_RANDOM, None, shown=False)


def counted(value: float, realizations: int) -> Measure:
    """Make the measure of a fact about the realizations at hand, such as whether all satisfy an inequality."""
    return Measure(value, value, value, COUNTED, realizations, shown=False)


def estimate(function: Callable, values: np.ndarray) -> Measure:
    """Estimate a smooth function of means over realizations, with its interval; `values`: (series, realization).

    `function` maps means of shape (series, ...) to an array without the first axis. The interval is the jackknife's,
    with Student's t. For means and differences of means it equals Student's interval. For ratios and slopes it is
    asymptotically correct, and tested for five or more realizations.

    Examples
    --------
    >>> mean = estimate(difference, [[3.0, 5.0, 4.0], [1.0, 2.0, 3.0]])
    >>> mean.value, round(mean.low, 3), round(mean.high, 3)
    (2.0, -0.484, 4.484)
    """
    return worst(lambda means: function(means)[None], values)


def worst(function: Callable, values: np.ndarray, *, largest: bool = True) -> Measure:
    """Estimate the largest (or smallest) of several functions of means: the worst case of a claim about all of them.

    As `estimate`, but `function` returns shape (case, ...). The end towards the claim's limit needs no correction for
    the number of cases: it exceeds that of the case that is truly worst. The other end has Bonferroni's correction.
    An infinite value (losses of a scheme that diverged) is certain, as the distribution's mean is infinite too. Its
    lower end is then infinite, which refutes a claim that the quantity is small.
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
    """Measure the largest of values, shape (realization,).

    In at least `enough` realizations, the paper's number, the maximum is a fact. In fewer it is only the lower end; the
    upper end is `bound`, which no realization exceeds. One more exceeds a maximum of N with probability 1 / (N + 1).
    """
    value, count = float(values.max()), len(values)
    if count >= enough:
        kind = f"{COUNTED}; a further one exceeds it at 1 in {count + 1}"
        return Measure(value, value, value, kind, count, shown=False)
    return Measure(value, value, bound, f"{ONE_SIDED}: the maximum of fewer realizations than {enough}", count)


def difference(means: np.ndarray) -> np.ndarray:
    """Subtract the second mean from the first."""
    return means[0] - means[1]


def ratio(means: np.ndarray) -> np.ndarray:
    """Divide the first mean by the second."""
    return means[0] / means[1]


def accuracies(frame: pl.DataFrame, classes: int) -> np.ndarray:
    """Return a scheme's final accuracy by realization: that of guessing if training failed, NaN if not trained."""
    return losses(frame, "accuracy", 1 / classes)


def losses(frame: pl.DataFrame, column: str = "loss", failed: float = np.inf) -> np.ndarray:
    """Return a column of a scheme's final losses by realization: `failed` if training failed, NaN if not trained."""
    value = pl.when(pl.col("training").is_in(FAILED)).then(pl.lit(failed)).otherwise(pl.col(column))
    return frame.sort("realization").select(value.cast(pl.Float64)).to_series().to_numpy()


def paired(*series: np.ndarray) -> np.ndarray:
    """Stack series by realization, without realizations in which any is NaN; shape (series, realization)."""
    values = np.stack([s[: min(map(len, series))] for s in series])
    return values[:, ~np.isnan(values).any(axis=0)]
