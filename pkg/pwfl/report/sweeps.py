"""Make a study's tables of points: their outcomes, and the Pareto front of every two outcomes.

`study` is as in `report.build.compare`: each scenario's content by its name, with its `point` if it is one of a sweep.
"""

from itertools import combinations

import numpy as np
import polars as pl

from pwfl import registry
from pwfl.report import chance, unscheduled
from pwfl.report.catalog import COMMON_OUTCOMES, Outcome
from pwfl.report.columns import TERMS, completed, describe_terms, literals, weakest
from pwfl.report.theme import means
from pwfl.scenario.sweep import Point

KEYS = ["scenario", "system", "sweep_of"]
INDEX = ["scenario", "scheme", "target_epsilon"]  # identifies a point
AXIS = "privacy.target_epsilon"  # the swept parameter that outcomes are drawn over
KIND = ["guarantee", "epsilon_trusts", "observer"]  # only points that agree in these are compared
# Columns of tables of realizations that not all systems have; `target_epsilon` if schemes have several targets.
DERIVED: dict[str, type[pl.DataType]] = {"target_epsilon": pl.Float64, "attack_rate": pl.Float64, "training": pl.String}
DIGITS = 4  # significant digits up to which means are compared
COLUMNS = (  # of `outcomes`, after those that identify a point
    *("guarantee", "attack_rate", *TERMS, "outcome", "mean", "ci_low", "ci_high", "min", "max"),
    *("realizations", unscheduled.COLUMN, unscheduled.DIVERGED, "chance"),
)


def outcomes(study: dict[str, dict]) -> pl.DataFrame:
    """Make the table `outcomes`: a row for each outcome of each scheme of each scenario.

    Columns: scenario, system, the scenario that is swept, swept parameters by their dotted keys, scheme (and its
    privacy target if it has several), the guarantee of its epsilon, its terms, outcome, mean over realizations with its
    95% interval, minimum, maximum, number of realizations, number of these with no user scheduled, number of others
    that diverged, and, for accuracy, the level that needs no learning (`chance.level`). `attack_rate` is the mean rate
    of the record-level epsilon; null if it is unknown in any realization that has an epsilon.
    """
    frames = []
    for name, content in study.items():
        point = find_point(study, name)
        keys = {"scenario": name, "system": content["scenario"].system, "sweep_of": point.of} | point.values
        frames.append(_scenario_outcomes(content).select(*literals(keys), pl.all()))
    return pl.concat(frames, how="diagonal_relaxed")


def _scenario_outcomes(content: dict) -> pl.DataFrame:
    """Make the table `outcomes` of a scenario from its content, without the columns that identify the scenario."""
    keys, frames = ["scheme", "target_epsilon"], []
    system, realizations = content["scenario"].system, unscheduled.known(completed(content["realizations"], DERIVED))
    schemes = realizations.group_by(keys, maintain_order=True)
    unrated, without = (pl.col(name).null_count() for name in ("attack_rate", "epsilon"))
    for column in (name for name in list_outcomes(system) if name in realizations.columns):
        value, level = pl.col(column), chance.level(content["scenario"]) if column == "accuracy" else None
        diverged = (pl.col("training") == unscheduled.DIVERGED) & value.is_null()
        rows = schemes.agg(
            describe_terms(),
            guarantee=weakest(),
            attack_rate=pl.when(unrated == without).then(pl.col("attack_rate").mean()),
            outcome=pl.lit(column),
            min=value.min().cast(pl.Float64),
            max=value.max().cast(pl.Float64),
            realizations=value.count().cast(pl.Int64),
            no_user_scheduled=unscheduled.count(column),
            diverged=diverged.sum().cast(pl.Int64),
            chance=pl.lit(level, pl.Float64),
        )
        averages = means(realizations, keys, [column], system)
        averages = averages.rename({f"{column}_{part}": part for part in ("mean", "ci_low", "ci_high")})
        rows = rows.join(averages, on=keys, nulls_equal=True, maintain_order="left")
        frames.append(rows.filter(pl.col("realizations") > 0).select(*keys, *COLUMNS))
    return pl.concat(frames, how="diagonal_relaxed")


def not_above_chance() -> pl.Expr:
    """Return an expression: whether an accuracy's lower end, or mean if it has no interval, is not above chance."""
    return (pl.coalesce("ci_low", "mean") <= pl.col("chance")).fill_null(value=False)


def above_chance(rows: pl.DataFrame, table: pl.DataFrame) -> pl.Series:
    """Return false for each point of `rows` with an accuracy not above chance in `table`, `outcomes`; else true."""
    useless = table.filter(not_above_chance()).select(*INDEX, useless=True)
    return rows.join(useless, on=INDEX, how="left", nulls_equal=True, maintain_order="left")["useless"].is_null()


def front(table: pl.DataFrame) -> pl.DataFrame:
    """Select the undominated points of the table `outcomes`, for every two outcomes of a system.

    A point is dominated by another one of its KIND with means as good in both outcomes, and better in one. Left out
    are points without a finite epsilon, if that is an outcome, and points with an accuracy not above chance.
    Columns: `x` and `y`, the outcomes; those of `index_columns`; `x_mean` and `y_mean`; for each, the number of
    realizations with no user scheduled, `x_no_user_scheduled` and `y_no_user_scheduled`, and of those that diverged,
    `x_diverged` and `y_diverged`. Accuracy against epsilon comes first.
    """
    index, counted = index_columns(table), (unscheduled.COLUMN, unscheduled.DIVERGED)
    text, number = pl.lit(""), pl.lit(0.0)
    counts = {f"{axis}_{what}": pl.lit(0, pl.Int64) for what in counted for axis in "xy"}
    frames = [table.clear().select(text.alias("x"), text.alias("y"), *index, x_mean=number, y_mean=number, **counts)]
    for (system,), part in table.group_by("system", maintain_order=True):
        known = list_outcomes(system)
        wide, *numbers = (part.pivot("outcome", index=index, values=v, maintain_order=True) for v in ("mean", *counted))
        if "epsilon" in wide.columns:
            wide = wide.filter(pl.col("epsilon").is_finite())  # without privacy nothing is traded
        varied = [name for name in known if name in wide.columns and _rounded(wide[name]).n_unique() > 1]
        main = main_outcomes(part, str(system)) if varied else ()
        compared = [name for name in known if name in varied or (name in main and name in wide.columns)]
        wide = wide.filter(above_chance(wide, part))
        for y, x in combinations(compared, 2):
            both = wide.filter(pl.col(x).is_finite() & pl.col(y).is_finite())
            kept = both.filter(undominated(both, losses(both[x], known[x]), losses(both[y], known[y])))
            names = (pl.lit(x).alias("x"), pl.lit(y).alias("y"))
            kept = kept.select(*names, *index, x_mean=x, y_mean=y).sort("x_mean", maintain_order=True)
            for what, frame in zip(counted, numbers, strict=True):
                renamed = frame.select(*index, pl.col(x).alias(f"x_{what}"), pl.col(y).alias(f"y_{what}"))
                kept = kept.join(renamed, on=index, how="left", nulls_equal=True, maintain_order="left")
            frames.append(kept)
    return pl.concat(frames)


def undominated(points: pl.DataFrame, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return whether each point, with losses `x` and `y`, is `efficient` among those of its KIND, shape (point,)."""
    best, rows = np.zeros(len(points), bool), np.arange(len(points))
    for _, kind in points.select(KIND).with_columns(row=rows).group_by(KIND):
        members = kind["row"].to_numpy()
        best[members] = efficient(x[members], y[members])
    return best


def efficient(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return whether each point is undominated: no other is as low in both losses, and lower in one; shape (point,).

    Examples
    --------
    >>> efficient(np.array([1, 2, 2, 3]), np.array([5, 4, 6, 4])).tolist()
    [True, True, False, False]
    """
    values, column = np.unique(x, return_inverse=True)
    least = np.full(len(values), np.inf)
    np.minimum.at(least, column, y)
    before = np.concatenate([[np.inf], np.minimum.accumulate(least)[:-1]])  # smallest y of all smaller x
    return (y == least[column]) & (y < before[column])


def find_point(study: dict[str, dict], name: str) -> Point:
    """Return a scenario's point in a study's sweeps; if the study has none for it, the scenario itself."""
    return study[name].get("point", Point(name, {}))


def main_outcomes(table: pl.DataFrame, system: str) -> tuple[str, str]:
    """Return the main outcomes in a table: epsilon, or else the first, and accuracy, or else the system's first.

    Both are "" if the table is empty.
    """
    first = list(dict.fromkeys(table["outcome"]))
    main = [name for name in ("accuracy", *registry.system(system).catalog.outcomes, *first) if name in first]
    return ("epsilon" if "epsilon" in first else next(iter(first), "")), next(iter(main), "")


def index_columns(table: pl.DataFrame) -> list[str]:
    """List the columns of a table of `outcomes` that identify a row's point, and describe its guarantee."""
    return [*KEYS, *swept_keys(table), "scheme", "target_epsilon", "guarantee", *TERMS]


def swept_keys(table: pl.DataFrame) -> list[str]:
    """List the columns of swept parameters in a table of `outcomes`."""
    return table.columns[len(KEYS) : table.columns.index("scheme")]


def list_outcomes(system: str) -> dict[str, Outcome]:
    """Return the outcomes by which points of a system are compared, by column."""
    return COMMON_OUTCOMES | registry.system(system).catalog.outcomes


def losses(values: pl.Series, outcome: Outcome) -> np.ndarray:
    """Return an outcome's values such that less is better, rounded to DIGITS: noise calibration is about as exact."""
    return _rounded(values).to_numpy() * (-1 if outcome.better == "more" else 1)


def _rounded(values: pl.Series) -> pl.Series:
    return values.cast(pl.Float64).round_sig_figs(DIGITS)
