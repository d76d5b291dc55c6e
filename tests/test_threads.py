"""The same bytes whatever threads the environment asks for, and whatever kernels of TensorFlow.

Trainings are each in a process of their own, which keeps the threads that it began with: the tests' has one (conftest.py).
"""

import os
import warnings
from itertools import product

import pytest
import tensorflow as tf
from tensorflow.python.eager import context
from threadpoolctl import threadpool_info, threadpool_limits

import stage_of
from conftest import ROOT, TINY, environment, python
from pwfl.process import threads
from pwfl.scenario import resolve

CONFIG = {
    **TINY["base"],
    "realizations": 1,
    "training_realizations": 1,
    "schemes": [{"name": "RndSched", "scheduler": "random", "noise": "random"}],
}
# Sums so long that two threads share them, and steps so large that a last bit of them moves the weights; then a history
# and an audit, of shorter ones, which oneDNN adds up in another order.
TRAINING = f"""
import hashlib
import numpy as np
import pwfl
from pwfl.process import tensorflow_import
with tensorflow_import.tensorflow_import():
    import tensorflow as tf
    from pwfl.training import dense

generator = np.random.default_rng(1)
x, kernel, last = (generator.normal(size=size).astype("f") for size in ((20_000, 64), (64, 64), (64, 10)))
y = generator.integers(10, size=len(x)).astype("i")

@tf.function
def trained(weights):
    for _ in tf.range(2):
        mean, _ = dense.clipped_mean(weights, tf.constant(x), tf.constant(y), 1.0, tf.constant(len(x)))
        weights = [w - 100 * g for w, g in zip(weights, mean)]
    return weights

weights = trained([tf.constant(w) for w in (kernel / 8, np.zeros(64, "f"), last / 8, np.zeros(10, "f"))])
print(hashlib.sha256(b"".join(w.numpy().tobytes() for w in weights)).hexdigest())
found = pwfl.simulate({CONFIG!r}).scenarios["scenario"]
for table in (found.stages["history"], found.report["audit"]):
    print(hashlib.sha256(table.write_csv(float_precision=17).encode()).hexdigest())
"""
ASKED = [(1, None), (4, "0"), (2, "1")]  # threads; whether oneDNN's kernels, None: as TensorFlow likes
GRID = [case for case in product((1, 2, 4), (None, "0", "1")) if case not in ASKED]


def trained(tmp_path, count: int | None, kernels: str | None) -> str:
    """What TRAINING prints in a process whose environment asks for threads and kernels."""
    program = tmp_path / "training.py"  # a file: tf.function reads its source
    program.write_text(TRAINING)
    asked = {threads.INSIDE: count, threads.BETWEEN: count, threads.KERNELS: kernels}
    clean = {name: value for name, value in environment().items() if name not in asked}
    clean |= {name: str(value) for name, value in asked.items() if value is not None}
    return python("-W", "error::RuntimeWarning", program, env=clean, check=True).stdout


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What a process gives that asks for one thread."""
    return trained(tmp_path_factory.mktemp("expected"), *ASKED[0])


@pytest.mark.slow
@pytest.mark.parametrize(("count", "kernels"), [*ASKED[1:], *GRID])
def test_training_takes_one_thread_whatever_is_asked_for(expected, tmp_path, count, kernels):
    assert trained(tmp_path, count, kernels) == expected


def blas_threads() -> dict[str, int]:
    """How many threads each library of linear algebra that is loaded takes."""
    return {lib["filepath"]: lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}


@pytest.mark.parametrize("count", [2, 4])
def test_stages_take_one_thread_of_blas(count):
    model = resolve({"system": "random_orthogonalization", "network": {"users": 100, "antennas": 64}}, {})
    part = model.select_stage("channel")
    with threadpool_limits(1):
        expected = stage_of.channel(part, range(2))
    with threadpool_limits(count):
        before = blas_threads()
        assert count in before.values()  # some libraries are built for one thread only
        found = stage_of.channel(part, range(2))
        assert before.items() <= blas_threads().items()
    assert found["links"].equals(expected["links"])


@pytest.fixture
def started(monkeypatch):
    """TensorFlow in a process that has computed, with no number of threads set, in the environment either."""
    tf.zeros(1)
    monkeypatch.setattr(context.context(), "_intra_op_parallelism_threads", None)  # what tests before this one set
    threads._warn.cache_clear()
    for name in (threads.INSIDE, threads.BETWEEN, threads.KERNELS):
        monkeypatch.delenv(name, raising=False)
    yield monkeypatch
    threads._warn.cache_clear()


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({threads.INSIDE: "4"}, r"has already run in this process, .*\(4\): .* TF_NUM_INTRAOP_THREADS=1"),
        ({}, r"not with one thread \(one for each core\): the last bits .* can differ"),
        ({threads.INSIDE: "1", threads.KERNELS: "0"}, "was already imported in this process, with .*ONEDNN_OPTS=0"),
        ({threads.INSIDE: "1"}, None),
    ],
)
def test_a_process_that_has_other_threads_or_kernels_is_told_once(started, asked, expected):
    for name, value in asked.items():
        started.setenv(name, value)
    if expected:
        with pytest.warns(RuntimeWarning, match=expected):
            threads.limit_tensorflow()
    with warnings.catch_warnings(action="error"):
        threads.limit_tensorflow()


def test_what_tensorflow_read_is_not_rewritten_later(started):
    started.setenv(threads.INSIDE, "4")
    threads.before_tensorflow()
    assert os.environ[threads.INSIDE] == "4"


SUMS = """
import {first}
import polars as pl
from pwfl.process import threads
threads.look_at_polars()
keys = pl.int_range(300_000, eager=True)
frame = pl.select(k=keys % 7, x=(keys * 0.7).sin() * (1 + keys % 3 * 1e6))
print(pl.thread_pool_size(), frame.group_by("k", maintain_order=True).agg(pl.col("x").sum())["x"].to_list())
"""


def test_sums_of_tables_take_one_thread_or_their_process_is_told():
    asked = environment() | {threads.POLARS: "4"}
    one = python("-c", SUMS.format(first="pwfl.api"), env=environment() | {threads.POLARS: "1"}, check=True)
    ours, late = (python("-c", SUMS.format(first=name), env=asked, check=True) for name in ("pwfl.api", "polars"))
    assert ours.stdout == one.stdout
    assert "Polars was already imported in this process, with 4 threads" in late.stderr
    assert "threads" not in ours.stderr
    assert late.stdout.split(" ", 1)[1] != one.stdout.split(" ", 1)[1]  # why it matters


def test_benchmarks_measure_with_the_kernels_that_trainings_use():
    """Without oneDNN's, a convolution's plain gradient is six times slower, and per-sample gradients look cheap."""
    code = "import os, measure; measure.pin_threads(1); print(os.environ.get('TF_ENABLE_ONEDNN_OPTS'))"
    env = environment() | {"PYTHONPATH": str(ROOT / "benchmarks"), "TF_ENABLE_ONEDNN_OPTS": "0"}
    assert python("-c", code, env=env, check=True).stdout.strip() == "None"
