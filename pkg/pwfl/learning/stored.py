"""Write and read the arrays of a data set, its features, and a projection."""

from collections.abc import Mapping, Sequence

import numpy as np

from pwfl.learning.datasets import Dataset
from pwfl.store import sealed

FIELDS = {"dataset": Dataset._fields, "features": Dataset._fields, "projection": ("mean", "directions")}


def write(arrays: Sequence[np.ndarray], name: str, path: str, description: Mapping) -> None:
    """Write the arrays of `name`, one of FIELDS, to an .npz file labelled with the job's stage, address and code."""
    label = {key: description[key] for key in ("stage", "address", "code", "packages")}
    named = dict(zip(FIELDS[name], arrays, strict=False))  # there are no `users` where the data name nobody
    sealed.write_arrays(named, path, label)


def read(name: str, path: str, address: str) -> tuple[np.ndarray, ...]:
    """Read what `write` wrote at an address. Raises `sealed.DamagedError` for any other file."""
    return sealed.read_arrays(path, FIELDS[name], {"address": address})
