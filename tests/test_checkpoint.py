"""Checkpoints of training: what a killed job had finished is neither lost nor trusted wrongly."""

import polars as pl
import pytest

from pipeline import digits
from pwfl import channel, noise, scenario, schedule, train
from pwfl.runtime.checkpoint import Checkpoint


@pytest.fixture(scope="module")
def job():
    """Parameters and tables of a small training job."""
    from conftest import TINY

    model = scenario.resolve(TINY["base"], {})
    tables = channel.run(scenario.stage_parameters(model, "channel"), range(4))
    tables |= schedule.run(scenario.stage_parameters(model, "schedule", "random"), "random", tables)
    tables |= noise.run(scenario.stage_parameters(model, "noise", "random"), "random", tables)
    return scenario.stage_parameters(model, "train"), tables


@pytest.fixture
def inputs(tmp_path, job):
    paths = {name: str(tmp_path / f"{name}.in") for name in ("users", "noise")}
    for name, path in paths.items():
        job[1][name].write_parquet(path)
    return paths


def checkpoint(tmp_path, inputs, **depends) -> Checkpoint:
    return Checkpoint(str(tmp_path / "history.parquet"), depends, inputs)


def test_a_resumed_job_trains_only_what_is_missing_and_ends_the_same(tmp_path, job, inputs, monkeypatch):
    monkeypatch.setattr("pwfl.train.checkpoint.SAVE_SECONDS", 0.0)
    parameters, tables = job
    whole = train.run(parameters, digits(), range(4), tables)["history"]
    train.run(parameters, digits(), range(2), tables, checkpoint(tmp_path, inputs))

    trained, original = [], train.Checkpoint.save
    monkeypatch.setattr(train.Checkpoint, "save", lambda self, h: (trained.append(max(h)), original(self, h)))
    resumed = train.run(parameters, digits(), range(4), tables, checkpoint(tmp_path, inputs))["history"]
    assert trained == [2, 3]
    assert resumed.equals(whole)


def test_a_job_with_other_parameters_or_inputs_starts_anew(tmp_path, job, inputs):
    frame = pl.DataFrame({"realization": [0], "accuracy": [0.5]})
    first = checkpoint(tmp_path, inputs, code="a")
    first.save({0: frame})
    assert checkpoint(tmp_path, inputs, code="a").restore()[0].equals(frame)
    assert checkpoint(tmp_path, inputs, code="b").restore() == {}
    job[1]["noise"].with_columns(pl.col("noise_std") * 2).write_parquet(inputs["noise"])
    assert checkpoint(tmp_path, inputs, code="a").restore() == {}


def test_a_finished_job_leaves_no_checkpoint(tmp_path, inputs):
    for code in ("a", "b"):
        checkpoint(tmp_path, inputs, code=code).save({0: pl.DataFrame({"realization": [0]})})
    (tmp_path / "history.parquet").touch()
    checkpoint(tmp_path, inputs, code="b").remove()
    assert {path.name for path in tmp_path.iterdir()} == {"history.parquet", "users.in", "noise.in"}
