"""The tables of what the papers' claims came to at full size."""

import re
import sys
from pathlib import Path

import pytest

from pwfl.report.claims import PAPER, VERDICTS

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
        assert row["verdict"] in VERDICTS


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
