"""`simulate` and `results`: what they take, what they say, what they do not load."""

import copy
import re
import tomllib
from collections import OrderedDict
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import pwfl
from conftest import ROOT, SMALL, TINY, python
from pwfl import api, execution
from pwfl.scenario import ScenarioError, resolve
from pwfl.stages import STAGES

AGING = {"system": "age_aware", "realizations": 2, "training_realizations": 1, "schedule": {"horizon": 4},
         "training": {"draws": 2}, "audit": {"canaries": 20}}  # fmt: skip
RULES = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "Snakefile", *(ROOT / "rules").glob("*.smk")))
OF_WORKFLOW = "; ".join(re.findall(r"^ *((?:from|import) pwfl.*)", RULES, flags=re.MULTILINE))


def test_a_scenario_is_a_study_of_its_own():
    found = pwfl.simulate(AGING)
    assert isinstance(found.comparison["claims"], pl.DataFrame)
    assert list(found.scenarios) == ["scenario"]
    assert set(found.comparison) == {"claims", "effects", "front", "outcomes", "published", "summary", "systems"}
    one = found.scenarios["scenario"]
    assert set(one.stages["users"]["realization"]) == {0, 1}
    assert set(one.stages["history"]["realization"]) == {0}
    assert one.stages["outcome"].columns[0] == "scheme"


def test_what_is_found_is_shown_in_few_words_and_a_table_is_no_attribute():
    found = pwfl.simulate({"study": "mine", "scenarios": {"one": AGING}})
    one = found.scenarios["one"]
    assert repr(found).startswith("study mine; scenarios: ['one']\ncomparison: ")
    assert "report: summary, " in repr(one)
    assert copy.deepcopy(one).report["summary"].equals(one.report["summary"])
    with pytest.raises(
        AttributeError, match=r"no attribute 'report'; write .scenarios\[NAME\].report, NAME one of \['one'\]"
    ):
        _ = found.report
    with pytest.raises(KeyError, match="there is no such table; did you mean 'summary'"):
        _ = one.report["sumary"]
    with pytest.raises(AttributeError, match=r"no attribute 'summary'; write .report\['summary'\]"):
        _ = one.summary
    with pytest.raises(AttributeError, match=r"no attribute 'claims'; write .comparison\['claims'\]"):
        _ = found.claims


def test_the_version_is_that_of_the_checkout():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert pwfl.__version__ == project["version"]
    assert set(pwfl.__all__) <= set(dir(pwfl))


def test_what_scenarios_share_is_computed_once(monkeypatch):
    calls, original = [], execution.execute
    monkeypatch.setattr(execution, "execute", lambda task, found: (calls.append(task.stage), original(task, found))[1])
    found = pwfl.simulate({"base": AGING, "scenarios": {"one": {}, "two": {"privacy": {"target_epsilons": [0.4]}}}})
    assert calls.count("channel") == 1
    assert found.scenarios["one"].stages["links"].equals(found.scenarios["two"].stages["links"])
    assert set(found.scenarios["two"].stages["outcome"]["target_epsilon"]) >= {0.4}


def test_points_of_a_sweep_are_not_audited():
    found = pwfl.simulate({"base": AGING, "scenarios": {"one": {}, "two": {"sweep": {"seed": [2, 3]}}}})
    audited = [name for name, one in found.scenarios.items() if "audit" in one.report]
    assert audited == ["one"]
    assert set(found.comparison["outcomes"]["scenario"]) == {"one", "two,seed=2", "two,seed=3"}


def test_a_config_file_is_read_as_strictly_as_by_the_workflow(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text("base: {seed: 010}\nscenarios: {one: {}}\n")
    with pytest.raises(ScenarioError, match=r"base\.seed: '010' is wrong: must be a whole number"):
        pwfl.simulate(path)
    with pytest.raises(ScenarioError, match="rounds: unknown key"):
        pwfl.simulate({"rounds": 3})
    with pytest.raises(ScenarioError, match="cannot be read: No such file"):
        pwfl.simulate(tmp_path / "nowhere.yaml")


def test_what_python_and_numpy_have_in_place_of_yamls_values_is_taken_for_what_it_means(tmp_path):
    written = AGING | {"seed": 3, "sweep": {"privacy.target_epsilons": [[0.4]], "schedule.horizon": [4]}}
    given = OrderedDict(AGING, realizations=np.uint8(2), seed=np.int64(3))
    given["sweep"] = {"privacy.target_epsilons": np.array([[0.4]]), "schedule.horizon": range(4, 5)}
    expected, found = pwfl.simulate(written), pwfl.simulate(given)
    assert list(found.scenarios) == list(expected.scenarios)
    assert found.comparison["outcomes"].equals(expected.comparison["outcomes"])
    plain = {"realizations": 2, "data": {"file": "a.npz"}, "schemes": [{"name": "a"}], "own": {"x": 0.5, "y": None}}
    numbers = {"x": np.float32(0.5), "y": None}
    like = {"realizations": np.bool_(True) + 1, "data": {"file": Path("a.npz")}, "schemes": ({"name": np.str_("a")},)}
    assert api._plain(like | {"own": numbers}) == plain
    for wrong in ({1, 2}, 3j, np.float64("nan")):
        with pytest.raises(ScenarioError, match=r"seed: .* is wrong: must be a whole number"):
            pwfl.simulate(AGING | {"seed": wrong})


def test_a_folder_without_results_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no finished study here"):
        pwfl.results(tmp_path)


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import pwfl", ["polars", "altair", "tensorflow", "cvxpy"]),
        (
            "import pwfl.scenario, pwfl.store.addressing, pwfl.report.catalog",
            ["altair", "tensorflow", "cvxpy", "polars"],
        ),
        (OF_WORKFLOW, ["altair", "tensorflow", "cvxpy", "polars"]),
        (f"import pwfl; pwfl.simulate({AGING!r})", ["tensorflow", "cvxpy", "cvxopt"]),
    ],
    ids=["pwfl", "planning", "workflow", "simulate"],
)
def test_what_is_not_needed_is_not_loaded(code, absent):
    result = python(
        "-c", f"{code}; import sys; print([name for name in {absent!r} if name in sys.modules])", check=True
    )
    assert result.stdout.strip() == "[]"


PLANNED = """
import sys
from pwfl import registry
from pwfl.scenario import load
from pwfl.workflow import plan

for system in registry.systems():
    plan.plan(load({"base": {"system": system}, "scenarios": {"one": {}}}, "study.yaml"))
print([name for name in ("tensorflow", "altair", "cvxpy", "dp_accounting") if name in sys.modules])
"""


def test_planning_any_study_loads_nothing_that_computes_trains_or_draws():
    assert python("-c", PLANNED, check=True).stdout.strip() == "[]"


UNCHANGED = """
import os, signal, sys, threading, warnings

def seen():
    handlers = [str(signal.getsignal(number)) for number in signal.valid_signals()]
    hooks = [str(hook) for hook in (sys.excepthook, sys.unraisablehook, threading.excepthook)]
    count = len(os.listdir("/proc/self/task"))
    return [dict(os.environ), list(sys.path), list(warnings.filters), handlers, hooks, os.getcwd(), count]

before = seen()
import pwfl
assert seen() == before, seen()
"""


def test_importing_the_package_changes_nothing_in_its_process():
    python("-c", UNCHANGED, check=True)


FORKS = """
import concurrent.futures, multiprocessing, os, sys
import pwfl
from pwfl import results, simulate

def one(seed):
    return pwfl.simulate(dict(AGING, seed=seed)).scenarios["scenario"].report["summary"].height

def read(folder):
    return pwfl.results(folder).comparison["claims"].height

def in_child(function, argument):
    # What a function returns, or raises, in a forked process.
    with multiprocessing.get_context("fork").Pool(1) as pool:
        try:
            return pool.apply_async(function, [argument]).get(60)
        except Exception as error:
            return f"{type(error).__module__}.{type(error).__name__}: {error}"

"""
FORKED = "pwfl.process.forks.ForkError: process N: was forked from one that had used pwfl or Polars, whose threads it lacks, "
FORKED += 'so it would never end; start processes with multiprocessing.get_context("spawn"), or use pwfl and Polars in '
FORKED += "the child processes only"


@pytest.mark.parametrize(
    ("first", "then", "expected"),
    [
        ("pass", "one, 2", True),
        ("pass", "read, sys.argv[1]", True),
        ("one(1)", "one, 2", False),
        ("read(sys.argv[1])", "one, 2", False),
        (
            "import polars; polars.DataFrame({'a': [1, 2]}).lazy().filter(polars.col('a') > 1).collect()",
            "one, 2",
            False,
        ),
        ("pwfl.results(sys.argv[1])", "read, sys.argv[1]", True),
    ],
)
def test_a_process_forked_from_one_that_computed_says_so_and_any_other_computes(first, then, expected, finished):
    code = f"{FORKS}\n{first}\nprint(in_child({then}))".replace("AGING", repr(AGING))
    said = python("-c", code, finished / "results" / "small", check=True, timeout=150).stdout.strip()
    assert said.isdigit() if expected else re.sub(r"process \d+", "process N", said) == FORKED


def test_so_do_executors_and_forks_by_hand_of_any_depth(finished):
    code = f"""{FORKS}
read(sys.argv[1])
with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as executor:
    print(type(executor.submit(read, sys.argv[1]).exception(60)).__name__)
if not (child := os.fork()):
    if not (grandchild := os.fork()):
        try:
            read(sys.argv[1])
        except RuntimeError:
            os._exit(5)
    os._exit(os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), read(sys.argv[1]))
"""
    said = python("-c", code, finished / "results" / "small", check=True, timeout=150).stdout.split()
    assert said[:2] == ["ForkError", "5"]
    assert said[2].isdigit()  # the parent goes on


@pytest.mark.slow
def test_training_says_nothing_and_needs_no_reference_solver():
    config = {**TINY["base"], "realizations": 1, "training_realizations": 1}
    program = (
        "import sys\nfor name in ('cvxpy', 'cvxopt'): sys.modules[name] = None\n"
        f"import pwfl; pwfl.simulate({config!r}); assert 'tensorflow' in sys.modules"
    )
    result = python("-c", program)
    assert result.returncode == 0, result.stderr
    assert result.stdout + result.stderr == ""


@pytest.mark.parametrize(
    ("left_out", "expected"),
    [
        ("receive", "stages: 'receive' is missing, whose tables 'reception', 'reception_noise' are read by 'train'; add 'receive'"),
        ("channel", "stages: 'channel' is missing, whose tables 'users', 'links' are read by 'schedule'"),
        ("noise", "stages: 'noise' is missing, whose tables 'noise' are read by 'receive'"),
    ],
)  # fmt: skip
def test_a_stage_that_others_need_is_asked_for(left_out, expected):
    model = resolve(TINY["base"], {})
    with pytest.raises(ScenarioError, match=re.escape(expected)):
        api.stage_tables(model, [stage for stage in STAGES if stage != left_out])


def test_a_stage_that_there_is_not_is_named():
    model = resolve(SMALL["base"], {})
    with pytest.raises(ScenarioError, match="stages: there is no stage 'recieve'; did you mean 'receive'"):
        api.stage_tables(model, ["channel", "recieve"])
    assert set(api.stage_tables(model, ["channel", "receive"])) == {"users", "links"}  # of its system, which has no air


ACCOUNTED = {"users", "links", "schedule", "schedule_status", "noise", "noise_status", "leakage", "outcome"}
ACCOUNTED |= {"guarantees", "observers"}


@pytest.mark.parametrize(
    ("until", "stages", "report"),
    [("channel", {"users", "links"}, set()), ("account", ACCOUNTED, set()), ("audit", ACCOUNTED, {"audit"})],
)
def test_up_to_a_stage_nothing_else_is_computed(monkeypatch, until, stages, report):
    computed = []
    right, audited = api.in_memory, api.execution.audit_schemes
    monkeypatch.setattr(api, "in_memory", lambda *given: computed.append(given[1]["stage"]) or right(*given))
    monkeypatch.setattr(api.execution, "audit_schemes", lambda *given: computed.append("audit") or audited(*given))
    whole = pwfl.simulate(AGING)
    assert {"train", "audit"} <= set(computed)
    computed.clear()
    found = pwfl.simulate(AGING, until=until)
    one, all_ = found.scenarios["scenario"], whole.scenarios["scenario"]
    assert "train" not in computed
    assert ("audit" in computed) == (until == "audit")
    assert set(one.report) == report
    assert found.comparison == {}
    assert stages >= set(one.stages) >= {"users"}
    assert all(one.stages[table].equals(all_.stages[table]) for table in one.stages)
    assert all(one.report[table].equals(all_.report[table]) for table in one.report)


def test_up_to_no_stage_is_refused():
    with pytest.raises(ScenarioError, match="until: there is no stage 'acount'; did you mean 'account'"):
        pwfl.simulate(AGING, until="acount")
