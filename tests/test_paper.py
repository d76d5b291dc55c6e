"""What a study leaves for a paper, but for figures: tables as LaTeX, references."""

import math
import re
import subprocess
from types import SimpleNamespace

import polars as pl
import pytest
import yaml

import pwfl
from conftest import ROOT, need
from pwfl import registry
from pwfl.report import latex, references
from pwfl.scenario import load
from pwfl.workflow import plan, reports

AGING = {"system": "age_aware", "realizations": 3, "training_realizations": 3, "schedule": {"horizon": 4},
         "training": {"draws": 2}, "audit": {"canaries": 20}}  # fmt: skip


def test_a_mean_has_its_interval_where_it_says_more():
    row = {"mean": 0.08, "ci_low": 0.0, "ci_high": 0.19}
    assert latex._mean(row, "mean", ".1%") == "$8$ [$0$, $19$]"
    assert latex._mean(row | {"ci_low": None, "ci_high": None}, "mean", ".1%") == "$8$"
    assert latex._mean(row | {"ci_low": 0.08 - 1e-9, "ci_high": 0.08 + 1e-9}, "mean", ".1%") == "$8$"
    assert latex._mean(row | {"ci_low": None}, "mean") == "$0.08$ [$-\\infty$, $0.19$]"
    assert latex._mean(row | {"ci_high": None}, "mean") == "$0.08$ [$0$, $\\infty$]"
    assert latex._mean({"mean": math.inf, "ci_low": math.nan, "ci_high": math.nan}, "mean") == "$\\infty$"
    assert latex._mean({"mean": None, "ci_low": None, "ci_high": None}, "mean") == "--"


def test_text_is_escaped_and_greek():
    assert latex.text("50%_{a}&#$~^\\") == (
        "50\\%\\_\\allowbreak \\{a\\}\\&\\#\\$\\textasciitilde{}\\textasciicircum{}\\textbackslash{}"
    )
    assert latex.text("Epsilon at delta < 1, epsilon_server") == (
        "$\\varepsilon$ at $\\delta$ \\textless{} 1, epsilon\\_\\allowbreak server"
    )


def test_titles_and_terms_that_are_hard_for_latex_are_written_so_that_it_reads_them():
    assert latex.text("50 % more, target ε = 1, γ = 30") == "50 \\% more, target $\\varepsilon$ = 1, $\\gamma$ = 30"
    assert latex.text("[a] title") == "{[}a] title"
    terms = dict.fromkeys(latex.TERMS, "said") | {
        "delta": 1e-5,
        "epsilon_kind": None,
        "epsilon_user_kind": None,
        "epsilon_trusts": "",
    }
    assert "None" not in latex._meaning(terms)
    assert "a record's: exact; assumes: said; a user's: bound" in latex._meaning(
        terms | {"epsilon_kind": "exact", "epsilon_user_kind": "bound"}
    )


@pytest.mark.slow
def test_exported_tables_go_through_pdflatex(tmp_path, compared):
    need("texlive-latex-recommended")
    hard = compared["outcomes"].with_columns(sweep_of=pl.lit("[50 % more_] ε ≤ γ^2 & \\a → ∞ ~ # {x} $5"))
    written = {"outcomes": latex.outcomes(compared["outcomes"]), "claims": latex.claims(compared["claims"])}
    written |= {"effects": latex.effects(compared["effects"]), "hard": latex.outcomes(hard)}
    compiled(tmp_path, written)


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((ROOT / "config").glob("*_small.yaml")), ids=lambda path: path.stem)
def test_what_every_small_study_exports_goes_through_pdflatex(tmp_path, path):
    need("texlive-latex-recommended")
    study = yaml.safe_load(path.read_text(encoding="utf-8"))
    study["base"] |= {"realizations": 2, "training_realizations": 1}
    found = pwfl.simulate(study).comparison
    titles = load(study, path.name).titles
    makers = {"outcomes": latex.outcomes, "claims": latex.claims, "effects": latex.effects}
    compiled(tmp_path, {name: make(latex.titled(found[name], titles)) for name, make in makers.items()})


def compiled(folder, written):
    """Compile each text as part of a document that has what its first lines ask for."""
    for name, text in written.items():
        assert "% Compile with LuaLaTeX" not in text, name
        body = f"\\documentclass{{article}}\n\\usepackage{{array,booktabs,longtable}}\n\\begin{{document}}\n{text}\\end{{document}}\n"
        (folder / f"{name}.tex").write_text(body, encoding="utf-8")
        call = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", f"{name}.tex"]
        done = subprocess.run(call, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
        assert done.returncode == 0, [line for line in done.stdout.splitlines() if line.startswith(("!", "l."))]


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
    columns = re.search(r"\\begin\{longtable\}\{(\w+)\}", found)[1]
    rows, notes = found.split("\\endlastfoot\n")[1].split("\n\\end{longtable}")
    assert len(rows.splitlines()) == len(table.unique(["scenario", "scheme", "target_epsilon"]))
    assert {len(row.split(" & ")) for row in rows.splitlines()} == {len(columns)}
    assert re.search(r"\$ \[\$\d\S*, \$\d", rows)
    for term in ("$\\delta$", "protected: ", "neighbours: ", "sampling: ", "observer: "):
        assert notes.count(term) == len(table.select(latex.TERMS).unique()), term


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
        planned = reports.plan(plan.plan(study))
        (item,) = (item for item in planned.jobs if item.stage == reports.COMPARISON)
        made = [name for name in planned.outputs(item) if name.endswith((".tex", ".bib"))]
        return planned.descriptions[item.address], made

    description, files = comparison(print=True)
    assert "@inproceedings{age_aware," in description["references"]
    assert "multicell" not in description["references"]
    assert files == ["outcomes.tex", "effects.tex", "claims.tex", "references.bib"]
    assert comparison()[1] == []
