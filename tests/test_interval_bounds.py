"""Intervals of means end where their quantities do: in tables, figures, LaTeX and claims."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from scipy import stats

from conftest import TINY, in_turn
from pipeline import run
from pwfl import registry
from pwfl.report import build, claims, theme
from pwfl.report.catalog import scenario_figures
from pwfl.scenario import resolve
from pwfl.systems.multicell import claims as multicell
from pwfl.systems.random_orthogonalization import claims as random_orthogonalization
from pwfl.systems.utility_fair import claims as utility_fair
from pwfl.tables import contract

# Columns by their names, and between which values they are by what they mean, not by what tables declare.
MEANT = {
    r"(user_)?accuracy.*|deviation|understated|negative_weights": (0.0, 1.0),
    r"(test_|batch_)?loss(_std|_if_scheduled)?|epsilon(_.*)?|rho.*|objective_gap|scheduled.*|records|participants|batch_records|noise_multiplier": (
        0.0,
        np.inf,
    ),
    r"channel_uses|air_seconds|transmit_energy.*|energy_.*|learning_gain.*|utility_std|local_steps|noise_power_wh2": (
        0.0,
        np.inf,
    ),
    r"mean|share|negative_users|user_count": (
        0.0,
        np.inf,
    ),
}
OTHERS = r"objective_per_sample|utility|.*_wh2|value|measured"  # may be negative, or are of several quantities


def meant(column: str) -> tuple[float, float]:
    """Between which values a column is."""
    found = [bounds for pattern, bounds in MEANT.items() if re.fullmatch(pattern, column)]
    assert found or re.fullmatch(OTHERS, column), column
    return found[0] if found else (-np.inf, np.inf)


def assert_within(rows: pl.DataFrame, column: str, low: str, high: str) -> None:
    """The intervals of a column are in its bounds, and hold nothing that is not there."""
    least, most = meant(column)
    known = rows.select(low, high).cast(pl.Float64).drop_nulls().drop_nans()
    assert (known[low] >= least).all(), column
    assert (known[high] <= most).all(), column
    assert (known[low] <= known[high]).all(), column


@pytest.fixture(scope="module", params=in_turn(registry.BUILT_IN, "age_aware", "multicell"))
def made(request) -> tuple:
    """A system's tiny scenario of two realizations, of which Student's intervals are wide; its tables and report."""
    own = TINY["base"] if request.param == "multicell" else registry.system(request.param).catalog.tiny
    config = {"system": request.param} | own | {"realizations": 2, "training_realizations": 2}
    scenario, tables = run(config)
    return scenario, tables, {"scenario": resolve(config, {}).part(None)} | build.summarize(scenario, tables)


def test_means_have_students_intervals_up_to_the_bounds_that_tables_declare():
    values = {"accuracy": [0.0, 0.0, 0.3], "objective": [-0.1, 0.0, 0.3], "loss": [0.1, 2.0, 9.0]}
    [row] = theme.means(pl.DataFrame(values).with_columns(by=1), ["by"], list(values), "multicell").to_dicts()
    for name, bounds in {"accuracy": (0, 1), "objective": (-np.inf, np.inf), "loss": (0, np.inf)}.items():
        of = np.array(values[name])
        ends = stats.t.interval(0.95, len(of) - 1, of.mean(), stats.sem(of))
        assert ends[0] < 0
        assert (row[f"{name}_ci_low"], row[f"{name}_ci_high"]) == pytest.approx(tuple(np.clip(ends, *bounds)))
        assert row[f"{name}_mean"] == pytest.approx(of.mean())


def test_bounds_are_those_that_the_systems_tables_declare():
    assert contract.limits("multicell", "accuracy") == (0, 1)
    assert contract.limits("multicell", "objective") == (None, None)
    assert contract.limits("utility_fair", "energy_std_j") == (0, None)  # the report derives it
    assert contract.limits("utility_fair", "unheard_of") == (None, None)
    assert contract.limits("age_aware", "target_epsilon") == (0, None)  # which it exceeds


def test_no_interval_of_a_table_leaves_what_its_quantity_can_be(made):
    scenario, _, content = made
    study = build.compare({"one": content})
    tables = [content["summary"], content.get("sweep", pl.DataFrame()), study["systems"], study["summary"]]
    checked = set()
    for table in tables:
        for column in (name.removesuffix("_ci_low") for name in table.columns if name.endswith("_ci_low")):
            assert_within(table, column, f"{column}_ci_low", f"{column}_ci_high")
            checked.add(column)
    for (outcome,), rows in study["outcomes"].group_by("outcome"):
        assert_within(rows, outcome, "ci_low", "ci_high")
    assert checked >= {"channel_uses"} | ({"accuracy"} if scenario.system != "age_aware" else set())


def test_no_interval_of_a_figure_leaves_what_its_quantity_can_be(made):
    scenario, tables, content = made
    catalog, study = registry.system(scenario.system).catalog, {"one": content, "two": content}
    drawn = scenario_figures(catalog).items()
    charts = [build.figure(scenario, name, {table: tables[table] for table in needed}) for name, needed in drawn]
    charts += [build.comparison_figure(scenario.system, name, study) for name in catalog.comparison_figures]
    for chart in charts:
        for data in chart.to_dict().get("datasets", {}).values():
            rows = pl.DataFrame(data, infer_schema_length=None)
            for column in (name.removesuffix("_ci_low") for name in rows.columns if name.endswith("_ci_low")):
                if column not in ("x", "y"):  # of a plane: outcomes, which are in their table
                    assert_within(rows, column, f"{column}_ci_low", f"{column}_ci_high")


UNLIKE = {("utility", "fair"): [0.0, 0.1, 9.0], ("benchmark", "independent"): [5.0, 5.1, 4.9]}
NEVER_BELOW = {  # claims -> series whose interval would begin below the least that there can be, and that
    "X-3": (multicell.OWN_CLAIMS, {(("joint", "random"), "objective_gap"): [0.0, 0.0, 0.003]}, 0.0),
    "X-1": (
        random_orthogonalization.OWN_CLAIMS,
        {"printed over closed form": [[1.001, 0.999, 1.02], [1.0, 0.98, 1.01]]},
        0.0,
    ),
    "F1-1": (utility_fair.CLAIMS, {(pair, "batch_loss"): losses for pair, losses in UNLIKE.items()}, -1.0),
}


@pytest.mark.parametrize("name", NEVER_BELOW)
def test_an_interval_of_a_claim_begins_where_its_quantity_does(name):
    declared, series, least = NEVER_BELOW[name]
    claim = replace(next(claim for claim in declared if claim.id == name), setting=None, among=claims.EACH)
    term = claim.declared[0]
    values = {key: np.array(each) for key, each in series.items()}
    measured = term.measure([values[each.key(claim.quantity.column)] for each in term.series])
    assert measured.low < least
    found = claims.measure([claim], {"one": {"scenario": SimpleNamespace()}}, lambda _: values)
    row = found.row(0, named=True)
    assert (row["measured_ci_low"], row["measured_ci_high"]) == (least, measured.high)
    assert row["verdict"] == claims.verdict(measured, claim.required)
