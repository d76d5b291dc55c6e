"""The tables of what the papers' claims came to at full size."""

import re
import sys
from pathlib import Path

import polars as pl
import pytest

from pwfl.report.claims import PAPER, SCHEMA, VERDICTS

DOCS = Path(__file__).parents[1] / "docs"
sys.path.insert(0, str(DOCS))
import full_size  # noqa: E402


def test_pages_show_what_is_kept():
    for path, text in full_size.pages().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run `make docs`"


def test_what_is_kept_is_of_claims_that_are_declared():
    study = {name: system for system, names in full_size.STUDIES.items() for name in names}
    for row in full_size.kept().iter_rows(named=True):
        statements = {claim.id: claim.statement for claim in full_size.declared(study[row["study"]])}
        assert row["statement"] == statements[row["claim"]]
        assert row["origin"] == PAPER
        assert row["verdict"] in (None, *VERDICTS)


def test_all_rows_of_all_studies_of_a_paper_are_kept(tmp_path, monkeypatch):
    """A later study's row of the same claim is kept beside the first one's, and one without a verdict, too."""
    monkeypatch.setattr(full_size, "KEPT", tmp_path / "kept.csv")
    monkeypatch.setattr(full_size, "CURVES", tmp_path / "curves")
    monkeypatch.setattr(full_size, "_git", lambda *words: "" if words[0] == "status" else "0123456789")
    row = dict.fromkeys(SCHEMA) | {"claim": "F4-1", "statement": "It is.", "origin": PAPER, "verdict": "supported"}
    rows = {"paper": [row, row | {"verdict": None, "scenario": "elsewhere"}], "samples": [row | {"verdict": "refuted"}]}
    rows["samples"].append(row | {"origin": "project"})
    for study, own in rows.items():
        (tmp_path / study).mkdir()
        pl.DataFrame(own, schema=SCHEMA).write_parquet(tmp_path / study / "claims.parquet")
        full_size.keep(tmp_path / study, "")
    found = full_size.kept().select("study", "verdict").rows()
    assert found == [("paper", "supported"), ("paper", None), ("samples", "refuted")]
    full_size.keep(tmp_path / "paper", "again")
    assert len(full_size.kept()) == 3


@pytest.mark.parametrize("system", full_size.STUDIES)
def test_each_paper_s_page_draws_the_curves_that_are_kept(system):
    text, path = full_size.paper_html(system), full_size.CURVES / f"{system}.csv"
    if path.exists():
        assert "not run yet" not in text
        assert text.count("<svg") >= len(set(pl.read_csv(path, infer_schema=False)["panel"]))


@pytest.mark.parametrize("system", full_size.STUDIES)
def test_each_paper_s_claims_are_declared_once_and_read_as_sentences(system):
    claims = full_size.declared(system)
    numbers: dict[str, list[int]] = {}
    for claim in claims:
        place, _, number = claim.id.rpartition("-")
        assert re.fullmatch(r"[A-Z][A-Z0-9]*", place), claim.id
        numbers.setdefault(place, []).append(int(number))
        assert re.match(r"[A-Z(1].*\.$", claim.statement), claim.statement
        assert claim.setting is not None
    assert len({claim.id for claim in claims}) == len(claims) >= 5
    assert all(sorted(found) == list(range(1, len(found) + 1)) for found in numbers.values()), numbers
