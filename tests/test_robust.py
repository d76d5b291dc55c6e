"""Runs that are killed, starved of disk or disturbed: nothing complete is lost, nothing partial is taken for whole."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl
import psutil
import pytest
import yaml

from conftest import SMALL, changed, command, environment, in_turn, planned, snakemake, workflow, write_config
from pwfl import tables
from pwfl.stages import STAGES
from pwfl.store import files

pytestmark = pytest.mark.xdist_group("robust")

LONG = changed(SMALL, "training.draws", 10**6)  # a job of training takes minutes
UNTIL = ("--until", "train", "account")  # all stages, without the report
KILLS = 2


def tables_of(folder: Path) -> dict[Path, pl.DataFrame]:
    found = [path for stage in STAGES for path in folder.glob(f"store/{stage}/**/*.parquet")]
    return {path.relative_to(folder): pl.read_parquet(path) for path in found}


def assert_as_undisturbed(folder: Path, finished: Path) -> None:
    """The stages' tables are those of a run that nothing happened to."""
    found, expected = tables_of(folder), tables_of(finished)
    assert found.keys() == expected.keys()
    for path, table in found.items():
        assert table.equals(expected[path]), path


def jobs_of(folder: Path) -> list[psutil.Process]:
    """Processes that run a script of a workflow in a folder."""
    scripts = str(folder / ".snakemake" / "scripts")
    processes = psutil.process_iter(["cmdline"])
    return [process for process in processes if any(scripts in part for part in process.info["cmdline"] or [])]


@contextmanager
def started(folder: Path, config: dict, *arguments: str):
    """A running Snakemake, killed at the end."""
    write_config(folder, config)
    call = [*command(folder), "--nolock", *arguments]
    with open(folder / "snakemake.log", "a") as log:
        run = subprocess.Popen(call, cwd=folder, env=environment(), stdout=log, stderr=log, start_new_session=True)
    try:
        yield run
    finally:
        run.kill()
        run.wait()


def wait_until(condition, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize("victim", in_turn(["snakemake", "job"], "snakemake"))
def test_killed_at_random_moments_and_resumed_the_run_ends_the_same(tmp_path, finished, victim):
    """Of a few jobs; test_kills.py does so with whole runs."""
    moments = random.Random(7 if victim == "job" else 8)
    for _ in range(KILLS):
        with started(tmp_path, SMALL, *UNTIL) as first:
            time.sleep(2 + 3 * moments.random())
            if victim == "job":
                for process in jobs_of(tmp_path)[:1]:
                    process.kill()
                first.send_signal(signal.SIGTERM)
                first.wait(180)
        wait_until(lambda: not jobs_of(tmp_path), 5)  # they notice that they are orphans
    workflow(tmp_path, SMALL, "--nolock", *UNTIL)
    assert_as_undisturbed(tmp_path, finished)


def computing(folder: Path, since: float) -> bool:
    """Whether a training has begun since a time."""
    logs = [path for path in folder.glob("logs/*/train/1-*.log") if path.stat().st_mtime > since]
    return any("more in this job" in path.read_text() for path in logs)


ENDINGS = {  # of a run: the signals that it gets, its exit status
    "killed": ([signal.SIGKILL], -signal.SIGKILL),
    "two TERM": ([signal.SIGTERM] * 2, 128 + signal.SIGTERM),
    "Ctrl-C": ([signal.SIGINT], 128 + signal.SIGINT),
    "three Ctrl-C": ([signal.SIGINT] * 3, 128 + signal.SIGINT),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_run_that_is_told_to_end_leaves_no_process_and_no_partial_file(own, ending):
    """The training's worker is in NumPy; test_supervisor.py has others. A terminal sends Ctrl-C to jobs, too."""
    (numbers, status), begun = ENDINGS[ending], time.time()
    with started(own, LONG, *UNTIL, "--logger", "pwfl") as run:
        wait_until(lambda: computing(own, begun), 180)
        for number in numbers:
            (os.killpg if ending == "three Ctrl-C" else os.kill)(run.pid, number)
            time.sleep(0.3)
            if run.poll() is not None:
                break
        assert run.wait(20) == status
        wait_until(lambda: not jobs_of(own), 5)
    said = (own / "snakemake.log").read_text()
    assert not re.search("Traceback|Error:|Exception:", said)
    if ending != "killed":
        line = (
            "Interrupted. What was computed is in the store; to go on with the rest: python -m snakemake --snakefile "
        )
        assert said.count("Interrupted") == said.count(line) == 1
        assert said.rpartition("\n\n")[2].count("\n") == 1  # it is the last one
    assert list((own / "store/.partial").iterdir()) == []
    assert not [
        path for path in own.glob("store/train/*/*") if not (path / "history.parquet").exists() and path.is_dir()
    ]


def test_items_of_a_part_that_were_finished_when_it_was_killed_stay(own, finished):
    few = changed(SMALL, "training.draws", 2000)
    with started(own, few, "--until", "train") as run:
        wait_until(lambda: len(trained(own, finished)) > 0, 180)
        run.kill()
        wait_until(lambda: not jobs_of(own), 5)
    before = trained(own, finished)
    times = {path: path.stat().st_mtime_ns for path in before}
    assert len(before) > 0
    workflow(own, few, "--nolock", "--until", "train")
    assert len(trained(own, finished)) == 4
    assert {path: path.stat().st_mtime_ns for path in before} == times


@pytest.mark.slow
def test_a_killed_run_that_was_told_to_compute_again_loses_nothing(own, finished):
    begun = time.time()
    with started(own, SMALL, "-R", "train") as run:
        wait_until(lambda: computing(own, begun), 300)
        run.kill()
        wait_until(lambda: not jobs_of(own), 10)
    assert_as_undisturbed(own, finished)
    workflow(own, SMALL, "--nolock")
    assert_as_undisturbed(own, finished)
    assert planned(own, SMALL) == {}


def trained(folder: Path, without: Path) -> list[Path]:
    """Histories in a folder that another one does not have."""
    return [
        path
        for path in folder.glob("store/train/*/*/history.parquet")
        if not (without / path.relative_to(folder)).exists()
    ]


@pytest.mark.slow
def test_two_runs_on_one_store_share_the_work_and_both_end_well(tmp_path, finished):
    """In two folders; wherever they meet, one computes and the other one waits or goes on elsewhere."""
    slow = changed(SMALL, "training.draws", 2000)
    (tmp_path / "shared").mkdir()
    runs = []
    for name in ("a", "b", "c"):
        folder = tmp_path / name
        write_config(folder, slow)
        if not (folder / "store").exists():
            (folder / "store").symlink_to(tmp_path / "shared")
        call = [*command(folder), "--nolock", *UNTIL]
        with open(tmp_path / f"{len(runs)}.log", "w") as log:
            runs.append(subprocess.Popen(call, cwd=folder, env=environment(), stdout=log, stderr=log))
    assert [run.wait(300) for run in runs] == [0, 0, 0], [(tmp_path / f"{k}.log").read_text() for k in range(3)]
    computed = Counter(
        line.split()[3]
        for path in tmp_path.glob("[abc]/logs/**/*.log")
        for line in path.read_text().splitlines()
        if line.endswith("more in this job")
    )
    assert sum(computed.values()) < 2 * len(computed)  # of three runs that had all to do
    assert list((tmp_path / "shared/.partial").iterdir()) == []
    workflow(tmp_path / "alone", slow, *UNTIL)
    assert_as_undisturbed(tmp_path / "a", tmp_path / "alone")


needs_namespaces = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="namespaces need root")


@pytest.mark.slow
@needs_namespaces
def test_runs_whose_processes_have_the_same_numbers_do_not_meet(tmp_path, finished):
    """As in two containers on one store."""
    runs = []
    for name in ("a", "b"):
        write_config(tmp_path / name, SMALL)
        (tmp_path / "shared").mkdir(exist_ok=True)
        (tmp_path / name / "store").symlink_to(tmp_path / "shared")
        call = ["unshare", "--pid", "--fork", "--mount-proc", *command(tmp_path / name), "--nolock", *UNTIL]
        runs.append(
            subprocess.Popen(
                call,
                cwd=tmp_path / name,
                env=environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    outputs = [run.communicate(timeout=300)[0] for run in runs]
    if any("unshare failed" in output or "Operation not permitted" in output for output in outputs):
        pytest.skip("this machine allows no namespaces")
    assert [run.returncode for run in runs] == [0, 0], outputs
    assert_as_undisturbed(tmp_path / "a", finished)


@pytest.mark.slow
def test_two_runs_on_one_store_that_are_killed_at_random_lose_nothing(tmp_path, finished):
    moments = random.Random(5)
    (tmp_path / "shared").mkdir()
    for name in ("a", "b"):
        write_config(tmp_path / name, SMALL)
        (tmp_path / name / "store").symlink_to(tmp_path / "shared")
    for _ in range(30):
        with started(tmp_path / "a", SMALL, *UNTIL) as one, started(tmp_path / "b", SMALL, *UNTIL) as two:
            time.sleep(1 + 7 * moments.random())
            for run in moments.sample([one, two], moments.choice([1, 2])):
                run.send_signal(moments.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT]))
            time.sleep(moments.random())
        wait_until(lambda: not jobs_of(tmp_path / "a") + jobs_of(tmp_path / "b"), 5)
        for path, table in tables_of(tmp_path / "a").items():
            assert table.equals(pl.read_parquet(finished / path)), path
    for name in ("a", "b"):
        workflow(tmp_path / name, SMALL, "--nolock", *UNTIL)
        assert_as_undisturbed(tmp_path / name, finished)


@pytest.mark.slow
def test_prune_beside_runs_deletes_nothing_that_they_need(tmp_path, finished):
    write_config(tmp_path, SMALL)
    (tmp_path / "other.yaml").write_text(yaml.safe_dump(changed(SMALL, "seed", 9)))
    code = (
        "import time\nfrom pwfl.workflow import prune\nprune.YOUNG_SECONDS = 0.0\n"
        "end = time.time() + 60\nwhile time.time() < end:\n    prune.prune(['other.yaml'], True)\n"
    )
    with started(tmp_path, SMALL, *UNTIL) as run:
        wait_until((tmp_path / "store/.in_use").exists, 60)
        pruning = subprocess.Popen(
            [sys.executable, "-c", code], cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL
        )
        assert run.wait(180) == 0
        pruning.kill()
        pruning.wait()
    assert_as_undisturbed(tmp_path, finished)


needs_mounts = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("mount"), reason="mounting needs root")


@pytest.fixture
def mounted(tmp_path):
    """Mount something on a folder for the length of a test."""
    targets = []

    def mount(target: Path, *arguments: str) -> None:
        target.mkdir(exist_ok=True)
        result = subprocess.run(["mount", *arguments, str(target)], capture_output=True, text=True, check=False)
        if result.returncode:
            pytest.skip(f"this machine lets nothing be mounted: {result.stderr.strip()}")
        targets.append(target)

    yield mount
    for target in targets:
        subprocess.run(["umount", str(target)], check=True)


@pytest.mark.slow
@needs_mounts
def test_a_full_disk_is_said_and_leaves_no_partial_file(tmp_path, finished, mounted):
    mounted(tmp_path / "store", "-t", "tmpfs", "-o", "size=64k", "tmpfs")
    result = snakemake(tmp_path, SMALL, *UNTIL)
    assert "No space left on device" in result.stdout + result.stderr
    for path, table in tables_of(tmp_path).items():
        assert table.equals(pl.read_parquet(finished / path)), path
    subprocess.run(["mount", "-o", "remount,size=64m", str(tmp_path / "store")], check=True)
    workflow(tmp_path, SMALL, *UNTIL)
    assert_as_undisturbed(tmp_path, finished)


@needs_mounts
def test_a_table_that_finds_no_room_says_so_wherever_the_disk_ends(tmp_path, mounted):
    size, page = 64 * 1024, os.sysconf("SC_PAGESIZE")
    mounted(tmp_path / "disk", "-t", "tmpfs", "-o", f"size={size}", "tmpfs")
    frame = pl.DataFrame({"value": np.random.default_rng(0).random(3 * page // 8)})
    for room in range(0, 3 * page, page):
        (tmp_path / "disk" / "filling").write_bytes(bytes(size - room))
        with pytest.raises(OSError, match="No space left on device"):
            tables.write_report({"table": frame}, tmp_path / "disk")
        with pytest.raises(OSError, match="No space left on device"):
            files.write(frame.write_parquet, str(tmp_path / "disk/table.parquet"))
        assert os.listdir(tmp_path / "disk") == ["filling"]


@needs_mounts
@pytest.mark.parametrize("name", ["results", "store"])
def test_a_read_only_folder_is_said_at_once(tmp_path, mounted, name):
    mounted(tmp_path / name, "-t", "tmpfs", "-o", "ro", "tmpfs")
    result = snakemake(tmp_path, SMALL)
    assert result.returncode == 1
    assert "Read-only file system" in result.stdout + result.stderr
