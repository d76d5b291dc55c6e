"""A job's folder of the report: a manifest beside its files says what each was when it was written."""

import hashlib
import json
from pathlib import Path

from pwfl.runtime.files import write
from pwfl.runtime.kept import damaged

MANIFEST = "manifest.json"


def seal(folder: str | Path) -> None:
    """Write the manifest of a folder's files, after them."""
    held = {path.name: _sha256(path) for path in sorted(Path(folder).iterdir()) if path.name[0] != "."}
    write(lambda buffer: buffer.write(json.dumps(held, indent=1).encode()), str(Path(folder, MANIFEST)))


def content(path: str | Path) -> bytes:
    """A report's file, as its job wrote it. Raises DamagedError where it is not."""
    path = Path(path)
    try:
        found = path.read_bytes()
        held = json.loads((path.parent / MANIFEST).read_bytes())
    except (OSError, ValueError) as error:
        raise damaged(path, f"it cannot be read: {error}") from None
    if not isinstance(held, dict) or held.get(path.name) != hashlib.sha256(found).hexdigest():
        raise damaged(path, "it was changed after it was written")
    return found


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
