"""Error messages of commands, of the Snakefile and of `pwfl.simulate`.

Messages of errors that this package defines name the problem and its place. Errors of the operating system name a file.
All others, except MemoryError, are bugs in pwfl.
"""

import sys
import tempfile
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import NamedTuple

PACKAGE = "pwfl"
# Libraries whose lines say little about an error: the line that called them is named.
LIBRARIES = {"altair", "dataframely", "dp_accounting", "keras", "numpy", "polars", "pydantic", "scipy", "tensorflow"}
LIBRARIES |= sys.stdlib_module_names


class InternalError(RuntimeError):
    """A bug in pwfl; the message names the file with its traceback."""


@contextmanager
def located() -> Generator[None]:
    """Convert errors of a block to InternalError, except those of this package and of the operating system."""
    try:
        yield
    except Exception as error:
        if speaks(error) or isinstance(error, OSError):
            raise
        raise InternalError(message(error)) from error


def run_command(main: Callable[[list[str]], object]) -> None:
    """Run a command with the arguments of this process; an error ends the process with a message and status 1."""
    try:
        main(sys.argv[1:])
    except Exception as error:
        print(message(error), file=sys.stderr)
        sys.exit(1)


def message(error: Exception) -> str:
    """Return an error's message; for a bug, write the traceback to a file, which the message names."""
    if speaks(error):
        return printable(str(error))
    if isinstance(error, MemoryError):
        return describe(error)
    if isinstance(error, OSError):
        return printable(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    with tempfile.NamedTemporaryFile("w", prefix="pwfl-", suffix=".log", delete=False, encoding="utf-8") as log:
        log.write("".join(traceback.format_exception(error)))
    place = _place(error)
    package = place.package if place else PACKAGE
    return (
        f"Internal error: a bug in {package}, not in your config: {describe(error)}. Please report it; traceback: "
        f"{log.name}"
    )


def printable(text: str) -> str:
    r"""Replace characters of a text that a terminal would not print, except line ends, by escapes.

    >>> printable("naïve\x00\x1b[31m\nline") == "naïve\\x00\\x1b[31m\nline"
    True
    """
    return "".join(each if each.isprintable() or each == "\n" else repr(each)[1:-1] for each in text)


def describe(error: BaseException) -> str:
    """Describe an error on a line: its message if this package defines it, otherwise also its type, file and line.

    File and line are those of the last call outside LIBRARIES.
    """
    if speaks(error):
        return printable(" ".join(str(error).split()))
    if isinstance(error, MemoryError):
        said = " ".join(f"out of memory: {error}".rstrip(": ").split())
        return f"{said}; free memory, raise the limit (ulimit -v), or use fewer --cores"
    words = printable(" ".join(f"{type(error).__name__}: {error}".split()))
    place = _place(error)
    return f"{words} ({place.file}, line {place.line})" if place else words


class _Place(NamedTuple):
    package: str
    file: str
    line: int


def _place(error: BaseException) -> _Place | None:
    """Return the package, file and line of an error's last call outside LIBRARIES; None without a traceback."""
    calls = [
        _Place((frame.f_globals.get("__name__") or PACKAGE).partition(".")[0], frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    return next((call for call in reversed(calls) if call.package not in LIBRARIES), calls[-1] if calls else None)


def speaks(error: BaseException) -> bool:
    """Return whether this package defines an error; its message then names the problem and its place."""
    return type(error).__module__.partition(".")[0] == PACKAGE
