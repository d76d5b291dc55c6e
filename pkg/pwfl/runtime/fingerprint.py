"""A fingerprint of code: changes when what a module runs changes, not when it reads differently."""

import ast
import hashlib
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from importlib.util import find_spec
from pathlib import Path

SHARED = "pwfl"
SCRIPTS = "scripts"  # the folder of the workflow's scripts, and of their names SCRIPTS/STAGE.py


Files = tuple[tuple[str, str], ...]  # names and texts


@cache
def fingerprint(*modules: str, files: Files = ()) -> str:
    """Hex digest of the syntax trees of modules, and of files, and all they import of their own package and pwfl.

    Modules are named in full (`pwfl.systems.multicell.schedule`); scripts of the workflow, whose imports are not
    followed, as by `script`. Comments, formatting, docstrings and imports for type annotations do not count; `packages`
    tells versions of other packages. The digest is the same under all versions of Python that parse the code.
    """
    digest = hashlib.sha256()
    for module in sorted(imports(*modules, *_imported(files))):
        digest.update(f"{module}\0{_read(module)[0]}\0".encode())
    for _, text in files:
        digest.update(f"\0{_parsed(text)[0]}\0".encode())
    return digest.hexdigest()[:16]


@cache
def packages(*modules: str, files: Files = ()) -> dict[str, str]:
    """Versions of the installed distributions that modules, and all they import as `fingerprint` does, import."""
    names = {name for module in imports(*modules, *_imported(files)) for name in _read(module)[2]}
    names |= {name for _, text in files for name in _parsed(text)[2]}
    return {name: _version(name) for name in sorted(names) if _version(name)}


def script(stage: str) -> str:
    """The name of the workflow's script of a stage."""
    return f"{SCRIPTS}/{stage}.py"


def workflow() -> Path:
    """The folder of the Snakefile: the checkout's, or where a wheel installed it."""
    package = Path(__file__).parent.parent
    bundled = package / "bundled"
    return bundled if bundled.is_dir() else package.parent.parent


@cache
def imports(*modules: str) -> frozenset[str]:
    """The modules of their own packages and of pwfl that modules import, directly or not, themselves among them."""
    seen, open_ = set(), list(modules)
    while open_:
        module = open_.pop()
        if module not in seen:
            seen.add(module)
            open_ += _read(module)[1]
    return frozenset(seen)


def _imported(files: Files) -> list[str]:
    """The modules of pwfl that files import."""
    return [name for _, text in files for name in _parsed(text)[1]]


@cache
def _read(module: str) -> tuple[str, list[str], set[str]]:
    """As `_parsed`, of a module; the imports of a script are not followed."""
    read = _parsed(place(module).read_text(encoding="utf-8"), module.partition(".")[0])
    return (read[0], [], set()) if module.startswith(f"{SCRIPTS}/") else read


@cache
def _parsed(code: str, package: str = SHARED) -> tuple[str, list[str], set[str]]:
    """A syntax tree as text, the modules of pwfl and its package that it imports, and other packages' names."""
    tree = ast.parse(code)
    _strip(tree)
    own, imported, others = {SHARED, package}, [], set()
    for node in ast.walk(tree):
        named = []
        if isinstance(node, ast.Import):
            named = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            inner = [f"{node.module}.{name.name}" for name in node.names]
            modules = [name for name in inner if node.module.partition(".")[0] in own and place(name)]
            named = modules if len(modules) == len(inner) else [*modules, node.module]
        for name in named:
            top = name.partition(".")[0]
            if top in own:
                imported.append(name)
            else:
                others.add(top)
    return _text(tree), imported, others


def _strip(tree: ast.AST) -> None:
    """Take docstrings and imports for type annotations out of a syntax tree."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        if isinstance(node, kinds) and ast.get_docstring(node) is not None:
            body = body[1:]
        of_types = [part for part in body if isinstance(part, ast.If) and ast.unparse(part.test) == "TYPE_CHECKING"]
        node.body = [part for part in body if part not in of_types]


def _text(node) -> str:
    """A syntax tree as text; empty fields, which newer Pythons add and leave out, do not count."""
    if isinstance(node, ast.AST):
        fields = ((name, getattr(node, name, None)) for name in sorted(node._fields))
        inner = ",".join(f"{name}={_text(value)}" for name, value in fields if value not in (None, []))
        return f"{type(node).__name__}({inner})"
    if isinstance(node, list):
        return f"[{','.join(map(_text, node))}]"
    return f"{type(node).__name__}:{node!r}"


@cache
def place(module: str) -> Path | None:
    """The file of a module; parents are not imported, but for packages outside pwfl, to find their folder."""
    if module.startswith(f"{SCRIPTS}/"):
        return workflow() / module
    top, *parts = module.split(".")
    folder = Path(__file__).parent.parent
    if top != SHARED:
        spec = find_spec(top)
        if spec is None or not spec.submodule_search_locations:
            return None
        folder = Path(next(iter(spec.submodule_search_locations)))
    base = folder.joinpath(*parts)
    places = [base / "__init__.py", *([base.with_suffix(".py")] if parts else [])]
    return next((path for path in places if path.is_file()), None)


@cache
def _version(name: str) -> str | None:
    """The version of the distribution that a top-level module belongs to; None for Python's own."""
    if name in sys.stdlib_module_names:
        return None
    try:
        return version(name)
    except PackageNotFoundError:  # not named like its module, or not installed
        distribution = _distributions().get(name)
        return version(distribution[0]) if distribution else None


_distributions = cache(packages_distributions)
