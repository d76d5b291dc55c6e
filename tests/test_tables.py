"""Tables between stages: what the schema check finds, and files that appear whole or not at all."""

import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import dataframely as dy
import polars as pl
import pytest

import stage_of
from pipeline import on_one_cell, part
from pwfl import registry, tables
from pwfl.scenario import resolve
from pwfl.store import files, sealed
from pwfl.tables import contract, meanings

DESCRIPTION = {"system": "multicell", "address": "0123456789ab", "code": "c", "packages": {}}
READER = {"system": "multicell", "upstream": {"channel": "0123456789ab"}}


@pytest.fixture
def users() -> pl.DataFrame:
    return stage_of.channel(resolve({}, {}).select_stage("channel"), range(1))["users"]


@pytest.fixture
def path(tmp_path) -> str:
    """Where the file of a shard of one realization may stand."""
    folder = tmp_path / DESCRIPTION["address"] / "000000-000001"
    folder.mkdir(parents=True)
    return str(folder / "users.parquet")


def test_a_table_survives_writing_and_reading(path, users):
    tables.write(users, "users", path, DESCRIPTION)
    assert tables.read("users", [path, path], READER).equals(pl.concat([users, users]))


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda users: users.with_columns(samples=pl.lit(0, pl.Int64)), "'samples' failed validation"),
        (lambda users: users.with_columns(cell=pl.lit(-1)), "'cell' failed validation"),
        (lambda users: users.with_columns(x_m=pl.lit(float("nan"))), "'x_m' failed validation"),
        (lambda users: users.with_columns(user=pl.lit(0, pl.Int64)), "rows with the same realization, user"),
        (lambda users: users.with_columns(realization=pl.lit(3, pl.Int64)), "contains realization 3, expected 0 to 0"),
        (lambda users: users.clear(), "lacks realization 0"),
    ],
)
def test_a_table_that_violates_its_schema_is_not_written(path, users, damage, expected):
    with pytest.raises(tables.TableError) as caught:
        tables.write(damage(users), "users", path, DESCRIPTION)
    assert str(caught.value).startswith(path)
    assert expected in str(caught.value)
    assert not list(Path(path).parent.iterdir())


def test_rows_are_written_in_the_order_of_their_keys(path, users):
    tables.write(users.sample(fraction=1.0, shuffle=True, seed=1), "users", path, DESCRIPTION)
    assert tables.read("users", path, READER).equals(users)


@pytest.mark.parametrize(
    ("damage", "label", "expected"),
    [
        (lambda users: users.drop("samples"), {}, "column 'samples' is missing"),
        (lambda users: users.with_columns(samples=pl.lit("x")), {}, "column 'samples' holds String, must hold Int64"),
        (
            lambda users: users.with_columns(realization=pl.lit(1, pl.Int64)),
            {},
            "contains realization 1, expected 0 to 0",
        ),
        (lambda users: users.clear(), {}, "lacks realization 0"),
        (lambda users: users, {"table": "links"}, "says table links, expected users"),
        (lambda users: users, {"address": "ba9876543210"}, "says address ba9876543210, expected 0123456789ab"),
        (lambda users: users, {"realizations": [2, 4]}, r"says realizations \[2, 4\], expected \[0, 1\]"),
    ],
)
def test_a_file_of_another_table_than_was_written_is_refused(path, users, damage, label, expected):
    """Its digest is right: what is refused here is what no digest tells."""
    own = {"table": "users", "address": DESCRIPTION["address"], "realizations": [0, 1]}
    sealed.write_table(damage(users), path, own | label)
    with pytest.raises(tables.TableError, match=rf"(?s){path} is corrupt: .*{expected}.*. Delete it \(`rm -f "):
        tables.read("users", path, READER)


def test_a_table_that_cannot_be_written_leaves_the_old_one(path, users, monkeypatch):
    tables.write(users, "users", path, DESCRIPTION)
    full = OSError("no space left on device")

    def fails(*arguments):
        raise full

    def fails_half_way(self, content):
        with open(self, "wb") as file:
            file.write(bytes(content)[: len(content) // 2])
        raise full

    monkeypatch.setattr(sealed, "_digest", fails)
    with pytest.raises(OSError, match="no space"):
        tables.write(users.with_columns(samples=pl.lit(7, pl.Int64)), "users", path, DESCRIPTION)
    monkeypatch.setattr(Path, "write_bytes", fails_half_way)
    with pytest.raises(OSError, match="no space"):
        files.write(users.write_parquet, path)
    monkeypatch.undo()
    assert tables.read("users", path, READER).equals(users)
    assert list(Path(path).parent.iterdir()) == [Path(path)]


def test_tables_of_schemes_are_told_apart_and_cut_to_the_realizations_asked_for(tmp_path, users):
    model = resolve({"realizations": 3, "training_realizations": 1}, {})
    columns = {"resource_block": 0, "power_w": 1.0, "rate_bps": 1.0, "assigned_block": 0, "assigned_power_w": 1.0}
    schedule = users.select("user", interval=pl.lit(0), **{name: pl.lit(value) for name, value in columns.items()})
    powers = {scheme.name: power for scheme, power in zip(model.schemes, (1.0, 2.0, 3.0), strict=True)}
    upstream, paths = {}, []
    for scheme, power in powers.items():
        address = f"{power:.0f}" * 12
        upstream[scheme] = {"schedule": address}
        for first in (0, 2):
            place = tmp_path / address / f"{first:06d}-{first + 2:06d}" / "schedule.parquet"
            place.parent.mkdir(parents=True)
            both = [schedule.with_columns(realization=pl.lit(first + k, pl.Int64), power_w=power) for k in (0, 1)]
            tables.write(pl.concat(both), "schedule", str(place), DESCRIPTION | {"address": address})
            paths.append(str(place))
    reader = {"system": "multicell", "upstream": upstream}
    found = tables.read_schemes({"schedule": paths}, reader, model)["schedule"]
    assert found.columns[0] == "scheme"
    assert set(found["realization"]) == {0, 1, 2}
    assert dict(found.select("scheme", "power_w").unique().iter_rows()) == powers
    assert found["scheme"].unique(maintain_order=True).to_list() == list(powers)


def test_arrays_do_not_depend_on_the_order_of_rows(users):
    shuffled = users.sample(fraction=1.0, shuffle=True, seed=2)
    expected = users["samples"].to_numpy()[None]
    for frame in (users, shuffled):
        assert (tables.to_array(frame, "samples", "realization", "user") == expected).all()
    assert (tables.to_array(shuffled, "samples", "user", "realization") == expected.T).all()


@pytest.mark.parametrize("damage", [lambda f: f.slice(1), lambda f: pl.concat([f, f.head(1)]), lambda f: f.vstack(f)])
def test_arrays_with_a_gap_or_a_twin_are_refused(users, damage):
    two = pl.concat([users, users.with_columns(realization=pl.lit(1, pl.Int64))])
    with pytest.raises(tables.TableError, match="are not one for each of"):
        tables.to_array(damage(two), "samples", "realization", "user")
    twin = pl.concat([two.slice(1), two.slice(1, 1)])  # as many rows as there should be
    with pytest.raises(tables.TableError, match="are not one for each of"):
        tables.to_array(twin, "samples", "realization", "user")


def test_tables_beside_each_other_are_joined_on_their_keys(users):
    noise = users.select("realization", "user", noise_std=pl.col("user") / 10).reverse()
    found = tables.joined(users, noise, "realization", "user")
    assert (found["noise_std"] == found["user"] / 10).all()
    assert found.columns == [*users.columns, "noise_std"]
    with pytest.raises(tables.TableError, match=r"has no row for \{'realization': 0, 'user': 99\}"):
        tables.joined(users, noise.slice(1), "realization", "user")
    with pytest.raises(tables.TableError, match="has several rows for one key"):
        tables.joined(users, pl.concat([noise, noise]), "realization", "user")


def test_sums_of_groups_do_not_tell_where_a_table_comes_from(users, tmp_path):
    of_each = [(pl.lit(k, pl.Int64).alias("realization"), pl.col("x_m") / (k + 3)) for k in range(4)]
    frame = pl.concat([users.with_columns(changed) for changed in of_each])
    frame.write_parquet(tmp_path / "users.parquet")
    kind, sums = tables.schema("multicell", "users"), []
    for way in (frame.sort("realization", "user"), frame.reverse(), pl.read_parquet(tmp_path / "users.parquet")):
        groups = tables.ordered(way, kind, "users").group_by("realization", maintain_order=True)
        sums.append(groups.agg(pl.col("x_m").sum()))
    assert sums[0].equals(sums[1])
    assert sums[0].equals(sums[2])


@pytest.fixture
def accounted() -> dict[str, pl.DataFrame]:
    """Leakage and outcome of one realization with one scheduled user."""
    keys = {"realization": [0], "user": [0]}
    stages = {
        "users": pl.DataFrame(keys | {"samples": [60]}),
        "schedule": pl.DataFrame(keys | {"resource_block": [0], "power_w": 0.01, "rate_bps": 1e5}),
        "noise": pl.DataFrame(keys | {"noise_std": [2.0]}),
    }
    model, stages = resolve({}, {}), on_one_cell(stages)
    stages |= stage_of.receive(part(model, "receive"), stages)
    return stage_of.account(part(model, "account"), stages)


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("outcome", "delta", None),
        ("outcome", "delta", 1.0),
        ("outcome", "guarantee", None),
        ("outcome", "epsilon", -1.0),
        ("outcome", "epsilon", float("nan")),
        ("leakage", "rho", -1.0),
        ("leakage", "rho", float("nan")),
        ("leakage", "epsilon", float("nan")),
    ],
)
def test_a_guarantee_that_says_nothing_is_not_written(path, accounted, table, column, value):
    tables.write(accounted[table], table, path, DESCRIPTION)
    kind = accounted[table].schema[column]
    with pytest.raises(tables.TableError, match=column):
        tables.write(accounted[table].with_columns(pl.lit(value, kind).alias(column)), table, path, DESCRIPTION)


def test_sqlalchemy_is_not_imported_and_can_be():
    code = "import pwfl.tables, sys; assert 'sqlalchemy' not in sys.modules; import sqlalchemy; sqlalchemy.MetaData"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture
def columns(monkeypatch) -> dict[str, dict[str, dy.Column]]:
    """The columns of all tables, of the example's system, too: name -> table -> column."""
    examples = ("local_dp_mac", "privacy_for_free")
    for name in examples:
        monkeypatch.syspath_prepend(Path(__file__).parents[1] / "examples" / name)
    modules = {name: import_module(f"{registry.system(name).package}.tables") for name in registry.systems()}
    modules |= {name: import_module(f"{name}.tables") for name in examples}
    kinds = dict(contract.COMMON)
    for system, module in modules.items():
        own = inspect.getmembers(module, lambda kind: inspect.isclass(kind) and issubclass(kind, dy.Schema))
        kinds |= {f"{system}: {name}": kind for name, kind in own if kind.__module__ == module.__name__}
    found = {}
    for table, kind in kinds.items():
        for name, column in kind.columns().items():
            found.setdefault(name, {})[table] = column
    return found


def test_columns_of_one_name_mean_the_same_in_all_tables(columns):
    """The description up to the first colon or semicolon is the meaning, the rest what a table adds to it."""
    several = {name: found for name, found in columns.items() if len(found) > 1}
    assert len(several) > 50
    for name, found in several.items():
        meanings = {table: re.split("[:;]", column.description or "")[0].strip() for table, column in found.items()}
        assert len(set(meanings.values())) == 1, (name, meanings)
        assert meanings.popitem()[1], f"{name} has no description"
        if "status" not in name:
            kinds = {"String" if isinstance(column, dy.Enum) else type(column).__name__ for column in found.values()}
            assert len(kinds) == 1, (name, kinds)


def test_what_systems_share_is_declared_once(columns):
    """Columns that tables of several systems have begin with their meaning in `MEANINGS`, which has no others."""

    def systems(name: str) -> set[str]:
        return {table.partition(": ")[0] for table in columns[name]} - set(contract.COMMON)

    inherited = {*contract.Outcome.columns(), *contract.UserHistory.columns(), *contract.PerInterval.columns()}
    shared = {name for name, found in columns.items() if len(systems(name)) > 1}
    assert shared - inherited <= set(meanings.MEANINGS)
    for name, meant in meanings.MEANINGS.items():
        assert len(columns[name]) > 1, name
        for table, column in columns[name].items():
            assert column.description.startswith(meant), (name, table)


class Ordered(contract.PerUser):
    """Rules of single columns, and one of two of them."""

    low = dy.Float64(min=0)
    high = dy.Float64()

    @dy.rule()
    def low_is_at_most_high(cls) -> pl.Expr:
        return pl.col("low") <= pl.col("high")


@pytest.mark.parametrize(("low", "broken"), [(-1.0, "'min'"), (2.0, "'low_is_at_most_high'"), (None, "'nullability'")])
def test_rules_of_columns_and_of_rows_are_checked(low, broken):
    frame = pl.DataFrame({"realization": [0, 0], "user": [0, 1], "low": [0.5, 0.5], "high": [1.0, 1.0]})
    assert contract.checked(frame, Ordered, "made").equals(frame)
    with pytest.raises(contract.TableError, match=f"(?s)^made: .*{broken}"):
        contract.checked(frame.with_columns(low=pl.Series([0.5, low])), Ordered, "made")
