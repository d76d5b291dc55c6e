"""Checkpoints of training: what a killed job had finished is neither lost nor trusted wrongly."""

import polars as pl
import pytest

import stage_of
from conftest import TINY
from pipeline import digits, part, stages
from pwfl.runtime.checkpoint import Checkpoint
from pwfl.scenario import resolve


@pytest.fixture(scope="module")
def job():
    """The scenario and the tables of a small training job."""
    model = resolve(TINY["base"], {})
    return part(model, "train"), next(stages(model))[1]


def checkpoint(tmp_path, address: str = "a") -> Checkpoint:
    return Checkpoint(str(tmp_path / "history.parquet"), {"address": address})


def test_a_resumed_job_trains_only_what_is_missing_and_ends_the_same(tmp_path, job, monkeypatch):
    monkeypatch.setattr("pwfl.runtime.checkpoint.SAVE_SECONDS", 0.0)
    scenario, tables = job
    whole = stage_of.train(scenario, digits(), range(4), tables)["history"]
    stage_of.train(scenario, digits(), range(2), tables, checkpoint(tmp_path))

    trained, original = [], Checkpoint.save
    monkeypatch.setattr(Checkpoint, "save", lambda self, h: (trained.append(max(h)), original(self, h)))
    resumed = stage_of.train(scenario, digits(), range(4), tables, checkpoint(tmp_path))["history"]
    assert trained == [2, 3]
    assert resumed.equals(whole)


def test_a_job_at_another_address_starts_anew(tmp_path):
    frame = pl.DataFrame({"realization": [0], "accuracy": [0.5]})
    checkpoint(tmp_path, "a").save({0: frame})
    assert checkpoint(tmp_path, "a").restore()[0].equals(frame)
    assert checkpoint(tmp_path, "b").restore() == {}


def test_a_finished_job_leaves_no_checkpoint_nor_what_a_killed_one_had_begun_to_write_of_it(tmp_path):
    saved = checkpoint(tmp_path)
    saved.save({0: pl.DataFrame({"realization": [0]})})
    saved.path.with_name(f".663.{saved.path.name}").write_bytes(b"half")
    (tmp_path / "history.parquet").touch()
    saved.remove()
    assert {path.name for path in tmp_path.iterdir()} == {"history.parquet"}
