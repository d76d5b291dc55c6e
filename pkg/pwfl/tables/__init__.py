"""The tables that pass between stages: each has one declared schema, checked when written and read.

Schemas of a system stand in the module of its name, as classes listed in its `SCHEMAS`.
"""

import logging
from importlib import import_module

import dataframely as dy
import polars as pl

from pwfl import files

log = logging.getLogger(__name__)


class TableError(ValueError):
    """A file that does not hold the table it should; the message names file and column."""


def schema(system: str, table: str) -> type[dy.Schema]:
    """The schema of a system's table."""
    return import_module(f"pwfl.tables.{system}").SCHEMAS[table]


def write(frame: pl.DataFrame, system: str, table: str, path: str) -> None:
    """Write a table to a Parquet file, which appears whole or not at all.

    Integer columns are widened to the schema's types. Raises TableError where the schema is violated.
    """
    kind = schema(system, table)
    frame = frame.select(pl.col(name).cast(dtype) for name, dtype in _types(kind).items())
    frame = _validate(frame, kind, path)
    files.write(frame.write_parquet, path)
    log.info("wrote %s: %d rows", path, len(frame))


def read(system: str, table: str, paths: str | list[str]) -> pl.DataFrame:
    """Read a table from one or several Parquet files, in their order.

    Raises TableError for a file that is no Parquet file or violates the schema.
    """
    kind = schema(system, table)
    frames = []
    for path in [paths] if isinstance(paths, str) else paths:
        try:
            frames.append(_validate(pl.read_parquet(path), kind, path))
        except (pl.exceptions.ComputeError, OSError) as error:
            raise TableError(f"{path}: is not a readable Parquet file: {error}") from None
    log.info("read %s: %d rows of %d file(s)", table, sum(map(len, frames)), len(frames))
    return pl.concat(frames)


def read_all(system: str, paths: dict[str, str | list[str]]) -> dict[str, pl.DataFrame]:
    """Read several tables, named as their schemas."""
    return {table: read(system, table, path) for table, path in paths.items()}


def read_schemes(system: str, table: str, paths: list[str], schemes: list[str]) -> pl.DataFrame:
    """Read a table of several schemes: as many files of each, scheme after scheme.

    The first column `scheme` holds the names.
    """
    each = len(paths) // len(schemes)
    frames = [
        read(system, table, paths[k * each : (k + 1) * each]).select(pl.lit(name).alias("scheme"), pl.all())
        for k, name in enumerate(schemes)
    ]
    return pl.concat(frames)


def write_all(frames: dict[str, pl.DataFrame], system: str, paths: dict[str, str]) -> None:
    """Write several tables, named as their schemas; see `write`."""
    for table, frame in frames.items():
        write(frame, system, table, paths[table])


def write_report(frame: pl.DataFrame, csv: str, parquet: str) -> None:
    """Write a table of the report, as CSV and Parquet files that appear whole or not at all."""
    for path, save in ((csv, frame.write_csv), (parquet, frame.write_parquet)):
        files.write(save, path)


def _validate(frame: pl.DataFrame, kind: type[dy.Schema], path: str) -> pl.DataFrame:
    for name, dtype in _types(kind).items():
        if name not in frame.columns:
            raise TableError(f"{path}: column {name!r} is missing")
        if frame.schema[name] != dtype:
            raise TableError(f"{path}: column {name!r} holds {frame.schema[name]}, must hold {dtype}")
    try:
        return kind.validate(frame.select(kind.column_names()))
    except dy.exc.ValidationError as error:
        raise TableError(f"{path}: {error}") from None


def to_array(frame: pl.DataFrame, column: str, *shape: int):
    """A column as a NumPy array of the given shape, null as NaN; rows must lie in the array's order."""
    return frame[column].to_numpy().reshape(shape)


def _types(kind: type[dy.Schema]) -> dict[str, pl.DataType]:
    return {name: column.dtype for name, column in kind.columns().items()}
