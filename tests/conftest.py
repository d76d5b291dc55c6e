"""Fixtures that several test modules share, and what tests of bits rest on: one thread of TensorFlow.

Test modules use TensorFlow before what they test does, which is too late to have it take one thread.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from pwfl.runtime import threads

threads.before_tensorflow()

ROOT = Path(__file__).parent.parent

# A whole study in seconds: two scenarios, two shards of each kind, all four pairs of schemes in one.
TINY = {
    "study": "tiny",
    "base": {
        "realizations": 4,
        "training_realizations": 3,
        "shards": {"optimization": 2, "training": 2},
        "audit": {"canaries": 50},
        "network": {"users": 20},
        "radio": {"resource_blocks": 2},
        "data": {"dataset": "digits", "samples_offset": 10, "samples_log_mean": 2.5},
        "privacy": {"min_noise": 3.5, "max_noise_error": 0.4},
        "schedule": {"gamma": 300.0},
        "training": {"hidden_layers": [8], "rounds": 4, "learning_rate": 1.0, "clip_norm": 1.0, "evaluate_every": 2},
    },
    "scenarios": {"low": {}, "high": {"schedule": {"gamma": 3000.0}, "shards": {"optimization": 4, "training": 4}}},
}


def pytest_collection_modifyitems(items):
    """The cluster's test, the longest of those that belong to no group of several, starts early."""
    items.sort(key=lambda item: item.get_closest_marker("slurm") is None)


@pytest.fixture
def tiny_config():
    """A fresh copy of the tiny study's config."""
    return yaml.safe_load(yaml.safe_dump(TINY))


# Programs that tests need, by the Debian packages that they are installed from.
SYSTEM_PROGRAMS = {
    ("slurm-wlm", "munge"): ("munged", "slurmctld", "slurmd", "sbatch", "unshare", "nsenter"),
    ("rsync",): ("rsync",),
    ("chromium",): ("chromium",),
}
APT = "PWFL_TEST_APT"  # environment variable: `no` installs nothing


def missing_packages() -> list[str]:
    """Debian packages of which tests need programs that are not there."""
    return [
        package
        for packages, programs in SYSTEM_PROGRAMS.items()
        if not all(shutil.which(program) for program in programs)
        for package in packages
    ]


def may_install() -> bool:
    """Whether tests may and can install Debian packages."""
    return os.environ.get(APT, "yes") != "no" and os.geteuid() == 0 and shutil.which("apt-get") is not None


def pytest_report_header():
    """What the tests are going to install into the system, before they do."""
    if not (missing := missing_packages()):
        return None
    if may_install():
        return f"tests that need them will install Debian's {', '.join(missing)} by apt-get; {APT}=no skips these tests"
    return f"tests that need Debian's {', '.join(missing)} are skipped"


def need(*packages: str) -> None:
    """Install Debian packages whose programs are missing, or skip."""
    if not set(packages) & set(missing_packages()):
        return
    if not may_install():
        pytest.skip(f"needs {' and '.join(packages)}, or root, apt-get and {APT} other than `no` to install them")
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        result = subprocess.run(
            ["apt-get", "-qq", *command], env=environment, capture_output=True, text=True, check=False
        )
        if result.returncode:
            pytest.skip(f"{' and '.join(packages)} cannot be installed: {result.stderr.strip().splitlines()[-1:]}")


def plugin(name: str, folder: Path) -> Path:
    """Install Snakemake's plugin `name` into a folder of its own: it would slow down every other start of Snakemake."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--target"]
    subprocess.run([*command, str(folder), "-r", str(ROOT / "envs" / f"{name}.lock")], check=True)
    return folder


def write_config(folder: Path, config: dict) -> None:
    """Write a config where `command` looks for it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "study.yaml").write_text(yaml.safe_dump(config))


def command(folder: Path, project: Path = ROOT) -> list[str]:
    """The command that runs the workflow of `project` with `folder` as working directory."""
    return [
        sys.executable, "-m", "snakemake", "--snakefile", str(project / "Snakefile"), "--directory", str(folder),
        "--workflow-profile", "none", "--configfile", str(folder / "study.yaml"), "--cores", "1", "--show-failed-logs",
    ]  # fmt: skip


def environment(project: Path = ROOT, *plugins: Path) -> dict[str, str]:
    """The environment in which the workflow of `project` finds its package, and Snakemake plugins."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(map(str, [project / "pkg", *plugins]))}


def snakemake(
    folder: Path, config: dict, *arguments: str, project: Path = ROOT, plugins: tuple[Path, ...] = ()
) -> subprocess.CompletedProcess:
    """Run the workflow to its end."""
    write_config(folder, config)
    return subprocess.run(
        [*command(folder, project), *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment(project, *plugins),
        check=False,
    )


def jobs(result: subprocess.CompletedProcess) -> dict[str, int]:
    """The job statistics that a (dry) run prints: rule -> number of jobs."""
    text = result.stdout + result.stderr
    assert result.returncode == 0, text
    if "Job stats:" not in text:
        assert "Nothing to be done" in text, text
        return {}
    table = text.split("Job stats:\n", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    counts = {line.split()[0]: int(line.split()[1]) for line in table}
    return {rule: count for rule, count in counts.items() if rule not in ("total", "all")}
