"""What every job does first: send its output to its log, and end when the workflow does."""

import logging
import os
import sys
import threading
import time
from pathlib import Path

import psutil

from pwfl.runtime import store
from pwfl.systems import registry

log = logging.getLogger(__name__)

WATCH_SECONDS = 1.0


def start(log_path: str, description: dict):
    """Begin a job: log to its file, end when the workflow does, refuse other code than it was planned with.

    Parameters
    ----------
    log_path
        The job's log.
    description
        All that its result depends on; see `pwfl.runtime.store`.

    Returns
    -------
    The part of the scenario that the job's stage reads; None where it belongs to no system.

    Raises
    ------
    store.StoreError
        If code or packages changed since the workflow was planned.
    """
    log_to(log_path)
    store.check_code(description)
    if "system" not in description:
        return None
    return registry.system(description["system"]).model.restored(description["parameters"])


def start_all(log_path: str, description: dict) -> dict:
    """As `start`, for a job on all scenarios of a study, whose parameters it returns by their names."""
    log_to(log_path)
    store.check_code(description)
    return {
        name: registry.system(system).model.restored(description["parameters"][name])
        for name, system in description["systems"].items()
    }


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
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # what TensorFlow warns of stands in the log
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr, force=True)
    if workflow := _workflow():
        threading.Thread(target=_end_with, args=(workflow,), daemon=True).start()


def give_path(package: Path) -> None:
    """Let the scripts that a process starts import pwfl from a folder, where there is one."""
    if package.is_dir():
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join([str(package), *([before] if before else [])])


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
