"""Functions of users' own in place of schedulers, noise and models, and the page that says how."""

import inspect
import os
import re
import sys
from functools import partial
from types import ModuleType

import numpy as np
import polars as pl
import pytest
import yaml

import pwfl
import stage_of
from conftest import ROOT
from pipeline import digits, part, stages
from pwfl.learning import features
from pwfl.process import user_code
from pwfl.scenario import ScenarioError, check_surroundings, checks, load, resolve
from pwfl.store import addressing, code
from pwfl.systems.multicell import train as multicell
from pwfl.systems.multicell.assigned import assigned
from pwfl.training.models import network, start_weights
from pwfl.workflow.in_memory import in_memory
from pwfl.workflow.plan import plan, routes

WHOLE_PAGE = (ROOT / "docs/how-to/own_functions.md").read_text(encoding="utf-8")
PAGE = re.sub(
    r"^## In other systems\n.*?(?=^## )", "", WHOLE_PAGE, flags=re.DOTALL | re.MULTILINE
)  # test_own_schemes.py
SYSTEMS = (ROOT / "docs/how-to/own_system.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, flags=re.DOTALL)
NOISE, NETWORK, READER = (text for kind, text in BLOCKS if kind == "python")
FAIR, WITH_GAIN = (text for kind, text in BLOCKS if kind == "py")
AGE = """
import numpy as np


def schedule(scenario, uplink, users, start, now):
    intervals = np.arange(now.interval)[:, None, None]
    last = np.where(now.block >= 0, intervals, -1).max(axis=0, initial=-1)
    chance = np.array([generator.random(start.shape[1]) for generator in now.generators])
    age = now.interval - last + chance
    block, row = np.full(start.shape, -1), np.arange(len(start))[:, None]
    for each in range(uplink.cells):
        mine = uplink.cell == each
        first = np.argsort(np.where(mine, -age, 1), axis=1)[:, : uplink.blocks]
        block[row, first] = np.where(mine[row, first], np.arange(first.shape[1]), block[row, first])
    return block
"""
JOULES = """
import numpy as np


def schedule(scenario, uplink, users, start, now):
    own, sends = scenario.own.schedule, now.block >= 0
    seconds = own.bits * own.rounds / np.where(sends, now.rate_bps, 1.0)  # on air in an interval
    spent = np.where(sends, seconds * now.power_w, 0.0).sum(axis=0)
    gain = np.take_along_axis(uplink.gain, uplink.cell[:, None], axis=1)[:, 0]
    block, row = np.full(start.shape, -1), np.arange(len(start))[:, None]
    for each in range(uplink.cells):
        mine = (uplink.cell == each) & (spent < own.joules)
        first = np.argsort(np.where(mine, -gain, 1), axis=1)[:, : uplink.blocks]
        block[row, first] = np.where(mine[row, first], np.arange(first.shape[1]), block[row, first])
    return block
"""
OWN, DECLARED = (yaml.safe_load(text) for kind, text in BLOCKS if kind == "yml")
TUTORIAL = (ROOT / "docs/tutorials/2_compare_schedulers.md").read_text(encoding="utf-8")
(SCHEDULER,) = re.findall(r"```python\n(.*?)```", TUTORIAL, flags=re.DOTALL)
BASE = yaml.safe_load("""
  realizations: 4
  training_realizations: 4
  network: {users: 20}
  radio: {resource_blocks: 2}
  data: {dataset: digits, samples_offset: 10, samples_log_mean: 2.5}
  privacy: {min_noise: 3.5, max_noise_error: 0.4}
  schedule: {gamma: 300.0}
  training: {hidden_layers: [], rounds: 20, clip_norm: 1.0, learning_rate: 1.0}
  schemes:
    - {name: OptSched+DP, scheduler: optimal, noise: optimal}
    - {name: Greedy, scheduler: "greedy.py:schedule", noise: optimal}
    - {name: No noise, scheduler: "greedy.py:schedule", noise: none}
""")
STUDY = {"study": "own", "base": BASE, "scenarios": {"two_blocks": {}}}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The page's files, in the folder that is worked in."""
    (tmp_path / "greedy.py").write_text("\n\n".join([SCHEDULER, NOISE, READER]))
    (tmp_path / "network.py").write_text(NETWORK)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def with_scheme(scheduler="random", noise="optimal", **changes):
    return resolve(BASE | {"schemes": [{"name": "a", "scheduler": scheduler, "noise": noise}]}, changes)


def scheduled(model):
    found = stage_of.channel(part(model, "channel"), range(4))
    (scheme,) = model.schemes
    return found | stage_of.schedule(part(model, "schedule", scheme.scheduler), scheme.scheduler, found)


def test_a_user_defined_scheduler_is_certified_accounted_for_and_audited(folder):
    made = pwfl.simulate(STUDY).scenarios["two_blocks"]
    each = made.report["realizations"]
    assert each.filter(scheme="Greedy")["objective_gap"].min() >= 0
    assert each.filter(pl.col("scheme") != "No noise")["epsilon"].is_finite().all()
    assert each.filter(scheme="No noise")["epsilon"].is_infinite().all()
    assert set(made.report["audit"].filter(scheme="Greedy")["status"]) == {"passed"}


def test_a_cell_schedules_those_with_the_most_samples(folder):
    found = scheduled(with_scheme("greedy.py:schedule"))
    users = found["users"].join(found["schedule"], on=["realization", "user"])
    for _, cell in users.group_by("realization", "cell"):
        most = cell.sort("samples", descending=True)["samples"][:2].to_list()
        assert cell.drop_nulls("assigned_block")["samples"].sort(descending=True).to_list() == most


def test_the_start_values_as_a_function_are_the_scheduler_random(folder):
    (folder / "start.py").write_text("def schedule(scenario, uplink, users, start):\n    return start\n")
    mine, built_in = scheduled(with_scheme("start.py:schedule")), scheduled(with_scheme("random"))
    assert mine["schedule"].equals(built_in["schedule"])
    assert set(mine["schedule_status"]["status"]) == {"own"}


def test_a_scheduler_finds_the_start_powers_and_noise_in_the_table_of_users(folder):
    (folder / "start.py").write_text(
        "import numpy as np\n\n\ndef schedule(scenario, uplink, users, start):\n"
        "    weak = (users['start_power_w'] < 0.005) & (users['start_noise_std'] * users['samples'] < 12)\n"
        "    return np.where(weak.to_numpy().reshape(start.shape), start, -1)\n"
    )
    found = scheduled(with_scheme("start.py:schedule"))
    start = found["start_values"].join(found["users"], on=["realization", "user"], maintain_order="left")
    weak = (start["power_w"] < 0.005) & (start["noise_std"] * start["samples"] < 12)
    expected = start["resource_block"].set(~weak, None)
    assert found["schedule"]["assigned_block"].equals(expected)
    assert 0 < expected.count() < start["resource_block"].count()


def test_noise_is_what_the_function_says(folder):
    model = with_scheme("random", "greedy.py:constant")
    found = scheduled(model)
    made = stage_of.noise(part(model, "noise", "greedy.py:constant"), "greedy.py:constant", found)
    sends = found["schedule"]["resource_block"].is_not_null()
    assert set(made["noise"].filter(sends)["noise_std"]) == {0.5}
    assert set(made["noise"].filter(~sends)["noise_std"]) == {0.0}


def by_interval(frame, column):
    return frame.sort("realization", "interval", "user")[column].to_numpy().reshape(-1, INTERVALS, 20)


INTERVALS = 4
REDRAWN = {"radio": {"coherence_rounds": 5}}  # of 20


def test_proportional_fairness_follows_from_the_rates_before(folder):
    (folder / "fair.py").write_text(FAIR)
    model = with_scheme("fair.py:schedule", **REDRAWN, own=OWN["base"]["own"])
    found = scheduled(model)
    cell = found["users"].sort("realization", "user")["cell"].to_numpy().reshape(-1, 20)
    links = found["links"].sort("realization", "interval", "station", "user")
    gain = links["gain"].to_numpy().reshape(len(cell), INTERVALS, -1, 20)
    assigned, sent = (by_interval(found["schedule"], name) for name in ("assigned_block", "rate_bps"))
    power = 10 ** (model.radio.max_power_dbm / 10 - 3)
    noise = 10 ** (model.radio.noise_density_dbm_hz / 10 - 3) * model.radio.bandwidth_hz
    for b in range(len(cell)):
        average = [1.0] * 20
        for t in range(INTERVALS):
            worth = [np.log2(1 + gain[b, t, cell[b, i], i] * power / noise) / average[i] for i in range(20)]
            for s in set(cell[b]):
                mine = sorted((i for i in range(20) if cell[b, i] == s), key=lambda i: -worth[i])[:2]
                assert {i for i in range(20) if cell[b, i] == s and assigned[b, t, i] >= 0} == set(mine)
            average = [0.9 * average[i] + 0.1 * sent[b, t, i] / 1e6 for i in range(20)]
    chosen = assigned >= 0
    assert (chosen[:, 0] != chosen[:, 1]).any()


def test_round_robin_serves_whoever_has_waited_longest(folder):
    (folder / "age.py").write_text(AGE)
    found = scheduled(with_scheme("age.py:schedule", **REDRAWN))
    cell = found["users"].sort("realization", "user")["cell"].to_numpy().reshape(-1, 20)
    assigned, sent = (by_interval(found["schedule"], name) for name in ("assigned_block", "resource_block"))
    for b in range(len(cell)):
        last = [-1] * 20
        for t in range(INTERVALS):
            for s in set(cell[b]):
                mine = [i for i in range(20) if cell[b, i] == s]
                chosen = [i for i in mine if assigned[b, t, i] >= 0]
                assert len(chosen) == min(2, len(mine))
                others = [last[i] for i in mine if i not in chosen]
                assert not others or max(last[i] for i in chosen) <= min(others)
            last = [t if sent[b, t, i] >= 0 else last[i] for i in range(20)]


def test_nobody_sends_once_its_joules_are_spent(folder):
    (folder / "joules.py").write_text(JOULES)
    own = {"joules": 1e-5, "bits": 20800, "rounds": 5}
    found = scheduled(with_scheme("joules.py:schedule", **REDRAWN, own={"schedule": own}))
    sent, power, rate, assigned = (
        by_interval(found["schedule"], name) for name in ("resource_block", "power_w", "rate_bps", "assigned_block")
    )
    used = np.where(sent >= 0, power * 20800 * 5 / np.where(rate > 0, rate, 1), 0.0).cumsum(axis=1)
    over = used[:, :-1] >= own["joules"]
    assert over.any()
    assert not (assigned[:, 1:][over] >= 0).any()
    assert (assigned[:, 1:][~over] >= 0).any()


def test_schedulers_with_memory_are_certified_and_audited_as_others(folder):
    for name, text in {"fair": FAIR, "age": AGE, "joules": JOULES}.items():
        (folder / f"{name}.py").write_text(text)
    schemes = [{"name": n, "scheduler": f"{n}.py:schedule", "noise": "optimal"} for n in ("fair", "age", "joules")]
    own = {"beta": 0.1, "joules": 1.0, "bits": 20800, "rounds": 5}
    base = BASE | {"schemes": schemes, "realizations": 2, "training_realizations": 1} | REDRAWN
    made = pwfl.simulate({"study": "a", "base": base | {"own": {"schedule": own}}, "scenarios": {"one": {}}})
    report = made.scenarios["one"].report
    assert (report["realizations"]["objective_gap"].drop_nulls() >= 0).all()
    assert set(report["audit"]["status"]) == {"passed"}


def test_a_functions_own_parameters_are_swept_and_make_other_results(folder):
    (folder / "fair.py").write_text(FAIR)
    written = {"study": "a", "base": BASE | {"schemes": OWN["base"]["schemes"]} | REDRAWN, "scenarios": {"one": {}}}
    base = written["base"]
    base["own"], base["sweep"] = OWN["base"]["own"], OWN["base"]["sweep"]
    base["privacy"] = base.get("privacy", {}) | {"target_epsilon": 8.0}
    study = load(written, "a.yaml")
    assert list(study.scenarios) == [f"one,beta={value}" for value in ("0.05", "0.1", "0.5")]
    found = plan(study)
    addresses = [found.routes[name]["Fair"] for name in study.scenarios]
    assert len({route["schedule"]["address"] for route in addresses}) == 3
    assert len({route["channel"]["address"] for route in addresses}) == 1


OF_OWN = {  # what stands in `own` or the sweep -> what is said
    "name": ({"own": {"schedule": {"a b": 1}}}, "own.schedule"),
    "value": ({"own": {"schedule": {"beta": [1, 2]}}}, "own.schedule.beta"),
    "section": ({"own": {"training": {"beta": 1}}}, "own.training"),
    "sweep of no list": ({"sweep": {"own.schedule.beta": 1}}, "own.schedule.beta: must be a name and a list"),
}


@pytest.mark.parametrize("case", OF_OWN)
def test_what_no_parameter_can_be_is_refused(case, folder):
    (folder / "fair.py").write_text(FAIR)
    changes, said = OF_OWN[case]
    base = BASE | {"schemes": [{"name": "a", "scheduler": "fair.py:schedule", "noise": "optimal"}]} | changes
    with pytest.raises(ScenarioError, match=re.escape(said)):
        load({"study": "a", "base": base, "scenarios": {"one": {}}}, "a.yaml")


def test_a_parameter_that_is_missing_is_named(folder):
    (folder / "fair.py").write_text(FAIR)
    with pytest.raises(user_code.UserCodeError, match=r"fails: .*own\.schedule\.beta"):
        scheduled(with_scheme("fair.py:schedule", **REDRAWN, own={"schedule": {"gamma": 1}}))


def test_noise_may_follow_gains_and_parameters_of_its_own(folder):
    (folder / "gain.py").write_text(WITH_GAIN)
    name = "gain.py:with_gain"
    model = with_scheme("random", name, own={"noise": {"more": 2.0}})
    found = scheduled(model)
    made = stage_of.noise(part(model, "noise", name), name, found)["noise"]
    own = found["links"].join(found["users"], on=("realization", "user")).filter(pl.col("station") == pl.col("cell"))
    frame = made.join(own, on=("realization", "interval", "user")).join(
        found["start_values"].select("realization", "user", start="noise_std"), on=("realization", "user")
    )
    expected = pl.col("start") * (1 + 2 * pl.col("gain") / pl.col("gain").max().over("realization"))
    frame = frame.with_columns(expected=expected).filter(pl.col("noise_std") > 0)
    assert len(frame) > 10
    np.testing.assert_allclose(frame["noise_std"], frame["expected"], rtol=1e-12)


DRAWN = """
import numpy as np


def schedule(scenario, uplink, users, start, now):
    assert now.interval == len(now.block) == len(now.power_w) == len(now.rate_bps) == len(now.assigned_block)
    assert now.kept == (None if now.interval == 0 else now.interval - 1)
    sends = np.array([each.random(start.shape[1]) < 0.5 for each in now.generators])
    return np.where(sends, start, -1), now.interval
"""


def test_random_numbers_of_a_realization_are_the_same_in_every_chunk(folder):
    (folder / "drawn.py").write_text(DRAWN)
    name = "drawn.py:schedule"
    model = with_scheme(name, **REDRAWN)
    made = []
    for realizations in (range(4), range(2), range(2, 4)):
        found = stage_of.channel(part(model, "channel"), realizations)
        made.append(stage_of.schedule(part(model, "schedule", name), name, found)["schedule"])
    assert made[0].equals(pl.concat(made[1:]))
    chosen = by_interval(made[0], "assigned_block") >= 0
    assert (chosen[0] != chosen[1]).any()


def test_what_a_scheduler_keeps_has_a_row_for_each_realization(folder):
    """Else results would depend on how many realizations are worked on together."""
    model = with_scheme("keeps.py:schedule", **REDRAWN)
    for kept, right in (("start[0]", False), ("(start, start[0])", False), ("{'a': start, 'b': 1.5}", True)):
        (folder / "keeps.py").write_text(
            f"def schedule(scenario, uplink, users, start, now):\n    return start, {kept}\n", encoding="utf-8"
        )
        if right:
            scheduled(model)
            continue
        with pytest.raises(
            user_code.UserCodeError, match=r"keeps an array of shape \(20,\); .* must have one row for each of 4"
        ):
            scheduled(model)


def test_parameters_of_functions_of_ones_own_are_read(folder):
    """So no warning says that they have no effect; where no scheme has such a function, one does."""
    own = {"own": {"schedule": {"share": 0.3}}}
    for scheduler, warned in (("greedy.py:schedule", False), ("optimal", True)):
        schemes = [{"name": "a", "scheduler": scheduler, "noise": "optimal"}]
        config = {"base": BASE | own | {"schemes": schemes}, "scenarios": {"one": {}}}
        said = [line for line in load(config, "a test").warnings if "own.schedule" in line]
        assert bool(said) is warned, said


RETURNED = {  # what a scheduler returns -> what is said
    "start.astype(float)": "returns float64 of shape (4, 20); must return each user's resource block",
    "start[:, 1:]": "of shape (4, 19)",
    "0 * start + 2": "the resource block 2; must be 0 to 1",
    "0 * start - 2": "the resource block -2",
    "(0 * start - 2, None)": "the resource block -2",
    "(start, start, start)": "of shape (3, 4, 20)",
    "0 * start": "a cell's block serves one user",
    "scenario.training.rounds": "fails: UndeclaredError",
    "1 / 0": r"fails: ZeroDivisionError: division by zero \(.*bad.py, line 2\)",
}


@pytest.mark.parametrize("returned", RETURNED)
def test_what_is_no_schedule_is_refused(folder, returned):
    (folder / "bad.py").write_text(f"def schedule(scenario, uplink, users, start):\n    return {returned}\n")
    text = RETURNED[returned] if "\\" in RETURNED[returned] else re.escape(RETURNED[returned])
    with pytest.raises(user_code.UserCodeError, match=f"bad.py:schedule.*{text}"):
        scheduled(with_scheme("bad.py:schedule"))


def test_what_is_no_noise_is_refused(folder):
    (folder / "bad.py").write_text("def noise(scenario, samples, scheduled, start):\n    return -start\n")
    model = with_scheme("random", "bad.py:noise")
    with pytest.raises(
        user_code.UserCodeError, match=r"bad.py:noise: must return each scheduled user's standard deviation"
    ):
        stage_of.noise(part(model, "noise", "bad.py:noise"), "bad.py:noise", scheduled(model))


NAMED = {  # what a config says -> what is wrong with it
    "gredy.py:schedule": "gredy.py: file not found",
    "greedy.py:shedule": "greedy.py: defines no function shedule; did you mean schedule?",
    "empty.py:schedule": "empty.py: defines no function schedule; it defines none",
    "broken.py:schedule": "broken.py: is not valid Python: ",
    "bytes.py:schedule": "bytes.py: is not UTF-8 text (it is UTF-16); save it as UTF-8",
    "folder.py:schedule": "folder.py: file not found",
    "nowhere.at_all:schedule": "there is no module nowhere.at_all; write a function in a file as FILE.py:schedule",
}


@pytest.mark.parametrize("named", NAMED)
def test_a_function_that_is_not_there_is_said_before_work_starts(folder, named):
    (folder / "empty.py").write_text("")
    (folder / "broken.py").write_text("def schedule(:\n")
    (folder / "bytes.py").write_bytes(b"\xff\xfe\x00")
    (folder / "folder.py").mkdir()
    with pytest.raises(ScenarioError, match=re.escape(f"'Mine': scheduler: {NAMED[named]}")):
        check_scheduler(named)


def check_scheduler(named):
    """What is looked at before work starts, of a study with this scheduler."""
    schemes = [{"name": "Mine", "scheduler": named, "noise": "optimal"}]
    check_surroundings(load(STUDY | {"base": BASE | {"schemes": schemes}}, "study.yaml"))


CALLED = {  # what a name stands for at the end of a file, besides a function
    "a partial function": "from functools import partial\n\n\ndef full(k, *given):\n    return schedule(*given)\n\n\ns = partial(full, 1)\n",
    "a lambda": "s = lambda *given: schedule(*given)\n",
    "an object": "class S:\n    def __call__(self, *given):\n        return schedule(*given)\n\n\ns = S()\n",
    "an import": "from helper import s\n",
    "any import": "from helper import *\n",
    "one of two": "if True:\n    s = schedule\n",
}


@pytest.mark.parametrize("kind", CALLED)
def test_whatever_can_be_called_is_a_function(folder, kind):
    (folder / "mine.py").write_text((folder / "greedy.py").read_text() + "\n\n" + CALLED[kind])
    (folder / "helper.py").write_text("from greedy import schedule as s\n")
    model = with_scheme("mine.py:s")
    check_scheduler("mine.py:s")
    assert scheduled(model)["schedule"].equals(scheduled(with_scheme("greedy.py:schedule"))["schedule"])


@pytest.mark.parametrize(
    "head", [b"\xef\xbb\xbf", b"# -*- coding: latin-1 -*-\n# \xe9\n"], ids=["byte-order mark", "cookie"]
)
def test_a_file_may_have_any_encoding_that_python_reads(folder, head):
    (folder / "mine.py").write_bytes(head + (folder / "greedy.py").read_bytes())
    check_scheduler("mine.py:schedule")
    found = scheduled(with_scheme("mine.py:schedule"))["schedule"]
    assert found.equals(scheduled(with_scheme("greedy.py:schedule"))["schedule"])


def test_what_cannot_be_called_is_refused(folder):
    (folder / "mine.py").write_text("s = 3\n")
    with pytest.raises(user_code.UserCodeError, match=r"mine.py:s: is of type int; must be a function"):
        scheduled(with_scheme("mine.py:s"))


def test_another_word_that_is_no_scheduler_is_refused():
    with pytest.raises(ScenarioError, match=r"schemes\[[^]]+\]\.scheduler: 'greedy' is wrong: must be 'random'"):
        with_scheme("greedy")


def addresses(model):
    return {key: description["address"] for key, description in stage_of.addresses(model).items()}


def test_code_decides_about_addresses_and_comments_do_not(folder):
    model = with_scheme("greedy.py:schedule")
    before, path = addresses(model), folder / "greedy.py"
    path.write_text("# A comment.\n" + path.read_text())
    assert addresses(model) == before
    path.write_text(
        path.read_text().replace("block = np.full(samples.shape, -1)", "block = np.full(samples.shape, -1.0)")
    )
    after = addresses(model)
    assert {stage for stage, *_ in before if before[stage, *_] != after[stage, *_]} == {
        "schedule", "noise", "receive", "train", "account"
    }  # fmt: skip


def test_a_job_refuses_a_function_that_changed_since_it_was_planned(folder):
    descriptions = plan(load(STUDY, "study.yaml")).descriptions.values()
    description = next(each for each in descriptions if each["variant"] == "greedy.py:schedule")
    assert "greedy.py" in code.digest_files(description)
    addressing.check_code(description)
    (folder / "greedy.py").write_text("def schedule(*given):\n    return 1\n")
    with pytest.raises(addressing.StoreError, match="the code of schedule changed after this job was planned"):
        addressing.check_code(description)


def test_a_function_of_an_installed_package_is_found_and_its_code_counts(folder, monkeypatch):
    package = folder / "site/my_schedulers"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "start.py").write_text("def schedule(scenario, uplink, users, start):\n    return start\n")
    monkeypatch.syspath_prepend(str(folder / "site"))
    model = with_scheme("my_schedulers.start:schedule")
    assert scheduled(model)["schedule"].equals(scheduled(with_scheme("random"))["schedule"])
    description = stage_of.addresses(model)["schedule", "my_schedulers.start:schedule", None]
    assert {"my_schedulers/__init__.py", "my_schedulers/start.py"} <= code.digest_files(description).keys()


def test_collection_times_of_ones_own(folder):
    (folder / "times.py").write_text(
        "import numpy as np\n\ndef fresh(scenario, profiles, required):\n"
        "    return np.full(required.shape[:3], required.shape[3] - 1)\n\n"
        "def late(scenario, profiles, required):\n    return np.full(required.shape[:3], 99)\n"
    )
    base = {"system": "age_aware", "schedule": {"horizon": 4, "times": [4, 4, 4]}}
    made = {}
    for scheduler in ("times.py:fresh", "fixed"):
        model = resolve(base | {"schemes": [{"name": "a", "scheduler": scheduler, "noise": "adaptive"}]}, {})
        found = stage_of.channel(part(model, "channel"), range(2))
        made[scheduler] = stage_of.schedule(part(model, "schedule", scheduler), scheduler, found)["schedule"]
    assert made["times.py:fresh"].equals(made["fixed"])
    with pytest.raises(
        user_code.UserCodeError,
        match=r"times.py:late: returns the time 99; must return collection times, integers from 0 to 4",
    ):
        stage_of.schedule(part(model, "schedule", "times.py:late"), "times.py:late", found)


ZEROS = """import keras

def network(features, classes):
    layer = keras.layers.Dense(classes, kernel_initializer="zeros")
    return keras.Sequential([keras.layers.Input([features]), layer])
"""


def history(model):
    (scheme,) = model.schemes
    found = scheduled(model)
    found |= stage_of.noise(part(model, "noise", scheme.noise), scheme.noise, found)
    found |= stage_of.receive(part(model, "receive"), found)
    return stage_of.train(part(model, "train"), stage_of.data_of(model), range(1), found)["history"]


def test_softmax_regression_as_a_model_of_ones_own_trains_as_the_built_in_one(folder):
    (folder / "zeros.py").write_text(ZEROS)
    training = BASE["training"] | {"rounds": 10}
    mine = history(with_scheme(training=training | {"model": "zeros.py:network"}))
    built_in = history(with_scheme(training=training | {"recipe": "zero_start"}))
    assert mine["round"].equals(built_in["round"])
    np.testing.assert_allclose(mine["loss"], built_in["loss"], rtol=1e-5)
    np.testing.assert_allclose(mine["clipped_share"][1:], built_in["clipped_share"][1:], atol=1e-3)


MODELS = {  # a Keras model -> what is wrong with it
    "keras.Sequential([keras.layers.Input([features]), keras.layers.BatchNormalization(), keras.layers.Dense(classes)])":
        "has state that training changes, in batch_normalization",
    "keras.Sequential([keras.layers.Input([features]), keras.layers.Dropout(0.5), keras.layers.Dense(classes)])":
        "draws random numbers in training, in dropout",
    "keras.Sequential([keras.layers.Input([3]), keras.layers.Dense(classes)])": "does not accept features of shape .*; let it begin with Input.*"
        "expected axis -1 of input shape to have value 3, but received input with shape .3, 64.$",
    "keras.Sequential([keras.layers.Input([features]), keras.layers.Dense(3)])": r"gives the shape \(3, 3\) for 3 samples, must give one tensor of shape \(3, 10\)",
    "keras.Sequential([keras.layers.Input([features]), keras.layers.Dense(classes, activation='softmax')])":
        "returns probabilities; must return logits: leave out the softmax",
    "7": "returns int; must return a Keras model",
}  # fmt: skip


@pytest.mark.parametrize("model", MODELS)
def test_a_model_whose_gradients_cannot_be_clipped_is_refused_before_work_starts(folder, model):
    (folder / "bad.py").write_text(f"import keras\n\n\ndef network(features, classes):\n    return {model}\n")
    study = load(STUDY | {"base": BASE | {"training": BASE["training"] | {"model": "bad.py:network"}}}, "study.yaml")
    with pytest.raises(ScenarioError, match=f"^study.yaml: .*training.model: bad.py:network: .*{MODELS[model]}"):
        check_surroundings(study)


def test_the_parts_of_a_training_on_the_page_about_systems_train():
    (block,) = re.findall(
        r"^```python\n(import numpy as np\n.*?trainers\(parts\)\n)```$", SYSTEMS, re.DOTALL | re.MULTILINE
    )
    names, model = (
        {},
        with_scheme(training={"clipping": "per_user", "rounds": 4, "evaluate_every": 2, "hidden_layers": [4]}),
    )
    exec(block, names)
    ((_, found), *_) = stages(model)
    history = names["trainer"](part(model, "train"), digits(), found)(0)
    assert history["round"].to_list() == [0, 1, 2, 4]
    assert set(history["status"]) == {"trained"}
    own = multicell.trainer(part(model, "train"), digits(), found)(0)
    assert history["loss"][:2].equals(own["loss"][:2])
    assert history["loss"][3] != own["loss"][3]  # of smaller steps, and an average


def test_start_weights_are_drawn_anew_for_each_realization(folder):
    model = with_scheme(training=BASE["training"] | {"model": "network.py:network", "rounds": 2})
    own = network(part(model, "train").training, features.size(model))
    drawn = [start_weights(own, partial(np.random.default_rng, seed)) for seed in (1, 1, 2)]
    assert all(np.array_equal(a, b) for a, b in zip(drawn[0], drawn[1], strict=True))
    assert any(not np.array_equal(a, b) for a, b in zip(drawn[0], drawn[2], strict=True))


# What functions do to what they are given, and how they end.


def arrays_in(value, seen=None):
    """All arrays that are reachable from a value, by attributes, items and fields."""
    seen = set() if seen is None else seen
    if id(value) in seen or isinstance(value, str | bytes | int | float | bool | type(None)):
        return
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, pl.DataFrame):
        for column in value.iter_columns():
            yield column.to_numpy()
    elif isinstance(value, dict):
        for each in value.values():
            yield from arrays_in(each, seen)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from arrays_in(each, seen)
    elif hasattr(value, "__dict__"):
        yield from arrays_in(vars(value), seen)


GIVEN = {  # system -> function of the system, what it must return
    "multicell scheduler": "lambda scenario, uplink, users, start: start",
    "multicell noise": "lambda scenario, samples, scheduled, start: np.ones(scheduled.shape)",
    "age_aware scheduler": "lambda scenario, profiles, required: np.full(required.shape[:3], 4)",
}
WRITING = """
import numpy as np
import polars as pl

from arrays import arrays_in

FOUND = []


def function(*given):
    returned = RETURNED(*given).copy()
    for array in arrays_in(given):
        FOUND.append(array.shape)
        try:
            array[...] = 0
        except ValueError:
            pass
        array = array if array.flags.owndata else array.copy()
        array.flags.writeable = True
        array[...] = 0
    for value in given:
        if isinstance(value, pl.DataFrame):
            value.insert_column(0, pl.lit(0.0).alias("mine"))
    return returned
"""


@pytest.mark.parametrize("kind", GIVEN)
def test_a_function_that_writes_into_what_it_is_given_changes_nothing(folder, kind):
    for name, text in (
        ("arrays", f"import numpy as np\nimport polars as pl\n\n\n{inspect.getsource(arrays_in)}"),
        ("writes", WRITING),
        ("reads", "import numpy as np\n\n\ndef function(*given):\n    return RETURNED(*given)\n"),
    ):
        (folder / f"{name}.py").write_text(text + f"\n\nRETURNED = {GIVEN[kind]}\n")
    made = {}
    for name in ("reads.py:function", "writes.py:function"):
        if kind == "multicell scheduler":
            made[name] = scheduled(with_scheme(name))["schedule"]
        elif kind == "multicell noise":
            model = with_scheme("random", name)
            made[name] = stage_of.noise(part(model, "noise", name), name, scheduled(model))["noise"]
        else:
            base = {"system": "age_aware", "schedule": {"horizon": 4, "times": [4, 4, 4]}}
            model = resolve(base | {"schemes": [{"name": "a", "scheduler": name, "noise": "adaptive"}]}, {})
            found = stage_of.channel(part(model, "channel"), range(2))
            made[name] = stage_of.schedule(part(model, "schedule", name), name, found)["schedule"]
    assert made["reads.py:function"].equals(made["writes.py:function"])


def test_writing_in_place_is_an_error_where_it_happens(folder):
    (folder / "place.py").write_text(
        "def schedule(scenario, uplink, users, start):\n    gain = uplink.gain\n    gain /= uplink.noise_w\n    return start\n"
    )
    with pytest.raises(
        user_code.UserCodeError, match=r"place.py:schedule: fails: ValueError: .*read-only \(.*place.py, line 3\)"
    ):
        scheduled(with_scheme("place.py:schedule"))


NO_NUMBERS = {
    "np.ma.masked_array(start)": "returns a masked array, whose mask would be lost",
    "start.astype(complex)": "returns complex128 of shape .*; must return real numbers",
    "start.astype(str)": "returns <U.* must return real numbers",
    "start.astype(object)": "returns object of shape .*; must return real numbers",
    "start.astype(bool)": "returns bool of shape .*; must return real numbers",
    "[[1], [1, 2]]": "must return an array of numbers",
    "None": "returns object of shape .*; must return real numbers",
}


@pytest.mark.parametrize("returned", NO_NUMBERS)
@pytest.mark.parametrize("what", ["scheduler", "noise"])
def test_what_is_no_array_of_real_numbers_is_refused(folder, what, returned):
    names = "scenario, uplink, users, start" if what == "scheduler" else "scenario, samples, scheduled, start"
    (folder / "bad.py").write_text(f"import numpy as np\n\n\ndef function({names}):\n    return {returned}\n")
    model, found = with_scheme("random", "bad.py:function"), scheduled(with_scheme("random"))
    with pytest.raises(user_code.UserCodeError, match=f"^bad.py:function: {NO_NUMBERS[returned]}"):  # noqa: PT012
        if what == "scheduler":
            scheduled(with_scheme("bad.py:function"))
        else:
            stage_of.noise(part(model, "noise", "bad.py:function"), "bad.py:function", found)


def test_noise_in_single_precision_is_taken_as_it_is(folder):
    """A third has other digits in float32: none is lost or added, and the table holds float64."""
    for kind in ("float32", "float64"):
        (folder / f"{kind}.py").write_text(
            f"import numpy as np\n\n\ndef noise(scenario, samples, scheduled, start):\n    return np.full(scheduled.shape, 1 / 3, '{kind}')\n"
        )
    for kind, value in (("float32", float(np.float32(1 / 3))), ("float64", 1 / 3)):
        model = with_scheme("random", f"{kind}.py:noise")
        found = scheduled(model)
        made = stage_of.noise(part(model, "noise", f"{kind}.py:noise"), f"{kind}.py:noise", found)["noise"]
        sends = found["schedule"]["resource_block"].is_not_null()
        assert set(made.filter(sends)["noise_std"]) == {value}


def test_noise_in_single_precision_is_scaled_in_double_precision(folder):
    """Given as a multiplier, it is scaled to the clipping norm and the rounds of training, from 10 and 200."""
    (folder / "single.py").write_text(
        "import numpy as np\n\n\ndef noise(scenario, samples, scheduled, start):\n"
        "    return np.full(scheduled.shape, 1 / 3, 'float32')\n"
    )
    changes = {"privacy": {"bounds": "multiplier"}, "training": {"clip_norm": 0.7, "rounds": 30}}
    model = with_scheme("random", "single.py:noise", **changes)
    found = scheduled(model)
    made = stage_of.noise(part(model, "noise", "single.py:noise"), "single.py:noise", found)["noise"]
    sends = found["schedule"]["resource_block"].is_not_null()
    scaled = float(np.float32(1 / 3)) * 0.7 / 10 * (30 / 200) ** 0.5
    np.testing.assert_allclose(made.filter(sends)["noise_std"], scaled, rtol=1e-12)


def test_users_whose_noise_is_infinite_send_nothing_and_leak_nothing(folder):
    """They have neither noise in the update nor a row of leakage; the others are as they were without them."""
    (folder / "some.py").write_text(
        "import numpy as np\n\n\ndef noise(scenario, samples, scheduled, start):\n"
        "    return np.where(np.arange(scheduled.shape[1]) % 2, np.inf, 0.5)[None] * np.ones(scheduled.shape)\n"
    )
    model = with_scheme("random", "some.py:noise")
    found = scheduled(model)
    found |= stage_of.noise(part(model, "noise", "some.py:noise"), "some.py:noise", found)
    frame = assigned(found)
    silent = frame.filter(pl.col("user") % 2 == 1)
    assert not silent["scheduled"].any()
    assert set(silent["noise_std"]) == {0.0}
    assert frame.filter(pl.col("user") % 2 == 0)["scheduled"].any()
    found |= stage_of.receive(part(model, "receive"), found)
    made = stage_of.account(part(model, "account"), found)
    assert set(made["leakage"]["user"] % 2) == {0}
    assert made["leakage"]["rho"].is_finite().all()


ENDS = {
    "sys.exit()": "SystemExit", "sys.exit(3)": "SystemExit: 3", "exit()": "SystemExit", "quit()": "SystemExit",
    "_raise(SystemExit('over'))": "SystemExit: over", "_raise(GeneratorExit)": "GeneratorExit",
    "_raise(BaseException('mine'))": "BaseException: mine",
}  # fmt: skip
RAISE = "import sys\n\n\ndef _raise(error):\n    raise error\n\n\n"


@pytest.mark.parametrize("ending", ENDS)
@pytest.mark.parametrize("when", ["called", "imported"])
def test_what_would_end_the_process_is_an_error_with_its_place(folder, ending, when):
    body = (
        f"def function(*given):\n    {ending}\n"
        if when == "called"
        else f"{ending}\n\n\ndef function(*given):\n    pass\n"
    )
    (folder / "ends.py").write_text(RAISE + body)
    what = "fails" if when == "called" else "cannot be imported"
    with pytest.raises(
        user_code.UserCodeError, match=rf"^ends.py:function: {what}: {ENDS[ending]}.* \(.*ends.py, line \d+"
    ):
        user_code.call("ends.py:function", 1)


@pytest.mark.parametrize("ending", ["pass", "raise SystemExit(0)", "raise ValueError"])
def test_a_process_that_a_function_forks_does_not_come_back(folder, ending):
    """It would go on with the work, and write results a second time."""
    lines = f"    if not (child := os.fork()):\n        {ending}\n        return 0\n    return child\n"
    (folder / "forks.py").write_text(f"import os\n\ndef forked():\n{lines}")
    child = user_code.call("forks.py:forked")
    if not child:
        os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_ctrl_c_is_no_error_of_the_function(folder):
    (folder / "interrupted.py").write_text("def function():\n    raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        user_code.call("interrupted.py:function")


PLACES = {  # what a function does -> what is said, and the line of the user's file that it says
    'users["sample"]': ("ColumnNotFoundError", 7),
    "np.ones(3) + np.ones(4)": ("ValueError: operands could not be broadcast", 7),
    "helped(users)": ("KeyError: 'inside'", 3),
    "(lambda v: v.nothing)(users)": ("AttributeError", 7),
    "list(1 / v for v in [0])": ("ZeroDivisionError", 7),
    "function(users)": ("RecursionError", 7),
    "json.dumps(users)": ("TypeError: Object of type DataFrame is not JSON serializable", 7),
}


@pytest.mark.parametrize("done", PLACES)
def test_an_error_names_the_last_line_of_the_users_own_code(folder, done):
    (folder / "mine.py").write_text(
        f"import json, numpy as np\ndef helped(users):\n    return {{}}['inside']\n\n\ndef function(users):\n    return {done}\n"
    )
    words, line = PLACES[done]
    with pytest.raises(
        user_code.UserCodeError, match=rf"^mine.py:function: fails: {re.escape(words)}.* \(.*mine.py, line {line}[;)]"
    ):
        user_code.call("mine.py:function", pl.DataFrame({"samples": [1]}))


@pytest.mark.parametrize("parameters", ["", "first", "first, second, third, *, named"])
def test_a_wrong_signature_names_the_definition(folder, parameters):
    (folder / "mine.py").write_text(f"\n\ndef function({parameters}):\n    pass\n")
    with pytest.raises(user_code.UserCodeError, match=r"fails: TypeError: function\(\) .* \(.*mine.py, line 3\)$"):
        user_code.call("mine.py:function", 1, 2)


@pytest.mark.parametrize(
    "text", ["import no_such_package", "from broken import x", "1 / 0", "class K:\n    k = {}['k']"]
)
def test_an_error_at_import_names_the_users_line(folder, text, monkeypatch):
    monkeypatch.syspath_prepend(str(folder))
    (folder / "broken.py").write_text("def f(:\n")
    (folder / "mine.py").write_text(f"{text}\n\n\ndef function():\n    pass\n")
    place = r"broken.py, line 1" if "broken" in text else r"mine.py, line \d"
    with pytest.raises(user_code.UserCodeError, match=rf"^mine.py:function: cannot be imported: .* \(.*{place}\)$"):
        user_code.call("mine.py:function")


def test_checking_runs_no_scheduler_and_no_noise_but_builds_the_model(folder):
    """As SECURITY.md says it."""
    for name, body in (("scheduler", "pass"), ("noise", "pass"), ("model", "return 7")):
        text = f"open('{name}.ran', 'w').close()\n\n\ndef function(*given):\n    {body}\n"
        (folder / f"{name}.py").write_text(text)
    schemes = [{"name": "a", "scheduler": "scheduler.py:function", "noise": "noise.py:function"}]
    check_surroundings(load(STUDY | {"base": BASE | {"schemes": schemes}}, "study.yaml"))
    assert not list(folder.glob("*.ran"))
    training = BASE["training"] | {"model": "model.py:function"}
    with pytest.raises(ScenarioError, match="must return a Keras model"):
        check_surroundings(load(STUDY | {"base": BASE | {"schemes": schemes, "training": training}}, "study.yaml"))
    assert [path.name for path in folder.glob("*.ran")] == ["model.ran"]


# What they import and read.


def schedule_of(text: str, name: str = "mine.py") -> str:
    """A scheduler, of which the text is the file; it leaves out users whom the constant K says."""
    return f"import numpy as np\n{text}\n\n\ndef schedule(scenario, uplink, users, start):\n    return np.where(np.arange(start.shape[1]) < K, -1, start)\n"


def written(folder, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def scheduler_address(reference="mine.py:schedule"):
    return addresses(with_scheme(reference))["schedule", reference, None]


IN_FOLDER = {  # whether an edit of a file computes anew
    "helper.py": True, "nobody_imports.py": True, "mine.py": True, "below/block.py": False, ".hidden/block.py": False,
    ".hidden.py": False, "venv/block.py": False, "__pycache__/block.py": False, "site-packages/block.py": False,
    "notes.txt": False, "../above.py": False,
}  # fmt: skip


@pytest.mark.parametrize("file", IN_FOLDER)
def test_an_edit_of_any_python_file_in_the_folder_counts_and_of_no_other(folder, file):
    (folder / "own").mkdir()
    written(
        folder / "own", {"helper.py": "K = 3\n", "mine.py": schedule_of("from helper import K")} | {file: "A = 1\n"}
    )
    before = scheduler_address("own/mine.py:schedule")
    (folder / "own" / file).write_text('"""A docstring."""\n\nA = 1  # a comment\n')
    assert scheduler_address("own/mine.py:schedule") == before
    (folder / "own" / file).write_text("A = 2\n")
    assert (scheduler_address("own/mine.py:schedule") != before) == IN_FOLDER[file]


IN_PACKAGE = {
    "lab/__init__.py": True, "lab/far/down/nobody_imports.py": True, "lab/far/.hidden/block.py": False,
    "lab/venv/block.py": False, "lab/__pycache__/block.py": False, "beside.py": False,
}  # fmt: skip


@pytest.mark.parametrize("file", IN_PACKAGE)
def test_an_edit_of_any_module_of_the_package_counts_and_of_no_other(folder, file, monkeypatch):
    monkeypatch.syspath_prepend(str(folder / "site"))
    written(folder / "site", {"lab/__init__.py": "", "lab/mine.py": schedule_of("K = 3")} | {file: "A = 1\n"})
    before = scheduler_address("lab.mine:schedule")
    (folder / "site" / file).write_text("A = 2\n")
    assert (scheduler_address("lab.mine:schedule") != before) == IN_PACKAGE[file]


def test_what_a_file_imports_beside_it_is_read_again_after_an_edit(folder):
    text = "K = __import__('hel' + 'per').K\ndef later():\n    from second import L"
    written(folder, {"mine.py": schedule_of(text), "second.py": "L = 1\n"})
    model, made, found = with_scheme("mine.py:schedule"), [], []
    for k in (3, 9, 3):
        (folder / "helper.py").write_text(f"K = {k}\n")
        made.append(scheduled(model)["schedule"])
        found.append(scheduler_address())
    assert made[0].equals(made[2])
    assert not made[0].equals(made[1])
    assert found[0] == found[2] != found[1]


def test_too_many_files_are_refused_before_work_starts(folder):
    (folder / "own").mkdir()
    written(folder / "own", {f"m{k}.py": "" for k in range(200)} | {"mine.py": schedule_of("K = 3")})
    schemes = [{"name": "Mine", "scheduler": "own/mine.py:schedule", "noise": "optimal"}]
    study = load(STUDY | {"base": BASE | {"schemes": schemes}}, "study.yaml")
    with pytest.raises(ScenarioError, match=r"own has 201 Python files, .* at most 200 are allowed: make a folder"):
        check_surroundings(study)
    (folder / "own/m0.py").unlink()
    check_surroundings(study)


def test_a_script_that_simulates_counts_only_if_it_holds_the_function(folder, monkeypatch):
    written(folder, {"mine.py": schedule_of("K = 3"), "script.py": schedule_of("K = 3")})
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "script.py", raising=False)
    for name, counts in (("mine", {"mine.py"}), ("script", {"mine.py", "script.py"})):
        description = stage_of.addresses(with_scheme(f"{name}.py:schedule"))["schedule", f"{name}.py:schedule", None]
        assert {"mine.py", "script.py"} & code.digest_files(description).keys() == counts
    script = ModuleType("__mp_main__")
    script.__file__ = str(folder / "script.py")
    monkeypatch.setitem(sys.modules, "__mp_main__", script)  # as libraries leave it
    assert scheduled(with_scheme("mine.py:schedule"))["schedule"].height


def test_distributions_that_files_import_count_by_their_versions(folder):
    (folder / "helper.py").write_text("def late():\n    import yaml\n")
    (folder / "mine.py").write_text(schedule_of("K = 3"))
    description = stage_of.addresses(with_scheme("mine.py:schedule"))["schedule", "mine.py:schedule", None]
    assert description["packages"]["yaml"] == yaml.__version__
    assert not {"pwfl", "helper", "numpy.linalg"} & description["packages"].keys()


def test_two_files_of_one_name_do_not_meet(folder):
    for name in ("a", "b"):
        helper = f"K = {3 if name == 'a' else 9}\n"
        written(folder, {f"{name}/mine.py": schedule_of("from helper import K"), f"{name}/helper.py": helper})
    path, modules = list(sys.path), set(sys.modules)
    made = [scheduled(with_scheme(f"{name}/mine.py:schedule"))["schedule"] for name in ("a", "b", "a")]
    assert made[0].equals(made[2])
    assert not made[0].equals(made[1])
    assert sys.path == path
    assert not {"helper", "own_mine"} & (set(sys.modules) - modules)


def test_a_module_that_the_process_uses_stays_as_it_was(folder, monkeypatch):
    monkeypatch.syspath_prepend(str(folder))
    written(folder, {"helper.py": "K = 3\n", "mine.py": schedule_of("from helper import K")})
    import helper

    helper.K = 9
    made = scheduled(with_scheme("mine.py:schedule"))["schedule"]
    assert (sys.modules["helper"], helper.K) == (helper, 9)
    (folder / "mine.py").write_text(schedule_of("K = 3"))
    assert made.equals(scheduled(with_scheme("mine.py:schedule"))["schedule"])
    del sys.modules["helper"]


def test_what_a_function_imports_of_pwfl_counts(folder):
    (folder / "mine.py").write_text(schedule_of("from pwfl.systems.multicell.noise import run\nK = 3"))
    description = stage_of.addresses(with_scheme("mine.py:schedule"))["schedule", "mine.py:schedule", None]
    assert "pwfl/systems/multicell/noise.py" in code.digest_files(description)
    assert "pwfl/api.py" not in code.digest_files(description)


UNDECLARED = {  # reading of K -> the file that is named
    "runpy.run_path('below/block.py')['K']": "below/block.py",
    "__import__('below.block').block.K": "below/block.py",
    "__import__('outside').K": "site/outside.py",
    "int(open('w.txt').read())": "w.txt",
    "int(np.load('w.npy'))": "w.npy",
    "int(os.read(os.open('w.txt', os.O_RDONLY), 9))": "w.txt",
    "int(pathlib.Path('w.txt').resolve().read_text())": "w.txt",
}


@pytest.mark.parametrize("loading", [True, False])
@pytest.mark.parametrize("value", UNDECLARED)
def test_what_is_read_undeclared_is_named_with_its_remedy(folder, value, loading, monkeypatch):
    monkeypatch.syspath_prepend(str(folder / "site"))
    written(folder, {"below/block.py": "K = 3\n", "site/outside.py": "K = 3\n", "w.txt": "3"})
    np.save("w.npy", np.array(3))
    late = f"class Late:\n    def __gt__(self, other):\n        return other < {value}\nK = Late()"
    (folder / "mine.py").write_text(schedule_of("import os, pathlib, runpy\n" + (f"K = {value}" if loading else late)))
    file = UNDECLARED[value]
    said = rf"^mine.py:schedule: reads {file}, which is not declared, .* declare it, `own: {{reads: \[{file}\]}}`"
    with pytest.raises(user_code.UserCodeError, match=said):
        scheduled(with_scheme("mine.py:schedule"))


def reading(**more):
    scheme = {"name": "a", "scheduler": "mine.py:schedule", "noise": "optimal"}
    return resolve(BASE | {"schemes": [scheme], "own": more}, {})


def through_plan(model):
    """The schedule by the plan, as the workflow and `simulate` have it."""
    found = stage_of.channel(part(model, "channel"), range(4))
    description = stage_of.addresses(model)["schedule", "mine.py:schedule", None]
    return in_memory(model, description, found), description


def test_a_declared_file_may_be_read_and_its_content_counts(folder):
    (folder / "mine.py").write_text(schedule_of("K = int(open('w.txt').read())"))
    model, made, found = reading(reads=["w.txt"]), [], []
    for k in (3, 9, 3):
        (folder / "w.txt").write_text(str(k))
        tables, description = through_plan(model)
        made.append(tables["schedule"])
        found.append(description["address"])
        assert "w.txt" in code.digest_files(description)
    assert made[0].equals(made[2])
    assert not made[0].equals(made[1])
    assert found[0] == found[2] != found[1]
    assert {"mine.py", "w.txt"} <= code.digest_files(description).keys()


def test_the_files_that_the_page_declares_are_found(folder):
    np.save("noise.npy", np.array(0.25))
    (folder / "start.npz").touch()
    model = resolve(BASE, {key: DECLARED[key] for key in ("schemes", "own", "training")})
    check_surroundings(load({"scenarios": {"one": model.model_dump()}}, "a test"))
    found = scheduled(model)
    description = stage_of.addresses(model)["noise", "optimal", "greedy.py:measured"]
    assert set(in_memory(model, description, found)["noise"]["noise_std"]) == {0.0, 0.25}


def test_a_function_gets_the_paths_that_are_declared(folder):
    (folder / "w.txt").write_text("3")
    (folder / "mine.py").write_text("def schedule(scenario, *others):\n    raise KeyError(scenario.own.reads)\n")
    with pytest.raises(user_code.UserCodeError, match=r"KeyError: \('w.txt',\)"):
        through_plan(reading(reads=["w.txt"]))


def test_declared_files_change_the_address_of_what_a_function_makes_alone(folder):
    (folder / "mine.py").write_text(schedule_of("K = 3"))
    (folder / "w.txt").write_text("3")
    schemes = [
        {"name": "a", "scheduler": "mine.py:schedule", "noise": "optimal"},
        {"name": "b", "scheduler": "random", "noise": "none"},
    ]
    models = [resolve(BASE | {"schemes": schemes, "own": {"reads": reads}}, {}) for reads in ([], ["w.txt"])]
    for name, differ in (("a", True), ("b", False)):
        before, after = (routes(model)[name] for model in models)
        assert [before[stage]["address"] != after[stage]["address"] for stage in ("schedule", "noise")] == [differ] * 2


def test_a_file_that_is_written_or_temporary_or_a_librarys_need_not_be_declared(folder):
    text = "import inspect, tempfile\nopen('log.txt', 'w').close()\nsource = inspect.getsource(np.linalg.norm)\n"
    text += (
        "with tempfile.TemporaryFile('w+') as file:\n    file.write('3')\n    file.seek(0)\n    K = int(file.read())"
    )
    text += (
        "\nwith tempfile.NamedTemporaryFile() as file:\n    open(file.name).close()\nopen('/proc/self/stat').close()"
    )
    (folder / "mine.py").write_text(schedule_of(text))
    assert scheduled(with_scheme("mine.py:schedule"))["schedule"].height


def test_a_library_may_read_its_settings(folder):
    written(folder, {".library/settings.json": "{}"})
    (folder / "mine.py").write_text(schedule_of("open('.library/settings.json').close()\nK = 3"))
    assert scheduled(with_scheme("mine.py:schedule"))["schedule"].height


def test_a_missing_file_is_said_before_work_starts(folder):
    (folder / "mine.py").write_text(schedule_of("K = 3"))
    study = {
        "study": "s",
        "base": BASE
        | {
            "schemes": [{"name": "Mine", "scheduler": "mine.py:schedule", "noise": "none"}],
            "own": {"reads": ["w.npy"]},
        },
        "scenarios": {"one": {}},
    }
    with pytest.raises(
        ScenarioError, match=r"^study.yaml: scenarios.one: own.reads: w.npy: cannot be read: No such file"
    ):
        check_surroundings(load(study, "study.yaml"))
    training = BASE["training"] | {"model": "network.py:network", "model_reads": ["v.npy"]}
    with pytest.raises(ScenarioError, match=r"training.model_reads: v.npy: cannot be read: No such file"):
        check_surroundings(load({"base": BASE | {"training": training}, "scenarios": {"one": {}}}, "study.yaml"))


def test_files_without_a_function_of_ones_own_are_warned_of(folder):
    declared = {"own": {"reads": ["v.npy"]}, "training": BASE["training"] | {"model_reads": ["w.npy"]}}
    schemes = [{"name": "a", "scheduler": "random", "noise": "none"}]
    said = load({"base": BASE | declared | {"schemes": schemes}, "scenarios": {"one": {}}}, "a test").warnings
    for line in (
        "training.model_reads: ['w.npy'] has no effect with training.model: dense",
        "own.reads: ['v.npy'] has no effect with built-in schemes and airs",
    ):
        assert any(line in each for each in said), said


def test_files_are_those_of_the_functions_that_a_stage_runs(folder):
    model = with_scheme(
        "inversion",
        "none",
        radio=BASE.get("radio", {}) | {"air": "mine.py:receive"},
        own={"reads": ["v.npy"]},
        training=BASE["training"] | {"model": "network.py:network", "model_reads": ["w.npy"]},
    )
    found = {stage: checks.user_functions(model, stage) for stage in ("schedule", "receive", "train")}
    both = ["mine.py:receive", "network.py:network"]
    assert found == {"schedule": ([], []), "receive": (both, ["v.npy", "w.npy"]), "train": (both, ["v.npy", "w.npy"])}


WEIGHTED = """import keras
import numpy as np

from layers import dense


def network(features, classes):
    weights = np.load("w.npy")
    layer = dense(classes, float(weights.sum()))
    return keras.Sequential([keras.layers.Input([features]), layer])
"""
LAYERS = """import keras


def dense(classes, value):
    return keras.layers.Dense(classes, kernel_initializer=keras.initializers.Constant(value))
"""


def test_a_models_imports_and_files_count_where_it_trains(folder):
    written(folder, {"weighted.py": WEIGHTED, "layers.py": LAYERS})
    np.save("w.npy", np.zeros(3))
    training = BASE["training"] | {"model": "weighted.py:network", "rounds": 2}
    with pytest.raises(
        user_code.UserCodeError, match=r"^weighted.py:network: reads w.npy, .* `model_reads` beside training.model"
    ):
        history(with_scheme(training=training))
    model = with_scheme(training=training | {"model_reads": ["w.npy"]})
    assert history(model).height
    before = addresses(model)
    for change in (
        lambda: np.save("w.npy", np.ones(3)),
        lambda: written(folder, {"layers.py": LAYERS + "\nMORE = 1\n"}),
    ):
        change()
        after = addresses(model)
        assert {stage for stage, *_ in before if before[stage, *_] != after[stage, *_]} == {
            "receive",
            "train",
            "account",
        }
        before = after
