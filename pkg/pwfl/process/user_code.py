"""Functions of users' own, which a config names: FILE.py:FUNCTION, or PACKAGE.MODULE:FUNCTION of what is installed.

The address of what a function makes names all Python files in the folder of its file
(`pwfl.store.imports.find_user_files`), and the files declared that it reads; that it reads no other one is checked
whenever it runs.
"""

import dataclasses
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import chdir, contextmanager
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pwfl import streams
from pwfl.process import guard
from pwfl.store import imports

PATTERN = r"([^:]+\.py|[A-Za-z_]\w*(\.[A-Za-z_]\w*)*):[A-Za-z_]\w*"


class UserCodeError(ValueError):
    """A function of the user's own that is not found, fails, returns what it should not, or uses undeclared files."""


def is_reference(text: str) -> bool:
    """Whether a config's text names a function of the user's own.

    >>> is_reference("greedy.py:schedule"), is_reference("greedy.schedulers:schedule"), is_reference("greedy")
    (True, True, False)
    """
    return re.fullmatch(PATTERN, text) is not None


def split(reference: str) -> tuple[str, str]:
    """The file or module that a reference names, and the function."""
    where, _, function = reference.rpartition(":")
    return where, function


class Now(NamedTuple):
    """A round, and those before it, for a scheduler of the user's own that has a parameter `now`."""

    interval: int  # the round's number, from 0
    decided: np.ndarray  # as the function returned it before, shape (interval, ...)
    sent: np.ndarray  # what came of it, likewise: of who cannot send, nothing
    kept: object  # what the function returned beside its decision in the round before; None at first
    generators: tuple[np.random.Generator, ...]  # of each realization, for this round


class Drawn(NamedTuple):
    """For a function of the user's own that decides once and has a parameter `now`."""

    generators: tuple[np.random.Generator, ...]  # of each realization


def generators(seed: int, purpose: str, realizations: Iterable[int]) -> tuple[np.random.Generator, ...]:
    """A generator of each realization for a function of the user's own; `purpose` is what it decides."""
    return tuple(streams.generator(seed, f"own {purpose}", realization) for realization in realizations)


def call(reference: str, *arguments, reads: Collection[str] = (), now: tuple | None = None):
    """What the function that a reference names returns, of copies of what is given, which it may change.

    It gets `now` only if it has a parameter of this name.

    It may import what lies beside its file, and read the files `reads`. Raises UserCodeError where the function fails,
    which names the last line of the user's code that ran, or where it read anything else.
    What ends a process, such as `sys.exit`, is an error, too; Ctrl-C is not.
    """
    with loaded(reference, reads) as function:
        return function(*arguments, now=now)


@contextmanager
def loaded(reference: str, reads: Collection[str] = ()) -> Generator[Callable]:
    """What `call` calls, as a function of the same arguments, loaded once for several calls."""
    known = imports.find_user_files(split(reference)[0])
    process = os.getpid()
    with guard.isolated(_home(reference)) as read, chdir("."):
        function = _load(reference)
        _end_forked(process)

        def called(*arguments, now: tuple | None = None):
            arguments = [_copied(argument) for argument in arguments]
            try:
                named = {"now": _copied(now)} if now is not None and _has_now(function) else {}
                returned = function(*arguments, **named)
                _end_forked(process)
                return returned
            except BaseException as error:
                _end_forked(process)
                _refuse_to_end(error)
                raise UserCodeError(f"{reference}: fails: {_description(error, function)}") from error

        yield called
    others = read - {os.path.realpath(file) for file in (*known.values(), *reads)}
    if undeclared := sorted(_shown(file) for file in others if os.path.isfile(file)):
        raise UserCodeError(
            f"{reference}: reads {undeclared[0]}, which is not declared, so an edit of that file would not recompute "
            f"results; declare it, `own: {{reads: [{', '.join(undeclared)}]}}`, or `model_reads` beside training.model"
        )


def round_by_round(
    reference: str,
    rounds: Iterable[tuple],
    sent: Callable[[int, np.ndarray], np.ndarray],
    seed: int,
    realizations: Sequence[int],
    reads: Collection[str] = (),
) -> np.ndarray:
    """What a scheduler of the user's own lets users send, asked round by round, shape (realization, round, user).

    It knows of no later round. `rounds` are its arguments; it may have a parameter `now` (`Now`), and return a pair of
    its decision and what it keeps. `sent(t, decision)` is what comes of a decision, of shape (realization, user), and
    raises UserCodeError where it is none.
    """
    decided, went, kept = [], [], None
    with loaded(reference, reads) as function:
        for t, arguments in enumerate(rounds):
            draws = generators(seed, f"schedule/{t}", realizations)
            returned = function(*arguments, now=Now(t, np.array(decided), np.array(went), kept, draws))
            returned, kept = split_kept(reference, returned, len(realizations))
            decided.append(array(reference, returned, "biuf"))
            went.append(sent(t, decided[-1]))
    return np.stack(went, axis=1)


def split_kept(reference: str, returned, realizations: int) -> tuple:
    """What a scheduler decided, and what it keeps (None without), of what it returned: a pair of both, or the one.

    Raises UserCodeError where an array that it keeps has no row for each realization: results would depend on how many
    are worked on together.
    """
    decided, kept = returned if isinstance(returned, tuple) and len(returned) == 2 else (returned, None)
    parts = kept.values() if isinstance(kept, dict) else kept if isinstance(kept, tuple) else [kept]
    for shape in (np.shape(part) for part in parts if part is not None):
        if shape and shape[0] != realizations:
            raise UserCodeError(
                f"{reference}: keeps an array of shape {shape}; each array that it keeps, alone or in a tuple or "
                f"dict, must have one row for each of {realizations} realizations (numbers that all realizations "
                "share are allowed)"
            )
    return decided, kept


def _home(reference: str) -> str | None:
    """The folder of the file that a reference names."""
    where, _ = split(reference)
    return str(Path(where).parent) if where.endswith(".py") else None


def _load(reference: str) -> Callable:
    """The function that a reference names. Raises UserCodeError, which names file and line, where its import fails."""
    where, function = split(reference)
    if where.endswith(".py") and _is_script(where):  # which would run anew, and so call this anew
        if not hasattr(script := sys.modules["__main__"], function):
            raise UserCodeError(f"{reference}: is not defined yet where {where} runs a study; define it above")
        return getattr(script, function)
    try:
        if where.endswith(".py"):
            spec = spec_from_file_location(f"own_{Path(where).stem}", where)
            assert spec is not None  # as of every file whose name ends in .py
            assert spec.loader is not None
            module = sys.modules[spec.name] = module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            module = import_module(where)
        value = getattr(module, function)
    except BaseException as error:
        _refuse_to_end(error)
        raise UserCodeError(f"{reference}: cannot be imported: {_description(error)}") from error
    if not callable(value):
        raise UserCodeError(f"{reference}: is of type {type(value).__name__}; must be a function")
    return value


def _is_script(where: str) -> bool:
    """Whether a file is the script that this process runs."""
    script = getattr(sys.modules["__main__"], "__file__", None)
    return script is not None and os.path.realpath(script) == os.path.realpath(where)


def _has_now(function: Callable) -> bool:
    """Whether a function has a parameter `now`; one without a signature that Python can read has none."""
    try:
        return "now" in inspect.signature(function).parameters
    except ValueError:
        return False


def _shown(file: str) -> str:
    """A file's path, from the folder that is worked in where it lies there."""
    near = os.path.relpath(file, os.path.realpath("."))
    return file if near.startswith(os.pardir) else near


def array(reference: str, returned, kinds: str = "iuf") -> np.ndarray:
    """What a function returned, as an array of numbers, of kinds as NumPy has them.

    Raises UserCodeError for anything else, and for what numbers alone would not tell: masks, imaginary parts.
    """
    if isinstance(returned, np.ma.MaskedArray):
        raise UserCodeError(f"{reference}: returns a masked array, whose mask would be lost; return a plain one")
    try:
        values = np.asarray(returned)
    except ValueError as error:  # rows of several lengths
        raise UserCodeError(f"{reference}: must return an array of numbers: {error}") from None
    if values.dtype.kind not in kinds:
        raise UserCodeError(f"{reference}: returns {values.dtype} of shape {values.shape}; must return real numbers")
    return values


def array_of(reference: str, returned, shape: tuple[int, ...], what: str, kinds: str = "iuf") -> np.ndarray:
    """As `array`, of a shape and of kinds of numbers, as NumPy has them. `what` says what must be returned."""
    values = array(reference, returned, "biuf")
    if values.shape != shape or values.dtype.kind not in kinds:
        raise UserCodeError(
            f"{reference}: returns {values.dtype} of shape {values.shape}; must return {what}, of shape {shape}"
        )
    return values


def noise_of(reference: str, returned, needed: np.ndarray, what: str, zero: bool = False) -> np.ndarray:
    """Noise that a function returned, in double precision, of the shape of `needed`, which says where it must be.

    Elsewhere it is 0; with `zero` it may be so where it must be, too.
    """
    noise = array_of(reference, returned, needed.shape, what).astype(float)
    wrong = needed & ~(np.isfinite(noise) & ((noise >= 0) if zero else (noise > 0)))
    if wrong.any():
        place = tuple(np.argwhere(wrong)[0].tolist())
        hint = "" if zero or noise[wrong][0] else "; for a non-private baseline, use `noise: none`"
        raise UserCodeError(
            f"{reference}: returns {noise[place]:g} at {list(place)}; must return {what}, finite and "
            f"{'not negative' if zero else 'above 0'}{hint}"
        )
    return np.where(needed, noise, 0.0)


def _end_forked(process: int) -> None:
    """End a process that user-defined code forked and that came back: only one goes on with the work."""
    if os.getpid() != process:
        os._exit(0)


def _refuse_to_end(error: BaseException) -> None:
    """Raise what the user at the keyboard asked for, not the function."""
    if isinstance(error, KeyboardInterrupt):
        raise error


def _copied(value):
    """A value with copies of all arrays and tables in it, however deep; the arrays are read-only, so that errors show.

    Plain values, and a scenario's, cannot be changed.
    """
    import polars as pl  # most that import this module only look at names

    if isinstance(value, np.ndarray):
        copy = value.copy()
        copy.flags.writeable = False
        return copy
    if isinstance(value, pl.DataFrame | pl.Series):
        return value.clone()
    if isinstance(value, Mapping):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_copied, value))
    if isinstance(value, list | tuple):
        return type(value)(map(_copied, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: _copied(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return dataclasses.replace(value, **fields)
    return value


def _description(error: BaseException, function: Callable | None = None) -> str:
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
    if (code := getattr(function, "__code__", None)) and len(frames) == 1:  # its parameters are others
        frames = [(code.co_filename, code.co_firstlineno)]
    return f"{words} ({frames[-1][0]}, line {frames[-1][1]})" if frames else words


def _is_users(file: str) -> bool:
    """Whether a file is of the user's code: neither pwfl's, nor Python's, nor installed."""
    return os.path.isfile(file) and guard.is_users(file, frozenset([os.getcwd()]))
