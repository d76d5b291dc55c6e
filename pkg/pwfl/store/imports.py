"""Parse Python files without running them: digest their code, and find the files that a module depends on."""

import ast
import hashlib
import os
import sys
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, PackageNotFoundError, distribution, packages_distributions
from pathlib import Path
from typing import Any, NamedTuple

LIBRARY, INIT = "pwfl", "__init__.py"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
DIGITS = 16  # of a digest
ENVIRONMENTS = {"__pycache__", "site-packages", "venv"}  # folders without the user's code, in addition to hidden ones
MOST_FILES = 200  # most files of the user on which a function may depend


class TooManyFilesError(ValueError):
    """A folder with more Python files than a function may depend on."""


class Parsed(NamedTuple):
    """The digest and the imports of a file.

    Attributes
    ----------
    digest
        Hex digest of its syntax tree without docstrings, texts of raised exceptions and, outside functions, the keyword
        `description` of calls, which declare columns and schemes. It is the same under all versions of Python that
        parse the file. If it is not Python, the digest is of its bytes.
    imports
        Names of modules, or of objects in modules, that it imports anywhere, except under TYPE_CHECKING; relative ones
        begin with dots.
    """

    digest: str
    imports: frozenset[str]


def parsed(path: Path) -> Parsed:
    """Parse a file; it is read again only if it has changed."""
    status = path.stat()
    return _parsed(path, status.st_mtime_ns, status.st_size)


def find_user_files(where: str) -> dict[str, Path]:
    """Find the files that a user's FILE.py or PACKAGE.MODULE depends on, by their names.

    They are all Python files in the folder of FILE.py, or of the whole top-level package, and the modules of pwfl that
    these import. The script that this process runs is excluded, unless it is FILE.py. Raises TooManyFilesError.
    """
    top = where.partition(".")[0]
    if top == LIBRARY:
        return closure(where)
    holder = Path(where) if where.endswith(".py") else file_of(where)
    if holder is None:
        return {}
    room, label, modules = holder.parent, Path(), [holder]  # a module in no package
    if where.endswith(".py"):
        label, modules = room, room.glob("*.py")
    elif "." in where:
        room, label = folder(top), Path(top)
        modules = room.rglob("*.py")
    script = os.path.realpath(getattr(sys.modules["__main__"], "__file__", None) or "")
    files = {}
    for path in sorted(modules):
        inner = path.relative_to(room)
        is_apart = any(part.startswith(".") or part in ENVIRONMENTS for part in inner.parts)
        is_script = os.path.realpath(path) == script and path != holder
        if path.is_file() and not (is_apart or is_script):
            files[(label / inner).as_posix()] = path
    if len(files) > MOST_FILES:
        raise TooManyFilesError(
            f"{room.resolve()} has {len(files)} Python files, and an edit of any would recompute results; at most "
            f"{MOST_FILES} are allowed: make a folder for the files of your functions"
        )
    named = {name for path in files.values() for name in parsed(path).imports}
    return files | closure(*(name for name in named if name.startswith(f"{LIBRARY}.")))


def closure(*modules: str) -> dict[str, Path]:
    """Find the files of a top-level package that some of its modules import, directly or not, by their names.

    Imports in functions and in any branch count. Files are parsed, not imported. Modules not found are left out.
    """
    files: dict[str, Path] = {}
    new = set(modules)
    while new:
        top = next(iter(new)).partition(".")[0]
        root = folder(top).parent
        paths = {path.relative_to(root).as_posix(): path for name in new for path in _around(root, name)}
        added = {name: path for name, path in paths.items() if name not in files}
        files |= added
        wanted = {_in_full(imported, name) for name, path in added.items() for imported in parsed(path).imports}
        new = {imported for imported in wanted if imported.partition(".")[0] == top}
    return files


def file_of(module: str) -> Path | None:
    """Return the file of a module, without importing it; None: there is none."""
    top, *parts = module.split(".")
    if (spec := _spec(top)) is None:
        return None
    if not spec.submodule_search_locations:
        return Path(spec.origin) if spec.origin and spec.has_location and not parts else None
    place = Path(folder(top), *parts)
    return next((file for file in (place / INIT, place.with_suffix(".py")) if file.is_file()), None)


def folder(top: str) -> Path:
    """Return the folder of a top-level package. Raises ModuleNotFoundError."""
    spec = _spec(top)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"there is no package {top}", name=top)
    return Path(next(iter(spec.submodule_search_locations)))


@cache
def version(top: str) -> str | None:
    """Return the version of a top-level module's distribution; None for Python's modules, or without one."""
    distribution = None if top in sys.stdlib_module_names else _distribution(top)
    return distribution.version if distribution else None


def _distribution(top: str) -> Distribution | None:
    try:
        return distribution(top)
    except PackageNotFoundError:  # not named like its module, or not installed
        names = _distributions().get(top)
        return distribution(names[0]) if names else None


_distributions = cache(packages_distributions)


def _around(root: Path, module: str) -> list[Path]:
    """List the files of a module and of the packages around it, except pwfl's `__init__`, which computes nothing."""
    *packages, last = [Path(root, *module.split(".")[:count]) for count in range(1, module.count(".") + 2)]
    places = [*(p / INIT for p in packages), last / INIT, *(p.with_suffix(".py") for p in (*packages, last))]
    return [place for place in places if place != root / LIBRARY / INIT and place.is_file()]


def _in_full(imported: str, importer: str) -> str:
    """Return the full name of an import in the file `importer`.

    >>> _in_full("..block", "lab/inner/deep.py"), _in_full("numpy", "lab/inner/deep.py")
    ('lab.block', 'numpy')
    """
    level = len(imported) - len(imported.lstrip("."))
    return ".".join([*importer.split("/")[:-level], imported[level:]]) if level else imported


def _spec(top: str) -> ModuleSpec | None:
    """Find a top-level module as Python would, whatever is loaded under its name."""
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


def _write(node: Any, words: list[str], imports: set[str], declares: bool = True) -> None:
    """Append a syntax tree to `words`, and its imports to `imports`.

    Docstrings, texts of raised exceptions, descriptions that are declared outside functions, and empty fields, which
    newer Pythons add, are left out. Imports under TYPE_CHECKING do not count as imports.
    """
    kind = type(node)
    declares = declares and kind not in FUNCTIONS
    checks_types = kind is ast.If and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    if isinstance(node, ast.Import):
        imports.update(alias.name for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        module = "." * node.level + (f"{node.module}." if node.module else "")
        imports.update(f"{module}{alias.name}" for alias in node.names)
    for name in _fields(kind):
        value = getattr(node, name, None)
        if isinstance(value, list):
            if name == "body" and kind in DOCUMENTED and ast.get_docstring(node, clean=False) is not None:
                value = value[1:]
            if declares and kind is ast.Call and name == "keywords":
                value = [keyword for keyword in value if keyword.arg != "description"]
            words += [f"{name}:{len(value)}"] if value else []
        elif value is not None:
            words.append(name)
            value = [value]
        for item in value or ():
            if kind is ast.Raise and isinstance(item, ast.Call):
                _write(ast.Call(item.func, _without_texts(item.args), item.keywords), words, imports, declares)
            elif isinstance(item, ast.AST):
                _write(item, words, set() if checks_types and name == "body" else imports, declares)
            else:
                words.append(f"{type(item).__name__}:{item!r}")
    words.append(")")


def _without_texts(arguments: list[ast.expr]) -> list[ast.expr]:
    """Remove the texts from an exception's arguments: strings, formatted strings, and sums that begin with one."""
    return [argument for argument in arguments if not _is_text(argument)]


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_text(node.left)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


@cache
def _fields(kind: type[ast.AST]) -> list[str]:
    return sorted(set(kind._fields) - {"ctx"})  # it follows from the position
