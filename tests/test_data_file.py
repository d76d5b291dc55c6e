"""Data of one's own: what files may hold, what is refused, by what it is addressed, whose samples are whose."""

import io
import os
import random
import re
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pwfl.learning import data_file, datasets, extraction, partition, sources
from pwfl.learning.datasets import Dataset, Size
from pwfl.scenario import ScenarioError, check_surroundings, load, resolve
from pwfl.stages import DATASET
from pwfl.systems.multicell import channel
from pwfl.workflow.plan import plan

USERS = 12
BOUNDS = [-4, 4]
SYSTEMS = {  # a small scenario of each system that trains, but for its data
    "multicell": {"network": {"users": 10}, "privacy": {"min_noise": 3.5, "max_noise_error": 0.4}},
    "anonymous_oac": {"network": {"devices": 4}, "data": {"samples": 6}},
    "random_orthogonalization": {"network": {"users": 4}, "data": {"samples_per_user": 6}, "training": {"batch_size": 3}},
    "utility_fair": {"network": {"devices": 4}, "data": {"samples_per_device": 6}, "device": {"batch_size": 3}},
}  # fmt: skip


def arrays(shape=(3,), kind=np.float64, train=120, test=30) -> dict[str, np.ndarray]:
    """A data set of three classes and some users."""
    rng = np.random.default_rng(0)
    found = {}
    for part, count in (("train", train), ("test", test)):
        y = np.arange(count) % 3
        x = rng.integers(0, 256, (count, *shape)) if kind == np.uint8 else rng.uniform(-3, 3, (count, *shape))
        found |= {f"x_{part}": x.astype(kind), f"y_{part}": y}
    return found | {"user_train": np.array([f"writer {k % USERS:02}" for k in range(train)])}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder of a study, with a file of somebody's own in it."""
    monkeypatch.chdir(tmp_path)
    np.savez("own.npz", **arrays())
    return tmp_path


def scenario(system="multicell", **data) -> dict:
    own = {"file": "own.npz", "bounds": BOUNDS, "partition": "given"}
    base = SYSTEMS[system]
    return base | {
        "system": system,
        "realizations": 3,
        "training_realizations": 1,
        "data": own | base.get("data", {}) | data,
    }


def error_of(config: dict) -> str:
    with pytest.raises(ScenarioError) as caught:
        check_surroundings(load({"scenarios": {"one": config}}, "study.yaml"))
    return str(caught.value)


def address(config: dict, stage: str) -> str:
    """The address of a stage of the first scheme of a scenario."""
    routes = plan(load({"scenarios": {"one": config}}, "study.yaml")).routes["one"]
    return next(iter(routes.values()))[stage]["address"]


# What is read.


def as_table(held: dict[str, np.ndarray]) -> pl.DataFrame:
    """The same as a table, the test records first."""
    parts = []
    for part in ("test", "train"):
        users = held.get(f"user_{part}", [""] * len(held[f"y_{part}"]))
        parts.append(pl.DataFrame({"x": held[f"x_{part}"], "y": held[f"y_{part}"], "split": part, "user": users}))
    return pl.concat(parts)


@pytest.mark.parametrize(
    ("shape", "kind"), [((3,), np.float64), ((4, 5), np.uint8), ((4, 5, 3), np.int16), ((1,), np.float32)]
)
@pytest.mark.parametrize("lists", [False, True])
def test_an_archive_and_a_table_hold_the_same(tmp_path, shape, kind, lists):
    held = arrays(shape, kind)
    np.savez_compressed(tmp_path / "own.npz", **held)
    table = as_table(held)
    if lists:
        kinds = table["x"].to_numpy().dtype
        kinds = pl.Series(np.zeros(1, kinds)).dtype
        for _ in shape:
            kinds = pl.List(kinds)
        table = table.with_columns(pl.Series("x", table["x"].to_list(), kinds))
    table.write_parquet(tmp_path / "own.parquet")
    bounds = None if kind == np.uint8 else (-4, 4)
    one, other = (data_file.load(str(tmp_path / name), bounds) for name in ("own.npz", "own.parquet"))
    for name, first, second in zip(Dataset._fields, one, other, strict=True):
        assert np.array_equal(first, second), name
    flat = held["x_test"].reshape(30, -1)
    expected = flat / 255 if kind == np.uint8 else (flat + 4) / 8
    prepared = datasets.prepared(one)
    assert prepared.x_test.dtype == np.float32
    assert prepared.x_test == pytest.approx(expected, rel=1e-6)
    assert one.users.tolist() == [k % USERS for k in range(120)]
    path = str(tmp_path / "own.npz")
    size, _ = data_file.look(path, data_file.digest(path), bounds)
    assert (size, size.features) == (Size(120, 30, shape, 3), np.prod(shape))


def test_digits_from_a_file_are_the_digits(tmp_path):
    x_train, y_train, x_test, y_test = expected = sources.load("digits")
    images = {f"x_{part}": x.reshape(-1, 8, 8) for part, x in (("train", x_train), ("test", x_test))}
    path = str(tmp_path / "digits.npz")
    np.savez(path, **images, y_train=y_train, y_test=y_test)
    for array, own in zip(expected, data_file.load(path, None), strict=False):
        assert np.array_equal(array, own)
    size, _ = data_file.look(path, data_file.digest(path), None)
    assert size == datasets.SIZES["digits"]
    # Scaled by bounds they have the same features but for rounding.
    few = [x_train[:5], y_train[:5], x_test[:5], y_test[:5]]
    real = [few[0] / np.float32(255), few[1], few[2] / np.float32(255), few[3]]
    one, other = (extraction.extract(tuple(arrays)) for arrays in (few, real))
    assert other[0] == pytest.approx(one[0], abs=1e-4)
    assert other[2] == pytest.approx(one[2], abs=1e-4)


def test_the_file_says_how_much_there_is_and_the_scenario_keeps_it(folder):
    found = resolve({}, scenario()).data
    assert (found.dataset, found.sha256) == ("file", data_file.digest("own.npz"))
    assert found.content.model_dump() == {"train": 120, "test": 30, "shape": [3], "classes": 3, "users": [10] * USERS}
    fewer = resolve({}, scenario(reserved=15)).data.content.users
    assert fewer == [9] * 9 + [8] * 3  # the last records are dealt to nobody
    assert (
        resolve({}, scenario(partition="quantity", samples_offset=10, samples_log_mean=-9.0)).data.content.users == []
    )


def test_a_resolved_scenario_needs_no_file_and_a_study_of_it_does(folder):
    kept = resolve({}, scenario()).model_dump()
    Path("own.npz").unlink()
    assert resolve({}, kept).model_dump() == kept
    assert "data.file: own.npz: cannot be read: No such file" in error_of(kept)
    np.savez("own.npz", **arrays(train=150))
    before, now = kept["data"]["sha256"], data_file.digest("own.npz")
    for config in (kept, scenario(sha256=before)):
        said = error_of(config)
        assert f"data.sha256: {before} is not the digest of own.npz, {now}; the file was changed or is corrupt" in said
    assert "data.content: differs from own.npz's" in error_of(scenario(content=kept["data"]["content"]))


def flipped(content: bytes, order: random.Random) -> bytes:
    """Content with one bit changed."""
    place, damaged = order.randrange(8 * len(content)), bytearray(content)
    damaged[place // 8] ^= 1 << place % 8
    return bytes(damaged)


def parquet_of(held: dict[str, np.ndarray]) -> pl.DataFrame:
    """The same data set as a table."""
    parts = {part: len(held[f"y_{part}"]) for part in ("train", "test")}
    x, y = (np.concatenate([held[f"{name}_{part}"] for part in parts]) for name in "xy")
    user = [*held["user_train"], *[""] * parts["test"]]
    split = [part for part, count in parts.items() for _ in range(count)]
    return pl.DataFrame({"x": pl.Series(x.tolist()), "y": y, "split": split, "user": user})


@pytest.mark.parametrize("suffix", ["npz", "parquet"])
def test_damage_is_refused_with_a_digest_and_as_far_as_the_format_tells_without(folder, suffix):
    """Of 200 copies of which one bit is changed; no kind of damage ends in anything else than a located message."""
    if suffix == "parquet":
        parquet_of(arrays()).write_parquet("own.parquet")
    path, order, bounds = f"own.{suffix}", random.Random(1), tuple(map(float, BOUNDS))
    whole, right = Path(path).read_bytes(), data_file.load(path, bounds)
    config, refused, taken, other = scenario(file=path, sha256=data_file.digest(path)), [], 0, 0
    assert resolve({}, config)
    for count in range(200):
        Path(path).write_bytes(flipped(whole, order))
        if count < 20:  # the digest decides before anything is read
            assert f"data.sha256: {config['data']['sha256']} is not the digest of {path}" in error_of(config)
        assert data_file.digest(path) != config["data"]["sha256"]
        try:
            found = data_file.load(path, bounds)
        except datasets.DataError as error:
            refused.append(str(error))
        else:
            taken += 1
            other += not all(np.array_equal(array, own) for array, own in zip(found, right, strict=True))
    assert all(error.startswith(f"{path}: ") for error in refused)
    if suffix == "npz":  # names and times in the archive may change, its arrays not
        assert other == 0
    else:
        assert 20 < other <= taken < 200, "docs/how-to/own_data.md says what is not noticed"


# What is refused before any work.


def pickled(held):
    return held | {"y_train": np.array([{}] * 120)}


def changed(name: str, place, value):
    def change(held):
        held[name][place] = value
        return held

    return change


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda held: {name: held[name] for name in held if name != "y_test"}, "y_test is missing; found x_train, "),
        (lambda held: held | {"users_train": held["user_train"]}, "array 'users_train' is unknown; known: x_train"),
        (pickled, "y_train holds Python objects, which could run any code"),
        (lambda held: held | {"x_train": held["y_train"]}, "x_train has shape (120,); must have records and 2 (features), 3"),
        (lambda held: held | {"x_test": np.zeros((0, 3))}, "x_test has shape (0, 3); must have .* none of them empty"),
        (lambda held: held | {"x_test": np.zeros((30, 4))}, "records of x_train have shape (3,), but those of x_test have (4,)"),
        (lambda held: held | {"x_train": held["x_train"] > 0}, "x_train holds bool, must hold integers or floats"),
        (lambda held: held | {"x_train": held["x_train"] * 1j}, "x_train holds complex128, must hold integers or floats"),
        (lambda held: held | {"y_train": held["y_train"][:-1]}, "y_train has shape (119,), must have (120,), one entry per record of x_train"),
        (lambda held: held | {"y_train": held["y_train"][:, None]}, "y_train has shape (120, 1), must have (120,)"),
        (lambda held: held | {"y_train": held["y_train"] + 0.0}, "y_train holds float64, must hold whole numbers"),
        (lambda held: held | {"user_train": np.ones(120)}, "user_train holds float64, must hold whole numbers or text"),
        (lambda held: held | {"user_train": held["user_train"][1:]}, "user_train has shape (119,), must have (120,)"),
        (changed("y_train", 7, -1), "y of train: record 7, counted from 0, has label -1; labels must be 0, 1, 2"),
        (changed("y_train", 7, 10**9), "y of train: record 7, counted from 0, has label 1000000000; labels must be 0"),
        (changed("y_test", 4, 3), "y of test: record 4, counted from 0, has label 3; .* each needs a training record"),
        (lambda held: held | {"y_train": held["y_train"] + 1}, "y of train: no record has label 0"),
        (lambda held: held | {f"y_{part}": 0 * held[f"y_{part}"] for part in ("train", "test")}, "all records have label 0"),
        (changed("x_train", (101, 2), np.nan), "x of train: record 101, counted from 0, has nan as feature 2, outside of"),
        (changed("x_test", (9, 0), 4.5), "x of test: record 9, counted from 0, has 4.5 as feature 0, .* [-4, 4]"),
        (changed("x_train", (0, 1), -np.inf), "x of train: record 0, counted from 0, has -inf as feature 1"),
    ],
)  # fmt: skip
def test_an_archive_that_is_not_what_it_should_be_is_named(folder, change, expected):
    np.savez("own.npz", **change(arrays()))
    found = error_of(scenario())
    assert re.search(".*".join(map(re.escape, expected.split(".*"))), found), found
    assert re.search(r"scenarios.one(\.|: )data\.file: own.npz: ", found), found


def empty(name):
    return lambda table: table.with_columns(
        pl.when(pl.int_range(pl.len()) == 40).then(None).otherwise(name).alias(name)
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda table: table.drop("split"), "column 'split' is missing; found x, y, user"),
        (lambda table: table.rename({"y": "label"}), "column 'label' is unknown; known: x, y, split, user"),
        (lambda table: table.with_columns(split=pl.lit("Train")), "split: row 1 has 'Train', must have 'train' or 'test'"),
        (lambda table: table.filter(split="train"), "x_test has shape (0, 3); must have records"),
        (empty("y"), "column 'y': row 41 is empty"),
        (lambda table: table.with_columns(x=pl.lit("a")), "x_train has shape (120,); must have records"),
        (lambda table: table.with_columns(x=pl.concat_list(pl.lit("a"), pl.lit("b"))), "column 'x' holds List(String), must"),
        (lambda table: table.with_columns(x=pl.concat_list(pl.lit("0.5").cast(pl.Decimal(3, 1)))), "lists of integers or floats"),
        (lambda table: table.with_columns(pl.col("y").cast(str).cast(pl.Categorical)), "column 'y' holds Categorical, must hold whole"),
        (lambda table: table.with_columns(pl.col("y").cast(str)), "y_train holds text, must hold whole numbers"),
        (lambda table: table.with_columns(user=pl.concat_list("user")), "column 'user' holds List(String), must hold whole numbers or"),
        (lambda table: table.with_columns(user=pl.lit(b"\xff")), "column 'user' holds bytes that are not UTF-8 text; store it as"),
        (lambda table: table.with_columns(split=pl.concat_list("split")), "column 'split' holds List(String), must hold 'train' or"),
        (lambda table: table.clear(), "own.parquet: has no rows"),
        (lambda table: table.with_columns(pl.col("y").cast(float)), "y_train holds float64, must hold whole numbers"),
        (
            lambda table: table.with_columns(pl.col("x").arr.to_list().list.head(pl.int_range(pl.len()) % 50 + 1)),
            "x of train: record 0, counted from 0, does not have the first record's shape [1]",
        ),
    ],
)  # fmt: skip
def test_a_table_that_is_not_what_it_should_be_is_named(folder, change, expected):
    change(as_table(arrays())).write_parquet("own.parquet")
    found = error_of(scenario(file="own.parquet"))
    assert expected in found
    assert re.search(r"scenarios.one(\.|: )data\.file: own.parquet: ", found), found


@pytest.mark.parametrize("is_array", [False, True])
@pytest.mark.parametrize("row", [0, 29, 30, 149])  # the first and last record of test and of train
@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (None, "column 'x': row {row} is empty"),
        ([[0.0, 1.0], None], "has an empty value"),
        ([[0.0, 1.0], [0.0, None]], "has an empty value"),
        ([[np.nan, 1.0], [0.0, 1.0]], "has nan as feature 0, outside of data.bounds"),
    ],
)
def test_an_empty_value_in_any_row_is_called_empty(folder, row, record, expected, is_array):
    held = arrays((2, 2))
    table = as_table(held)
    records = table["x"].to_list()
    records[row] = record
    kind = pl.Array(pl.Float64, (2, 2)) if is_array else pl.List(pl.List(pl.Float64))
    if is_array and record is not None and None in record:
        kind = pl.Array(pl.List(pl.Float64), 2)  # in which a whole row of an image can be missing
    table.with_columns(pl.Series("x", records, kind)).write_parquet("own.parquet")
    found = error_of(scenario(file="own.parquet"))
    assert expected.format(row=row + 1) in found
    part, record = ("test", row) if row < 30 else ("train", row - 30)
    assert f"x of {part}: record {record}, counted from 0" in found or f"row {row + 1} " in found


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ([[0.0], [0.0, 1.0]], "column 'x': row 1 has lists of 1 and of 2 values"),
        ([], "x_train has shape (120, 0, 0); must have .* none of them empty"),
        ([[], []], "x_train has shape (120, 2, 0); must have .* none of them empty"),
    ],
)
def test_a_first_record_without_a_shape_is_named(folder, record, expected):
    table = as_table(arrays((2, 2)))
    records = [record, *table["x"].to_list()[1:]]
    table.with_columns(pl.Series("x", records, pl.List(pl.List(pl.Float64)))).write_parquet("own.parquet")
    found = error_of(scenario(file="own.parquet"))
    assert re.search(".*".join(map(re.escape, expected.split(".*"))), found), found


@pytest.mark.parametrize(
    "kind", [pl.Categorical, pl.Enum([f"writer {k:02}" for k in (*range(5, 12), *range(5))]), pl.Binary]
)
def test_users_as_categories_or_bytes_are_text(folder, kind):
    table = as_table(arrays()).filter(split="train")
    test = as_table(arrays()).filter(split="test").with_columns(user=pl.lit("writer 03"))
    table = pl.concat([table.reverse(), test])  # codes of categories follow rows, numbers of users their names
    splits = pl.col("split").cast(pl.Binary if kind == pl.Binary else pl.Categorical)
    table.write_parquet("text.parquet")
    table.with_columns(splits, pl.col("user").cast(kind)).write_parquet("own.parquet")
    users = [data_file.load(f"{name}.parquet", (-4, 4)).users.tolist() for name in ("text", "own")]
    assert users[0] == users[1] == [k % USERS for k in range(120)][::-1]


@pytest.mark.parametrize(
    ("name", "make", "expected"),
    [
        ("no.npz", lambda path: None, "no.npz: cannot be read: No such file"),
        ("a.npz", Path.mkdir, "a.npz: cannot be read: Is a directory"),
        ("a.npz", os.mkfifo, "a.npz: cannot be read: it is not a regular file"),
        ("a.csv", Path.touch, "a.csv: must be an .npz or a .parquet file"),
        ("a.npz", lambda path: path.write_bytes(b"no archive"), "a.npz: cannot be read: File is not a zip file"),
        ("a.parquet", lambda path: path.write_bytes(b"no table"), "a.parquet: cannot be read: "),
        ("a.npz", lambda path: path.write_bytes(Path("own.npz").read_bytes()[:-9]), "a.npz: cannot be read: "),
        ("a.npz", lambda path: zipfile.ZipFile(path, "w").close(), "x_train is missing; found no arrays"),
        ("a.npz", lambda path: np.save(path.open("wb"), np.ones(3)), "a.npz: cannot be read: File is not a zip file"),
    ],
)  # fmt: skip
def test_what_is_no_such_file_is_named(folder, name, make, expected):
    make(folder / name)
    assert expected in error_of(scenario(file=name))


@pytest.mark.parametrize(("suffix", "separator"), [(".csv", ","), (".tsv", "\t")])
def test_a_table_of_text_is_converted_as_the_message_says(folder, suffix, separator):
    x = np.random.default_rng(0).integers(0, 5, (300, 3))
    pl.DataFrame(x, list("abc")).with_columns(label=pl.int_range(pl.len()) % 3).write_csv(
        f"mine{suffix}", separator=separator
    )
    found = error_of(scenario(file=f"mine{suffix}"))
    assert "see docs/how-to/own_data.md" in found
    exec(re.search("run Python: (.*); see", found)[1], {"polars": pl, "numpy": np})
    read = data_file.load("mine.npz", (0, 4))
    assert read.x_train == pytest.approx(x[:200] / 4)
    assert read.x_test == pytest.approx(x[200:] / 4)
    assert read.y_test.tolist() == [k % 3 for k in range(200, 300)]


def test_bytes_that_were_changed_within_an_archive_are_noticed(folder):
    content = bytearray(Path("own.npz").read_bytes())
    content[content.index(b"x_train") + 400] ^= 255
    Path("own.npz").write_bytes(content)
    assert "data.file: own.npz: cannot be read: Bad CRC-32" in error_of(scenario())


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        (
            "x_train",
            (10**9, 784),
            "x_train should have 6272000000000 bytes for its shape (1000000000, 784), but has 64",
        ),
        ("x_train", (-2, -4), "x_train should have 64 bytes for its shape (-2, -4), but has 64"),
    ],
)
def test_a_header_that_promises_more_than_follows_is_refused_before_it_is_read(folder, name, shape, expected):
    with zipfile.ZipFile("own.npz", "w") as archive:
        header = io.BytesIO()
        fields = {"descr": "<f8", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(header, fields)
        archive.writestr(f"{name}.npy", header.getvalue() + bytes(64))
    assert expected in error_of(scenario())


def test_labels_that_unzip_to_more_than_any_study_has_are_not_read(folder, monkeypatch):
    monkeypatch.setattr(data_file, "MOST_BYTES", 100)
    np.savez("own.npz", **arrays(train=114))
    assert "own.npz: y_train has 912 bytes; at most 100 are allowed" in error_of(scenario())
    as_table(arrays(train=114)).write_parquet("own.parquet")
    assert "own.parquet: y has 1,152 bytes; at most 100 are allowed" in error_of(scenario(file="own.parquet"))


@pytest.mark.parametrize(
    ("system", "changes", "expected"),
    [
        ("multicell", {"data": {"dataset": "digits"}}, "data.file: own.npz conflicts with data.dataset: digits; write"),
        ("multicell", {"data": {"file": None, "dataset": "file"}}, "data.file: is missing"),
        ("multicell", {"data": {"folder": "idx"}}, "data.folder: idx is for IDX files, which data.dataset: file does not"),
        ("multicell", {"data": {"bounds": None}}, "data.file: own.npz: x_train holds float64, which must be scaled"),
        ("multicell", {"data": {"bounds": [1, 1]}}, "data.bounds: [1.0, 1.0] is wrong: must be a minimum and a larger maximum"),
        ("multicell", {"data": {"file": None}}, "data.partition: given requires a data.file that names users"),
        ("multicell", {"data": {"file": "nobody.npz"}}, "data.partition: given .* nobody.npz names none"),
        ("multicell", {"network": {"users": 13}}, "network.users: 13 exceeds the 12 users who hold training"),
        ("multicell", {"data": {"reserved": 119}}, "network.users: 10 exceeds the 1 users who hold training"),
        ("multicell", {"data": {"partition": "shards", "labels_per_user": 4, "samples_offset": 1, "samples_log_mean": 0.0}},
         "labels_per_user: 4 is more than the 3 labels of own.npz"),
        ("multicell", {"training": {"model": "cnn"}}, "training.model: cnn requires images of at least 7 pixels per side"),
        ("multicell", {"training": {"features": "strokes"}}, "training.features: strokes require grey images of 8 by 8 or 28"),
        ("anonymous_oac", {"data": {"samples": 11}}, "data.samples: only 0 users of own.npz hold at least 11 training samples"),
        ("random_orthogonalization", {"network": {"users": 13}}, "data.samples_per_user: only 12 users of own.npz hold at least 6"),
        ("utility_fair", {"data": {"samples_per_device": 40}}, "samples_per_device: 4 users would hold 160 .*own.npz has 120"),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_file_is_refused(folder, system, changes, expected):
    np.savez("nobody.npz", **{name: array for name, array in arrays().items() if name != "user_train"})
    config = scenario(system)
    for section, values in changes.items():
        config[section] = config.get(section, {}) | values
    found = error_of(config)
    assert re.search(".*".join(map(re.escape, expected.split(".*"))), found), found


# By what it is addressed.


def test_content_decides_on_the_address_and_no_path_or_time(folder):
    before = {stage: address(scenario(), stage) for stage in (DATASET, "channel", "train", "account")}
    os.utime("own.npz", (1, 1))
    Path("elsewhere").mkdir()
    Path("own.npz").rename("elsewhere/mine.npz")
    moved = scenario(file="elsewhere/mine.npz")
    assert {stage: address(moved, stage) for stage in before} == before
    held = arrays()
    held["x_train"][0, 0] += 0.5
    np.savez("own.npz", **held)
    after = {stage: address(scenario(), stage) for stage in before}
    assert [stage for stage in before if after[stage] != before[stage]] == [DATASET, "train"]
    wider = address(scenario(bounds=[-5, 5]), DATASET)
    assert wider != after[DATASET]
    np.savez("own.npz", **arrays(train=150))
    assert not {address(scenario(), stage) for stage in before} & {*before.values(), *after.values()}


# Whose samples are whose.


def test_a_user_is_one_of_the_files_with_all_its_samples_or_as_many_as_are_asked_for():
    owners = np.random.default_rng(0).choice(8, 100, p=[0.3, 0.25, 0.15, 0.1, 0.1, 0.05, 0.05, 0])
    counts, found = np.unique(owners, return_counts=True)[1], set()
    for realization in range(20):
        samples = partition.samples_by_user(counts, 5, 1, realization)
        dealt = partition.deal_by_user(owners, samples, 1, realization)
        first = [owners[mine[0]] for mine in dealt]
        assert all(set(mine) == set(np.flatnonzero(owners == owner)) for mine, owner in zip(dealt, first, strict=True))
        assert len(set(first)) == 5
        found |= set(first)
        few = partition.deal_by_user(owners, np.full(3, 10), 1, realization)
        assert [len(set(mine)) for mine in few] == [10, 10, 10]
        assert [len(set(owners[mine])) for mine in few] == [1, 1, 1]
    assert found == set(range(7))  # each is somebody in some realization
    with pytest.raises(ValueError, match="7 users need up to 10 samples each; too few users of the data hold"):
        partition.deal_by_user(owners, np.full(7, 10), 1, 0)


def test_the_channel_gives_users_as_many_samples_as_training_deals_out_to_them(folder):
    held = arrays()
    held["user_train"] = np.random.default_rng(1).choice(USERS, 120, p=np.arange(1, USERS + 1) / 78)
    np.savez("own.npz", **held)
    data = resolve({}, scenario(reserved=20)).select_stage("channel").data
    users = data_file.load("own.npz", (-4, 4)).users[:100]
    samples = channel.sample_counts(1, data, range(5), 10)
    assert len(set(samples.ravel())) > 5
    for realization, mine in enumerate(samples):
        dealt = partition.deal_by_user(users, mine, 1, realization)
        owners = [set(users[rows]) for rows in dealt]
        assert [len(rows) for rows in dealt] == [sum(users == owner) for (owner,) in owners] == mine.tolist()
        assert len(set.union(*owners)) == 10


# CIFAR.


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        ({"features": "scattering"}, r"training.features: scattering require grey .* records of cifar10 have shape \(32, 32, 3\)"),
        ({"model": "cnn"}, ""),
        ({"hidden_layers": []}, ""),
    ],
)  # fmt: skip
def test_colour_images_are_learned_or_refused(training, expected):
    config = {"data": {"dataset": "cifar10"}, "training": training}
    if expected:
        with pytest.raises(ScenarioError, match=expected):
            resolve({}, config)
    else:
        assert datasets.size(resolve({}, config).data).features == 3072
