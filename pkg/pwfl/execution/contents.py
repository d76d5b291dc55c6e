"""Digests of the user's data in a training run: of records and rows as they are checked, not of the files' bytes.

Noise depends on them (`pwfl.streams.name_noise`). So noise on other records or channels is independent, and noise for a
file that is written again, in another format or with further realizations, is the same.
"""

import hashlib
from collections.abc import Iterable, Mapping

import numpy as np
import polars as pl

from pwfl.learning import datasets
from pwfl.scenario.values import Values, value_of
from pwfl.stages import DATASET, IMPORTS


def contents(values: Values, inputs: Mapping, realizations: range) -> dict[str, str]:
    """Compute a digest for each realization, by its number as text; empty if nothing comes from the user's files.

    `inputs` contains the arrays of the data set and the imported tables, if the scenario has these.
    """
    own_data = DATASET in inputs and value_of(values, "data.dataset") == datasets.FILE
    records = [_digest(_records(values, inputs[DATASET]))] if own_data else []
    tables = [
        inputs[name].filter(pl.col("realization").is_in(list(realizations))).partition_by("realization", as_dict=True)
        for name in IMPORTS
        if name in inputs
    ]
    if not (records or tables):
        return {}
    return {
        str(realization): "/".join([*records, *(_digest(_columns(table[realization,])) for table in tables)])
        for realization in realizations
    }


def _records(values: Values, arrays: tuple[np.ndarray, ...]) -> Iterable[tuple[str, np.ndarray]]:
    """Yield the features, labels and users of the training records that users may hold; not of reserved ones."""
    data = datasets.prepared(arrays)
    dealt = slice(len(data.y_train) - datasets.held_out(values.data))
    yield from (("x", data.x_train[dealt]), ("y", data.y_train[dealt]), ("users", data.users[dealt]))


def _columns(table: pl.DataFrame) -> Iterable[tuple[str, np.ndarray]]:
    """Yield the columns of a realization's rows by name, except `realization` and columns without any value."""
    for name in sorted(table.columns):
        if name != "realization" and table[name].null_count() < len(table):
            yield name, table[name].to_numpy()


def _digest(arrays: Iterable[tuple[str, np.ndarray]]) -> str:
    """Compute the digest of named arrays, the same on machines of either byte order."""
    digest = hashlib.sha256()
    for name, array in arrays:
        digest.update(f"{name} {array.dtype.kind}{array.dtype.itemsize} {array.shape};".encode())
        digest.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).data)
    return digest.hexdigest()
