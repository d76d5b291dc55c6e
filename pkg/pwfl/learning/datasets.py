"""Data sets: their sizes, and their records as arrays for training."""

import hashlib
from math import prod
from typing import NamedTuple

import numpy as np


class Size(NamedTuple):
    """The size of a data set.

    Attributes
    ----------
    train, test
        Number of training and test records.
    shape
        Shape of a record's features: (feature,), or (row, column) or (row, column, channel) of an image.
    classes
        Number of classes.
    """

    train: int
    test: int
    shape: tuple[int, ...]
    classes: int

    @property
    def features(self) -> int:
        """Number of features of a record."""
        return prod(self.shape)


class Dataset(NamedTuple):
    """The records of a data set.

    Attributes
    ----------
    x_train, x_test
        Features, float32, shape (record, feature).
    y_train, y_test
        Labels, the number of the class, int32, shape (record,).
    users
        The user who holds each training record, int32, shape (record,): users are numbered from 0 in the order of their
        names. Empty if the data set names no users.
    """

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    users: np.ndarray = np.zeros(0, np.int32)


class DataError(ValueError):
    """Data that is missing or not what it should be; the message names the file."""


FILE = "file"  # the data set that is a file of the user's (`pwfl.learning.data_file`)
SIZES = {
    "digits": Size(1437, 360, (8, 8), 10),
    "mnist": Size(60000, 10000, (28, 28), 10),
    "fashion_mnist": Size(60000, 10000, (28, 28), 10),
    "cifar10": Size(50000, 10000, (32, 32, 3), 10),
    "cifar100": Size(50000, 10000, (32, 32, 3), 100),
}
# SHA-256 of the arrays' bytes, in the order of Dataset's fields. CIFAR's archives are checked by Keras, whose version
# is part of the address of results.
CONTENT = {
    "digits": "d994ef710131ef9dbee5ac87d5f239da5c121e51b016c3bbf6bec158691d3efb",
    "mnist": "06b0d1f124c4e5fa796686ade41a9b778edacc8622f2195a352ef479ad44fc16",
    "fashion_mnist": "ca3ab2a37f845e1b8ae23cab1b51749a3011ba3bf1d9016176d75cbaabac376f",
}


def size(data) -> Size:
    """Return the size of the data set that a config's section `data` names."""
    if data.dataset != FILE:
        return SIZES[data.dataset]
    held = data.content
    return Size(held.train, held.test, tuple(held.shape), held.classes)


def held_out(data) -> int:
    """Return how many of the last training records are reserved, so that no user holds them, by a section `data`."""
    return getattr(data, "reserved", None) or 0


def prepared(arrays: tuple[np.ndarray, ...]) -> Dataset:
    """Convert the arrays of `sources.load` to a `Dataset`, with features scaled to [0, 1]."""
    x_train, x_test = (arrays[at].astype(np.float32) / levels(arrays[at]) for at in (0, 2))
    return Dataset(x_train, arrays[1].astype(np.int32), x_test, arrays[3].astype(np.int32), *arrays[4:])


def levels(x: np.ndarray) -> int:
    """Return the divisor that scales features to [0, 1]: 255 for bytes, 1 for features that are already scaled."""
    return 255 if x.dtype == np.uint8 else 1


def content(arrays: tuple[np.ndarray, ...]) -> str:
    """Return the hex SHA-256 digest of the arrays' bytes, one after the other."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
