"""What several test modules share; and one thread, so that bits are the same and seconds of CPU are of work.

Test modules use Polars and TensorFlow before what they test does, which is too late to have these take one thread.
"""

import fcntl
import os
import re
import resource
import shutil
import subprocess
import sys
from collections import Counter
from copy import deepcopy
from functools import cache
from pathlib import Path

os.environ |= dict.fromkeys(("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

import polars as pl
import pytest
import yaml

from pwfl.process import threads
from pwfl.scenario import load
from pwfl.stages import STAGES
from pwfl.workflow import publish, session

threads.before_tensorflow()

ROOT = Path(__file__).parent.parent

# A whole study in seconds: two scenarios, all four pairs of schemes in one.
TINY = {
    "study": "tiny",
    "base": {
        "realizations": 4,
        "training_realizations": 3,
        "audit": {"canaries": 50},
        "network": {"users": 20},
        "radio": {"resource_blocks": 2},
        "data": {"dataset": "digits", "samples_offset": 10, "samples_log_mean": 2.5},
        "privacy": {"min_noise": 3.5, "max_noise_error": 0.4},
        "schedule": {"gamma": 300.0},
        "training": {"hidden_layers": [8], "rounds": 4, "learning_rate": 1.0, "clip_norm": 1.0, "evaluate_every": 2},
    },
    "scenarios": {"low": {}, "high": {"schedule": {"gamma": 3000.0}}},
}

# A study of the workflow itself, of a system that needs no TensorFlow, which would take most of a job's time; in two
# chunks.
SMALL = {
    "study": "small",
    "base": {
        "system": "age_aware",
        "realizations": 12,
        "training_realizations": 11,
        "audit": {"canaries": 50},
        "schedule": {"horizon": 4, "times": [1, 2, 3]},
        "schemes": [
            {"name": "drawn", "scheduler": "random", "noise": "constant"},
            {"name": "fixed", "scheduler": "fixed", "noise": "constant"},
        ],
    },
    "scenarios": {"one": {}},
}


# What takes long to start, or to train: files of tests that name none of this are marked `fast`.
SLOW_WORDS = re.compile(
    r"tensorflow|cvxpy|subprocess|python\(|psutil|snakemake|planned\(|simulate\(|stage_tables|\brun\.(train|audit)"
    r"|pwfl import .*\btesting\b|from pwfl.testing|pipeline import .*\brun\b|from pwfl.training"
)
LONG = ("test_choices.py", "test_convergence.py", "test_delta.py", "test_equal_privacy.py")  # nor are these


@cache
def is_fast(path: Path) -> bool:
    if path.parent != ROOT / "tests" or path.name in LONG:
        return False
    return SLOW_WORDS.search(path.read_text(encoding="utf-8")) is None


def pytest_ignore_collect(collection_path, config):
    """With `-m fast`, do not even import what is not: TensorFlow alone takes seconds."""
    only_fast = config.getoption("markexpr") == "fast" and collection_path.is_file()
    return True if only_fast and not is_fast(collection_path) else None


@cache
def slow_ones() -> dict[str, set[str]]:
    """The tests, or their cases, that tests/slow.txt names, by file."""
    found: dict[str, set[str]] = {}
    for line in (ROOT / "tests" / "slow.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            file, _, name = line.partition("::")
            found.setdefault(file, set()).add(name)
    return found


@pytest.hookimpl(tryfirst=True)  # before xdist looks for the groups
def pytest_collection_modifyitems(config, items):
    """Mark what is slow, and what is fast; a file's tests are one worker's: what they make together is made once.

    The cluster's tests, which wait for it, start early.
    """
    unseen = {(file, name) for file, names in slow_ones().items() for name in names}
    for item in items:
        file, names = item.path.name, {item.name, getattr(item, "originalname", item.name)}
        if found := slow_ones().get(file, set()) & names:
            item.add_marker(pytest.mark.slow)
            unseen -= {(file, name) for name in found}
    if unseen and config.args == config.getini("testpaths"):
        raise pytest.UsageError(f"tests/slow.txt: no such tests: {sorted(unseen)}")
    for item in items:
        if is_fast(item.path) and not item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.fast)
        if not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
    items.sort(key=lambda item: item.get_closest_marker("slurm") is None)


# What tests cost: seconds of the processor, of pytest's process and of those that it started and that have ended.
COSTLIEST = 20  # tests that are listed at the end
spent = Counter()
COUNTED = pytest.StashKey[float]()


def cpu_seconds() -> float:
    """What this process and its children have used up to now."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Begin to count; a fixture of several tests is charged to the first."""
    item.stash[COUNTED] = cpu_seconds()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """Write into each phase's report what was used since the one before."""
    report = yield
    now = cpu_seconds()
    report.user_properties.append(("cpu_seconds", now - item.stash[COUNTED]))
    item.stash[COUNTED] = now
    return report


def pytest_runtest_logreport(report):
    """Add up a test's phases, wherever they ran."""
    spent[report.nodeid] += dict(report.user_properties).get("cpu_seconds", 0.0)


def pytest_terminal_summary(terminalreporter):
    """List the tests that took most, and what all took together, starts and collection included."""
    terminalreporter.section(f"seconds of CPU: {cpu_seconds():.0f}, of which the {COSTLIEST} costliest tests took")
    for test, seconds in spent.most_common(COSTLIEST):
        terminalreporter.write_line(f"{seconds:7.1f} {test}")


@pytest.fixture(autouse=True)
def traced_anew(request):
    """A test that changes the code trains by graphs of that code, and leaves none behind."""

    def forget():
        if rounds := sys.modules.get("pwfl.training.rounds"):
            rounds.forget()

    changes = "monkeypatch" in request.fixturenames
    if changes:
        forget()
    yield
    if changes:
        forget()


def in_turn(cases, *quick) -> list:
    """Cases as parameters of a test: `make test` takes those that are `quick`, `make test-slow` the others."""
    parts = {case: case if isinstance(case, tuple) else (case,) for case in cases}
    return [pytest.param(*each, marks=[] if case in quick else pytest.mark.slow) for case, each in parts.items()]


def changed(config: dict, path: str, value) -> dict:
    """The config with the parameter at a dotted path of its base set."""
    config = deepcopy(config)
    here = config["base"]
    *sections, key = path.split(".")
    for section in sections:
        here = here.setdefault(section, {})
    here[key] = value
    return config


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """The folder of a finished run of SMALL, one for all of xdist's workers: to be copied, not to be changed."""
    top = tmp_path_factory.getbasetemp()
    top = top.parent if "PYTEST_XDIST_WORKER" in os.environ else top
    folder = top / "finished"
    with open(top / "finished.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            workflow(top / "running", SMALL)
            (top / "running").rename(folder)
    return folder


@pytest.fixture
def own(finished, tmp_path):
    """A copy of the finished run, with the files' times, as Snakemake left it."""
    return shutil.copytree(finished, tmp_path / "own", copy_function=shutil.copy2)


def copy_of_project(folder: Path) -> Path:
    """The project's files in a folder, where a test may edit them."""
    for name in ("Snakefile", "CITATION.cff", "rules", "scripts", "pkg", "report", "envs", "config", "profiles"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    return folder


# Programs that tests need, by the Debian packages that they are installed from.
SYSTEM_PROGRAMS = {
    ("slurm-wlm", "munge"): ("munged", "slurmctld", "slurmd", "sbatch", "unshare", "nsenter"),
    ("chromium",): ("chromium",),
    ("texlive-latex-recommended",): ("pdflatex",),
}
APT = "PWFL_TEST_APT"  # environment variable: with `yes` Debian packages are installed


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
    return os.environ.get(APT) == "yes" and os.geteuid() == 0 and shutil.which("apt-get") is not None


def pytest_report_header():
    """What the tests are going to install into the system, before they do."""
    if not (missing := missing_packages()):
        return None
    if may_install():
        return f"tests that need them will install Debian's {', '.join(missing)} by apt-get"
    return f"tests that need Debian's {', '.join(missing)} are skipped; {APT}=yes, as root, installs these"


def need(*packages: str) -> None:
    """Install Debian packages whose programs are missing, or skip."""
    if not set(packages) & set(missing_packages()):
        return
    if not may_install():
        pytest.skip(f"needs {' and '.join(packages)}, or root, apt-get and {APT}=yes to install them")
    quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for action in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        result = subprocess.run(["apt-get", "-qq", *action], env=quiet, capture_output=True, text=True, check=False)
        if result.returncode:
            pytest.skip(f"{' and '.join(packages)} cannot be installed: {result.stderr.strip().splitlines()[-1:]}")


def plugin(name: str, folder: Path) -> Path:
    """Install Snakemake's plugin `name` into a folder of its own: it would slow down every other start of Snakemake."""
    lock = ROOT / "envs" / f"{name}.lock"
    pip = ("-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--target", folder, "-r", lock)
    python(*pip, check=True)
    return folder


def write_config(folder: Path, config: dict) -> None:
    """Write a config where `command` looks for it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "study.yaml").write_text(yaml.safe_dump(config))


def environment(project: Path = ROOT, *plugins: Path) -> dict[str, str]:
    """The environment in which the workflow of `project` finds its package, and Snakemake plugins."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(map(str, [project / "pkg", *plugins]))}


def python(*arguments: str | Path, check=False, env=None, **options) -> subprocess.CompletedProcess:
    """Run Python to its end, which finds this package."""
    call = [sys.executable, *map(str, arguments)]
    return subprocess.run(call, capture_output=True, text=True, check=check, env=env or environment(), **options)


PWFL = (sys.executable, "-c", "from pwfl import cli; cli.main()")  # the command, installed or not


def command(folder: Path, project: Path = ROOT) -> list[str]:
    """The command that runs the workflow of `project` with `folder` as working directory."""
    return [
        sys.executable, "-m", "snakemake", "--snakefile", str(project / "Snakefile"), "--directory", str(folder),
        "--workflow-profile", "none", "--configfile", str(folder / "study.yaml"), "--cores", "1", "--show-failed-logs",
    ]  # fmt: skip


def snakemake(
    folder: Path, config: dict, *arguments: str, project: Path = ROOT, plugins: tuple[Path, ...] = ()
) -> subprocess.CompletedProcess:
    """Run the workflow to its end."""
    write_config(folder, config)
    call = [*command(folder, project)[1:], *arguments]
    return python(*call, cwd=folder, env=environment(project, *plugins))


HELPERS = re.compile("total|publish|(.*_)?all")  # rules that compute nothing


def jobs(result: subprocess.CompletedProcess) -> dict[str, int]:
    """The job statistics that a (dry) run prints of rules that compute: rule -> number of jobs."""
    text = result.stdout + result.stderr
    assert result.returncode == 0, text
    if "Job stats:" not in text:
        assert "Nothing to be done" in text, text
        return {}
    table = text.split("Job stats:\n", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    counts = {line.split()[0]: int(line.split()[1]) for line in table}
    return {rule: count for rule, count in counts.items() if not HELPERS.fullmatch(rule)}


def workflow(folder: Path, config: dict, *arguments: str, **options) -> None:
    """Run the workflow, which must succeed."""
    result = snakemake(folder, config, "--cores", "2", *arguments, **options)
    assert result.returncode == 0, result.stdout + result.stderr


def planned(folder: Path, config: dict, *arguments: str, **options) -> dict[str, int]:
    """What the workflow would run: rule -> number of jobs, each of which computes a part."""
    return jobs(snakemake(folder, config, "--dry-run", *arguments, **options))


def session_of(folder: Path, config: dict, wanted: tuple[str, ...] = ()) -> session.Session:
    """What a call of the workflow in a folder would do."""
    return session.start(load(config, "a test"), folder, wanted, None, 2, ("pwfl run study.yaml", []))


def publish_view(found: session.Session) -> None:
    """Publish what a study's folder is to show, as the workflow's last rule does."""
    publish.publish(found.base / found.shown_mark, **found.saved["publication"])


def missing(folder: Path, config: dict, wanted: tuple[str, ...] = ()) -> Counter:
    """The items that the workflow would compute in a folder, by stage or job of the report."""
    found = session_of(folder, config, wanted)
    return Counter(item.stage for item in found.work.items() if item.key in found.lacks)


ONE = changed(SMALL, "schemes", SMALL["base"]["schemes"][:1])  # of SMALL the first scheme alone


def assert_one_is_as_in_small(folder: Path, finished: Path) -> None:
    """A run of ONE, left in a folder, has the tables of the finished run of SMALL."""
    paths = sorted(path.relative_to(folder) for stage in STAGES for path in folder.glob(f"store/{stage}/**/*.parquet"))
    assert len(paths) > 15
    for path in paths:
        assert pl.read_parquet(folder / path).equals(pl.read_parquet(finished / path)), path
    for table in ("summary", "realizations", "history", "audit"):
        path = f"results/small/one/{table}.parquet"
        expected = pl.read_parquet(finished / path).filter(scheme="drawn")
        assert pl.read_parquet(folder / path).equals(expected), path
    assert (folder / "results/small/one/loss.svg").exists()
    assert (folder / "results/small/claims.csv").exists()


REPORT = {"tables", "figures", "audit", "comparison", "page"}  # jobs of the report
