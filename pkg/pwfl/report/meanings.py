"""What the columns of tables mean: those of stages as their schemas declare it, those that reports derive from here.

A system's own derived columns are in its catalog (`Catalog.columns`).
"""

from collections.abc import Iterable
from typing import NamedTuple

import dataframely as dy
import polars as pl

from pwfl import registry
from pwfl.scenario.endings import unit
from pwfl.scenario.fields import parameters
from pwfl.stages import AUDIT, REPORT
from pwfl.tables import contract

# By what a derived column's name adds to that of the column it is derived from, at its end or its beginning.
ADDED = {
    "_mean": "mean over realizations",
    "_ci_low": "lower end of the mean's 95% interval",
    "_ci_high": "upper end of the mean's 95% interval",
    "_max": "largest of all realizations",
    "_min": "smallest of all realizations",
    "_if_scheduled": "over the realizations with a user scheduled",
    "_no_user_scheduled": "number of averaged realizations with no user scheduled",
    "_diverged": "number of realizations that diverged",
    "from_": "first point of the pair",
    "to_": "second point of the pair",
    "x_": "outcome `x`",
    "y_": "outcome `y`",
}
# Of reports' tables of all systems.
COMMON = {
    "scenario": "scenario",
    "system": "system of the scenario",
    "scheme": "scheme",
    "target_epsilon": "target epsilon, of schemes with several; null: one or none",
    "realizations": "number of realizations that the row counts",
    "trained": "number of training runs with a result",
    "diverged": "number of training runs that diverged",
    "noise_infeasible": "number of realizations without feasible noise",
    "nobody_took_part": "number of training runs in which no device took part",
    "no_user_scheduled": "number of the realizations with no user scheduled",
    "training": "how the training run ended, in one word; null: not trained",
    "stage": "stage",
    "count": "number of rows of the stage's table with this status",
    "share": "their share of the scheme's rows",
    "mean": "mean over realizations",
    "sweep_of": "scenario whose sweep the point belongs to; a scenario without a sweep: itself",
    "guarantee": "weakest guarantee of the realizations: proved, conditional or none; null: no user sends",
    "outcome": "outcome that the row is about",
}
# Of single tables; those that compare scenarios, above all.
OF_TABLES = {
    "systems": {
        "accuracy_mean": "final test accuracy: mean over realizations",
        "accuracy_ci_low": "lower end of the 95% interval of the mean accuracy",
        "accuracy_ci_high": "upper end of the 95% interval of the mean accuracy",
        "trainings": "number of training runs that the accuracy is a mean of",
        "epsilon": "largest record-level epsilon of a realization, against the scheme's observer",
        "epsilon_min": "smallest record-level epsilon of a realization, against the scheme's observer",
        "epsilon_server": "largest record-level epsilon of a realization, against the system's server",
        "epsilon_server_min": "smallest record-level epsilon of a realization, against the system's server",
        "epsilon_user": "largest user-level epsilon of a realization, against the scheme's observer",
        "attack_rate": "largest true-positive rate of any attack on the most exposed record, at 1 % false positives",
        "guarantee_server": "guarantee of epsilon_server: proved, conditional or none",
        "comparability": "why the system does not compare with others in everything",
    },
    "claims": {
        "claim": "id of the claim: figure, section or theorem, and a number",
        "statement": "the claim, as a sentence",
        "scenario": "scenario that the claim is measured in",
        "against": "scenario that it is compared with; null: none",
        "interpretation": "interpretation of the paper under which it is measured; null: the one chosen here",
        "origin": "`paper` or `project`: who makes the claim",
        "source": "where the paper, or this project, makes it",
        "reported": "the paper's number or words; null: none",
        "quantity": "measured quantity, in words",
        "measured": "measured value",
        "measured_ci_low": "lower end of the measured value's 95% interval; null: none, or unbounded",
        "measured_ci_high": "upper end of the measured value's 95% interval; null: none, or unbounded",
        "interval": "kind of interval, or why there is none",
        "required_range": "range in which the value must lie, or the number that the interval must contain",
        "range_source": "`paper` or `project`: who sets that range",
        "verdict": "supported, refuted, inconclusive or not measured; null: not in the paper's setting",
    },
    "outcomes": {
        "mean": "mean of the outcome over realizations",
        "ci_low": "lower end of the mean's 95% interval",
        "ci_high": "upper end of the mean's 95% interval",
        "min": "smallest value of a realization",
        "max": "largest value of a realization",
        "attack_rate": "mean attack rate of the record-level epsilon; null: unknown in a realization",
        "chance": "accuracy without learning, of the outcome accuracy; null: unknown",
    },
    "front": {
        "x": "outcome on the first axis",
        "y": "outcome on the second axis",
        "x_mean": "mean of the outcome `x` over realizations",
        "y_mean": "mean of the outcome `y` over realizations",
    },
    "effects": {
        "factor": "what the two points differ in: scheduler, noise, observer, a parameter or a section",
        "from": "value of the factor at the first point",
        "to": "value of the factor at the second point",
        "difference": "mean over realizations of the outcome at the second point minus that at the first",
        "difference_ci_low": "lower end of the difference's 95% interval",
        "difference_ci_high": "upper end of the difference's 95% interval",
        "p": "p-value of a paired t-test; null: fewer than two common realizations",
        "p_corrected": "p-value corrected for all comparisons (Holm)",
        "comparisons": "number of comparisons that p is corrected for",
        "realizations": "number of realizations that both points have a result in",
        "without_result": "number of realizations in which only one of the two points has a result, or none",
        "detectable": "smallest difference that is detected with probability 0.8",
        "realizations_needed": "realizations needed to detect a difference as large as the measured one",
        "above_chance": "whether the accuracy of at least one point is above chance",
    },
    "published": {
        "records": "data set whose records are protected",
        "releases": "number of training runs with noise, equal ones counted once",
        "epsilon": "epsilon of all releases together; null: unknown",
        "bound": "kind of number that epsilon is",
        "guarantee": "weakest guarantee of the releases",
        "left_out": "schemes that are not counted, and why",
    },
}
TYPES = {pl.Float64: "number", pl.String: "text", pl.Boolean: "true or false"}


class Column(NamedTuple):
    """A column as it is documented."""

    name: str
    type: str
    unit: str
    meaning: str
    reveals: str  # public, noisy or private; '': as the columns that it is derived from


def describe(name: str, dtype: pl.DataType, table: str, systems: Iterable[str]) -> Column:
    """A column of a table of scenarios of some systems; `meaning` is '' where a custom system declares none."""
    description = next(filter(None, (_look_up(name, table, system) for system in systems)), ("", ""))
    return Column(name, kind(dtype), _unit(name), *description)


def kind(dtype: pl.DataType) -> str:
    """A type in words.

    >>> kind(pl.List(pl.Float64)), kind(pl.Enum(["a", "b"]))
    ('list: number', 'a | b')
    """
    if dtype.is_integer():
        return "integer"
    if isinstance(dtype, pl.List):
        return f"list: {kind(dtype.inner)}"  # ty: ignore[invalid-argument-type]
    return " | ".join(dtype.categories) if isinstance(dtype, pl.Enum) else TYPES.get(dtype.base_type(), str(dtype))


def _unit(name: str) -> str:
    return unit(name) or ("s" if "seconds" in name else "J" if "joules" in name else "")


def _look_up(name: str, table: str, system: str) -> tuple[str, str] | None:
    """The meaning of a column and what it reveals."""
    catalog, declared = registry.system(system).catalog, schemas(system)
    for meanings in (catalog.columns.get(table, {}), OF_TABLES.get(table, {})):
        if name in meanings:
            return meanings[name], ""
    if table in declared and name in declared[table].columns():
        return _declared(declared[table], name)
    if name in COMMON:
        return COMMON[name], ""
    for source in ("outcome", "history", "realizations", *declared):
        if source in declared and name in declared[source].columns():
            return _declared(declared[source], name)
    for key, field in parameters(registry.system(system).model) if "." in name else ():
        if ".".join(key) == name:
            return f"value of the swept parameter: {field.description}", "public"
    for added, meaning in ADDED.items():
        source = name.removesuffix(added) if added.startswith("_") else name.removeprefix(added)
        if source != name and (description := _look_up(source, table, system)):
            return f"{meaning}: {description[0]}", description[1]
    return None


def _declared(schema: type[dy.Schema], name: str) -> tuple[str, str]:
    reveals = contract.reveals(schema, name) or contract.PRIVATE
    return schema.columns()[name].description or "", reveals["reveals"]


def schemas(system: str) -> dict[str, type[dy.Schema]]:
    """The schemas of a system's tables by name, and `realizations`, of columns that its report derives."""
    return contract.COMMON | dict(registry.system(system).load_schemas())


def maker(table: str, system: str) -> str:
    """The stage that makes a table: one of the graph, the audit, or the report."""
    return registry.makers(system).get(table) or (AUDIT if table == AUDIT else REPORT)
