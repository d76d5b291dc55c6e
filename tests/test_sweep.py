"""Sweeps: which scenarios a grid makes, what they are named, what comes of them, which points nothing dominates."""

import re
from functools import reduce
from itertools import product

import numpy as np
import polars as pl
import pytest
from sklearn.model_selection import ParameterGrid

import pwfl
from conftest import workflow
from pwfl import scenario
from pwfl.report import columns, latex, sweeps
from pwfl.scenario import sweep
from pwfl.scenario.resolution import merge
from pwfl.workflow.plan import plan

AGING = {"system": "age_aware", "realizations": 2, "training_realizations": 1, "schedule": {"horizon": 4}}


def study(base: dict, **scenarios: dict) -> scenario.Study:
    return scenario.load({"base": base, "scenarios": scenarios or {"one": {}}}, "study.yaml")


@pytest.mark.parametrize(
    "grids",
    [
        {"schedule.gamma": [1.0, 10.0, 100.0]},
        {"schedule.gamma": [1.0, 10.0], "radio.resource_blocks": [2, 3, 5]},
        [{"schedule.gamma": [1.0, 2.0], "seed": [1, 2]}, {"radio.resource_blocks": [2, 3]}],
    ],
)
def test_points_are_those_of_scikit_learns_grid_and_what_one_would_write_by_hand(grids):
    base = {"network": {"users": 40}}
    swept = study(base | {"sweep": grids})
    points = [point.values for point in swept.points.values()]
    assert sorted(map(str, map(sorted, (point.items() for point in points)))) == sorted(
        str(sorted(point.items())) for point in ParameterGrid(grids)
    )
    for name, point in swept.points.items():
        assert point.of == "one"
        sections = [(key.split("."), value) for key, value in point.values.items()]
        by_hand = reduce(merge, ({k[0]: {k[1]: v}} if len(k) == 2 else {k[0]: v} for k, v in sections), base)
        assert swept.scenarios[name] == scenario.resolve(by_hand, {})


def test_names_tell_points_apart_and_say_which_they_are():
    grids = {"training.hidden_layers": [[], [16, 8]], "schedule.gamma": [1e6, 0.25, "3e2"], "data.dataset": ["digits"]}
    names = list(study({"data": {"samples_offset": 1}, "network": {"users": 9}, "sweep": grids}).scenarios)
    assert names[:3] == [
        "one,hidden_layers=none,gamma=1000000,dataset=digits",
        "one,hidden_layers=none,gamma=0.25,dataset=digits",
        "one,hidden_layers=none,gamma=300,dataset=digits",
    ]
    assert len(set(names)) == 6
    twice = {"shape.size": 1, "hat.size": 2}
    assert sweep.name("one", twice) == "one,shape.size=1,hat.size=2"


def test_a_scenario_sweeps_beside_the_base_or_instead_of_it_or_not_at_all():
    base = {"sweep": {"schedule.gamma": [1, 2]}}
    own = {"both": {"radio.resource_blocks": [2]}, "other": [{"seed": [4]}], "none": []}
    found = study(base, **{name: {"sweep": grids} for name, grids in own.items()})
    names = ["both,gamma=1,resource_blocks=2", "both,gamma=2,resource_blocks=2", "other,seed=4", "none"]
    assert list(found.scenarios) == names
    assert found.swept == ["schedule.gamma", "radio.resource_blocks", "seed"]
    assert found.point("none") == ("none", {"schedule.gamma": 1e6, "radio.resource_blocks": 5, "seed": 1})


def test_scenarios_to_run_are_named_with_all_their_points_or_point_by_point():
    config = {"base": {"sweep": {"schedule.gamma": [1, 2]}}, "scenarios": {"a": {}, "b": {}}}
    for run, names in ((["b"], ["b,gamma=1", "b,gamma=2"]), (["a,gamma=2", "b,gamma=1"], ["a,gamma=2", "b,gamma=1"])):
        assert list(scenario.load(config | {"run": run}, "f").scenarios) == names
    with pytest.raises(scenario.ScenarioError, match="run: there is no scenario 'a,gamma=3'; did you mean 'a,gamma="):
        scenario.load(config | {"run": ["a,gamma=3"]}, "f")


@pytest.mark.parametrize(
    ("grids", "message"),
    [
        (3, "base.sweep: must be a mapping from keys to lists of values, or a list of such mappings, is 3"),
        ([3], r"base.sweep: must be a mapping from keys to lists of values, or a list of such mappings, is \[3\]"),
        ({"schedule.gama": [1]}, "base.sweep: schedule.gama: unknown key; did you mean 'schedule.gamma'"),
        ({"schedule": [1]}, "base.sweep: schedule: is a section; sweep one of its parameters: schedule.gamma"),
        ({"schedule.gamma": 1}, "base.sweep: schedule.gamma: must be a list of values, is 1"),
        ({"schedule.gamma": []}, "base.sweep: schedule.gamma: must be a list of values, is"),
        ({"schedule.gamma": [1, -2]}, "base.sweep: schedule.gamma: -2.0 is below the minimum"),
        ({"schedule.gamma": [1, "1.0"]}, "base.sweep: the point one,gamma=1 appears twice"),
        ([{"seed": [1]}, {"seed": [2, 1]}], "base.sweep: the point one,seed=1 appears twice"),
        ({"system": ["age_aware"]}, "base.sweep: system: cannot be swept; write one scenario per system"),
        ({"schemes": [[]]}, "base.sweep: schemes: cannot be swept; list all of them"),
        ({"data.folder": ["a", "b"]}, "base.sweep: data.folder: cannot be swept; results do not depend on it"),
        ({"network.users": [20, 5000]}, r"one: data.samples_offset: 5000 users would hold .*, but .* \(at one,users=5000\)"),
        ({"seed": list(range(20_000))}, "base.sweep: has 20,000 points; at most 10,000 are allowed"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_sweep_is_said_before_anything_runs(grids, message):
    with pytest.raises(scenario.ScenarioError, match=message):
        study({"sweep": grids})


TWELVE = {"sweep": {"schedule.gamma": [1, 2, 3, 4], "seed": [1, 2, 3]}}


def refused(base: dict, files: dict | None = None, **scenarios: dict) -> list[str]:
    config = {"base": base, "scenarios": scenarios or {"one": {}}}
    with pytest.raises(scenario.ScenarioError) as caught:
        scenario.check_surroundings(scenario.load(config, "study.yaml", files))
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"network": {"users": 0}}, "base.network.users: 0 is below the minimum, 1"),
        ({"training_realizations": 900}, "base.training_realizations: 900 is more than realizations: 100; only"),
        ({"network": {"user": 9}}, "base.network.user: unknown key; did you mean 'users'?"),
    ],
)
def test_a_mistake_in_all_points_is_said_once_with_their_number(wrong, said):
    for scenarios, others in (({}, 11), ({"one": {}, "two": {}, "other": {"sweep": []}}, 23)):
        (line,) = refused(TWELVE | wrong, **scenarios)
        assert line.startswith(f"study.yaml: {said}")
        assert line.endswith(f" (at one,gamma=1,seed=1 and {others} more points)")


def test_a_mistake_in_some_points_is_said_with_their_number():
    _, first, second = refused({"sweep": {"schedule.gamma": [1, -2, -3], "seed": [1, 2]}})
    assert first.startswith("  base.sweep: schedule.gamma: -2.0 is below the minimum")
    assert first.endswith(" (at one,gamma=-2,seed=1 and 1 more point)")
    assert second.endswith(" (at one,gamma=-3,seed=1 and 1 more point)")


def test_a_mistake_of_the_file_is_not_blamed_on_a_sweep_of_the_command_line():
    files = {"base": {"network": {"users": 0}}, "scenarios": {"one": {}}}
    (line,) = refused(files["base"] | TWELVE, files)
    assert line.startswith("study.yaml: base.network.users: 0 is below the minimum")


def test_what_points_need_and_do_not_find_is_said_once_with_their_number(tmp_path):
    (line,) = refused(TWELVE | {"data": {"folder": str(tmp_path / "nowhere")}})
    assert line.startswith("study.yaml: scenarios.one,gamma=1,seed=1 and 11 more scenarios: data.folder: ")


def test_points_that_are_too_large_are_said_once_with_their_number():
    system = {"system": "utility_fair", "training": {"hidden_layers": [10**5, 10**5]}}
    (line,) = refused(system | {"sweep": {"seed": [1, 2, 3]}})
    assert re.match(r"study.yaml: scenarios.one: a job needs about .* GiB of memory for training", line)
    assert line.endswith(" (at one,seed=1 and 2 more points)")


def test_a_warning_about_several_scenarios_is_said_once_with_their_number():
    base = TWELVE | {"data": {"alpha": 30.0}}
    (idle,) = study(base, one={}, two={}, three={"sweep": []}).warnings
    assert idle.startswith("scenarios.one and 2 more scenarios: data.alpha: 30.0 has no effect with ")


def test_a_value_that_the_sweep_replaces_is_told():
    found = study({"schedule": {"gamma": 5.0}, "sweep": {"schedule.gamma": [1, 2]}})
    assert "base.schedule.gamma: 5.0 has no effect in one: the sweep of schedule.gamma replaces it" in found.warnings


def test_what_nothing_dominates_is_what_brute_force_finds():
    generator = np.random.default_rng(0)
    for size, values in product((1, 2, 7, 60), (3, 10, 10**6)):  # with many ties, and with none
        x, y = generator.integers(values, size=(2, size)).astype(float)
        as_good = (x[:, None] <= x) & (y[:, None] <= y)
        dominated = (as_good & ((x[:, None] < x) | (y[:, None] < y))).any(axis=0)
        assert np.array_equal(sweeps.efficient(x, y), ~dominated)


@pytest.fixture(scope="module")
def aging():
    """A sweep of two parameters through all stages."""
    base = AGING | {"sweep": {"schedule.horizon": [4, 6], "seed": [1, 2]}}
    return pwfl.simulate({"base": base, "scenarios": {"clients": {}}})


def test_every_table_of_a_study_has_a_column_for_each_swept_parameter(aging):
    for name, content in aging.scenarios.items():
        for table, frame in content.report.items():
            assert frame.columns[:2] == ["schedule.horizon", "seed"], table
            assert frame.select(pl.struct("schedule.horizon", "seed").n_unique()).item() <= 1
            assert not len(frame) or f"horizon={frame['schedule.horizon'][0]},seed={frame['seed'][0]}" in name
    of_several = {"published", "effects"}  # of all points together, and of pairs of points
    assert all("schedule.horizon" not in aging.comparison[table].columns for table in of_several)
    for table, frame in aging.comparison.items():
        if table in of_several:
            continue
        assert {"schedule.horizon", "seed"} <= set(frame.columns), table
        values = frame.drop_nulls("seed").select("scenario", "schedule.horizon", "seed").unique()
        assert all(name == f"clients,horizon={h},seed={s}" for name, h, s in values.iter_rows())


def test_outcomes_are_means_over_the_realizations_of_a_point(aging):
    rows = aging.comparison["outcomes"].filter(pl.col("outcome") == "epsilon")
    assert len(rows)
    for row in rows.iter_rows(named=True):
        each = aging.scenarios[row["scenario"]].report["realizations"]
        values = each.filter(scheme=row["scheme"], target_epsilon=row["target_epsilon"])["epsilon"].to_numpy()
        assert row["mean"] == pytest.approx(values.mean())
        assert (row["min"], row["max"], row["realizations"]) == (values.min(), values.max(), len(values))


def test_the_front_holds_no_point_that_another_one_dominates_and_every_other(aging):
    outcomes, front = aging.comparison["outcomes"], aging.comparison["front"]
    assert len(front)
    keys = ["scenario", "scheme", "target_epsilon"]
    terms = ("guarantee", "unit", "neighbouring_relation", "sampling", "observer")
    assert not any(frame[term].null_count() for frame in (outcomes, front) for term in terms)
    wide = outcomes.pivot("outcome", index=keys, values="mean")
    for (x, y), part in front.group_by("x", "y"):
        points = wide.filter(pl.col(x).is_finite() & pl.col(y).is_finite())
        losses = np.array([sweeps.losses(points[name], sweeps.list_outcomes("age_aware")[name]) for name in (x, y)])
        as_good = (losses[:, :, None] <= losses[:, None, :]).all(axis=0)
        better = (losses[:, :, None] < losses[:, None, :]).any(axis=0)
        expected = points.filter(~(as_good & better).any(axis=0)).select(keys)
        assert set(expected.rows()) == set(part.select(keys).rows())


def of_kinds(**changes):
    """Outcomes of three points: the first one is the best, the last one the worst."""
    rows = pl.DataFrame({"scheme": ["good", "fair", "bad"]}).with_columns(
        pl.lit(None, pl.Float64).alias("target_epsilon"),
        pl.lit("one").alias("scenario"),
        pl.lit("multicell").alias("system"),
        pl.lit("one").alias("sweep_of"),
        pl.lit("proved").alias("guarantee"),
        pl.lit(1e-5).alias("delta"),
        *(pl.lit("said").alias(term) for term in columns.TERMS[1:]),
    )
    rows = rows.with_columns(**{name: pl.Series(values) for name, values in changes.items()})
    null = pl.lit(None, pl.Float64)
    rows = rows.with_columns(
        no_user_scheduled=pl.lit(0, pl.Int64), diverged=pl.lit(0, pl.Int64), ci_low=null, chance=null
    )
    means = {"accuracy": [0.9, 0.8, 0.7], "epsilon": [1.0, 2.0, 3.0]}
    frames = [rows.with_columns(outcome=pl.lit(name), mean=pl.Series(values)) for name, values in means.items()]
    return pl.concat(frames).select(*sweeps.KEYS, pl.exclude(sweeps.KEYS))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"good"}),
        ({"guarantee": ["none", "proved", "proved"]}, {"good", "fair"}),  # what guarantees nothing dominates nothing
        ({"guarantee": ["proved", "none", "none"]}, {"good", "fair"}),
        ({"guarantee": ["conditional", "none", "proved"]}, {"good", "fair", "bad"}),
        ({"epsilon_trusts": ["stations that add up", "", ""]}, {"good", "fair"}),
        ({"observer": ["sees little", "sees all", "sees all"]}, {"good", "fair"}),
        ({"unit": ["a", "b", "c"]}, {"good"}),
    ],
)
def test_fronts_are_of_one_kind_of_guarantee_and_observer(changes, expected):
    front = sweeps.front(of_kinds(**changes))
    assert set(front["scheme"]) == expected
    if "guarantee" in changes:
        assert dict(front.select("scheme", "guarantee").iter_rows())["good"] == changes["guarantee"][0]


@pytest.mark.slow
def test_all_digits_of_a_swept_value_are_drawn_and_named():
    seeds = [2**53, 2**53 + 1, 12345, 12346]
    content = {
        "base": AGING,
        "scenarios": {"one": {"sweep": {"seed": seeds, "privacy.target_epsilons": [[0.4]]}}},
    }
    found = pwfl.simulate(content)
    assert found.comparison["outcomes"]["seed"].unique().sort().to_list() == sorted(seeds)
    text = latex.outcomes(found.comparison["outcomes"])
    assert all(f"${seed}$" in text for seed in seeds)
    assert (
        sweep.title("One", {"seed": seeds[1], "privacy.delta": 0.123456789})
        == f"One, seed = {seeds[1]}, δ = 0.123456789"
    )


DRAWN = {
    "schemes": [{"name": "drawn", "scheduler": "random", "noise": "constant"}],
    "sweep": {"training.draws": [2, 3]},
}
COMMON = {"study": "common", "base": AGING | DRAWN, "scenarios": {"clients": {}}}


def test_points_have_one_address_of_what_they_have_in_common():
    routes = [route["drawn"] for route in plan(scenario.load(COMMON, "f")).routes.values()]
    count = {stage: len({route[stage]["address"] for route in routes}) for stage in ("channel", "schedule", "train")}
    assert (len(routes), count) == (2, {"channel": 1, "schedule": 1, "train": 2})


@pytest.mark.slow
def test_points_compute_once_what_they_have_in_common(tmp_path):
    config = COMMON
    workflow(tmp_path, config)
    computed = {stage: len(list((tmp_path / "store" / stage).iterdir())) for stage in ("channel", "schedule", "train")}
    assert computed == {"channel": 1, "schedule": 1, "train": 2}
    results = tmp_path / "results/common"
    assert "clients,draws=3" in (results / "index.html").read_text(encoding="utf-8")
    assert not list((results / "clients,draws=2").glob("*.svg"))
    workflow(tmp_path, config, "--config", "wanted=clients,draws=2/times.*")
    assert list((results / "clients,draws=2").glob("*.svg"))


def test_titles_are_of_the_study_its_scenarios_and_their_points():
    config = {"title": "Two clients", "question": "Which?", "base": {"system": "age_aware"}}
    config["scenarios"] = {"one": {"title": "The first"}, "two": {"sweep": {"schedule.horizon": [4, 6]}}}
    config["scenarios"]["three"] = {"title": "Swept", "sweep": {"seed": [1], "privacy.target_epsilons": [[2.0, 4.0]]}}
    study = scenario.load(config, "study.yaml")
    assert (study.title, study.question) == ("Two clients", "Which?")
    assert study.titles == {
        "one": "The first",
        "two": "two",
        "two,horizon=4": "two, horizon = 4",
        "two,horizon=6": "two, horizon = 6",
        "three": "Swept",
        "three,seed=1,target_epsilons=2x4": "Swept, seed = 1, target epsilons = 2x4",
    }
    bare = scenario.load({"base": config["base"], "scenarios": config["scenarios"]}, "study.yaml")
    assert bare.title == bare.question == ""
    assert bare.scenarios == study.scenarios


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"title": 3}, "title: must be a line of text of at most 100 characters, is 3"),
        ({"question": ""}, "question: must be a line of text of at most 300 characters"),
        ({"base": {"system": "age_aware", "title": "x"}}, "base.title: give each scenario its own title"),
        ({"scenarios": {"a": {"title": "x" * 61}}}, "scenarios.a.title: must be a line of text of at most 60"),
        ({"scenarios": {"a": {"title": "x"}, "b": {"title": "x"}}}, "scenarios: a, b have the same title, 'x'"),
        ({"scenarios": {"a": {"titel": "x"}}}, "titel"),
    ],
)
def test_a_title_that_is_none_is_refused(change, said):
    with pytest.raises(scenario.ScenarioError, match=re.escape(said)):
        scenario.load({"base": {"system": "age_aware"}, "scenarios": {"a": {}}} | change, "study.yaml")
