"""Files that appear whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole(path: str) -> Iterator[str]:
    """A name to write a file under, which becomes `path` when the block ends without an error.

    The name keeps the suffix, by which some libraries tell the format.
    """
    partial = Path(path).with_name(f".{os.getpid()}.{Path(path).name}")
    try:
        yield str(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
