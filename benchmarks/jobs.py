"""Count the jobs of workflow runs and measure their cost: `python benchmarks/jobs.py [CHECKOUT]`.

Each number is from one run, in turns with the same run of the other checkout, which requires `make setup` there before.
Runs listed in LONG are measured only in this checkout.
"""

import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import polars as pl
import yaml
from measure import pin_threads
from sweep import SCHEMES, arguments
from workflow import DEFAULT, ROOT, STUDY, Run, run

pin_threads(1)

GAMMA = [30.0, 100.0, 300.0, 1000.0, 3000.0]
LONG = (
    "sweep of 5 points x 100 realizations x 3 schemes",
    "10,000 points of one chunk, dry",
)  # these lasted hours before a job had several items


def swept(gammas: list[float], realizations: int) -> dict:
    """Return the config of a sweep of the default study's first scenario, with three schemes."""
    config = yaml.safe_load(DEFAULT.read_text())
    base = config["base"] | {"realizations": realizations, "training_realizations": realizations, "schemes": SCHEMES}
    scenario = config["scenarios"]["papers_learning"] | {"sweep": {"schedule.gamma": gammas}}
    return {"study": "sweep", "base": base, "scenarios": {"swept": scenario}}


def simulated(folder: Path, config: dict) -> Run:
    """Measure CPU time and memory of `pwfl.simulate` in a separate process, start-up included."""
    code = "import sys, pwfl; pwfl.simulate(sys.argv[1])"
    process = subprocess.Popen([sys.executable, "-c", code, *arguments(folder, "simulated", config)[1:]], cwd=folder)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit("pwfl.simulate failed")
    return Run(0.0, used.ru_utime + used.ru_stime, 0, used.ru_maxrss / 1024)


def runs(folder: Path, checkout: Path) -> dict[str, partial]:
    """Return the runs of a checkout by name; they follow each other in one folder."""
    of_sweep = {
        "sweep of 5 points x 100 realizations x 3 schemes": swept(GAMMA, 100),
        "sweep of 5 points x 40 realizations x 3 schemes": swept(GAMMA, 40),
        "one more gamma": swept([*GAMMA, 10000.0], 40),
    }
    call = partial(run, folder, 2, checkout=checkout)
    found = {name: partial(call, *STUDY) for name in ("default study", "default study, again")}
    for name, config in of_sweep.items():
        found[name] = partial(call, *arguments(folder, name.replace(" ", "_"), config))
    for points in (1000, 10000):
        config = swept([float(number) for number in range(1, points + 1)], 10)
        config["base"]["training_realizations"] = 1
        given = arguments(folder, f"dry_{points}", config)
        found[f"{points:,} points of one chunk, dry"] = partial(call, *given, "--dry-run")
    return found


def main(others: list[str]) -> None:
    """Print a row for each run and checkout."""
    checkouts = {"this": ROOT} | {path: Path(path).resolve() for path in others}
    rows = []
    with tempfile.TemporaryDirectory() as room:
        folders = {label: Path(room, str(number)) for number, label in enumerate(checkouts)}
        for folder in folders.values():
            folder.mkdir()
        each = {label: runs(folders[label], checkout) for label, checkout in checkouts.items()}
        for name in each["this"]:
            for label in checkouts if name not in LONG else ["this"]:
                rows.append({"run": name, "checkout": label} | each[label][name]()._asdict())
                print(*rows[-1].values(), f"load {os.getloadavg()[0]:.1f}", file=sys.stderr)
        of_five = simulated(folders["this"], swept(GAMMA, 100))
        rows.append({"run": f"{LONG[0]}, pwfl.simulate", "checkout": "this"} | of_five._asdict())
    pl.Config.set_tbl_rows(-1).set_tbl_cols(-1).set_fmt_str_lengths(60).set_tbl_width_chars(140)
    print(pl.DataFrame(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
