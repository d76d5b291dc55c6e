"""What a job of the report made, and out of what: a record beside its files, by which alone they are made anew or not.

Reports lie under fixed names, which do not say what a file is of. A record does: it holds a digest of all that the
job's result depends on, and one of each file. Files' times play no part.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from pwfl.runtime.files import write
from pwfl.runtime.kept import damaged

FOLDER = ".made"  # of the records, beside the files


def digest(depends: Mapping) -> str:
    """A digest of all that a job's result depends on: of plain values, in whichever order of their keys."""
    return _sha256(json.dumps(depends, sort_keys=True).encode())


def record(path: str, depends: Mapping, files: Iterable[str]) -> None:
    """Write the record of a job's files, after them, to FOLDER/JOB.json in the folder that they lie in."""
    held = {
        "depends": digest(depends),
        **inputs(depends),
        "files": {Path(file).name: _sha256(Path(file).read_bytes()) for file in files},
    }
    text = json.dumps(held | {"content": digest(held)}, indent=1) + "\n"
    Path(path).parent.mkdir(exist_ok=True)
    write(lambda buffer: buffer.write(text.encode()), path)


def is_of(path: str, depends: Mapping) -> bool:
    """Whether the record at `path` is of these dependencies, and those of its files that are there are as written."""
    held, folder = _held(path), Path(path).parent.parent
    if held is None or held["depends"] != digest(depends):
        return False
    files = {folder / name: written for name, written in held["files"].items()}
    return all(_sha256(file.read_bytes()) == written for file, written in files.items() if file.is_file())


def inputs(depends: Mapping) -> dict:
    """What a job's files are made of, apart from code: addresses by scheme and stage, and a digest of parameters."""
    return {"upstream": depends.get("upstream", {}), "parameters": digest(depends.get("parameters", {}))}


def recorded(path: str) -> dict | None:
    """The `inputs` in a record; None where there is no record."""
    held = _held(path)
    return held and {name: held[name] for name in inputs({})}


def content(path: str | Path) -> bytes:
    """A report's file, as its job wrote it. Raises DamagedError where it is not, or is in no record."""
    path = Path(path)
    try:
        found = path.read_bytes()
    except OSError as error:
        raise damaged(path, f"it cannot be read: {error.strerror}") from None
    records = [held for place in path.parent.glob(f"{FOLDER}/*.json") if (held := _held(str(place)))]
    written = [held["files"][path.name] for held in records if path.name in held["files"]]
    if _sha256(found) not in written:
        raise damaged(path, "it was changed after it was written" if written else "no record lists it")
    return found


def _held(path: str) -> dict | None:
    try:
        held = json.loads(Path(path).read_bytes())
        return held if held.pop("content") == digest(held) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
