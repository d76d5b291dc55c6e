"""Python files without running them: a digest of what their code does, and the files that they import."""

import ast
import hashlib
import sys
import sysconfig
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from importlib.machinery import ModuleSpec, all_suffixes
from importlib.metadata import Distribution, PackageNotFoundError, distribution, packages_distributions
from pathlib import Path, PurePath
from site import getsitepackages, getusersitepackages
from typing import NamedTuple

LIBRARY, INIT = "pwfl", "__init__.py"
SITES = {
    Path(folder).resolve()
    for folder in (*map(sysconfig.get_path, ("purelib", "platlib")), *getsitepackages(), getusersitepackages())
}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
DIGITS = 16  # of a digest
Found = Iterator[tuple[str, Path]]  # files by the names that descriptions have: `one_bit/schedule.py`


class Parsed(NamedTuple):
    """What a file says.

    Attributes
    ----------
    digest
        Hex digest of its syntax tree without docstrings, the same under all versions of Python that parse it; of its
        bytes where it is no Python.
    imports
        What it imports anywhere: names of modules, or of something in a module; relative ones begin with dots.
    """

    digest: str
    imports: frozenset[str]


class Closure(NamedTuple):
    """What a file or a module runs: itself and what it imports, directly or not.

    Attributes
    ----------
    files
        By name.
    versions
        Of the installed distributions that these files import, by the top-level module.
    """

    files: Mapping[str, Path]
    versions: Mapping[str, str]


def parsed(path: Path) -> Parsed:
    """What a file says; it is read again once it has changed."""
    status = path.stat()
    return _parsed(path, status.st_mtime_ns, status.st_size)


def closure(where: str, follow: Collection[str] = (LIBRARY,)) -> Closure:
    """What FILE.py or PACKAGE.MODULE runs, as far as its text tells; nothing is imported for it.

    Imports of every kind count: relative ones, those in functions and in any branch, `import_module("constant")`. They
    are followed beside FILE.py, in packages of `follow`, and in those that are no installed distribution with a
    version, such as editable ones; the others count by their versions. What is not found is left out.
    """
    is_file = where.endswith(".py")
    home = Path(where).parent if is_file else None
    files: dict[str, Path] = {}
    versions: dict[str, str] = {}
    new = {where: Path(where)} if is_file else dict(_absolute(where, home, follow, versions))
    while new:
        name, path = new.popitem()
        files[name] = path
        for wanted in parsed(path).imports:
            found = _relative(wanted, name, path) if wanted[0] == "." else _absolute(wanted, home, follow, versions)
            new |= {each: file for each, file in found if each not in files}
    return Closure(files, versions)


def file_of(module: str) -> Path | None:
    """The file of a module; None where there is none. Nothing is imported."""
    names = (f"{module.replace('.', '/')}{end}" for end in ("/__init__.py", *all_suffixes()))
    found = dict(_absolute(module, None, (module.partition(".")[0],), {}))
    return next((found[name] for name in names if name in found), None)


def folder(top: str) -> Path:
    """The folder of a top-level package. Raises ModuleNotFoundError."""
    spec = _spec(top)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"there is no package {top}", name=top)
    return Path(next(iter(spec.submodule_search_locations)))


def installed(top: str, file: str | Path) -> str | None:
    """The version of the distribution that a top-level module was installed from; None for one that may be edited.

    `file` is of the module: an editable package is not where its distribution is.
    """
    known, root = _installed(top)
    return known if root is not None and Path(file).resolve().is_relative_to(root) else None


@cache
def version(top: str) -> str | None:
    """The version of the distribution that a top-level module belongs to; None for Python's own, or without one."""
    found = None if top in sys.stdlib_module_names else _distribution(top)
    return found.version if found else None


@cache
def _installed(top: str) -> tuple[str | None, Path | None]:
    """The version of a module's distribution, and the folder that it was installed into, if it was."""
    if (found := _distribution(top)) is None or not found.version:
        return None, None
    root = Path(str(found.locate_file(""))).resolve()
    is_installed = root in SITES or found.read_text("WHEEL") is not None  # elsewhere: pip install --target
    return (found.version, root) if is_installed else (None, None)


@cache
def _distribution(top: str) -> Distribution | None:
    try:
        return distribution(top)
    except PackageNotFoundError:  # not named like its module, or not installed
        names = _distributions().get(top)
        return distribution(names[0]) if names else None


_distributions = cache(packages_distributions)


def _absolute(name: str, home: Path | None, follow: Collection[str], versions: dict[str, str]) -> Found:
    """The files of a module and of the packages around it: beside a file in `home`, or where Python finds them.

    Where its version counts, it is added to `versions` instead.
    """
    top, *parts = name.split(".")
    if home is not None and top != LIBRARY and (beside := list(_modules(home, home, (top, *parts)))):
        yield from beside
        return
    spec = None if top in sys.stdlib_module_names else _spec(top)
    places = (spec.submodule_search_locations or [spec.origin]) if spec else []
    if not places or places[0] in (None, "built-in", "frozen"):
        return
    if top not in follow and (known := installed(top, places[0])):
        versions[top] = known
    elif spec.submodule_search_locations is None:
        yield Path(spec.origin).name, Path(spec.origin)
    else:
        for place in map(Path, places):
            if (init := place / INIT).is_file() and top != LIBRARY:  # pwfl's only opens the door to the rest
                yield f"{top}/{INIT}", init
            yield from _modules(place, PurePath(top), parts)


def _relative(name: str, of: str, path: Path) -> Found:
    """The files of a module that the file `of` at a path imports by a name that begins with dots."""
    parts = name.lstrip(".").split(".")
    up = len(name) - len(name.lstrip(".")) - 1
    folders, labels = path.absolute().parents, PurePath(of).parents
    return _modules(folders[up], labels[up], parts) if up < min(len(folders), len(labels)) else iter(())


def _modules(folder: Path, label: PurePath, parts: Sequence[str]) -> Found:
    """The files of a module in a folder, which descriptions call `label`, and of the packages around the module."""
    for part in parts:
        folder, label = folder / part, label / part
        if (init := folder / INIT).is_file():
            yield str(label / INIT), init
            continue
        for suffix in all_suffixes():
            if (file := folder.with_name(part + suffix)).is_file():
                yield str(label.with_name(file.name)), file
                return


def _spec(top: str) -> ModuleSpec | None:
    """Where Python would find a top-level module, whatever is loaded under its name."""
    finders = (finder.find_spec for finder in sys.meta_path if hasattr(finder, "find_spec"))
    return next((spec for find in finders if (spec := find(top, None))), None)


@cache
def _parsed(path: Path, *_stamp: int) -> Parsed:
    content = path.read_bytes()
    try:
        tree = ast.parse(content if path.suffix == ".py" else b"\0")
    except (SyntaxError, ValueError):  # ValueError: null bytes
        return Parsed(hashlib.sha256(content).hexdigest()[:DIGITS], frozenset())
    words, imports = [], set()
    _write(tree, words, imports)
    return Parsed(hashlib.sha256("\0".join(words).encode()).hexdigest()[:DIGITS], frozenset(imports))


def _write(node: ast.AST, words: list[str], imports: set[str]) -> None:
    """Add a syntax tree as words, without docstrings and empty fields, which newer Pythons add, and what it imports."""
    kind = type(node)
    words.append(kind.__name__)
    if kind in IMPORTING:
        imports.update(IMPORTING[kind](node))
    for name in _fields(kind):
        value = getattr(node, name, None)
        if isinstance(value, list):
            if name == "body" and kind in DOCUMENTED and ast.get_docstring(node, clean=False) is not None:
                value = value[1:]
            words += [f"{name}:{len(value)}"] if value else []
        elif value is not None:
            words.append(name)
            value = [value]
        for each in value or ():
            if isinstance(each, ast.AST):
                _write(each, words, imports)
            else:
                words.append(f"{type(each).__name__}:{each!r}")
    words.append(")")


@cache
def _fields(kind: type[ast.AST]) -> list[str]:
    return sorted(set(kind._fields) - {"ctx"})  # which follows from the place


def _imported(node: ast.Import) -> list[str]:
    return [alias.name for alias in node.names]


def _imported_from(node: ast.ImportFrom) -> list[str]:
    module = "." * node.level + (f"{node.module}." if node.module else "")
    return [f"{module}{alias.name}" for alias in node.names]


def _called(node: ast.Call) -> list[str]:
    name = getattr(node.func, "attr", getattr(node.func, "id", None))
    value = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
    is_import = name in ("import_module", "__import__") and isinstance(value, str) and value.strip(".")
    return [value] if is_import else []


IMPORTING = {ast.Import: _imported, ast.ImportFrom: _imported_from, ast.Call: _called}
