"""Parquet files of tables with their provenance, which is verified when they are read."""

import logging
import re
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from pwfl import registry
from pwfl.stages import REALIZATIONS, STAGES
from pwfl.store import files, sealed
from pwfl.tables.contract import TableError, finished, schema, typed

log = logging.getLogger(__name__)

WHOLE = ("users", "outcome", "history", "schedule_status", "noise_status")  # tables with rows of every realization


def write(frame: pl.DataFrame, table: str, path: str, description: Mapping) -> None:
    """Write a table to a Parquet file, which appears whole or not at all, with its provenance.

    The file's folder is named FIRST-STOP after its realizations; otherwise the file contains all. Its label contains
    `address`, `code` and `packages` of the job's description (`pwfl.workflow.plan`). Raises TableError if the table
    violates its schema, or has too many or too few realizations.
    """
    frame = finished(frame, table, description["system"], path)
    _check_realizations(frame, table, path, path)
    provenance = {"code": description["code"], "packages": description["packages"]}
    sealed.write_table(frame, path, _label(table, path, description["address"]) | provenance)
    log.info("wrote %s: %d rows", path, len(frame))


def read(table: str, paths: str | list[str], description: Mapping) -> pl.DataFrame:
    """Read a table from one or several Parquet files; `upstream` of the job's description contains their address.

    Raises TableError if a file cannot be read, was changed after it was written, contains another table, or has another
    address, other realizations than in its folder's name, or other columns than the schema. The message names file and
    remedy. All other requirements of the schema were checked when the file was written.
    """
    address = description["upstream"][registry.makers(description["system"])[table]]
    paths = [paths] if isinstance(paths, str) else paths
    kind = schema(description["system"], table)
    frames = [_read(table, path, address, kind) for path in paths]
    log.info("read %s: %d rows of %d file(s)", table, sum(map(len, frames)), len(frames))
    return pl.concat(frames, rechunk=True)


def read_schemes(paths: Mapping[str, list[str]], description: Mapping, scenario) -> dict[str, pl.DataFrame]:
    """Read tables of several schemes, from equally many files per scheme; the channel's tables are shared by all.

    Only rows of the realizations that the scenario requests are returned. The first column, `scheme`, contains the
    scheme's name, except in shared tables. `description` is a report's, with the addresses of each scheme's stages.
    """
    schemes_tables = {}
    for table, files_ in paths.items():
        stage = STAGES[registry.makers(description["system"])[table]]
        asked = pl.col("realization") < getattr(scenario, REALIZATIONS[stage.grid or "optimization"])
        per_scheme = len(files_) // len(scenario.schemes)
        frames = []
        for k, scheme in enumerate(scenario.schemes):
            expected = {"system": description["system"], "upstream": description["upstream"][scheme.name]}
            if not stage.each:
                frames = [read(table, files_, expected).filter(asked)]
                break
            frame = read(table, files_[k * per_scheme : (k + 1) * per_scheme], expected).filter(asked)
            frames.append(frame.select(pl.lit(scheme.name).alias("scheme"), pl.all()))
        schemes_tables[table] = pl.concat(frames)
    return schemes_tables


def write_report(frames: Mapping[str, pl.DataFrame], folder: Path) -> None:
    """Write tables of the report, by name, as CSV and Parquet files that appear whole or not at all."""
    for name, frame in frames.items():
        for save in (frame.write_csv, frame.write_parquet):
            files.write(save, str(folder / f"{name}.{save.__name__.removeprefix('write_')}"))


def read_report(path: str | Path) -> pl.DataFrame:
    """Read a table of the report from a Parquet file. Raises DamagedError if it is missing or was changed."""
    return pl.read_parquet(sealed.read_bytes(path))


def _read(table: str, path: str, address: str, kind) -> pl.DataFrame:
    try:
        frame = typed(sealed.read_table(path, _label(table, path, address)), kind, table)
        if "realization" in frame.columns:
            _check_realizations(frame, table, path, table)
    except sealed.DamagedError as error:
        raise TableError(str(error)) from None
    except TableError as error:
        raise TableError(str(sealed.damaged(path, str(error)))) from None
    return frame


def _label(table: str, path: str, address: str) -> dict:
    """Return the label of a table's file, which is verified when the file is read."""
    return {"table": table, "address": address, "realizations": _chunk(path)}


def _chunk(path: str) -> list[int] | None:
    """Return the first realization of a file's chunk and the one after its last, from its folder; None: all."""
    chunk = re.fullmatch(r"(\d+)-(\d+)", Path(path).parent.name)
    return [int(bound) for bound in chunk.groups()] if chunk else None


def _check_realizations(frame: pl.DataFrame, table: str, path: str, place: str) -> None:
    if (chunk := _chunk(path)) is None:
        return
    wanted, held = set(range(*chunk)), set(frame["realization"].unique())
    if strange := sorted(held - wanted):
        raise TableError(f"{place}: contains realization {strange[0]}, expected {chunk[0]} to {chunk[1] - 1}")
    if table in WHOLE and (missing := sorted(wanted - held)):
        raise TableError(f"{place}: lacks realization {missing[0]}")
