"""What jobs do: how a study's items become parts, what a part's job computes, and what survives a failure."""

import json
import os
import random
import re
import shutil
import subprocess
import threading
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

from conftest import (
    PWFL,
    ROOT,
    SMALL,
    TINY,
    changed,
    command,
    environment,
    publish_view,
    python,
    session_of,
    write_config,
)
from pwfl import execution, registry
from pwfl import stages as stages_of
from pwfl.process import devices, supervisor
from pwfl.scenario import ScenarioError, load
from pwfl.scenario.resolution import merge
from pwfl.store import grids, items, sealed
from pwfl.store.items import Store
from pwfl.workflow import compute, costs, jobs, outlook, parts, progress, publish, reporting, reports, session
from pwfl.workflow.plan import Item, Plan
from pwfl.workflow.reasons import Reasons

FOUR = changed(SMALL, "realizations", 60)  # chunks of the channel
ONE_CHUNK = changed(changed(SMALL, "training_realizations", 2), "realizations", 2)
TWO = SMALL | {"scenarios": {"one": {}, "two": {"seed": 2}}}


class Told:
    """What a worker tells its supervisor."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.errors: dict[str, str] = {}

    def begin(self, tasks: list[str]) -> None:
        self.begun += tasks

    def failed(self, tasks: list[str], error: str) -> None:
        self.errors |= dict.fromkeys(tasks, error)


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """Jobs set what a process sees of GPUs."""
    monkeypatch.setenv(devices.VISIBLE, "-1")


def work_of(folder: Path, config: dict) -> Plan:
    return session_of(folder, config, ("store",)).work


def manifests(work: Plan, some: list[Item], root: Store) -> list[dict]:
    """The manifests of items, in a part for each rule."""
    found = parts.plan(work, some, root, 1e9, 1).values()
    ahead = outlook.Outlook(work, root, {item.key for item in some})
    return [json.loads(json.dumps(ahead.manifest(part, is_last=False))) for part in found]


def one_part(work: Plan, some: list[Item], root: Store) -> dict:
    """The manifest of items of one rule, in one part."""
    (found,) = manifests(work, some, root)
    return found


def run(work: Plan, some: list[Item], root: Store) -> Told:
    """Compute items, a part for each rule; in this process, but for users' code, which forks one that is still fresh."""
    told = Told()
    for manifest in manifests(work, some, root):
        if manifest["runs_user_code"]:
            told.errors |= {key: error for key, (_, error) in job(manifest, root.root.parent).items()}
            continue
        with root.workspace() as workspace:
            assert compute.compute(manifest, root, workspace, set(), told)
    return told


def job(manifest: dict, folder: Path, **options) -> dict[str, list[str]]:
    """The items of a part that a job computes which fail, and their errors, by their keys."""
    mark = folder / ".pwfl/study/rule/part.done"
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.with_suffix(".json").write_text(json.dumps(manifest))
    python("-c", f"from pwfl.workflow import jobs; jobs.run_part({str(mark)!r}, 'part.log')", cwd=folder, **options)
    return jobs.failures([mark])


def stages(work: Plan, *names: str) -> list[Item]:
    return [item for item in work.items() if item.stage in names]


def touch(work: Plan, some: list[Item], root: Store) -> None:
    """Let items exist, of empty files."""
    for item in some:
        for name in work.outputs(item):
            path = root.path(item.key) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()


# Parts.


@pytest.mark.parametrize("config", [TINY, TWO], ids=["tiny", "two"])
@pytest.mark.parametrize(("seconds", "cores"), [(0.1, 1), (1.0, 4), (900.0, None)])
def test_each_item_is_in_one_part_after_those_that_it_needs(tmp_path, config, seconds, cores):
    work = work_of(tmp_path, config)
    everything = list(work.items())
    found = parts.plan(work, everything, Store(tmp_path / "store"), seconds, cores)
    assert Counter(item for part in found.values() for item in part.items) == Counter(everything)
    holder = {item.key: path for path, part in found.items() for item in part.items}
    before: set[str] = set()
    for path, part in found.items():
        assert path == part.path
        needed = {holder[key] for item in part.items for key in work.needs(item)} - {path}
        assert part.after == sorted(needed)
        assert needed <= before
        before.add(path)
    of_rule = {
        rule: [item for part in found.values() if part.rule == rule for item in part.items] for rule in parts.ORDER
    }
    for rule, some in of_rule.items():  # consecutive: in the plan's order
        expected = [item for item in everything if parts.rule_of(item) == rule]
        assert some == expected


def test_equal_names_are_of_equal_items_after_equal_parts(tmp_path):
    root = Store(tmp_path / "store")

    def named(config) -> dict[str, tuple]:
        found = parts.plan(work := work_of(tmp_path, config), list(work.items()), root, 1e9, 1)
        return {path: ([item.key for item in part.items], part.after) for path, part in found.items()}

    before, same, after = named(TWO), named(TWO), named(changed(TWO, "privacy.target_epsilons", [0.4]))
    assert before == same
    shared = before.keys() & after.keys()
    assert all(before[path] == after[path] for path in shared)
    assert {path.partition("/")[0] for path in shared} == {"channel"}
    # Two chunks of the channel more, which all other stages are made of: no name is that of before.
    assert not before.keys() & named(changed(TWO, "realizations", 33)).keys()


def test_what_follows_a_part_that_is_forced_is_what_is_made_of_it(tmp_path):
    work = work_of(tmp_path, TWO)
    found = parts.plan(work, list(work.items()), Store(tmp_path / "store"), 1e9, 1)
    every = set(found)
    assert parts.following(found.values(), ()) == set()
    assert parts.following(found.values(), parts.ORDER) == every
    (channel,) = (path for path in every if path.startswith("channel/"))
    assert parts.following(found.values(), {channel}) == parts.following(found.values(), {"channel"}) == every
    of_noise = parts.following(found.values(), {"noise"})
    assert {path.partition("/")[0] for path in every - of_noise} == {"channel", "schedule"}
    assert {path.partition("/")[0] for path in parts.following(found.values(), {"report"})} == {"report"}


@pytest.mark.parametrize("cores", [None, 1, 2, 16])
def test_items_are_split_into_consecutive_ranges_of_about_the_same_time(cores):
    draw = random.Random(5)
    for _ in range(300):
        each = [draw.expovariate(1 / draw.choice((0.01, 1, 40))) + 1e-6 for _ in range(draw.randrange(1, 60))]
        seconds, start, total = draw.uniform(1, 100), draw.uniform(0.5, 5), sum(each)
        found = list(parts.split(each, seconds, start, cores))
        assert [number for span in found for number in span] == list(range(len(each)))
        assert all(len(span) for span in found)
        longest = max(seconds, total / (parts.FEW * cores)) if cores else seconds
        assert max(sum(each[span.start : span.stop]) for span in found) <= longest + max(each)
        if total < seconds and (cores or 1) == 1:
            assert len(found) == 1
        if len(found) > np.ceil(total / longest):  # for cores that would be idle
            assert len(found) <= cores
            assert total / len(found) >= start


OWN = """
import os, signal
import numpy as np

def chosen(scenario, uplink, users, start):
    {does}
    return np.full(uplink.cell.shape, -1)
"""
USERS = {
    "study": "users",
    "base": TINY["base"] | {"realizations": 2, "training_realizations": 1},
    "scenarios": {"one": {}},
}
STAGES = ("dataset", "channel", "schedule", "noise", "receive", "account")  # which need no TensorFlow


def own(home: Path, monkeypatch, **functions: str) -> dict:
    """A study with user-defined schedulers, FILE: what it does; worked in is its folder."""
    monkeypatch.chdir(home)
    schemes = [{"name": "drawn", "scheduler": "random", "noise": "random"}]
    for name, does in functions.items():
        (home / f"{name}.py").write_text(OWN.format(does=does))
        schemes.append({"name": name, "scheduler": f"{name}.py:chosen", "noise": "none"})
    return changed(USERS, "schemes", schemes)


def test_items_that_run_users_code_are_in_parts_of_their_own(tmp_path, monkeypatch):
    work = work_of(tmp_path, own(tmp_path, monkeypatch, mine="pass", more="pass"))
    found = manifests(work, list(work.items()), Store(tmp_path / "store"))
    scheduled = {
        tuple({description["variant"] for description in part["descriptions"].values()}): part["runs_user_code"]
        for part in found
        if part["rule"] == "schedule"
    }
    assert scheduled == {("random",): False, ("mine.py:chosen",): True, ("more.py:chosen",): True}
    assert not any(part["runs_user_code"] for part in found if part["rule"] != "schedule")


def test_what_the_store_lacks_is_missing_and_of_what_it_has_nothing_is_asked(tmp_path):
    work, root = work_of(tmp_path, TINY), Store(tmp_path / "store")
    everything = list(work.items())
    keys = [item.key for item in everything]
    assert parts.needed(work, keys, root) == everything
    page = everything[-1]
    assert page.stage == "page"
    touch(work, everything, root)
    assert parts.needed(work, keys, root) == []
    (trained, *_), (noise, *_) = stages(work, "train"), stages(work, "noise")
    root.path(f"{trained.key}/history.parquet").unlink()
    shutil.rmtree(root.path(noise.key))
    assert parts.needed(work, [page.key], root) == []
    assert parts.needed(work, [trained.key], root) == [
        item for item in everything if item == trained or (item == noise and noise.key in work.needs(trained))
    ]
    assert parts.needed(work, keys, root) == [item for item in everything if item in (noise, trained)]


def test_a_manifest_tells_a_job_all_and_is_read_by_its_mark(tmp_path):
    found = session_of(tmp_path, TWO)
    ahead = found.outlook()
    found.write_manifests(ahead)
    assert {path.suffix for path in (tmp_path / ".pwfl/small").glob("*/*")} == {".json"}
    made: set[str] = set()
    for path, part in found.parts.items():
        read = json.loads((tmp_path / found.mark(path)).with_suffix(".json").read_bytes())
        assert (read["rule"], read["is_last"]) == (part.rule, part.rule == "report")
        assert read["marks_before"] == list(map(found.mark, part.after))
        asked = ahead.asked(part)
        assert {what: read[what] for what in asked} == asked
        assert asked.keys() == {"marks_before", "message", "minutes", "mem_mb", "gpu"}
        for item in read["items"]:
            assert read["descriptions"][item["address"]]["address"] == item["address"]
            assert {path for paths in item["inputs"].values() for path in paths} <= made
            made |= {f"{item['key']}/{file}" for file in item["files"]}
    assert set(found.work.view.values()) <= made
    assert Store(tmp_path / "store").in_use() == {item.address for item in found.work.items()}


def test_what_is_wanted_has_the_parts_that_it_needs_and_no_more(tmp_path):
    found = session_of(tmp_path, TINY, ("*/objective.svg",))
    items_ = [item for part in found.parts.values() for item in part.items]
    assert {item.key for item in items_} == found.lacks  # all of them, as the store has nothing
    assert {item.stage for item in items_} == {"channel", "schedule", "noise", "receive", "account", "figures"}


def test_what_is_of_other_parts_goes_when_a_run_begins(tmp_path):
    found = session_of(tmp_path, TWO)
    (path, *_) = found.parts
    left = [tmp_path / found.mark(path), tmp_path / found.mark("train/1-000000")]
    left += [mark.with_suffix(jobs.FAILED) for mark in left]
    for file in left:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    found.write_manifests(found.outlook())
    assert [file.exists() for file in left] == [True, False, False, False]


def test_marks_say_what_the_store_has_whatever_they_said(tmp_path):
    work, root = work_of(tmp_path, TWO), Store(tmp_path / "store")
    touch(work, [item for item in work.items() if item.stage != "noise"], root)
    marked = {"channel", "schedule", "train", "account", "audit", "report"}
    for before in ("nothing", "marks", "the store's"):
        found = session_of(tmp_path, TWO, ("store",))
        if before == "marks":
            for path in found.parts:
                (mark := tmp_path / found.mark(path)).parent.mkdir(exist_ok=True)
                mark.touch()
                os.utime(mark, (0, 0))
        found.write_marks()
        marks = [tmp_path / found.mark(path) for path in found.parts if (tmp_path / found.mark(path)).exists()]
        assert {mark.parent.name for mark in marks} == marked
        assert len({mark.stat().st_mtime_ns for mark in marks}) == 1
    touch(work, list(work.items()), root)
    (found := session_of(tmp_path, TWO, ("store",))).write_marks()
    assert all((tmp_path / found.mark(path)).exists() for path in found.parts)


def test_lists_of_stages_and_tables_name_those_that_there_are():
    made = {table for stage in stages_of.GRAPH.values() for table in stage.makes}
    profile = yaml.safe_load((ROOT / "profiles/slurm/config.yaml").read_text())
    assert profile["slurm-array-jobs"].split(",") == parts.ORDER
    text = (ROOT / "rules/stages.smk").read_text()
    assert set(re.findall(r"^use rule part as (\w+) with", text, re.MULTILINE)) == set(parts.ORDER)
    assert re.findall(r'^        stage="(\w+)",', text, re.MULTILINE) == re.findall(r"part as (\w+) with", text)
    assert {*reports.FIRST_CHUNK, *reports.OF_TABLES} <= made
    known = {*parts.ORDER, *reporting.JOBS}
    assert known >= costs.GUESSES.keys() | costs.START_SECONDS.keys() | costs.MEMORY_MIB.keys()


# Costs.


def cost(root: Store, key: str, **held) -> None:
    path = root.path(f"{key}/{items.COST}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"system": "a", "realizations": 0, "seconds": 999.0, "processor": "x"} | held))


def test_an_item_takes_about_what_the_median_of_its_stage_and_system_took(tmp_path):
    root = Store(tmp_path)
    for number, seconds in enumerate((2.0, 6.0, 100.0)):
        cost(root, f"train/{number}/000000-000002", cpu_seconds=seconds, realizations=2)
        cost(root, f"train/{number}9/000000-000004", cpu_seconds=40.0, realizations=4, system="b")
        cost(root, f"audit/{number}", cpu_seconds=seconds)
    found = costs.Costs(root)
    chunk = Item("train", "x", "000010-000020")
    assert found.seconds(chunk, "a") == pytest.approx(10 * 3.0)
    assert found.seconds(chunk, "b") == pytest.approx(10 * 10.0)
    assert found.seconds(chunk, "c") in (pytest.approx(30.0), pytest.approx(100.0))  # another system's
    assert found.seconds(Item("audit", "x"), "a") == 6.0


def test_on_a_gpu_the_time_is_that_of_the_clock(tmp_path):
    on_gpu = {"seconds": 60.0, "cpu_seconds": 2.0, "realizations": 1, "processor": "x" + devices.WITH_GPU}
    cost(Store(tmp_path), "train/1/000000-000001", **on_gpu)
    assert costs.Costs(Store(tmp_path)).seconds(Item("train", "x", "000000-000001"), "a") == 60.0


def test_without_records_and_with_damaged_ones_times_are_guessed(tmp_path):
    root = Store(tmp_path)
    seconds = ('"x"', "0", "-1", "NaN", "Infinity")
    damaged = [f'{{"cpu_seconds": {text}, "realizations": 1, "system": "a", "processor": "x"}}' for text in seconds]
    for number, text in enumerate(("", "{", "[]", "{}", "null", *damaged)):
        path = root.path(f"train/{number}/000000-000001/{items.COST}")
        path.parent.mkdir(parents=True)
        path.write_text(text)
    of_each, besides = costs.GUESSES["train"]
    assert costs.Costs(root).seconds(Item("train", "x", "000000-000010"), "a") == pytest.approx(besides + 10 * of_each)
    of_each, besides = costs.GUESS
    assert costs.Costs(root).seconds(Item("noise", "x", "000000-000100"), "a") == pytest.approx(besides + 100 * of_each)
    cost(root, "train/x/000000-000001", cpu_seconds=7.0, realizations=1)
    assert costs.Costs(root).seconds(Item("train", "x", "000000-000001"), "a") == 7.0
    of_each, besides = costs.GUESSES["train"]
    expected = pytest.approx(besides + of_each + 100)  # not the 7 seconds of the small networks of another system
    assert costs.Costs(root).seconds(Item("train", "x", "000000-000001"), "b", 100 * costs.GUESSED_SPEED) == expected


def test_a_timed_training_of_another_size_says_little(tmp_path):
    root, item = Store(tmp_path), Item("train", "x", "000000-000010")
    cost(root, "train/x/000000-000001", cpu_seconds=1.0, realizations=1)
    found = costs.Costs(root)
    assert found.seconds(item, "a", costs.GUESSED_SPEED) == 10.0  # of about this size
    assert found.seconds(item, "a", 600 * costs.FASTEST) == 6000.0  # of large networks, after small ones
    of_each, besides = costs.GUESSES["train"]
    assert found.seconds(item, "a", 1.0) == pytest.approx(costs.FAR * (besides + 10 * of_each))


# Why.


def test_the_first_estimate_says_that_it_is_a_guess_and_for_what(tmp_path):
    work, root = work_of(tmp_path, SMALL), Store(tmp_path / "store")
    everything = list(work.items())

    def line() -> str:
        found = parts.plan(work, everything, root, 900.0, 1).values()
        return outlook.Outlook(work, root, {item.key for item in everything}).remaining(found)

    count = len(everything)
    assert re.fullmatch(
        rf"Not computed yet: {count} results in \d+ jobs, about \d+ core-\w+ \(a rough guess: .*\)", line()
    )
    timed = {item.stage: item for item in everything if item.stage not in ("audit", "page")}
    for item in timed.values():
        cost(
            root,
            item.key,
            cpu_seconds=1.0,
            realizations=len(grids.realizations(item.chunk)),
            system=work.descriptions[item.address].get("system", ""),
        )
    assert "(a rough guess for audit, report: ./store has no timings of such jobs yet)" in line()
    for item in (item for item in everything if item.stage not in timed):
        cost(root, item.key, cpu_seconds=1.0, realizations=0, system=work.descriptions[item.address].get("system", ""))
    assert "guess" not in line()


def test_a_training_that_was_never_timed_is_guessed_by_its_memory_and_rounds(tmp_path):
    def seconds(**training) -> float:
        content = TINY["base"] | {"training": TINY["base"].get("training", {}) | training}
        work = work_of(tmp_path, {"base": content, "scenarios": {"one": {}}})
        return one_part(work, stages(work, "train"), Store(tmp_path / "nothing"))["seconds"]

    wide = {"hidden_layers": [10_000]}
    assert seconds(rounds=3000, **wide) > 100 * seconds(rounds=1, **wide) > 0
    assert seconds(rounds=1000, **wide) > 2 * seconds(rounds=1000)


def test_of_sampled_records_a_share_is_gone_through(tmp_path):
    def seconds(sampling: float) -> float:
        content = {"system": "anonymous_oac", "data": {"sampling": sampling}, "training": {"rounds": 10_000}}
        work = work_of(tmp_path, {"base": content, "scenarios": {"one": {}}})
        train = next(item for item in work.items() if item.stage == "train")
        return parts.seconds_of(work, train, costs.Costs(Store(tmp_path / "nothing")))

    assert seconds(0.5) > 5 * seconds(0.05) > 0


def published(folder: Path, config: dict) -> publish.Published:
    """A record of all that a study of a config shows."""
    view = work_of(folder, config).view
    return publish.Published("pwfl run", [], {name: (at, 0, 0, "") for name, at in view.items()})


def why(folder: Path, config: dict, stage: str, variant=None, last: publish.Published | None = None) -> str:
    """Why the last chunk of a stage would be computed, after something was published."""
    work = work_of(folder, config)
    found = Reasons(Store(folder / "store"), work, last)
    of_it = [item for item in work.items() if item.stage == stage]
    of_it = [item for item in of_it if variant is None or work.descriptions[item.address]["variant"] == variant]
    return found.why(of_it[-1])


def describe(folder: Path, config: dict) -> None:
    work, root = work_of(folder, config), Store(folder / "store")
    for item in work.items():
        root.path(item.key).mkdir(parents=True, exist_ok=True)
        root.describe(work.descriptions[item.address])


def test_why_an_item_is_computed_is_said_by_what_differs_from_what_was_published(tmp_path, monkeypatch):
    config = own(tmp_path, monkeypatch, mine="x = 1")
    chosen = ("schedule", "mine.py:chosen")
    assert why(tmp_path, config, *chosen) == "new"
    describe(tmp_path, config)
    last = published(tmp_path, config)
    assert why(tmp_path, config, *chosen, last=last) == "deleted"
    more = changed(config, "realizations", 1000)
    assert why(tmp_path, more, *chosen, last=last).startswith("more realizations than the ")
    assert why(tmp_path, more, "tables", last=last) == "realizations changed"
    other = changed(config, "schedule.gamma", 7.0)
    assert why(tmp_path, other, "account", last=last) == "schedule.gamma changed"
    assert why(tmp_path, changed(config, "network.users", 5), "train", last=last) == "network.users changed"
    # What an earlier run left behind is compared with nothing.
    describe(tmp_path, changed(changed(config, "schedule.gamma", 9.0), "privacy.delta", 1e-7))
    assert why(tmp_path, other, "account", last=last) == "schedule.gamma changed"
    (tmp_path / "mine.py").write_text((tmp_path / "mine.py").read_text().replace("x = 1", "x = 2"))
    assert why(tmp_path, config, *chosen, last=last) == "code changed"
    assert why(tmp_path, config, "page", last=last).startswith("code")


def test_each_scenario_is_compared_with_itself(tmp_path):
    last = published(tmp_path, TINY)
    describe(tmp_path, TINY)  # low has gamma 300, high 3000
    high = TINY["scenarios"]["high"]
    config = TINY | {"scenarios": {"high": high, "low": {"schedule": {"gamma": 3000.0}, "training": {"rounds": 5}}}}
    assert why(tmp_path, config, "train", last=last) == "training.rounds, schedule.gamma changed"
    config["scenarios"]["low"] = {"schedule": {"gamma": 3000.0}, "privacy": {"delta": 1e-6}}
    assert why(tmp_path, config, "account", last=last) == "privacy.delta, schedule.gamma changed"
    config["scenarios"]["other"] = {"seed": 3}
    assert why(tmp_path, config, "train", last=last) == "new"


def test_reasons_of_the_report_are_keys_too(tmp_path):
    last = published(tmp_path, TINY)
    describe(tmp_path, TINY)
    schemes = [scheme.model_dump() for scheme in load(TINY, "a test").scenarios["low"].schemes]
    assert why(tmp_path, changed(TINY, "schemes", schemes[1:]), "tables", last=last) == "schemes changed"
    titled = TINY | {"scenarios": {name: {**one, "title": name * 9} for name, one in TINY["scenarios"].items()}}
    assert why(tmp_path, titled, "comparison", last=last) == "titles changed"
    assert why(tmp_path, TINY | {"print": True}, "figures", last=last) == "formats changed"
    assert why(tmp_path, changed(TINY, "training.rounds", 6), "page", last=last).startswith("training.rounds")
    many = {"seed": 2, "network": {"users": 19}, "privacy": {"delta": 1e-6}, "radio": {"frequency_hz": 1e9}}
    several = TINY | {"base": merge(TINY["base"], many)}
    assert re.fullmatch(r"\S+, \S+, \S+ and \d+ more changed", why(tmp_path, several, "account", last=last))


@pytest.mark.parametrize("damage", [b"", b"a: [", b"\xff\xfe", b"[]", b"{}"])
def test_a_damaged_description_is_passed_over(tmp_path, damage):
    last = published(tmp_path, TINY)
    describe(tmp_path, TINY)
    for path in (tmp_path / "store").glob(f"*/*/{items.DESCRIPTION}"):
        path.write_bytes(damage)
    assert why(tmp_path, changed(TINY, "network.users", 19), "train", last=last) == "new"


# Options.


def test_options_are_taken_out_of_a_config():
    config = {"wanted": "a/*.svg", "part_seconds": "30", "study": "s"}
    assert session.options(config) == (("a/*.svg",), 30.0)
    assert config == {"study": "s"}
    assert session.options({}) == ((), None)
    assert session.options({"wanted": ["a", "b"]}) == (("a", "b"), None)
    assert session.study_values(["wanted=store", "part_seconds=3", "base={}"]) == ["base={}"]


@pytest.mark.parametrize("seconds", [0, -1, "x", [], float("nan"), True])
def test_seconds_of_a_part_that_are_no_positive_number_are_refused(seconds):
    with pytest.raises(ScenarioError, match=r"part_seconds: .* is wrong: must be a number of seconds above 0"):
        session.options({"part_seconds": seconds})


# The published view.


class View:
    """A study's folder, and the store that it shows."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder / "results/mine", folder / "store"
        for name in "abc":
            path = self.store / f"tables/{name}/file.csv"
            path.parent.mkdir(parents=True)
            path.write_text(name)
            sealed.seal_folder(path.parent)

    def put(self, kind: str = publish.ALL, **view: str) -> None:
        """Publish files of addresses, by their names without suffix, `_` for a folder."""
        mark = self.store.parent / f".pwfl/mine/{kind}.shown"
        publish.publish(mark, self.view(**view), "pwfl run study.yaml", [])

    def view(self, **view: str) -> dict[str, str]:
        return {f"{name.replace('_', '/')}.csv": f"tables/{address}/file.csv" for name, address in view.items()}

    def files(self) -> dict[str, str]:
        """All files but records, with their content."""
        paths = [path for path in self.folder.rglob("*") if path.is_file() and publish.FOLDER not in path.parts]
        return {str(path.relative_to(self.folder)): path.read_text() for path in paths}

    def is_shown(self, kind: str = publish.ALL, **view: str) -> bool:
        return publish.is_shown(publish.latest(self.folder, kind), self.view(**view), self.folder)


@pytest.fixture
def shown(tmp_path):
    return View(tmp_path)


def test_a_view_is_shown_once_it_is_published_until_a_file_of_it_is_edited(shown):
    wanted = {"x": "a", "one_y": "b"}
    assert not shown.is_shown(**wanted)
    assert publish.latest(shown.folder) is None
    shown.put(**wanted)
    assert shown.files() == {"x.csv": "a", "one/y.csv": "b"}
    assert shown.is_shown(**wanted)
    assert not shown.is_shown(x="a")
    assert not shown.is_shown(x="b", one_y="b")
    path = shown.folder / "x.csv"
    os.utime(path, (1, 1))
    assert shown.is_shown(**wanted)  # touched, not edited
    path.write_text("c")
    assert not shown.is_shown(**wanted)
    shown.put(**wanted)
    assert shown.files() == {"x.csv": "a", "one/y.csv": "b"}
    path.unlink()
    assert not shown.is_shown(**wanted)


def test_only_what_was_published_is_removed(shown):
    shown.put(x="a", one_y="b", two_z="c")
    (shown.folder / "one/mine.csv").write_text("kept")
    shown.put(x="b")
    assert shown.files() == {"x.csv": "b", "one/mine.csv": "kept"}
    assert not (shown.folder / "two").exists()


def records(shown: View) -> list[str]:
    return sorted(path.name.removesuffix(".json") for path in (shown.folder / publish.FOLDER).iterdir())


def test_records_of_parts_go_with_what_they_say_when_all_is_published(shown):
    shown.put("wanted_1", x="a")
    (folder := publish.record_path(shown.folder, "whoever_made_that")).mkdir()
    shown.put(x="b")
    assert records(shown) == ["study", "whoever_made_that"]
    folder.rmdir()
    assert shown.is_shown(x="b")


def test_a_part_replaces_the_same_part_alone_and_the_whole_replaces_all(shown):
    shown.put(x="a", y="b")
    shown.put("wanted_1", one_noise="c")
    shown.put("wanted_2", two_noise="c")
    assert set(shown.files()) == {"x.csv", "y.csv", "one/noise.csv", "two/noise.csv"}
    shown.put("wanted_1", one_loss="c")
    assert set(shown.files()) == {"x.csv", "y.csv", "one/loss.csv", "two/noise.csv"}
    assert shown.is_shown(x="a", y="b")
    assert shown.is_shown("wanted_2", two_noise="c")
    shown.put(x="a")
    assert set(shown.files()) == {"x.csv"}


def test_a_file_of_the_store_that_was_edited_is_not_published(shown):
    (shown.store / "tables/a/file.csv").write_text("b")
    with pytest.raises(sealed.DamagedError, match=r"tables/a/file.csv is corrupt: it was changed after .*rm -f"):
        shown.put(x="a")
    assert publish.latest(shown.folder) is None
    shown.put(y="b", one_z="c")
    with pytest.raises(sealed.DamagedError):
        shown.put(x="a")
    assert shown.files() == {"y.csv": "b", "one/z.csv": "c"}  # what was there stays
    assert shown.is_shown(y="b", one_z="c")


def test_the_kind_of_a_record_is_what_was_wanted(tmp_path):
    part = ("one/noise.*",)
    records = {session_of(tmp_path, changed(TWO, "schedule.horizon", horizon), part).record for horizon in (4, 5)}
    assert len(records) == 1
    assert session_of(tmp_path, TWO, ("two/noise.*",)).record not in records
    found, root = session_of(tmp_path, TWO), Store(tmp_path / "store")
    touch(found.work, list(found.work.items()), root)
    for item in found.work.jobs:
        root.path(f"{item.key}/{sealed.MANIFEST}").unlink()
        sealed.seal_folder(root.path(item.key))
    found.write_marks()
    publish_view(found)
    again = session_of(tmp_path, TWO)
    assert (again.is_shown, again.record, again.lacks) == (True, found.record, set())
    trained, *_ = stages(found.work, "train")
    shutil.rmtree(root.path(trained.key))
    assert session_of(tmp_path, TWO).lacks == set()  # the folder shows the study
    assert session_of(tmp_path, TWO, ("store",)).lacks == {trained.key}


def test_a_record_that_cannot_be_read_is_none(shown):
    shown.put(x="a")
    assert publish.latest(shown.folder).command == "pwfl run study.yaml"
    publish.record_path(shown.folder, publish.ALL).write_text('{"command": 1')
    assert publish.latest(shown.folder) is None
    assert publish.latest(shown.folder, "wanted_1") is None


STAMP = ["a", 1, 2, "d"]


@pytest.mark.parametrize(
    "change",
    [
        {"command": 5},
        {"values": None},
        {"files": [1]},
        {"files": {"x.csv": 5}},
        {"files": {"x.csv": STAMP[:3]}},
        {"files": {"x.csv": [1, *STAMP[1:]]}},
        {"files": {"../mine.yaml": STAMP}},
        {"files": {"/mine.yaml": STAMP}},
    ],
    ids=str,
)
def test_a_record_of_other_types_or_places_is_none(shown, change):
    held = {"command": "pwfl run study.yaml", "values": [], "files": {"x.csv": STAMP}}
    path = publish.record_path(shown.folder, publish.ALL)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(held))
    assert publish.latest(shown.folder).files == {"x.csv": tuple(STAMP)}
    path.write_text(json.dumps(held | change))
    assert publish.latest(shown.folder) is None
    (shown.folder.parent / "mine.yaml").write_text("kept")
    shown.put(x="a")
    assert (shown.folder.parent / "mine.yaml").read_text() == "kept"


# The store.


FILES = ["a.csv", "b.csv"]


def create(root: Store, workspace: Path, text: str, names: list[str] = FILES, fails: bool = False) -> None:
    with root.create("noise/x/000000-000001", FILES, workspace) as folder:
        for name in names:
            (folder / name).write_text(text)
        if fails:
            raise ZeroDivisionError


def content(root: Store) -> list[str]:
    folder = root.path("noise/x/000000-000001")
    return [(folder / name).read_text() for name in FILES]


def test_an_item_appears_whole_or_not_at_all(tmp_path):
    root = Store(tmp_path)
    with root.workspace() as workspace:
        with pytest.raises(ZeroDivisionError):
            create(root, workspace, "half", FILES[:1], fails=True)
        assert not root.path("noise/x/000000-000001").exists()
    assert list((tmp_path / items.PARTIAL).iterdir()) == []
    with root.workspace() as workspace:
        create(root, workspace, "whole")
        assert root.has("noise/x/000000-000001", FILES)
        assert not root.has("noise/x/000000-000001", [*FILES, "c.csv"])
    assert content(root) == ["whole", "whole"]


def test_of_two_who_make_an_item_the_first_one_counts(tmp_path):
    root = Store(tmp_path)
    with root.workspace() as one, root.workspace() as two:
        with root.create("noise/x/000000-000001", FILES, one) as folder:
            for name in FILES:
                (folder / name).write_text("later")
            create(root, two, "first")
        assert content(root) == ["first", "first"]


def test_an_incomplete_item_is_replaced(tmp_path):
    root = Store(tmp_path)
    root.path("noise/x/000000-000001").mkdir(parents=True)
    root.path("noise/x/000000-000001/a.csv").write_text("left over")
    with root.workspace() as workspace:
        create(root, workspace, "whole")
    assert content(root) == ["whole", "whole"]
    assert list((tmp_path / items.PARTIAL).iterdir()) == []


def test_who_is_at_work_on_what_is_announced_for_a_while(tmp_path):
    root = Store(tmp_path)
    with root.workspace() as workspace:
        root.announce(["noise/x/000000-000001"], workspace)
        assert root.is_announced("noise/x/000000-000001", 60.0)
        assert not root.is_announced("noise/x/000001-000002", 60.0)
        assert not root.is_announced("noise/x/000000-000001", -1.0)  # it takes longer than was thought
        create(root, workspace, "whole")
        assert not root.is_announced("noise/x/000000-000001", 60.0)


def test_what_killed_jobs_left_is_swept_once_it_is_old_and_plans_are_in_use_until_then(tmp_path):
    root = Store(tmp_path)
    root.use("old", ["a"])
    root.use("new", ["b", "c"])
    (tmp_path / items.IN_USE / "damaged.json").write_text("{")
    (tmp_path / items.PARTIAL / "old" / "noise").mkdir(parents=True)
    assert root.in_use() == {"a", "b", "c"}
    before = time.time() - 2 * items.ABANDONED_SECONDS
    for path in (items.IN_USE + "/old.json", items.PARTIAL + "/old"):
        os.utime(tmp_path / path, (before, before))
    with root.workspace() as workspace:
        root.sweep()
        assert [path.name for path in (tmp_path / items.PARTIAL).iterdir()] == [workspace.name]
    assert root.in_use() == {"b", "c"}


# A part's job.


def test_a_part_that_lacks_items_ends_with_an_error_where_no_other_part_needs_it(tmp_path, monkeypatch):
    config = own(tmp_path, monkeypatch, broken="raise ValueError('no idea')")
    work, root = work_of(tmp_path, config), Store(tmp_path / "store")
    run(work, stages(work, "dataset", "channel"), root)
    chosen = [
        item for item in stages(work, "schedule") if work.descriptions[item.address]["variant"] == "broken.py:chosen"
    ]
    manifest, mark = one_part(work, chosen, root), tmp_path / ".pwfl/study/rule/part.done"
    failed = job(manifest, tmp_path, check=True)
    assert [*failed] == [item.key for item in chosen]
    assert mark.exists()
    mark.unlink()
    assert job(manifest | {"is_last": True}, tmp_path) == failed
    assert not mark.exists()
    said = jobs.failure_message(failed)
    assert said.startswith("1 result could not be computed; all that do not depend on it are in the store:")
    assert "no idea" in said


def test_what_is_computed_again_replaces_what_there_is_and_says_where_bits_differ(tmp_path):
    work, root = work_of(tmp_path, ONE_CHUNK), Store(tmp_path / "store")
    channel = stages(work, "channel")
    run(work, channel, root)
    (part,) = manifests(work, channel, root)
    (key,) = (item.key for item in channel)
    mark = tmp_path / ".pwfl/study/rule/part.done"
    mark.parent.mkdir(parents=True)
    users, cost_ = root.path(f"{key}/users.parquet"), root.path(f"{key}/{items.COST}")
    same = users.read_bytes()

    def told(is_again: bool) -> str:
        """What a job says on the terminal."""
        mark.with_suffix(".json").write_text(json.dumps(part | {"again": is_again}))
        call = f"from pwfl.workflow import jobs; jobs.run_part({str(mark)!r}, 'part.log')"
        return python("-c", call, cwd=tmp_path, check=True).stderr

    stamp = root.stamp(key)
    assert told(is_again=False) == ""
    assert root.stamp(key) == stamp
    assert told(is_again=True) == ""
    assert root.stamp(key) != stamp
    assert users.read_bytes() == same
    for processor, is_said in (("another one", False), (devices.processor("cpu"), True)):
        users.write_bytes(b"other bits")
        cost_.write_text(json.dumps(json.loads(cost_.read_text()) | {"processor": processor}))
        said = told(is_again=True)
        assert (f"{key}: computed again on the same kind of processor" in said) == is_said
        assert users.read_bytes() == same
    shutil.rmtree(root.root / ".partial", ignore_errors=True)


def test_what_fails_when_it_is_computed_again_stays_as_it_was(tmp_path, monkeypatch):
    work, root = work_of(tmp_path, SMALL), Store(tmp_path / "store")
    before = stages(work, "channel", "schedule")
    run(work, before, root)
    manifest = one_part(work, stages(work, "schedule"), root)
    for item in manifest["items"]:
        item["old"] = root.stamp(item["key"])
    shutil.rmtree(root.path("channel"))
    with root.workspace() as workspace:
        told = Told()
        assert compute.compute(manifest, root, workspace, set(), told)
    assert len(told.errors) == len(manifest["items"])
    assert all("was deleted; `--config wanted=store` computes it" in error for error in told.errors.values())
    assert [root.stamp(item["key"]) for item in manifest["items"]] == [item["old"] for item in manifest["items"]]


def left(root: Store) -> dict[str, bytes]:
    """All files of items, but what says how long they took."""
    return {
        str(path.relative_to(root.root)): path.read_bytes()
        for path in root.root.glob("[!.]*/**/*")
        if path.is_file() and path.name != items.COST
    }


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    """A folder in which all parts of a study of two scenarios were computed, in this process."""
    folder = tmp_path_factory.mktemp("computed")
    work, root = work_of(folder, TWO), Store(folder / "store")
    told = run(work, list(work.items()), root)
    assert told.errors == {}
    return folder


def test_a_part_computed_at_once_equals_its_items_computed_one_by_one_in_another_order(computed, tmp_path):
    work, root = work_of(tmp_path, TWO), Store(tmp_path / "store")
    order = list(dict.fromkeys(item.stage for item in work.items()))
    for stage in order:
        for item in reversed(stages(work, stage)):
            assert run(work, [item], root).errors == {}
    expected = left(Store(computed / "store"))
    found = left(root)
    assert sum(path.endswith(".svg") for path in found) > 10
    assert [path for path in {**found, **expected} if found.get(path) != expected.get(path)] == []


@pytest.mark.parametrize("system", registry.BUILT_IN)
def test_what_the_store_writes_beside_an_item_has_no_name_of_a_file_of_it(tmp_path, system):
    config = {"base": registry.system(system).catalog.tiny | {"system": system}, "scenarios": {"one": {}, "two": {}}}
    work = work_of(tmp_path, config)
    files = {file for item in work.items() for file in work.outputs(item)}
    assert not files & {items.COST, items.DESCRIPTION}
    assert {file for file in files if file.startswith(".")} == {sealed.MANIFEST}


def test_each_item_says_what_it_took_and_is_described(computed):
    root, work = Store(computed / "store"), work_of(computed, TWO)
    for item in work.items():
        held = json.loads(root.path(f"{item.key}/{items.COST}").read_bytes())
        assert held["seconds"] > 0
        assert held["realizations"] == len(grids.realizations(item.chunk))
        assert held["system"] == work.descriptions[item.address].get("system", "")
        description = yaml.safe_load(root.path(f"{item.stage}/{item.address}/{items.DESCRIPTION}").read_text())
        assert description["address"] == item.address


def test_an_item_that_lacks_one_of_its_files_fails_and_says_which(tmp_path, monkeypatch):
    work, root = work_of(tmp_path, ONE_CHUNK), Store(tmp_path / "store")
    resolved = stages(work, "resolved")
    monkeypatch.setitem(reporting.JOBS, "resolved", lambda job, inputs, folder: None)
    told = run(work, resolved, root)
    assert told.errors.keys() == {item.key for item in resolved}
    assert all(re.search(r"resolved made no \w+\.\w+ ", error) for error in told.errors.values())
    assert not any(root.has(item.key, work.outputs(item)) for item in resolved)


def test_a_failed_item_keeps_nothing_from_being_computed_but_what_is_made_of_it(tmp_path, monkeypatch):
    config = own(tmp_path, monkeypatch, broken="raise ValueError('no idea')", right="pass")
    work, root = work_of(tmp_path, config), Store(tmp_path / "store")
    told = run(work, stages(work, *STAGES), root)
    broken = {item.key for item in stages(work, "schedule") if "broken" in work.descriptions[item.address]["variant"]}
    assert len(broken) == 1
    assert told.errors.keys() == broken
    assert all("broken.py:chosen: fails: ValueError: no idea" in error for error in told.errors.values())
    lost = set(broken)
    for item in stages(work, *STAGES):
        if not lost.isdisjoint(work.needs(item)):
            lost.add(item.key)
        assert root.has(item.key, work.outputs(item)) == (item.key not in lost)
    assert len(lost) > len(broken)
    assert not lost & set(told.begun) - broken


def test_of_chunks_that_are_computed_at_once_only_the_one_that_fails_is_lost(tmp_path, monkeypatch):
    work, root = work_of(tmp_path, SMALL), Store(tmp_path / "store")
    trained = stages(work, "train")
    assert run(work, [item for item in stages(work, *STAGES) if item not in trained], root).errors == {}
    execute, broken = execution.execute, [item for item in trained if item.chunk == "000010-000020"]

    def fails(task, found):
        if 10 in task.realizations and task.stage == "train":
            raise ValueError("no idea")
        return execute(task, found)

    monkeypatch.setattr(execution, "execute", fails)
    told = run(work, trained, root)
    assert sorted(told.errors) == sorted(item.key for item in broken)
    assert all("no idea" in error for error in told.errors.values())
    assert parts.needed(work, [item.key for item in trained], root) == broken
    assert 0 < len(broken) < len(trained)


def test_a_process_that_has_grown_ends_and_another_one_goes_on(tmp_path, monkeypatch):
    work, root = work_of(tmp_path, FOUR), Store(tmp_path / "store")
    manifest = one_part(work, stages(work, "channel"), root)
    assert len(manifest["items"]) == 4
    size = iter([0, 0, compute.GROWTH, compute.GROWTH + 1])
    monkeypatch.setattr(supervisor, "memory", lambda: next(size))
    told = Told()
    with root.workspace() as workspace:
        assert not compute.compute(manifest, root, workspace, set(), told)
        assert len(told.begun) == 3
        monkeypatch.setattr(supervisor, "memory", lambda: 0)
        assert compute.compute(manifest, root, workspace, set(), told)
    assert told.begun == [item["key"] for item in manifest["items"]]


def test_items_that_another_run_computes_come_last_and_are_not_computed_twice(tmp_path):
    work, root = work_of(tmp_path, FOUR), Store(tmp_path / "store")
    manifest = one_part(work, stages(work, "channel"), root)
    first, second, *others = [item["key"] for item in manifest["items"]]
    told = Told()
    with root.workspace() as theirs, root.workspace() as workspace:
        root.announce([first, second], theirs)
        manifest["seconds"] = 4.0
        touch_later = threading.Timer(1.0, touch, (work, stages(work, "channel")[:1], root))
        touch_later.start()
        assert compute.compute(manifest, root, workspace, set(), told)
        touch_later.join()
    assert told.begun == [*others, second]  # the other run seems to be dead


def test_a_job_whose_code_changed_since_it_was_planned_fails(tmp_path, monkeypatch):
    work, root = work_of(tmp_path, TWO), Store(tmp_path / "store")
    manifest = one_part(work, stages(work, "channel")[:1], root)
    (description,) = manifest["descriptions"].values()
    description["code"] = "0" * len(description["code"])
    manifest["stamp"] = "another one"
    told = Told()
    with root.workspace() as workspace:
        assert compute.compute(manifest, root, workspace, set(), told)
    (error,) = told.errors.values()
    assert "of channel changed after this job was planned" in error


DOES = {
    "patches": "np.log = np.sin; np.random.seed(1)",
    "folder": "os.chdir('/')",
    "environment": "os.environ.clear()",
    "exits": "raise SystemExit(0)",
    "leaves": "os._exit(0)",
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
}


def test_whatever_users_code_does_to_its_process_touches_nothing_else(tmp_path, monkeypatch):
    config = own(tmp_path, monkeypatch, **DOES, right="pass")
    work, root = work_of(tmp_path, config), Store(tmp_path / "store")
    told = run(work, stages(work, *STAGES), root)
    made: dict[str, list[pl.DataFrame]] = {}
    errors: dict[str, set[str]] = {}
    for item in stages(work, "schedule"):
        name = work.descriptions[item.address]["variant"].partition(".py")[0]
        if item.key in told.errors:
            said = told.errors[item.key].rpartition(" (log")[0]
            errors.setdefault(name, set()).add(re.sub(r"^.*?\): ", "", said))
        else:
            made.setdefault(name, []).append(pl.read_parquet(root.path(f"{item.key}/schedule.parquet")))
    assert made.keys() == {"random", "right", "folder", "environment", "patches"}
    for name in ("folder", "environment", "patches"):
        assert all(one.equals(two) for one, two in zip(made[name], made["right"], strict=True))
    (killed,), (leaves,), (exits,) = (errors[name] for name in ("killed", "leaves", "exits"))
    assert killed == "its process ended with SIGKILL (out of memory?)"
    assert leaves == "its process ended with exit status 0"
    assert "exits.py:chosen: fails: SystemExit: 0" in exits
    # What was computed beside them is what it is without them.
    alone = work_of(tmp_path, own(tmp_path, monkeypatch, right="pass"))
    other = Store(tmp_path / "other")
    assert run(alone, stages(alone, *STAGES), other).errors == {}
    expected, found = left(other), left(root)
    assert [path for path in expected if found.get(path) != expected[path]] == []


def test_two_files_of_one_name_are_two_functions(tmp_path, monkeypatch):
    """One schedules nobody, the other one the first user of each realization."""
    config = own(tmp_path, monkeypatch, one="pass")
    (tmp_path / "other").mkdir()
    first = "block = np.full(uplink.cell.shape, -1); block[:, 0] = 0; return block"
    (tmp_path / "other/one.py").write_text(OWN.format(does=first))
    more = {"name": "two", "scheduler": "other/one.py:chosen", "noise": "none"}
    config = changed(config, "schemes", [*config["base"]["schemes"], more])
    work, root = work_of(tmp_path, config), Store(tmp_path / "store")
    assert run(work, stages(work, *STAGES[:3]), root).errors == {}
    scheduled = Counter()
    for item in stages(work, "schedule"):
        blocks = pl.read_parquet(root.path(f"{item.key}/schedule.parquet"))["assigned_block"]
        scheduled[work.descriptions[item.address]["variant"]] += (blocks >= 0).sum()
    assert scheduled["one.py:chosen"] == 0
    assert scheduled["other/one.py:chosen"] == 10  # a chunk is computed whole


# The logger plugin.


NAMED = r"[a-z]+ \d+-[0-9a-f]{6}"  # a part


def logged(folder: Path, *arguments: str, config: dict = SMALL) -> tuple[int, str]:
    """The exit status of the workflow with the logger, and what it says."""
    write_config(folder, config)
    call = [*command(folder), "--logger", "pwfl", *arguments]
    result = subprocess.run(call, capture_output=True, text=True, env=environment(), check=False)
    return result.returncode, result.stdout + result.stderr


def test_a_dry_run_prints_a_line_for_each_part_with_its_reason(tmp_path):
    status, said = logged(tmp_path, "--dry-run")
    assert status == 0, said
    found = session_of(tmp_path, SMALL).parts
    lines = [line for line in said.splitlines() if re.match(NAMED, line)]
    assert {line.partition(":")[0] for line in lines} == {path.replace("/", " ") for path in found}
    assert len(lines) == len(found)
    assert all(
        re.fullmatch(rf"{NAMED}: [\d,]+ results?.*, about \d+ seconds? \((first result: )?new\)", line)
        for line in lines
    )
    assert "reason:" not in said
    assert said.count("Job stats:") == 1
    assert not (tmp_path / "store").exists()


def test_a_run_with_nothing_to_do_ends_like_one_that_did_something(own):
    said = [logged(own, *options)[1] for options in ((), ("--dry-run",))]
    assert all("Nothing to be done" in each for each in said)
    ends = "The study is finished. Report: results/small/index.html (`pwfl open small`)"
    assert [each.count(ends) for each in said] == [1, 0]


def test_pwfl_run_takes_targets_and_options(tmp_path):
    write_config(tmp_path, SMALL)
    result = python(*PWFL[1:], "run", "study.yaml", "all", "--dry-run", "--cores", "1", cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert re.search(r"^channel 1-[0-9a-f]+: ", result.stdout + result.stderr, flags=re.MULTILINE)


def test_a_run_says_how_far_it_is_from_the_first_job_on(tmp_path):
    planned_ = session_of(tmp_path, SMALL).parts
    status, said = logged(tmp_path)
    assert status == 0, said
    lines = said.splitlines()
    told = [re.match(r" *(\d+) s: (\d+) of (\d+) results, about [\d.]+ core-\w+ left", line) for line in lines]
    times = [int(line[1]) for line in told if line]
    # A machine that is busy tells later: what is held here is that the first line does not wait for a job's end.
    assert times[0] <= progress.LINE_SECONDS
    assert max(np.diff(times), default=0) <= 3 * progress.LINE_SECONDS
    counts, total = [int(line[2]) for line in told if line], sum(len(part.items) for part in planned_.values())
    assert counts == sorted(counts)
    assert counts[0] < total / 2
    assert {int(line[3]) for line in told if line} == {total}
    assert "The study is finished" in said


def manifest_of(folder: Path, name: str, keys: list[str]) -> Path:
    """The mark of a part of trainings, whose manifest is written."""
    mark = folder / f".pwfl/study/train/{name}.done"
    mark.parent.mkdir(parents=True, exist_ok=True)
    some = [{"key": key, "files": ["history.parquet"]} for key in keys]
    held = {"rule": "train", "seconds": 30.0, "again": False, "items": some}
    mark.with_suffix(".json").write_text(json.dumps(held))
    return mark


def test_a_part_whose_job_died_is_still_to_be_computed(tmp_path, monkeypatch):
    mark, shown = manifest_of(tmp_path, "1", ["train/a"]), progress.Progress()
    monkeypatch.setattr(shown, "_print", lambda: None)
    left = "0 of 1 results, about 30 core-seconds left"
    for _ in range(2):  # a retry
        shown.started(mark)
        assert shown.line(shown.news) == f"{left}; running train 1 (0 of 1)"
        shown.failed(mark)
        assert shown.line(shown.news) == left


def test_what_is_left_follows_what_jobs_of_the_same_rule_took(tmp_path, monkeypatch):
    """A job took twice its estimate, another one failed; a third one is late, and half done."""
    now, shown = [0.0], progress.Progress()
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(shown, "_print", lambda: None)
    keys = {number: [f"train/{number}/a", f"train/{number}/b"] for number in (1, 2, 3, 4)}
    marks = {number: manifest_of(tmp_path, str(number), held) for number, held in keys.items()}

    shown.started(marks[1])
    now[0] = 60.0
    for key in keys[1]:
        made(tmp_path, key)
    marks[1].touch()
    assert shown.line(now[0]) == "2 of 8 results, about 3 core-minutes left"
    shown.started(marks[2])
    marks[2].touch()
    assert shown.line(now[0]) == "2 of 8 results, 2 failed or skipped, about 120 core-seconds left"
    shown.started(marks[3])
    now[0] = 160.0
    made(tmp_path, keys[3][0])
    assert shown.line(now[0]).endswith("about 160 core-seconds left; running train 3 (1 of 2)")


def test_a_mark_and_a_log_of_a_run_before_say_nothing_of_this_one(tmp_path, monkeypatch):
    mark, shown = manifest_of(tmp_path, "1", ["train/a"]), progress.Progress()
    monkeypatch.setattr(shown, "_print", lambda: None)
    monkeypatch.setattr(progress, "executor", "slurm")
    log = tmp_path / "logs/study/train/1.log"
    log.parent.mkdir(parents=True)
    for path in (mark, log):
        path.touch()
        os.utime(path, (1, 1))
    shown.started(mark)
    later = shown.news + progress.QUIET_SECONDS
    assert "0 of 1 results" in shown.line(shown.news)
    assert "; train 1 in the queue for 60 seconds" in shown.line(later)
    log.touch()
    assert "; train 1 running for 60 seconds (log: " in shown.line(later)


@pytest.fixture
def clock(monkeypatch):
    """Seconds on a clock that tests set."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def followed(folder: Path, monkeypatch, *names: str) -> progress.Progress:
    """The progress of a run of parts of two items each, all of which were started."""
    shown = progress.Progress()
    monkeypatch.setattr(shown, "_print", lambda: None)
    marks = [manifest_of(folder, name, [f"train/{name}/{item}" for item in "ab"]) for name in names]
    for mark in marks:
        shown.started(mark)
    return shown


def printed_until(shown: progress.Progress, clock, end: float, capsys) -> dict[int, str]:
    """What is printed by looks up to a time, each of which takes a second: second -> line."""
    while clock[0] < end:
        shown.look()
        clock[0] += progress.LOOK_SECONDS + 1.0
    lines = (line.partition(" s: ") for line in capsys.readouterr().err.splitlines())
    return {int(second): line for second, _, line in lines}


def made(folder: Path, key: str) -> None:
    (folder / "store" / key).mkdir(parents=True)
    (folder / "store" / key / "history.parquet").touch()


def test_a_line_is_printed_at_once_and_where_nothing_is_new_at_growing_distances(tmp_path, monkeypatch, clock, capsys):
    shown = followed(tmp_path, monkeypatch, "1", "2", "3", "4")
    (tmp_path / ".pwfl/study/train/4.done").touch()
    printed = printed_until(shown, clock, 3600 * 6, capsys)
    at = list(printed)
    look = progress.LOOK_SECONDS + 1.0
    assert at[0] == 0
    assert at[1] <= progress.LINE_SECONDS + look
    for before, after in pairwise(at[1:]):
        assert after - before <= min(max(progress.LINE_SECONDS, after / 2), progress.LONGEST_SECONDS) + look
    assert len(at) < 30
    assert printed[0] == (
        "0 of 8 results, 2 failed or skipped, about 90 core-seconds left; running train 1 (0 of 2), "
        "train 2 (0 of 2), train 3 (0 of 2)"
    )
    waits = {second: line for second, line in printed.items() if "no new result" in line}
    assert list(waits) == [second for second in printed if second >= progress.QUIET_SECONDS]
    second, first = next(iter(waits.items()))
    assert second < 2 * progress.QUIET_SECONDS + look
    running = ", ".join(
        f"train {k} running for {second} seconds (log: {tmp_path}/logs/study/train/{k}.log)" for k in (1, 2, 3)
    )
    assert first.endswith(f" core-minutes left; no new result for {second} seconds; {running}")
    # A new result is said at once.
    made(tmp_path, "train/1/a")
    later = printed_until(shown, clock, clock[0] + 4, capsys)
    assert next(iter(later.values())).startswith("1 of 8 results")


def test_on_a_cluster_it_is_said_which_jobs_are_queued(tmp_path, monkeypatch, clock):
    monkeypatch.setattr(progress, "executor", "slurm")
    shown = followed(tmp_path, monkeypatch, *map(str, range(1, 7)))
    (tmp_path / "logs/study/train").mkdir(parents=True)
    log = tmp_path / "logs/study/train/2.log"
    log.touch()
    shown.line(0.0)
    said = shown.line(60.0)
    jobs = f"train 1 in the queue for 60 seconds, train 2 running for 60 seconds (log: {log}), train 3 in the queue for"
    assert f"no new result for 60 seconds; {jobs}" in said
    assert said.endswith(" and 3 more jobs")


def test_where_all_jobs_are_done_and_the_run_does_not_end_that_is_said(tmp_path, monkeypatch, clock, capsys):
    shown = followed(tmp_path, monkeypatch, "1")
    made(tmp_path, "train/1/a")
    made(tmp_path, "train/1/b")
    (tmp_path / ".pwfl/study/train/1.done").touch()
    printed = printed_until(shown, clock, 80.0, capsys)
    assert list(printed) == [0, 60]
    assert printed[0] == "2 of 2 results, about 0 core-seconds left"
    assert printed[60] == (
        "2 of 2 results, about 0 core-seconds left; no new result for 60 seconds; no job of a stage is running"
    )


@pytest.mark.slow
def test_errors_are_printed_whole(tmp_path, monkeypatch):
    status, said = logged(tmp_path, config=changed(SMALL, "schedule.horizn", 3))
    assert status == 1
    assert "study.yaml: base.schedule.horizn: unknown key; did you mean 'horizon'?" in said
    monkeypatch.chdir(tmp_path)
    config = own(tmp_path, monkeypatch, broken="raise ValueError('no idea')")
    status, said = logged(tmp_path, "--keep-going", "--config", "wanted=one/parameters.csv", config=config)
    assert status == 0, said
    status, said = logged(tmp_path, "--keep-going", "--until", "schedule", config=config)
    assert status == 1
    assert re.search(
        r"Failed: schedule/\w+/\d+-\d+ \(scenario .one., scheduler broken.py:chosen, realization.*\): .*ValueError: no idea",
        said,
    )
    status, said = logged(tmp_path, "--keep-going", config=config)
    assert status == 1
    assert said.count("no idea") == 2  # as it happens, and in the list
    assert "Error in rule" not in said  # Snakemake's, of the last part, which fails as others did
    assert not (tmp_path / "results/users/index.html").exists()
    assert re.search(r"1 result could not be computed; all that do not depend on it are in the store", said)
