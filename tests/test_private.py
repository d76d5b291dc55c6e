"""What a study publishes of users' records: nothing moves with one but what is marked, and private columns stay out."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import polars as pl
import pytest
import yaml

from conftest import in_turn
from pwfl import api, execution, registry
from pwfl.learning import sources
from pwfl.scenario import ScenarioError, load, resolve
from pwfl.scenario.resolution import merge
from pwfl.stages import AUDIT
from pwfl.store import sealed
from pwfl.store.items import Store
from pwfl.systems.age_aware import train as age_aware_train
from pwfl.tables import contract
from pwfl.workflow import compute, plan, publish, reporting, reports

SYSTEMS = ("multicell", "anonymous_oac", "random_orthogonalization", "utility_fair")  # that learn data of one's own
RECORDS = 20  # of each user
USERS = {"age_aware": 1, "multicell": 12, "anonymous_oac": 6, "random_orthogonalization": 3, "utility_fair": 3}
OWN = {"file": "own.npz", "partition": "given"}
CHANGED = {  # a tiny scenario's parameters, so that each record is learned from
    "multicell": {"data": OWN, "schedule": {"gamma": 3.0}},
    "anonymous_oac": {"data": OWN | {"samples": RECORDS, "sampling": 0.9}, "network": {"participation": 1.0}},
    "random_orthogonalization": {"data": OWN | {"samples_per_user": RECORDS}, "training": {"batch_size": RECORDS}},
    "utility_fair": {"data": OWN | {"samples_per_device": RECORDS}, "device": {"batch_size": RECORDS}},
}


def scenario(system: str, **data) -> dict:
    """A scenario of seconds."""
    tiny = {key: value for key, value in registry.system(system).catalog.tiny.items() if key != "data"}
    base = {"system": system, "realizations": 2, "training_realizations": 2}
    return merge(base | tiny, merge(CHANGED.get(system, {}), {"data": data} if data else {}))


@cache
def folder(system: str, replaced: bool) -> str:
    """A folder with a file of digits, all held by users; or with one in which a record of a user is another one."""
    x_train, y_train, x_test, y_test = (array.copy() for array in sources.load("digits"))
    users = np.arange(RECORDS * USERS[system]) % USERS[system]
    if replaced:
        x_train[0], y_train[0] = 255 - x_train[0], 9 - y_train[0]
    place = mkdtemp()
    held = {"x_train": x_train[: len(users)], "y_train": y_train[: len(users)], "user_train": users}
    np.savez(Path(place, "own.npz"), **held, x_test=x_test, y_test=y_test)
    return place


@contextmanager
def within(place: str) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(place)
    try:
        yield
    finally:
        os.chdir(before)


@cache
def stages(system: str, replaced: bool) -> dict[str, pl.DataFrame]:
    """The tables of all stages, with a record of a user or with another in its place."""
    with within(folder(system, replaced)), pytest.MonkeyPatch.context() as patch:
        if replaced and system == "age_aware":
            patch.setattr(age_aware_train, "sample_means", _with_another_sample(age_aware_train.sample_means))
        return api.stage_tables(resolve(scenario(system), {}))


def _with_another_sample(sample_means):
    def replaced(generator, clients, horizon, draws):
        means = sample_means(generator, clients, horizon, draws)
        means[0, 0] += (clients.states.max() - clients.states.min()) / clients.samples[
            0
        ]  # of the first draw and client
        return means

    return replaced


def moved(system: str) -> dict[tuple[str, str], bool]:
    """The columns that differ with the record, by table and name, and whether they are declared to."""
    found = {}
    for table, frame in stages(system, replaced=False).items():
        other = stages(system, replaced=True)[table]
        if table == "holdings":  # who has records of a label is a row
            names = [] if frame.equals(other) else ["label", "samples"]
        else:
            names = [name for name in frame.columns if not frame[name].equals(other[name])]
        kind = contract.schema(system, table)
        found |= {(table, name): contract.reveals(kind, name) in (contract.PRIVATE, contract.NOISY) for name in names}
    return found


@pytest.mark.parametrize("system", [*SYSTEMS, "age_aware"])
def test_with_a_record_nothing_moves_but_what_is_declared(system):
    found = moved(system)
    assert [column for column, declared in found.items() if not declared] == []
    assert any(declared_as(system, column) == contract.PRIVATE for column in found)
    if system in SYSTEMS:
        assert any(declared_as(system, column) == contract.NOISY for column in found)


@pytest.mark.parametrize("system", [*SYSTEMS, "age_aware"])
def test_a_column_that_lacks_its_mark_is_found(system, monkeypatch):
    for table, name in moved(system):
        with monkeypatch.context() as patch:
            patch.setattr(contract.schema(system, table).columns()[name], "metadata", None)
            assert [column for column, declared in moved(system).items() if not declared] == [(table, name)]


def declared_as(system: str, column: tuple[str, str]):
    table, name = column
    return contract.schema(system, table).columns()[name].metadata


# What is published.

DEFAULT = "without_private"
PART = {"claims.parquet": ["claim", "scenario", "source"], "outcomes.parquet": ["scenario", "scheme", "outcome"]}
# Without the digest of the data; of the outcomes, and the claims, that are known.
FEWER = ("one/parameters.parquet", "two/parameters.parquet", "front.parquet", "utility_fair_result.json")
FEWER += ("effects.parquet",)


@cache
def audit(system: str) -> pl.DataFrame:
    """The audit of a scenario, which reads no table that a record moves."""
    assert {table for table, _ in moved(system)}.isdisjoint(registry.reads(system, AUDIT))
    with within(folder(system, replaced=False)):
        values = resolve(scenario(system), {}).select_stage(AUDIT)
    return execution.audit_schemes(values, stages(system, replaced=False))


@cache
def published(system: str, replaced: bool, release: str) -> Path:
    """A folder with the store of a study's report, and what of it is published; noisy columns are always the same.

    The study has two scenarios, so that there are figures that compare them, whose stages made the same tables.
    """
    found = {}
    for table, frame in stages(system, replaced=replaced).items():
        declared, same = contract.schema(system, table).columns(), stages(system, replaced=False)[table]
        noisy = [name for name, column in declared.items() if column.metadata == contract.NOISY]
        found[table] = frame.with_columns(same[name] for name in noisy)
    given, place, audited = scenario(system, release=release), Path(mkdtemp()), audit(system)
    with within(folder(system, replaced=replaced)), pytest.MonkeyPatch.context() as patch:
        patch.setattr(reports, "formats", lambda study: ["json"])
        patch.setattr(execution, "audit_schemes", lambda *_: audited)
        patch.setattr(reporting.tables, "read_schemes", lambda paths, *_: {table: found[table] for table in paths})
        content = {"study": "own", "print": True, "scenarios": {"one": given, "two": given | {"seed": 2}}}
        report, root = reports.plan(plan.plan(load(content, "own.yaml"))), Store(place / "store")
        for item, of_report in report.jobs.items():
            target = root.path(item.key)
            target.mkdir(parents=True)
            given = report.descriptions[item.address] | of_report.arguments
            paths = {name: [str(root.path(path)) for path in paths] for name, paths in report.inputs(item).items()}
            compute._job(item.stage)(given, paths, target)
            sealed.seal_folder(target)
            assert {path.name for path in target.iterdir()} == {*of_report.outputs}
    publish.publish(place / f".pwfl/own/{publish.ALL}.shown", report.view, "pwfl run own.yaml", [])
    return place


def files(system: str, replaced: bool, release: str) -> dict[str, bytes]:
    """The published files by path."""
    place = published(system, replaced, release) / "results" / "own"
    found = (path for path in place.rglob("*") if path.is_file() and path.parent.name != publish.FOLDER)
    return {str(path.relative_to(place)): path.read_bytes() for path in found}


def differing(system: str, release: str) -> set[str]:
    """The published files that differ with a record beyond what noisy columns say."""
    one, other = (files(system, replaced, release) for replaced in (False, True))
    assert one.keys() == other.keys()
    return {name for name in one if one[name] != other[name]}


@pytest.mark.parametrize("system", in_turn(SYSTEMS, "multicell", "random_orthogonalization"))
def test_published_files_follow_from_public_and_noisy_columns(system):
    assert differing(system, release=DEFAULT) == set()


@pytest.mark.parametrize("system", in_turn(SYSTEMS, "random_orthogonalization"))
def test_with_everything_released_they_do_not(system):
    own = {f"{name}.json" for name in registry.system(system).catalog.private_figures} | {"holdings.json"}
    expected = {"history.csv", "summary.csv", "realizations.csv", "scenario.yaml", "parameters.csv", "addresses.csv"}
    found = differing(system, release="everything")
    assert found >= {f"one/{name}" for name in own | expected} | {"summary.csv"}
    withheld = {name for name in found if Path(name).name in own | {"addresses.csv"}}
    assert files(system, False, "everything").keys() - files(system, False, DEFAULT).keys() == withheld


@pytest.mark.parametrize("system", in_turn(SYSTEMS, "multicell"))
def test_what_is_published_is_the_same_where_everything_is_released(system):
    """Figures are, and numbers, but that there are fewer: none is a sum of what is not known."""
    some, all_ = (files(system, False, release) for release in (DEFAULT, "everything"))
    for name in some:
        if name in FEWER:
            continue
        if name.endswith(".json"):
            assert some[name] == all_[name], name
        elif name.endswith(".parquet"):
            held, whole = (pl.read_parquet(BytesIO(found[name])) for found in (some, all_))
            if keys := PART.get(name):
                whole = whole.join(held, on=keys, how="semi", maintain_order="left")
            assert held.shape == whole.shape, name
            for column in held:
                shown = column.is_not_null()
                assert column.filter(shown).equals(whole[column.name].filter(shown)), (name, column.name)


def test_the_page_says_what_is_not_shown_and_the_store_has_it():
    place = published("utility_fair", False, DEFAULT)
    page = (place / "results" / "own" / "index.html").read_text(encoding="utf-8")
    assert "Not shown in utility_fair" in page
    assert "batch_loss" in page
    assert "figures (loss, spread, energy, utility, power, accuracy_seconds" in page
    assert "`data: {release: everything}` shows them" in page
    assert "addresses.csv" not in page
    shown = yaml.safe_load((place / "results" / "own" / "one" / "scenario.yaml").read_text())
    assert shown["data"]["sha256"] is None
    found = api.results(place / "results" / "own").scenarios["one"]  # though there is no file of data here
    assert found.report["summary"]["batch_loss_mean"].null_count() == len(found.report["summary"])
    whole = published("utility_fair", False, "everything")
    assert "Not shown" not in (whole / "results" / "own" / "index.html").read_text(encoding="utf-8")
    assert (
        api.results(whole / "results" / "own").scenarios["one"].report["summary"]["batch_loss_mean"].null_count() == 0
    )


def test_benchmark_data_are_shown():
    for system in registry.BUILT_IN:
        assert not resolve({"system": system}, {}).withholds


def test_everything_is_the_only_other_release():
    with pytest.raises(ScenarioError, match=r"data\.release: 'all' .*everything"):
        resolve({"system": "multicell", "data": {"release": "all"}}, {})
