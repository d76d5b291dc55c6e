"""The systems beside multicell through the whole workflow, and all five under common terms."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml
from scipy import optimize

import pwfl
from conftest import ROOT, TINY, planned, workflow
from pipeline import run
from pwfl import registry
from pwfl.report import build, catalog, labels, systems
from pwfl.scenario import load, resolve
from pwfl.system import Checks

SYSTEMS = list(registry.systems())

FEW = {"realizations": 2, "training_realizations": 2}


def config_of(name: str) -> dict:
    return yaml.safe_load((ROOT / "config" / f"{name}.yaml").read_text())


def small_study(system: str) -> dict:
    """The study of a system that comes along, of fewer realizations; of multicell the tests' own."""
    if system == "multicell":
        return TINY
    config = config_of(f"{system}_small")
    return config | {"scenarios": {name: (own or {}) | FEW for name, own in config["scenarios"].items()}}


@pytest.mark.slow
@pytest.mark.xdist_group("small")  # each takes both cores
@pytest.mark.parametrize("system", SYSTEMS)
def test_the_small_study_of_a_system_runs_to_its_claims(tmp_path, system):
    config = small_study(system)
    workflow(tmp_path, config)
    shown = registry.system(system).catalog
    for name in config["scenarios"]:
        folder = tmp_path / "results" / config["study"] / name
        for figure in catalog.scenario_figures(shown):
            assert all((folder / f"{figure}.{kind}").stat().st_size > 500 for kind in ("json", "png", "svg"))
        for table in [*shown.tables, *catalog.COMMON_TABLES, "parameters"]:
            rows = pl.read_parquet(folder / f"{table}.parquet").height
            assert rows == pl.read_csv(folder / f"{table}.csv", infer_schema_length=None).height
            assert rows > 0 or table == "sweep"  # a scenario may have no scheme that sweeps
    compared = tmp_path / "results" / config["study"]
    assert len(pl.read_csv(compared / "claims.csv", infer_schema_length=None)) > 5
    assert set(pl.read_csv(compared / "systems.csv")["system"]) == {system}
    if len(config["scenarios"]) > 1:
        for figure in shown.comparison_figures:
            assert (compared / f"{system}_{figure}.png").stat().st_size > 1000
    assert planned(tmp_path, config) == {}
    name = next(iter(config["scenarios"]))
    left = pwfl.results(tmp_path / "results" / config["study"]).scenarios[name]
    again = pwfl.simulate(config | {"run": [name]}).scenarios[name]
    assert set(left.stages) == set(again.stages)
    for found, expected in ((again.stages, left.stages), (again.report, left.report)):
        assert [table for table, frame in expected.items() if not frame.equals(found[table])] == []


@pytest.fixture(scope="module")
def studied():
    """The scenarios of the study of all systems that it does not sweep, as `build.compare` takes them, shortened."""
    config, contents = config_of("systems"), {}
    for name, own in config["scenarios"].items():
        if "sweep" in own:
            continue
        training = own.get("training", {})
        short = {"training": training | ({"rounds": 3} if "rounds" in training else {})}
        whole = config["base"] | own | short | FEW
        whole.pop("title")
        scenario, tables = run(whole, audited=False)
        contents[name] = {"scenario": resolve(whole, {}).part(None)} | build.summarize(scenario, tables)
    return contents


@pytest.mark.xdist_group("studied")
def test_all_systems_stand_in_one_table_under_common_terms(studied):
    table = build.compare(studied)["systems"]
    assert set(table["system"]) == set(SYSTEMS)
    for name, content in studied.items():
        for scheme in content["scenario"].schemes:
            row = table.filter(pl.col("scenario") == name, pl.col("scheme") == scheme.name).row(0, named=True)
            each = content["realizations"].filter(pl.col("scheme") == scheme.name)
            assert row["epsilon"] == each["epsilon"].max()
            for column in ("accuracy", "channel_uses", "air_seconds", "transmit_energy_j"):
                values = each[column].drop_nulls().to_list() if column in each.columns else []
                expected = np.mean(values) if values else None
                assert row[f"{column}_mean"] == (None if expected is None else pytest.approx(expected, rel=1e-12))
    said = (
        "unit",
        "neighbouring_relation",
        "sampling",
        "observer",
        "guarantee",
        "epsilon_assumes",
        "comparability",
        "samples",
    )
    assert table.select(said).null_count().row(0) == (0,) * len(said)
    classifiers = table.filter(pl.col("system") != "age_aware")
    assert classifiers["accuracy_mean"].null_count() == 0
    assert set(classifiers["samples"]) == {1400}
    assert classifiers["channel_uses_mean"].min() > 0


@pytest.mark.xdist_group("studied")
def test_every_row_says_what_its_own_server_learns_and_whether_that_is_guaranteed(studied):
    table = build.compare(studied)["systems"]
    assert table.columns[:3] == ["scenario", "system", "scheme"]
    of = {name: content["realizations"] for name, content in studied.items()}
    own = {"cells": "epsilon", "noisy_uploads": "epsilon"}  # what a server receives, by scenario
    own |= {"aging": "epsilon_classical"}
    for row in table.iter_rows(named=True):
        each = of[row["scenario"]].filter(pl.col("scheme") == row["scheme"])
        assert row["epsilon_server"] == each["epsilon_server"].max()
        assert row["epsilon_server_min"] == each["epsilon_server"].min()
        assert row["epsilon_min"] == each["epsilon"].min()
        assert row["epsilon_server"] >= row["epsilon"] * (1 - 1e-12)
        if column := own.get(row["scenario"]):
            assert row["epsilon_server"] == each[column].max()
    assert set(table.filter(scenario="fair_copies")["epsilon_server"]) == {np.inf}
    stands = table.group_by("scenario").agg(pl.col("guarantee", "guarantee_server").unique())
    stands = {name: (own, server) for name, own, server in stands.iter_rows()}
    assert stands["cells"] == (["proved"], ["proved"])
    assert stands["aging"] == (["conditional"], ["proved"])
    assert stands["fair_copies"] == (["conditional"], ["none"])
    assert stands["noisy_uploads"] == (["conditional"], ["conditional"])
    antennas = table.filter(scenario="many_antennas")
    assert antennas["epsilon_assumes"].str.contains("receivers' noise").all()
    of_antennas = studied["many_antennas"]["guarantees"].filter(unit="record", observer="update")
    of_users = of_antennas.filter(noise_from="users")["epsilon"]  # alone: of one of two schemes there is no noise
    assert of_users.is_infinite().sum() == len(of_users) / 2
    assert set(table.filter(scenario="over_the_air", scheme="Anonymous OAC")["guarantee"]) == {"none"}


@pytest.mark.xdist_group("studied")
def test_every_row_says_how_much_a_user_computes_whose_accuracy_it_is_and_which_energies_compare(studied):
    table = build.compare(studied)["systems"]
    steps = dict(table.group_by("system").agg(pl.col("local_steps_mean").first()).iter_rows())
    assert (steps["multicell"], steps["anonymous_oac"], steps["age_aware"]) == (1, 1, 0)
    own = config_of("systems")["scenarios"]["many_antennas"]["training"]
    assert steps["random_orthogonalization"] == own["local_steps"] > 1
    history = studied["fair_copies"]["history"].filter(pl.col("iterations") > 0)
    for scheme, of_scheme in history.group_by("scheme"):
        each = of_scheme.group_by("realization").agg(pl.col("iterations").mean())["iterations"].mean()
        [steps] = table.filter(scenario="fair_copies", scheme=scheme[0])["local_steps_mean"]
        assert steps == pytest.approx(each)
    assert all("no device gets" in text for text in table.filter(system="utility_fair")["evaluated_model"])
    has_none = pl.col("energy_scope").str.starts_with("none")
    budgets = table.drop_nulls("transmit_energy_j_mean").select("system", "energy_scope").unique()
    assert len(budgets) == budgets["system"].n_unique() == budgets["energy_scope"].n_unique() > 1  # one a system
    assert set(table.filter(has_none)["transmit_energy_j_mean"]) == {None}


@pytest.mark.xdist_group("studied")
def test_trainings_that_diverged_are_not_passed_over(studied):
    each = studied["cells"]["realizations"]
    lost = (pl.col("scheme") == "RndSched") | ((pl.col("scheme") == "OptSched") & (pl.col("realization") == 1))
    training = pl.when(lost).then(pl.lit("diverged")).otherwise("training")
    each = each.with_columns(training=training, accuracy=pl.when(~lost).then("accuracy"))
    study = studied | {"cells": studied["cells"] | {"realizations": each}}
    rows = {row["scheme"]: row for row in systems.table(study).filter(scenario="cells").iter_rows(named=True)}
    assert [(rows[s]["trainings"], rows[s]["diverged"]) for s in ("RndSched", "OptSched")] == [(0, 2), (1, 1)]


def test_labels_are_spread_as_little_as_possible():
    generator = np.random.default_rng(0)
    for count in (1, 2, 5, 12):
        wanted = generator.uniform(0, 300, count).round()  # with ties
        found = labels.spread(wanted, 17.0, 300.0)
        order = np.argsort(wanted, kind="stable")
        assert (np.diff(found[order]) >= 17 - 1e-9).all()
        assert 0 <= found.min() <= found.max() <= 300
        apart = [{"type": "ineq", "fun": lambda places: np.diff(places) - 17}] if count > 1 else []
        moved, start = lambda places, wanted=wanted[order]: ((places - wanted) ** 2).sum(), np.linspace(0, 300, count)
        best = optimize.minimize(moved, start, bounds=[(0, 300)] * count, constraints=apart)
        assert ((found - wanted) ** 2).sum() <= best.fun + 1e-3
    assert len(labels.spread(np.empty(0), 17.0, 300.0)) == 0


@pytest.mark.skipif(not (TY := Path(sys.executable).with_name("ty")).exists(), reason="ty is not installed")
@pytest.mark.parametrize(
    ("right", "wrong", "expected"),
    [
        ("", "", None),
        ("lambda: channel.run", "lambda: channel.runs", "no member `runs`"),
        ("Part(lambda: schedule.run)", "Part(lambda: channel.run)", "invalid-argument-type"),
        ("Part(lambda: noise.run)", "Part(lambda: receive.run)", "invalid-argument-type"),
        ("Trainers(train.trainer, train.batch_trainer)", "Trainers(train.batch_trainer)", "invalid-argument-type"),
        ("lambda: audit.verdicts", "audit.verdicts", "invalid-argument-type"),
        ("model=RandomOrthogonalization", "model=Checks", "invalid-argument-type"),
        ("problems=checks.problems", "problem=checks.problems", "unknown-argument"),
        ("figures=report.FIGURES", "figures=report.COMPARABILITY", "invalid-argument-type"),
        ("    receive=Part(lambda: receive.run),\n    train=", "    receives=", "missing-argument"),
    ],
)
def test_a_type_checker_finds_mistakes_in_a_systems_object(tmp_path, right, wrong, expected):
    text = (ROOT / "pkg/pwfl/systems/random_orthogonalization/system.py").read_text(encoding="utf-8")
    assert right in text
    (tmp_path / "system.py").write_text(text.replace(right, wrong, 1), encoding="utf-8")
    call = [TY, "check", "--project", ROOT, "--output-format", "concise", tmp_path / "system.py"]
    found = subprocess.run(call, capture_output=True, text=True, check=False)
    assert (expected or "All checks passed") in found.stdout


@pytest.mark.parametrize("system", registry.BUILT_IN)
def test_a_systems_object_has_all_checks_that_its_module_has(system):
    own = registry.system(system)
    named = {name for name in Checks.__dataclass_fields__ if hasattr(import_module(f"{own.package}.checks"), name)}
    assert {
        name for name in Checks.__dataclass_fields__ if getattr(own.checks, name) != getattr(Checks(), name)
    } == named


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_config_of_a_system_is_valid_and_every_figure_has_its_caption(system):
    files = ["config", "paper", "samples"] if system == "multicell" else [system, f"{system}_small"]
    for name in files:
        study = load(config_of(name), name)
        assert {chosen.system for chosen in study.scenarios.values()} == {system}
    own = registry.system(system)
    for figure in {*own.catalog.figures, *own.catalog.comparison_figures}:
        assert (own.folder / "captions" / f"{figure}.rst").read_text()
    for figure in {*catalog.COMMON_FIGURES, *catalog.STUDY_FIGURES}:
        assert (ROOT / "report" / f"{figure}.rst").read_text()
    assert (ROOT / f"docs/explanation/{system}.md").exists()
