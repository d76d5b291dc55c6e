"""Files that appear whole or not at all."""

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from pathlib import Path
from uuid import uuid4

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class NoRoomError(OSError):
    """A file that the disk, or a quota, has no room for."""


@contextmanager
def appearing_whole(path: str) -> Iterator[str]:
    """A name to write a file under, which becomes `path` when the block ends without an error.

    Raises NoRoomError, which names the file, where the disk is full.
    """
    partial = Path(path).with_name(
        f".{uuid4().hex[:12]}.{Path(path).name}"
    )  # some libraries tell the format by the suffix
    try:
        with room_for(path):
            yield str(partial)
            os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def room_for(path: str | Path) -> Iterator[None]:
    """Raise NoRoomError, which names a path, for an error of the block that says that the disk is full."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise NoRoomError(
            f"{path}: cannot be written: {os.strerror(error.errno)}; free disk space or raise your quota, then run "
            "again; finished results are kept"
        ) from None


def write(save: Callable[[BytesIO], None], path: str) -> None:
    """Write what `save` puts into a buffer to a file, which appears whole or not at all."""
    buffer = BytesIO()  # where the disk is full Polars may say "transport error" and no more
    save(buffer)
    with appearing_whole(path) as partial:
        Path(partial).write_bytes(buffer.getbuffer())


def regular(path: str | Path) -> str | Path:
    """The path of a regular file: a device or a pipe may never end. Raises OSError for anything else."""
    try:
        mode = os.stat(path).st_mode
    except ValueError as error:  # of characters that no name has
        raise OSError(errno.EINVAL, str(error), str(path)) from None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return path


def content(path: str) -> str:
    """A digest of a file's content. Raises OSError, which names the file, where it cannot be read."""
    try:
        status = os.stat(regular(path))
        return _digest(path, status.st_mtime_ns, status.st_size)
    except OSError as error:
        raise OSError(f"{path}: cannot be read: {error.strerror}") from None


@cache
def _digest(path: str, *_stamp: int) -> str:
    # Scenarios of a study mostly share a file: it is not read again while time and size stay.
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
