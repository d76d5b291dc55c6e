"""Import of channels: read and check tables of gains and users from other programs or measurements."""

import csv
from collections.abc import Mapping
from io import StringIO
from pathlib import Path

import numpy as np
import polars as pl

from pwfl.scenario.messages import shown
from pwfl.stages import IMPORTS
from pwfl.store.files import TextError, text
from pwfl.tables.arrays import size_of, to_array, to_table
from pwfl.tables.contract import TableError

LINKS, USERS = IMPORTS
INTERVAL = "interval"  # coherence interval; a file of links without this column has one
KEYS = {LINKS: ("realization", INTERVAL, "station", "user"), USERS: ("realization", "user")}
NEEDED = {LINKS: ("gain",), USERS: ()}  # required columns besides keys
POSITION = ("station_x_m", "station_y_m")  # of a base station, the same in all its rows of a realization
OPTIONAL = {LINKS: POSITION, USERS: ("x_m", "y_m", "cell", "samples")}
LARGEST = 2.0**63  # smallest whole number above those of tables
METRES = (-1e7, 1e7, "metres from an origin nearby")
BOUNDS = {  # of columns besides keys: minimum, maximum and meaning
    "gain": (1e-30, 1.0, "a power gain as a ratio, not in dB, and not 0 where there is no path"),
    **dict.fromkeys(("x_m", "y_m", *POSITION), METRES),
    "samples": (1, 10**9, "training samples"),
}
REAL = ("gain", "x_m", "y_m", *POSITION)


def run(paths: Mapping[str, str]) -> dict[str, pl.DataFrame]:
    """Read links and users from files, by table: `imported_links`, and optionally `imported_users`.

    Both tables have a row for each combination of keys, which are numbered from 0. The file of links may lack
    `interval` and the base stations' positions. A user without a given cell belongs, in all intervals, to the base
    station of its largest mean gain, the first of several. Other values that are not given are null. Raises TableError
    for an invalid file; the message names file, row and column.
    """
    links = _located(_read(paths[LINKS], LINKS), paths[LINKS])
    gain = to_array(links, "gain", *KEYS[LINKS])
    realizations, _, stations, count = gain.shape
    cell = gain.mean(axis=1).argmax(axis=1)
    users = to_table({"realization": range(realizations), "user": range(count)}, cell=cell)
    if path := paths.get(USERS):
        table = _read(path, USERS)
        for key in KEYS[USERS]:
            if (have := table[key].n_unique()) != (wanted := users[key].n_unique()):
                raise TableError(f"{path}: has {have} {key}s, must have {wanted} as {paths[LINKS]}")
        if ("x_m" in table.columns) != ("y_m" in table.columns):
            raise TableError(f"{path}: has only one of the columns 'x_m' and 'y_m'; give both or none")
        if "cell" in table.columns:
            _check_bounds(table, "cell", 0, stations - 1, f"a station of {paths[LINKS]}", path)
        users = table if "cell" in table.columns else table.with_columns(users["cell"])
    kinds = {"x_m": pl.Float64, "y_m": pl.Float64, "samples": pl.Int64}
    empty = [pl.lit(None, dtype=kind).alias(name) for name, kind in kinds.items() if name not in users.columns]
    return {LINKS: links, USERS: users.with_columns(empty)}


def _located(links: pl.DataFrame, path: str) -> pl.DataFrame:
    """Add base stations' positions to links, null if the file has none. Raises TableError if one has several."""
    position = [name for name in POSITION if name in links.columns]
    if len(position) == 1:
        raise TableError(f"{path}: has only one of the columns {' and '.join(map(repr, POSITION))}; give both or none")
    if not position:
        return links.with_columns(pl.lit(None, pl.Float64).alias(name) for name in POSITION)
    places = links.group_by("realization", "station", maintain_order=True).agg(pl.col(POSITION).n_unique())
    moving = places.filter(pl.max_horizontal(POSITION) > 1).select("realization", "station")
    if len(moving):
        named = _named(moving.row(0, named=True))
        raise TableError(
            f"{path}: {named} has several positions; a base station must have the same position in all rows of a "
            "realization"
        )
    return links


def _read(path: str, table: str) -> pl.DataFrame:
    """Read a file's table, check its columns and values, and sort it; it has a row for each combination of keys."""
    frame = _frame(path)
    keys = tuple(key for key in KEYS[table] if key != INTERVAL or key in frame.columns)
    known = (*KEYS[table], *NEEDED[table], *OPTIONAL[table])
    for name in (*keys, *NEEDED[table]):
        if name not in frame.columns:
            raise TableError(f"{path}: column {name!r} is missing; found {', '.join(frame.columns)}")
    for name in frame.columns:
        if name not in known:
            raise TableError(f"{path}: column {name!r} is unknown; known: {', '.join(known)}")
    if frame.is_empty():
        raise TableError(f"{path}: has no rows")
    frame = frame.with_columns(_numbers(frame[name], path) for name in frame.columns)
    for key in keys:
        _check_bounds(frame, key, 0, len(frame) - 1, f"{key}s are numbered 0, 1, 2 ...", path)
    for name in filter(BOUNDS.get, frame.columns):
        _check_bounds(frame, name, *BOUNDS[name], path)
    twice = frame.select(keys).is_duplicated().arg_true()
    if len(twice):
        named = _named(frame.select(keys).row(twice[0], named=True))
        raise TableError(f"{path}: row {twice[0] + 1}: {named} appears twice")
    frame = frame.sort(keys)
    _check_complete(frame, keys, path)
    missing = [pl.lit(0, pl.Int64).alias(key) for key in KEYS[table] if key not in keys]
    return frame.with_columns(missing).select(*KEYS[table], pl.exclude(KEYS[table]))


def _frame(path: str) -> pl.DataFrame:
    """Read a file."""
    if Path(path).suffix not in (".parquet", ".csv"):
        raise TableError(f"{path}: must be a .parquet or a .csv file")
    if not Path(path).is_file():
        raise TableError(f"{path}: file not found")
    try:
        if path.endswith(".parquet"):  # `*` in a path is part of a name: the address has the hash of one file
            return pl.read_parquet(path, glob=False)
        return pl.read_csv(StringIO(held := text(path)), infer_schema_length=None)
    except TextError as error:
        raise TableError(f"{path}: {error}") from None
    except pl.exceptions.NoDataError:
        raise TableError(f"{path}: is empty") from None
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        if path.endswith(".csv") and (line := _longer_line(held)):
            raise TableError(f"{path}: {line}") from None
        raise TableError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from None


def _longer_line(held: str) -> str | None:
    """Describe the first line of a CSV file with more values than line 1 has names; None: there is none."""
    rows = csv.reader(StringIO(held))
    names = next(rows)
    for row in rows:
        if len(row) > len(names):
            widths = (
                f"line {rows.line_num} has {len(row)} values, but line 1 has {len(names)}: {shown(', '.join(names))}"
            )
            return f"{widths}; line 1 must be the header, which names the columns, without lines above it"
    return None


def _numbers(column: pl.Series, path: str) -> pl.Series:
    """Convert a column to real numbers if it is in REAL, otherwise to whole numbers. Raises TableError for others."""
    real = column.name in REAL
    what, kind = ("numbers", pl.Float64) if real else ("whole numbers", pl.Int64)
    if column.dtype in (pl.Categorical, pl.Enum):
        column = column.cast(pl.String)
    if not (column.dtype.is_numeric() or column.dtype == pl.String):
        raise TableError(f"{path}: column {column.name!r}: holds {column.dtype}, must hold {what}")
    numbers = column.cast(kind, strict=False)
    if not real:
        _refuse(column, column.cast(pl.Float64, strict=False).abs() >= LARGEST, "be below 2^63", path)
    _refuse(column, numbers.is_null() | (numbers != column if column.dtype.is_float() else False), f"hold {what}", path)
    return numbers


def _check_bounds(frame: pl.DataFrame, name: str, least: float, most: float, what: str, path: str) -> None:
    """Raise TableError for NaN, or a value that is not between `least` and `most`."""
    wrong = ~frame[name].is_between(least, most) | frame[name].is_nan()
    _refuse(frame[name], wrong, f"be from {least:g} to {most:g}: {what}", path)


def _refuse(column: pl.Series, wrong: pl.Series, must: str, path: str) -> None:
    """Raise TableError for the first wrong value of a column."""
    for row in wrong.arg_true()[:1]:
        value = "is empty" if column[row] is None else f"{column[row]!r} is wrong"
        raise TableError(f"{path}: row {row + 1}: column {column.name!r}: {value}, must {must}")


def _check_complete(frame: pl.DataFrame, keys: tuple[str, ...], path: str) -> None:
    """Raise TableError unless sorted, distinct rows have all combinations of keys 0, 1, 2 and so on."""
    rest, wanted = np.arange(len(frame) + 1), {}
    for key in keys[:0:-1]:
        rest, wanted[key] = np.divmod(rest, size_of(frame, key))
    wanted = {keys[0]: rest} | {key: wanted[key] for key in keys[1:]}
    right = np.logical_and.reduce([frame[key].to_numpy() == wanted[key][:-1] for key in keys])
    right = np.append(right, rest[-1] > frame[keys[0]].max())
    if not right.all():
        named = _named({key: numbers[right.argmin()] for key, numbers in wanted.items()})
        raise TableError(f"{path}: has no row for {named}; all combinations are required, numbered from 0")


def _named(keys: dict[str, int]) -> str:
    return ", ".join(f"{key} {number}" for key, number in keys.items())
