"""Paired differences: of every two schemes of a scenario, and of every two points of a study at one epsilon.

In a realization all schemes of a scenario have the same channels, data and start weights, and so have scenarios of one
seed as far as their parameters agree. A difference is therefore taken realization by realization, and its interval and
p-value are those of a paired t-test.
"""

import numpy as np
import polars as pl
from scipy.special import stdtr, stdtrit

from pwfl.report import unscheduled
from pwfl.report.catalog import COMMON_OUTCOMES, Outcome
from pwfl.report.sweeps import KIND, main_outcomes, outcomes_of, with_targets
from pwfl.scenario.values import plain, value_of

INDEX = ["scenario", "scheme", "target_epsilon"]
PAIR = [*INDEX, *(f"than_{name}" for name in INDEX)]
SCHEMA = {
    "system": pl.String,
    **dict.fromkeys(("scenario", "scheme"), pl.String),
    "target_epsilon": pl.Float64,
    **dict.fromkeys(("than_scenario", "than_scheme"), pl.String),
    "than_target_epsilon": pl.Float64,
    "epsilon": pl.Float64,  # of both, where they have one in common
    "outcome": pl.String,
    **dict.fromkeys(("difference", "low", "high", "p", "p_corrected"), pl.Float64),
    "realizations": pl.Int64,
    "without_result": pl.Int64,  # realizations in which only one of the two has a result, or none
    unscheduled.COLUMN: pl.Int64,  # in how many of the realizations one of the two, or both, schedule no user
    "pairs": pl.Int64,  # that p is corrected for
    "detectable": pl.Float64,  # by a test of the corrected level, with probability POWER
    "realizations_needed": pl.Int64,  # to detect a difference as large as the measured one
}
COSTS = {
    "air_seconds": Outcome("Airtime (s)", "less"),
    "transmit_energy_j": COMMON_OUTCOMES["transmit_energy_j"],
}
CONFIDENCE, POWER = 0.95, 0.8
LEVEL = 1 - CONFIDENCE
SAME_EPSILON = 1e-3  # relative difference of two epsilons that are one
NEGLIGIBLE = 1e-12  # part of values that rounding leaves
MOST = 10**6  # realizations that are asked for


def table(study: dict[str, dict], outcomes: pl.DataFrame) -> pl.DataFrame:
    """Differences of final accuracy (or a system's first outcome), epsilon, airtime and radiated energy.

    `study` is that of `report.build.compare`, of different scenarios, and `outcomes` its table. A row says how far
    a point is above another, which the study lists before it: the mean over common realizations, its 95% interval
    (Student's t), p of a paired t-test, and p corrected by Holm (1979) for all pairs of the system and outcome; of
    pairs of equal results one is there. Points of two scenarios are compared if they have one system, seed, data,
    guarantee, observer and, to 0.1%, mean epsilon.
    """
    frames, outcomes = [pl.DataFrame(schema=SCHEMA)], outcomes.filter(pl.col("scenario").is_in(list(study)))
    for (system,), own in outcomes.group_by("system", maintain_order=True):
        points, values = _values(study, own, str(system))
        pairs = _different(_pairs(study, points), values)
        flags = values.pop(unscheduled.COLUMN, np.zeros((len(points), 1)))
        nobody = (flags[pairs] == 1).any(axis=1)  # either's
        for name, matrix in values.items():
            first, second = matrix[pairs[:, 0]], matrix[pairs[:, 1]]
            found = paired(first, second)
            found[unscheduled.COLUMN] = (nobody & np.isfinite(first) & np.isfinite(second)).sum(axis=1)
            frames.append(_rows(str(system), name, points, pairs, found))
    return pl.concat(frames, how="diagonal_relaxed").select(*SCHEMA)


def both_ways(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `table`, and each of them the other way round."""
    swap = dict(zip(PAIR, [*PAIR[len(INDEX) :], *INDEX], strict=True))
    ends = {"difference": -pl.col("difference"), "low": -pl.col("high"), "high": -pl.col("low")}
    return pl.concat([rows, rows.with_columns(**ends).rename(swap).select(rows.columns)])


def seen_from(rows: pl.DataFrame, point: dict) -> pl.DataFrame:
    """The differences of a point, a row with the columns INDEX, less others."""
    return both_ways(rows).filter(pl.col(key).eq_missing(pl.lit(point[key])) for key in INDEX)


def compared(outcomes: pl.DataFrame, system: str) -> dict[str, Outcome]:
    """What points of a system are compared by: its main outcome, epsilon, airtime and radiated energy."""
    known, (epsilon, main) = outcomes_of(system), main_outcomes(outcomes, system)
    return {main: known[main], epsilon: known[epsilon]} | COSTS


def _values(study: dict[str, dict], outcomes: pl.DataFrame, system: str) -> tuple[pl.DataFrame, dict[str, np.ndarray]]:
    """The points of a system, with their kind and mean epsilon; by outcome what each is in each realization, or NaN.

    Among the outcomes is whether no user is scheduled.
    """
    wanted, frames = [*compared(outcomes, system), unscheduled.COLUMN], []
    for name in outcomes["scenario"].unique(maintain_order=True):
        each = with_targets(unscheduled.known(study[name]["realizations"]))
        columns = [pl.col(column).cast(pl.Float64) for column in wanted if column in each.columns]
        frames.append(each.select(pl.lit(name).alias("scenario"), *INDEX[1:], "realization", *columns))
    each = pl.concat(frames, how="diagonal")
    points = each.select(INDEX).unique(maintain_order=True)
    kinds = outcomes.filter(outcome="epsilon").select(*INDEX, *KIND, epsilon="mean")
    points = points.join(kinds, on=INDEX, how="left", nulls_equal=True, maintain_order="left")
    values = {}
    for name in (name for name in wanted if name in each.columns):
        wide = each.pivot("realization", index=INDEX, values=name, maintain_order=True)
        values[name] = wide.drop(INDEX).cast(pl.Float64).to_numpy().astype(float)
    return points, {name: matrix for name, matrix in values.items() if np.isfinite(matrix).any()}


def _pairs(study: dict[str, dict], points: pl.DataFrame) -> np.ndarray:
    """Which points are compared with which earlier ones, shape (pair, 2)."""
    tasks = {}
    for name, content in study.items():
        data = plain(value_of(content["scenario"], "data"))
        tasks[name] = repr((value_of(content["scenario"], "seed"), data))
    points = points.with_columns(task=pl.col("scenario").replace_strict(tasks, return_dtype=pl.String))
    alike = (points.select(pl.struct(keys).rank("dense")) for keys in ("scenario", "target_epsilon", ["task", *KIND]))
    scenario, target, kind = (numbers.to_series().to_numpy() for numbers in alike)
    first, second = np.triu_indices(len(points), 1)
    pairs = np.stack([second, first], axis=1)
    across = (kind[first] == kind[second]) & _same_epsilon(points, pairs)
    return pairs[np.where(scenario[first] == scenario[second], target[first] == target[second], across)]


def _different(pairs: np.ndarray, values: dict[str, np.ndarray]) -> np.ndarray:
    """The pairs without those of equal results, and one of those that repeat another one's, as points of a sweep may.

    `values` are those of `_values`; a scheme that a swept parameter does not concern has equal results at all points.
    """
    results = np.concatenate(list(values.values()), axis=1)
    alike = np.unique(np.nan_to_num(results, nan=-1.0), axis=0, return_inverse=True)[1].reshape(-1)
    kept = alike[pairs]
    pairs, kept = pairs[kept[:, 0] != kept[:, 1]], kept[kept[:, 0] != kept[:, 1]]
    first = np.unique(kept, axis=0, return_index=True)[1]
    return pairs[np.sort(first)]


def _same_epsilon(points: pl.DataFrame, pairs: np.ndarray) -> np.ndarray:
    """Of which pairs both points have one finite mean epsilon above 0."""
    both = points["epsilon"].to_numpy().astype(float)[pairs]
    low, high = both.min(axis=1), both.max(axis=1)
    return (low > 0) & np.isfinite(high) & (high <= (1 + SAME_EPSILON) * low)


def paired(first: np.ndarray, second: np.ndarray) -> dict[str, np.ndarray]:
    """Paired t-tests of values, shape (pair, realization), NaN or infinite where there is no result.

    By name, arrays of shape (pair,): mean `difference`, first less second, `low` and `high` of its interval, `p`,
    `p_corrected` by Holm for all pairs that have a p, the numbers of `realizations` and of those `without_result`,
    how many `pairs` have a p, and the `detectable` difference and `realizations_needed` of a test of the level that
    Bonferroni gives each. NaN: not to be had from so few realizations.
    """
    with np.errstate(invalid="ignore"):
        difference = first - second
    there, any_ = np.isfinite(difference), ~(np.isnan(first) & np.isnan(second)).all(axis=0)
    count = there.sum(axis=1)
    scale = NEGLIGIBLE * np.where(there, np.maximum(np.abs(first), np.abs(second)), 0.0).max(axis=1, initial=0.0)
    degrees = np.maximum(count - 1, 1)
    mean = np.where(there, difference, 0.0).sum(axis=1) / np.where(count > 0, count, np.nan)
    mean = np.where(np.abs(mean) <= scale, 0.0, mean)
    squares = np.where(there, difference - mean[:, None], 0.0) ** 2
    std = np.where(count > 1, np.sqrt(squares.sum(axis=1) / degrees), np.nan)
    std = np.where(std <= scale, 0.0, std)
    error = std / np.sqrt(np.maximum(count, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(mean == 0, 0.0, np.abs(mean) / error)
    p = np.where(count > 1, 2 * stdtr(degrees, -t), np.nan)
    half = stdtrit(degrees, (1 + CONFIDENCE) / 2) * error
    tested = int(np.isfinite(p).sum())
    quantile = _quantiles(degrees, max(tested, 1))
    return {
        "difference": mean,
        "low": mean - half,
        "high": mean + half,
        "p": p,
        "p_corrected": holm(p),
        "realizations": count,
        "without_result": any_.sum() - count,
        "pairs": np.full(len(count), tested),
        "detectable": quantile * error,
        "realizations_needed": needed(np.abs(mean), std, max(tested, 1)),
    }


def holm(p: np.ndarray) -> np.ndarray:
    """p-values that hold for all tests together, by Holm (1979); NaN are no tests."""
    corrected, order = np.full(len(p), np.nan), np.argsort(p)[: np.isfinite(p).sum()]
    scaled = p[order] * np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return corrected


def _quantiles(degrees: np.ndarray, tests: int) -> np.ndarray:
    """How many standard errors a difference must be to be detected with probability POWER, of so many tests."""
    return stdtrit(degrees, 1 - LEVEL / (2 * tests)) + stdtrit(degrees, POWER)


def needed(difference: np.ndarray, std: np.ndarray, tests: int) -> np.ndarray:
    """The least numbers of realizations that detect differences with probability POWER; NaN beyond MOST, or of none."""
    numbers = np.unique(np.geomspace(2, MOST, 5000).astype(int))
    resolved = _quantiles(numbers - 1, tests) / np.sqrt(numbers)  # of standard deviations; falls
    with np.errstate(divide="ignore", invalid="ignore"):
        place = len(numbers) - np.searchsorted(resolved[::-1], difference / std, side="right")
    known = (difference > 0) & np.isfinite(std) & (place < len(numbers))
    return np.where(known, numbers[np.minimum(place, len(numbers) - 1)], np.nan)


def _rows(system: str, outcome: str, points: pl.DataFrame, pairs: np.ndarray, found: dict) -> pl.DataFrame:
    """The rows of an outcome, of pairs that have a difference."""
    first, second = (points[pairs[:, side]] for side in (0, 1))
    than = second.select(pl.col(INDEX).name.prefix("than_"))
    rows = pl.concat([first.select(*INDEX, "epsilon"), than, pl.DataFrame(found, nan_to_null=True)], how="horizontal")
    alike = pl.Series(_same_epsilon(points, pairs))
    rows = rows.with_columns(pl.when(alike).then("epsilon"), system=pl.lit(system), outcome=pl.lit(outcome))
    return rows.filter(pl.col("realizations") > 0).cast({"realizations_needed": pl.Int64})
