"""Write files that appear whole or not at all, and read text files that users write."""

import codecs
import errno
import hashlib
import os
import re
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import cache
from io import BytesIO
from pathlib import Path
from uuid import uuid4

MARKS = {  # byte-order marks of text that is not UTF-8; UTF-32's begins like UTF-16's
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
FORMATS = {  # first bytes of files that are not text: their format, and a remedy
    b"\x1f\x8b": "gzip-compressed; unpack it with gunzip",
    b"PK\3\4": "a ZIP archive, or an Excel workbook; unpack it, or save the sheet as CSV UTF-8",
    b"\xd0\xcf\x11\xe0": "an Excel workbook; save the sheet as CSV UTF-8",
    b"PAR1": "a Parquet file",
    b"\x89PNG": "a PNG image",
    b"%PDF": "a PDF document",
}
CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")  # bytes that text in Latin-1 does not have
SAMPLE = 4000  # bytes

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class NoRoomError(OSError):
    """A file for which the disk, or a quota, has no room."""


class TextError(ValueError):
    """Bytes that are not UTF-8 text; the message, which follows a file's name, contains their format and a remedy."""


def text(path: str | Path) -> str:
    """Read a text file that users write. Raises OSError if it cannot be read, and TextError."""
    return decoded(Path(regular(path)).read_bytes())


def decoded(content: bytes) -> str:
    """Decode bytes as UTF-8, without a byte-order mark. Raises TextError."""
    with suppress(UnicodeDecodeError):
        text = content.decode("utf-8-sig")
        if "\0" not in text:
            return text
    raise TextError(_what(content))


def _what(content: bytes) -> str:
    """Describe bytes that are not UTF-8 text, and a remedy."""
    if kind := next((what for start, what in FORMATS.items() if content.startswith(start)), None):
        return f"is not text, but {kind}"
    if encoding := _encoding(content):
        return f"is not UTF-8 text (it is {encoding}); save it as UTF-8"
    try:
        content.decode()
        line = content[: content.index(0)].count(b"\n") + 1
        return f"line {line}: has a NUL byte, which no text has"
    except UnicodeDecodeError as error:
        if CONTROLS.search(content):
            return "is not text, but binary data"
        line, byte = content[: error.start].count(b"\n") + 1, content[error.start]
        return f"line {line}: is not UTF-8 text (byte {byte:#04x}, as in Latin-1 or Windows-1252); save it as UTF-8"


def _encoding(content: bytes) -> str | None:
    """Detect UTF-16 or UTF-32, by a byte-order mark, or by a large share of zero bytes; None: neither."""
    if marked := next((name for mark, name in MARKS.items() if content.startswith(mark)), None):
        return marked
    sample = content[: min(SAMPLE, len(content) // 4 * 4)]
    for name in ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be"):
        with suppress(UnicodeDecodeError):
            is_text = all(character.isprintable() or character.isspace() for character in sample.decode(name))
            if is_text and sample.count(0) > len(sample) / 5:
                return name[:6].upper()
    return None


@contextmanager
def appearing_whole(path: str) -> Generator[str]:
    """Yield a name to write a file under, which becomes `path` when the block ends without an error.

    Raises NoRoomError, which names the file, if the disk is full.
    """
    partial = Path(path).with_name(
        f".{uuid4().hex[:12]}.{Path(path).name}"
    )  # some libraries infer the format from the suffix
    try:
        with room_for(path):
            yield str(partial)
            os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def room_for(path: str | Path) -> Generator[None]:
    """Raise NoRoomError, which names a path, if the block fails because the disk is full."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise NoRoomError(
            f"{path}: cannot be written: {os.strerror(error.errno)}; free disk space or raise your quota, then run "
            "again; finished results are kept"
        ) from None


def write(save: Callable[[BytesIO], object], path: str) -> None:
    """Write a file, which appears whole or not at all, with the content that `save` writes into a buffer."""
    buffer = BytesIO()  # if the disk is full, Polars may raise only "transport error"
    save(buffer)
    with appearing_whole(path) as partial:
        Path(partial).write_bytes(buffer.getbuffer())


def write_bytes(content: bytes, path: str | Path) -> None:
    """Write bytes to a file, which appears whole or not at all."""
    write(lambda buffer: buffer.write(content), str(path))


def regular(path: str | Path) -> str | Path:
    """Return the path of a regular file. Raises OSError for anything else: a device or a pipe may never end."""
    try:
        mode = os.stat(path).st_mode
    except ValueError as error:  # characters that no path may contain
        raise OSError(errno.EINVAL, str(error), str(path)) from None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return path


def content(path: str) -> str:
    """Return the hex SHA-256 digest of a file. Raises OSError, which names the file, if it cannot be read."""
    try:
        status = os.stat(regular(path))
        return _digest(path, status.st_mtime_ns, status.st_size)
    except OSError as error:
        raise OSError(f"{path}: cannot be read: {error.strerror}") from None


@cache
def _digest(path: str, *_stamp: int) -> str:
    # Scenarios of a study mostly share a file: it is read again only if its time or size changes.
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
