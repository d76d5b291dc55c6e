"""Data sets: sizes, IDX files that are not what they should be, storing and restoring."""

import gzip
import hashlib
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from conftest import ROOT, in_turn, snakemake
from pwfl.learning import datasets, sources, stored

ORIGINALS = ROOT.parent / "shared" / "data"  # holds a folder of IDX files for each data set, where it is there at all


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">I{array.ndim}I", 0x0800 + array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of small IDX files that stand for the originals, two of them gzipped."""
    generator = np.random.default_rng(0)
    arrays = [generator.integers(256, size=s) for s in ((6, 28, 28), (6,), (2, 28, 28), (2,))]
    contents = [idx(array) for array in arrays]
    for k, (name, content) in enumerate(zip(sources.IDX_FILES, contents, strict=True)):
        path = tmp_path / (name + ".gz" * (k % 2))
        path.write_bytes(gzip.compress(content) if k % 2 else content)
    monkeypatch.setitem(sources.SHA256, "mnist", tuple(hashlib.sha256(c).hexdigest() for c in contents))
    monkeypatch.setattr(sources, "_shapes", lambda dataset: tuple(array.shape for array in arrays))
    return tmp_path, arrays


def test_digits_are_those_of_scikit_learn_in_another_order():
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    x_train, y_train, x_test, y_test = arrays = sources.load("digits")
    assert datasets.content(arrays) == datasets.CONTENT["digits"]
    assert (*x_train.shape[::-1], len(x_test), len(set(y_test))) == (64, 1437, 360, 10)
    found = zip(np.concatenate([x_train, x_test]).tolist(), [*y_train, *y_test], strict=True)
    assert sorted(found) == sorted(zip((15 * images).tolist(), labels, strict=True))  # each image with its label
    # Their order tells writers apart: the last ones must not be all there is to test.
    first = {row.tobytes() for row in (15 * images[: len(x_train)]).astype(np.uint8)}
    assert 0.7 < np.mean([row.tobytes() in first for row in x_test]) < 0.9


def test_a_folder_of_idx_files_is_read(folder):
    path, arrays = folder
    loaded = sources.load("mnist", str(path))
    for array, expected in zip(loaded, arrays, strict=True):
        assert np.array_equal(array, expected.reshape(len(expected), -1).squeeze())


def test_the_idx_files_of_a_folder_are_known(folder):
    path, _ = folder
    files = sources.idx_files("mnist", str(path))
    assert [Path(file).name.removesuffix(".gz") for file in files] == list(sources.IDX_FILES)
    assert {Path(file).parent for file in files} == {path}
    assert sources.idx_files("mnist", None) == sources.idx_files("digits", str(path)) == []


@pytest.mark.skipif(not ORIGINALS.is_dir(), reason="the original IDX files are not here")
@pytest.mark.parametrize(
    ("dataset", "until"),
    in_turn(
        [("mnist", ("--until", "train")), ("fashion_mnist", ("--until", "dataset"))],
        ("fashion_mnist", ("--until", "dataset")),
    ),
)
def test_the_workflow_learns_from_a_folder_of_idx_files(dataset, until, tmp_path):
    base = {
        "realizations": 1, "training_realizations": 1,
        "schemes": [{"name": "RndSched", "scheduler": "random", "noise": "random"}],
        "data": {"dataset": dataset, "folder": str(ORIGINALS / dataset)}, "training": {"hidden_layers": [], "rounds": 1},
    }  # fmt: skip
    result = snakemake(tmp_path, {"study": "idx", "base": base, "scenarios": {"one": {}}}, "--cores", "2", *until)
    assert result.returncode == 0, result.stdout + result.stderr
    arrays = np.load(next(tmp_path.glob("store/dataset/*/dataset.npz")))
    assert datasets.content([arrays[name] for name in datasets.Dataset._fields[:4]]) == datasets.CONTENT[dataset]


def test_what_is_stored_is_restored_as_numbers_in_the_unit_interval(folder, tmp_path):
    arrays = sources.load("mnist", str(folder[0]))
    origin = {"stage": "dataset", "address": "a", "code": "", "packages": {}}
    stored.write(arrays, "dataset", str(tmp_path / "data.npz"), origin)
    restored = datasets.prepared(stored.read("dataset", str(tmp_path / "data.npz"), "a"))
    assert restored.x_train.dtype == np.float32
    assert np.array_equal(np.rint(restored.x_train * 255), arrays[0])
    assert np.array_equal(restored.y_test, arrays[3])
    assert 0 <= restored.x_test.min() <= restored.x_test.max() <= 1


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda path: path.unlink(), "contains neither train-images-idx3-ubyte nor train-images-idx3-ubyte.gz"),
        (lambda path: path.write_bytes(path.read_bytes()[:-5]), "is truncated or too long"),
        (lambda path: path.write_bytes(path.read_bytes() + b"x"), "is truncated or too long"),
        (lambda path: path.write_bytes(b"\x89PNG" + path.read_bytes()[4:]), "is not an IDX file of bytes with 3 axes"),
        (lambda path: path.write_bytes(b""), "is not an IDX file"),
        (lambda path: path.write_bytes(idx(np.zeros((6, 28, 28)))), "differs from the original: its SHA-256"),
        (
            lambda path: path.write_bytes(idx(np.zeros((7, 28, 28)))),
            r"contains an array of shape \(7, 28, 28\), but .* is \(6, 28, 28\)",
        ),
        (
            lambda path: path.write_bytes(struct.pack(">4I", 0x0803, 2**31, 2**31, 4)),
            "contains an array of shape .21474836",
        ),
        (
            lambda path: path.write_bytes(struct.pack(">4I", 0x0803, 2**32 - 1, 1, 1)),
            "contains an array of shape .42949672",
        ),
    ],
)
def test_a_wrong_idx_file_is_named(folder, damage, expected):
    damage(folder[0] / sources.IDX_FILES[0])
    with pytest.raises(datasets.DataError, match=expected):
        sources.check("mnist", str(folder[0]))


@pytest.mark.parametrize(
    "damage",
    [lambda content: content[:-9], lambda content: b"no gzip", lambda content: content[:12] + bytes(9) + content[21:]],
)
def test_a_damaged_gzip_file_is_named(folder, damage):
    path = folder[0] / (sources.IDX_FILES[1] + ".gz")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(datasets.DataError, match=r"train-labels-idx1-ubyte.gz: cannot be read"):
        sources.check("mnist", str(folder[0]))


@pytest.mark.parametrize("header", [(6, 28, 28), (60_000, 28, 28)])
def test_of_an_idx_file_that_unzips_to_more_no_more_is_read_than_the_data_set_has(folder, header):
    path = folder[0] / (sources.IDX_FILES[0] + ".gz")
    path.with_suffix("").unlink()
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(struct.pack(">4I", 0x0803, *header))
        for _ in range(64):
            file.write(bytes(2**20))
    assert path.stat().st_size < 2**20
    tracemalloc.start()
    with pytest.raises(datasets.DataError, match=r"is truncated or too long|contains an array of shape"):
        sources.check("mnist", str(folder[0]))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**21  # of 64 MiB


def test_the_arrays_of_a_data_set_have_its_sizes():
    for name in sources.SHA256:
        x_train, y_train, x_test, y_test = sources._shapes(name)
        assert (x_train[0], x_test[0], x_train[1:], 10) == datasets.SIZES[name]
        assert (y_train, y_test) == (x_train[:1], x_test[:1])


def test_without_a_folder_keras_loads_the_data(monkeypatch):
    from keras import datasets as keras_datasets

    images, labels = np.ones((3, 28, 28), np.uint8), np.arange(3, dtype=np.uint8)
    monkeypatch.setattr(keras_datasets.fashion_mnist, "load_data", lambda: ((images, labels), (images[:1], labels[:1])))
    with pytest.raises(datasets.DataError, match="fashion_mnist: Keras's copy differs from the original"):
        sources.load("fashion_mnist")
    content = datasets.content((images.reshape(3, -1), labels, images[:1].reshape(1, -1), labels[:1]))
    monkeypatch.setitem(datasets.CONTENT, "fashion_mnist", content)
    x_train, y_train, x_test, _ = sources.load("fashion_mnist")
    assert x_train.shape == (3, 784)
    assert x_test.shape == (1, 784)
    assert np.array_equal(y_train, labels)


def test_a_failed_download_names_the_parameter_that_does_without(monkeypatch):
    from keras import datasets as keras_datasets

    def fails():
        raise Exception("URL fetch failure on https://host/train.gz: None -- Name or service not known")

    monkeypatch.setattr(keras_datasets.mnist, "load_data", fails)
    with pytest.raises(datasets.DataError) as caught:
        sources.load("mnist")
    message = str(caught.value)
    assert "Name or service not known" in message
    assert "data.folder" in message
    assert all(name in message for name in sources.IDX_FILES)


@pytest.mark.parametrize("dataset", ["cifar10", "cifar100"])
def test_keras_loads_cifar_and_its_sizes_are_looked_at(dataset, monkeypatch):
    import keras

    size = datasets.Size(6, 2, (4, 4, 3), datasets.SIZES[dataset].classes)
    monkeypatch.setitem(datasets.SIZES, dataset, size)
    image, label = (lambda n: np.full((n, 4, 4, 3), 7, np.uint8)), lambda n: np.ones((n, 1), np.uint8)
    loaded = [(image(6), label(6)), (image(2), label(2))]
    monkeypatch.setattr(getattr(keras.datasets, dataset), "load_data", lambda: loaded)
    assert [array.shape for array in sources.load(dataset)] == [(6, 48), (6,), (2, 48), (2,)]
    for wrong in [(image(5), label(6)), (image(6), label(7)), (image(6) / 255, label(6))]:
        loaded[0] = wrong
        with pytest.raises(datasets.DataError, match=f"{dataset}: Keras's copy differs from the original"):
            sources.load(dataset)
