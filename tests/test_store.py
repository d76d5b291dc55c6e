"""The store: what is shared, what is found again, what is refused, what is pruned."""

import re
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import polars as pl
import pytest
import yaml

import pwfl
import stage_of
from conftest import SMALL, TINY, changed, missing, planned, python, snakemake, workflow
from pwfl import execution, registry, tables
from pwfl.execution.stage import Task
from pwfl.learning import datasets, sources
from pwfl.scenario import ScenarioError, checks, load, resolve
from pwfl.scenario.chunks import MOST_BYTES, chunks_of, sizes_of
from pwfl.scenario.values import Values
from pwfl.store import addressing, code, grids, items
from pwfl.workflow import prune, reports
from pwfl.workflow.plan import plan


def addresses(config: dict) -> dict:
    return stage_of.addresses(resolve(config["base"], {}))


# What is shared.


def stages_of(config: dict) -> Counter:
    return Counter(item.stage for item in plan(load(config, "a test")).items())


def test_a_sweep_of_gamma_computes_what_no_gamma_enters_once():
    scenarios = {f"gamma_{gamma}": {"schedule": {"gamma": float(gamma)}} for gamma in (1, 10, 100, 300, 999)}
    found = stages_of(TINY | {"scenarios": scenarios})
    assert found["dataset"] == found["channel"] == 1
    assert found["schedule"] == found["noise"] - 5 == 1 + 5
    assert found["train"] == 3 * (1 + 5 + 5)  # each realization by itself; RndSched's once
    assert found["account"] == 15  # gamma weighs the objective of every scheme


OTHER = changed(SMALL, "training.draws", 7) | {"study": "other"}


@pytest.fixture(scope="module")
def two(finished, tmp_path_factory):
    """The folder of the finished run, in which a study that trains otherwise ran, too."""
    folder = shutil.copytree(finished, tmp_path_factory.mktemp("two") / "run", copy_function=shutil.copy2)
    assert set(planned(folder, OTHER)) == {"train", "report"}
    workflow(folder, OTHER)
    return folder


@pytest.mark.slow
def test_a_study_uses_what_another_one_computed_and_leaves_its_results(two, finished):
    before = {path.relative_to(finished): path.read_bytes() for path in finished.glob("results/small/**/*.csv")}
    assert {path.relative_to(two): path.read_bytes() for path in two.glob("results/small/**/*.csv")} == before
    assert (two / "results/other/one/summary.csv").exists()
    assert planned(two, SMALL) == {}


@pytest.mark.slow
def test_a_parameter_there_and_back_computes_nothing_and_ends_with_the_same_files(two, finished, tmp_path):
    folder = shutil.copytree(two, tmp_path / "run", copy_function=shutil.copy2)
    there = OTHER | {"study": "small"}
    assert missing(folder, there) == {"page": 1}  # which has the study's name
    workflow(folder, there)
    history = "results/small/one/history.csv"
    assert (folder / history).read_bytes() == (two / history.replace("small", "other")).read_bytes()
    assert (folder / history).read_bytes() != (finished / history).read_bytes()
    assert missing(folder, SMALL) == {}
    workflow(folder, SMALL)
    files = [path for path in (finished / "results").rglob("*") if path.is_file() and path.suffix != ".json"]
    assert len(files) > 40
    assert [path for path in files if (folder / path.relative_to(finished)).read_bytes() != path.read_bytes()] == []


def test_a_scheme_that_reads_less_has_the_same_address_for_every_gamma():
    one, two = addresses(TINY), addresses(changed(TINY, "schedule.gamma", 7.0))
    same = {key for key in one if one[key]["address"] == two[key]["address"]}
    assert {key for key in one if key not in same and key[0] in ("schedule", "noise", "train")} == {
        key for key in one if key[1] == "optimal" and key[0] in ("schedule", "noise", "train")
    }
    assert ("train", "random", "random") in same


# What is found again.


def test_with_the_memory_of_runs_lost_nothing_outdated_is_used(own):
    for name in (".snakemake", ".pwfl", "logs"):
        shutil.rmtree(own / name)
    assert planned(own, SMALL, "--rerun-triggers", "mtime") == {}
    assert set(planned(own, changed(SMALL, "training.draws", 8))) == {"train", "report"}


def test_more_realizations_compute_the_missing_ones_alone(finished):
    def made(optimized: int, trained: int) -> dict[str, str]:
        config = SMALL["base"] | {"realizations": optimized, "training_realizations": trained}
        return {item.key: item.stage for item in plan(load({"scenarios": {"one": config}}, "a test")).items()}

    few, some, more = made(3, 2), made(10, 10), made(20, 20)
    assert some == few
    added = {place: stage for place, stage in more.items() if place not in few}
    assert all(place.endswith("/000010-000020") for place in added)
    assert set(added.values()) == set(registry.stages("age_aware"))
    # A report counts those that were asked for, though chunks hold more.
    assert set(pl.read_csv(finished / "results/small/one/history.csv")["realization"]) == set(range(11))


@pytest.mark.parametrize("most", [100, 50, 9, 4, 1])
@pytest.mark.parametrize("sizes", [grids.TABLES, grids.TRAININGS])
@pytest.mark.parametrize("end", [None, 274])
def test_the_grid_does_not_move_when_more_realizations_are_asked_for(sizes, most, end):
    sizes = grids.fitting(sizes, most)
    whole = grids.covering(0, end or 1000, sizes, end)
    spans = [grids.bounds(name) for name in whole]
    assert spans[-1][1] == (end or 1000)
    assert [first for first, _ in spans[1:]] == [stop for _, stop in spans[:-1]]
    for count in range(1, 274):
        found = grids.covering(0, count, sizes, end)
        assert found == whole[: len(found)]
        assert grids.bounds(found[-1])[0] < count <= grids.bounds(found[-1])[1]
    for first, stop in ((0, 1), (3, 17), (99, 101), (250, 260)):
        covering = {name for name in whole if grids.bounds(name)[0] < stop and grids.bounds(name)[1] > first}
        assert grids.covering(first, stop, sizes, end) == sorted(covering)


def test_few_trainings_are_computed_in_vain_and_many_chunks_are_few():
    for count in (1, 2, 3, 4, 5, 10, 20, 30, 100, 1000):
        assert grids.bounds(grids.covering(0, count, grids.TRAININGS)[-1])[1] == count
    assert len(grids.covering(0, 100, grids.TRAININGS)) < 20
    assert len(grids.covering(0, 1000, grids.TABLES)) < 20


@pytest.mark.parametrize("system", registry.BUILT_IN)
def test_chunks_follow_from_what_the_channel_reads_alone(system):
    model = resolve({"system": system, "realizations": 9, "training_realizations": 4}, {})
    assert checks.realization_bytes(model) == checks.realization_bytes(model.select_stage("channel")) > 0
    of_tables = set(map(tuple, (chunks_of(model, stage) for stage in registry.stages(system) if stage != "train")))
    assert of_tables == {("000000-000010",)}
    trained = chunks_of(model, "train")
    assert trained == (["000000-000010"] if system == "age_aware" else [f"00000{k}-00000{k + 1}" for k in range(4)])


def test_chunks_of_large_networks_are_small():
    for users, size in ((1_000, 100), (20_000, 10), (10**6, 1)):
        model = resolve(
            {"network": {"users": users}, "data": {"dataset": "mnist"}, "channel": {"users": "users.csv"}}, {}
        )
        sizes = {stage: sizes_of(model, stage)[-1][1] for stage in ("channel", "account", "train")}
        assert sizes == {"channel": size, "account": size, "train": min(size, 10)}
        assert size == 1 or size * checks.realization_bytes(model) <= MOST_BYTES


# What is refused; tables by themselves are in test_tables.py and test_sealed.py.


@pytest.mark.slow
def test_swapped_files_are_named_and_made_again_as_the_message_says(own):
    found = addresses(SMALL)
    one, two = (own / "store/noise" / found["noise", scheduler, "constant"]["address"] / "000000-000010/noise.parquet"
                for scheduler in ("random", "fixed"))  # fmt: skip
    right = two.read_bytes()
    shutil.copy2(one, two)
    account = found["account", "fixed", "constant"]["address"]
    target = own / f"store/account/{account}/000000-000010/outcome.parquet"
    outcome = target.read_bytes()
    target.unlink()
    result = snakemake(own, SMALL, "--config", "wanted=store")
    assert result.returncode == 1
    said = result.stdout + result.stderr
    assert f"Failed: account/{account}/000000-000010 (scenario 'one', realizations 0 to 9): " in said
    assert f"its label says address {one.parent.parent.name}, expected {two.parent.parent.name}" in said
    (command,) = set(re.findall(r"Delete it \(`(rm -f store/[^`]*)`\) and run again", said))
    subprocess.run(command, shell=True, cwd=own, check=True)
    workflow(own, SMALL, "--config", "wanted=store")
    assert (two.read_bytes(), target.read_bytes()) == (right, outcome)


@pytest.mark.slow
def test_a_damaged_report_file_of_the_store_is_named_and_made_again_as_the_message_says(own):
    (summary,) = (own / "store/tables").glob("*/summary.parquet")
    right = summary.read_bytes()
    summary.write_bytes(right + b" ")
    shutil.rmtree(own / "store/comparison")
    (own / "results/small/claims.csv").unlink()
    result = snakemake(own, SMALL)
    assert result.returncode == 1
    (command,) = set(re.findall(r"Delete it \(`(rm -f store/[^`]*)`\) and run again", result.stdout + result.stderr))
    assert (own / "results/small/one/summary.csv").exists()  # what was published stays while something fails
    subprocess.run(command, shell=True, cwd=own, check=True)
    workflow(own, SMALL)
    assert summary.read_bytes() == right


@pytest.mark.parametrize("damage", ["deleted", "edited"])
def test_a_table_that_results_cannot_read_is_made_again_as_the_message_says(own, damage):
    table = min(own.glob("store/account/*/000000-000010/outcome.parquet"))
    expected = pwfl.results(own / "results/small").scenarios["one"].stages["outcome"]
    if damage == "deleted":
        table.unlink()
    else:
        table.write_bytes(table.read_bytes()[:-1] + b"?")
    with pytest.raises(tables.TableError) as error:
        _ = pwfl.results(own / "results/small").scenarios["one"].stages["outcome"]
    if damage == "deleted":
        (again,) = re.fullmatch(r".*: is missing; run the study again, by pwfl run (.*)", str(error.value)).groups()
    else:
        remove, again = re.fullmatch(
            r".* is corrupt: .* Delete it \(`(.*)`\) and run again, by pwfl run (.*)", str(error.value)
        ).groups()
        subprocess.run(remove, shell=True, cwd=own, check=True)
    result = python("-c", "from pwfl import cli; cli.main()", "run", *shlex.split(again), "--cores", "2", cwd=own)
    assert result.returncode == 0, result.stderr
    assert pwfl.results(own / "results/small").scenarios["one"].stages["outcome"].equals(expected)


@pytest.mark.parametrize("damage", [np.zeros_like, lambda a: np.roll(a, 1, axis=0), lambda a: a[:-1]])
@pytest.mark.parametrize("name", datasets.Dataset._fields[:4])  # digits name no users
def test_a_data_set_that_is_not_the_original_is_not_stored(monkeypatch, name, damage):
    arrays = dict(zip(datasets.Dataset._fields, sources.load("digits"), strict=False))
    task = Task("dataset", Values({}), "digits")
    assert (execution.execute(task, {})["dataset"][1] == arrays["y_train"]).all()
    monkeypatch.setattr(sources, "_load_digits", lambda: tuple((arrays | {name: damage(arrays[name])}).values()))
    with pytest.raises(datasets.DataError, match="digits: scikit-learn's copy differs from the original"):
        execution.execute(task, {})


def test_a_job_with_other_code_than_planned_refuses_to_run(monkeypatch):
    description = addresses(SMALL)["channel", None, None]
    addressing.check_code(description)
    with pytest.raises(addressing.StoreError, match="the code of channel changed after this job was planned"):
        addressing.check_code(description | {"code": "0123456789abcdef"})
    with pytest.raises(addressing.StoreError, match=r"the packages of channel changed .*start the workflow again"):
        addressing.check_code(description | {"packages": description["packages"] | {"numpy": "1.0"}}, "another stamp")


def test_the_stamp_of_pwfl_follows_all_of_its_bytes_and_all_versions(tmp_path, monkeypatch):
    """So a job that has it need not look at its code, which others do."""
    package, installed = tmp_path / "pwfl", tmp_path / "installed"
    (package / "inner").mkdir(parents=True)
    (package / "inner/one.py").write_text("ONE = 1\n")
    (installed / "numpy-1.0.dist-info").mkdir(parents=True)
    monkeypatch.setattr(code, "ROOT", package)
    monkeypatch.setattr(sys, "path", [str(installed)])

    def stamp() -> str:
        code._in.cache_clear()
        return code.stamp.__wrapped__()

    first = stamp()
    assert stamp() == first
    monkeypatch.setattr(sys, "path", [str(package), str(installed), str(installed)])  # as in a job of Snakemake
    assert stamp() == first
    (package / "inner/one.py").write_text("ONE = 1  # said otherwise\n")
    (second, _) = stamp(), (package / "inner/one.py").rename(package / "inner/two.py")
    (third, _) = stamp(), (installed / "numpy-1.0.dist-info").rename(installed / "numpy-2.0.dist-info")
    assert len({first, second, third, stamp()}) == 4
    code._in.cache_clear()


def test_code_is_looked_at_unless_the_stamp_tells_that_it_is_as_planned():
    description = addresses(SMALL)["channel", None, None] | {"code": "0123456789abcdef"}
    addressing.check_code(description, code.stamp())
    for other in (description | {"sources": ["lab"]}, description | {"functions": ["schedulers.py:mine"]}):
        with pytest.raises((addressing.StoreError, ModuleNotFoundError, OSError)):
            addressing.check_code(other, code.stamp())


def test_another_version_of_a_package_has_another_address(monkeypatch):
    found = []
    monkeypatch.setattr(code, "_describe_library", code._describe_library.__wrapped__)  # which keeps what it found
    for version in ("1.0", "2.0"):
        trained = {"tensorflow": version}
        monkeypatch.setattr(code, "_versions", lambda stage, _, of=trained: of if stage == "train" else {})
        found.append(addresses(TINY))
    one, two = found
    assert {key[0] for key in one if one[key]["address"] != two[key]["address"]} == {"train"}
    assert one["train", "random", "random"]["packages"] == {"tensorflow": "1.0"}


# What is pruned.


def report_addresses(config: dict) -> set[str]:
    planned_ = plan(load(config, "a test"))
    return {item.address for item in reports.plan(planned_, prune.EVERYTHING).jobs}


def test_results_of_no_study_are_pruned_once_they_are_an_hour_old(two, tmp_path, monkeypatch, capsys):
    folder = shutil.copytree(two, tmp_path / "run", copy_function=shutil.copy2)
    shutil.rmtree(folder / "store" / items.IN_USE)
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
    expected = {d["address"] for d in addresses(SMALL).values()} | report_addresses(SMALL)
    assert {path.name for path in folder.glob("store/[!.]*/*")} == expected
    assert planned(folder, SMALL) == {}


def test_what_a_recent_run_needs_is_not_pruned(two, tmp_path, monkeypatch, capsys):
    folder = shutil.copytree(two, tmp_path / "run", copy_function=shutil.copy2)
    monkeypatch.chdir(folder)
    (folder / "kept.yaml").write_text(yaml.safe_dump(SMALL))
    later = time.time() + 2 * prune.YOUNG_SECONDS
    monkeypatch.setattr(prune.time, "time", lambda: later)
    prune.prune(["kept.yaml"], delete=True)
    assert "in 0 folders deleted" in capsys.readouterr().out
    assert planned(folder, OTHER) == {}


def test_prune_says_what_is_wrong_with_a_config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.yaml").write_text("scenarios: {a: {rounds: 3}}")
    with pytest.raises(prune.PruneError, match=r"no folder \./store"):
        prune.prune(["c.yaml"])
    (tmp_path / "store").mkdir()
    with pytest.raises(ScenarioError, match=r"scenarios.a.rounds: unknown key"):
        prune.prune(["c.yaml"])


def test_an_address_follows_content_whatever_its_order_and_addresses_come_back_from_their_file(tmp_path):
    description = {"stage": "noise", "parameters": {"a": 1, "b": [2.0, None]}}
    backwards = {"parameters": {"b": [2.0, None], "a": 1}, "stage": "noise"}
    assert addressing.digest(description) == addressing.digest(backwards)
    assert addressing.digest(description) != addressing.digest(description | {"parameters": {"a": 1, "b": [None, 2.0]}})
    path, addresses_ = tmp_path / "addresses.csv", {"one, two": {"noise": "0a"}, "three": {"train": "0b"}}
    addressing.write_addresses(addresses_, str(path))
    assert path.read_text().splitlines()[1:] == ['"one, two",noise,0a,store/noise/0a', "three,train,0b,store/train/0b"]
    assert addressing.read_addresses(path.read_bytes()) == addresses_
