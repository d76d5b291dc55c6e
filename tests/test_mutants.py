"""The table of mutants fits the package: each is a change of one place, and names tests that are there."""

import ast
import sys
from collections import Counter

import pytest

from conftest import ROOT

sys.path.append(str(ROOT / "benchmarks"))

import mutants

TABLE = mutants.mutants()
AREAS = {
    *(f"{stage}/{system}.py" for stage in ("channel", "schedule", "noise", "train", "account")
      for system in ("multicell", "anonymous_oac", "random_orthogonalization", "utility_fair", "age_aware")),
    "privacy/gaussian.py", "privacy/sampled.py", "streams.py", "tables/__init__.py", "datasets.py", "markov.py",
    "mimo.py", "fairness/copies.py", "fairness/link.py", "fairness/utility.py", "age.py", "report/claims.py",
}  # fmt: skip


def test_every_mutant_changes_one_place():
    assert [found for mutant in TABLE if (found := mutants.flaw(mutant))] == []


def test_every_mutant_is_another_program():
    trees = {}
    for mutant in TABLE:
        source = (mutants.PACKAGE / mutant.module).read_text()
        original = trees.setdefault(mutant.module, ast.dump(ast.parse(source)))
        assert ast.dump(ast.parse(source.replace(mutant.old, mutant.new))) != original, mutant
    assert max(Counter((m.module, m.old, m.new) for m in TABLE).values()) == 1


def test_there_are_mutants_of_all_systems_and_stages():
    assert len(TABLE) >= 150
    assert {mutant.module for mutant in TABLE} >= AREAS


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"old": "no such thing"}, "'no such thing' stands there 0 times, not once"),
        ({"old": "seed"}, "times, not once"),
        ({"module": "nowhere.py"}, "nowhere.py: there is no such module"),
        ({"tests": "test_nothing.py -k any"}, "there is no tests/test_nothing.py"),
    ],
)
def test_a_mutant_that_no_longer_fits_is_named(change, expected):
    assert expected in mutants.flaw(TABLE[0]._replace(**change))
