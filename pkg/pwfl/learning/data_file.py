"""Read a user's data file: an .npz or Parquet file of features or images, labels and, optionally, users.

An .npz file has the arrays `x_train`, `y_train`, `x_test`, `y_test` and, if it names users, `user_train`; a Parquet
file has the columns `x`, `y`, `split` ("train" or "test") and, if it names users, `user`. Headers and labels are
checked before features are read, which may exceed the memory.
"""

import zipfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import lru_cache, partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pwfl.learning.datasets import DataError, Dataset, Size
from pwfl.store import files

if TYPE_CHECKING:
    import polars as pl

ARRAYS = ("x_train", "y_train", "x_test", "y_test", "user_train")  # of which the last may be missing
COLUMNS = ("x", "y", "split", "user")  # likewise
KINDS = {  # allowed kinds of NumPy's types, and their names in messages
    "x": ("iuf", "integers or floats"),
    "y": ("iu", "whole numbers"),
    "user": ("iuUS", "whole numbers or text"),
}
TEXTS = ("split", "user")  # columns that may be text, also as categories or bytes
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
MOST_BYTES = 2**28  # of labels, or of users, which are read before the size of a study is known
CHUNK = 1000  # records scaled at a time
ENDS = {2: "features", 3: "grey images", 4: "images with channels"}  # by the number of axes of x


class Stored(NamedTuple):
    """An array in a file: its shape and type, and a function that reads it."""

    shape: tuple[int, ...]
    dtype: np.dtype
    read: Callable[[], np.ndarray]


def digest(path: str) -> str:
    """Compute the hex SHA-256 digest of a file's bytes. Raises DataError if it cannot be read."""
    try:
        return files.content(path)
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise DataError(str(error).encode("utf-8", "backslashreplace").decode()) from None


@lru_cache
def look(path: str, sha256: str, bounds: tuple[float, float] | None) -> tuple[Size, np.ndarray]:
    """Return the size of the data set in a file, and the user of each training record (`Dataset.users`).

    Everything except the features is read and checked. The result is cached by the file's digest `sha256`; `bounds`,
    None for bytes, are the smallest and largest value of a feature. Raises DataError, which names the file.
    """
    with _reading(path):
        arrays = _arrays(path)
        if missing := [name for name in ARRAYS[:-1] if name not in arrays]:
            raise DataError(f"{path}: {missing[0]} is missing; found {', '.join(arrays) or 'no arrays'}")
        for part in ("train", "test"):
            _check_part(path, arrays, part, bounds)
        shape, other = (arrays[f"x_{part}"].shape for part in ("train", "test"))
        if shape[1:] != other[1:]:
            raise DataError(
                f"{path}: records of x_train have shape {shape[1:]}, but those of x_test have {other[1:]}; they must "
                "be equal"
            )
        labels = {part: arrays[f"y_{part}"].read() for part in ("train", "test")}
        classes = _classes(path, labels)
        users = np.zeros(0, np.int32)
        if "user_train" in arrays:
            users = np.unique(arrays["user_train"].read(), return_inverse=True)[1].astype(np.int32)
    return Size(shape[0], other[0], shape[1:], classes), users


def load(path: str, bounds: tuple[float, float] | None) -> Dataset:
    """Load the data set in a file: features scaled from `bounds` to [0, 1], float32, or without bounds bytes.

    Raises DataError, which names the file, as `look` does, and for a feature that is not within bounds.
    """
    _, users = look(path, digest(path), bounds)
    with _reading(path):
        arrays = _arrays(path)
        x = (_scaled(arrays[f"x_{part}"].read(), bounds, f"{path}: x of {part}") for part in ("train", "test"))
        y = (arrays[f"y_{part}"].read().astype(np.int32) for part in ("train", "test"))
        return Dataset(next(x), next(y), next(x), next(y), users)


def _arrays(path: str) -> dict[str, Stored]:
    """Return the arrays in a file, by their names in ARRAYS; they are not read yet."""
    suffix = Path(path).suffix
    if suffix not in (".npz", ".parquet"):
        raise DataError(f"{path}: must be an .npz or a .parquet file{_conversion(path)}")
    return _npz(path) if suffix == ".npz" else _parquet(path)


def _conversion(path: str) -> str:
    """Return the end of a message: how to convert a file of another kind."""
    if Path(path).suffix.lower() not in (".csv", ".tsv", ".txt"):
        return "; docs/how-to/own_data.md shows how to write one"
    new, tabs = Path(path).with_suffix(".npz").name, "" if Path(path).suffix.lower() == ".csv" else ", separator='\\t'"
    return (
        f"; to convert it where its last column has the labels and 100 rows are for tests, run Python: "
        f"t = polars.read_csv('{Path(path).name}'{tabs}); x, y = t[:, :-1].to_numpy(), t[:, -1].to_numpy(); "
        f"numpy.savez('{new}', x_train=x[:-100], y_train=y[:-100], x_test=x[-100:], y_test=y[-100:]); see "
        "docs/how-to/own_data.md"
    )


def _npz(path: str) -> dict[str, Stored]:
    columns = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            _check_known(path, "array", name, ARRAYS)
            with archive.open(member) as file:
                version = np.lib.format.read_magic(file)
                if version not in HEADERS:
                    raise DataError(f"{path}: {name} has version {version} of NumPy's format, must have 1.0 or 2.0")
                shape, _, dtype = HEADERS[version](file)
                follow = member.file_size - file.tell()
            if dtype.hasobject:
                raise DataError(
                    f"{path}: {name} holds Python objects, which could run any code when read; store numbers, or "
                    "text as .astype(str) makes it"
                )
            size = prod(shape) * dtype.itemsize
            if min(shape, default=0) < 0 or size != follow:
                raise DataError(f"{path}: {name} should have {size} bytes for its shape {shape}, but has {follow}")
            columns[name] = Stored(shape, dtype, partial(_member, path, member.filename))
    return columns


def _member(path: str, name: str) -> np.ndarray:
    with zipfile.ZipFile(path) as archive, archive.open(name) as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def _parquet(path: str) -> dict[str, Stored]:
    import polars as pl  # here, as it would delay the workflow's start, which reads no table

    table = pl.scan_parquet(path, glob=False)  # `*` in a path is part of a name
    columns = table.collect_schema().names()
    for name in columns:
        _check_known(path, "column", name, COLUMNS)
    if missing := [name for name in COLUMNS[:-1] if name not in columns]:
        raise DataError(f"{path}: column {missing[0]!r} is missing; found {', '.join(columns)}")
    if not (rows := table.select(pl.len()).collect().item()):
        raise DataError(f"{path}: has no rows")
    _check_bytes(path, "y", 8 * rows)
    rest = table.select(name for name in columns if name != "x").collect()
    for name in rest.columns:
        if rest[name].null_count():
            raise DataError(f"{path}: column {name!r}: row {rest[name].is_null().arg_true()[0] + 1} is empty")
    rest = rest.with_columns(_text(rest[name], path) for name in TEXTS if name in rest.columns)
    split = rest["split"]
    if split.dtype != pl.String:
        raise DataError(f"{path}: column 'split' holds {split.dtype}, must hold 'train' or 'test'")
    if len(strange := (~split.is_in(["train", "test"])).arg_true()):
        raise DataError(f"{path}: split: row {strange[0] + 1} has {split[strange[0]]!r}, must have 'train' or 'test'")
    shape, kind = _first(table.select("x").head(1).collect()["x"], path)

    def features(part: str) -> np.ndarray:
        is_part = pl.col("split").cast(pl.String) == part
        chosen = table.with_row_index("row", offset=1).filter(is_part).select("row", "x").collect()
        column = chosen["x"]
        if column.null_count():
            raise DataError(f"{path}: column 'x': row {chosen['row'][column.is_null().arg_true()[0]]} is empty")
        records = len(column)
        for width in shape:
            lengths = column.list.len() if column.dtype == pl.List else pl.repeat(width, len(column), eager=True)
            empty, wrong = column.is_null(), lengths != width
            if (empty | wrong).any():
                at = (empty | wrong).arg_true()[0]
                record = at * records // len(column)
                what = "has an empty value" if empty[at] else f"does not have the first record's shape {shape}"
                raise DataError(f"{path}: x of {part}: record {record}, counted from 0, {what}")
            column = column.explode()
        if column.null_count():
            record = column.is_null().arg_true()[0] * records // len(column)
            raise DataError(f"{path}: x of {part}: record {record}, counted from 0, has an empty value")
        return column.to_numpy().reshape(records, *shape)

    arrays = {}
    for part in ("train", "test"):
        chosen = rest.filter(split == part)
        arrays[f"x_{part}"] = Stored((len(chosen), *shape), kind, partial(features, part))
        for name in {"y", "user"} & set(chosen.columns):
            values = chosen[name].to_numpy()
            values = values.astype(str) if chosen[name].dtype == pl.String else values
            if values.dtype.hasobject:
                raise DataError(f"{path}: column {name!r} holds {chosen[name].dtype}, must hold {KINDS[name][1]}")
            arrays[f"{name}_{part}"] = Stored(values.shape, values.dtype, partial(np.copy, values))
    arrays.pop("user_test", None)  # whose a test record is matters to nothing
    return arrays


def _text(column: "pl.Series", path: str) -> "pl.Series":
    """Convert a column of categories or bytes to text; return others unchanged. Raises DataError if it is not UTF-8."""
    import polars as pl

    if column.dtype not in (pl.Categorical, pl.Enum, pl.Binary):
        return column
    try:
        return column.cast(pl.String)
    except pl.exceptions.ComputeError:
        raise DataError(
            f"{path}: column {column.name!r} holds bytes that are not UTF-8 text; store it as text"
        ) from None


def _first(x: "pl.Series", path: str) -> tuple[list[int], np.dtype]:
    """Return the shape of a record and the type of its numbers, from `x` with the first record alone.

    Raises DataError if lists have different lengths, or do not contain numbers.
    """
    import polars as pl

    shape, values = [], x
    while values.dtype in (pl.List, pl.Array):
        if values.null_count():
            what = "is empty" if values is x else "has an empty value"
            raise DataError(f"{path}: column 'x': row 1 {what}")
        inner: Any = values.dtype
        lengths = values.list.len() if inner == pl.List else pl.Series([inner.size])
        if lengths.n_unique() > 1:
            raise DataError(f"{path}: column 'x': row 1 has lists of {lengths.min()} and of {lengths.max()} values")
        shape.append(lengths[0] if len(lengths) else 0)
        values = values.explode() if shape[-1] else values.clear().explode()
    kind = values.clear().to_numpy().dtype
    if shape and kind.kind not in KINDS["x"][0]:
        raise DataError(f"{path}: column 'x' holds {x.dtype}, must hold lists of {KINDS['x'][1]}")
    return shape, kind


def _check_known(path: str, what: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise DataError(f"{path}: {what} {name!r} is unknown; known: {', '.join(known)}")


def _check_bytes(path: str, name: str, size: int) -> None:
    if size > MOST_BYTES:
        raise DataError(f"{path}: {name} has {size:,} bytes; at most {MOST_BYTES:,} are allowed")


def _check_part(path: str, arrays: dict[str, Stored], part: str, bounds: tuple[float, float] | None) -> None:
    """Raise DataError if shapes or types of the records of a `part`, "train" or "test", are wrong."""
    x, others = arrays[f"x_{part}"], {name: arrays[name] for name in (f"y_{part}", f"user_{part}") if name in arrays}
    if len(x.shape) not in ENDS or not prod(x.shape):
        axes = ", ".join(f"{axes} ({what})" for axes, what in ENDS.items())
        raise DataError(f"{path}: x_{part} has shape {x.shape}; must have records and {axes} axes, none of them empty")
    if x.dtype.kind not in KINDS["x"][0]:
        raise DataError(f"{path}: x_{part} holds {_kind(x.dtype)}, must hold {KINDS['x'][1]}")
    if bounds is None and x.dtype != np.uint8:
        raise DataError(
            f"{path}: x_{part} holds {x.dtype}, which must be scaled; write the minimum and maximum that a feature "
            "can have, as in `bounds: [0, 1]`; only bytes (uint8, 0 to 255) need none"
        )
    for name, array in others.items():
        kinds, what = KINDS[name.partition("_")[0]]
        if array.dtype.kind not in kinds:
            raise DataError(f"{path}: {name} holds {_kind(array.dtype)}, must hold {what}")
        if array.shape != x.shape[:1]:
            raise DataError(
                f"{path}: {name} has shape {array.shape}, must have {x.shape[:1]}, one entry per record of x_{part}"
            )
        _check_bytes(path, name, prod(array.shape) * array.dtype.itemsize)


def _kind(dtype: np.dtype) -> str:
    """Return the name of a NumPy type in a message."""
    return "text" if dtype.kind in "US" else str(dtype)


def _classes(path: str, labels: dict[str, np.ndarray]) -> int:
    """Return the number of classes. Raises DataError unless training labels are 0, 1, 2 ... without gaps."""
    numbered = "labels must be 0, 1, 2 ... without gaps"
    classes = int(labels["train"].max()) + 1
    for part, values in labels.items():
        wrong = (values < 0) | (values >= min(classes, len(labels["train"])))
        if wrong.any():
            at = wrong.argmax()
            raise DataError(
                f"{path}: y of {part}: record {at}, counted from 0, has label {values[at]}; {numbered}, and each "
                "needs a training record"
            )
    if not (counts := np.bincount(labels["train"].astype(np.int64))).all():
        raise DataError(f"{path}: y of train: no record has label {counts.argmin()}; {numbered}")
    if classes < 2:
        raise DataError(f"{path}: y of train: all records have label 0; at least two classes are required")
    return classes


def _scaled(x: np.ndarray, bounds: tuple[float, float] | None, what: str) -> np.ndarray:
    """Reshape features to (record, feature) and scale them from bounds to [0, 1]; without bounds, return bytes.

    Raises DataError, which begins with `what`, for a feature outside of the bounds.
    """
    x = x.reshape(len(x), -1)
    if bounds is None:
        return x
    low, high = bounds
    scaled = np.empty(x.shape, np.float32)
    for first in range(0, len(x), CHUNK):
        chunk = x[first : first + CHUNK].astype(float)
        wrong = ~((low <= chunk) & (chunk <= high))  # which NaN is, too
        if wrong.any():
            row, feature = np.argwhere(wrong)[0]
            raise DataError(
                f"{what}: record {first + row}, counted from 0, has {chunk[row, feature]:g} as feature {feature}, "
                f"outside of data.bounds: [{low:g}, {high:g}]"
            )
        scaled[first : first + CHUNK] = (chunk - low) / (high - low)
    return scaled


@contextmanager
def _reading(path: str) -> Generator[None]:
    """Convert every exception of reading a file, whose kind depends on the damage, to a DataError naming the file."""
    try:
        yield
    except DataError:
        raise
    except MemoryError:
        raise DataError(f"{path}: does not fit into memory") from None
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":  # a panic of Polars is none
            raise
        raise DataError(f"{path}: cannot be read: {error}") from None
