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


@pytest.fixture
def clock(monkeypatch):
    """A list whose last number is what a checkpoint's clock says."""
    times = [1000.0]
    monkeypatch.setattr("pwfl.runtime.checkpoint.monotonic", lambda: times[-1])
    return times


def test_the_log_says_how_many_are_trained_and_how_long_the_rest_takes(tmp_path, clock, caplog):
    caplog.set_level("INFO")
    batches = [{0: None, 1: None}, {2: None}, {3: None, 4: None}]

    def trained():
        for batch in batches:
            clock.append(clock[-1] + 10.0 * len(batch))
            yield batch

    assert list(checkpoint(tmp_path).told(trained(), 5)) == batches
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "5 realizations to train",
        "2 of 5 trained, about 30 s left",
        "3 of 5 trained, about 20 s left",
        "5 of 5 trained, about 0 s left",
    ]


def test_what_is_finished_is_saved_every_few_seconds(tmp_path, clock):
    saved, frames = checkpoint(tmp_path), {k: pl.DataFrame({"realization": [k]}) for k in range(3)}
    saved.save({0: frames[0]})
    clock.append(clock[-1] + 4.9)
    saved.save({0: frames[0], 1: frames[1]})
    assert set(checkpoint(tmp_path).restore()) == {0}
    clock.append(clock[-1] + 0.2)
    saved.save(frames)
    assert set(checkpoint(tmp_path).restore()) == {0, 1, 2}


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
