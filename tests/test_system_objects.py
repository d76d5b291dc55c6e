"""What systems are made of: frozen objects, of which planning imports nothing that is slow to import."""

import dataclasses

import pytest

from conftest import ROOT, python
from pwfl import registry
from pwfl.system import System

HEAVY = ("tensorflow", "altair", "cvxpy", "dp_accounting")


def imported(code: str, modules: tuple[str, ...]) -> str:
    """Which of some modules a process has imported that ran the code."""
    found = python("-c", f"{code}\nimport sys\nprint('imported:', *(set({modules}) & sys.modules.keys()))", check=True)
    return found.stdout.rpartition("imported:")[2].strip()


def test_planning_imports_nothing_that_is_slow_to_import():
    files = [str(path) for path in sorted(ROOT.glob("config/*.yaml"))]
    code = f"""
from pwfl.scenario import load, read
from pwfl.workflow import plan
for file in {files}:
    assert list(plan.plan(load(read([file]), file)).items())
"""
    assert imported(code, HEAVY) == ""


@pytest.mark.parametrize("system", registry.BUILT_IN)
def test_accounting_imports_no_tensorflow(system):
    code = f"""
import pwfl
from pwfl import registry
tiny = registry.system({system!r}).catalog.tiny | {{"system": {system!r}, "realizations": 1, "training_realizations": 1}}
assert set(pwfl.simulate(tiny, until="account").scenarios["scenario"].stages) >= {{"outcome", "guarantees"}}
"""
    assert imported(code, ("tensorflow",)) == ""


def test_a_system_is_frozen():
    system: System = registry.system("multicell")
    with pytest.raises(dataclasses.FrozenInstanceError):
        system.name = "other"
