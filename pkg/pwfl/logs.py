"""Where a job's output goes."""

import logging
import os
import sys


def to_file(path: str) -> None:
    """Send this process's log records, standard output and standard error to a file.

    File descriptors are redirected too, so that what libraries print in C++ arrives there.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr, force=True)
