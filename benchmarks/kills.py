"""Kill runs at random moments and resume them: find processes left running, missing files and different results.

    python benchmarks/kills.py [--kills 200]

A small study runs in the real workflow. At a random moment Snakemake, a job or the whole group gets a KILL, TERM or
INT. Then the run is resumed, and killed again, until it ends by itself. Then a new run begins.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import psutil
import yaml

from pwfl.store.items import COST

ROOT = Path(__file__).parent.parent
STUDY = {
    "study": "kills",
    "base": {
        "system": "age_aware",
        "realizations": 11,
        "training_realizations": 11,
        "schedule": {"horizon": 4},
        "audit": {"canaries": 50},
        "schemes": [{"name": "one", "scheduler": "random", "noise": "constant"}],
    },
    "scenarios": {"one": {}},
}
VICTIMS, SIGNALS = ("snakemake", "job", "group"), (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
PATIENCE = 10.0  # seconds after the end of Snakemake in which all other processes must end
LIMIT = 600.0  # seconds for Snakemake to end, after a signal or, if it gets none, after its start


class Fault(NamedTuple):
    """A description of a fault, and the kills of the run before it."""

    what: str
    kills: tuple[str, ...]


def start(folder: Path, *arguments: str) -> subprocess.Popen:
    """Start the study's workflow in a folder, in a new process group."""
    (folder / "study.yaml").write_text(yaml.safe_dump(STUDY))
    command = [
        sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), "--directory", str(folder),
        "--workflow-profile", "none", "--configfile", str(folder / "study.yaml"), "--cores", "2",
        "--nolock", *arguments,
    ]  # fmt: skip
    with open(folder / "snakemake.log", "a") as log:
        told = {"env": os.environ | {"PYTHONPATH": str(ROOT / "pkg")}, "cwd": folder, "stdin": subprocess.DEVNULL}
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, **told)


def processes(folder: Path, what: str = "") -> list[psutil.Process]:
    """List the processes of a run in a folder, found by their command lines."""
    wanted = str(folder / what)
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(wanted in part for part in process.info["cmdline"] or []) and process.pid != os.getpid()
    ]


def kill(run: subprocess.Popen, folder: Path, victim: str, number: int) -> None:
    """Send a signal to Snakemake (also if no job runs), to one process of a job, or to Snakemake's process group."""
    jobs = processes(folder, ".snakemake/scripts") if victim == "job" else []
    try:
        if victim == "group":
            os.killpg(run.pid, number)
        elif jobs:
            jobs[0].send_signal(number)
        else:
            run.send_signal(number)
    except (ProcessLookupError, psutil.NoSuchProcess):
        pass  # the process has just ended


def left(folder: Path) -> list[str]:
    """Return the command lines of processes that still run PATIENCE after the end of Snakemake, and kill them."""
    end = time.monotonic() + PATIENCE
    while (found := processes(folder)) and time.monotonic() < end:
        time.sleep(0.1)
    lines = []
    for process in found:
        lines.append(" ".join(process.info["cmdline"])[-200:])
        process.kill()
    return lines


def contents(folder: Path) -> dict[str, bytes]:
    """Read the files of the store, except recorded costs and hidden files."""
    found = {str(path.relative_to(folder)): path for path in (folder / "store").rglob("*") if path.is_file()}
    return {
        name: path.read_bytes()
        for name, path in found.items()
        if path.name != COST and not any(part.startswith(".") for part in Path(name).parts)
    }


def whole(path: Path) -> bool:
    """Return whether a file is complete: unfinished files of killed jobs have names that begin with a dot."""
    return not path.name.startswith(".")


def targets(folder: Path) -> set[str]:
    """List the complete files of the folder `results`."""
    paths = (path for path in (folder / "results").rglob("*") if path.is_file() and whole(path))
    return {str(path.relative_to(folder)) for path in paths}


def undisturbed(folder: Path) -> tuple[dict[str, bytes], set[str], float]:
    """Run the study without kills; return the store's contents, the results' files and the seconds of the run."""
    begin = time.monotonic()
    if start(folder).wait():
        raise RuntimeError((folder / "snakemake.log").read_text())
    return contents(folder), targets(folder), time.monotonic() - begin


def flaws(folder: Path, expected: dict[str, bytes], report: set[str]) -> list[str]:
    """List how the files of a run that ended without error differ from those of an undisturbed run."""
    found = contents(folder)
    return [
        *(f"exit 0 without {name}" for name in sorted((set(expected) - set(found)) | (report - targets(folder)))),
        *(f"{name} differs" for name in sorted(set(found) & set(expected)) if found[name] != expected[name]),
        *(f"{name} is left" for name in sorted(set(found) - set(expected))),
    ]


def disturbed(kills: int, root: Path, seed: int = 0) -> tuple[Counter, list[Fault]]:
    """Kill runs `kills` times at random moments, and resume them; a run that ends before its moment does not count.

    Returns
    -------
    Number of kills by victim and signal, with the number of complete runs; and all faults.
    """
    draw, counts, faults, number = random.Random(seed), Counter(), [], 0
    (root / "undisturbed").mkdir()
    expected, report, seconds = undisturbed(root / "undisturbed")
    folder, history = root / "run-0", ()
    folder.mkdir()
    while history or number < kills:
        run, killed = start(folder, *draw.choice(((), ("--rerun-incomplete",)))), False
        if number < kills:
            victim, sent = draw.choice(VICTIMS), draw.choice(SIGNALS)
            try:
                run.wait(draw.uniform(0, seconds))
            except subprocess.TimeoutExpired:
                kill(run, folder, victim, sent)
                killed, number = True, number + 1
                name = f"{victim} {sent.name}"
                counts[name] += 1
                history = (*history, name)
        try:
            status = run.wait(LIMIT)
        except subprocess.TimeoutExpired:
            faults.append(Fault("Snakemake does not end", history))
            run.kill()
            status = run.wait()
        faults += [Fault(f"still there after {PATIENCE:.0f} s: {line}", history) for line in left(folder)]
        if status == 0:
            counts["complete"] += 1
            faults += [Fault(what, history) for what in flaws(folder, expected, report)]
            shutil.rmtree(folder)
            folder, history = root / f"run-{counts['complete']}", ()
            folder.mkdir()
        elif not killed:
            faults.append(Fault("does not end without error when it is resumed", history))
    return counts, faults


def main() -> int:
    """Kill runs, print counts and faults, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        counts, faults = disturbed(options.kills, Path(root), options.seed)
    for name, count in sorted(counts.items()):
        print(f"{count:5d}  {name}")
    for fault in faults:
        print(f"FAULT  {fault.what}, after {', '.join(fault.kills) or 'no kill'}")
    print(f"{sum(counts.values()) - counts['complete']} kills, {len(faults)} faults")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
