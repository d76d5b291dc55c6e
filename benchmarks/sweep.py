"""Compare a sweep as one study with its points as separate studies: CPU time, size of the report, a dry run."""

import sys
import tempfile
from copy import deepcopy
from pathlib import Path

import yaml
from measure import pin_threads, row
from workflow import DEFAULT, run

pin_threads(1)

GAMMA = [30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 3000.0, 6000.0]
BLOCKS = [2, 3, 4]
REALIZATIONS = 100
SCHEMES = [
    {"name": "RndSched", "scheduler": "random", "noise": "random"},
    {"name": "OptSched", "scheduler": "optimal", "noise": "random"},
    {"name": "OptSched+DP", "scheduler": "optimal", "noise": "optimal"},
]


def study(changes: dict) -> dict:
    """Return the config of a study of one scenario: the default study's base with three schemes and some changes."""
    config = yaml.safe_load(DEFAULT.read_text())
    few = {"realizations": REALIZATIONS, "training_realizations": REALIZATIONS, "schemes": SCHEMES}
    return {"study": "sweep", "base": deepcopy(config["base"]) | few | changes, "scenarios": {"cells": {}}}


def arguments(folder: Path, name: str, config: dict) -> list[str]:
    """Write a config into a folder and return the arguments of Snakemake that run it."""
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(config))
    return ["--configfile", str(path)]


def separate(gamma: float, blocks: int) -> float:
    """Measure the CPU seconds of one sweep point as a separate study."""
    point = study({"schedule": {"gamma": gamma}, "radio": {"resource_blocks": blocks}})
    with tempfile.TemporaryDirectory() as name:
        return run(Path(name), 2, *arguments(Path(name), "point", point)).cpu_seconds


def report_mb(folder: Path, config: list[str]) -> float:
    """Make the report of a finished study, one HTML file, and return its size in MB."""
    run(folder, 1, *config, "--report", "report.html")
    return (folder / "report.html").stat().st_size / 1e6


def rows() -> list[dict]:
    """Measure all rows of this module."""
    grid = {"schedule.gamma": GAMMA, "radio.resource_blocks": BLOCKS}
    with tempfile.TemporaryDirectory() as name:
        swept = arguments(Path(name), "sweep", study({"sweep": grid}))
        cpu = run(Path(name), 2, *swept).cpu_seconds
        size = report_mb(Path(name), swept)
    alone = len(GAMMA) * sum(separate(GAMMA[len(GAMMA) // 2], blocks) for blocks in BLOCKS)  # gamma changes no CPU time
    with tempfile.TemporaryDirectory() as name:
        run(Path(name), 2, "--configfile", str(DEFAULT))
        default = report_mb(Path(name), ["--configfile", str(DEFAULT)])
    with tempfile.TemporaryDirectory() as name:
        grid = {"schedule.gamma": [10.0 * (k + 1) for k in range(25)], "radio.resource_blocks": [2, 3, 4, 5]}
        many = [*arguments(Path(name), "many", study({"sweep": grid})), "--dry-run"]
        dry = run(Path(name), 2, *many)
    print(f"a dry run of 100 points: {dry.jobs} jobs, {1000 * dry.seconds / dry.jobs:.1f} ms a job", file=sys.stderr)
    points = len(GAMMA) * len(BLOCKS)
    several = f"{points} studies ({len(BLOCKS)} of them, times {len(GAMMA)})"
    return [
        row(f"a sweep of {points} points, three schemes: CPU time", several, cpu, alone, 0.5, "lower"),
        row("the report of the default study (MB)", "10 MB", default, 10.0, 1.0, "lower"),
        row(f"the report of {points} points (MB)", "30 MB", size, 30.0, 1.0, "lower"),
        row("a dry run of 100 points", "10 s", dry.seconds, 10.0, 1.0, "lower"),
    ]
