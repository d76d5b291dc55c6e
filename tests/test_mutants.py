"""The table of mutants fits the package: each is a change of one place, and names tests that are there."""

import ast
import sys
from collections import Counter

import pytest

from conftest import ROOT

sys.path.append(str(ROOT / "benchmarks"))

import mutants

TABLE = mutants.mutants()
SYSTEMS = ("multicell", "anonymous_oac", "random_orthogonalization", "utility_fair", "age_aware")
AREAS = {
    *(f"systems/{system}/{stage}.py" for system in SYSTEMS for stage in ("noise", "train", "rounds", "account")),
    *(f"systems/{system}/{stage}.py" for system in SYSTEMS if system != "anonymous_oac"
      for stage in ("channel", "schedule")), "systems/anonymous_oac/participation.py",
    *(f"systems/anonymous_oac/{module}.py" for module in ("mechanism", "sampled", "batches")),
    *(f"systems/utility_fair/{module}.py" for module in ("copies", "link", "utility")),
    *(f"systems/age_aware/{module}.py" for module in ("markov", "age")), "systems/random_orthogonalization/mimo.py",
    *(f"runtime/{module}.py" for module in ("store", "shards", "prune", "fingerprint")),
    *(f"tables/{module}.py" for module in ("contract", "files", "arrays")), "scenario/fields.py", "systems/registry.py",
    "work/train.py", "streams.py", "learning/sources.py", "privacy/gaussian.py", "report/claims.py",
}  # fmt: skip


def test_every_mutant_changes_one_place():
    assert [found for mutant in TABLE if (found := mutants.flaw(mutant))] == []


def test_every_mutant_is_another_program():
    trees, changed = {}, []
    for mutant in TABLE:
        source = (mutants.PACKAGE / mutant.module).read_text()
        original = trees.setdefault(mutant.module, ast.dump(ast.parse(source)))
        changed.append((mutant.module, ast.dump(ast.parse(source.replace(mutant.old, mutant.new)))))
        assert changed[-1][1] != original, mutant
    assert max(Counter(changed).values()) == 1


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
