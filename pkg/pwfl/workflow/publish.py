"""The published view of a study: its folder `results/STUDY` shows files of the store, under the names that people want.

A record in the folder says which files were published, from where, and what they held. So files that somebody edited or
deleted are found, and published again; what a user put there stays.
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

FOLDER = ".published"  # of records, KIND.json, in a study's folder
ALL = "study"  # the kind of the whole view; others are of what was wanted alone


class Published(NamedTuple):
    """A record: by which command files were published, and each file's source and content."""

    command: str
    values: list[str]  # of the command's option --config
    files: dict[str, tuple[str, int, int, str]]  # path -> file of the store, bytes, time in ns, SHA-256

    def again(self, *values: str) -> str:
        """The command that runs the study again, with more values of --config."""
        options = [*self.values, *values]
        return self.command + (f" --config {shlex.join(options)}" if options else "")


def record_path(folder: Path, kind: str) -> Path:
    """Where the record of a kind is."""
    return folder / FOLDER / f"{kind}.json"


def latest(folder: Path, kind: str = ALL) -> Published | None:
    """The latest record of a kind; None: there is none, or it is damaged."""
    try:
        record = TypeAdapter(Published).validate_json(Path(regular(record_path(folder, kind))).read_bytes())
    except (OSError, ValueError):
        return None
    paths = map(PurePath, record.files)
    return None if any(path.is_absolute() or os.pardir in path.parts for path in paths) else record


def is_shown(record: Published | None, view: dict[str, str], folder: Path) -> bool:
    """Whether a study's folder shows a view as it was published; content is read where only the time differs."""
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
    """Publish what the plan beside a study's mark says (`pwfl.workflow.session`), and make the mark."""
    publish(Path(mark), **json.loads(Path(mark).with_suffix(".json").read_bytes())["publication"])


def publish(mark: Path, view: dict[str, str], command: str, values: list[str]) -> None:
    """Copy the view's files from the store to results/STUDY, note that, and make the mark, .pwfl/STUDY/KIND.shown.

    What was published before and is not in the view is deleted; where the view is a part, of the same part alone.
    Raises DamagedError for a file of the store that is not as its job wrote it; the records then stay as they are.
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
    """A published file. Raises DamagedError where it is not as it was published."""
    what = "was changed after it was published"
    try:
        data = (folder / name).read_bytes()
        if content(str(folder / name)) == record.files[name][3]:
            return data
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
    raise DamagedError(f"{folder / name}: {what}; publish it again: {record.again()}")


def kept(root: Store, name: str, neighbour: str, record: Published) -> bytes:
    """A file that the store has beside a published one, and the folder does not show. Raises DamagedError."""
    return read_bytes(root.path(record.files[neighbour][0]).with_name(name))
