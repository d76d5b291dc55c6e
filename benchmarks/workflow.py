"""Measure runs of the default study: overhead of jobs, two cores against one, and runs with few or no jobs."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

import yaml
from measure import pin_threads, row

pin_threads(1)

ROOT = Path(__file__).parent.parent
DEFAULT = ROOT / "config" / "config.yaml"
STUDY = ("--configfile", str(DEFAULT))


class Run(NamedTuple):
    """The cost of a run of the workflow with its jobs; `mib` is the memory of the largest process."""

    seconds: float
    cpu_seconds: float
    jobs: int
    mib: float


def run(folder: Path, cores: int, *arguments: str, checkout: Path = ROOT) -> Run:
    """Run the workflow in a folder; another checkout's runs in the environment that `make setup` made there."""
    python = sys.executable if checkout == ROOT else checkout / ".venv/bin/python"
    call = [python, "-m", "snakemake", "--snakefile", checkout / "Snakefile", "--workflow-profile", "none"]
    begun = perf_counter()
    with tempfile.TemporaryFile() as log:
        places = ["--directory", folder, "--cores", str(cores)]
        process = subprocess.Popen([*call, *places, *arguments], cwd=folder, stdout=log, stderr=log)
        _, status, used = os.wait4(process.pid, 0)
        log.seek(0)
        said = log.read().decode()
    if status:
        raise RuntimeError(said)
    total = re.search(r"^total +(\d+)", said, flags=re.MULTILINE)
    jobs = int(total[1]) if total else 0
    return Run(perf_counter() - begun, used.ru_utime + used.ru_stime, jobs, used.ru_maxrss / 1024)


def compute_seconds() -> float:
    """Measure the CPU seconds of everything that the default study's jobs compute, in one process, without imports."""
    import pwfl
    from pwfl import api, registry
    from pwfl.report import build, theme
    from pwfl.report.catalog import scenario_figures
    from pwfl.stages import REPORT

    def everything(config: dict, folder: str) -> None:
        study, found = api.load(config, "config.yaml"), pwfl.simulate(config)
        for name in study.scenarios.keys() - study.points.keys():  # sweep points have figures and audits on request
            scenario, result = study.scenarios[name].select_stage(REPORT), found.scenarios[name]
            for figure in scenario_figures(registry.system(scenario.system).catalog):
                paths = {kind: f"{folder}/figure.{kind}" for kind in ("json", "png", "svg")}
                theme.save(build.figure(scenario, figure, result.stages | result.report), paths)

    config = yaml.safe_load(DEFAULT.read_text())
    with tempfile.TemporaryDirectory() as folder:
        everything({**config, "base": config["base"] | {"realizations": 2, "training_realizations": 2}}, folder)
        start = process_time()
        everything(config, folder)
        return process_time() - start


def train(folder: Path, cores: int) -> float:
    """Delete and repeat the default study's training runs on `cores` cores; return the seconds."""
    shutil.rmtree(folder / "store" / "train")
    return run(folder, cores, *STUDY, "--until", "train", "--config", "wanted=store").seconds


def dry_run(folder: Path, points: int) -> Run:
    """Make a dry run of a sweep of the default study's first scenario."""
    config = yaml.safe_load(DEFAULT.read_text())
    gammas = [float(number) for number in range(1, points + 1)]
    config["scenarios"] = {"swept": config["scenarios"]["papers_learning"] | {"sweep": {"schedule.gamma": gammas}}}
    (folder / "sweep.yaml").write_text(yaml.safe_dump(config))
    return run(folder, 2, "--configfile", str(folder / "sweep.yaml"), "--dry-run")


def rows() -> list[dict]:
    """Measure all rows of this module."""
    with tempfile.TemporaryDirectory() as folder:
        dry = dry_run(Path(folder), 1000)  # first: a process starts with the peak memory of the one that starts it
    compute = compute_seconds()
    with tempfile.TemporaryDirectory() as two:
        wall, cpu, *_ = run(Path(two), 2, *STUDY)
        idle = run(Path(two), 2, *STUDY).seconds
        # In this scenario the noise does not depend on delta, unlike noise calibrated to a target epsilon.
        changed = ("base={privacy: {delta: 1e-6}}", "run=[papers_learning]")
        delta = run(Path(two), 2, *STUDY, "--config", *changed).seconds
        # The work of Fig. 5: only training jobs, since all other results are kept.
        fast, slow = (train(Path(two), cores) for cores in (2, 1))
    return [
        row("the default run: CPU time outside the compute", "all its CPU time", cpu - compute, cpu, 0.5, "lower"),
        row("dry run of a sweep of 1,000 points, seconds", "ten seconds", dry.cpu_seconds, 10.0, 1.0, "lower"),
        row("the same, MiB of memory", "300 MiB", dry.mib, 300.0, 1.0, "lower"),
        row("training on two cores", "on one", fast, slow, 1.7),
        row("Snakemake with nothing to do", "the default run", idle, wall, 0.05, "lower"),
        row("a changed delta, of schemes with their own noise", "the default run", delta, wall, 0.25, "lower"),
    ]
