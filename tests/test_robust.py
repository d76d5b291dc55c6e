"""Runs that are killed, starved of disk or disturbed: nothing complete is lost, nothing partial is taken for whole."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl
import psutil
import pytest

from conftest import command, environment, snakemake, write_config
from pwfl import tables
from pwfl.runtime import files, locks, store
from pwfl.scenario import resolve

pytestmark = pytest.mark.xdist_group("robust")

KILLS = 10


def tables_of(folder: Path) -> dict[Path, pl.DataFrame]:
    found = [*folder.glob("store/**/*.parquet"), *folder.glob("results/**/*.parquet")]
    return {path.relative_to(folder): pl.read_parquet(path) for path in found}


def assert_equal_tables(folder: Path, expected: Path) -> None:
    found, wanted = tables_of(folder), tables_of(expected)
    assert set(found) == set(wanted)
    for path, table in wanted.items():
        assert found[path].equals(table), path


def address(config: dict, stage: str) -> str:
    """The address of a stage's tables of the random scheme, in the scenario `low`."""
    scenario = resolve(config["base"], config["scenarios"]["low"])
    return store.of_scheme(store.addresses(scenario), stage, scenario.schemes[0])["address"]


def jobs_of(folder: Path) -> list[psutil.Process]:
    """Processes that run a script of a workflow in a folder."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if any(str(folder / ".snakemake" / "scripts") in part for part in process.info["cmdline"] or []):
            found.append(process)
    return found


@pytest.fixture(scope="module")
def study():
    """One scenario of the tiny study, of small shards: many points to be killed at."""
    from conftest import TINY

    return TINY | {"run": ["low"]}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, study):
    folder = tmp_path_factory.mktemp("undisturbed")
    result = snakemake(folder, study, "--cores", "2")
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


@contextmanager
def started(folder: Path, config: dict, *arguments: str):
    """A running Snakemake, killed at the end."""
    write_config(folder, config)
    with open(folder / "snakemake.log", "a") as log:
        run = subprocess.Popen(
            [*command(folder), "--rerun-incomplete", *arguments], cwd=folder, env=environment(), stdout=log, stderr=log
        )
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
def test_killed_at_random_moments_and_resumed_the_run_ends_the_same(tmp_path, study, undisturbed, victim):
    moments = random.Random(7 if victim == "job" else 8)
    for _ in range(KILLS // 2):
        with started(tmp_path, study) as run:
            time.sleep(2 + 5 * moments.random())
            if victim == "job":
                for process in jobs_of(tmp_path)[:1]:
                    process.kill()
                run.send_signal(signal.SIGTERM)
                run.wait()
        wait_until(lambda: not jobs_of(tmp_path), 10)  # they notice that they are orphans
        subprocess.run(
            [*command(tmp_path), "--unlock"], cwd=tmp_path, env=environment(), capture_output=True, check=True
        )
    result = snakemake(tmp_path, study, "--rerun-incomplete", "--cores", "2")
    assert result.returncode == 0, result.stdout + result.stderr
    assert_equal_tables(tmp_path, undisturbed)
    assert not list(tmp_path.glob("store/**/*.checkpoint.*"))


@pytest.mark.parametrize("seconds", [0.0, 0.5, 1.5, 8.0])
def test_an_orphaned_job_ends_by_itself(tmp_path, study, seconds):
    config = study | {"base": study["base"] | {"training": study["base"]["training"] | {"rounds": 10**6}}}
    job = f"store/train/{address(config, 'train')}/000000-000002/history.parquet"
    with started(tmp_path, config, job):
        wait_until(lambda: any("train.py" in part for p in jobs_of(tmp_path) for part in p.info["cmdline"]), 180)
        time.sleep(seconds)  # 0: before its first line; 8: it trains
        assert jobs_of(tmp_path)
    wait_until(lambda: not jobs_of(tmp_path), 10)


def test_a_second_run_in_the_same_folder_is_refused(tmp_path, study):
    with started(tmp_path, study):
        wait_until(lambda: list((tmp_path / ".snakemake").glob("locks/*")), 60)
        second = snakemake(tmp_path, study, "--rerun-incomplete")
    assert second.returncode == 1
    assert "Directory cannot be locked" in second.stdout + second.stderr


def test_a_second_run_is_refused_even_where_the_first_was_unlocked(tmp_path, study):
    config = study | {"base": study["base"] | {"training": study["base"]["training"] | {"rounds": 10**6}}}
    job = f"train/{address(config, 'train')}/000000-000002"
    log = tmp_path / "logs" / f"{job}.log"
    with started(tmp_path, config, f"store/{job}/history.parquet") as run:
        wait_until(lambda: log.exists() and "to train" in log.read_text(), 180)
        unlock = [*command(tmp_path), "--unlock"]
        subprocess.run(unlock, cwd=tmp_path, env=environment(), capture_output=True, check=True)
        assert not list((tmp_path / ".snakemake").glob("locks/*"))
        second = snakemake(tmp_path, config, "--rerun-incomplete")
        said = second.stdout + second.stderr
        assert second.returncode == 1
        assert f"tiny: process {run.pid} on " in said
        assert "Traceback" not in said
        assert jobs_of(tmp_path)
        assert run.poll() is None
    wait_until(lambda: not jobs_of(tmp_path), 60)
    target = f"store/channel/{address(config, 'channel')}/000000-000002/users.parquet"
    result = snakemake(tmp_path, config, "--rerun-incomplete", target)  # a dead owner holds nothing
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_lock_is_held_by_one_process_and_ends_with_it(tmp_path):
    holder = [
        sys.executable,
        "-c",
        f"from pwfl.runtime import locks; locks.hold(['a', 'b'], {str(tmp_path)!r}); print(); input()",
    ]
    with subprocess.Popen(holder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as first:
        first.stdout.readline()
        locks.hold(["c"], str(tmp_path))
        with pytest.raises(locks.BusyError, match=f"b: process {first.pid} on .* is at work"):
            locks.hold(["b"], str(tmp_path))
        first.kill()
    locks.hold(["b"], str(tmp_path))


def test_a_clock_that_was_behind_changes_no_table(tmp_path, study, undisturbed):
    folder = tmp_path / "run"
    shutil.copytree(undisturbed, folder, symlinks=True)
    moments = random.Random(3)
    for path in sorted([*folder.glob("results/**/*"), *folder.glob("store/**/*")]):
        if path.is_file():
            moment = time.time() - moments.uniform(0, 10) * 365 * 86400
            os.utime(path, (moment, moment))
    result = snakemake(folder, study)
    assert result.returncode == 0, result.stdout + result.stderr
    assert_equal_tables(folder, undisturbed)


def test_a_file_from_the_future_is_named_and_changes_no_table(tmp_path, study, undisturbed):
    folder = tmp_path / "run"
    shutil.copytree(undisturbed, folder, symlinks=True)
    [data] = folder.glob("store/dataset/*/data.npz")
    os.utime(data, (time.time() + 86400, time.time() + 86400))
    [history] = folder.glob(f"store/train/{address(study, 'train')}/000000-000002/history.parquet")
    again = ("--forcerun", str(history.relative_to(folder)))
    result = snakemake(folder, study, *again)
    assert result.returncode == 1
    assert f"than input {data.relative_to(folder)}" in result.stdout + result.stderr
    os.utime(data)
    result = snakemake(folder, study, *again)
    assert result.returncode == 0, result.stdout + result.stderr
    assert_equal_tables(folder, undisturbed)


def test_a_truncated_table_is_found_and_made_anew(tmp_path, study, undisturbed):
    folder = tmp_path / "run"
    shutil.copytree(undisturbed, folder, symlinks=True)
    table = folder / f"store/noise/{address(study, 'noise')}/000000-000002/noise.parquet"
    table.write_bytes(table.read_bytes()[:-200])
    shutil.rmtree(folder / "store/account")  # whose jobs read it
    shutil.rmtree(folder / "results")
    result = snakemake(folder, study)
    assert result.returncode == 1
    assert f"{table.relative_to(folder)} is damaged (" in result.stdout + result.stderr
    table.unlink()
    result = snakemake(folder, study)
    assert result.returncode == 0, result.stdout + result.stderr
    assert_equal_tables(folder, undisturbed)


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
def test_a_full_disk_is_said_and_leaves_no_partial_file(tmp_path, study, undisturbed, mounted):
    mounted(tmp_path / "store", "-t", "tmpfs", "-o", "size=256k", "tmpfs")
    result = snakemake(tmp_path, study)
    assert result.returncode == 1
    assert "No space left on device" in result.stdout + result.stderr
    for path, table in tables_of(tmp_path).items():
        assert table.equals(pl.read_parquet(undisturbed / path)), path
    subprocess.run(["mount", "-o", "remount,size=64m", str(tmp_path / "store")], check=True)
    result = snakemake(tmp_path, study, "--rerun-incomplete", "--cores", "2")
    assert result.returncode == 0, result.stdout + result.stderr
    assert_equal_tables(tmp_path, undisturbed)


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
def test_a_read_only_folder_is_said_at_once(tmp_path, study, mounted, name):
    mounted(tmp_path / name, "-t", "tmpfs", "-o", "ro", "tmpfs")
    result = snakemake(tmp_path, study)
    assert result.returncode == 1
    assert "Read-only file system" in result.stdout + result.stderr
