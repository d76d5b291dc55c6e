"""The store: what is shared, what is found again, what is refused, what is pruned."""

import json
import shutil
import time
from types import MappingProxyType

import numpy as np
import polars as pl
import pytest
import yaml

import stage_of
from conftest import REPORT, SMALL, TINY, changed, planned, snakemake, workflow
from pwfl import tables
from pwfl.learning import datasets, sources
from pwfl.runtime import kept, shards, store
from pwfl.scenario import resolve
from pwfl.scenario.values import Values
from pwfl.stages import STAGES
from pwfl.work.stage import Task
from pwfl.workflow import execution, prune

pytestmark = pytest.mark.xdist_group("store")


def addresses(config: dict) -> dict:
    return stage_of.addresses(resolve(config["base"], {}))


@pytest.fixture(scope="module")
def done(finished):
    """The first tables of the channel, and what a job of the noise stage that reads them says of itself."""
    found = addresses(SMALL)
    folder = finished / "store/channel" / found["channel", None, None]["address"] / "000000-000002"
    return folder, found["noise", "random", "constant"]


# What is shared.


def test_a_sweep_of_gamma_computes_what_no_gamma_enters_once(tmp_path):
    scenarios = {f"gamma_{gamma}": {"schedule": {"gamma": float(gamma)}} for gamma in (1, 10, 100, 300, 999)}
    found = planned(tmp_path, TINY | {"scenarios": scenarios})
    shards_ = 2  # of optimization, and of training
    assert found["dataset"] == 1
    assert found["channel"] == shards_
    assert found["schedule"] == found["noise"] - 5 * shards_ == shards_ * (1 + 5)
    assert found["train"] == shards_ * (1 + 5 + 5)  # RndSched's once
    assert found["account"] == shards_ * 15  # gamma weighs the objective of every scheme
    assert found["tables_multicell"] == 5


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
    assert set(found) == {"train", "scenario", *REPORT} - {"audited"}


def test_more_realizations_compute_the_missing_ones_whatever_the_shards(tmp_path):
    def asking(realizations: int, training: int) -> dict:
        sizes = {"realizations": realizations, "training_realizations": training}
        sizes |= {"shards": {"optimization": 5, "training": 5}, "schemes": SMALL["base"]["schemes"][:1]}
        return SMALL | {"base": SMALL["base"] | sizes}

    workflow(tmp_path, asking(3, 2))
    assert set(pl.read_csv(tmp_path / "results/small/one/realizations.csv")["realization"]) == {0, 1, 2}
    assert set(pl.read_csv(tmp_path / "results/small/one/history.csv")["realization"]) == {0, 1}
    found = planned(tmp_path, asking(10, 10))
    assert (found["channel"], found["train"], found["account"]) == (1, 1, 1)  # of the second shard alone
    assert set(planned(tmp_path, asking(4, 4))) == {"audit", "scenario", *REPORT}


def test_shards_are_blocks_of_a_fixed_grid():
    assert shards.names(3, 5) == ["000000-000005"]
    assert shards.names(10, 5) == ["000000-000005", "000005-000010"]
    assert shards.covering(3, 6, 4) == ["000000-000004", "000004-000008"]
    assert shards.bounds("000004-000008") == (4, 8)
    assert shards.names(2, 1) == ["000000-000001", "000001-000002"]


def test_shards_are_of_the_trained_where_training_is_and_one_for_the_audit():
    numbers = {"realizations": 9, "training_realizations": 4}
    model = resolve(numbers | {"shards": {"optimization": 5, "training": 2}, "audit": {"canaries": 50}}, {})
    found = {stage: shards.of(model, stage) for stage in STAGES}
    assert found.pop("audit") == ["all"]
    assert found.pop("train") == ["000000-000002", "000002-000004"]
    assert set(map(tuple, found.values())) == {("000000-000005", "000005-000010")}


# What is refused: the first tables of the random scheme, as a job of the noise stage reads them.


@pytest.fixture
def tampered(done, tmp_path):
    """A function that changes a copy of `users` by a function of its frame, or what it says of itself, and reads it.

    The copy's digest is right: what is refused here is what no digest tells.
    """
    folder, reader = done
    source = folder / "users.parquet"

    def read(change=lambda frame: frame, origin=MappingProxyType({}), shard="000000-000002", table="users"):
        path = tmp_path / shard / "users.parquet"
        path.parent.mkdir()
        label = json.loads(pl.read_parquet_metadata(source)["pwfl"])
        kept.write_table(change(pl.read_parquet(source)), str(path), label | origin)
        return tables.read(table, str(path), reader)

    return read


def test_an_untouched_table_is_read(tampered):
    assert set(tampered()["realization"]) == {0, 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.reverse(), "rows are not in the order of realization, user"),
        (lambda f: f.sample(fraction=1.0, shuffle=True, seed=1), "rows are not in the order of realization, user"),
        (lambda f: f.filter(pl.col("realization") == 0), "lacks realization 1"),
        (lambda f: f.with_columns(realization=pl.col("realization") + 2), "holds realization 2, must hold 0 to 1"),
        (lambda f: pl.concat([f, f]).sort("realization", "user"), "primary_key"),
        (lambda f: f.drop("samples"), "column 'samples' is missing"),
        (lambda f: f.with_columns(samples=pl.lit("x")), "column 'samples' holds String, must hold Int64"),
        (lambda f: f.with_columns(samples=-pl.col("samples")), "samples"),
    ],
)
def test_a_changed_table_is_refused(tampered, change, message):
    with pytest.raises(
        tables.TableError, match=f"(?s)users.parquet is damaged .*{message}.*delete it and run again: `rm"
    ):
        tampered(change)


@pytest.mark.parametrize(
    ("what", "value", "message"),
    [
        ("address", "0123456789ab", "holds address 0123456789ab, must be"),
        ("realizations", [2, 4], r"holds realizations \[2, 4\], must be \[0, 2\]"),
        ("table", "links", "holds table links, must be users"),
    ],
)
def test_a_table_of_another_origin_is_refused(tampered, what, value, message):
    with pytest.raises(tables.TableError, match=message):
        tampered(origin={what: value})


def test_a_table_of_another_shard_is_refused(tampered):
    with pytest.raises(tables.TableError, match=r"holds realizations \[0, 2\], must be \[2, 4\]"):
        tampered(shard="000002-000004")


def test_a_table_of_no_known_origin_is_refused(done, tmp_path):
    path = tmp_path / "users.parquet"
    pl.DataFrame({"a": [1]}).write_parquet(path)
    with pytest.raises(tables.TableError, match="does not say where it comes from"):
        tables.read("users", str(path), done[1])


@pytest.mark.parametrize("damage", ["empty", "text", "cut", "middle", "footer", "folder", "missing"])
def test_a_damaged_file_is_named_with_the_way_out(done, tmp_path, damage):
    folder, reader = done
    content = bytearray((folder / "users.parquet").read_bytes())
    if damage == "middle":
        content[len(content) // 3 : len(content) // 3 + 40] = bytes(40)
    if damage == "footer":
        content[-40:-20] = bytes(range(20))
    path = tmp_path / "000000-000002" / "users.parquet"
    path.parent.mkdir()
    if damage == "folder":
        path.mkdir()
    elif damage != "missing":
        path.write_bytes({"empty": b"", "text": b"x" * 500, "cut": content[:-100]}.get(damage, content))
    with pytest.raises(tables.TableError, match=f"{path} is damaged .*: delete it and run again: `rm"):
        tables.read("users", str(path), reader)


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
    output = result.stdout + result.stderr
    assert (
        f"{two.relative_to(own)} is damaged (it holds address {one.parent.parent.name}, must be {two.parent.parent.name}"
        in output
    )
    assert f"rm {two.relative_to(own)}" in output
    two.unlink()
    workflow(own, SMALL, target)
    assert (two.read_bytes(), (own / target).read_bytes()) == (right, outcome)


@pytest.mark.parametrize(
    "damage", [np.zeros_like, lambda a: np.roll(a, 1, axis=0), lambda a: a[:-1], lambda a: a[::-1]]
)
@pytest.mark.parametrize("name", datasets.Dataset._fields)
def test_a_data_set_that_is_not_the_original_is_not_stored(monkeypatch, name, damage):
    arrays = dict(zip(datasets.Dataset._fields, sources.load("digits"), strict=True))
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
    before = addresses(TINY)
    monkeypatch.setattr(store, "packages", lambda *modules: {"tensorflow": "1.0"} if "train" in modules[0] else {})
    store.code.cache_clear()
    one = addresses(TINY)
    monkeypatch.setattr(store, "packages", lambda *modules: {"tensorflow": "2.0"} if "train" in modules[0] else {})
    store.code.cache_clear()
    two = addresses(TINY)
    store.code.cache_clear()
    assert {key[0] for key in one if one[key]["address"] != two[key]["address"]} == {"train"}
    assert "tensorflow" in before["train", "random", "random"]["packages"]
    assert "tensorflow" not in before["channel", None, None]["packages"]


# What is pruned.


def test_tables_of_no_study_are_pruned_once_they_are_an_hour_old(two, tmp_path, monkeypatch, capsys):
    folder = shutil.copytree(two, tmp_path / "run", copy_function=shutil.copy2)
    monkeypatch.chdir(folder)
    (folder / "kept.yaml").write_text(yaml.safe_dump(SMALL))
    (folder / "other.yaml").write_text(yaml.safe_dump(OTHER))
    assert prune.main(["kept.yaml"]) == 0
    assert "in 0 folders unused" in capsys.readouterr().out  # all is younger than an hour
    later = time.time() + 2 * prune.YOUNG_SECONDS
    monkeypatch.setattr(prune.time, "time", lambda: later)
    assert prune.main(["kept.yaml", "other.yaml"]) == 0
    assert "in 0 folders unused" in capsys.readouterr().out
    strangers = {d["address"] for d in addresses(OTHER).values()} - {d["address"] for d in addresses(SMALL).values()}
    assert strangers
    assert prune.main(["kept.yaml", "--delete"]) == 0
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


def test_prune_says_what_is_wrong_with_a_config(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.yaml").write_text("scenarios: {a: {rounds: 3}}")
    assert prune.main(["c.yaml"]) == 1
    assert "no folder store" in capsys.readouterr().err
    (tmp_path / "store").mkdir()
    assert prune.main(["c.yaml"]) == 1
    assert "scenarios.a.rounds: unknown key" in capsys.readouterr().err
