"""The systems beside multicell through the whole workflow, and all five under common terms."""

import numpy as np
import polars as pl
import pytest
import yaml

from conftest import ROOT, jobs, snakemake
from pipeline import run
from pwfl import report
from pwfl.report import catalog, systems
from pwfl.scenario import SYSTEMS

FEW = {"realizations": 2, "training_realizations": 2}


def config_of(name: str) -> dict:
    return yaml.safe_load((ROOT / "config" / f"{name}.yaml").read_text())


@pytest.mark.xdist_group("small")  # each takes both cores
@pytest.mark.parametrize("system", [system for system in SYSTEMS if system != "multicell"])
def test_the_small_study_of_a_system_runs_to_its_claims(tmp_path, system):
    config = config_of(f"{system}_small")
    config["base"] |= FEW
    config["scenarios"] = {name: (own or {}) | FEW for name, own in config["scenarios"].items()}
    result = snakemake(tmp_path, config, "--cores", "2")
    assert result.returncode == 0, result.stdout + result.stderr
    for name in config["scenarios"]:
        folder = tmp_path / "results" / name / "report"
        for figure in catalog.FIGURES[system]:
            assert all((folder / f"{figure}.{kind}").stat().st_size > 500 for kind in ("html", "png", "svg"))
        for table in catalog.TABLES[system]:
            rows = pl.read_parquet(folder / f"{table}.parquet").height
            assert rows == pl.read_csv(folder / f"{table}.csv", infer_schema_length=None).height
            assert rows > 0 or table == "sweep"  # a scenario may have no scheme that sweeps
    compared = tmp_path / "results" / "comparison" / config["study"]
    claims = pl.read_csv(compared / "claims.csv", infer_schema_length=None)
    assert len(claims) > 5
    assert set(claims["holds"]) <= {"yes", "no", "open"}
    assert set(pl.read_csv(compared / "systems.csv")["system"]) == {system}
    if len(config["scenarios"]) > 1:
        for figure in catalog.COMPARISON_FIGURES[system]:
            assert (compared / f"{system}_{figure}.png").stat().st_size > 1000
    assert jobs(snakemake(tmp_path, config, "--dry-run")) == {}


@pytest.fixture(scope="module")
def studied(tmp_path_factory):
    """The scenarios of the study of all systems, with few realizations, as `report.compare` takes them."""
    config, found = config_of("systems"), {}
    for name, own in config["scenarios"].items():
        short = {
            "training": {**own.get("training", {}), **({"rounds": 3} if "rounds" in own.get("training", {}) else {})}
        }
        parameters, tables = run(config["base"] | own | short | FEW, tmp_path_factory.mktemp(name))
        found[name] = {"parameters": parameters} | report.summarize(parameters, tables)
    return found


@pytest.mark.xdist_group("studied")
def test_all_systems_stand_in_one_table_under_common_terms(studied):
    table = report.compare(studied)["systems"]
    assert set(table["system"]) == set(SYSTEMS)
    for name, content in studied.items():
        for scheme in content["parameters"]["schemes"]:
            row = table.filter(pl.col("scenario") == name, pl.col("scheme") == scheme["name"]).row(0, named=True)
            each = content["realizations"].filter(pl.col("scheme") == scheme["name"])
            assert row["epsilon_exact"] == each["epsilon_exact"].max()
            for column in ("accuracy", "channel_uses", "transmit_energy_j"):
                values = each[column].drop_nulls().to_list() if column in each.columns else []
                expected = np.mean(values) if values else None
                assert row[f"{column}_mean"] == (None if expected is None else pytest.approx(expected, rel=1e-12))
    for column in (
        "unit",
        "neighbouring_relation",
        "sampling",
        "observer",
        "guarantee",
        "differs",
        "samples",
        "rounds",
    ):
        assert table[column].null_count() == 0, column
    classifiers = table.filter(pl.col("system") != "age_aware")
    assert classifiers["accuracy_mean"].null_count() == 0
    assert set(classifiers["samples"]) == {1400}
    assert classifiers["channel_uses_mean"].min() > 0


@pytest.mark.xdist_group("studied")
def test_the_figure_of_all_systems_draws_what_has_accuracy_and_epsilon(studied):
    chart = report.comparison_figure("systems", "tradeoff", studied).to_dict()
    drawn = next(iter(chart["datasets"].values()))
    table = systems.table(studied)
    expected = table.filter(pl.col("epsilon_exact").is_finite(), pl.col("accuracy_mean").is_not_null())
    assert [row["scheme"] for row in drawn] == expected["scheme"].to_list()
    assert "age_aware" in str(chart["layer"][0].get("title", chart))


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_config_of_a_system_is_valid_and_every_figure_has_its_caption(system):
    from pwfl import scenario

    files = ["config", "paper", "samples"] if system == "multicell" else [system, f"{system}_small"]
    for name in files:
        study = scenario.load(config_of(name), name)
        assert {chosen.system for chosen in study.scenarios.values()} == {system}
    for figure in {*catalog.FIGURES[system], *catalog.COMPARISON_FIGURES[system]}:
        assert (ROOT / "report" / system / f"{figure}.rst").read_text()
    assert (ROOT / "docs" / f"{system}.md").exists()
