"""Small studies as they may come out: tables of a tiny run with other numbers, within their schemas."""

from collections.abc import Iterator

import dataframely as dy
import numpy as np
import polars as pl

from pwfl import registry
from pwfl.report import build, headline, points, study_figures
from pwfl.report.catalog import STUDY_FIGURES, compared, scenario_figures
from pwfl.scenario.common import Scenario
from pwfl.scenario.sweep import Point
from pwfl.scenario.values import plain, with_others
from pwfl.tables import contract

KEPT = 0.4  # probability that a column stays as it is
SOME = 0.3  # share of its rows that another change is made to
ENDED = ("diverged", "no_user_scheduled", "nobody_took_part")  # of trainings
POINTS = (1, 1, 2, 3, 40)
SWEPT = ("training.rounds", "privacy.weight", "radio.kind")  # parameters that scenarios are taken to differ in


def changed(scenario: Scenario, tables: dict[str, pl.DataFrame], rng: np.random.Generator) -> tuple[Scenario, dict]:
    """A scenario with some of its schemes, and the tables of its stages with some realizations and other numbers."""
    schemes = plain(scenario)["schemes"]
    kept = [schemes[k] for k in sorted(rng.choice(len(schemes), rng.integers(1, len(schemes) + 1), replace=False))]
    names, count = [scheme["name"] for scheme in kept], int(rng.choice([1, 2, 4]))
    found = {name: _of(frame, names, count) for name, frame in tables.items()}
    for name in ("history", "outcome", "leakage", "schedule_status", "noise"):
        found[name] = _numbers(found[name], contract.schema(scenario.system, name), rng)
    found["history"] = _ended(found["history"], rng)
    if rng.random() < 0.2 and "round" in found["history"].columns:  # evaluated once
        found["history"] = found["history"].filter(pl.col("round") == pl.col("round").max())
    return with_others(scenario, schemes=kept), found


def figures(
    scenario: Scenario, tables: dict[str, pl.DataFrame], rng: np.random.Generator, others: bool
) -> Iterator[tuple]:
    """All figures of a scenario and of a study of several like it, with their names; with `others` those of its page.

    Without the table `audit` there is no figure of it.
    """
    catalog, system = registry.system(scenario.system).catalog, scenario.system
    for name, needed in scenario_figures(catalog).items():
        if not tables.keys() >= set(needed):
            continue
        yield f"{system}.{name}", build.figure(scenario, name, {table: tables[table] for table in needed})
    study = compared_with(scenario, build.summarize(scenario, tables), rng)
    for name in catalog.comparison_figures:
        yield f"{system}.{name}", build.comparison_figure(system, name, study)
    frames = build.compare(study)
    if frames["outcomes"].is_empty():
        return
    rows = points.points(study, frames, {})
    lead = headline.lead(rows)
    if others:
        assert study_figures.draw_page(rows, lead, study, frames["outcomes"], rows)["wide"]
    for name in STUDY_FIGURES:
        if name in compared(catalog, swept=True):
            yield f"{system}.{name}", study_figures.chart(name, rows, lead, study, frames["outcomes"])


def compared_with(scenario: Scenario, report: dict[str, pl.DataFrame], rng: np.random.Generator) -> dict[str, dict]:
    """A study of points of a sweep, maybe of scenarios beside it, whose realizations come to different numbers."""
    several, count = bool(rng.integers(2)), int(rng.choice(POINTS))
    keys = list(SWEPT[: rng.integers(1, len(SWEPT) + 1)])
    names = [(f"swept,{k}", Point("swept", {key: _value(key, k, rng) for key in keys})) for k in range(count)]
    names += [(name, Point(name, {})) for name in ("alone", "beside") if several]
    alike, study = bool(rng.random() < 0.25), {}
    for k, (name, point) in enumerate(names):
        each = report["realizations"]
        each = each if alike else _numbers(each, contract.schema(scenario.system, "outcome"), rng)
        of_it = {"scenario": with_others(scenario, point=k), "point": point}
        study[name] = of_it | report | {"realizations": each}
    return study


def _value(key: str, k: int, rng: np.random.Generator):
    return {SWEPT[0]: k + 1, SWEPT[1]: float(10.0 ** rng.integers(-3, 4)), SWEPT[2]: f"kind {k % 3}"}[key]


def _of(frame: pl.DataFrame, schemes: list[str], realizations: int) -> pl.DataFrame:
    frame = frame.filter(pl.col("scheme").cast(pl.String).is_in(schemes)) if "scheme" in frame.columns else frame
    return frame.filter(pl.col("realization") < realizations) if "realization" in frame.columns else frame


def _numbers(frame: pl.DataFrame, schema: type[dy.Schema], rng: np.random.Generator) -> pl.DataFrame:
    """The table with other numbers of fractions in columns that are no keys, as the schema has them; delta stays."""
    for name, column in schema.columns().items():
        fixed = column.primary_key or name == "delta" or name.startswith("target") or name not in frame.columns
        if fixed or not isinstance(column, dy.Float64) or rng.random() < KEPT:
            continue
        allowed = [pl.lit(None, pl.Float64)] * column.nullable
        allowed += [pl.lit(np.nan)] * bool(column.allow_nan) + [pl.lit(np.inf)] * bool(column.allow_inf)
        allowed += [pl.lit(0.0), pl.lit(1.0), pl.lit(0.5), pl.col(name).drop_nulls().first()]
        allowed += [pl.col(name) * factor for factor in (1e-6, 1e6, 1 + 1e-9)]
        rows = pl.Series(rng.random(len(frame)) < (1.0 if rng.random() < 0.5 else SOME), dtype=pl.Boolean)
        value = pl.when(rows).then(allowed[rng.integers(len(allowed))]).otherwise(pl.col(name))
        bounded = value.clip(column.min, column.max)
        low, high = column.min_exclusive, column.max_exclusive
        bounded = bounded if low is None else bounded.clip(low + 1e-12)
        bounded = bounded if high is None else bounded.clip(None, high - 1e-12)
        frame = _lawful(frame, frame.with_columns(bounded.alias(name)), schema)
    bound = {name for rule in _rules(schema) for name in rule.meta.root_names() if len(rule.meta.root_names()) > 1}
    bound = sorted(name for name in bound if schema.columns()[name].nullable)
    nobody = pl.Series(rng.random(len(frame)) < rng.choice([0.0, 0.0, 0.0, SOME, 1.0]), dtype=pl.Boolean)
    none = [pl.when(nobody).then(None).otherwise(pl.col(name)).alias(name) for name in bound]
    return _lawful(frame, frame.with_columns(none), schema)


def _rules(schema: type[dy.Schema]) -> list[pl.Expr]:
    """What a schema demands of each row."""
    return [
        rule for name, column in schema.columns().items() for rule in column.validation_rules(pl.col(name)).values()
    ]


def _lawful(frame: pl.DataFrame, other: pl.DataFrame, schema: type[dy.Schema]) -> pl.DataFrame:
    """The rows of another table like the frame, as far as the schema's rules hold for them; else the frame's."""
    lawful = other.select(pl.all_horizontal(_rules(schema)).fill_null(True)).to_series()
    return frame.select(pl.when(lawful).then(other[name]).otherwise(name).alias(name) for name in frame.columns)


def _ended(history: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Some trainings, or all, end as a training of the system may."""
    if "status" not in history.columns:
        return history
    kinds = [kind for kind in history["status"].dtype.categories if kind in ENDED]
    lost = int(rng.choice([-1, 0, 0, 1, 9]))  # the last realization so ended, of all schemes
    kind = pl.lit(str(rng.choice(kinds))).cast(history["status"].dtype)
    return history.with_columns(status=pl.when(pl.col("realization") < lost).then(kind).otherwise("status"))
