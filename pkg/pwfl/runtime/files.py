"""Files that appear whole or not at all."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
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


def write(save: Callable[[BytesIO], None], path: str) -> None:
    """Write what `save` puts into a buffer to a file, which appears whole or not at all.

    By way of memory, because where the disk is full Polars may say "transport error" and no more.
    """
    buffer = BytesIO()
    save(buffer)
    with whole(path) as partial:
        Path(partial).write_bytes(buffer.getbuffer())
