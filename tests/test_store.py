"""The store: what is shared, what is found again, what is refused, what is pruned."""

import json
import shutil
import time
from types import MappingProxyType

import numpy as np
import polars as pl
import pytest
import yaml

from conftest import TINY, jobs, snakemake
from pwfl import tables
from pwfl.learning import datasets, sources
from pwfl.runtime import kept, prune, shards, store
from pwfl.scenario import resolve
from pwfl.stages import STAGES

pytestmark = pytest.mark.xdist_group("store")


def study(name: str = "tiny", **base) -> dict:
    """The tiny study of one scenario, with sections of its base replaced key by key."""
    config = yaml.safe_load(yaml.safe_dump(TINY)) | {"study": name, "scenarios": {"one": {}}}
    for key, value in base.items():
        config["base"][key] = config["base"].get(key, {}) | value if isinstance(value, dict) else value
    return config


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The folder of a finished run of that study, not to be changed."""
    folder = tmp_path_factory.mktemp("store")
    result = snakemake(folder, study(), "--cores", "2")
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


@pytest.fixture
def own(done, tmp_path):
    """A copy of the finished run, with the files' times, as Snakemake left it."""
    return shutil.copytree(done, tmp_path / "run", copy_function=shutil.copy2)


def addresses(config: dict) -> dict:
    return store.addresses(resolve(config["base"], {}))


def planned(folder, config) -> dict[str, int]:
    return jobs(snakemake(folder, config, "--dry-run"))


def run(folder, config) -> None:
    result = snakemake(folder, config, "--cores", "2")
    assert result.returncode == 0, result.stdout + result.stderr


REPORT = {"tables_multicell", "figures_multicell", "audited", "comparison", "page"}


# What is shared.


def test_a_sweep_of_gamma_computes_what_no_gamma_enters_once(tmp_path):
    config = study()
    config["scenarios"] = {f"gamma_{gamma}": {"schedule": {"gamma": float(gamma)}} for gamma in (1, 10, 100, 300, 999)}
    found = planned(tmp_path, config)
    shards_ = 2  # of optimization, and of training
    assert found["dataset"] == 1
    assert found["channel"] == shards_
    assert found["schedule"] == found["noise"] - 5 * shards_ == shards_ * (1 + 5)
    assert found["train"] == shards_ * (1 + 5 + 5)  # RndSched's once
    assert found["account"] == shards_ * 15  # gamma weighs the objective of every scheme
    assert found["tables_multicell"] == 5


def test_a_study_takes_what_another_one_computed_and_leaves_its_results(own):
    before = {path: path.read_bytes() for path in own.glob("results/tiny/**/*.csv")}
    other = study("other", privacy={"delta": 1e-7})
    assert set(planned(own, other)) == {"account", "audit", "scenario", *REPORT}
    run(own, other)
    assert {path: path.read_bytes() for path in own.glob("results/tiny/**/*.csv")} == before
    assert (own / "results/other/one/summary.csv").exists()
    assert planned(own, study()) == {}


def test_a_scheme_that_reads_less_has_the_same_address_for_every_gamma():
    one, two = addresses(study()), addresses(study(schedule={"gamma": 7.0}))
    same = {key for key in one if one[key]["address"] == two[key]["address"]}
    assert {key for key in one if key not in same and key[0] in ("schedule", "noise", "train")} == {
        key for key in one if key[1] == "optimal" and key[0] in ("schedule", "noise", "train")
    }
    assert ("train", "random", "random") in same


# What is found again.


def test_with_snakemakes_memory_lost_nothing_stale_is_taken(own):
    shutil.rmtree(own / ".snakemake")
    found = planned(own, study(privacy={"delta": 1e-7}))
    assert {"account", "audit", *REPORT} <= set(found)
    assert not {"channel", "schedule", "noise", "train"} & set(found)


def test_with_snakemakes_memory_lost_results_that_are_right_stay(own):
    shutil.rmtree(own / ".snakemake")
    assert set(planned(own, study())) <= {"scenario", *REPORT}


def test_more_realizations_compute_the_missing_ones_whatever_the_shards(tmp_path):
    def asking(realizations: int, training: int) -> dict:
        counts = {"realizations": realizations, "training_realizations": training}
        return study(shards={"optimization": 5, "training": 5}, **counts)

    run(tmp_path, asking(3, 2))
    assert set(pl.read_csv(tmp_path / "results/tiny/one/realizations.csv")["realization"]) == {0, 1, 2}
    assert set(pl.read_csv(tmp_path / "results/tiny/one/history.csv")["realization"]) == {0, 1}
    found = planned(tmp_path, asking(10, 10))
    assert (found["channel"], found["train"], found["account"]) == (1, 3, 3)  # of the second shard alone
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
    found = addresses(study())
    channel, reader = found["channel", None, None], found["noise", "random", "random"]
    source = done / "store" / "channel" / channel["address"] / "000000-000002" / "users.parquet"

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
    reader = addresses(study())["noise", "random", "random"]
    path = tmp_path / "users.parquet"
    pl.DataFrame({"a": [1]}).write_parquet(path)
    with pytest.raises(tables.TableError, match="does not say where it comes from"):
        tables.read("users", str(path), reader)


@pytest.mark.parametrize("damage", ["empty", "text", "cut", "middle", "footer", "folder", "missing"])
def test_a_damaged_file_is_named_with_the_way_out(done, tmp_path, damage):
    found = addresses(study())
    source = done / "store/channel" / found["channel", None, None]["address"] / "000000-000002" / "users.parquet"
    content = bytearray(source.read_bytes())
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
        tables.read("users", str(path), found["noise", "random", "random"])


def test_swapped_files_stop_the_workflow_and_are_named(own):
    found = addresses(study())
    one, two = (own / "store/noise" / found["noise", "optimal", noise]["address"] / "000000-000002/noise.parquet"
                for noise in ("random", "optimal"))  # fmt: skip
    shutil.copy2(one, two)
    account = found["account", "optimal", "optimal"]["address"]
    target = f"store/account/{account}/000000-000002/outcome.parquet"
    (own / target).unlink()
    result = snakemake(own, study(), target)
    assert result.returncode == 1
    output = result.stdout + result.stderr
    assert (
        f"{two.relative_to(own)} is damaged (it holds address {one.parent.parent.name}, must be {two.parent.parent.name}"
        in output
    )
    assert f"rm {two.relative_to(own)}" in output
    two.unlink()
    result = snakemake(own, study(), target)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    "damage", [np.zeros_like, lambda a: np.roll(a, 1, axis=0), lambda a: a[:-1], lambda a: a[::-1]]
)
@pytest.mark.parametrize("name", datasets.Dataset._fields)
def test_a_changed_data_set_is_refused_wherever_it_is_read(tmp_path, name, damage):
    arrays = dict(zip(datasets.Dataset._fields, sources.load("digits"), strict=True))
    path = str(tmp_path / "data.npz")
    origin = {"stage": "dataset", "address": "a", "code": "", "packages": {}}
    sources.store(tuple(arrays.values()), path, origin)
    assert (datasets.restore(path, "digits", "a").y_train == arrays["y_train"]).all()
    sources.store(tuple((arrays | {name: damage(arrays[name])}).values()), path, origin)
    with pytest.raises(kept.DamagedError, match=r"data.npz is damaged \(it does not hold digits as it is\): .*rm "):
        datasets.restore(path, "digits", "a")


def test_a_job_with_other_code_than_planned_refuses_to_run(monkeypatch):
    description = addresses(study())["channel", None, None]
    store.check_code(description)
    with pytest.raises(store.StoreError, match="the code of channel changed after this job was planned"):
        store.check_code(description | {"code": "0123456789abcdef"})
    with pytest.raises(store.StoreError, match=r"the packages of channel changed .*start the workflow again"):
        store.check_code(description | {"packages": description["packages"] | {"numpy": "1.0"}})


def test_another_version_of_a_package_has_another_address(monkeypatch):
    before = addresses(study())
    monkeypatch.setattr(store, "packages", lambda *modules: {"tensorflow": "1.0"} if "train" in modules[0] else {})
    store.code.cache_clear()
    one = addresses(study())
    monkeypatch.setattr(store, "packages", lambda *modules: {"tensorflow": "2.0"} if "train" in modules[0] else {})
    store.code.cache_clear()
    two = addresses(study())
    store.code.cache_clear()
    assert {key[0] for key in one if one[key]["address"] != two[key]["address"]} == {"train"}
    assert "tensorflow" in before["train", "random", "random"]["packages"]
    assert "tensorflow" not in before["channel", None, None]["packages"]


# What is pruned.


def test_a_parameter_there_and_back_only_reports_until_its_tables_are_pruned(own, monkeypatch, capsys):
    kept, other = study(), study(schedule={"gamma": 7.0})
    run(own, other)
    assert set(planned(own, kept)) <= {"scenario", *REPORT}
    monkeypatch.chdir(own)
    (own / "kept.yaml").write_text(yaml.safe_dump(kept))
    (own / "other.yaml").write_text(yaml.safe_dump(other))
    assert prune.main(["kept.yaml"]) == 0
    assert "in 0 folders unused" in capsys.readouterr().out  # all is younger than an hour
    later = time.time() + 2 * prune.YOUNG_SECONDS
    monkeypatch.setattr(prune.time, "time", lambda: later)
    assert prune.main(["kept.yaml", "other.yaml"]) == 0
    assert "in 0 folders unused" in capsys.readouterr().out
    strangers = {d["address"] for d in addresses(other).values()} - {d["address"] for d in addresses(kept).values()}
    assert prune.main(["kept.yaml", "--delete"]) == 0
    listed = capsys.readouterr().out
    assert all(address in listed for address in strangers)
    assert {path.name for path in own.glob("store/*/*")} == {d["address"] for d in addresses(kept).values()}
    assert set(planned(own, kept)) <= {"scenario", *REPORT}


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


def test_every_stage_has_an_address_for_every_scheme():
    found = addresses(study())
    for scheme in resolve(study()["base"], {}).schemes:
        assert all(store.of_scheme(found, stage, scheme)["stage"] == stage for stage in STAGES)
    assert len({description["address"] for description in found.values()}) == len(found)
