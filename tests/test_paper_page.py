"""Papers' pages: what is declared, curves and their bands, verdicts in words, and the page itself."""

import re
import sys
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from scipy import stats

from conftest import ROOT
from pwfl import registry
from pwfl.report import curves, panels, paper, paper_page, references
from pwfl.report.claims import SCHEMA, Band, Claim, Quantity, scheme
from pwfl.report.paper import Mark, Panel, Paper, Setting
from pwfl.scenario import load, read
from pwfl.workflow import reports
from pwfl.workflow.plan import plan

sys.path.insert(0, str(ROOT / "docs"))
import full_size


def declared(system: str) -> Paper:
    return import_module(f"pwfl.systems.{system}.paper").PAPER


@pytest.mark.parametrize("system", registry.BUILT_IN)
def test_a_paper_names_claims_functions_and_studies_that_there_are(system):
    of = declared(system)
    ids = {claim.id for claim in of.claims}
    each = [panel for row in of.panels for panel in row]
    assert len({panel.name for panel in each}) == len(each) > 0
    for panel in each:
        assert {*panel.captions, *(mark.claim for mark in panel.marks)} <= ids, panel.name
        assert panel.setting in {"", *of.settings}
    for _, functions, _ in of.equations:
        for function in functions.split(", "):
            module, _, name = f"pwfl.{function}".rpartition(".")
            assert hasattr(import_module(module), name) or find_spec(f"pwfl.{function}"), function
    studies = registry.system(system).catalog.studies
    assert studies
    assert all((ROOT / f"config/{study}.yaml").exists() for study in studies)
    assert len({each.id for each in of.interpretations}) == len(of.interpretations)


def page_of(system: str) -> str:
    """A paper's page of what is committed, without curves."""
    (cited,) = references.cited(ROOT / "CITATION.cff", [system])
    catalog = registry.system(system).catalog
    claims = full_size.kept().filter(pl.col("study").is_in(catalog.studies))
    return paper_page.render(declared(system), cited._asdict(), claims, {}, {}, {}, {}, catalog.studies)


@pytest.mark.parametrize("system", registry.BUILT_IN)
def test_a_page_has_every_statement_names_the_paper_and_needs_no_network(system):
    of, text = declared(system), page_of(system)
    (cited,) = references.cited(ROOT / "CITATION.cff", [system])
    assert f"<h1>{cited.title}</h1>".replace("&", "&amp;") in text
    rows = re.findall(r'<tr id="([A-Z0-9-]+)" class="is-', text)
    assert rows == [claim.id for claim in of.claims]
    assert text.count("Not run yet.") == sum(map(len, of.panels))
    assert not re.search(r"\{[{%]|[%}]\}|<script|src=|@import|Undefined|None</|nan\b", text)
    assert set(re.findall(r'href="(https?://[^/"]+)', text)) <= {"https://doi.org", "https://arxiv.org"}
    assert len(text.encode()) < 2**20


CLAIMS = (
    Claim(
        id="F1-1",
        statement="A is more accurate than B.",
        source="Fig. 1",
        quantity=Quantity("accuracy", "accuracy", (0.0, 1.0)),
        compare=scheme("a", "x", "A") - scheme("b", "x", "B"),
        required=Band(above=0),
        setting={},
    ),
    Claim(id="T1-1", statement="It converges.", source="Theorem 1", setting={}, why="Its premises are not met."),
)
ONE = Panel(
    name="1 (a)",
    title="Accuracy",
    x="round",
    setting="a",
    curves=curves.over_rounds("accuracy"),
    captions={"F1-1": "A above B"},
    marks=(Mark("F1-1", "y", "paper: B + 5 points", 0.05, "B"), Mark("F1-1", "x", "paper: round 3", 3.0)),
    percent=True,
    trained=True,
)
OF = Paper(
    idea="Two schemes. One wins.",
    size="All of it.",
    claims=CLAIMS,
    interpretations=(),
    settings={"a": Setting("K = 5", {}), "b": Setting("K = 9", {})},
    panels=((ONE,),),
)


def measured(*rows: tuple) -> pl.DataFrame:
    """Rows of the table `claims`: scenario, value, low, high, verdict."""
    named = [
        {"claim": "F1-1", "scenario": name, "measured": value, "measured_ci_low": low, "measured_ci_high": high,
         "verdict": verdict, "quantity": "accuracy: A - B", "realizations": 7}
        for name, value, low, high, verdict in rows
    ]  # fmt: skip
    return pl.DataFrame(named, schema=SCHEMA)


def test_a_statement_has_a_cell_for_each_setting_and_one_verdict():
    found = measured(("one", 0.1, 0.05, 0.15, "supported"), ("two", -0.2, -0.3, -0.1, "refuted"))
    first, second = paper.rows(OF, found, {"one": "a", "two": "b"})
    assert [[(line.value, line.interval, line.where) for line in cell] for cell in first.cells] == [
        [("+10 points", "5 to 15", "")],
        [("−20 points", "−30 to −10", "")],
        [],
    ]
    assert (first.verdict, first.realizations) == ("refuted", "7")
    assert first.measured == "Accuracy: A - B. Supported if > 0 points."
    assert (second.verdict, second.measured) == ("not measured", "Its premises are not met.")
    assert paper.lead([first, second]) == "Of 2 statements, 1 is refuted and 1 was not measured."
    assert [row.claim.id for row in paper.unsupported([first, second])] == ["F1-1"]
    # A panel's caption is of its own setting.
    said = paper.caption(ONE, [first, second], found, {"one": "a", "two": "b"})
    assert said == [("supported", "A above B", "F1-1")]


@pytest.mark.parametrize(
    ("interpretation", "said"),
    [
        (None, ""),
        ("I2: the median", "I2: the median"),
        ("I1: data.samples_total 60000, data.samples_offset 0", "one; I1"),
        ("I2: the median; I4: training.clipping per_user", "one; I2: the median; I4"),
    ],
)
def test_another_interpretation_s_parameters_are_told_by_the_scenario_s_title(interpretation, said):
    found = measured(("one", 0.1, 0.05, 0.15, "supported")).with_columns(
        interpretation=pl.lit(interpretation, pl.String)
    )
    assert paper.rows(OF, found, {"one": "a"})[0].cells[0][0].where == said


def test_what_is_measured_outside_of_the_papers_setting_is_shown_and_not_judged():
    alone = measured(("one", 0.1, 0.05, 0.15, None))
    (first, _) = paper.rows(OF, alone, {"one": "a"})
    assert (first.verdict, first.cells[0][0].value, first.cells[0][0].verdict) == (
        "not judged",
        "+10 points",
        "not judged",
    )
    assert "1 was measured outside the paper's setting and not judged" in paper.lead([first])
    both = pl.concat([alone, measured(("two", 0.2, 0.1, 0.3, "supported"))])
    (first, _) = paper.rows(OF, both, {"one": "a", "two": "a"})
    assert (first.verdict, [line.value for line in first.cells[0]]) == ("supported", ["+20 points"])


@pytest.mark.parametrize("value", [None, float("inf"), 0.0, -1e-12, 1e9])
def test_values_that_are_missing_infinite_or_tiny_are_words(value):
    found = measured(("one", value, None, None, "not measured" if value is None else "supported"))
    cells = paper.rows(OF, found, {"one": "a"})[0].cells
    assert re.fullmatch(r"undefined|[+−]?(inf|[\d.]+(e[+-]\d+)?) points", cells[0][0].value)
    assert cells[0][0].interval == ""


def history(runs: int) -> pl.DataFrame:
    generator = np.random.default_rng(3)
    keys = [(name, run, k) for name in "AB" for run in range(runs) for k in range(6)]
    frame = pl.DataFrame(keys, schema=["scheme", "realization", "round"], orient="row")
    return frame.with_columns(
        accuracy=pl.Series(generator.uniform(0.2, 0.4, len(keys)) + 0.1 * frame["round"].to_numpy())
    )


@pytest.mark.parametrize("runs", [1, 5])
def test_means_over_rounds_have_student_s_band(runs):
    rows = history(runs)
    found = curves.over_rounds("accuracy")({"one": {"history": rows}})
    for name, k, mean, low, high in found.iter_rows():
        own = rows.filter(scheme=name, round=int(k))["accuracy"].to_numpy()
        assert mean == pytest.approx(own.mean())
        expected = stats.t.interval(0.95, runs - 1, own.mean(), stats.sem(own)) if runs > 1 else (mean, mean)
        assert (low, high) == pytest.approx(expected)


@pytest.mark.parametrize("log", [False, True])
def test_distributions_are_shares_with_a_band_over_realizations(log):
    generator = np.random.default_rng(4)
    realization = np.repeat(np.arange(8), generator.integers(1, 9, 8))
    rows = pl.DataFrame({"scheme": "A", "realization": realization, "rho": generator.lognormal(0, 1, len(realization))})
    found = curves.distribution("leakage", "rho", log)({"one": {"leakage": rows}})
    values = rows["rho"].to_numpy()
    size = np.bincount(realization)
    for _, x, share, low, high in found.iter_rows():
        below = np.array([(values[realization == k] <= x).sum() for k in range(8)])
        assert share == pytest.approx(below.sum() / len(values))
        error = np.sqrt(np.square(below - share * size).sum() * 8 / 7) / size.sum()
        expected = np.clip([share - 1.959964 * error, share + 1.959964 * error], 0, 1)
        assert (low, high) == pytest.approx(tuple(expected), abs=1e-6)
    assert found["y"].is_sorted()
    assert found["y"][-1] == 1.0


def test_bands_of_distributions_cover_as_often_as_they_say():
    """Users of a realization are alike, so a band over users alone would be far too narrow."""
    generator, count, tries = np.random.default_rng(5), 60, 400
    covered = 0
    for _ in range(tries):
        values = np.repeat(generator.normal(size=count), 5)
        rows = pl.DataFrame({"scheme": "A", "realization": np.repeat(np.arange(count), 5), "v": values})
        found = curves.distribution("t", "v")({"one": {"t": rows}})
        row = found.row(int((found["x"] - 0.0).abs().arg_min()), named=True)
        covered += row["y_ci_low"] <= stats.norm.cdf(row["x"]) <= row["y_ci_high"]
    # Of 0.95, a share of 400 stays within 0.053 but once in a million; the normal interval of 60 is a little short.
    assert covered / tries > 0.89 - 0.053


def test_a_drawn_panel_has_its_names_marks_and_text_that_can_be_read(tmp_path):
    found = curves.over_rounds("accuracy")({"one": {"history": history(5)}})
    text = paper_page.render(
        OF, {"title": "T", "system": "s", "authors": "A", "where": "W", "links": []}, measured(("one", 0.1, 0.0, 0.2, "supported")),
        {"one": "a"}, {"1 (a)": found}, {}, {"This run": "Small."}, ["study"], "5 training runs",
    )  # fmt: skip
    drawn = re.findall(r"<svg .*?</svg>", text, re.S)
    assert len(drawn) == 2  # at both widths
    for svg, width in zip(drawn, (panels.WIDE, panels.NARROW), strict=True):
        shown = re.findall(r">([^<>]+)</text>", svg)
        assert {"A", "B", "paper: B + 5 points", "paper: round 3", "round"} <= set(shown)
        sizes = [float(size) for size in re.findall(r'font-size="([\d.]+)px"', svg)]
        assert min(sizes) >= 11
        assert float(re.search(r'width="([\d.]+)"', svg)[1]) <= width + 8
    assert "(5 training runs)" in text
    assert not re.search(r"\{[{%]|[%}]\}|NaN|undefined", text)
    empty = paper_page.render(
        OF, {"title": "T", "system": "s", "authors": "A", "where": "W", "links": []}, measured(),
        {}, {"1 (a)": curves.empty()}, {}, {}, ["study"],
    )  # fmt: skip
    assert "Not run yet. Reported: B + 5 points. Reported: round 3." in empty


@pytest.mark.parametrize(("name", "made"), [("paper", True), ("another", False)])
def test_a_paper_s_page_is_made_for_the_studies_that_reimplement_it(name, made):
    config = {"study": name, "base": {"system": "multicell", "realizations": 2, "training_realizations": 1}}
    study = load(config | {"scenarios": {"one": {}}}, "study.yaml")
    found = reports.plan(plan(study))
    assert ("multicell_paper.html" in found.view) == made
    assert ("multicell_curves.csv" in found.view) == made
    assert (reports.PAPER in {item.stage for item in found.items()}) == made


@pytest.mark.parametrize("system", full_size.STUDIES)
def test_a_paper_s_size_is_that_of_its_study(system):
    study = read([ROOT / f"config/{full_size.STUDIES[system][0]}.yaml"])
    scenarios = load(study, system).scenarios.values()
    said = [int(number) for number in re.findall(r"(\d+) realizations", declared(system).size)]
    assert set(said) <= {scenario.realizations for scenario in scenarios}


def test_the_size_of_a_run_is_said_with_its_training_runs():
    contents = {name: {"scenario": SimpleNamespace(realizations=3, training_realizations=2)} for name in "ab"}
    assert paper_page._size(contents) == "2 scenarios: 3 realizations, 2 training runs of each scheme"
    assert paper_page._size({"a": contents["a"]}).startswith("1 scenario: ")
