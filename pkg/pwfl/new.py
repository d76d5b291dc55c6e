"""A system of one's own to begin with: a copy of the package `pwfl.template`, a whole system, under another name."""

import keyword
import re
import shutil
from importlib.util import find_spec
from pathlib import Path

from pwfl import registry
from pwfl.store import files

TEMPLATE = Path(__file__).with_name("template")
BESIDE = (".toml", ".yaml")  # files that lie beside the package


class NewError(ValueError):
    """A name that no system can be given."""


def write(name: str) -> Path:
    """Write the folder `name`, which holds the package `name` and its pyproject.toml, and a study. Raises NewError."""
    if not re.fullmatch("[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise NewError(
            f"{name!r} is not a valid name of a package; use lower-case letters, digits and _, beginning with a letter"
        )
    if name in registry.claims() or find_spec(name):
        raise NewError(f"there is a system or a package {name!r} already; take another name")
    folder = Path(name)
    folder.mkdir()
    try:
        with files.room_for(folder):
            for path in sorted(path for path in TEMPLATE.rglob("*.*") if "__pycache__" not in path.parts):
                inner = path.relative_to(TEMPLATE)
                target = folder / inner if path.suffix in BESIDE else folder / name / inner
                target.parent.mkdir(parents=True, exist_ok=True)
                text = path.read_text(encoding="utf-8").replace("pwfl.template", name).replace("template", name)
                target.write_text(text, encoding="utf-8")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder
