"""Import TensorFlow without its output to standard error, and with one thread."""

import gc
import logging
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager

from pwfl.process import devices, threads


@contextmanager
def tensorflow_import() -> Generator[None]:
    """Keep TensorFlow from writing to standard error while it is imported, and give it one thread from then on."""
    threads.before_tensorflow()
    devices.before_tensorflow()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 2)
    collects = gc.isenabled()
    gc.disable()  # garbage collection takes a quarter of the import time
    try:
        yield
    finally:
        if collects:
            gc.enable()
        os.dup2(kept, 2)
        os.close(kept)
    threads.limit_tensorflow()
