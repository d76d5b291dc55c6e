"""Functions that all benchmarks share: medians of interleaved repeats, and rows of the table."""

import os
from collections.abc import Callable
from statistics import median
from time import perf_counter

import psutil

SCHEMA = ["what", "baseline", "ours", "theirs", "ratio", "target", "better", "met"]


def thread_variables(threads: int) -> dict[str, str]:
    """Return environment variables that give every numeric library this many threads."""
    names = ("OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "TF_NUM_INTRAOP", "TF_NUM_INTEROP", "POLARS_MAX")
    return {f"{name}_THREADS": str(threads) for name in names}


def pin_threads(threads: int) -> None:
    """Give every numeric library this many threads; call it before they are imported."""
    os.environ |= thread_variables(threads) | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    os.environ.pop("TF_ENABLE_ONEDNN_OPTS", None)  # the kernels of training runs (`pwfl.process.threads`)


def seconds(*functions: Callable[[], object], repeats: int = 7) -> list[float]:
    """Return the median wall-clock seconds of each function, called in turns so that a busy machine slows all alike."""
    for function in functions:
        function()
    times = [[] for _ in functions]
    for _ in range(repeats):
        for function, found in zip(functions, times, strict=True):
            start = perf_counter()
            function()
            found.append(perf_counter() - start)
    return [median(found) for found in times]


def row(what: str, baseline: str, ours: float, theirs: float, target: float, better: str = "higher") -> dict:
    """Return a row of the table; `ratio` is baseline over ours if higher is better, otherwise ours over baseline."""
    ratio = theirs / ours if better == "higher" else ours / theirs
    met = ratio >= target if better == "higher" else ratio <= target
    values = [what, baseline, ours, theirs, ratio, target, better, met]
    return dict(zip(SCHEMA, values, strict=True))


def resident_mib() -> float:
    """Return the resident memory of this process, MiB."""
    return psutil.Process().memory_info().rss / 2**20
