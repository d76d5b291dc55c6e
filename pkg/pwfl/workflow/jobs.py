"""What every job does first, but for having itself watched: send its output to its log, refuse other code."""

import logging
import os
import sys
from functools import partial
from pathlib import Path

from pwfl.runtime import devices, store
from pwfl.runtime.files import NoRoomError
from pwfl.scenario.values import Values


def start(log_path: str, description: dict, device: str = devices.CPU) -> Values:
    """Begin a job: log to its file, leave GPUs to those that may train on one, refuse other code than was planned.

    Returns the parameters that its description (`pwfl.workflow.plan`) names, if any. Raises store.StoreError if code or
    packages changed since the workflow was planned.
    """
    log_to(log_path)
    if device == devices.CPU:
        devices.hide()
    store.check_code(description)
    return Values(description.get("parameters", {}))


def start_all(log_path: str, description: dict) -> dict[str, Values]:
    """As `start`, for a job on all scenarios of a study, whose parameters it returns by their names."""
    start(log_path, description)
    return {name: Values(parameters) for name, parameters in description["parameters"].items()}


def log_to(log_path: str) -> None:
    """Log to a file; standard output and error, too, as file descriptors: what libraries print in C++ goes there."""
    sys.stdout.flush()
    sys.stderr.flush()
    sys.excepthook = partial(_say, os.dup(2))
    file = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # what TensorFlow warns of stands in the log
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr, force=True)


def _say(terminal: int, kind: type[BaseException], error: BaseException, trace) -> None:
    """Log an error that ends a job; where the disk is full, which the log's may be, too, say it on the terminal."""
    if isinstance(error, NoRoomError):
        os.write(terminal, f"{error}\n".encode())
        print(error, file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


def give_path(package: Path) -> None:
    """Let the scripts that a process starts import pwfl from a folder, where there is one."""
    if package.is_dir():
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join([str(package), *([before] if before else [])])
