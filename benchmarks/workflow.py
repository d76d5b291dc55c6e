"""The default study as a whole: overhead of jobs, two cores against one, runs with little or nothing to do."""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time

import yaml
from measure import pin_threads, row

pin_threads(1)

ROOT = Path(__file__).parent.parent
DEFAULT = ROOT / "config" / "config.yaml"
COMMAND = [sys.executable, "-m", "snakemake", "--snakefile", ROOT / "Snakefile", "--workflow-profile", "none"]
STUDY = ("--configfile", str(DEFAULT))


def run(folder: Path, cores: int, *arguments: str) -> tuple[float, float]:
    """Wall-clock and CPU seconds of one run of the workflow in a folder."""
    start, before = perf_counter(), os.times()
    subprocess.run(
        [*COMMAND, "--directory", folder, "--cores", str(cores), *arguments],
        check=True,
        capture_output=True,
        cwd=folder,
    )
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return perf_counter() - start, cpu


def compute_seconds() -> float:
    """CPU seconds of all that the default study's jobs compute, in one process, imports done before."""
    import pwfl
    from pwfl import api, registry
    from pwfl.report import build, theme
    from pwfl.report.catalog import scenario_figures
    from pwfl.stages import REPORT

    def everything(config: dict, folder: str) -> None:
        study, found = api.load(config, "config.yaml"), pwfl.simulate(config)
        for name, chosen in study.scenarios.items():
            scenario = chosen.of_stage(REPORT)
            for figure in scenario_figures(registry.system(chosen.system).catalog):
                paths = {kind: f"{folder}/figure.{kind}" for kind in ("json", "png", "svg")}
                theme.save(build.figure(scenario, figure, found.scenarios[name].stages), paths)

    config = yaml.safe_load(DEFAULT.read_text())
    with tempfile.TemporaryDirectory() as folder:
        everything({**config, "base": config["base"] | {"realizations": 2, "training_realizations": 2}}, folder)
        start = process_time()
        everything(config, folder)
        return process_time() - start


def train(folder: Path, cores: int) -> float:
    """Seconds of the default study's trainings, on some cores, all else done before."""
    shutil.rmtree(folder / "store" / "train")
    seconds, _ = run(folder, cores, *STUDY, "--until", "train", "--config", "wanted=store")
    return seconds


def dry_run(folder: Path, points: int) -> tuple[float, float]:
    """CPU seconds and MiB of memory that a dry run takes of a sweep of the default study's first scenario."""
    config = yaml.safe_load(DEFAULT.read_text())
    gammas = [float(number) for number in range(1, points + 1)]
    config["scenarios"] = {"swept": config["scenarios"]["few_blocks"] | {"sweep": {"schedule.gamma": gammas}}}
    (folder / "sweep.yaml").write_text(yaml.safe_dump(config))
    before = os.times()
    call = [*COMMAND, "--directory", folder, "--configfile", str(folder / "sweep.yaml"), "--dry-run", "--quiet"]
    subprocess.run(call, check=True, capture_output=True, cwd=folder)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return cpu, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def rows() -> list[dict]:
    """All rows of this module."""
    compute = compute_seconds()
    with tempfile.TemporaryDirectory() as two:
        wall, cpu = run(Path(two), 2, *STUDY)
        idle, _ = run(Path(two), 2, *STUDY)
        delta, _ = run(Path(two), 2, *STUDY, "--config", "base={privacy: {delta: 1e-6}}")
        # Fig. 5 work: the training jobs, all else done before.
        fast, slow = (train(Path(two), cores) for cores in (2, 1))
        points, memory = dry_run(Path(two), 1000)
    return [
        row("the default run: CPU time outside the compute", "all its CPU time", cpu - compute, cpu, 0.5, "lower"),
        row("dry run of a sweep of 1,000 points, seconds", "ten seconds", points, 10.0, 1.0, "lower"),
        row("the same, MiB of memory", "300 MiB", memory, 300.0, 1.0, "lower"),
        row("training on two cores", "on one", fast, slow, 1.7),
        row("Snakemake with nothing to do", "the default run", idle, wall, 0.05, "lower"),
        row("a changed delta", "the default run", delta, wall, 0.25, "lower"),
    ]
