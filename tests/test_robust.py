"""Runs that are killed, starved of disk or disturbed: nothing complete is lost, nothing partial is taken for whole."""

import os
import random
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl
import psutil
import pytest

from conftest import SMALL, changed, command, environment, python, snakemake, workflow, write_config
from pwfl import tables
from pwfl.runtime import files
from pwfl.scenario import resolve
from pwfl.workflow import plan

pytestmark = pytest.mark.xdist_group("robust")

LONG = changed(SMALL, "training.draws", 10**6)  # a job of training takes minutes


def tables_of(folder: Path) -> dict[Path, pl.DataFrame]:
    found = [*folder.glob("store/**/*.parquet"), *folder.glob("results/**/*.parquet")]
    return {path.relative_to(folder): pl.read_parquet(path) for path in found}


def file_of(config: dict, table: str, stage: str) -> str:
    """The first of a stage's tables, of the first scheme."""
    scenario = resolve(config["base"], {})
    address = next(iter(plan.routes(scenario).values()))[stage]["address"]
    return f"store/{stage}/{address}/000000-000002/{table}.parquet"


TARGETS = [file_of(SMALL, "outcome", "account"), file_of(SMALL, "history", "train")]
KILLS = 2


def assert_as_undisturbed(folder: Path, finished: Path) -> None:
    """TARGETS are there, and all tables are those of a run that nothing happened to."""
    found = tables_of(folder)
    assert set(map(Path, TARGETS)) < set(found)
    for path, table in found.items():
        assert table.equals(pl.read_parquet(finished / path)), path


def jobs_of(folder: Path) -> list[psutil.Process]:
    """Processes that run a script of a workflow in a folder."""
    scripts = str(folder / ".snakemake" / "scripts")
    processes = psutil.process_iter(["cmdline"])
    return [process for process in processes if any(scripts in part for part in process.info["cmdline"] or [])]


def unlock(folder: Path) -> None:
    python(*command(folder)[1:], "--unlock", cwd=folder, check=True)


@contextmanager
def started(folder: Path, config: dict, *arguments: str):
    """A running Snakemake, killed at the end."""
    write_config(folder, config)
    call = [*command(folder), "--rerun-incomplete", *arguments]
    with open(folder / "snakemake.log", "a") as log:
        run = subprocess.Popen(call, cwd=folder, env=environment(), stdout=log, stderr=log)
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


@pytest.mark.parametrize("victim", ["snakemake", "job"])
def test_killed_at_random_moments_and_resumed_the_run_ends_the_same(tmp_path, finished, victim):
    """Of a few jobs; test_kills.py does so with whole runs."""
    moments = random.Random(7 if victim == "job" else 8)
    for _ in range(KILLS):
        with started(tmp_path, SMALL, *TARGETS) as first:
            time.sleep(2 + 3 * moments.random())
            if victim == "job":
                for process in jobs_of(tmp_path)[:1]:
                    process.kill()
                first.send_signal(signal.SIGTERM)
                first.wait(180)
        wait_until(lambda: not jobs_of(tmp_path), 10)  # they notice that they are orphans
        unlock(tmp_path)
    workflow(tmp_path, SMALL, "--rerun-incomplete", *TARGETS)
    assert_as_undisturbed(tmp_path, finished)
    assert not list(tmp_path.glob("store/**/*.checkpoint.*"))


@pytest.mark.parametrize("seconds", [0.0, 4.0])
def test_an_orphaned_job_ends_by_itself(own, seconds):
    history = file_of(LONG, "history", "train")
    with started(own, LONG, history):
        wait_until(lambda: (own / history).parent.is_dir() and jobs_of(own), 180)  # Snakemake makes the folder first
        time.sleep(seconds)  # 0: before its first line; 4: it computes
        assert jobs_of(own)
    wait_until(lambda: not jobs_of(own), 10)


def test_a_second_run_in_the_same_folder_is_refused_even_where_the_first_was_unlocked(own):
    history = file_of(LONG, "history", "train")
    log = own / history.replace("store", "logs").replace("/history.parquet", ".log")
    with started(own, LONG, history) as first:
        wait_until(lambda: log.exists() and "to train" in log.read_text(), 180)
        second = snakemake(own, LONG, "--rerun-incomplete")
        assert "Directory cannot be locked" in second.stdout + second.stderr
        unlock(own)
        assert not list((own / ".snakemake").glob("locks/*"))
        second = snakemake(own, LONG, "--rerun-incomplete")
        said = second.stdout + second.stderr
        assert second.returncode == 1
        assert f"small: process {first.pid} on " in said
        assert "Traceback" not in said
        assert jobs_of(own)
        assert first.poll() is None
    wait_until(lambda: not jobs_of(own), 60)
    users = file_of(LONG, "users", "channel")
    (own / users).unlink()
    workflow(own, LONG, "--rerun-incomplete", users)  # a dead owner holds nothing


def test_a_file_from_the_future_is_named_and_changes_no_table(own, finished):
    users, history = file_of(SMALL, "users", "channel"), file_of(SMALL, "history", "train")
    os.utime(own / users, (time.time() + 86400, time.time() + 86400))
    again = ("--forcerun", history, history)
    result = snakemake(own, SMALL, *again)
    assert result.returncode == 1
    assert f"than input {users}" in result.stdout + result.stderr
    os.utime(own / users)
    workflow(own, SMALL, *again)
    assert pl.read_parquet(own / history).equals(pl.read_parquet(finished / history))


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


@needs_mounts
def test_a_full_disk_is_said_and_leaves_no_partial_file(tmp_path, finished, mounted):
    mounted(tmp_path / "store", "-t", "tmpfs", "-o", "size=64k", "tmpfs")
    result = snakemake(tmp_path, SMALL, *TARGETS)
    assert result.returncode == 1
    assert "No space left on device" in result.stdout + result.stderr
    for path, table in tables_of(tmp_path).items():
        assert table.equals(pl.read_parquet(finished / path)), path
    subprocess.run(["mount", "-o", "remount,size=64m", str(tmp_path / "store")], check=True)
    workflow(tmp_path, SMALL, "--rerun-incomplete", *TARGETS)
    assert_as_undisturbed(tmp_path, finished)


@needs_mounts
def test_a_table_that_finds_no_room_says_so_wherever_the_disk_ends(tmp_path, mounted):
    size, page = 64 * 1024, os.sysconf("SC_PAGESIZE")
    mounted(tmp_path / "disk", "-t", "tmpfs", "-o", f"size={size}", "tmpfs")
    frame = pl.DataFrame({"value": np.random.default_rng(0).random(3 * page // 8)})
    for room in range(0, 3 * page, page):
        (tmp_path / "disk" / "filling").write_bytes(bytes(size - room))
        with pytest.raises(OSError, match="No space left on device"):
            tables.write_report(frame, str(tmp_path / "disk/table.csv"), str(tmp_path / "disk/table.parquet"))
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
