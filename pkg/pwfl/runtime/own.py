"""Functions of users' own, which a config names: FILE.py:FUNCTION, or PACKAGE.MODULE:FUNCTION of what is installed.

A file may import installed packages, but nothing beside it: a module's code stands in the address of what it makes, a
file's imports from its own folder would not.
"""

import re
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from pwfl.entrance import described

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
    """The function that a reference names. Raises OwnError where its code cannot be imported."""
    where, function = split(reference)
    try:
        if where.endswith(".py"):
            spec = spec_from_file_location(f"own_{Path(where).stem}", where)
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            module = import_module(where)
        return getattr(module, function)
    except (Exception, SystemExit) as error:
        raise OwnError(f"{reference}: cannot be imported: {described(error)}") from error


def call(reference: str, *given):
    """What the function that a reference names returns. Raises OwnError, which names file and line, where it fails."""
    function = load(reference)
    try:
        return function(*given)
    except Exception as error:
        raise OwnError(f"{reference}: fails: {described(error)}") from error
