"""Figures, summaries and claims, also where there is little or nothing to show."""

import json
from copy import deepcopy

import numpy as np
import polars as pl
import pytest

from conftest import TINY
from pipeline import run
from pwfl.report import build, theme
from pwfl.report.catalog import COMMON_TABLES, COMPARISON, scenario_figures
from pwfl.scenario import resolve
from pwfl.scenario.resolution import merge
from pwfl.scenario.values import replaced
from pwfl.systems import registry
from pwfl.systems.multicell.claims import claims


def whole(config: dict):
    """A scenario as comparisons get it."""
    return resolve(config, {}).part(None)


@pytest.fixture
def base():
    return deepcopy(TINY["base"])


EDGES = {
    "one realization": {"realizations": 1, "training_realizations": 1},
    "one resource block": {"radio": {"resource_blocks": 1}},
    "one cell": {"network": {"rings": 0}},
    "fewer users than resource blocks": {"network": {"users": 3}, "radio": {"resource_blocks": 5}, "privacy": {"max_noise_error": 1.0}},
    "one user": {"network": {"users": 1}, "privacy": {"max_noise_error": 1.0}},
    "nobody can be scheduled": {"radio": {"max_power_dbm": -100.0}},
    "training diverges": {"training": {"learning_rate": 1e12, "clip_norm": 1e6, "hidden_layers": [8] * 9}},
    "users clipped as a whole": {"training": {"clipping": "per_user"}},
    "one round": {"training": {"rounds": 1}},
    "all pairs of schemes": {
        "schemes": [{"name": f"{s}, {n}", "scheduler": s, "noise": n} for s in ("random", "optimal") for n in ("random", "optimal")]
    },
}  # fmt: skip


@pytest.mark.parametrize("edge", EDGES)
def test_every_figure_and_table_is_made_in_edge_cases(base, edge):
    scenario, tables = run(merge(base, EDGES[edge]))
    catalog = registry.system("multicell").catalog
    for name, figure in scenario_figures(catalog).items():
        chart = build.figure(scenario, name, {table: tables[table] for table in figure})
        assert chart.to_dict(format="vega")["$schema"].startswith("https://vega.github.io")
    frames = build.summarize(scenario, tables)
    assert set(frames) == set(catalog.tables | COMMON_TABLES)
    summary = frames["summary"]
    assert summary["scheme"].to_list() == [scheme.name for scheme in scenario.schemes]
    compared = build.compare({"one": {"scenario": whole(merge(base, EDGES[edge]))} | frames})
    assert set(compared) == set(COMPARISON)
    if edge == "nobody can be scheduled":
        assert (summary["scheduled_mean"] == 0).all()
        assert summary["no_user_scheduled"].to_list() == [4, 4, 4]
        assert set(tables["history"]["status"]) == {"no_user_scheduled"}
        assert summary["epsilon_maximum"].null_count() == 3
    if edge == "training diverges":
        assert summary["diverged"].to_list() == [3, 3, 3]
        assert summary["accuracy_mean"].null_count() == 3
        assert not tables["history"].filter(pl.col("round") == 1)["loss"].is_finite().any()
    if edge == "users clipped as a whole":
        assert summary["guarantee"].str.contains("not guaranteed").all()
        assert (tables["leakage"]["rho_worst_case"] > tables["leakage"]["rho"]).all()


@pytest.fixture(scope="module")
def studied():
    """The tiny study's two scenarios, as `build.compare` takes them."""
    found = {}
    for name, changes in TINY["scenarios"].items():
        config = merge(TINY["base"], changes)
        scenario, tables = run(config)
        frames = build.summarize(scenario, tables)
        found[name] = {"scenario": whole(config), "tables": tables} | frames
    return found


def test_figures_are_files_that_need_no_network(tmp_path, studied):
    low = studied["low"]
    paths = {kind: str(tmp_path / f"figure.{kind}") for kind in ("json", "png", "svg")}
    theme.save(build.figure(low["scenario"], "accuracy", low["tables"]), paths)
    spec = json.loads((tmp_path / "figure.json").read_text())
    assert "vega-lite" in spec["$schema"]
    assert "url" not in json.dumps(spec["datasets"])
    assert "OptSched+DP" in json.dumps(spec)
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "figure.svg").read_text()


def test_the_summary_agrees_with_plain_averages(studied):
    each, summary = studied["low"]["realizations"], studied["low"]["summary"]
    for row in summary.iter_rows(named=True):
        values = each.filter(pl.col("scheme") == row["scheme"])["objective_per_sample"].to_numpy()
        # Student's t with three degrees of freedom: its 97.5% quantile is 3.182446.
        half = 3.182446305 * values.std(ddof=1) / np.sqrt(len(values))
        assert row["objective_per_sample_mean"] == pytest.approx(values.mean())
        assert row["objective_per_sample_high"] - row["objective_per_sample_mean"] == pytest.approx(half)
        assert row["trained"] == 3
        assert row["epsilon_exact_mean"] < row["epsilon_tight_mean"] < row["epsilon_classic_mean"]


def test_claims_of_a_scenario_that_is_there_twice_count_once(studied):
    once = build.compare(studied)["claims"]
    assert set(once["scenario"]) >= {"low", "high"}
    assert build.compare(studied | {"again": studied["low"]})["claims"].equals(once)


def test_the_summary_counts_realizations_that_exceed_the_noise_error(studied):
    for content in studied.values():
        limit = content["scenario"].privacy.max_noise_error
        for row in content["summary"].rows(named=True):
            errors = content["realizations"].filter(scheme=row["scheme"])["noise_error"].to_list()
            assert row["noise_error_exceeded"] == sum(e is not None and e > limit * (1 + 1e-9) for e in errors)
        optimal = content["summary"].filter(pl.col("scheme").str.contains("DP"))
        assert (optimal["noise_error_exceeded"] == 0).all()


def test_an_interval_covers_the_mean_as_often_as_it_says():
    draws = np.random.default_rng(5).normal(2.0, 3.0, (4000, 6))
    frame = pl.DataFrame({"group": np.repeat(np.arange(4000), 6), "value": draws.ravel()})
    intervals = theme.means(frame, ["group"], ["value"])
    covered = intervals.select(((pl.col("value_low") < 2) & (pl.col("value_high") > 2)).mean()).item()
    # A binomial share of 0.95 over 4000 leaves 0.95 +- 0.017 once in a million.
    assert abs(covered - 0.95) < 0.017


def test_the_distribution_function_ends_at_the_extremes_and_counts_right():
    values = np.random.default_rng(6).normal(size=5000)
    points = theme.distribution(pl.DataFrame({"scheme": "a", "value": values}), "value")
    assert len(points) == theme.CDF_POINTS
    assert points["value"].max() == values.max()
    for value, share in points.select("value", "share").sample(20, seed=1).iter_rows():
        assert share == pytest.approx((values <= value).mean())


def test_claims_name_measured_value_interval_and_verdict(studied):
    table = claims(studied)
    kinds = table["claim"].unique(maintain_order=True).str.head(1).to_list()
    assert kinds == [*"11", *"22", *"3333", *"444", *"555"]
    assert (table["low"] <= table["measured"] + 1e-12).all()
    assert (table["measured"] <= table["high"] + 1e-12).all()
    low = studied["low"]["realizations"]
    mean = {s: low.filter(pl.col("scheme") == s)["objective_per_sample"].mean() for s in ("OptSched", "RndSched")}
    first = table.row(0, named=True)
    assert first["scenario"] == "low"
    assert first["measured"] == pytest.approx(mean["OptSched"] - mean["RndSched"])
    assert first["holds"] == ("yes" if first["high"] < 0 else "open")


def test_a_claim_that_does_not_hold_is_said_so(studied):
    other = {"RndSched": "OptSched", "OptSched": "RndSched"}
    swapped = {}
    for name, content in studied.items():
        schemes = [replaced(s, "name", other.get(s.name, s.name)) for s in content["scenario"].schemes]
        swapped[name] = content | {"scenario": replaced(content["scenario"], "schemes", schemes)}
    first = claims(swapped).row(0, named=True)
    assert first["measured"] > 0
    assert first["holds"] in ("no", "open")


def test_claims_that_cannot_be_measured_are_left_out(studied):
    assert set(claims({"low": studied["low"]})["claim"].str.head(1)) == {"1", "3", "4", "5"}
    assert not claims({"low": studied["low"]})["claim"].str.contains("larger").any()
