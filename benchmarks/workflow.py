"""The default study as a whole: overhead of jobs, two cores against one, runs with little or nothing to do."""

import os
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
    from pwfl import api
    from pwfl.report import build, theme
    from pwfl.report.catalog import scenario_figures
    from pwfl.stages import REPORT
    from pwfl.systems import registry

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


def rows() -> list[dict]:
    """All rows of this module."""
    compute = compute_seconds()
    with tempfile.TemporaryDirectory() as two:
        wall, cpu = run(Path(two), 2, *STUDY)
        idle, _ = run(Path(two), 2, *STUDY)
        delta, _ = run(Path(two), 2, *STUDY, "--config", "base={privacy: {delta: 1e-6}}")
        # Fig. 5 work: the training jobs, all else done before.
        training = [*STUDY, "--until", "train", "--forcerun", "train"]
        fast, _ = run(Path(two), 2, *training)
        slow, _ = run(Path(two), 1, *training)
    return [
        row("the default run: CPU time outside the compute", "all its CPU time", cpu - compute, cpu, 0.4, "lower"),
        row("training on two cores", "on one", fast, slow, 1.7),
        row("Snakemake with nothing to do", "the default run", idle, wall, 0.05, "lower"),
        row("a changed delta", "the default run", delta, wall, 0.25, "lower"),
    ]
