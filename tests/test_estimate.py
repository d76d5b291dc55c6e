"""What a study is said to cost at the start of a run, by what ran before."""

import re
import shutil
import subprocess
import sys
from math import ceil
from pathlib import Path

import pytest

from pwfl.runtime import estimate, store
from pwfl.scenario import resolve
from pwfl.stages import STAGES

ROOT = Path(__file__).parents[1]
SHARDS = {"optimization": 4, "training": 2}
SCHEMES = [
    {"name": "RndSched", "scheduler": "random", "noise": "random"},
    {"name": "OptSched", "scheduler": "optimal", "noise": "random"},
]


@pytest.fixture
def described(tmp_path, monkeypatch):
    """Addresses of a scenario of 8 realizations in 2 shards, 4 of them trained in 2, and an empty store."""
    monkeypatch.chdir(tmp_path)
    counts = {"realizations": 8, "training_realizations": 4, "shards": SHARDS, "schemes": SCHEMES}
    model = resolve(counts, {"system": "multicell"})
    return {one["address"]: (one, model) for one in store.addresses(model).values()}


def test_jobs_are_shards_of_stages_that_are_not_there(described):
    # channel 2; for each of two schemes schedule, noise and account 2, training 2, audit 1
    assert estimate.remaining(described).startswith("Stages have 20 jobs to do, about ")
    address = next(a for a, (description, _) in described.items() if description["stage"] == "channel")
    for shard in ("000000-000004", "000004-000008"):
        folder = Path("store", "channel", address, shard)
        folder.mkdir(parents=True)
        for table in STAGES["channel"].makes[:-1]:
            (folder / f"{table}.parquet").touch()
    assert "20 jobs" in estimate.remaining(described)  # a table is missing
    (Path("store", "channel", address, "000004-000008") / f"{STAGES['channel'].makes[-1]}.parquet").touch()
    assert "19 jobs" in estimate.remaining(described)


def test_nothing_is_said_where_all_is_there(described):
    for address, (description, _) in described.items():
        for shard in ("000000-000004", "000004-000008", "000000-000002", "000002-000004", "."):
            folder = Path("store", description["stage"], address, shard)
            folder.mkdir(parents=True, exist_ok=True)
            for table in STAGES[description["stage"]].makes if description["stage"] in STAGES else ():
                (folder / f"{table}.parquet").touch()
    assert estimate.remaining(described) == ""


def ran(stage: str, place: str, system: str, content: str, size: int) -> None:
    """A job of a stage as one that ran here: its benchmark file, its tables of some bytes in all, what they are of."""
    log, folder, home = (
        Path("logs", stage, f"{place}.tsv"),
        Path("store", stage, place),
        Path("store", stage, place[:2]),
    )
    for parent in (log.parent, folder):
        parent.mkdir(parents=True, exist_ok=True)
    log.write_text(content)
    (home / "description.yaml").write_text(f"address: {place[:2]}\nsystem: {system}\nstage: {stage}\n")
    tables = STAGES[stage].makes
    for table in tables:
        (folder / f"{table}.parquet").write_bytes(b"." * (size // len(tables)))


def said(described: dict) -> tuple[int, int]:
    """Core-minutes and MiB that are said to remain."""
    minutes, size = re.search(r"about (\d+) core-minutes and (\d+) MiB", estimate.remaining(described)).groups()
    return int(minutes), int(size)


def seconds(count: float) -> str:
    return f"s\th:m:s\tmax_rss\n{count}\t0:00:01\tNA\n"


def test_of_what_never_ran_here_a_guess_is_made_and_named(described):
    assert said(described) == (ceil(20 * estimate.GUESS.seconds / 60), 20)
    assert estimate.remaining(described).endswith(
        "in store/, with 10 s a job of channel, schedule, noise, train, account, audit, as none ran here before; then "
        "the report"
    )


def test_time_and_disk_are_the_medians_of_what_ran_before(described, monkeypatch):
    monkeypatch.setattr(estimate, "GUESS", estimate.Cost(0.0, 0.0))
    for shard, count in enumerate((60, 120, 6000)):
        ran("train", f"aa/{shard:06d}-{shard + 1:06d}", "multicell", seconds(count), 2 * count * 2**10)
    assert said(described) == (4 * 2, 1)  # four trainings of 120 s, and 240 KiB each
    assert "channel, schedule, noise, account, audit, as none" in estimate.remaining(described)


def test_the_same_system_counts_before_others(described, monkeypatch):
    monkeypatch.setattr(estimate, "GUESS", estimate.Cost(0.0, 0.0))
    ran("train", "aa/000000-000001", "age_aware", seconds(60), 2**21)
    assert said(described) == (4, 8)
    ran("train", "bb/000000-000001", "multicell", seconds(600), 2**23)
    assert said(described) == (40, 32)
    ran("audit", "cc", "multicell", seconds(60), 2**20)  # of all realizations: it has no shards
    assert said(described) == (42, 34)


@pytest.mark.parametrize("content", ["", "s\th:m:s\n", "h:m:s\n1\n", "s\nNA\n", "\0"])
def test_benchmark_files_without_seconds_do_not_count(described, content):
    ran("train", "aa/000000-000001", "multicell", content, 2**30)
    assert said(described) == (ceil(20 * estimate.GUESS.seconds / 60), 20)


def test_what_is_no_longer_in_the_store_does_not_count(described):
    ran("train", "aa/000000-000001", "multicell", seconds(10**5), 2**20)
    Path("store/train/aa/000000-000001/history.parquet").unlink()
    assert said(described) == (ceil(20 * estimate.GUESS.seconds / 60), 20)


def test_a_run_begins_with_it(tmp_path):
    shutil.copytree(ROOT / "config", tmp_path / "config")
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), "--directory", str(tmp_path)]
    command += ["--workflow-profile", "none", "--cores", "1", "--dry-run"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    assert (
        len(re.findall(r"Stages have \d+ jobs to do, about \d+ core-minutes and \d+ MiB", done.stdout + done.stderr))
        == 1
    )
