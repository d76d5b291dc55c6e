"""Rounds of training on a GPU, many realizations side by side, against one at a time there and on one CPU core.

Run as `python benchmarks/gpu.py`; a few minutes, most of them the CPU's. Prints a table, writes it to
benchmarks/results/gpu.parquet, and ends with 1 where TensorFlow sees no GPU, or results differ where they must not.
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
REPEATS = 3  # of each measurement, whose best counts: a GPU's first rounds warm it up
CLOSE = 1e-4  # relative, between final weights of both after ROUNDS_COMPARED rounds
ROUNDS_COMPARED = 200


class Case(NamedTuple):
    """A network and its records, how many realizations go side by side, how many rounds are timed, and the aim."""

    what: str
    widths: list[int]
    records: int
    realizations: int
    rounds: int
    most_ms: float  # a round and realization


CASES = (
    Case("the paper's network", [784, 256, 256, 10], 11_000, 64, 50, 0.40),
    Case("softmax regression on 160 features", [160, 10], 11_000, 256, 50, 0.015),
    Case("digits", [64, 10], 1_400, 512, 50, 0.003),
)


def workload(case: Case, realizations: int):
    """Data that all realizations share, each one's start weights and records, drawn at random."""
    generator = np.random.default_rng(1)
    samples = 2 * case.records
    x = generator.random((samples, case.widths[0]), dtype=np.float32)
    y = generator.integers(0, case.widths[-1], samples).astype(np.int32)
    weights = [glorot_uniform(case.widths, generator) for _ in range(realizations)]
    rows = [generator.permutation(samples)[: case.records].astype(np.int32) for _ in range(realizations)]
    return (x, y), weights, rows


def play_function(case: Case, compiled: bool) -> Callable:
    """Some rounds of the core as a graph, without evaluation, to the weights after them.

    It takes weights, what is received, keys, step sizes, records, and the number of rounds; noise is the same for all.
    """
    learner = Gradients(Dense(tuple(case.widths), start=None), CLIP, alike=True, compiled=compiled)
    advance = advance_function(Loop(learner, ROUNDS_COMPARED, 1, compiled=compiled))

    @tf.function(jit_compile=compiled or None, autograph=False)
    def play(weights, at, keys, steps, data, rounds):
        noise_std = tf.fill(tf.shape(at.sizes), NOISE)
        inputs = Inputs(Fixed(), at, noise_std, keys, steps)
        state, *_ = advance((weights, []), inputs, data, tf.constant(0), rounds)
        return state[0]

    return play


def batched(case: Case, place: str) -> Callable[[int], list]:
    """A function that trains some rounds of all realizations side by side, and returns weights on the host."""
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
    """A function that trains some rounds of one realization alone."""
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
    """Of a round: the best of REPEATS, once what is to be compiled is."""
    train(1)
    times = []
    for _ in range(REPEATS):
        begun = perf_counter()
        train(rounds)
        times.append(perf_counter() - begun)
    return 1e3 * min(times) / rounds


def compared(case: Case, place: str) -> tuple[float, bool]:
    """The largest difference of the last realization's weights, side by side and alone, over their size; and repeats.

    The second is whether the same bits come out twice.
    """
    together = batched(case, place)
    once, again = together(ROUNDS_COMPARED), together(ROUNDS_COMPARED)
    single = alone(case, place, case.realizations - 1)(ROUNDS_COMPARED)
    far = max(np.abs(a[-1] - b).max() / np.abs(b).max() for a, b in zip(once, single, strict=True))
    return float(far), all(map(np.array_equal, once, again))


def row(case: Case, place: str, cpu_rounds: int = 2) -> dict:
    """A row of the table."""
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
    """Measure all cases, where there is a GPU."""
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
