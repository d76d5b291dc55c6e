"""The data sets users hold: their sizes, and their samples as training takes them."""

import hashlib
from typing import NamedTuple

import numpy as np


class Size(NamedTuple):
    """Number of training and test samples, of features of a sample, of classes."""

    train: int
    test: int
    features: int
    classes: int


class Dataset(NamedTuple):
    """Samples as float32 features, shape (n, features), and int32 labels, shape (n,).

    Test samples may come with variants, shape (n, variant, features).
    """

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


class DataError(ValueError):
    """Data that is missing or not what it should be; the message names the file."""


SIZES = {
    "digits": Size(1437, 360, 64, 10),
    "mnist": Size(60000, 10000, 784, 10),
    "fashion_mnist": Size(60000, 10000, 784, 10),
}
CONTENT = {  # SHA-256 of the arrays' bytes, in the order of Dataset's fields
    "digits": "d994ef710131ef9dbee5ac87d5f239da5c121e51b016c3bbf6bec158691d3efb",
    "mnist": "06b0d1f124c4e5fa796686ade41a9b778edacc8622f2195a352ef479ad44fc16",
    "fashion_mnist": "ca3ab2a37f845e1b8ae23cab1b51749a3011ba3bf1d9016176d75cbaabac376f",
}


def kept_back(data) -> int:
    """How many of the last training samples a section `data` deals to nobody: the most that one of its keys says."""
    return max(getattr(data, key, None) or 0 for key in ("validation", "reserved"))


def prepared(arrays: tuple[np.ndarray, ...]) -> Dataset:
    """What `sources.load` returned as training takes it: grey levels scaled to [0, 1]."""
    x_train, x_test = (arrays[at].astype(np.float32) / 255 for at in (0, 2))
    return Dataset(x_train, arrays[1].astype(np.int32), x_test, arrays[3].astype(np.int32))


def content(arrays: tuple[np.ndarray, ...]) -> str:
    """Hex digest of the arrays' bytes, one after the other."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array))
    return digest.hexdigest()
