"""A system of one's own to begin with: a copy of `examples/local_dp_mac`, a whole system, under another name."""

import keyword
import re
import shutil
from importlib.util import find_spec
from pathlib import Path

from pwfl import registry
from pwfl.store import files
from pwfl.workflow import folder as workflow_folder

EXAMPLE = "local_dp_mac"
LEFT_OUT = {"__pycache__", "build", f"{EXAMPLE}.egg-info"}


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
            example = workflow_folder() / "examples" / EXAMPLE
            for path in sorted(path for path in example.rglob("*.*") if path.is_file()):
                inner = path.relative_to(example)
                if LEFT_OUT & {*inner.parts}:
                    continue
                target = folder / str(inner).replace(EXAMPLE, name)
                target.parent.mkdir(parents=True, exist_ok=True)
                text = path.read_text(encoding="utf-8").replace(EXAMPLE, name)
                target.write_text(text.replace(EXAMPLE.replace("_", "-"), name), encoding="utf-8")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder
