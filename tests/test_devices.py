"""Which processor trains, what that changes, and how many realizations a GPU trains side by side."""

import logging
import os
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import tensorflow as tf
from tensorflow.python.client import device_lib

import own_network
import pwfl
from conftest import in_turn, python
from pipeline import digits, part, stages
from pwfl import scenario
from pwfl.execution import train
from pwfl.execution.stage import Task
from pwfl.process import devices
from pwfl.report import page
from pwfl.scenario import resolve
from pwfl.scenario.resolution import merge
from pwfl.training import batching
from pwfl.workflow import plan
from test_side_by_side import TINY


@pytest.fixture
def gpu(monkeypatch):
    """A function that lets trainings run side by side, in some memory of what takes a GPU's part here: the CPU."""
    return lambda memory: monkeypatch.setattr(
        devices, "take", lambda asked: devices.Device("/CPU:0", f"taken for {asked}", memory)
    )


def task(model, realizations, device="gpu", chunks=None) -> tuple[Task, dict]:
    """A training of some realizations, and what it reads."""
    ((_, tables),) = stages(model)
    asked = Task("train", part(model, "train"), None, realizations, chunks or {}, device)
    return asked, tables | {"dataset": digits()}


def trained(model=None, device="gpu", realizations=range(4)):
    return train.run(*task(model or resolve(TINY, {}), realizations, device))["history"]


def test_trainings_side_by_side_fill_the_table_as_one_after_the_other_does(gpu, caplog):
    model = resolve(merge(TINY, {"training": {"hidden_layers": [8]}, "radio": {"max_power_dbm": -5.0}}), {})
    alone = trained(model, "cpu")
    caplog.set_level(logging.INFO)
    gpu(1e9)
    together = trained(model)
    assert "batches of at most" in caplog.text
    assert alone["processor"].unique().to_list() == ["cpu"]
    assert together["processor"].unique().to_list() == ["taken for gpu"]
    assert together.select("realization", "round", "status").equals(alone.select("realization", "round", "status"))
    np.testing.assert_allclose(together["loss"], alone["loss"], rtol=1e-5)


@pytest.mark.slow
def test_each_chunk_is_saved_as_soon_as_its_realizations_are_trained(gpu, monkeypatch):
    """Three at most are trained at a time, two of four are: chunks of one and of three end with the first and last."""
    gpu(1e9)
    sizes, right, saved = [], train.batches, {}

    def killed(*arguments):
        for batch in right(*arguments):
            sizes.append(len(batch))
            yield batch
            raise KeyboardInterrupt

    monkeypatch.setattr(train, "_trainer", lambda *a, kept=train._trainer: (kept(*a)[0], 3))
    whole = trained()
    monkeypatch.setattr(train, "batches", killed)
    spans = (range(1), range(1, 4))
    chunks = {span: lambda made, span=span: saved.update({span: made}) for span in spans}
    asked = task(resolve(TINY, {}), range(4), chunks=chunks)
    with pytest.raises(KeyboardInterrupt):
        train.run(*asked)
    assert (sizes, list(saved)) == ([2], [range(1)])
    monkeypatch.setattr(train, "batches", right)
    assert train.run(*asked) == {}
    assert list(saved) == list(spans)
    assert pl.concat([saved[span]["history"] for span in spans]).equals(whole)
    assert set(saved[spans[1]]["holdings"]["realization"]) == {1, 2, 3}


def test_what_memory_does_not_hold_is_halved_and_nothing_is_lost(caplog):
    tried = []

    def one(realizations):
        tried.append(len(realizations))
        if len(realizations) > 3:
            raise tf.errors.ResourceExhaustedError(None, None, "out of memory")
        return dict.fromkeys(realizations)

    found = [number for batch in train.batches(one, list(range(20)), 15) for number in batch]
    assert found == list(range(20))
    assert tried == [10, 5, 3, 3, 3, 3, 3, 3, 2]
    assert "not enough memory for 10 realizations; trying 5" in caplog.text
    with pytest.raises(tf.errors.ResourceExhaustedError):
        list(train.batches(lambda some: one([0] * 4), [0], 1))


def test_what_cannot_be_trained_side_by_side_says_why(gpu, caplog):
    caplog.set_level(logging.INFO)
    gpu(1e9)
    sums = {"training": {"bits": 16, "rounds": 1}, "privacy": {"observer": "cell"}}
    history = trained(resolve(merge(TINY, sums), {}), realizations=range(1))
    assert "one realization at a time: messages that are sent user by user are not batched" in caplog.text
    assert set(history["realization"]) == {0}
    assert history["processor"].unique().to_list() == ["taken for gpu"]


@pytest.mark.parametrize("model", in_turn(["cnn", f"{own_network.__file__}:network"], "cnn"))
def test_any_model_is_trained_side_by_side(gpu, caplog, model):
    changed = resolve(merge(TINY, {"training": {"model": model, "rounds": 1}}), {})
    alone = trained(changed, "cpu", range(2))
    caplog.set_level(logging.INFO)
    gpu(1e9)
    together = trained(changed, realizations=range(2))
    assert "batches of at most" in caplog.text
    np.testing.assert_allclose(together["loss"], alone["loss"], rtol=1e-5)


def test_bytes_of_a_realization_are_about_those_of_its_arrays():
    # Of the paper's network: what is gathered, and of each layer an input, a derivative and a weighted one.
    records, layers = 11_264, 256 + 256 + 10
    expected = 4 * (records * (784 + 3 * layers) + 8 * 269_322)
    assert batching.bytes_each([784, 256, 256, 10], records, (10_000, 784)) == expected
    assert batching.bytes_each([160, 10], 100, (10_000, 160)) == 4 * (10_000 * 30 + 8 * 1610)


@pytest.mark.parametrize("asked", ["auto", "cpu"])
def test_without_a_gpu_the_cpu_trains(asked, caplog):
    caplog.set_level(logging.INFO)
    if tf.config.list_physical_devices("GPU"):
        pytest.skip("this machine has a GPU")
    assert devices.take(asked) == devices.ONLY_CPU
    assert ("TensorFlow finds no GPU" in caplog.text) == (asked == "auto")


@pytest.mark.parametrize("asked", ["auto", "gpu"])
def test_a_gpu_computes_in_float32_in_one_order_and_is_asked_for_its_memory(asked, monkeypatch, caplog):
    """With what TensorFlow would say of a GPU put in, as most machines have none."""
    caplog.set_level(logging.INFO)
    experimental, set_to = tf.config.experimental, []
    kinds = [
        SimpleNamespace(device_type=kind, memory_limit=size) for kind, size in (("CPU", 2**28), ("GPU", 70 * 2**30))
    ]
    monkeypatch.setattr(devices, "present", lambda: True)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [f"first {kind}"])
    monkeypatch.setattr(experimental, "get_device_details", lambda gpu: {"device_name": f"{gpu}, of a test"})
    monkeypatch.setattr(experimental, "enable_tensor_float_32_execution", lambda on: set_to.append(("TF32", on)))
    monkeypatch.setattr(experimental, "enable_op_determinism", lambda: set_to.append(("determinism", True)))
    monkeypatch.setattr(device_lib, "list_local_devices", lambda: kinds)
    found = devices.take(asked)
    assert found == devices.Device("/GPU:0", "first GPU, of a test", int(0.8 * 70 * 2**30))
    assert set_to == [("TF32", False), ("determinism", True)]
    assert f"training.device: {asked}: training on first GPU, of a test with 70.0 GiB" in caplog.text
    assert devices.take("cpu") == devices.ONLY_CPU


def test_xla_is_asked_for_the_same_kernels_every_time(monkeypatch):
    monkeypatch.setenv(devices.XLA, "--xla_dump_to=x")
    devices.before_tensorflow()
    monkeypatch.setattr(devices, "present", lambda: True)
    for _ in range(2):
        devices.before_tensorflow()
    assert os.environ[devices.XLA] == "--xla_dump_to=x --xla_gpu_autotune_level=0"


@pytest.mark.skipif(devices.present(), reason="this machine has a GPU")
def test_a_gpu_that_is_not_there_is_a_clear_error_before_work_starts():
    with pytest.raises(devices.DeviceError, match=r"training\.device: gpu: TensorFlow finds no GPU; install"):
        devices.take("gpu")
    with pytest.raises(
        scenario.ScenarioError, match=r"scenario: training\.device: gpu: this machine has no NVIDIA GPU"
    ):
        pwfl.simulate(merge(TINY, {"system": "multicell", "training": {"device": "gpu"}}))


def test_the_device_changes_no_address_and_a_gpu_is_asked_for_one_job_at_a_time(monkeypatch):
    def planned(device):
        config = {"scenarios": {"s": merge(TINY, {"system": "multicell", "training": {"device": device}})}}
        study = scenario.load(config, "study.yaml")
        return plan.plan(study), int(devices.has_gpu(plan.device(study.scenarios["s"])))

    monkeypatch.setattr(devices, "present", lambda: False)
    (on_cpu, none), (on_gpu, one), (on_either, without) = map(planned, ("cpu", "gpu", "auto"))
    assert list(on_cpu.descriptions) == list(on_gpu.descriptions) == list(on_either.descriptions)
    monkeypatch.setattr(devices, "present", lambda: True)
    assert (none, one, without, planned("auto")[1], planned("cpu")[1]) == (0, 1, 0, 1, 0)


def test_the_page_says_where_trainings_ran_on_two_kinds_of_processor():
    one, both = (pl.DataFrame({"processor": kinds}) for kinds in (["cpu", ""], ["cpu, NVIDIA H100", "cpu"]))
    assert page._processors([one, pl.DataFrame({"a": [1]})]) == []
    (said,) = page._processors([one, both])
    assert said.startswith("Training ran on 2 kinds of processor (NVIDIA H100, cpu)")


WITHOUT_KERAS = """
import sys
from pwfl.process.tensorflow import tf
before = "keras" in sys.modules
import keras
from tensorflow.keras import layers
print(before, tf.keras.Model is keras.Model, layers.Dense is keras.layers.Dense, tf.keras.optimizers.SGD(0.1).name)
"""


@pytest.mark.parametrize("first", ["", "import keras", "import tensorflow"])
def test_tensorflow_comes_without_keras_which_works_where_it_is_asked_for(first):
    words = python("-c", first + WITHOUT_KERAS, check=True).stdout.split()
    assert words == [str(first != ""), "True", "True", "sgd"]
