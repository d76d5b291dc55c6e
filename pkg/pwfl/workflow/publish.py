"""Publish a study: copy the *view*, files of the store, to its folder `results/STUDY`, under readable names.

A record in the folder lists the published files, their sources and digests. So files that somebody edited or deleted
are found and published again. Files that a user put there stay.
"""

import hashlib
import json
import os
import shlex
from contextlib import suppress
from pathlib import Path, PurePath
from typing import NamedTuple

from pydantic import TypeAdapter

from pwfl.store.files import content, regular, write_bytes
from pwfl.store.items import Store
from pwfl.store.sealed import DamagedError, read_bytes

FOLDER = ".published"  # folder of records, KIND.json, in a study's folder
ALL = "study"  # the kind of the whole view; other kinds are of wanted files only


class Published(NamedTuple):
    """A record of published files: the command, and each file's source and content."""

    command: str
    values: list[str]  # of the command's option --config
    files: dict[str, tuple[str, int, int, str]]  # path -> file of the store, bytes, time in ns, SHA-256

    def again(self, *values: str) -> str:
        """Return the command that runs the study again, with more values of --config."""
        options = [*self.values, *values]
        return self.command + (f" --config {shlex.join(options)}" if options else "")


def record_path(folder: Path, kind: str) -> Path:
    """Return the path of the record of a kind."""
    return folder / FOLDER / f"{kind}.json"


def latest(folder: Path, kind: str = ALL) -> Published | None:
    """Read the latest record of a kind; None: there is none, or it is damaged."""
    try:
        record = TypeAdapter(Published).validate_json(Path(regular(record_path(folder, kind))).read_bytes())
    except (OSError, ValueError):
        return None
    paths = map(PurePath, record.files)
    return None if any(path.is_absolute() or os.pardir in path.parts for path in paths) else record


def is_shown(record: Published | None, view: dict[str, str], folder: Path) -> bool:
    """Return whether a folder shows a view as it was published; a file's content is read only if its time differs."""
    if record is None or {name: stamp[0] for name, stamp in record.files.items()} != view:
        return False
    for name, (_, size, time_ns, digest) in record.files.items():
        try:
            status = (folder / name).stat()
        except OSError:
            return False
        if status.st_size != size or (status.st_mtime_ns != time_ns and content(str(folder / name)) != digest):
            return False
    return True


def publish_planned(mark: str) -> None:
    """Publish the view that is saved next to a study's mark (`pwfl.workflow.session`), and create the mark."""
    publish(Path(mark), **json.loads(Path(mark).with_suffix(".json").read_bytes())["publication"])


def publish(mark: Path, view: dict[str, str], command: str, values: list[str]) -> None:
    """Copy the view's files from the store to results/STUDY, record them, and create the mark .pwfl/STUDY/KIND.shown.

    Files that were published before and are not in the view are deleted; if only some files are wanted, those of the
    same kind. Raises DamagedError for a file of the store that is not as its job wrote it; records then stay unchanged.
    """
    base, study, kind = mark.parents[2], mark.parent.name, mark.stem
    store, folder, files = Store(base / "store"), base / "results" / study, {}
    record = record_path(folder, kind)
    for name, source in view.items():
        target, data = folder / name, read_bytes(store.path(source))
        target.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256(data).hexdigest()
        if not (target.is_file() and content(str(target)) == digest):
            write_bytes(data, target)
        status = target.stat()
        files[name] = (source, status.st_size, status.st_mtime_ns, digest)
    for path in [*record.parent.glob("*.json")] if kind == ALL else [record]:
        previous = latest(folder, path.stem)
        for name in (previous.files.keys() if previous else set()) - view.keys():
            (folder / name).unlink(missing_ok=True)
            with suppress(OSError):
                (folder / name).parent.rmdir()
        if path.is_file():
            path.unlink()
    record.parent.mkdir(exist_ok=True)
    write_bytes(json.dumps(Published(command, values, files)._asdict(), indent=1).encode(), record)
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()


def published(folder: Path, name: str, record: Published) -> bytes:
    """Read a published file. Raises DamagedError if it is not as it was published."""
    what = "was changed after it was published"
    try:
        data = (folder / name).read_bytes()
        if content(str(folder / name)) == record.files[name][3]:
            return data
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
    raise DamagedError(f"{folder / name}: {what}; publish it again: {record.again()}")


def kept(root: Store, name: str, neighbour: str, record: Published) -> bytes:
    """Read an unpublished file of the store, next to the source of a published `neighbour`. Raises DamagedError."""
    return read_bytes(root.path(record.files[neighbour][0]).with_name(name))
