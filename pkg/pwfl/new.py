"""Templates of a custom system, or of a custom air: copies of an example under another name."""

import keyword
import re
import shutil
from importlib.util import find_spec
from pathlib import Path

from pwfl import registry
from pwfl.store import files
from pwfl.workflow import folder as workflow_folder

EXAMPLE, AIR = "local_dp_mac", "own_air"  # a whole system; an air


class NewError(ValueError):
    """A name that no custom system or air can have."""


def write(name: str) -> Path:
    """Write the folder `name`, with the package `name`, its pyproject.toml, and a study. Raises NewError."""
    _check(name)
    if name in registry.claims() or find_spec(name):
        raise NewError(f"a system or package named {name!r} already exists; choose another name")
    return _copy(EXAMPLE, name)


def write_air(name: str) -> Path:
    """Write the folder `name`, with an air in the module `name`.py, and a study that uses it. Raises NewError."""
    _check(name)
    return _copy(AIR, name)


def _check(name: str) -> None:
    if not re.fullmatch("[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise NewError(
            f"{name!r} is not a valid package name; use lower-case letters, digits and _, beginning with a letter"
        )


def _copy(example: str, name: str) -> Path:
    """Copy an example of the workflow's folder to the folder `name`, replacing the example's name everywhere."""
    folder, source = Path(name), workflow_folder() / "examples" / example
    folder.mkdir()
    try:
        with files.room_for(folder):
            for path in sorted(path for path in source.rglob("*.*") if path.is_file()):
                inner = path.relative_to(source)
                if {"__pycache__", "build", f"{example}.egg-info"} & {*inner.parts}:
                    continue
                target = folder / str(inner).replace(example, name)
                target.parent.mkdir(parents=True, exist_ok=True)
                text = path.read_text(encoding="utf-8").replace(f"examples/{example}/", f"{name}/")
                text = text.replace(example, name).replace(example.replace("_", "-"), name)
                target.write_text(text, encoding="utf-8")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder
