"""Functions that the rules' scripts call: run a part, log."""

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
FAILED = ".failed"  # beside a part's mark: the errors of items that failed


def run_part(mark: str, log: str) -> None:
    """Compute a part by the manifest beside its mark, and then make the mark; note the errors of items that failed.

    A part that lacks items and that no other part needs ends with an error, so that nothing is published. Others leave
    that to the parts after them, which compute what does not depend on what failed.
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
                gc.disable()  # what is imported is no garbage
                from pwfl.workflow import compute  # here: the supervisor, which starts at once, needs none of it

                gc.enable()
                return compute.compute(part, root, workspace, failed, reporter)

            def cleanup() -> None:
                shutil.rmtree(workspace, ignore_errors=True)
                workspace.mkdir()

            failed = supervisor.supervise(work, cleanup)
        lacking = root.lacking(part["items"])  # fewer than failed, where another run made some
        for item, (processor, digests) in before:
            if item not in lacking and (now := root.bits(item))[0] == processor and now[1] != digests:
                where = f"on the same kind of processor ({processor})"
                os.write(terminal, f"{item['key']}: computed again {where}, with other bits than before\n".encode())
        lines = {}
        for key, item in {item["key"]: item for item in lacking if item["key"] in failed}.items():
            lines[key] = f"{key}{_describe(part, item)}: {failed[key]} (log: {log})"
            os.write(terminal, f"Failed: {lines[key]}\n".encode())
        if lacking:
            write_bytes(json.dumps(lines, indent=1).encode(), noted)
        if lacking and part["is_last"]:
            sys.exit(1)
    target.touch()


def failures(marks: Iterable[Path]) -> dict[str, str]:
    """What parts noted of items that failed: by key, a line each."""
    notes = (read_note(mark.with_suffix(FAILED)) for mark in marks)
    return {key: line for note in notes for key, line in note.items()}


def failure_message(failed: dict[str, str]) -> str:
    """What is said of items that failed."""
    ending, them = ("s", "them") if len(failed) > 1 else ("", "it")
    what = f"{len(failed)} result{ending} could not be computed; all that do not depend on {them} are in the store"
    return "\n".join([f"{what}:", *failed.values()])


def log_to(log_path: str) -> None:
    """Log to a file; standard output and error, too, as file descriptors: what libraries print in C++ goes there."""
    sys.stdout.flush()
    sys.stderr.flush()
    terminal = os.dup(2)

    def say(kind: type[BaseException], error: BaseException, trace) -> None:
        """Log an error that ends a job, and print it on the terminal."""
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
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # what TensorFlow warns of is in the log
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr, force=True)


def give_path(package: Path) -> None:
    """Let the scripts that a process starts import pwfl from a folder, where there is one."""
    if package.is_dir():
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join([str(package), *([before] if before else [])])


def _describe(part: dict, item: dict) -> str:
    """The scenario, variant and realizations of an item of a part, in words."""
    if not item["scenario"]:
        return ""
    words, variant = [f"scenario {item['scenario']!r}"], part["descriptions"][item["address"]].get("variant")
    if variant:
        words.append(f"{GRAPH[item['stage']].variant or 'variant'} {variant}")
    if span := grids.realizations(item["chunk"]):
        words.append(f"realizations {span[0]} to {span[-1]}" if len(span) > 1 else f"realization {span[0]}")
    return f" ({', '.join(words)})"
