"""Load data sets from files, which are checked, or by the loaders of libraries."""

import gzip
import hashlib
import struct
import zlib
from collections.abc import Mapping
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from pwfl.learning import data_file
from pwfl.learning.datasets import CONTENT, FILE, SIZES, DataError, content

IDX_FILES = tuple(f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1"))
SHA256 = {  # of the plain files, in the order above
    "mnist": (
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    "fashion_mnist": (
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
}
DIGITS_SPLIT_SEED = 0  # of the one split of the digits into training and test samples


def load(dataset: str, folder: str | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Load a data set as bytes: training images and labels, test images and labels.

    Images have shape (record, pixel), labels (record,). `digits` is scikit-learn's (grey levels 0 to 16, scaled to 0 to
    240). MNIST and Fashion-MNIST are read from a `folder` of IDX files or, if it is None, by Keras's loader, which
    downloads them once. CIFAR-10 and CIFAR-100 are always loaded by Keras. Raises DataError if the data differ from the
    original, or a download fails. For CIFAR, whose archive Keras checks itself, only shapes and types are compared.
    """
    if dataset == "digits":
        arrays = _load_digits()
        if content(arrays) != CONTENT[dataset]:
            raise DataError(
                f"{dataset}: scikit-learn's copy differs from the original; install another version of scikit-learn"
            )
        return arrays
    if folder is not None:
        expected = zip(idx_paths(folder), SHA256[dataset], _shapes(dataset), strict=True)
        x_train, y_train, x_test, y_test = (_read_idx(path, sha, shape) for path, sha, shape in expected)
        return x_train, y_train, x_test, y_test
    from keras import datasets

    try:
        (x_train, y_train), (x_test, y_test) = getattr(datasets, dataset).load_data()
    except Exception as error:  # of whatever kind the network, a proxy or a damaged download makes it
        offline = f"data.folder to a folder that holds {', '.join(IDX_FILES)} (each plain or with .gz)"
        if dataset not in SHA256:
            offline = "data.file to a file of it (docs/how-to/own_data.md)"
        raise DataError(f"{dataset}: Keras could not download it: {error}; without a network, set {offline}") from error
    arrays = x_train.reshape(len(x_train), -1), y_train.ravel(), x_test.reshape(len(x_test), -1), y_test.ravel()
    if dataset in CONTENT:
        right = content(arrays) == CONTENT[dataset]
    else:
        shapes = x_train.shape, arrays[1].shape, x_test.shape, arrays[3].shape
        right = shapes == _shapes(dataset) and {array.dtype for array in arrays} == {np.dtype(np.uint8)}
    if not right:
        raise DataError(
            f"{dataset}: Keras's copy differs from the original; delete its file in ~/.keras/datasets and run again"
        )
    return arrays


@cache
def check(dataset: str, folder: str | None) -> None:
    """Raise DataError unless a folder, if given, contains the data set's IDX files; the result is cached."""
    if dataset in SHA256 and folder is not None:
        load(dataset, folder)


@cache
def check_file(path: str, sha256: str, bounds: tuple[float, float] | None) -> None:
    """Raise DataError unless a user's data file is valid (`data_file.load`); the result is cached by its digest."""
    data_file.load(path, bounds)


def idx_paths(folder: str) -> list[Path]:
    """Return the paths of the four IDX files in a folder, plain or gzipped. Raises DataError if one is missing."""
    if not Path(folder).is_dir():
        raise DataError(f"{folder}: folder not found")
    paths = []
    for name in IDX_FILES:
        candidates = [Path(folder, name), Path(folder, name + ".gz")]
        present = next((path for path in candidates if path.is_file()), None)
        if present is None:
            raise DataError(f"{folder}: contains neither {name} nor {name}.gz")
        paths.append(present)
    return paths


def idx_files(dataset: str, folder: str | None) -> list[str]:
    """List the IDX files that a data set is read from; none if a library loads it."""
    return [str(path) for path in idx_paths(folder)] if folder is not None and dataset in SHA256 else []


def run(task, inputs: Mapping[str, Any]) -> dict[str, tuple[np.ndarray, ...]]:
    """Run the stage `dataset`: load a data set, from IDX files if there are any, or a user's data file."""
    if task.variant == FILE:
        return {"dataset": data_file.load(inputs["file"], task.values.bounds)}
    return {"dataset": load(task.variant, str(Path(inputs["files"][0]).parent) if inputs else None)}


def _load_digits():
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(DIGITS_SPLIT_SEED).permutation(len(images))
    images, labels = (images[order] * 15).astype(np.uint8), labels[order].astype(np.uint8)
    n = SIZES["digits"].train
    return images[:n], labels[:n], images[n:], labels[n:]


def _shapes(dataset: str) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of a data set's arrays, in the order of IDX_FILES."""
    size = SIZES[dataset]
    return (size.train, *size.shape), (size.train,), (size.test, *size.shape), (size.test,)


def _read_idx(path: Path, sha256: str, shape: tuple[int, ...]) -> np.ndarray:
    """Read the array of bytes in an IDX file, shape (record, pixel) or (record,).

    No more bytes are read than `shape` has, as kilobytes may unzip to terabytes. Raises DataError unless the file has
    this shape and digest.
    """
    start, size = struct.pack(f">I{len(shape)}I", 0x0800 + len(shape), *shape), prod(shape)
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            header = file.read(len(start))
            if len(header) < len(start) or header[:4] != start[:4]:
                kind = f"an IDX file of bytes with {len(shape)} axes"
                raise DataError(f"{path}: is not {kind} (it does not start with 0x{start[:4].hex()})")
            if header != start:
                held = struct.unpack_from(f">{len(shape)}I", header, 4)
                raise DataError(f"{path}: contains an array of shape {held}, but the original's is {shape}")
            body = file.read(size + 1)
    except (EOFError, OSError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
    if len(body) != size:
        follow = "more" if len(body) > size else len(body)
        raise DataError(f"{path}: is truncated or too long: its header says {size} bytes, but it has {follow}")
    if (digest := hashlib.sha256(header + body).hexdigest()) != sha256:
        raise DataError(f"{path}: differs from the original: its SHA-256 is {digest}, must be {sha256}")
    return np.frombuffer(body, np.uint8).reshape(shape[0], -1).squeeze()
