"""What code of the user's own loads and opens, seen while it runs: addresses must name all of it."""

import importlib
import os
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.machinery import all_suffixes
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from pwfl.process import supervisor
from pwfl.store import imports

HOME = Path(os.path.expanduser("~")).resolve()
PYTHON = {Path(sysconfig.get_path(kind)).resolve() for kind in ("stdlib", "platstdlib")}
PWFL = Path(__file__).resolve().parent.parent
OTHERS = {PWFL, *PYTHON, *imports.SITES, *(Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix))}
OTHERS |= {Path("/", name) for name in ("proc", "sys", "dev", "etc", "usr")}
TEMPORARY = Path(supervisor.TEMPORARY).resolve()  # not one of OTHERS: an error in a file there can be the user's

_opened: list[set[str]] = []  # the paths of files that were opened to be read, of each block that runs


class Seen(NamedTuple):
    """What code of the user's own loaded and opened, without what libraries and the machine have."""

    modules: dict[str, Path]  # their files, by name
    files: set[Path]


@contextmanager
def alone(home: Path | None) -> Iterator[Seen]:
    """A context in which code runs as if no other of the user's were loaded; its end says what it loaded and opened.

    The folder `home` is first on the path, and all modules of the user's are loaded anew. Afterwards the path, the
    working folder, and the user's modules are as before; what was loaded of libraries stays.
    """
    folders = {folder.resolve() for folder in (Path(), home) if folder is not None}
    path, writes, seen = list(sys.path), sys.dont_write_bytecode, Seen({}, set())
    working = os.getcwd()
    before = dict(sys.modules)
    for name in [name for name, module in before.items() if _file(name, module, folders)]:
        del sys.modules[name]
    sys.path[:0] = [str(home.resolve())] if home else []
    sys.dont_write_bytecode = True  # bytecode is told from that of an older text by the second alone
    importlib.invalidate_caches()
    _listen()
    _opened.append(set())
    try:
        yield seen
    finally:
        os.chdir(working)  # by which the files' paths are read
        sys.dont_write_bytecode, sys.path[:] = writes, path
        files = (Path(os.path.realpath(file)) for file in _opened.pop())
        seen.files.update(file for file in files if file.is_file() and _is_users(file, folders))
        for name, module in list(sys.modules.items()):
            if before.get(name) is not module and (file := _file(name, module, folders)):
                seen.modules[name] = file
                del sys.modules[name]
        sys.modules.update({name: module for name, module in before.items() if name not in sys.modules})


def _file(name: str, module, folders: set[Path]) -> Path | None:
    """The file of a module that is the user's: neither Python's, nor pwfl's, nor of a distribution with a version."""
    held = getattr(module, "__dict__", {})  # whose attributes are not asked for, as some import more then
    found = held.get("__file__")
    # Some compiled modules of packages are also known by their last name alone.
    full = getattr(held.get("__spec__"), "name", name)
    file = _editable(full.partition(".")[0], found) if isinstance(found, str) and name != "__main__" else None
    is_users = file and (not imports.SITES.isdisjoint(file.parents) or _is_users(file, folders))
    return file if is_users else None


@cache
def _editable(top: str, found: str) -> Path | None:
    """The file of a module of a top-level one; None for Python's, and of a distribution with a version."""
    file = Path(os.path.realpath(found))
    is_pythons = imports.SITES.isdisjoint(file.parents) and not PYTHON.isdisjoint(file.parents)
    return None if is_pythons or imports.installed(top, file) else file


def _is_users(file: Path, folders: set[Path]) -> bool:
    """Whether a file is the user's: the innermost folder decides that is the study's, a library's or the machine's.

    The libraries' are also hidden folders in the home folder, which hold their settings and what they downloaded.
    """
    for folder in file.parents:
        if folder in folders:
            return True
        if folder in OTHERS or folder == TEMPORARY or (folder.parent == HOME and folder.name.startswith(".")):
            return False
    return True


@cache  # once a process: it cannot be taken back
def _listen() -> None:
    sys.addaudithook(_record)


def _record(event: str, arguments: tuple) -> None:
    """Note a file that is opened to be read, but not one that is written anew, or that Python imports or shows."""
    if event != "open" or not _opened:
        return
    path, _, flags = arguments
    written = (flags or 0) & os.O_ACCMODE == os.O_WRONLY or (flags or 0) & (os.O_TRUNC | os.O_EXCL)
    if isinstance(path, int) or written or _is_pythons(sys._getframe(1), os.fsdecode(path)):
        return
    _opened[-1].add(os.path.abspath(os.fsdecode(path)))


def _is_pythons(frame: FrameType, path: str) -> bool:
    """Whether Python itself opens a file: to import it, which `sys.modules` shows, or to show a line of it."""
    opener = frame.f_globals.get("__name__")
    return opener == "tokenize" or (opener == "importlib._bootstrap_external" and path.endswith(tuple(all_suffixes())))
