"""Tables between stages: what the schema check finds, and files that appear whole or not at all."""

from pathlib import Path

import polars as pl
import pytest

from pwfl import channel, files, scenario, tables


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
