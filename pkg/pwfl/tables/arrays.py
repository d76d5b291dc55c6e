"""Conversion between tables and arrays, and joins of tables, by their keys."""

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
import polars as pl

from pwfl.tables.contract import TableError


def to_array(frame: pl.DataFrame, column: str, *keys: str) -> np.ndarray:
    """Convert a column to an array with an axis for each key, along which the key's values increase; null is NaN.

    Raises TableError if the rows, in any order, are not one for each combination of the keys' values.

    >>> frame = pl.DataFrame({"realization": [1, 0, 0, 1], "user": [1, 0, 1, 0], "power_w": [4.0, 1.0, 2.0, 3.0]})
    >>> to_array(frame, "power_w", "realization", "user")
    array([[1., 2.],
           [3., 4.]])
    """
    shape = tuple(frame[key].n_unique() for key in keys)
    if np.prod(shape) == len(frame):
        for rows in (frame, frame.sort(keys)):
            if all(_along(rows[key], axis, shape) for axis, key in enumerate(keys)):
                return rows[column].to_numpy().reshape(shape)
    raise TableError(
        f"column {column!r}: {len(frame)} rows are not one for each of {' x '.join(map(str, shape))} values of "
        f"{', '.join(keys)}"
    )


def _along(key: pl.Series, axis: int, shape: tuple[int, ...]) -> bool:
    """Return whether a key's values, in this shape, increase along their axis and are constant along all others."""
    values = key.to_numpy().reshape(shape)
    first = values[tuple(slice(None) if a == axis else slice(0, 1) for a in range(len(shape)))]
    return bool((values == first).all() and (np.diff(first.ravel()) > 0).all())


def to_table(keys: Mapping[str, Sequence[int] | pl.Series | np.ndarray], **columns) -> pl.DataFrame:
    """Convert arrays with an axis for each key to a table with a row for each combination of the keys' values.

    `keys` contains the keys' columns, with the values along each axis. `columns` may also be numbers, for all rows. NaN
    stays NaN.

    >>> to_table({"realization": range(3, 5), "user": range(2)}, power_w=np.array([[1.0, 2.0], [3.0, 4.0]])).rows()
    [(3, 0, 1.0), (3, 1, 2.0), (4, 0, 3.0), (4, 1, 4.0)]
    """
    shape = tuple(len(values) for values in keys.values())
    axes = np.meshgrid(*(np.asarray(values) for values in keys.values()), indexing="ij")
    arrays = dict(zip(keys, axes, strict=True)) | columns
    return pl.DataFrame({name: np.broadcast_to(values, shape).ravel() for name, values in arrays.items()})


def size_of(frame: pl.DataFrame, key: str) -> int:
    """Return the number of things that a key numbers from 0: its largest value plus 1."""
    return frame.select(pl.col(key).max()).item() + 1


def span_of(frame: pl.DataFrame) -> range:
    """Return the realizations of a table, which are consecutive."""
    first, last = frame.select(first=pl.col("realization").min(), last=pl.col("realization").max()).row(0)
    return range(first, last + 1)


def ends_of(values: pl.Series) -> tuple[float, float]:
    """Return the smallest and the largest of some numbers."""
    return cast(float, values.min()), cast(float, values.max())


def joined(left: pl.DataFrame, right: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Add to a table's rows, in their order, the columns of another table with one row for each of their keys.

    Raises TableError if the other table lacks a row, or has several for one key.

    >>> users = pl.DataFrame({"user": [0, 1], "samples": [10, 20]})
    >>> joined(users, pl.DataFrame({"user": [1, 0], "noise_std": [0.2, 0.1]}), "user")["noise_std"].to_list()
    [0.1, 0.2]
    """
    table = left.join(right.with_columns(__found=True), on=keys, how="left", maintain_order="left")
    if len(table) > len(left) or table["__found"].null_count():
        lacking = table.filter(pl.col("__found").is_null()).select(keys)
        what = f"no row for {lacking.row(0, named=True)}" if len(lacking) else "several rows for one key"
        raise TableError(f"tables with columns {left.columns} and {right.columns} do not fit: the second has {what}")
    return table.drop("__found")
