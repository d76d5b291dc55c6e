"""Functions that the rules' scripts call: run a part, list failures, log."""

import gc
import json
import logging
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from pwfl.errors import describe, speaks
from pwfl.process import supervisor
from pwfl.stages import GRAPH
from pwfl.store import grids
from pwfl.store.files import write_bytes
from pwfl.store.items import Store, read_note

STOPPED = "The run ended early; what it has computed is in the store, and the same command goes on with the rest."
FAILED = ".failed"  # suffix of the file next to a part's mark with the errors of items that failed


def run_part(mark: str, log: str) -> None:
    """Compute a part by the manifest next to its mark, then create the mark; record the errors of failed items.

    If items are missing and no other part needs this one, it exits with an error, so that nothing is published. If
    another part needs it, the mark is created: later parts compute the items that do not depend on failed ones.
    """
    terminal = os.dup(2)
    log_to(log)
    target = Path(mark)
    part = json.loads(target.with_suffix(".json").read_bytes())
    root, noted = Store(target.parents[3] / "store"), target.with_suffix(FAILED)
    noted.unlink(missing_ok=True)
    before = [(item, root.bits(item)) for item in (root.note_old(part["items"]) if part["again"] else ())]
    if root.lacking(part["items"]):
        with root.workspace() as workspace:

            def work(failed: set[str], reporter: supervisor.Reporter) -> bool:
                gc.disable()  # imported modules are no garbage
                from pwfl.workflow import compute  # here: the supervisor starts sooner without it

                gc.enable()
                return compute.compute(part, root, workspace, failed, reporter)

            def cleanup() -> None:
                shutil.rmtree(workspace, ignore_errors=True)
                workspace.mkdir()

            failed = supervisor.supervise(work, cleanup)
        lacking = root.lacking(part["items"])  # fewer than failed if another run computed some
        for item, (processor, digests) in before:
            if item not in lacking and (now := root.bits(item))[0] == processor and now[1] != digests:
                where = f"on the same kind of processor ({processor})"
                os.write(terminal, f"{item['key']}: computed again {where}, with other bits than before\n".encode())
        errors = {
            item["key"]: [f"{item['key']}{_describe(part, item)}", f"{failed[item['key']]} (log: {log})"]
            for item in lacking
            if item["key"] in failed
        }
        for line in describe_failures(errors):
            os.write(terminal, f"Failed: {line}\n".encode())
        if lacking:
            write_bytes(json.dumps(errors, indent=1).encode(), noted)
        if lacking and part["is_last"]:
            sys.exit(1)
    target.touch()


def failures(marks: Iterable[Path]) -> dict[str, list[str]]:
    """Read the errors that parts recorded: for each failed item, by its key, the item and its error in words."""
    notes = (read_note(mark.with_suffix(FAILED)) for mark in marks)
    return {key: error for note in notes for key, error in note.items()}


def describe_failures(failed: dict[str, list[str]]) -> list[str]:
    """Describe failed items, a line for each error of a stage: the first item, and how many others have the same.

    >>> errors = {"train/1": ["train/1", "is full"], "train/2": ["train/2", "is full"], "noise/3": ["noise/3", "no"]}
    >>> describe_failures(errors)
    ['train/1 and 1 more: is full', 'noise/3: no']
    """
    alike: dict[tuple[str, str], list[str]] = {}
    for key, (item, error) in failed.items():
        alike.setdefault((key.partition("/")[0], error), []).append(item)
    return [
        f"{items[0]}{f' and {len(items) - 1:,} more' * (len(items) > 1)}: {error}"
        for (_, error), items in alike.items()
    ]


def failure_message(failed: dict[str, list[str]]) -> str:
    """Compose the message about items that failed."""
    ending, them = ("s", "them") if len(failed) > 1 else ("", "it")
    what = f"{len(failed):,} result{ending} could not be computed; all that do not depend on {them} are in the store"
    return "\n".join([f"{what}:", *describe_failures(failed)])


def log_to(log_path: str) -> None:
    """Log to a file, and redirect standard output and error to it, as file descriptors, which C++ libraries use."""
    sys.stdout.flush()
    sys.stderr.flush()
    terminal = os.dup(2)

    def say(kind: type[BaseException], error: BaseException, trace) -> None:
        """Log an error that ends a job, and print it on the terminal."""
        if not issubclass(kind, KeyboardInterrupt):  # the workflow says that it was interrupted
            os.write(terminal, f"{error if speaks(error) else describe(error)}\n".encode())
        if speaks(error):
            print(error, file=sys.stderr)
        else:
            sys.__excepthook__(kind, error, trace)

    sys.excepthook = say
    file = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # TensorFlow's warnings are logged
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr, force=True)


def give_path(package: Path) -> None:
    """Put a folder first in PYTHONPATH, if it exists, so that scripts that this process starts import pwfl from it."""
    if package.is_dir():
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join([str(package), *([before] if before else [])])


def _describe(part: dict, item: dict) -> str:
    """Format the scenario, variant and realizations of a part's item; "" without a scenario."""
    if not item["scenario"]:
        return ""
    words, variant = [f"scenario {item['scenario']!r}"], part["descriptions"][item["address"]].get("variant")
    if variant:
        words.append(f"{GRAPH[item['stage']].variant or 'variant'} {variant}")
    if span := grids.realizations(item["chunk"]):
        words.append(f"realizations {span[0]} to {span[-1]}" if len(span) > 1 else f"realization {span[0]}")
    return f" ({', '.join(words)})"
