"""Functions that the rules' scripts call: write manifests, run a batch, check that all is complete, log."""

import json
import logging
import os
import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from pwfl.errors import describe, speaks
from pwfl.process import supervisor
from pwfl.store import grids
from pwfl.store.files import write
from pwfl.store.items import Store

VARIANTS = {"schedule": "scheduler", "noise": "noise"}  # what chooses a stage's variant
STOPPED = "The run ended early; what it has computed is in the store, and the same command goes on with the rest."
SWEPT_SECONDS = 7 * 24 * 3600.0  # after which a plan's folder is of no use


class FailedError(RuntimeError):
    """Items of a study failed."""


def write_manifests(folder: str, manifests: dict[str, bytes], addresses: list[str], results: str) -> None:
    """Write the manifests of a plan's batches, compressed, into the folder .pwfl/PLAN/batches; sweep what is old.

    Where `results` cannot be written, that is said now, and not when all is computed.
    """
    target = Path(folder)
    Path(results).mkdir(parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=results).close()
    target.mkdir(parents=True, exist_ok=True)
    for name, packed in manifests.items():
        (target / f"{name}.json").write_bytes(zlib.decompress(packed))
    root = _store(target)
    root.use(target.parent.name, addresses)
    root.sweep()
    for other in target.parents[1].iterdir():
        if other != target.parent and other.is_dir() and other.stat().st_mtime < time.time() - SWEPT_SECONDS:
            shutil.rmtree(other, ignore_errors=True)


def run_batch(folder: str, name: str, done: str, log: str) -> None:
    """Compute a batch, by its manifest in a folder, and write the errors of items that failed to the file `done`."""
    terminal = os.dup(2)
    log_to(log)
    batch = json.loads(Path(folder, f"{name}.json").read_bytes())
    root = _store(Path(folder))
    with root.workspace() as workspace:

        def cleanup() -> None:
            shutil.rmtree(workspace, ignore_errors=True)
            workspace.mkdir()

        failed = supervisor.supervise(partial(_work, batch, root, workspace), cleanup)
    files = {item["key"]: item["files"] for item in batch["items"]}
    lines = {
        key: f"{key}{_scenario_of(batch, key)}: {error} (log: {log})"
        for key, error in failed.items()
        if not root.has(key, files[key])  # its process ended just after it, or another run made it
    }
    for line in lines.values():
        os.write(terminal, f"Failed: {line}\n".encode())
    write(lambda buffer: buffer.write(json.dumps(lines, indent=1).encode()), done)


def failures(dones: Iterable[str | Path]) -> dict[str, str]:
    """What the files of batches say of items that failed: by key, a line each."""
    return {key: line for path in dones for key, line in json.loads(Path(path).read_bytes()).items()}


def failure_message(failed: dict[str, str]) -> str:
    """What is said of items that failed."""
    lines = "\n".join(failed.values())
    what = f"{len(failed)} result{'s' * (len(failed) > 1)} could not be computed"
    return f"{what}; all that do not depend on {'them' if len(failed) > 1 else 'it'} are in the store:\n{lines}"


def check_complete(dones: Sequence[str]) -> None:
    """Raise FailedError, which names them, where items failed, or are missing, by the files of batches."""
    if failed := failures(dones):
        raise FailedError(failure_message(failed))
    for done in map(Path, dones):
        manifests = done.parent / "batches"
        for item in json.loads((manifests / f"{done.stem}.json").read_bytes())["items"]:
            if not _store(manifests).has(item["key"], item["files"]):
                raise FailedError(f"{item['key']}: was deleted while the workflow ran; run it again")


def log_to(log_path: str) -> None:
    """Log to a file; standard output and error, too, as file descriptors: what libraries print in C++ goes there."""
    sys.stdout.flush()
    sys.stderr.flush()
    sys.excepthook = partial(_say, os.dup(2))
    file = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # what TensorFlow warns of is in the log
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr, force=True)


def give_path(package: Path) -> None:
    """Let the scripts that a process starts import pwfl from a folder, where there is one."""
    if package.is_dir():
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join([str(package), *([before] if before else [])])


def _work(batch: dict, root: Store, workspace: Path, failed: set[str], reporter: supervisor.Reporter) -> bool:
    from pwfl.workflow import compute  # here, as the supervisor starts at once, and imports nothing that computes

    return compute.compute(batch, root, workspace, failed, reporter)


def _store(manifests: Path) -> Store:
    """The store beside the folder .pwfl/PLAN/batches."""
    return Store(manifests.parents[2] / "store")


def _scenario_of(batch: dict, key: str) -> str:
    """The scenario, variant and realizations of an item of a batch, in words."""
    for item in batch["items"]:
        if item["key"] == key and item["scenario"]:
            said, variant = [f"scenario {item['scenario']!r}"], batch["descriptions"][item["address"]].get("variant")
            if variant:
                said.append(f"{VARIANTS.get(item['stage'], 'variant')} {variant}")
            if item["chunk"] != grids.ALL:
                first, stop = grids.bounds(item["chunk"])
                said.append(f"realizations {first} to {stop - 1}" if stop - first > 1 else f"realization {first}")
            return f" ({', '.join(said)})"
    return ""


def _say(terminal: int, kind: type[BaseException], error: BaseException, trace) -> None:
    """Log an error that ends a job, and print it on the terminal."""
    if speaks(error):
        os.write(terminal, f"{error}\n".encode())
        print(error, file=sys.stderr)
    else:
        os.write(terminal, f"{describe(error)}\n".encode())
        sys.__excepthook__(kind, error, trace)
