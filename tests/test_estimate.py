"""What a study is said to cost at the start of a run, by what ran before."""

import re
from math import ceil
from pathlib import Path

import pytest

from conftest import SMALL, snakemake
from pwfl.scenario import load
from pwfl.stages import STAGES
from pwfl.workflow import estimate
from pwfl.workflow.plan import plan

SHARDS = {"optimization": 4, "training": 2}
SCHEMES = [
    {"name": "RndSched", "scheduler": "random", "noise": "random"},
    {"name": "OptSched", "scheduler": "optimal", "noise": "random"},
]


@pytest.fixture
def planned(tmp_path, monkeypatch):
    """The plan of a scenario of 8 realizations in 2 shards, 4 of them trained in 2, and an empty store."""
    monkeypatch.chdir(tmp_path)
    counts = {"realizations": 8, "training_realizations": 4, "shards": SHARDS, "schemes": SCHEMES}
    return plan(load({"scenarios": {"one": {"system": "multicell"} | counts}}, "a test"))


def touch(job) -> None:
    for path in map(Path, job.outputs.values()):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_jobs_are_shards_of_stages_that_are_not_there(planned):
    # data set 1, channel 2; for each of two schemes schedule, noise and account 2, training 2
    (line,) = estimate.remaining(planned)
    assert line.startswith("Stages have 19 jobs to do, about ")
    channels = [job for job in planned.jobs() if job.description["stage"] == "channel"]
    for job in channels:
        touch(job)
    Path(channels[1].outputs["links"]).unlink()
    assert "18 jobs" in estimate.remaining(planned)[0]  # a table is missing
    touch(channels[1])
    assert "17 jobs" in estimate.remaining(planned)[0]


def test_nothing_is_said_where_all_is_there(planned):
    for job in planned.jobs():
        touch(job)
    assert estimate.remaining(planned) == []


def ran(stage: str, place: str, system: str, content: str, size: int) -> None:
    """A job of a stage as one that ran here: its benchmark file, its tables of some bytes in all, what they are of."""
    log, folder = Path("logs", stage, f"{place}.tsv"), Path("store", stage, place)
    for parent in (log.parent, folder):
        parent.mkdir(parents=True, exist_ok=True)
    log.write_text(content)
    home = Path("store", stage, place[:2])
    (home / "description.yaml").write_text(f"address: {place[:2]}\nsystem: {system}\nstage: {stage}\n")
    tables = STAGES[stage].makes
    for table in tables:
        (folder / f"{table}.parquet").write_bytes(b"." * (size // len(tables)))


def said(planned) -> tuple[int, int]:
    """Core-minutes and MiB that are said to remain."""
    minutes, size = re.search(r"about (\d+) core-minutes and (\d+) MiB", estimate.remaining(planned)[0]).groups()
    return int(minutes), int(size)


def seconds(count: float) -> str:
    return f"s\th:m:s\tmax_rss\n{count}\t0:00:01\tNA\n"


def test_of_what_never_ran_here_a_guess_is_made_and_named(planned):
    assert said(planned) == (ceil(19 * estimate.GUESS.seconds / 60), 19)
    names = "dataset, channel, schedule, noise, train, account"
    (line,) = estimate.remaining(planned)
    assert line.endswith(f"in store/, with 10 s a job of {names}, as none ran here before; then the report")


def test_time_and_disk_are_the_medians_of_what_ran_before(planned, monkeypatch):
    monkeypatch.setattr(estimate, "GUESS", estimate.Cost(0.0, 0.0))
    for shard, count in enumerate((60, 120, 6000)):
        ran("train", f"aa/{shard:06d}-{shard + 1:06d}", "multicell", seconds(count), 2 * count * 2**10)
    assert said(planned) == (4 * 2, 1)  # four trainings of 120 s, and 240 KiB each
    assert "dataset, channel, schedule, noise, account, as none" in estimate.remaining(planned)[0]


def test_the_same_system_counts_before_others(planned, monkeypatch):
    monkeypatch.setattr(estimate, "GUESS", estimate.Cost(0.0, 0.0))
    ran("train", "aa/000000-000001", "age_aware", seconds(60), 2**21)
    assert said(planned) == (4, 8)
    ran("train", "bb/000000-000001", "multicell", seconds(600), 2**23)
    assert said(planned) == (40, 32)
    for name in ("cc/000000-000002", "dd/000000-000002"):
        ran("account", name, "multicell", seconds(60), 2**20)
    assert said(planned) == (44, 36)


@pytest.mark.parametrize("content", ["", "s\th:m:s\n", "h:m:s\n1\n", "s\nNA\n", "\0", "no table"])
def test_benchmark_files_without_seconds_or_tables_do_not_count(planned, content):
    ran("train", "aa/000000-000001", "multicell", seconds(10**5) if content == "no table" else content, 2**22)
    if content == "no table":
        Path("store/train/aa/000000-000001/history.parquet").unlink()
    assert said(planned) == (ceil(19 * estimate.GUESS.seconds / 60), 19)


def test_a_run_begins_with_it(tmp_path):
    done = snakemake(tmp_path, SMALL, "--dry-run")
    said = re.findall(r"Stages have \d+ jobs to do, about \d+ core-minutes and \d+ MiB", done.stdout + done.stderr)
    assert len(said) == 1
