"""Every column of every table has a meaning, which the documentation and `pwfl tables --columns` show."""

import re

import polars as pl
import pytest
from click.testing import CliRunner

import pwfl
from conftest import ROOT
from pwfl import api, cli, registry
from pwfl.report import columns, meanings
from pwfl.scenario import read

PAGE = (ROOT / "docs/reference/columns.md").read_text(encoding="utf-8")
SMALL = sorted((ROOT / "config").glob("*_small.yaml"))
FEW = {"realizations": 2, "training_realizations": 2, "audit": {"canaries": 50}}


def named(page: str) -> set[str]:
    """The columns that a page has a row for."""
    first = [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| `")]
    return {name for cell in first for name in re.findall(r"`([^`]+)`", cell)}


@pytest.mark.parametrize("system", registry.BUILT_IN)
def test_every_column_of_a_stages_table_declares_its_meaning_and_is_on_the_page(system):
    for table, schema in meanings.schemas(system).items():
        for name, column in schema.columns().items():
            found = meanings.describe(name, column.dtype, table, [system])
            assert re.match(r"\S+ \S+|scheme|stage", found.meaning), (table, name)
            assert found.reveals in {"public", "noisy", "private"}
            assert table == "realizations" or name in named(PAGE), (table, name)


def test_a_derived_column_says_what_of_which_column():
    assert meanings.describe("rho_worst_user_mean", pl.Float64(), "summary", ["multicell"]) == (
        "rho_worst_user_mean",
        "number",
        "",
        "mean over realizations: largest rho of a user",
        "public",
    )
    assert meanings.describe("energy_j_ci_low", pl.Float64(), "summary", ["utility_fair"]).unit == "J"
    assert meanings.describe("user_accuracy_mean", pl.Float64(), "summary", ["multicell"]).reveals == "private"
    swept = meanings.describe("schedule.gamma", pl.Float64(), "outcomes", ["age_aware", "multicell"])
    assert swept.meaning.startswith("value of the swept parameter: ")
    assert meanings.describe("no_such_column", pl.Float64(), "outcomes", ["multicell"]).meaning == ""


def test_pwfl_tables_prints_the_meanings_of_columns(monkeypatch):
    frame = pl.DataFrame({"scheme": ["a"], "accuracy": [0.5], "transmit_energy_j": [1.0]})
    scenario = api.ScenarioTables({"history": frame}, {}, "multicell")
    monkeypatch.setattr(api, "results", lambda _: api.StudyTables({"one": scenario}, {}, "study"))
    run = CliRunner().invoke(cli.pwfl, ["tables", "results/study", "one/stages/history", "--columns"])
    assert run.exit_code == 0, run.output
    assert "accuracy (number, noisy)\n    share of the test set" in run.output
    assert "transmit_energy_j (number, J, public)\n" in run.output
    asked = CliRunner().invoke(cli.pwfl, ["tables", "results/study", "one/stages/history", "accuracy", "--columns"])
    assert asked.output.count("\n") == 2


@pytest.mark.slow
@pytest.mark.parametrize("path", [*SMALL, ROOT / "config/config.yaml"], ids=lambda path: path.stem)
def test_every_column_of_a_small_study_has_a_meaning_and_is_on_the_page(path):
    config = read([path])
    config["base"] |= FEW
    config["scenarios"] = {
        name: {key: value for key, value in (own or {}).items() if key not in FEW}
        for name, own in config["scenarios"].items()
    }
    study = pwfl.simulate(config)
    systems = sorted({each.system for each in study.scenarios.values()})
    frames = [(name, frame, systems) for name, frame in study.comparison.items()]
    for each in study.scenarios.values():
        frames += [(name, frame, [each.system]) for name, frame in (*each.report.items(), *each.stages.items())]
    listed = named(PAGE)
    for table, frame, of in frames:
        for name, dtype in frame.schema.items():
            assert meanings.describe(name, dtype, table, of).meaning, (table, name)
            assert name in listed or name in columns.TERMS or "." in name, (table, name)
