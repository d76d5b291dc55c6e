"""What a command, the Snakefile and `pwfl.simulate` say when something goes wrong.

Errors that this package defines say what is wrong and where, those of the operating system name a file; all others are
faults of the program.
"""

import sys
import tempfile
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager

PACKAGE = "pwfl"


class InternalError(RuntimeError):
    """A fault of the program; the message says where its traceback is kept."""


@contextmanager
def located() -> Generator[None]:
    """Let errors of a block that say what is wrong pass as they are; others become InternalError."""
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
    """What is wrong, and where; the traceback of an internal error goes to a file, which is named."""
    if speaks(error):
        return printable(str(error))
    if isinstance(error, MemoryError):
        return describe(error)
    if isinstance(error, OSError):
        return printable(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    with tempfile.NamedTemporaryFile("w", prefix="pwfl-", suffix=".log", delete=False, encoding="utf-8") as log:
        log.write("".join(traceback.format_exception(error)))
    return (
        f"Internal error: a bug in pwfl, not in your config: {describe(error)}. Please report it; traceback: {log.name}"
    )


def printable(text: str) -> str:
    r"""A text whose lines hold nothing that a terminal would not print: such characters are written as escapes.

    >>> printable("naïve\x00\x1b[31m\nline") == "naïve\\x00\\x1b[31m\nline"
    True
    """
    return "".join(each if each.isprintable() or each == "\n" else repr(each)[1:-1] for each in text)


def describe(error: BaseException) -> str:
    """An error on a line: its words if these say what is wrong, otherwise its kind, words, file and line."""
    if speaks(error):
        return printable(" ".join(str(error).split()))
    if isinstance(error, MemoryError):
        said = " ".join(f"out of memory: {error}".rstrip(": ").split())
        return f"{said}; free memory, raise the limit (ulimit -v), or use fewer --cores"
    words = printable(" ".join(f"{type(error).__name__}: {error}".split()))
    frames = traceback.extract_tb(error.__traceback__)
    return f"{words} ({frames[-1].filename}, line {frames[-1].lineno})" if frames else words


def speaks(error: BaseException) -> bool:
    """Whether an error is one that this package defines, whose words say what is wrong and where."""
    return type(error).__module__.partition(".")[0] == PACKAGE
