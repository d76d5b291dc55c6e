"""Effects: paired differences between every two points of a study that differ in only one factor.

A factor is the scheduler, the noise, noise instead of none, the observer, a swept parameter (from its smallest to its
largest value), another parameter, or several parameters of one section. In a realization, all schemes of a scenario
have the same channels, data and start model. So have scenarios with the same seed, as far as their parameters agree.
Differences are therefore paired by realization; their intervals and p-values are those of a paired t-test.
"""

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import polars as pl
from scipy.special import stdtr, stdtrit

from pwfl import registry
from pwfl.report import unscheduled
from pwfl.report.catalog import COMMON_OUTCOMES, Outcome
from pwfl.report.columns import completed
from pwfl.report.sweeps import (
    AXIS,
    DERIVED,
    INDEX,
    above_chance,
    find_point,
    list_outcomes,
    main_outcomes,
)
from pwfl.scenario.fields import parameters, stages_of
from pwfl.scenario.values import plain
from pwfl.stages import AUDIT, REPORT

ENDS = ("from", "to")
SCHEMA = {
    "system": pl.String,
    "factor": pl.String,  # SCHEDULER, NOISE, PRIVACY, a parameter's dotted key, or a section
    **dict.fromkeys(ENDS, pl.String),  # the factor's values; of a section, the scenarios, or those swept
    **{f"{end}_{key}": pl.Float64 if key == INDEX[2] else pl.String for end in ENDS for key in INDEX},
    "outcome": pl.String,
    **dict.fromkeys(("difference", "difference_ci_low", "difference_ci_high", "p", "p_corrected"), pl.Float64),
    "comparisons": pl.Int64,  # number of tests that p is corrected for
    "realizations": pl.Int64,
    "without_result": pl.Int64,  # realizations in which at most one of the two has a result
    unscheduled.COLUMN: pl.Int64,  # realizations in which either schedules no user
    "detectable": pl.Float64,  # difference found with probability POWER at the corrected level
    "realizations_needed": pl.Int64,  # number that detects a difference as large as the measured one
    "above_chance": pl.Boolean,  # whether the accuracy of either point is
}
MEANS = ("epsilon", "air_seconds", "transmit_energy_j")  # columns given as means for both points
SCHEMA |= {f"{end}_{name}": pl.Float64 for name in MEANS for end in ENDS}
SCHEDULER, NOISE, PRIVACY, OBSERVER = "scheduler", "noise", "noise instead of none", "privacy.observer"
COSTS = {
    "air_seconds": Outcome("Airtime (s)", "less"),
    "transmit_energy_j": COMMON_OUTCOMES["transmit_energy_j"],
}
CONFIDENCE, POWER = 0.95, 0.8
LEVEL = 1 - CONFIDENCE
NEGLIGIBLE = 1e-12  # relative size of rounding errors
MOST = 10**6  # largest number of realizations that is given as needed

Parameters = dict[str, object]


def table(study: dict[str, dict], outcomes: pl.DataFrame) -> pl.DataFrame:
    """Make the table of effects on final accuracy (or a system's first outcome), epsilon, airtime and radiated energy.

    `study` is as in `report.build.compare`, `outcomes` its table. A row contains the second point of a pair less the
    first: the mean over common realizations, its 95% interval (Student's t), p of a paired t-test, and p corrected by
    Holm (1979) for all pairs of the system and outcome. Numeric factors increase from the first to the second point;
    others are in the study's order. Pairs of equal results, and pairs that repeat another one, have no row.
    """
    frames, outcomes = [pl.DataFrame(schema=SCHEMA)], outcomes.filter(pl.col("scenario").is_in(list(study)))
    for (system,), system_outcomes in outcomes.group_by("system", maintain_order=True):
        points, values = _values(study, system_outcomes, str(system))
        pairs = _different(list(_pairs(study, points)), values)
        if not pairs:
            continue
        first, second = (np.array([pair[end] for pair in pairs]) for end in (0, 1))
        useful = above_chance(points, system_outcomes).to_numpy()
        flags = values.pop(unscheduled.COLUMN, np.zeros((len(points), 1)))
        nobody = (flags[first] == 1) | (flags[second] == 1)
        points = points.with_columns(
            pl.Series(name, _mean(values[name]), nan_to_null=True) for name in MEANS if name in values
        )
        compared_pairs = pl.DataFrame([pair[2:] for pair in pairs], schema=("factor", *ENDS), orient="row")
        compared_pairs = compared_pairs.with_columns(
            system=pl.lit(system), above_chance=pl.Series(useful[first] | useful[second])
        )
        ends = [
            points[at].select(pl.all().name.prefix(f"{end}_")) for end, at in zip(ENDS, (first, second), strict=True)
        ]
        compared_pairs = pl.concat([compared_pairs, *ends], how="horizontal")
        for name, matrix in values.items():
            defined = np.isfinite(matrix[first]) & np.isfinite(matrix[second])
            moved = np.flatnonzero((defined & (matrix[first] != matrix[second])).any(axis=1))
            differences = paired(matrix[second[moved]], matrix[first[moved]])
            differences[unscheduled.COLUMN] = (nobody & defined)[moved].sum(axis=1)
            columns = pl.DataFrame({key: pl.Series(column, nan_to_null=True) for key, column in differences.items()})
            rows = pl.concat([compared_pairs[moved], columns], how="horizontal").with_columns(outcome=pl.lit(name))
            frames.append(rows.cast({"realizations_needed": pl.Int64}))
    return pl.concat(frames, how="diagonal_relaxed").select(*SCHEMA)


def _mean(matrix: np.ndarray) -> np.ndarray:
    """Compute the means over the realizations that have a value; NaN if none has."""
    defined = ~np.isnan(matrix)
    return np.where(defined, matrix, 0.0).sum(axis=1) / np.where(defined.any(axis=1), defined.sum(axis=1), np.nan)


def compared(outcomes: pl.DataFrame, system: str) -> dict[str, Outcome]:
    """Return the outcomes that compare points of a system: its main one, epsilon, airtime and radiated energy."""
    known, (epsilon, main) = list_outcomes(system), main_outcomes(outcomes, system)
    return {name: known[name] for name in (main, epsilon) if name} | COSTS


def _values(study: dict[str, dict], outcomes: pl.DataFrame, system: str) -> tuple[pl.DataFrame, dict[str, np.ndarray]]:
    """Return a system's points, and by outcome their values, shape (point, realization), NaN where missing.

    The outcomes include whether no user is scheduled; those without finite values are left out.
    """
    wanted, frames = [*compared(outcomes, system), unscheduled.COLUMN], []
    for name in outcomes["scenario"].unique(maintain_order=True):
        kinds = dict.fromkeys(wanted, pl.Float64) | DERIVED
        frame = completed(unscheduled.known(study[name]["realizations"]), kinds)
        columns = [pl.lit(name).alias("scenario"), *INDEX[1:], "realization", pl.col(wanted).cast(pl.Float64)]
        frames.append(frame.select(columns))
    frame = pl.concat(frames)
    points = frame.select(INDEX).unique(maintain_order=True)
    wide = (frame.pivot("realization", index=INDEX, values=name, maintain_order=True) for name in wanted)
    values = {name: table.drop(INDEX).to_numpy() for name, table in zip(wanted, wide, strict=True)}
    return points, {name: matrix for name, matrix in values.items() if np.isfinite(matrix).any()}


def _pairs(study: dict[str, dict], points: pl.DataFrame) -> Iterator[tuple[int, int, str, str, str]]:
    """Yield pairs of points that differ in one factor: their two indices, the factor, and its two values."""
    read = _parameters(study)
    # AXIS, the target epsilon, is not a factor.
    swept = dict.fromkeys(key for name in study for key in find_point(study, name).values if key != AXIS)
    factors = {**swept, OBSERVER: None}
    every = []
    for name, scheme, target in points.select(INDEX).iter_rows():
        (chosen,) = (candidate for candidate in study[name]["scenario"].schemes if candidate.name == scheme)
        bare = chosen.noise == "none"  # without noise, parameters of privacy have no effect
        relevant = {key: value for key, value in read[name].items() if not (bare and key.startswith("privacy."))}
        every.append((relevant, chosen.scheduler, chosen.noise, None if bare else target, scheme))

    def groups(wanted, *left_out: int) -> Iterator[list[int]]:
        """Group the points that are equal except in parameters that are `wanted` and in parts `left_out`."""
        alike: dict[str, list[int]] = {}
        for k, (relevant, *parts) in enumerate(every):
            rest = {key: value for key, value in relevant.items() if not wanted(key)}
            kept = [part for place, part in enumerate(parts[:3]) if place not in left_out]
            alike.setdefault(repr((rest, kept)), []).append(k)
        return iter(alike.values())

    for place, factor in enumerate((SCHEDULER, NOISE)):
        for a, b in _two(groups(lambda _: False, place)):
            values = [every[k][place + 1] for k in (a, b)]
            names = [every[k][4] for k in (a, b)]
            if values[0] != values[1] and not (place and "none" in values):
                before, after = names if names[0] != names[1] else map(str, values)
                yield a, b, factor, before, after
    for pair in _two(groups(lambda key: key.startswith("privacy."), 1, 2)):
        without = [k for k in pair if every[k][2] == "none"]
        if len(without) == 1:
            yield without[0], sum(pair) - without[0], PRIVACY, "none", "noise"
    for key in factors:
        for group in groups(key.__eq__):
            ordered, is_number = _ordered([(every[k][0].get(key), k) for k in group])
            ends = ordered[:: max(len(ordered) - 1, 1)] if key in swept and is_number else ordered
            for (one, a), (other, b) in combinations(ends, 2):
                if one != other:
                    yield a, b, key, _text(one), _text(other)
    for section in dict.fromkeys(key.partition(".")[0] for keys in read.values() for key in keys):
        inside = {key for keys in read.values() for key in keys if key.startswith(f"{section}.")} - {*factors, AXIS}
        for a, b in _two(groups(inside.__contains__)):
            keys = [key for key in inside if every[a][0].get(key) != every[b][0].get(key)]
            if len(keys) == 1:
                ((one, first), (other, second)), _ = _ordered([(every[k][0].get(keys[0]), k) for k in (a, b)])
                yield first, second, keys[0], _text(one), _text(other)
            elif keys:
                before, after = (find_point(study, points["scenario"][k]).of for k in (a, b))
                yield a, b, section, before, after


def _parameters(study: dict[str, dict]) -> dict[str, Parameters]:
    """Return, by scenario, the parameters that results depend on, by their dotted keys."""
    by_scenario, ignored = {}, {}
    for name, content in study.items():
        system = content["scenario"].system
        if system not in ignored:
            model = parameters(registry.system(system).model)
            ignored[system] = {".".join(path) for path, field in model if stages_of(field) <= {AUDIT, REPORT}}
        flat = _flat(plain(content["scenario"]))
        kept = {key: value for key, value in flat.items() if "." in key and key not in ignored[system]}
        by_scenario[name] = kept | {"seed": flat.get("seed")}
    return by_scenario


def _flat(values: dict, prefix: str = "") -> Parameters:
    flat = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def _two(groups: Iterator[list[int]]) -> Iterator[tuple[int, int]]:
    for group in groups:
        yield from combinations(group, 2)


def _ordered(values: list[tuple[object, int]]) -> tuple[list[tuple[object, int]], bool]:
    """Sort values with their points if all are numbers; return them, and whether they are numbers."""
    is_number = all(isinstance(value, int | float) and not isinstance(value, bool) for value, _ in values)
    return (sorted(values) if is_number else values), is_number


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else "none" if value is None else str(value)


def _different(pairs: list[tuple], values: dict[str, np.ndarray]) -> list[tuple]:
    """Remove pairs of equal results, and pairs with the same results and factor as an earlier pair.

    `values` is as in `_values`. A scheme that a swept parameter does not affect has equal results at all points.
    """
    results = np.concatenate(list(values.values()), axis=1)
    alike = np.unique(np.nan_to_num(results, nan=-1.0), axis=0, return_inverse=True)[1].reshape(-1)
    kept = {}
    for a, b, factor, *levels in pairs:
        if alike[a] != alike[b]:
            kept.setdefault((alike[a], alike[b], factor), (a, b, factor, *levels))
    return list(kept.values())


def paired(first: np.ndarray, second: np.ndarray) -> dict[str, np.ndarray]:
    """Compute paired t-tests of values, shape (pair, realization), NaN or infinite where there is no result.

    Returns, by name, arrays of shape (pair,): mean `difference`, first less second, the ends of its interval, `p`,
    `p_corrected` by Holm for all pairs that have a p, the numbers of `realizations` and of those `without_result`, the
    number of `comparisons` that have a p, and the `detectable` difference and `realizations_needed` of a test at each
    pair's Bonferroni-corrected level. NaN: too few realizations.
    """
    with np.errstate(invalid="ignore"):
        difference = first - second
    defined, any_ = np.isfinite(difference), ~(np.isnan(first) & np.isnan(second)).all(axis=0)
    count = defined.sum(axis=1)
    scale = NEGLIGIBLE * np.where(defined, np.maximum(np.abs(first), np.abs(second)), 0.0).max(axis=1, initial=0.0)
    degrees = np.maximum(count - 1, 1)
    mean = np.where(defined, difference, 0.0).sum(axis=1) / np.where(count > 0, count, np.nan)
    mean = np.where(np.abs(mean) <= scale, 0.0, mean)
    squares = np.where(defined, difference - mean[:, None], 0.0) ** 2
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
        "difference_ci_low": mean - half,
        "difference_ci_high": mean + half,
        "p": p,
        "p_corrected": holm(p),
        "realizations": count,
        "without_result": any_.sum() - count,
        "comparisons": np.full(len(count), tested),
        "detectable": quantile * error,
        "realizations_needed": needed(np.abs(mean), std, max(tested, 1)),
    }


def holm(p: np.ndarray) -> np.ndarray:
    """Correct p-values for all tests jointly, by Holm (1979); NaN values are not tests."""
    corrected, order = np.full(len(p), np.nan), np.argsort(p)[: np.isfinite(p).sum()]
    scaled = p[order] * np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return corrected


def _quantiles(degrees: np.ndarray, tests: int) -> np.ndarray:
    """Return the difference, in standard errors, that one of `tests` tests detects with probability POWER."""
    return stdtrit(degrees, 1 - LEVEL / (2 * tests)) + stdtrit(degrees, POWER)


def needed(difference: np.ndarray, std: np.ndarray, tests: int) -> np.ndarray:
    """Return how many realizations detect each difference with probability POWER; NaN beyond MOST, or if it is 0."""
    numbers = np.unique(np.geomspace(2, MOST, 5000).astype(int))
    resolved = _quantiles(numbers - 1, tests) / np.sqrt(numbers)  # in standard deviations, decreasing
    with np.errstate(divide="ignore", invalid="ignore"):
        place = len(numbers) - np.searchsorted(resolved[::-1], difference / std, side="right")
    known = (difference > 0) & np.isfinite(std) & (place < len(numbers))
    return np.where(known, numbers[np.minimum(place, len(numbers) - 1)], np.nan)
