"""Measurements of one's own: what a file must hold, and how they are drawn."""

import os
from pathlib import Path

import pytest

import pwfl
from conftest import ROOT
from pwfl import cli
from pwfl.report import build, printed, sweep_figures
from pwfl.scenario import ScenarioError, load
from pwfl.workflow import measured, plan, reports

AGING = {"system": "age_aware", "realizations": 2, "training_realizations": 2, "schedule": {"horizon": 4},
         "training": {"draws": 2}, "audit": {"canaries": 20}}  # fmt: skip
OWN = """label,source,epsilon,epsilon_low,epsilon_high,epsilon_server,accuracy,seed
Testbed,"J. Doe, 4_radios",0.3,0.25,0.35,1.5,0.9,2.5
Vendor,a white paper,0.5,,,1,,
"""


def config(path: Path, content: str = OWN, **sweep) -> dict:
    path.write_text(content)
    scenario = {"sweep": sweep or {"seed": [2, 3]}}
    return {"measurements": str(path), "base": AGING, "scenarios": {"one": scenario}}


def test_rows_are_read_and_empty_cells_left_out(tmp_path):
    rows = measured.read(load(config(tmp_path / "own.csv"), "study.yaml"))
    assert rows[0]["source"] == "J. Doe, 4_radios"
    assert (rows[0]["epsilon_low"], rows[0]["seed"]) == (0.25, 2.5)
    assert rows[1] == {"label": "Vendor", "source": "a white paper", "epsilon": 0.5, "epsilon_server": 1.0}
    assert measured.read(load({"scenarios": {"one": AGING}}, "study.yaml")) == []


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "is empty"),
        ("label,accuracy\n", "column 'source' is missing"),
        ("label,source,epsilo\n", "unknown column 'epsilo'; did you mean 'epsilon'?"),
        ("label,source,accuracy,accuracy\n", "column 'accuracy' appears 2 times"),
        ("label,source,accuracy,seed\n", "has no rows"),
        ("label,source,accuracy,seed\na,b,94.7,2\n", "line 2: accuracy: 94.7 is wrong: must be a fraction from 0 to 1"),
        ("label,source,epsilon,seed\na,b,inf,2\n", "line 2: epsilon: inf is wrong: must be a finite number"),
        ("label,source,accuracy,seed\na,b,0.9,2\na,,0.9,2\n", "line 3: source: is empty; a measurement needs a label"),
        ("label,source,accuracy,seed\na,b,0.9,two\n", "line 2: seed: 'two' is wrong: must be a number"),
        ("label,source,accuracy,seed\na,b,0.9\n", "line 2: has 3 cells, but the header has 4"),
        ("label,source,accuracy\na,b,0.9\n", "line 2: needs at least two outcomes or swept parameters"),
        ("label,source,accuracy,accuracy_low,seed\na,b,0.9,0.8,2\n", "line 2: accuracy: an interval needs accuracy, "),
        ("label,source,accuracy,accuracy_low,accuracy_high,seed\na,b,0.9,0.91,0.95,2\n", "0.9 is not between accuracy_low"),
        ('label,source\n"a\n', "cannot be read: unexpected end of data"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_named(tmp_path, content, expected):
    study = load(config(tmp_path / "own.csv", content), "study.yaml")
    with pytest.raises(ScenarioError, match=r"^measurements: .*own.csv: ") as error:
        measured.read(study)
    assert expected in str(error.value)


def test_a_file_that_is_none_or_has_no_place_is_refused_before_work_starts(tmp_path):
    with pytest.raises(ScenarioError, match="measurements: must be the path of a CSV file, is 3"):
        load({"measurements": 3, "scenarios": {"one": AGING}}, "study.yaml")
    (tmp_path / "study.yaml").write_text("measurements: /nowhere/own.csv\nscenarios: {one: {}, two: {seed: 2}}\n")
    with pytest.raises(ScenarioError, match=r"measurements: /nowhere/own.csv: cannot be read: .*No such file"):
        cli._checked([str(tmp_path / "study.yaml")])
    alone = config(tmp_path / "own.csv") | {"scenarios": {"one": AGING}}
    with pytest.raises(ScenarioError, match="needs at least two scenarios of one system"):
        measured.read(load(alone, "study.yaml"))


def test_what_a_file_holds_decides_whether_figures_and_page_are_made_anew(tmp_path):
    path = tmp_path / "own.csv"

    def planned(content: str) -> dict:
        study = load(config(path, content), "study.yaml")
        parts = reports.plan(plan.plan(study), ROOT / "report").parts
        return {(item.stage, part.description.get("scenario")): part for item, part in parts.items()}

    def described(parts: dict) -> dict:
        return {key: part.description for key, part in parts.items()}

    first = described(planned(OWN))
    os.utime(path, (0, 0))
    assert described(planned(OWN)) == first
    parts = planned(OWN.replace("a white paper", "its *manual*"))
    other = described(parts)
    assert [key for key in first if first[key] != other[key]] == [("comparison", None), ("page", None)]
    captions = {path: text for path, text, _ in parts["page", None].given()["parts"][0]["figures"]}
    assert "Testbed: J. Doe, 4\\_radios; Vendor: its \\*manual\\*." in captions["age_aware_plane"]
    assert "Testbed" not in captions["age_aware_search"]


def stars(spec: dict) -> list[dict]:
    """The rows that are drawn as stars, in a figure's specification."""
    (view,) = [view for view in printed._views(spec) if "fill" in view["encoding"]]
    data = view.get("data") or spec["data"]
    return [row for row in spec["datasets"][data["name"]] if row.get("label") is not None]


def test_measurements_are_stars_with_a_legend_and_their_source_and_are_never_ringed(tmp_path):
    asked = config(tmp_path / "own.csv", seed=[2, 3], **{"schedule.horizon": [3, 4]})
    study, found = load(asked, "study.yaml"), pwfl.simulate(asked)
    rows = measured.read(study)
    contents = {
        name: {"scenario": one.part(), "point": study.point(name), "measured": rows, **found.scenarios[name].report}
        for name, one in study.scenarios.items()
    }
    outcomes = build.comparison_figure("age_aware", "outcomes", contents).to_dict()
    chart = sweep_figures.plane(contents, "epsilon_server", "epsilon")
    plane = chart.to_dict()
    assert [(row["label"], row["measured_x"], row["measured_y"]) for row in stars(outcomes)] == [
        ("Testbed", 2.5, 0.3)
    ] * 2
    assert {row["swept_1"] for row in stars(outcomes)} == {3, 4}  # on both panels, as it does not say which
    assert [row["measured_y_low"] for row in stars(outcomes)] == [0.25] * 2
    assert len(stars(plane)) == 2
    for spec in (outcomes, plane):
        assert "Testbed: J. Doe, 4_radios" in " ".join(spec["title"]["subtitle"])
    assert "ringed: Pareto-optimal, by the means of what is simulated" in plane["title"]["subtitle"][0]
    svg = printed.svg(chart)
    assert ">Testbed<" in svg
    assert ">Vendor<" in svg
    for content in contents.values():
        del content["measured"]
    without = build.comparison_figure("age_aware", "outcomes", contents).to_dict()
    assert "transform" not in str(without)
    assert not [view for view in printed._views(without) if "fill" in view["encoding"]]
