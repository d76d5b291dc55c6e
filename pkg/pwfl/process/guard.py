"""Record the files that a user-defined function reads, while it runs isolated from the user's other code."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from importlib import invalidate_caches
from pathlib import Path

from pwfl.process import supervisor

LIBRARIES = (folder for folder in sys.path if any(Path(folder).glob("*.dist-info")))
PYTHON = (os.path.dirname(os.__file__), sys.prefix, sys.base_prefix, supervisor.TEMPORARY, Path(__file__).parents[1])
OTHERS = {os.path.realpath(folder) for folder in (*LIBRARIES, *PYTHON, "/proc", "/sys", "/dev", "/etc", "/usr")}
_opened: list[set[str]] = []  # the paths of files that were opened for reading, of each block that runs
_listen = cache(sys.addaudithook)  # once per process: an audit hook cannot be removed


@contextmanager
def isolated(home: str | None) -> Generator[set[str]]:
    """Run a block without the user's modules, with `home` first on the path; yield a set for the user files read."""
    read, study = set(), frozenset(map(os.path.realpath, (".", home or ".")))
    before, path, writes = dict(sys.modules), list(sys.path), sys.dont_write_bytecode
    _unload(study)
    sys.path[:0] = [os.path.realpath(home)] if home else []
    sys.dont_write_bytecode = True  # bytecode of another text of the same second would be used
    invalidate_caches()
    _listen(_record)
    _opened.append(set())
    try:
        yield read
    finally:
        sys.dont_write_bytecode, sys.path[:] = writes, path
        read |= {os.path.realpath(file) for file in _opened.pop() | _unload(study) if is_users(file, study)}
        sys.modules.update(before | sys.modules)


def _unload(study: frozenset[str]) -> set[str]:
    """Unload the user's modules except the script, and return their files. Other attributes might trigger imports."""
    files = {name: getattr(module, "__dict__", {}).get("__file__") for name, module in sys.modules.items()}
    users = [name for name, file in files.items() if not name.endswith("main__") and file and is_users(file, study)]
    return {file for name in users if (file := sys.modules.pop(name).__file__)}


@cache
def is_users(path: str, study: frozenset[str]) -> bool:
    """Return whether the innermost known folder around a path is of `study`, not of OTHERS and not a hidden one."""
    folder = os.path.dirname(os.path.realpath(path))
    is_known = folder in study or folder in OTHERS or os.path.basename(folder).startswith(".")
    return folder in study if is_known else folder == path or is_users(folder, study)


def _record(event: str, arguments: tuple) -> None:
    """Record a file that is opened for reading, except bytecode, files written anew, and sources for tracebacks."""
    if event == "open" and _opened and not isinstance(arguments[0], int):
        path, flags = os.path.abspath(os.fsdecode(arguments[0])), arguments[2] or 0
        is_written = flags & os.O_ACCMODE == os.O_WRONLY or flags & (os.O_TRUNC | os.O_EXCL)
        if not (is_written or path.endswith(".pyc") or sys._getframe(1).f_globals.get("__name__") == "tokenize"):
            _opened[-1].add(path)
