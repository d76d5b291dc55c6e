"""Files that are read back: each says where it comes from, and none is taken that was changed, cut or put elsewhere.

What a file says of itself is its *label*, one line of JSON near its end, where the format has room for it: in the
metadata of Parquet files, in the comment of .npz files. It begins with a digest of all of the file's bytes but its own,
which is checked before anything is parsed. Other programs read the files as ever.
"""

import hashlib
import json
import shlex
import zipfile
from collections.abc import Callable, Iterable, Mapping
from io import BytesIO
from typing import TYPE_CHECKING, BinaryIO, TypeVar

import numpy as np

from pwfl.runtime import files

if TYPE_CHECKING:
    import polars as pl

METADATA = "pwfl"  # key of a Parquet file's metadata
SEAL, DIGITS = b'{"sha256": "', 64  # how a label begins, and the digest's length
TAIL = 2**16  # bytes at a file's end among which its label begins
CHUNK = 2**20

Kept = TypeVar("Kept")


class DamagedError(ValueError):
    """A file that is not what was written, or not what belongs there; the message says how to come by it anew."""


def damaged(path: str, what: str) -> DamagedError:
    """The error of a file that cannot be taken."""
    return DamagedError(f"{path} is damaged ({what}): delete it, `rm -f {shlex.quote(str(path))}`, and run again")


def write(path: str, label: Mapping, save: Callable[[BinaryIO, str], None]) -> None:
    """Write a file, which appears whole or not at all, with its label, values for JSON.

    `save` writes the file's content, and the label's text, as it is and once, among the last TAIL bytes.
    """
    text = json.dumps({"sha256": "0" * DIGITS, **label})
    with files.whole(path) as partial, open(partial, "w+b") as file:
        save(file, text)
        if (place := _place(file)) < 0:
            raise ValueError(f"{path}: its label does not stand among its last {TAIL} bytes")
        digest = _digest(file, place)
        file.seek(place)
        file.write(digest)


def read(path: str, expected: Mapping, load: Callable[[BinaryIO], Kept]) -> Kept:
    """What `load` makes of a file that `write` wrote, whose label must say what is `expected`, among other things.

    Raises DamagedError for a file that cannot be read, is not what was written, or belongs elsewhere.
    """
    try:
        with open(path, "rb") as file:
            place = _place(file)
            if place < 0:
                raise damaged(path, "it does not say where it comes from")
            digest = _digest(file, place)
            file.seek(place)
            if file.read(DIGITS) != digest:
                raise damaged(path, "it was changed after it was written")
            file.seek(place - len(SEAL))
            label, _ = json.JSONDecoder().raw_decode(file.read(TAIL).decode("latin-1"))
            for what, wanted in expected.items():
                if (held := label.get(what)) != wanted:
                    raise damaged(path, f"it holds {what} {held}, must be {wanted}")
            file.seek(0)
            return load(file)
    except OSError as error:
        raise damaged(path, f"it cannot be read: {error.strerror or error}") from None


def write_table(frame: "pl.DataFrame", path: str, label: Mapping) -> None:
    """Write a table to a Parquet file, with its label."""

    def save(file: BinaryIO, text: str) -> None:
        buffer = BytesIO()  # where the disk is full Polars may say "transport error" and no more
        frame.write_parquet(buffer, metadata={METADATA: text})
        file.write(buffer.getbuffer())

    write(path, label, save)


def read_table(path: str, expected: Mapping) -> "pl.DataFrame":
    """Read a table that `write_table` wrote; see `read`."""
    import polars as pl  # here, as the workflow's start, which reads no table, would wait for it

    return read(path, expected, lambda file: pl.read_parquet(file.read()))


def write_arrays(arrays: Mapping[str, np.ndarray], path: str, label: Mapping) -> None:
    """Write arrays by their names to an .npz file, with their label."""

    def save(file: BinaryIO, text: str) -> None:
        np.savez(file, **arrays)
        with zipfile.ZipFile(file, "a") as archive:
            archive.comment = text.encode()

    write(path, label, save)


def read_arrays(path: str, names: Iterable[str], expected: Mapping) -> tuple[np.ndarray, ...]:
    """Read those of some arrays that `write_arrays` wrote; see `read`."""

    def load(file: BinaryIO) -> tuple[np.ndarray, ...]:
        with np.load(file) as arrays:
            return tuple(arrays[name] for name in names if name in arrays)

    return read(path, expected, load)


def _place(file: BinaryIO) -> int:
    """Where the digest begins in a file; negative where there is none."""
    start = max(file.seek(0, 2) - TAIL, 0)
    file.seek(start)
    seal = file.read().rfind(SEAL)
    return start + seal + len(SEAL) if seal >= 0 else -1


def _digest(file: BinaryIO, place: int) -> bytes:
    """The digest of a file's bytes, but for those from a place on where it stands itself."""
    digest = hashlib.sha256()
    file.seek(0)
    left = place
    while chunk := file.read(min(CHUNK, left)):
        digest.update(chunk)
        left -= len(chunk)
    file.seek(place + DIGITS)
    while chunk := file.read(CHUNK):
        digest.update(chunk)
    return digest.hexdigest().encode()
