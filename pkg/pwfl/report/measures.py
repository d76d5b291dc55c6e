"""What a number of a study is, with the interval that decides with it: facts, means over realizations, maxima.

An estimate has a 95% interval over realizations. A number that is counted, or not random, has none and decides alone.
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
ONE_SIDED = "one-sided"  # how the kinds of intervals begin that bound a number on one side
LOSSES = ("loss", "batch_loss", "batch_loss_std")  # columns that are infinite where training failed
FAILED = ("diverged", "noise_infeasible")  # trainings that count against their scheme


class Measure(NamedTuple):
    """A number and the interval that decides with it."""

    value: float  # NaN: undefined
    low: float | None  # the interval's ends; None: no bound on that side is known
    high: float | None
    interval: str  # what kind of interval it is, or why there is none
    realizations: int | None  # how many it was measured in; None: no draw enters
    shown: bool = True  # whether tables show the ends; not those of a number that decides by itself
    detail: str = ""  # what else tables say of it, such as a number of users


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
    return Measure(value, value, bound, f"{ONE_SIDED}: the maximum of fewer realizations than {enough}", count)


def difference(means: np.ndarray) -> np.ndarray:
    """The first mean less the second."""
    return means[0] - means[1]


def ratio(means: np.ndarray) -> np.ndarray:
    """The first mean over the second."""
    return means[0] / means[1]


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
