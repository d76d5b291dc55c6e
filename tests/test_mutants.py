"""`make mutants`: copies of the project with a fault, in which its tests fail (`benchmarks/mutants.py`)."""

import sys
import tomllib

import pytest

from conftest import ROOT

sys.path.append(str(ROOT / "benchmarks"))

import mutants

PACKAGE = ROOT / mutants.PACKAGE


def test_mutants_that_may_survive_are_of_lines_that_there_are():
    explained = tomllib.loads((ROOT / "benchmarks" / "survivors.toml").read_text(encoding="utf-8"))
    for module, rows in explained.items():
        lines = {line.strip() for line in (PACKAGE / module).read_text(encoding="utf-8").splitlines()}
        assert [row["line"] for row in rows if row["line"] not in lines] == []


@pytest.mark.slow
def test_tests_pass_in_a_copy_of_the_project_and_fail_in_one_with_a_fault():
    module, tests = "privacy/target.py", ["tests/test_target.py"]
    source = (PACKAGE / module).read_text(encoding="utf-8")
    assert tests[0] in mutants.tests_of(module)
    assert mutants.run_tests(tests) == ""
    faulty = next(mutant for mutant in mutants.mutants(source) if mutant.line == "return np.exp(x)")
    assert mutants.run_tests(tests, module, faulty.source).startswith(tests[0])
