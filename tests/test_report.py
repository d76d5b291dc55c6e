"""Figures, summaries and claims, also where there is little or nothing to show."""

import numpy as np
import polars as pl
import pytest

from conftest import TINY, in_turn
from pipeline import run
from pwfl import registry
from pwfl.report import build, theme
from pwfl.report.catalog import COMPARISON, scenario_figures
from pwfl.scenario import resolve
from pwfl.scenario.resolution import merge
from pwfl.systems.multicell.claims import claims


def whole(config: dict):
    """A scenario as comparisons get it."""
    return resolve(config, {}).part(None)


EDGES = {
    "one realization": {"realizations": 1, "training_realizations": 1},
    "one resource block": {"radio": {"resource_blocks": 1}},
    "one cell": {"network": {"rings": 0}},
    "fewer users than resource blocks": {"network": {"users": 3}, "radio": {"resource_blocks": 5}, "privacy": {"max_noise_error": 1.0}},
    "one user": {"network": {"users": 1}, "privacy": {"max_noise_error": 1.0}},
    "nobody can be scheduled": {"radio": {"max_power_dbm": -100.0}},
    "training diverges": {"training": {"learning_rate": 1e20, "clip_norm": 1e6, "hidden_layers": [8] * 9}},
    "users clipped as a whole": {"training": {"clipping": "per_user"}},
    "one round": {"training": {"rounds": 1}},
    "all pairs of schemes": {
        "schemes": [{"name": f"{s}, {n}", "scheduler": s, "noise": n} for s in ("random", "optimal") for n in ("random", "optimal")]
    },
}  # fmt: skip


@pytest.mark.parametrize("edge", in_turn(EDGES, "nobody can be scheduled", "one realization"))
def test_every_figure_and_table_is_made_in_edge_cases(edge):
    config = merge(TINY["base"], EDGES[edge])
    scenario, tables = run(config)
    catalog = registry.system("multicell").catalog
    for name, figure in scenario_figures(catalog).items():
        chart = build.figure(scenario, name, {table: tables[table] for table in figure})
        assert chart.to_dict(format="vega")["$schema"].startswith("https://vega.github.io")
    frames = build.summarize(scenario, tables)
    assert set(frames) == set(catalog.all_tables)
    summary = frames["summary"]
    assert summary["scheme"].to_list() == [scheme.name for scheme in scenario.schemes]
    compared = build.compare({"one": {"scenario": whole(config)} | frames})
    assert set(compared) == set(COMPARISON)
    if edge == "nobody can be scheduled":
        assert (summary["scheduled_mean"] == 0).all()
        assert summary["no_user_scheduled"].to_list() == [4, 4, 4]
        assert set(tables["history"]["status"]) == {"no_user_scheduled"}
        assert summary["epsilon_max"].null_count() == 3
    if edge == "training diverges":
        assert summary["diverged"].to_list() == [3, 3, 3]
        assert summary["accuracy_mean"].null_count() == 3
        assert not tables["history"].filter(pl.col("round") == 1)["loss"].is_finite().any()
    if edge == "users clipped as a whole":
        assert set(summary["epsilon_assumes"].drop_nulls()) == {"clipped mean as in (11)"}
        assert (tables["leakage"]["rho_worst_case"] > tables["leakage"]["rho"]).all()
        assert set(compared["systems"]["guarantee"]) == {"conditional"}


@pytest.fixture(scope="module")
def studied():
    """The tiny study's two scenarios, as `build.compare` takes them."""
    contents = {}
    for name, changes in TINY["scenarios"].items():
        config = merge(TINY["base"], changes)
        scenario, tables = run(config, audited=False)
        contents[name] = {"scenario": whole(config), "tables": tables} | build.summarize(scenario, tables)
    return contents


def test_the_summary_agrees_with_plain_averages(studied):
    each, summary = studied["low"]["realizations"], studied["low"]["summary"]
    for row in summary.iter_rows(named=True):
        values = each.filter(pl.col("scheme") == row["scheme"])["objective_per_sample"].to_numpy()
        # Student's t with three degrees of freedom: its 97.5% quantile is 3.182446.
        half = 3.182446305 * values.std(ddof=1) / np.sqrt(len(values))
        assert row["objective_per_sample_mean"] == pytest.approx(values.mean())
        assert row["objective_per_sample_ci_high"] - row["objective_per_sample_mean"] == pytest.approx(half)
        assert row["trained"] == 3
        assert row["epsilon_mean"] < row["epsilon_tight_mean"] < row["epsilon_classic_mean"]


def test_claims_of_a_scenario_that_is_there_twice_count_once(studied):
    once = build.compare(studied)["claims"]
    assert set(once["scenario"]) >= {"low", "high"}
    assert build.compare(studied | {"again": studied["low"]})["claims"].equals(once)


def test_the_distribution_function_ends_at_the_extremes_and_counts_right():
    values = np.random.default_rng(6).normal(size=5000)
    points = theme.distribution(pl.DataFrame({"scheme": "a", "value": values}), "value")
    assert len(points) == theme.CDF_POINTS
    assert points["value"].max() == values.max()
    for value, share in points.select("value", "share").sample(20, seed=1).iter_rows():
        assert share == pytest.approx((values <= value).mean())


def test_claims_name_measured_value_interval_and_verdict(studied):
    table = claims(studied)
    to_gamma = {"F4-3", "F4-4", "F5-10", "F5-11"}  # at a larger gamma alone
    alone = {
        *("F4-1", "F4-2", "F5-1", "F5-2", "F5-3", "F5-4", "F5-7", "F5-8", "F5-9"),
        *(f"S6B-{k}" for k in (1, 2, 3)),
    }
    alone |= {"S7-2", "S7-3", "S7-4"}
    assert set(table["claim"]) == alone | to_gamma
    assert (table["measured_ci_low"] <= table["measured"] + 1e-12).all()
    assert (table["measured"] <= table["measured_ci_high"] + 1e-12).all()
    low = studied["low"]["realizations"]
    mean = {s: low.filter(pl.col("scheme") == s)["objective_per_sample"].mean() for s in ("OptSched", "RndSched")}
    first = table.row(0, named=True)
    assert first["scenario"] == "low"
    assert first["measured"] == pytest.approx(mean["OptSched"] - mean["RndSched"])
    assert first["verdict"] is None  # its R and gamma are not the paper's
    # Of one scenario nothing is said that compares two.
    assert set(claims({"low": studied["low"]})["claim"]) == alone
