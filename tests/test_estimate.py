"""What a study is said to cost, counted by hand, and said at the start of a run."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pwfl.runtime import estimate, store
from pwfl.scenario import resolve, size
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


def test_time_is_that_of_starts_and_of_training(described, monkeypatch):
    def minutes() -> int:
        return int(re.search(r"about (\d+) core-minutes", estimate.remaining(described))[1])

    monkeypatch.setattr(size, "START_SECONDS", dict.fromkeys(size.START_SECONDS, 0.0))
    monkeypatch.setattr(size, "OTHER_SECONDS", 0.0)
    model = next(iter(described.values()))[1]
    operations = 2 * 4 * model.training_operations()  # two schemes, four trainings each
    monkeypatch.setattr(size, "OPERATIONS", operations / 600)
    assert minutes() == 10
    monkeypatch.setattr(size, "OTHER_SECONDS", 60.0)  # but for training and the audits, 14 jobs
    assert minutes() == 24


def test_a_run_begins_with_it(tmp_path):
    shutil.copytree(ROOT / "config", tmp_path / "config")
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), "--directory", str(tmp_path)]
    command += ["--workflow-profile", "none", "--cores", "1", "--dry-run"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    assert (
        len(re.findall(r"Stages have \d+ jobs to do, about \d+ core-minutes and \d+ MiB", done.stdout + done.stderr))
        == 1
    )
