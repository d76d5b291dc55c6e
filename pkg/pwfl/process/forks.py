"""Refuse to compute in a process that was forked from one that has computed: it would wait forever.

A forked process has none of its parent's threads, for which Polars and TensorFlow wait.
"""

import os
import re
import sys
from contextlib import suppress
from pathlib import Path

_uses = [False]  # whether this process has used such threads
_lacks = [False]  # whether a process that it was forked from had used some


class ForkError(RuntimeError):
    """This process was forked from one that has computed; the message contains a remedy."""


def watch() -> None:
    """Register fork hooks that record in child processes whether this one has used such threads."""
    os.register_at_fork(before=_before, after_in_child=_in_child)


def check() -> None:
    """Record that this process computes. Raises ForkError if it was forked from one that had used pwfl or Polars."""
    if _lacks[0]:
        raise ForkError(
            f"process {os.getpid()}: was forked from one that had used pwfl or Polars, whose threads it lacks, so it "
            'would never end; start processes with multiprocessing.get_context("spawn"), or use pwfl and Polars in the '
            "child processes only"
        )
    _uses[0] = True


def _before() -> None:
    _uses[0] = _uses[0] or _polars_computes()


def _in_child() -> None:
    _lacks[0], _uses[0] = _lacks[0] or _uses[0], False


def _polars_computes() -> bool:
    """Return whether Polars has begun to compute in this process, for pwfl or not (Linux)."""
    if "polars" not in sys.modules:
        return False
    for path in Path("/proc/self/task").glob("*/comm"):
        with suppress(OSError):  # the thread has just ended
            if re.match(r"polars-\d", path.read_text()):
                return True
    return False
