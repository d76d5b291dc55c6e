"""Call user-defined functions, which a config names: FILE.py:FUNCTION, or PACKAGE.MODULE:FUNCTION if installed.

The address of a function's results covers all Python files in the folder of its file
(`pwfl.store.imports.find_user_files`), and the declared files that it reads. Each call checks that it reads no others.
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
    """A user-defined function that is not found, fails, returns an invalid value, or reads undeclared files."""


def is_reference(text: str) -> bool:
    """Return whether a config's text names a user-defined function.

    >>> is_reference("greedy.py:schedule"), is_reference("greedy.schedulers:schedule"), is_reference("greedy")
    (True, True, False)
    """
    return re.fullmatch(PATTERN, text) is not None


def split(reference: str) -> tuple[str, str]:
    """Split a reference into the name of its file or module, and that of its function."""
    where, _, function = reference.rpartition(":")
    return where, function


class Now(NamedTuple):
    """The current round, and those before it, for a user-defined scheduler with a parameter `now`."""

    interval: int  # the round's number, from 0
    decided: np.ndarray  # the function's earlier decisions, shape (interval, ...)
    sent: np.ndarray  # what users then sent, the same shape: nothing for users who cannot send
    kept: object  # the value that the function returned with its last decision; None at first
    generators: tuple[np.random.Generator, ...]  # one per realization, for this round


class Drawn(NamedTuple):
    """Random generators for a user-defined function that decides once and has a parameter `now`."""

    generators: tuple[np.random.Generator, ...]  # one per realization


def generators(seed: int, purpose: str, realizations: Iterable[int]) -> tuple[np.random.Generator, ...]:
    """Return a random generator per realization for a user-defined function; `purpose` names its decision."""
    return tuple(streams.generator(seed, f"own {purpose}", realization) for realization in realizations)


def call(reference: str, *arguments, reads: Collection[str] = (), now: tuple | None = None):
    """Call the function that a reference names, with copies of the arguments, and return its result.

    Copies of arrays are read-only. The function gets `now` only if it has a parameter of this name.

    It may import modules in its file's folder, and read the files `reads`. Raises UserCodeError if the function fails,
    which names the last line of the user's code that ran, or if it reads other files of the user.
    Exceptions that would end a process, such as that of `sys.exit`, are errors, too; Ctrl-C is not.
    """
    with loaded(reference, reads) as function:
        return function(*arguments, now=now)


@contextmanager
def loaded(reference: str, reads: Collection[str] = ()) -> Generator[Callable]:
    """Load the function of a reference once for several calls; yield it as a function of arguments and `now`."""
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
    """Call a user-defined scheduler round by round; return what users send, shape (realization, round, user).

    It gets no data of later rounds. `rounds` yields its arguments in each round. It may have a parameter `now` (`Now`),
    and return a pair of its decision and a value to keep for the next round. `sent(t, decision)` returns what users
    send by a decision, shape (realization, user), and raises UserCodeError if the decision is invalid.
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
    """Split a scheduler's return value, a decision or a pair, into its decision and what it keeps (None without).

    Raises UserCodeError if an array that it keeps does not have one row per realization: results would depend on how
    many realizations are batched.
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
    """Return the folder of the file that a reference names; None: it names a module."""
    where, _ = split(reference)
    return str(Path(where).parent) if where.endswith(".py") else None


def _load(reference: str) -> Callable:
    """Load the function that a reference names. Raises UserCodeError, with file and line if its import fails."""
    where, function = split(reference)
    if where.endswith(".py") and _is_script(where):  # it would run again, and so call this again
        if not hasattr(script := sys.modules["__main__"], function):
            raise UserCodeError(f"{reference}: is not defined yet where {where} runs a study; define it above")
        return getattr(script, function)
    try:
        if where.endswith(".py"):
            spec = spec_from_file_location(f"own_{Path(where).stem}", where)
            assert spec is not None  # as for every file name that ends in .py
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
    """Return whether a file is the script that this process runs."""
    script = getattr(sys.modules["__main__"], "__file__", None)
    return script is not None and os.path.realpath(script) == os.path.realpath(where)


def _has_now(function: Callable) -> bool:
    """Return whether a function has a parameter `now`; false if Python cannot read its signature."""
    try:
        return "now" in inspect.signature(function).parameters
    except ValueError:
        return False


def _shown(file: str) -> str:
    """Return a file's path, relative to the working directory if the file is in it."""
    near = os.path.relpath(file, os.path.realpath("."))
    return file if near.startswith(os.pardir) else near


def array(reference: str, returned, kinds: str = "iuf") -> np.ndarray:
    """Convert a function's return value to an array of numbers, of `kinds` as in NumPy's `dtype.kind`.

    Raises UserCodeError for anything else, and for parts that numbers would lose: masks, imaginary parts.
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
    """Convert a return value as `array` does, and check its shape and kind. `what` describes what must be returned."""
    values = array(reference, returned, "biuf")
    if values.shape != shape or values.dtype.kind not in kinds:
        raise UserCodeError(
            f"{reference}: returns {values.dtype} of shape {values.shape}; must return {what}, of shape {shape}"
        )
    return values


def noise_of(reference: str, returned, needed: np.ndarray, what: str, zero: bool = False) -> np.ndarray:
    """Check the noise that a function returned, and return it in double precision, in the shape of `needed`.

    It must be above 0 where `needed` is true, or with `zero` not negative. Elsewhere it is set to 0.
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
    """End this process if user-defined code forked it and it returned: only the original one continues."""
    if os.getpid() != process:
        os._exit(0)


def _refuse_to_end(error: BaseException) -> None:
    """Raise KeyboardInterrupt again: the user at the keyboard caused it, not the function."""
    if isinstance(error, KeyboardInterrupt):
        raise error


def _copied(value):
    """Copy all arrays and tables in a value, however deep; arrays are read-only, so that changes to them fail.

    Plain values and scenarios cannot be changed, and are not copied.
    """
    import polars as pl  # here: most modules that import this one only check names

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
    """Describe an error in a line: kind, message, last line of the user's code that ran, file that raised it."""
    words = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        frames.append((error.filename, error.lineno))
    users = [frame for frame in frames if _is_users(frame[0])]
    if users:
        file, line = users[-1]
        library = f"; raised in {frames[-1][0]}, line {frames[-1][1]}" if os.path.isfile(frames[-1][0]) else ""
        return f"{words} ({file}, line {line}{library if frames[-1] != users[-1] else ''})"
    if (code := getattr(function, "__code__", None)) and len(frames) == 1:  # it has other parameters
        frames = [(code.co_filename, code.co_firstlineno)]
    return f"{words} ({frames[-1][0]}, line {frames[-1][1]})" if frames else words


def _is_users(file: str) -> bool:
    """Return whether a file is of the user's code: neither pwfl's, nor Python's, nor installed."""
    return os.path.isfile(file) and guard.is_users(file, frozenset([os.getcwd()]))
