"""Tables between stages: what the schema check finds, and files that appear whole or not at all."""

from pathlib import Path

import polars as pl
import pytest

from pwfl import account, channel, scenario, tables
from pwfl.runtime import files


@pytest.fixture
def users() -> pl.DataFrame:
    return channel.run(scenario.stage_parameters(scenario.resolve({}, {}), "channel"), range(1))["users"]


def test_a_table_survives_writing_and_reading(tmp_path, users):
    path = str(tmp_path / "users.parquet")
    tables.write(users, "multicell", "users", path)
    assert tables.read("multicell", "users", [path, path]).equals(pl.concat([users, users]))


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda users: users.drop("samples"), "column 'samples' is missing"),
        (lambda users: users.with_columns(samples=pl.lit("many")), "column 'samples' holds String, must hold Int64"),
        (lambda users: users.with_columns(samples=pl.lit(0, pl.Int64)), "'samples' failed validation"),
        (lambda users: users.with_columns(start_power_w=pl.lit(-1.0)), "'start_power_w' failed validation"),
        (lambda users: users.with_columns(start_power_w=pl.lit(float("nan"))), "'start_power_w' failed validation"),
        (lambda users: users.with_columns(user=pl.lit(0, pl.Int64)), "primary_key"),
    ],
)
def test_a_foreign_table_is_named_with_its_file_and_column(tmp_path, users, damage, expected):
    path = str(tmp_path / "users.parquet")
    damage(users).write_parquet(path)
    with pytest.raises(tables.TableError) as caught:
        tables.read("multicell", "users", path)
    assert str(caught.value).startswith(path)
    assert expected in str(caught.value)


@pytest.mark.parametrize("keep", [0, 10, 0.5, 0.999])
def test_a_truncated_file_is_named(tmp_path, users, keep):
    path = tmp_path / "users.parquet"
    users.write_parquet(path)
    content = path.read_bytes()
    path.write_bytes(content[: keep if isinstance(keep, int) else int(keep * len(content))])
    with pytest.raises(tables.TableError, match=r"users.parquet: is not a readable Parquet file"):
        tables.read("multicell", "users", str(path))


def test_a_table_that_violates_its_schema_is_not_written(tmp_path, users):
    path = tmp_path / "users.parquet"
    with pytest.raises(tables.TableError):
        tables.write(users.with_columns(samples=-pl.col("samples")), "multicell", "users", str(path))
    assert not list(tmp_path.iterdir())


def test_a_table_that_cannot_be_written_leaves_the_old_one(tmp_path, users, monkeypatch):
    path = str(tmp_path / "users.parquet")
    tables.write(users, "multicell", "users", path)
    whole = Path.write_bytes

    def fail_half_way(self, content):
        whole(self, bytes(content)[: len(content) // 2])
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail_half_way)
    with pytest.raises(OSError, match="no space"):
        tables.write(users.head(3), "multicell", "users", path)
    assert tables.read("multicell", "users", path).equals(users)
    assert list(tmp_path.iterdir()) == [Path(path)]


def test_tables_of_schemes_are_told_apart(tmp_path, users):
    paths = [str(tmp_path / f"{name}.parquet") for name in "abcd"]
    for k, path in enumerate(paths):
        tables.write(
            users.with_columns(samples=pl.lit(k + 1, pl.Int64), realization=pl.lit(k)), "multicell", "users", path
        )
    found = tables.read_schemes("multicell", "users", paths, ["first", "second"])
    assert found.columns[0] == "scheme"
    assert found.group_by("scheme", maintain_order=True).agg(pl.col("samples").unique().sort()).rows() == [
        ("first", [1, 2]),
        ("second", [3, 4]),
    ]


@pytest.fixture
def accounted() -> dict[str, pl.DataFrame]:
    """Leakage and outcome of one realization with one scheduled user."""
    keys = {"realization": [0], "user": [0]}
    stages = {
        "users": pl.DataFrame(keys | {"samples": [60]}),
        "schedule": pl.DataFrame(keys | {"resource_block": [0], "power_w": 0.01, "rate_bps": 1e5}),
        "noise": pl.DataFrame(keys | {"noise_std": [2.0]}),
    }
    return account.run(scenario.stage_parameters(scenario.resolve({}, {}), "account"), stages)


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("outcome", "delta", None),
        ("outcome", "delta", 1.0),
        ("outcome", "guarantee", None),
        ("outcome", "epsilon_exact", -1.0),
        ("outcome", "epsilon_exact", float("nan")),
        ("leakage", "rho", -1.0),
        ("leakage", "rho", 0.0),
        ("leakage", "epsilon_exact", float("nan")),
    ],
)
def test_a_guarantee_that_says_nothing_is_not_written(tmp_path, accounted, table, column, value):
    path = str(tmp_path / "table.parquet")
    tables.write(accounted[table], "multicell", table, path)
    kind = accounted[table].schema[column]
    with pytest.raises(tables.TableError, match=column):
        tables.write(accounted[table].with_columns(pl.lit(value, kind).alias(column)), "multicell", table, path)


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("old")

    def fail_half_way():
        with files.whole(str(path)) as partial:
            Path(partial).write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
