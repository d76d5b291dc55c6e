"""Compare training rounds of many realizations as a batch on a GPU with single ones there and on one CPU core.

Run as `python benchmarks/gpu.py`; a few minutes, most of them the CPU's. Prints a table, writes it to
benchmarks/results/gpu.parquet, and exits with 1 if TensorFlow finds no GPU or if results differ too much.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from measure import pin_threads

if __name__ == "__main__":
    pin_threads(1)

import numpy as np
import polars as pl
import tensorflow as tf

from pwfl.learning.mlp import glorot_uniform
from pwfl.process import devices
from pwfl.training import batching
from pwfl.training.gradients import Data, Fixed, Gradients, Rows
from pwfl.training.rounds import Inputs, Loop, advance_function
from pwfl.training.trainable import Dense

RESULTS = Path(__file__).parent / "results"
CLIP, STEP, NOISE = 10.0, 0.05, 1e-3
REPEATS = 3  # of each measurement; the best counts, as a GPU's first rounds warm it up
CLOSE = 1e-4  # largest relative difference of weights, batched and single, after ROUNDS_COMPARED rounds
ROUNDS_COMPARED = 200


class Case(NamedTuple):
    """A network, its number of records, the realizations of a batch, the rounds that are timed, and the target time."""

    what: str
    widths: list[int]
    records: int
    realizations: int
    rounds: int
    most_ms: float  # per round and realization


CASES = (
    Case("the paper's network", [784, 256, 256, 10], 11_000, 64, 50, 0.40),
    Case("softmax regression on 160 features", [160, 10], 11_000, 256, 50, 0.015),
    Case("digits", [64, 10], 1_400, 512, 50, 0.003),
)


def workload(case: Case, realizations: int):
    """Draw data that all realizations share, and the start weights and record indices of each realization."""
    generator = np.random.default_rng(1)
    samples = 2 * case.records
    x = generator.random((samples, case.widths[0]), dtype=np.float32)
    y = generator.integers(0, case.widths[-1], samples).astype(np.int32)
    weights = [glorot_uniform(case.widths, generator) for _ in range(realizations)]
    rows = [generator.permutation(samples)[: case.records].astype(np.int32) for _ in range(realizations)]
    return (x, y), weights, rows


def play_function(case: Case, compiled: bool) -> Callable:
    """Return a graph that computes several training rounds without evaluation and returns the weights after them.

    Its arguments are weights, received records, keys, step sizes, data and number of rounds. All have equal noise.
    """
    learner = Gradients(Dense(tuple(case.widths), start=None), CLIP, alike=True, compiled=compiled)
    advance = advance_function(Loop(learner, ROUNDS_COMPARED, 1, compiled=compiled))

    @tf.function(jit_compile=compiled or None, autograph=False)
    def play(weights, at, keys, steps, data, rounds):
        noise_std = tf.fill(tf.shape(at.sizes), NOISE)
        inputs = Inputs(Fixed(), at, noise_std, keys, steps)
        weights, *_ = advance(weights, inputs, data, tf.constant(0), rounds)
        return weights

    return play


def batched(case: Case, place: str) -> Callable[[int], list]:
    """Return a function that trains all realizations as a batch, for some rounds, and returns weights on the host."""
    data, weights, rows = workload(case, case.realizations)
    count, play = len(rows), play_function(case, compiled=True)
    each = [Rows(own[None], np.array([len(own)], np.int32), (), np.ones(1, np.float32)) for own in rows]
    with tf.device(place):
        data, start = Data(*map(tf.constant, data), (), ()), batching.side_by_side(weights, compiled=True)
        given = (
            batching.side_by_side(each, compiled=True),
            tf.range(count, dtype=tf.int64),
            tf.fill([count, ROUNDS_COMPARED], STEP),
        )

    def train(rounds: int) -> list:
        with tf.device(place):
            return [layer.numpy() for layer in play(start, *given, data, tf.constant(rounds))]

    return train


def alone(case: Case, place: str, realization: int = 0) -> Callable[[int], list]:
    """Return a function that trains a single realization for some rounds and returns weights on the host."""
    data, weights, rows = workload(case, realization + 1)
    own, play = rows[realization], play_function(case, compiled=False)
    with tf.device(place):
        data, start = Data(*map(tf.constant, data), (), ()), [tf.constant(w) for w in weights[realization]]
        at = Rows(tf.constant(own[None]), tf.constant([len(own)]), (), tf.ones([1]))
        given = at, tf.constant(realization, tf.int64), tf.fill([ROUNDS_COMPARED], STEP)

    def train(rounds: int) -> list:
        with tf.device(place):
            return [layer.numpy() for layer in play(start, *given, data, tf.constant(rounds))]

    return train


def milliseconds(train: Callable[[int], list], rounds: int) -> float:
    """Measure the milliseconds of a round: the best of REPEATS, after one round that compiles the graph."""
    train(1)
    times = []
    for _ in range(REPEATS):
        begun = perf_counter()
        train(rounds)
        times.append(perf_counter() - begun)
    return 1e3 * min(times) / rounds


def compared(case: Case, place: str) -> tuple[float, bool]:
    """Return the largest relative difference of the last realization's weights, batched and single, and a boolean.

    The boolean is whether the batch has identical bits when it is trained twice.
    """
    together = batched(case, place)
    once, again = together(ROUNDS_COMPARED), together(ROUNDS_COMPARED)
    single = alone(case, place, case.realizations - 1)(ROUNDS_COMPARED)
    far = max(np.abs(a[-1] - b).max() / np.abs(b).max() for a, b in zip(once, single, strict=True))
    return float(far), all(map(np.array_equal, once, again))


def row(case: Case, place: str, cpu_rounds: int = 2) -> dict:
    """Measure a case and return its row of the table."""
    ours = milliseconds(batched(case, place), case.rounds) / case.realizations
    alone_there = milliseconds(alone(case, place), case.rounds)
    core = milliseconds(alone(case, "/CPU:0"), cpu_rounds)
    far, same = compared(case, place)
    return {
        "what": case.what,
        "realizations": case.realizations,
        "side_by_side_ms": ours,
        "target_ms": case.most_ms,
        "met": ours <= case.most_ms,
        "one_at_a_time_ms": alone_there,
        "ratio": alone_there / ours,
        "cpu_core_ms": core,
        "cores": core / ours,
        "difference": far,
        "same_bits_twice": same,
    }


def main() -> int:
    """Measure all cases if there is a GPU, and return the exit status."""
    devices.before_tensorflow()
    try:
        device = devices.take("gpu")
    except devices.DeviceError as error:
        print(f"No GPU, nothing was measured: {error}")
        return 1
    print(f"{device.kind}, TensorFlow {tf.__version__}; milliseconds a round and realization")
    table = pl.DataFrame([row(case, device.name) for case in CASES]).with_columns(device=pl.lit(device.kind))
    RESULTS.mkdir(exist_ok=True)
    table.write_parquet(RESULTS / "gpu.parquet")
    with pl.Config(tbl_rows=-1, tbl_cols=-1, fmt_str_lengths=60, tbl_width_chars=250):
        print(table)
    return int(not (table["same_bits_twice"].all() and (table["difference"] <= CLOSE).all()))


if __name__ == "__main__":
    sys.exit(main())
