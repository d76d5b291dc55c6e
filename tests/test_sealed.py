"""What is read back: no bit of a file changes unnoticed, and every refusal says how to come by the file anew."""

import hashlib
import json
import random
import resource
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import stage_of
from pwfl import tables
from pwfl.learning import projection, sources, stored
from pwfl.scenario import resolve
from pwfl.store import sealed
from pwfl.store.items import Store

FLIPS = 300
ADDRESS, SHARD = "0123456789ab", "000000-000001"
DESCRIPTION = {"address": ADDRESS, "system": "multicell", "stage": "channel", "code": "c", "packages": {"numpy": "2.0"}}


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def table(path: Path):
    users = stage_of.channel(resolve({}, {}).select_stage("channel"), range(1))["users"]
    tables.write(users, "users", str(path), DESCRIPTION)
    return users, lambda: tables.read("users", str(path), {"system": "multicell", "upstream": {"channel": ADDRESS}})


def learned(path: Path):
    return arrays_of("projection", projection.Projection(drawn(40), drawn(40, 7)), path)


def extracted(path: Path):
    labels = np.arange(20, dtype=np.uint8)
    return arrays_of("features", (drawn(20, 9), labels, drawn(5, 3, 9), labels[:5]), path)


def digits(path: Path):
    return arrays_of("dataset", sources.load("digits"), path)


def arrays_of(name: str, made: tuple, path: Path):
    stored.write(made, name, str(path), DESCRIPTION)
    return made, lambda: stored.read(name, str(path), ADDRESS)


KINDS = {
    "users.parquet": table,
    "projection.npz": learned,
    "features.npz": extracted,
    "data.npz": digits,
}


@pytest.fixture(params=KINDS)
def file(request, tmp_path):
    """A file of each kind, what it holds, and the function that reads it."""
    path = tmp_path / ADDRESS / SHARD / request.param
    path.parent.mkdir(parents=True)
    return path, *KINDS[request.param](path)


def same(one, other) -> bool:
    if isinstance(one, pl.DataFrame):
        return one.equals(other)
    return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def refusal(path: Path, read) -> str:
    """Why a file is refused; a test fails where it is taken, or where the error is another one."""
    with pytest.raises((sealed.DamagedError, tables.TableError)) as caught:
        read()
    message = str(caught.value)
    assert message.startswith(f"{path} is corrupt: ")
    assert message.endswith(f". Delete it (`{'rm -rf' if path.is_dir() else 'rm -f'} {path}`) and run again")
    return message


def test_what_is_stored_is_read(file):
    path, made, read = file
    assert same(read(), made)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("only_label", [False, True])
def test_no_bit_changes_unnoticed(file, only_label):
    path, _, read = file
    content, draw = path.read_bytes(), random.Random(1)
    first = content.rindex(sealed.SEAL) if only_label else 0
    for _ in range(FLIPS // 3 if only_label else FLIPS):
        place, bit = draw.randrange(first, len(content)), draw.randrange(8)
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :])
        refusal(path, read)


def test_nothing_that_was_cut_is_taken(file):
    path, _, read = file
    content, draw = path.read_bytes(), random.Random(3)
    for length in (0, 1, len(content) - 1, *(draw.randrange(len(content)) for _ in range(30))):
        path.write_bytes(content[:length])
        refusal(path, read)
    path.write_bytes(content + b"x")
    refusal(path, read)


def test_what_is_no_file_is_refused(file):
    path, _, read = file
    path.unlink()
    path.mkdir()
    assert "cannot be read: Is a directory" in refusal(path, read)


def test_a_file_that_is_missing_is_not_said_to_be_corrupt(file):
    path, _, read = file
    path.unlink()
    with pytest.raises((sealed.DamagedError, tables.TableError), match=f"^{path}: is missing; run the study again"):
        read()


def test_a_file_of_another_address_is_refused(file):
    path, _, read = file
    content = path.read_bytes()
    assert content.count(ADDRESS.encode()) == 1
    path.write_bytes(resealed(content.replace(ADDRESS.encode(), b"ba9876543210")))
    assert f"says address ba9876543210, expected {ADDRESS}" in refusal(path, read)


def test_a_file_without_a_label_is_refused(file):
    path, _, read = file
    if path.suffix == ".npz":
        with np.load(path) as found:
            held = dict(found)
        np.savez(path, **held)
    else:
        pl.read_parquet(path).write_parquet(path)
    assert "has no provenance label" in refusal(path, read)


def resealed(content: bytes) -> bytes:
    """A file's content with the digest that it should have: what a fault of the package could write."""
    place = content.rindex(sealed.SEAL) + len(sealed.SEAL)
    before, after = content[:place], content[place + sealed.DIGITS :]
    return before + hashlib.sha256(before + after).hexdigest().encode() + after


def test_labels_say_where_files_come_from_to_other_programs(tmp_path):
    path = tmp_path / SHARD / "users.parquet"
    path.parent.mkdir()
    users, _ = table(path)
    assert pl.read_parquet(path).equals(users)
    label = json.loads(pl.read_parquet_metadata(path)["pwfl"])
    wanted = {"table": "users", "address": ADDRESS, "realizations": [0, 1]}
    assert label.items() >= wanted.items()
    learned(path)
    with zipfile.ZipFile(path) as archive:
        label = json.loads(archive.comment)
        assert archive.testzip() is None
    assert label.items() >= {"stage": "channel", "address": ADDRESS, "packages": {"numpy": "2.0"}}.items()


def test_the_same_content_has_the_same_bytes(file):
    path, *_ = file
    content = path.read_bytes()
    path.unlink()
    KINDS[path.name](path)
    assert path.read_bytes() == content


def test_a_label_out_of_reach_is_not_written(tmp_path):
    def save(file, text):
        file.write(text.encode() + bytes(2 * sealed.TAIL))

    with pytest.raises(ValueError, match="its label does not stand among its last"):
        sealed.write(str(tmp_path / "file"), {}, save)
    assert not list(tmp_path.iterdir())


def test_a_file_that_finds_no_room_leaves_the_old_one(file):
    path, made, read = file
    content = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for room in (0, 1, len(content) // 2, len(content) - 1):
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
        try:
            with pytest.raises(OSError, match="File too large"):
                KINDS[path.name](path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert path.read_bytes() == content
    assert same(read(), made)


@pytest.mark.parametrize("damage", [b"", b"address: 000000000000\n", b"\xff\xfe", None])
def test_a_description_is_healed_by_the_next_item_of_its_address(tmp_path, damage):
    root = Store(tmp_path)
    path = tmp_path / "channel" / ADDRESS / "description.json"
    path.parent.mkdir(parents=True)
    root.describe(DESCRIPTION)
    before = path.stat()
    root.describe(DESCRIPTION)
    assert path.stat().st_ino == before.st_ino  # left as it is
    path.unlink()
    if damage is not None:
        path.write_bytes(damage)
    root.describe(DESCRIPTION)
    assert json.loads(path.read_text()) == DESCRIPTION


def test_a_command_to_delete_a_file_works_for_any_name():
    assert "`rm -f 'a table.parquet'`" in str(sealed.damaged("a table.parquet", "cut"))


def test_arrays_may_hold_what_begins_a_label(tmp_path):
    array = np.frombuffer(sealed.SEAL + b"0" * sealed.DIGITS, np.uint8)
    path = str(tmp_path / "data.npz")
    sealed.write_arrays({"x": array}, path, {"address": "0123456789ab"})
    (found,) = sealed.read_arrays(path, ["x"], {"address": "0123456789ab"})
    assert (found == array).all()
