"""What a function of the user's own reads, seen while it runs as if no other code of the user's were loaded."""

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
_opened: list[set[str]] = []  # the paths of files that were opened to be read, of each block that runs
_listen = cache(sys.addaudithook)  # once a process: it cannot be taken back


@contextmanager
def isolated(home: str | None) -> Generator[set[str]]:
    """A context with no module of the user's, and `home` first on the path; its end says what it read of the user's."""
    read, study = set(), frozenset(map(os.path.realpath, (".", home or ".")))
    before, path, writes = dict(sys.modules), list(sys.path), sys.dont_write_bytecode
    _unload(study)
    sys.path[:0] = [os.path.realpath(home)] if home else []
    sys.dont_write_bytecode = True  # bytecode is told from that of an older text by the second alone
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
    """Unload the user's modules, not the script, and return their files. To ask modules for more may import more."""
    files = {name: getattr(module, "__dict__", {}).get("__file__") for name, module in sys.modules.items()}
    users = [name for name, file in files.items() if not name.endswith("main__") and file and is_users(file, study)]
    return {file for name in users if (file := sys.modules.pop(name).__file__)}


@cache
def is_users(path: str, study: frozenset[str]) -> bool:
    """Whether the innermost known folder around a path is one of the study, and not another's, or a hidden one."""
    folder = os.path.dirname(os.path.realpath(path))
    is_known = folder in study or folder in OTHERS or os.path.basename(folder).startswith(".")
    return folder in study if is_known else folder == path or is_users(folder, study)


def _record(event: str, arguments: tuple) -> None:
    """Note a file that is opened to be read, but no bytecode, none that is written anew, and no line that is shown."""
    if event == "open" and _opened and not isinstance(arguments[0], int):
        path, flags = os.path.abspath(os.fsdecode(arguments[0])), arguments[2] or 0
        is_written = flags & os.O_ACCMODE == os.O_WRONLY or flags & (os.O_TRUNC | os.O_EXCL)
        if not (is_written or path.endswith(".pyc") or sys._getframe(1).f_globals.get("__name__") == "tokenize"):
            _opened[-1].add(path)
