"""Functions of users' own, which a config names: FILE.py:FUNCTION, or PACKAGE.MODULE:FUNCTION of what is installed.

A file may import installed packages, but nothing beside it: a module's code stands in the address of what it makes, a
file's imports from its own folder would not.
"""

import dataclasses
import os
import re
import site
import sysconfig
import traceback
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np

PATTERN = r"([^:]+\.py|[A-Za-z_]\w*(\.[A-Za-z_]\w*)*):[A-Za-z_]\w*"


class OwnError(ValueError):
    """A function of the user's own that is not found, or fails, or returns what it should not."""


def named(text: str) -> bool:
    """Whether a config's text names a function of the user's own.

    >>> named("greedy.py:schedule"), named("greedy.schedulers:schedule"), named("greedy")
    (True, True, False)
    """
    return re.fullmatch(PATTERN, text) is not None


def split(reference: str) -> tuple[str, str]:
    """The file or module that a reference names, and the function."""
    where, _, function = reference.rpartition(":")
    return where, function


def files(references: Sequence[str]) -> tuple[str, ...]:
    """The files among what references name, each once."""
    return tuple(dict.fromkeys(where for where, _ in map(split, references) if where.endswith(".py")))


def modules(references: Sequence[str]) -> tuple[str, ...]:
    """The installed modules among what references name, each once."""
    return tuple(dict.fromkeys(where for where, _ in map(split, references) if not where.endswith(".py")))


def load(reference: str) -> Callable:
    """The function that a reference names. Raises OwnError, which names file and line, where its import fails."""
    where, function = split(reference)
    try:
        if where.endswith(".py"):
            spec = spec_from_file_location(f"own_{Path(where).stem}", where)
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            module = import_module(where)
        return getattr(module, function)
    except BaseException as error:
        _refuse_to_end(error)
        raise OwnError(f"{reference}: cannot be imported: {_said(error)}") from error


def call(reference: str, *given):
    """What the function that a reference names returns, of copies of what is given, which it may change.

    Raises OwnError, which names the last line of the user's code that ran, where the function fails. What ends a
    process, such as `sys.exit`, is an error, too; Ctrl-C is not.
    """
    function = load(reference)
    given = [_copied(each) for each in given]
    try:
        return function(*given)
    except BaseException as error:
        _refuse_to_end(error)
        raise OwnError(f"{reference}: fails: {_said(error, function)}") from error


def array(reference: str, returned) -> np.ndarray:
    """What a function returned, as an array of numbers.

    Raises OwnError for anything else, and for what numbers alone would not tell: masks, imaginary parts.
    """
    if isinstance(returned, np.ma.MaskedArray):
        raise OwnError(f"{reference}: returns a masked array, whose mask would be lost; return a plain one")
    try:
        found = np.asarray(returned)
    except ValueError as error:  # rows of several lengths
        raise OwnError(f"{reference}: returns no array of numbers: {error}") from None
    if found.dtype.kind not in "iuf":
        raise OwnError(f"{reference}: returns {found.dtype} of shape {found.shape}; must return real numbers")
    return found


def _refuse_to_end(error: BaseException) -> None:
    """Raise what the user at the keyboard asked for, not the function."""
    if isinstance(error, KeyboardInterrupt):
        raise error


def _copied(value):
    """A value with copies of all arrays and tables in it, however deep; the arrays are read-only, so that errors show.

    Plain values, and a scenario's, cannot be changed.
    """
    import polars as pl  # here, as the workflow's start, which calls no function, would wait for it

    if isinstance(value, np.ndarray):
        copy = value.copy()
        copy.flags.writeable = False
        return copy
    if isinstance(value, pl.DataFrame | pl.Series):
        return value.clone()
    if isinstance(value, Mapping):
        return {key: _copied(each) for key, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_copied, value))
    if isinstance(value, list | tuple):
        return type(value)(map(_copied, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: _copied(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return dataclasses.replace(value, **fields)
    return value


def _said(error: BaseException, function: Callable | None = None) -> str:
    """An error in a line: its kind and words, the last line of the user's code that ran, and who raised it."""
    words = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        frames.append((error.filename, error.lineno))
    users = [frame for frame in frames if _is_users(frame[0])]
    if users:
        file, line = users[-1]
        library = f"; raised in {frames[-1][0]}, line {frames[-1][1]}" if os.path.isfile(frames[-1][0]) else ""
        return f"{words} ({file}, line {line}{library if frames[-1] != users[-1] else ''})"
    if function is not None and hasattr(function, "__code__") and len(frames) == 1:  # its parameters are others
        frames = [(function.__code__.co_filename, function.__code__.co_firstlineno)]
    return f"{words} ({frames[-1][0]}, line {frames[-1][1]})" if frames else words


def _is_users(file: str) -> bool:
    """Whether a file is of the user's code: neither pwfl's, nor Python's, nor installed."""
    path = os.path.realpath(file)
    return os.path.isfile(path) and not path.startswith(_OTHERS)


_OTHERS = tuple(
    os.path.realpath(folder) + os.sep
    for folder in {*sysconfig.get_paths().values(), *site.getsitepackages(), Path(__file__).parent.parent}
)
