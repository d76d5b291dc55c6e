"""A fingerprint of code: changes when what a module runs changes, not when it reads differently."""

import ast
import hashlib
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent


def fingerprint(*modules: str) -> str:
    """Hex digest of the syntax trees, without docstrings, of modules and all they import of pwfl.

    Modules are named in full (`pwfl.schedule.multicell`). Comments, formatting and docstrings do
    not count; other packages do not either (the lock file pins them).
    """
    seen, open_ = set(), list(modules)
    while open_:
        module = open_.pop()
        if module not in seen:
            seen.add(module)
            open_ += _read(module)[1] + [module.rpartition(".")[0] or "pwfl"]
    digest = hashlib.sha256()
    for module in sorted(seen):
        digest.update(f"{module}\0{_read(module)[0]}\0".encode())
    return digest.hexdigest()[:16]


@cache
def _read(module: str) -> tuple[str, list[str]]:
    """A module's syntax tree as text, and the modules of pwfl that it imports."""
    tree = ast.parse(_path(module).read_text(encoding="utf-8"))
    imported = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported += [name.name for name in node.names if name.name.split(".")[0] == "pwfl"]
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "pwfl":
            inner = [f"{node.module}.{name.name}" for name in node.names]
            imported += [name for name in inner if _path(name)] + [node.module]
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(tree), imported


def _path(module: str) -> Path | None:
    base = PACKAGE.joinpath(*module.split(".")[1:])
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path
    return None
