"""What every job does first: send its output to its log, and end when the workflow does."""

import logging
import os
import sys
import threading
import time
from pathlib import Path

import psutil

from pwfl.runtime import store
from pwfl.scenario.values import Values

log = logging.getLogger(__name__)

WATCH_SECONDS = 1.0


def start(log_path: str, description: dict, threads: int | None = None) -> Values | None:
    """Begin a job: log to its file, end when the workflow does, refuse other code than it was planned with.

    Parameters
    ----------
    log_path
        The job's log.
    description
        All that its result depends on; see `pwfl.runtime.store`.
    threads
        Those that TensorFlow may use, in jobs that import it (later).

    Returns
    -------
    The parameters that the job's stage reads; None where it belongs to no system.

    Raises
    ------
    store.StoreError
        If code or packages changed since the workflow was planned.
    """
    log_to(log_path)
    if threads:
        limit_tensorflow(threads)
    store.check_code(description)
    if "system" not in description:
        return None
    return Values(description["parameters"])


def start_all(log_path: str, description: dict) -> dict[str, Values]:
    """As `start`, for a job on all scenarios of a study, whose parameters it returns by their names."""
    log_to(log_path)
    store.check_code(description)
    return {name: Values(description["parameters"][name]) for name in description["systems"]}


def log_to(log_path: str) -> None:
    """Log to a file, and watch for the end of the Snakemake process that started this one.

    Standard output and standard error go to the file, too, as file descriptors, so that what
    libraries print in C++ arrives there. A killed Snakemake leaves its jobs behind; without the
    watch they would go on writing where the resumed run writes.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    file = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr, force=True)
    if workflow := _workflow():
        threading.Thread(target=_end_with, args=(workflow,), daemon=True).start()


def give_path(package: Path) -> None:
    """Let the scripts that a process starts import pwfl from a folder, where there is one."""
    if package.is_dir():
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join([str(package), *([before] if before else [])])


def limit_tensorflow(threads: int) -> None:
    """Give TensorFlow some threads and fewer messages: to be called before its import, when it reads both."""
    os.environ["TF_NUM_INTRAOP_THREADS"] = os.environ["TF_NUM_INTEROP_THREADS"] = str(threads)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")


def _workflow() -> list[psutil.Process]:
    """The ancestors up to the Snakemake process that started this one; none outside of a workflow."""
    ancestors = psutil.Process().parents()
    for count, process in enumerate(ancestors, 1):
        try:
            if any("snakemake" in part for part in process.cmdline()[:3]):
                return ancestors[:count]
        except psutil.Error:
            break
    return []


def _end_with(ancestors: list[psutil.Process]) -> None:
    while all(_alive(process) for process in ancestors):
        time.sleep(WATCH_SECONDS)
    log.error("the workflow that started this job is gone: stopping")
    os._exit(1)


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
