"""The tables of what the papers' statements came to at full size."""

import re
import sys
from pathlib import Path

import polars as pl
import pytest

from pwfl.report.claims import SCHEMA
from pwfl.report.statements import ELSEWHERE, PAPER

DOCS = Path(__file__).parents[1] / "docs"
sys.path.insert(0, str(DOCS))
import full_size  # noqa: E402

STATED = "1. mean accuracy after 14 rounds: 89% (88.5% or more)"


def claims(*rows):
    """A table of claims with rows (claim, whose, measured, low, high)."""
    columns = dict.fromkeys(SCHEMA) | {
        "scenario": "m64",
        "printed": "89%",
        "holds": "yes",
        "realizations": 20,
    }
    named = ("claim", "whose", "measured", "low", "high")
    return pl.DataFrame([columns | dict(zip(named, row, strict=True)) for row in rows], schema=SCHEMA)


def test_pages_show_what_is_kept():
    for path, text in full_size.pages().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run `make docs`"


def test_what_is_kept_is_of_statements_that_are_declared():
    study = {name: system for system, names in full_size.STUDIES.items() for name in names}
    for row in full_size.kept().iter_rows(named=True):
        texts = full_size.declared(study[row["study"]])
        assert sum(bool(re.match(full_size.matched(text), row["claim"])) for text in texts) == 1, row["claim"]
        assert row["whose"] == PAPER


@pytest.mark.parametrize("system", full_size.STUDIES)
def test_each_system_has_statements_in_the_order_of_their_numbers(system):
    numbers = [int(text.partition(".")[0]) for text in full_size.declared(system)]
    assert numbers == sorted(numbers)
    assert len(numbers) >= 5


def test_a_study_that_ran_takes_the_place_of_what_was_kept_of_it(tmp_path, monkeypatch):
    folder = tmp_path / "results/random_orthogonalization"
    folder.mkdir(parents=True)
    monkeypatch.setattr(full_size, "KEPT", tmp_path / "kept.csv")
    monkeypatch.setattr(full_size, "_git", lambda *words: "" if words[0] == "status" else "0123456789")
    for measured in (0.5, 0.893):
        rows = ((STATED, PAPER, measured, 0.8912, None), ("elsewhere", ELSEWHERE, 1.0, None, None))
        claims(*rows).write_parquet(folder / "claims.parquet")
        full_size.keep(folder, "5 realizations")
    assert full_size.kept()["measured"].to_list() == [0.893]
    page = full_size.page("random_orthogonalization", full_size.kept())
    assert "config/random_orthogonalization.yaml` (5 realizations) at commit 0123456789" in page
    assert f"| {STATED} | m64 | 89% | 0.893 [0.891, unbounded] | yes | 20 |" in page
    assert page.count(full_size.NOT_RUN) == len(full_size.declared("random_orthogonalization")) - 1
    assert full_size.page("age_aware", full_size.kept()).count(full_size.NOT_RUN) >= 5


def test_other_studies_and_changed_checkouts_are_refused(tmp_path, monkeypatch):
    with pytest.raises(SystemExit, match="samples: no full-size study of a paper"):
        full_size.keep(tmp_path / "samples", "")
    monkeypatch.setattr(full_size, "_git", lambda *words: " M pkg/pwfl/x.py")
    with pytest.raises(SystemExit, match="not committed"):
        full_size.keep(tmp_path / "paper", "")


def test_a_page_without_its_marks_is_named(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(full_size.BEGIN, encoding="utf-8")
    with pytest.raises(SystemExit, match=r"page\.md: does not have the lines"):
        full_size.shown(page, "")
