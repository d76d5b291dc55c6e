"""The store: what is shared, what is found again, what is refused, what is pruned."""

import shutil
import time
from collections import Counter

import numpy as np
import polars as pl
import pytest
import yaml

import stage_of
from conftest import REPORT, SMALL, TINY, changed, planned, snakemake, workflow
from pwfl.learning import datasets, sources
from pwfl.runtime import shards, store
from pwfl.scenario import ScenarioError, load, resolve
from pwfl.scenario.values import Values
from pwfl.stages import STAGES
from pwfl.work.stage import Task
from pwfl.workflow import execution, prune
from pwfl.workflow.plan import plan

pytestmark = pytest.mark.xdist_group("store")


def addresses(config: dict) -> dict:
    return stage_of.addresses(resolve(config["base"], {}))


# What is shared.


def stages_of(config: dict) -> Counter:
    return Counter(job.description["stage"] for job in plan(load(config, "a test")).jobs())


def test_a_sweep_of_gamma_computes_what_no_gamma_enters_once():
    scenarios = {f"gamma_{gamma}": {"schedule": {"gamma": float(gamma)}} for gamma in (1, 10, 100, 300, 999)}
    found = stages_of(TINY | {"scenarios": scenarios})
    shards_ = 2  # of optimization, and of training
    assert found["dataset"] == 1
    assert found["channel"] == shards_
    assert found["schedule"] == found["noise"] - 5 * shards_ == shards_ * (1 + 5)
    assert found["train"] == shards_ * (1 + 5 + 5)  # RndSched's once
    assert found["account"] == shards_ * 15  # gamma weighs the objective of every scheme


OTHER = changed(SMALL, "training.draws", 7) | {"study": "other"}


@pytest.fixture(scope="module")
def two(finished, tmp_path_factory):
    """The folder of the finished run, in which a study that trains otherwise ran, too."""
    folder = shutil.copytree(finished, tmp_path_factory.mktemp("two") / "run", copy_function=shutil.copy2)
    assert set(planned(folder, OTHER)) == {"train", "scenario", *REPORT}
    workflow(folder, OTHER)
    return folder


def test_a_study_takes_what_another_one_computed_and_leaves_its_results(two, finished):
    before = {path.relative_to(finished): path.read_bytes() for path in finished.glob("results/small/**/*.csv")}
    assert {path.relative_to(two): path.read_bytes() for path in two.glob("results/small/**/*.csv")} == before
    assert (two / "results/other/one/summary.csv").exists()
    assert planned(two, SMALL) == {}


def test_a_parameter_there_and_back_ends_with_the_same_files(two, finished, tmp_path):
    folder = shutil.copytree(two, tmp_path / "run", copy_function=shutil.copy2)
    there = OTHER | {"study": "small"}
    assert set(planned(folder, there)) == {"scenario", *REPORT} - {"audit"}
    workflow(folder, there)
    history = "results/small/one/history.csv"
    assert (folder / history).read_bytes() == (two / history.replace("small", "other")).read_bytes()
    assert (folder / history).read_bytes() != (finished / history).read_bytes()
    workflow(folder, SMALL)
    files = [path for top in ("results", "store") for path in (finished / top).rglob("*") if path.is_file()]
    assert len(files) > 60
    changed_ = [path for path in files if (folder / path.relative_to(finished)).read_bytes() != path.read_bytes()]
    assert changed_ == []


def test_a_scheme_that_reads_less_has_the_same_address_for_every_gamma():
    one, two = addresses(TINY), addresses(changed(TINY, "schedule.gamma", 7.0))
    same = {key for key in one if one[key]["address"] == two[key]["address"]}
    assert {key for key in one if key not in same and key[0] in ("schedule", "noise", "train")} == {
        key for key in one if key[1] == "optimal" and key[0] in ("schedule", "noise", "train")
    }
    assert ("train", "random", "random") in same


# What is found again.


def test_with_snakemakes_memory_lost_nothing_stale_is_taken(own):
    shutil.rmtree(own / ".snakemake")
    found = planned(own, changed(SMALL, "training.draws", 8))
    assert set(found) == {"train", "scenario", *REPORT} - {"audit"}


def test_more_realizations_compute_the_missing_ones_whatever_the_shards(finished):
    def made(optimized: int, trained: int) -> dict[str, str]:
        sizes = {"realizations": optimized, "training_realizations": trained}
        config = SMALL["base"] | sizes | {"shards": {"optimization": 5, "training": 5}}
        jobs = plan(load({"scenarios": {"one": config}}, "a test")).jobs()
        return {path: job.description["stage"] for job in jobs for path in job.outputs.values()}

    few, some, more = made(3, 2), made(4, 4), made(10, 10)
    assert some == few
    added = {path: stage for path, stage in more.items() if path not in few}
    assert all("/000005-000010/" in path for path in added)
    assert set(added.values()) == set(STAGES)
    # A report counts those that were asked for, though shards hold more.
    assert set(pl.read_csv(finished / "results/small/one/history.csv")["realization"]) == {0, 1, 2}


def test_shards_are_blocks_of_a_fixed_grid():
    assert shards.covering(0, 3, 5) == ["000000-000005"]
    assert shards.covering(0, 10, 5) == ["000000-000005", "000005-000010"]
    assert shards.covering(3, 6, 4) == ["000000-000004", "000004-000008"]
    assert shards.bounds("000004-000008") == (4, 8)


def test_shards_are_of_the_trained_where_training_is():
    numbers = {"realizations": 9, "training_realizations": 4}
    model = resolve(numbers | {"shards": {"optimization": 5, "training": 2}}, {})
    found = {stage: shards.of(model, stage) for stage in STAGES}
    assert found.pop("train") == ["000000-000002", "000002-000004"]
    assert set(map(tuple, found.values())) == {("000000-000005", "000005-000010")}


# What is refused; tables by themselves are in test_tables.py and test_kept.py.


def test_swapped_files_stop_the_workflow_are_named_and_made_anew(own):
    found = addresses(SMALL)
    one, two = (own / "store/noise" / found["noise", scheduler, "constant"]["address"] / "000000-000002/noise.parquet"
                for scheduler in ("random", "fixed"))  # fmt: skip
    right = two.read_bytes()
    shutil.copy2(one, two)
    account = found["account", "fixed", "constant"]["address"]
    target = f"store/account/{account}/000000-000002/outcome.parquet"
    outcome = (own / target).read_bytes()
    (own / target).unlink()
    result = snakemake(own, SMALL, target)
    assert result.returncode == 1
    said = f"(it holds address {one.parent.parent.name}, must be {two.parent.parent.name}"
    assert f"{two.relative_to(own)} is damaged {said}" in result.stdout + result.stderr
    assert f"rm {two.relative_to(own)}" in result.stdout + result.stderr
    two.unlink()
    workflow(own, SMALL, target)
    assert (two.read_bytes(), (own / target).read_bytes()) == (right, outcome)


@pytest.mark.parametrize("damage", [np.zeros_like, lambda a: np.roll(a, 1, axis=0), lambda a: a[:-1]])
@pytest.mark.parametrize("name", datasets.Dataset._fields[:4])  # digits name no users
def test_a_data_set_that_is_not_the_original_is_not_stored(monkeypatch, name, damage):
    arrays = dict(zip(datasets.Dataset._fields, sources.load("digits"), strict=False))
    task = Task("dataset", Values({}), "digits")
    assert (execution.execute(task, {})["dataset"][1] == arrays["y_train"]).all()
    monkeypatch.setattr(sources, "_load_digits", lambda: tuple((arrays | {name: damage(arrays[name])}).values()))
    with pytest.raises(datasets.DataError, match="digits: what scikit-learn ships is not the original"):
        execution.execute(task, {})


def test_a_job_with_other_code_than_planned_refuses_to_run(monkeypatch):
    description = addresses(SMALL)["channel", None, None]
    store.check_code(description)
    with pytest.raises(store.StoreError, match="the code of channel changed after this job was planned"):
        store.check_code(description | {"code": "0123456789abcdef"})
    with pytest.raises(store.StoreError, match=r"the packages of channel changed .*start the workflow again"):
        store.check_code(description | {"packages": description["packages"] | {"numpy": "1.0"}})


def test_another_version_of_a_package_has_another_address(monkeypatch):
    before, found = addresses(TINY), []
    for version in ("1.0", "2.0"):
        trained = {"tensorflow": version}
        monkeypatch.setattr(store, "packages", lambda *modules, files, of=trained: of if "train" in modules[0] else {})
        found.append(addresses(TINY))
    one, two = found
    assert {key[0] for key in one if one[key]["address"] != two[key]["address"]} == {"train"}
    assert "tensorflow" in before["train", "random", "random"]["packages"]
    assert "tensorflow" not in before["channel", None, None]["packages"]


# What is pruned.


def test_tables_of_no_study_are_pruned_once_they_are_an_hour_old(two, tmp_path, monkeypatch, capsys):
    folder = shutil.copytree(two, tmp_path / "run", copy_function=shutil.copy2)
    monkeypatch.chdir(folder)
    (folder / "kept.yaml").write_text(yaml.safe_dump(SMALL))
    (folder / "other.yaml").write_text(yaml.safe_dump(OTHER))
    prune.prune(["kept.yaml"])
    assert "in 0 folders unused" in capsys.readouterr().out  # all is younger than an hour
    later = time.time() + 2 * prune.YOUNG_SECONDS
    monkeypatch.setattr(prune.time, "time", lambda: later)
    prune.prune(["kept.yaml", "other.yaml"])
    assert "in 0 folders unused" in capsys.readouterr().out
    strangers = {d["address"] for d in addresses(OTHER).values()} - {d["address"] for d in addresses(SMALL).values()}
    assert strangers
    prune.prune(["kept.yaml"], delete=True)
    listed = capsys.readouterr().out
    assert all(address in listed for address in strangers)
    assert {path.name for path in folder.glob("store/*/*")} == {d["address"] for d in addresses(SMALL).values()}
    assert planned(folder, SMALL) == {}


def test_what_a_running_workflow_has_locked_is_not_pruned(tmp_path):
    folder = tmp_path / "store" / "channel" / "0123456789ab"
    folder.mkdir(parents=True)
    later = time.time() + 2 * prune.YOUNG_SECONDS
    assert prune.unused(tmp_path, set(), later) == [folder]
    locks = tmp_path / prune.LOCKS
    locks.mkdir(parents=True)
    (locks / "0.output.lock").write_text("store/channel/0123456789ab/000000-000002/users.parquet\n")
    assert prune.unused(tmp_path, set(), later) == []


def test_prune_says_what_is_wrong_with_a_config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.yaml").write_text("scenarios: {a: {rounds: 3}}")
    with pytest.raises(prune.PruneError, match="no folder store"):
        prune.prune(["c.yaml"])
    (tmp_path / "store").mkdir()
    with pytest.raises(ScenarioError, match=r"scenarios.a.rounds: unknown key"):
        prune.prune(["c.yaml"])


def test_an_address_follows_content_whatever_its_order_and_addresses_come_back_from_their_file(tmp_path):
    description = {"stage": "noise", "parameters": {"a": 1, "b": [2.0, None]}}
    backwards = {"parameters": {"b": [2.0, None], "a": 1}, "stage": "noise"}
    assert store.digest(description) == store.digest(backwards)
    assert store.digest(description) != store.digest(description | {"parameters": {"a": 1, "b": [None, 2.0]}})
    path = tmp_path / "addresses.csv"
    store.write_addresses([["one, two", "noise", "0a", "store/noise/0a"], ["three", "train", "0b", "x"]], str(path))
    assert store.read_addresses(path.read_bytes()) == {"one, two": {"noise": "0a"}, "three": {"train": "0b"}}
