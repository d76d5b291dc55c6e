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


def run(folder: Path, cores: int, *arguments: str) -> tuple[float, float]:
    """Wall-clock and CPU seconds of one run of the workflow in a folder."""
    command = [sys.executable, "-m", "snakemake", "--snakefile", ROOT / "Snakefile", "--directory", folder]
    command += ["--configfile", ROOT / "config" / "config.yaml", "--workflow-profile", "none", "--cores", str(cores)]
    start, before = perf_counter(), os.times()
    subprocess.run([*command, *arguments], check=True, capture_output=True, cwd=folder)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return perf_counter() - start, cpu


def compute_seconds() -> float:
    """CPU seconds of all that the default study's jobs compute, in one process, imports done before."""
    from pwfl import account, channel, noise, report, scenario, schedule, train
    from pwfl.learning import datasets, sources
    from pwfl.privacy import audit
    from pwfl.report import catalog, theme

    config = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())
    study = scenario.load(config, "config.yaml")
    x_train, y_train, x_test, y_test = sources.load("digits")
    data = datasets.Dataset(
        x_train.astype("float32") / 255, y_train.astype("int32"), x_test.astype("float32") / 255, y_test.astype("int32")
    )

    def everything(model, realizations, trained, folder):
        import polars as pl

        def parameters(stage, variant=None):
            return scenario.stage_parameters(model, stage, variant)

        base = channel.run(parameters("channel"), range(realizations))
        parts = []
        for scheme in model.schemes:
            found = base | schedule.run(parameters("schedule", scheme.scheduler), scheme.scheduler, base)
            found |= noise.run(parameters("noise", scheme.noise), scheme.noise, found)
            found |= train.run(parameters("train"), data, range(trained), found)
            found |= account.run(parameters("account"), found)
            found |= audit.run(parameters("audit"), found)
            names = ("schedule_status", "noise_status", "history", "leakage", "outcome", "audit")
            parts.append({n: found[n].select(pl.lit(scheme.name).alias("scheme"), pl.all()) for n in names})
        tables = {name: pl.concat([part[name] for part in parts]) for name in parts[0]} | base
        report.summarize(parameters("report"), tables)
        for name in catalog.FIGURES[model.system]:
            paths = {kind: f"{folder}/figure.{kind}" for kind in ("html", "png", "svg")}
            theme.save(report.figure(parameters("report"), name, tables), paths)

    with tempfile.TemporaryDirectory() as folder:
        models = list(study.scenarios.values())
        everything(models[0], 2, 2, folder)
        start = process_time()
        for model in models:
            everything(model, model.realizations, model.training_realizations, folder)
        return process_time() - start


def rows() -> list[dict]:
    """All rows of this module."""
    compute = compute_seconds()
    with tempfile.TemporaryDirectory() as two:
        wall, cpu = run(Path(two), 2)
        idle, _ = run(Path(two), 2)
        delta, _ = run(Path(two), 2, "--config", "base={privacy: {delta: 1e-6}}")
        # Fig. 5 work: the training jobs, all else done before.
        training = ["--until", "train", "--forcerun", "train"]
        fast, _ = run(Path(two), 2, *training, "--config", "base={privacy: {delta: 1e-6}}")
        slow, _ = run(Path(two), 1, *training, "--config", "base={privacy: {delta: 1e-6}}")
    return [
        row("the default run: CPU time outside the compute", "all its CPU time", cpu - compute, cpu, 0.4, "lower"),
        row("training on two cores", "on one", fast, slow, 1.7),
        row("Snakemake with nothing to do", "the default run", idle, wall, 0.05, "lower"),
        row("a changed delta", "the default run", delta, wall, 0.25, "lower"),
    ]
