"""Restrict BLAS, TensorFlow and Polars to one thread: threads that share a sum add it up in another order.

So do TensorFlow's kernels by oneDNN and by Eigen. The environment therefore sets neither threads nor kernels.
"""

import os
import sys
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import threadpool_limits

INSIDE, BETWEEN = "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"  # within an operation; between several
POLARS, KERNELS = "POLARS_MAX_THREADS", "TF_ENABLE_ONEDNN_OPTS"


def one_of_blas() -> threadpool_limits:
    """Return a context in which matrix products use one thread, in libraries that are loaded when it is created."""
    return threadpool_limits(1)


def before_tensorflow() -> None:
    """Set the environment variables that TensorFlow reads when it is imported and first used."""
    if "tensorflow" not in sys.modules:  # otherwise keep what it read, for `limit_tensorflow`
        os.environ |= {INSIDE: "1", BETWEEN: "1"}
        os.environ.pop(KERNELS, None)


def limit_tensorflow() -> None:
    """Restrict TensorFlow to one thread, if it is imported; warn once if it is too late."""
    if "tensorflow" not in sys.modules:
        return
    threading = sys.modules["tensorflow"].config.threading
    try:
        threading.set_intra_op_parallelism_threads(1)
        threading.set_inter_op_parallelism_threads(1)
    except RuntimeError:  # it has computed before, and does not return the number of its threads
        asked = threading.get_intra_op_parallelism_threads() or os.environ.get(INSIDE, "one for each core")
        if str(asked) != "1":
            _warn(f"TensorFlow has already run in this process, and not with one thread ({asked})")
    if KERNELS in os.environ:
        _warn(f"TensorFlow was already imported in this process, with {KERNELS}={os.environ[KERNELS]}")


def before_polars() -> None:
    """Set the environment variable that Polars reads when it is imported; started processes inherit it."""
    os.environ[POLARS] = "1"


@contextmanager
def polars_import() -> Generator[None]:
    """Give Polars one thread if the block imports it; restore the environment at the end."""
    asked = os.environ.get(POLARS)
    before_polars()
    try:
        yield
    finally:
        if asked is None:
            del os.environ[POLARS]
        else:
            os.environ[POLARS] = asked


def look_at_polars() -> None:
    """Warn once if Polars was imported before with more threads than one."""
    import polars as pl

    if (count := pl.thread_pool_size()) > 1:
        _warn(f"Polars was already imported in this process, with {count} threads")


@cache  # once per process
def _warn(what: str) -> None:
    warnings.warn(
        f"{what}: the last bits of results computed here can differ from the workflow's and from those of other "
        f"machines. Import pwfl.simulate first, in a separate process, or start this process with {POLARS}=1, "
        f"{INSIDE}=1 and without {KERNELS}.",
        RuntimeWarning,
        stacklevel=3,
    )
