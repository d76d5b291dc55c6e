"""What a stage runs is watched: code that its address does not name is found, wherever it is called from."""

import sys
import threading
from functools import cache
from types import FunctionType, ModuleType

import pytest

import stage_of
from pwfl import registry, testing
from pwfl.api import stage_tables
from pwfl.report import build
from pwfl.scenario import checks, resolve
from pwfl.stages import REPORT
from pwfl.systems.age_aware import account as age_aware_account
from pwfl.systems.multicell import account, bounds, channel, claims, noise, report
from pwfl.systems.multicell.beyond import intervals
from pwfl.testing.executed_code import UnnamedCodeError, checked_stages, executed_functions


def tiny(system: str):
    """A system's tiny scenario, resolved."""
    sizes = {"system": system, "realizations": 2, "training_realizations": 1}
    return resolve(registry.system(system).catalog.tiny | sizes, {})


@pytest.fixture(scope="module")
def multicell():
    """The tiny scenario, its stages' tables, and those of its report."""
    model = tiny("multicell")
    stages = stage_tables(model)
    return model, stages, build.summarize(model.select_stage(REPORT), stages)


def elsewhere(function):
    """A function as it would run if it stood in a module that plans."""
    return FunctionType(function.__code__, function.__globals__ | {"__name__": "pwfl.workflow.plan"})


def run_again(model, stages: dict, tables: dict) -> None:
    """Channel, noise, account, a figure of the report and the claims, from tables that are there."""
    first = {name: frame.filter(scheme=model.schemes[-1].name) for name, frame in stages.items() if "scheme" in frame}
    stage_of.channel(model.select_stage("channel"), range(1))
    given = {name: stages[name] for name in ("users", "links")}
    found = given | {name: frame.drop("scheme") for name, frame in first.items()}
    stage_of.noise(model.select_stage("noise", model.schemes[-1].noise), model.schemes[-1].noise, found)
    stage_of.account(model.select_stage("account"), found)
    build.figure(model.select_stage(REPORT), "leakage", stages)
    build.compare({"one": {"scenario": model.part()} | tables})


@pytest.mark.parametrize(
    ("stage", "module", "name", "owner"),
    [
        ("channel", channel, "intervals", intervals),
        ("noise", noise, "noise_scale", bounds),
        ("account", account, "noise_scale", bounds),
        ("report", report, "leakage_bound", bounds),
        ("comparison", claims, "leakage_bound", bounds),
    ],
)
def test_a_function_in_a_module_that_no_address_names_is_found(multicell, monkeypatch, stage, module, name, owner):
    with checked_stages(multicell[0]) as seen:
        run_again(*multicell)
    assert owner.__name__ in seen[stage]
    monkeypatch.setattr(module, name, elsewhere(getattr(module, name)))
    with (
        pytest.raises(
            UnnamedCodeError, match=rf"^{stage} runs pwfl.workflow.plan.{name}, which its address does not cover"
        ),
        checked_stages(multicell[0]),
    ):
        run_again(*multicell)


@pytest.fixture
def aging(monkeypatch):
    """A function that makes the accounting of `age_aware` call another function first; its scenario."""

    def calling(function):
        right = age_aware_account.run

        def wrong(*arguments):
            function()
            return right(*arguments)

        monkeypatch.setattr(age_aware_account, "run", wrong)

    return tiny("age_aware"), calling


@pytest.fixture
def helper(monkeypatch):
    """A module of the package, in no room that computes, with a function and a cached one."""
    module = ModuleType("pwfl.helper")
    exec("def plain(): pass\n\ndef kept(): pass", vars(module))
    module.kept = cache(module.kept)
    monkeypatch.setitem(sys.modules, "pwfl.helper", module)
    return module


def test_a_check_that_a_stage_runs_is_found_by_the_check_of_a_system(aging):
    model, calling = aging
    calling(lambda: checks.table_bytes(model))
    with pytest.raises(testing.CheckError, match=r"account runs .*pwfl.scenario.checks.table_bytes"):
        testing.check_system("age_aware", ["report"])


@pytest.mark.parametrize("how", ["plain", "cached", "in a thread"])
def test_a_helper_in_a_file_that_no_address_names_is_found(aging, helper, how):
    def in_a_thread():
        thread = threading.Thread(target=helper.plain)
        thread.start()
        thread.join()

    model, calling = aging
    helper.kept()  # so that its result is there
    calling({"plain": helper.plain, "cached": helper.kept, "in a thread": in_a_thread}[how])
    with pytest.raises(UnnamedCodeError, match=r"^account runs pwfl.helper.(plain|kept),"), checked_stages(model):
        stage_tables(model)


def test_a_function_of_another_stage_is_found(aging):
    model, calling = aging
    calling(
        FunctionType(tiny.__code__, globals() | {"__name__": "pwfl.systems.age_aware.schedule"}, argdefs=("age_aware",))
    )
    with (
        pytest.raises(UnnamedCodeError, match=r"^account runs .*pwfl.systems.age_aware.schedule.tiny"),
        checked_stages(model),
    ):
        stage_tables(model)


def test_code_that_runs_while_a_module_is_imported_does_not_count(monkeypatch):
    monkeypatch.delitem(sys.modules, "pwfl.radio.units", raising=False)
    with executed_functions({"pwfl"}) as found:
        import pwfl.radio.units
    assert not found
    with executed_functions({"pwfl"}) as found:
        pwfl.radio.units.db_to_ratio(3.0)
    assert found == {("pwfl.radio.units", "db_to_ratio")}
