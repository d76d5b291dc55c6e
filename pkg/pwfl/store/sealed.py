"""Write files with a label, and read them after verifying their digest and provenance.

A file's *label* is one line of JSON near its end: in the metadata of Parquet files, in the comment of .npz files. It
begins with a digest of all of the file's bytes except those of the digest, which is verified before anything is parsed.
Other programs can read the files as usual.
A report job's folder has a manifest instead: the digest of each file, as it was written.
"""

import hashlib
import json
import shlex
import zipfile
from collections.abc import Callable, Iterable, Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import numpy as np

from pwfl.store import files

if TYPE_CHECKING:
    import polars as pl

MANIFEST = ".manifest.json"
METADATA = "pwfl"  # key of a Parquet file's metadata
SEAL, DIGITS = b'{"sha256": "', 64  # how a label begins, and the digest's length
TAIL = 2**16  # bytes at a file's end among which its label begins
CHUNK = 2**20

Content = TypeVar("Content")


class DamagedError(ValueError):
    """A file that is not as it was written, or belongs elsewhere; the message contains a remedy."""


def damaged(path: str | Path, what: str) -> DamagedError:
    """Return the error for a file that cannot be used."""
    delete = "rm -rf" if Path(path).is_dir() else "rm -f"
    return DamagedError(f"{path} is corrupt: {what}. Delete it (`{delete} {shlex.quote(str(path))}`) and run again")


def absent(path: str | Path) -> DamagedError:
    """Return the error for a missing file."""
    return DamagedError(f"{path}: is missing; run the study again, which computes it")


def write(path: str, label: Mapping, save: Callable[[BinaryIO, str], None]) -> None:
    """Write a file, which appears whole or not at all, with its label, a mapping of JSON values.

    `save(file, text)` writes the file's content and, unchanged, once and among the last TAIL bytes, the label's text.
    """
    text = json.dumps({"sha256": "0" * DIGITS, **label})
    with files.appearing_whole(path) as partial, open(partial, "w+b") as file:
        save(file, text)
        if (position := _seal_position(file)) < 0:
            raise ValueError(f"{path}: its label does not stand among its last {TAIL} bytes")
        digest = _digest(file, position)
        file.seek(position)
        file.write(digest)


def read(path: str, expected: Mapping, load: Callable[[BinaryIO], Content]) -> Content:
    """Read a file with `load` after verifying its digest and that its label has the `expected` values.

    Raises DamagedError for a file that cannot be read, is not what was written, or belongs elsewhere.
    """
    try:
        with open(files.regular(path), "rb") as file:
            position = _seal_position(file)
            if position < 0:
                raise damaged(path, "it has no provenance label")
            digest = _digest(file, position)
            file.seek(position)
            if file.read(DIGITS) != digest:
                raise damaged(path, "it was changed after it was written")
            file.seek(position - len(SEAL))
            label, _ = json.JSONDecoder().raw_decode(file.read(TAIL).decode("latin-1"))
            for what, wanted in expected.items():
                if (held := label.get(what)) != wanted:
                    raise damaged(path, f"its label says {what} {held}, expected {wanted}")
            file.seek(0)
            return load(file)
    except FileNotFoundError:
        raise absent(path) from None
    except OSError as error:
        raise damaged(path, f"it cannot be read: {error.strerror or error}") from None


def write_table(frame: "pl.DataFrame", path: str, label: Mapping) -> None:
    """Write a table to a Parquet file, with its label."""

    def save(file: BinaryIO, text: str) -> None:
        buffer = BytesIO()  # if the disk is full, Polars may raise only "transport error"
        frame.write_parquet(buffer, metadata={METADATA: text})
        file.write(buffer.getbuffer())

    write(path, label, save)


def read_table(path: str, expected: Mapping) -> "pl.DataFrame":
    """Read a table that `write_table` wrote; see `read`."""
    import polars as pl  # here: the workflow's start, which reads no table, would wait for it

    return read(path, expected, lambda file: pl.read_parquet(file.read()))


def write_arrays(arrays: Mapping[str, Any], path: str, label: Mapping) -> None:
    """Write arrays by their names to an .npz file, with their label."""

    def save(file: BinaryIO, text: str) -> None:
        np.savez(file, **arrays)
        with zipfile.ZipFile(file, "a") as archive:
            archive.comment = text.encode()

    write(path, label, save)


def read_arrays(path: str, names: Iterable[str], expected: Mapping) -> tuple[np.ndarray, ...]:
    """Read the arrays with some names, as far as `write_arrays` wrote them; see `read`."""

    def load(file: BinaryIO) -> tuple[np.ndarray, ...]:
        with np.load(file) as arrays:
            return tuple(arrays[name] for name in names if name in arrays)

    return read(path, expected, load)


def seal_folder(folder: str | Path) -> None:
    """Write the manifest of a folder's files, once these are written."""
    held = {path.name: _sha256(path.read_bytes()) for path in sorted(Path(folder).iterdir()) if path.name[0] != "."}
    files.write_bytes(json.dumps(held, indent=1).encode(), Path(folder, MANIFEST))


def read_bytes(path: str | Path) -> bytes:
    """Read a file of a sealed folder. Raises DamagedError if it is not as it was written."""
    path = Path(path)
    try:
        content = Path(files.regular(path)).read_bytes()
        held = json.loads(Path(files.regular(path.parent / MANIFEST)).read_bytes())
    except FileNotFoundError as error:
        raise absent(error.filename) from None
    except (OSError, ValueError) as error:
        raise damaged(path, f"it cannot be read: {error}") from None
    if not isinstance(held, dict) or held.get(path.name) != _sha256(content):
        raise damaged(path, "it was changed after it was written")
    return content


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _seal_position(file: BinaryIO) -> int:
    """Return the position at which the digest begins in a file; negative: there is none."""
    start = max(file.seek(0, 2) - TAIL, 0)
    file.seek(start)
    seal = file.read().rfind(SEAL)
    return start + seal + len(SEAL) if seal >= 0 else -1


def _digest(file: BinaryIO, position: int) -> bytes:
    """Compute the digest of a file's bytes, except those of the digest, which begins at `position`."""
    digest = hashlib.sha256()
    file.seek(0)
    left = position
    while chunk := file.read(min(CHUNK, left)):
        digest.update(chunk)
        left -= len(chunk)
    file.seek(position + DIGITS)
    while chunk := file.read(CHUNK):
        digest.update(chunk)
    return digest.hexdigest().encode()
