"""What a study leaves for a paper, but for figures: tables as LaTeX, references."""

import math
import re
from types import SimpleNamespace

import polars as pl
import pytest

import pwfl
from conftest import ROOT
from pwfl import registry
from pwfl.report import latex, references
from pwfl.scenario import load
from pwfl.workflow import plan, reports

AGING = {"system": "age_aware", "realizations": 3, "training_realizations": 3, "schedule": {"horizon": 4},
         "training": {"draws": 2}, "audit": {"canaries": 20}}  # fmt: skip


def test_a_mean_has_the_digits_that_its_interval_leaves():
    shown = {
        (94.7312, 0.3141): "$94.7 \\pm 0.3$",
        (94.7312, 0.1549): "$94.73 \\pm 0.15$",
        (94.7312, 0.0961): "$94.73 \\pm 0.10$",
        (61.47, 3.65): "$61 \\pm 4$",
        (14851.2, 707.1): "$14900 \\pm 700$",
        (1.48512e7, 70712.0): "$(1.485 \\pm 0.007) \\times 10^{7}$",
        (-2.5e-5, 1.2e-6): "$(-2.50 \\pm 0.12) \\times 10^{-5}$",
        (0.5, 1e-17): "$0.5$",  # no more than rounding
        (12345.678, None): "$12346$",
        (math.inf, None): "$\\infty$",
        (None, None): "--",
    }
    assert {pair: latex.number(*pair) for pair in shown} == shown


def test_text_is_escaped_and_greek():
    assert latex.text("50%_{a}&#$~^\\") == (
        "50\\%\\_\\allowbreak \\{a\\}\\&\\#\\$\\textasciitilde{}\\textasciicircum{}\\textbackslash{}"
    )
    assert latex.text("Epsilon at delta < 1, epsilon_server") == (
        "$\\varepsilon$ at $\\delta$ \\textless{} 1, epsilon\\_\\allowbreak server"
    )


def assert_balanced(text: str) -> None:
    """Braces and environments of LaTeX or BibTeX are closed as they were opened, and $ come in pairs."""
    bare, open_ = re.sub(r"\\[\\{}$%&#_]", "", text), []
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    for kind, name in re.findall(r"\\(begin|end)\{(.*?)\}", text):
        if kind == "begin":
            open_.append(name)
        else:
            assert open_.pop() == name
    assert open_ == []


@pytest.fixture(scope="module")
def compared() -> dict[str, pl.DataFrame]:
    config = {"base": AGING, "scenarios": {"one": {}, "two": {"sweep": {"seed": [2, 3]}}}}
    return pwfl.simulate(config).comparison


def test_the_table_of_outcomes_has_a_row_a_point_and_says_what_its_epsilons_mean(compared):
    table = compared["outcomes"].filter(pl.col("scheme").is_in(["random, constant noise", "sweep"]))
    found = latex.outcomes(table)
    assert_balanced(found)
    _, body = found.split("\\midrule\n")
    rows = body.split("\n\\bottomrule")[0].splitlines()
    assert len(rows) == len(table.unique(["scenario", "scheme", "target_epsilon"]))
    width = len(re.search(r"\\begin\{tabular\}\{(\w+)\}", found)[1])
    assert {len(row.split(" & ")) for row in rows} == {width}
    assert "\\pm" in body
    notes = body.split("\\parbox")[1]
    for term in ("$\\delta$", "protected: ", "neighbours: ", "sampling: ", "observer: "):
        assert notes.count(term) == len(table.select(latex.TERMS).unique()), term


def test_a_table_of_more_rows_than_a_page_has_goes_on_over_pages(compared):
    for count, environment in ((latex.PAGEFUL, "tabular"), (latex.PAGEFUL + 1, "longtable")):
        points = compared["outcomes"].unique(["scenario", "scheme", "target_epsilon"], maintain_order=True).head(count)
        table = compared["outcomes"].join(
            points.select("scenario", "scheme", "target_epsilon"),
            on=["scenario", "scheme", "target_epsilon"],
            nulls_equal=True,
        )
        found = latex.outcomes(table)
        assert_balanced(found)
        columns, body = re.search(rf"\\begin{{{environment}}}{{(\w+)}}.*?\\midrule(.*)", found, re.DOTALL).groups()
        rows = [line for line in body.splitlines() if line.endswith("\\\\") and " & " in line]
        assert len(rows) == count
        assert {len(row.split(" & ")) for row in rows} == {len(columns)}
        assert "protected: " in body
        assert found.count("\\label{tab:age_aware}") == 1


def test_the_table_of_statements_has_all_of_them(compared):
    found = latex.claims(compared["claims"])
    assert_balanced(found)
    assert found.count(" \\\\\n") == len(compared["claims"]) + 1  # the heads


@pytest.mark.parametrize("system", registry.BUILT_IN)
def test_the_papers_are_cited_with_year_and_where_they_are_found(system):
    found = references.bibtex(ROOT / "CITATION.cff", [system])
    assert_balanced(found)
    entry = found.split("\n\n")[1]
    fields = dict(re.findall(r"^  (\w+) = \{(.*)\},$", entry, flags=re.MULTILINE))
    assert {"author", "title", "year"} <= set(fields)
    assert {"journal", "booktitle", "howpublished"} & set(fields)
    assert system == "random_orthogonalization" or {"doi", "eprint"} & set(fields)
    assert entry.startswith(
        f"@{'article' if 'journal' in fields else 'inproceedings' if 'booktitle' in fields else 'misc'}{{{system},"
    )


def declare(monkeypatch, paper: dict | None) -> None:
    """Let there be a system `mine` whose catalog has a paper."""
    known, own = registry.system, SimpleNamespace(catalog=SimpleNamespace(paper=paper))
    monkeypatch.setattr(registry, "system", lambda name: own if name == "mine" else known(name))


def test_names_of_authors_keep_their_parts_and_a_system_without_a_paper_is_named(monkeypatch):
    declare(monkeypatch, None)
    found = references.bibtex(ROOT / "CITATION.cff", ["multicell", "mine"])
    assert " and da Silva, Jr., José Mairton B. and " in found
    assert "author = {{the pwfl authors}}" in found
    assert "% mine: no paper" in found


def test_a_study_for_print_makes_tables_and_references_of_its_systems():
    def comparison(**keys) -> tuple[dict, list[str]]:
        study = load({"scenarios": {"one": AGING}, **keys}, "study.yaml")
        parts = reports.plan(plan.plan(study), ROOT / "report").parts
        (part,) = (part for item, part in parts.items() if item.stage == reports.COMPARISON)
        return part.description, reports.for_paper(study)

    description, files = comparison(print=True)
    assert "@inproceedings{age_aware," in description["references"]
    assert "multicell" not in description["references"]
    assert files == ["outcomes.tex", "differences.tex", "claims.tex", "references.bib"]
    assert comparison()[1] == []
