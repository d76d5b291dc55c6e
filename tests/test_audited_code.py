"""Audits run the training itself: whichever of its functions fails, none excepted, the audit fails, too."""

import sys
from collections.abc import Callable
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import pwfl
import stage_of
from pwfl.learning import features
from pwfl.scenario.values import plain, with_others
from pwfl.training import rounds
from pwfl.training.audits.audited import random_data
from test_faults import made

PACKAGE = str(Path(pwfl.__file__).parent)
SYSTEMS = ("multicell", "anonymous_oac", "random_orthogonalization")
HANDFUL = (
    "deal_out",
    "Reception.status",
    "Gradients.inputs",
    "Draws.normals",
    "receive",
    "step_sizes",
    "both_trainers.<locals>.trainer.<locals>.<lambda>",
)


class Broken(RuntimeError):
    """What a function raises in place of what it does."""


@contextmanager
def watched(on_call: Callable):
    """Call `on_call` with the module, name and first line of each of the package's functions that is called."""

    def hook(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            on_call((code.co_filename.removeprefix(PACKAGE), code.co_qualname, code.co_firstlineno))

    rounds.forget()  # what is in graphs is called when they are traced
    sys.setprofile(hook)
    try:
        yield
    finally:
        sys.setprofile(None)
        rounds.forget()


def called_in_training(system: str) -> set[tuple]:
    """The package's functions that the system's trainer calls for a realization, from its records to its history."""
    parameters, found = made(system)
    scenario = with_others(parameters, data=plain(parameters.data) | {"partition": "iid"}, scheme="a/b")
    records = max(frame["samples"].sum() for frame in found["users"].partition_by("realization"))
    data, called = random_data(features.size(parameters), records, np.random.default_rng(1)), set()
    with watched(called.add):
        trainer = import_module(f"pwfl.systems.{system}.train").trainer(scenario, data, found)
        trainer(found["outcome"]["realization"][0])
    return called


def fails(system: str, function: tuple) -> bool:
    """Whether the audit fails where a function raises."""

    def on_call(called):
        if called == function:
            raise Broken(function)

    try:
        with watched(on_call):
            stage_of.audit(*made(system))
    except RuntimeError:
        return True
    return False


@pytest.mark.parametrize("name", HANDFUL)
def test_a_function_of_the_training_that_fails_makes_the_audit_fail(name):
    functions = [function for function in called_in_training("multicell") if function[1] == name]
    assert functions
    assert all(fails("multicell", function) for function in functions)


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_every_function_of_the_training_that_fails_makes_the_audit_fail(system):
    functions = called_in_training(system)
    assert len(functions) > 100
    assert not [function for function in sorted(functions) if not fails(system, function)]
