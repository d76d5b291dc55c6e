"""`python benchmarks/jobs.py [CHECKOUT]`: how many jobs runs have, and what they cost; beside another checkout's runs.

Each figure is of one run of the workflow, in turns with the other checkout's, which has an environment `.venv` of its
own; CPU time is that of Snakemake and all of its jobs.
"""

import os
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from time import perf_counter

import polars as pl
import yaml
from measure import pin_threads

pin_threads(1)

ROOT = Path(__file__).parent.parent
DEFAULT = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())
SCHEMES = [
    {"name": "RndSched", "scheduler": "random", "noise": "random"},
    {"name": "OptSched", "scheduler": "optimal", "noise": "random"},
    {"name": "OptSched+DP", "scheduler": "optimal", "noise": "optimal"},
]


def sweep(gammas: list[float], realizations: int) -> dict:
    """A sweep of the default study's first scenario, of three schemes."""
    base = deepcopy(DEFAULT["base"]) | {"realizations": realizations, "training_realizations": realizations}
    swept = deepcopy(DEFAULT["scenarios"]["few_blocks"]) | {"sweep": {"schedule.gamma": gammas}}
    return {"study": "sweep", "base": base | {"schemes": SCHEMES}, "scenarios": {"swept": swept}}


def run(checkout: Path, folder: Path, config: dict, *arguments: str) -> dict[str, float]:
    """Jobs, CPU seconds, seconds, and MiB of the largest process, of one run of a checkout's workflow in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "study.yaml").write_text(yaml.safe_dump(config))
    command = [checkout / ".venv/bin/python", "-m", "snakemake", "--snakefile", checkout / "Snakefile", "--cores", "2"]
    profile = ["--workflow-profile", checkout / "profiles/default", "--configfile", "study.yaml"]
    begun, before, jobs_before = perf_counter(), os.times(), done(folder)
    with open(folder / "log", "w+b") as log:
        pid = subprocess.Popen([*command, *profile, *arguments], cwd=folder, stdout=log, stderr=log).pid
        _, status, used = os.wait4(pid, 0)
        log.seek(0)
        said = log.read().decode()
    if status:
        sys.exit(said)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    counts = re.search(r"^total\s+(\d+)", said, flags=re.MULTILINE)
    jobs = int(counts[1]) if counts else done(folder) - jobs_before
    return {"jobs": jobs, "cpu_seconds": cpu, "seconds": perf_counter() - begun, "mib": used.ru_maxrss / 1024}


def done(folder: Path) -> int:
    """How many jobs have run in a folder, by their logs."""
    return len(list(folder.glob("logs/*/*.log")))


def simulated(config: dict) -> float:
    """CPU seconds of `pwfl.simulate` in a process of its own, its start included."""
    code = "import sys, yaml, pwfl; pwfl.simulate(yaml.safe_load(sys.stdin))"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    python = ROOT / ".venv/bin/python"
    subprocess.run([python, "-c", code], input=yaml.safe_dump(config).encode(), check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measured(checkouts: dict[str, Path], room: Path) -> dict[str, dict[str, dict]]:
    """What each run of each checkout took, by the run's name."""
    gammas = [30.0, 100.0, 300.0, 1000.0, 3000.0]
    few = sweep(gammas, 40)
    one_more = sweep([*gammas, 10000.0], 40)
    runs: dict[str, Callable[[Path, Path], dict]] = {
        "default study": lambda of, at: run(of, at / "default", DEFAULT),
        "default study, again": lambda of, at: run(of, at / "default", DEFAULT),
        "5 points x 100 realizations x 3 schemes": lambda of, at: run(of, at / "sweep", sweep(gammas, 100)),
        "5 points x 40 realizations x 3 schemes": lambda of, at: run(of, at / "more", few),
        "one more gamma": lambda of, at: run(of, at / "more", one_more),
        "1,000 points, dry": lambda of, at: run(of, at / "dry", sweep(points(1000), 100), "--dry-run"),
        "10,000 points, dry": lambda of, at: run(of, at / "dry", sweep(points(10000), 100), "--dry-run"),
    }
    found: dict[str, dict[str, dict]] = {}
    for name, call in runs.items():
        for label, checkout in checkouts.items():
            if label != "this" and name.startswith(("10,000", "5 points x 100")):
                continue  # hours
            found.setdefault(name, {})[label] = call(checkout, room / label)
            print(name, label, found[name][label], os.getloadavg()[0], file=sys.stderr)
    cpu = simulated(sweep(gammas, 100))
    found["5 points x 100 realizations x 3 schemes, pwfl.simulate"] = {
        "this": {"jobs": 0, "cpu_seconds": cpu, "seconds": cpu, "mib": 0.0}
    }
    return found


def points(count: int) -> list[float]:
    """So many values of gamma."""
    return [float(number) for number in range(1, count + 1)]


def main(others: list[str]) -> None:
    """Print a row for each run and checkout."""
    checkouts = {"this": ROOT} | ({"other": Path(others[0]).resolve()} if others else {})
    with tempfile.TemporaryDirectory() as room:
        found = measured(checkouts, Path(room))
    rows = [
        {"run": name, "checkout": label} | {key: round(value, 1) for key, value in numbers.items()}
        for name, of_it in found.items()
        for label, numbers in of_it.items()
    ]
    pl.Config.set_tbl_rows(-1).set_tbl_cols(-1).set_fmt_str_lengths(60).set_tbl_width_chars(140)
    print(pl.DataFrame(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
