"""The tables of what the papers' statements came to at full size."""

import re
import sys
from pathlib import Path

import pytest

from pwfl.report.statements import PAPER

DOCS = Path(__file__).parents[1] / "docs"
sys.path.insert(0, str(DOCS))
import full_size  # noqa: E402


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
