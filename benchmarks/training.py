"""Measure a training round, 11,000 samples of 35 users: the paper's network, softmax regression and a small CNN.

Run as `python benchmarks/training.py THREADS`; prints the rows as JSON.
"""

import json
import sys
from collections.abc import Callable
from itertools import pairwise

from measure import pin_threads, resident_mib, row, seconds

if __name__ == "__main__":
    pin_threads(int(sys.argv[1]))

import numpy as np
import tensorflow as tf

from pwfl.learning import cnn
from pwfl.learning.datasets import Size
from pwfl.learning.mlp import glorot_uniform, start_weights
from pwfl.training import autodiff, dense, integers
from pwfl.training.gradients import Data, Fixed, Gradients, Rows
from pwfl.training.rounds import Inputs, Learner, Loop, advance_function
from pwfl.training.trainable import Dense, Differentiated

IMAGE = (28, 28)
WIDTHS, USERS, SAMPLES, ROUNDS = [784, 256, 256, 10], 35, 11_000, 5
CLIP, STEP = 10.0, 0.05
FEATURES = 160  # of strokes


def workload():
    """Draw start weights, features, labels, users' sample counts (lognormal, with sum SAMPLES) and noise."""
    generator = np.random.default_rng(1)
    share = generator.lognormal(0, 0.9, USERS)
    samples = np.maximum((share / share.sum() * SAMPLES).astype(int), 50)
    samples[samples.argmax()] += SAMPLES - samples.sum()
    x = tf.constant(generator.random((SAMPLES, WIDTHS[0]), dtype=np.float32))
    y = tf.constant(generator.integers(0, WIDTHS[-1], SAMPLES).astype(np.int32))
    weights = [tf.constant(w) for w in glorot_uniform(WIDTHS, generator)]
    return weights, x, y, samples, generator.uniform(1e-3, 1e-2, USERS).astype(np.float32)


def convolutional_workload():
    """Draw the same as `workload`, but with start weights of the small convolutional network."""
    _, *rest = workload()
    generator = np.random.default_rng(3)
    return [tf.constant(w) for w in start_weights(cnn.shapes(IMAGE, WIDTHS[-1]), generator)], *rest


def average_noise(samples, noise) -> float:
    """Return the standard deviation of the users' noise in their average, weighted by samples."""
    return float(np.sqrt(((samples * noise) ** 2).sum()) / samples.sum())


def play_function(learner: Learner, count: int | tf.Tensor, summed: Callable | None = None) -> Callable:
    """Return a graph of `count` rounds without evaluation, a function of weights, received records, noise and data."""
    advance = advance_function(Loop(learner, ROUNDS, 1, summed=summed), single=isinstance(count, int))

    @tf.function(reduce_retracing=True, autograph=False)
    def play(weights, at, noise_std, data):
        inputs = Inputs(Fixed(), at, noise_std[None], tf.constant(5, tf.int64), tf.fill([ROUNDS], STEP))
        weights, clipped, _ = advance(weights, inputs, data, tf.constant(0), count)
        return weights, clipped

    return play


def all_records(records: int) -> Rows:
    """Return the received records of a round, with equal weights for all records."""
    rows = tf.range(records)[None], tf.constant([records]), (), tf.ones([1])
    return Rows(*rows)


def dense_gradients(weights) -> Gradients:
    """Return the learner of a dense network with these weights."""
    widths = weights[0].shape[0], *(bias.shape[0] for bias in weights[1::2])
    return Gradients(Dense(widths, start=None), CLIP, alike=True)


def fused(weights, x, y, noise):
    """Return a function that computes ROUNDS rounds in pwfl."""
    play = play_function(dense_gradients(weights), tf.constant(ROUNDS))
    return lambda: play(weights, all_records(SAMPLES), noise, Data(x, y, (), ()))


def linear(y, noise):
    """Return a function that computes ROUNDS rounds of softmax regression on features, with the same labels."""
    generator = np.random.default_rng(4)
    x = tf.constant(generator.normal(size=(SAMPLES, FEATURES)).astype(np.float32))
    return fused([tf.constant(w) for w in glorot_uniform([FEATURES, WIDTHS[-1]], generator)], x, y, noise)


def in_integers(y, samples):
    """Return a function like that of `linear`, with sums modulo 2^16 and discrete Gaussian noise of 50 steps each."""
    x = tf.constant(np.random.default_rng(2).random((SAMPLES, FEATURES), dtype=np.float32))
    start = [tf.zeros([FEATURES, WIDTHS[-1]]), tf.zeros(WIDTHS[-1])]
    learner = integers.IntegerGradients(Dense((FEATURES, WIDTHS[-1]), start=None), CLIP)
    each = [tf.fill([1, USERS], tf.constant(value, tf.float64)) for value in (1 / SAMPLES, 1.0, 50.0)]
    sent = tf.constant(samples, tf.int32)[None], *each, tf.zeros([1, USERS], tf.int32)
    play = play_function(learner, tf.constant(ROUNDS), integers.summed(16))
    at = integers.Sent(*all_records(SAMPLES), *sent)
    return lambda: play(start, at, tf.constant(0.0), Data(x, y, (), ()))


def convolutional() -> Differentiated:
    """Return the small convolutional network, which TensorFlow differentiates."""
    return Differentiated(
        autodiff.convolutional(IMAGE, WIDTHS[-1]), Size(0, 0, IMAGE, WIDTHS[-1]), compiled=False, known=True, start=None
    )


def by_autodiff(weights, x, y, noise):
    """Return functions of a round with a model that TensorFlow differentiates, and of its mean loss's gradient only."""
    model = convolutional()
    play = play_function(Gradients(model, CLIP, alike=True), 1)

    @tf.function
    def mean_gradient(weights, x, y):
        with tf.GradientTape() as tape:
            tape.watch(weights)
            loss = tf.reduce_mean(model.losses(weights, x, y))
        return tape.gradient(loss, weights)

    at, data = all_records(SAMPLES), Data(x, y, (), ())
    return lambda: play(weights, at, noise, data), lambda: mean_gradient(weights, x, y)


def matrix_products(weights, x):
    """Return a function that computes only the matrix products of ROUNDS rounds: a lower bound on their time."""
    kernels = weights[::2]

    def products():
        for _ in range(ROUNDS):
            inputs = [x]
            for kernel in kernels:
                inputs.append(tf.matmul(inputs[-1], kernel))
            delta = inputs.pop()
            for a, kernel in zip(inputs[::-1], kernels[::-1], strict=True):
                tf.matmul(a, delta, transpose_a=True)
                if a is not x:
                    delta = tf.matmul(delta, kernel, transpose_b=True)

    return products


def user_by_user(weights, x, y, samples, noise):
    """Return a function that computes a round user by user: gradient and clipping in a tf.function, noise, average."""
    stop = np.cumsum(samples)
    parts = [(x[a:b], y[a:b]) for a, b in pairwise([0, *stop])]

    @tf.function(reduce_retracing=True)
    def user_gradient(weights, x, y):
        with tf.GradientTape() as tape:
            tape.watch(weights)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, dense.outputs(weights, x)))
        return tf.clip_by_global_norm(tape.gradient(loss, weights), CLIP)[0]

    def one_round(weights=weights):
        total = [tf.zeros_like(w) for w in weights]
        for (a, b), count, std in zip(parts, samples, noise, strict=True):
            noisy = [g + tf.random.normal(g.shape, stddev=std) for g in user_gradient(weights, a, b)]
            total = [t + count / SAMPLES * g for t, g in zip(total, noisy, strict=True)]
        return [w - STEP * t for w, t in zip(weights, total, strict=True)]

    return one_round


def memory_growth(weights, noise) -> dict:
    """Measure the resident memory after 200 training runs of different sizes, relative to that after 20."""
    generator, play = np.random.default_rng(2), play_function(dense_gradients(weights), tf.constant(2))

    def train(times):
        for n in generator.choice([300, 400, 500, 600, 700], times):
            play(weights, all_records(n), noise, Data(tf.ones([n, WIDTHS[0]]), tf.zeros([n], tf.int32), (), ()))
        return resident_mib()

    early, late = train(20), train(180)
    return row("memory after 200 trainings (MiB in place of s)", "after 20", late, early, 1.05, "lower")


def rows(threads: int) -> list[dict]:
    """Measure all rows of this module; `threads` is the number of threads that the process has."""
    weights, x, y, samples, noise = workload()
    total = tf.constant(average_noise(samples, noise))
    ours, floor, loop = seconds(
        fused(weights, x, y, total), matrix_products(weights, x), user_by_user(weights, x, y, samples, noise)
    )
    what = f"training round, {threads} thread{'s' * (threads > 1)}"
    found = [
        row(what, "its matrix products", ours / ROUNDS, floor / ROUNDS, 1.15, "lower"),
        row(what, "tf.function user by user", ours / ROUNDS, loop, 4),
    ]
    if threads > 1:
        return found
    features, whole = seconds(linear(y, total), fused(weights, x, y, total))
    on_features = row(
        "training round of softmax regression on features, 1 thread",
        "the paper's network",
        features / ROUNDS,
        whole / ROUNDS,
        0.1,
        "lower",
    )
    integers, real = seconds(in_integers(y, samples), linear(y, total))
    summed = row(
        "the same in integers modulo 2^16, with exact noise of each user, 1 thread",
        "with real numbers",
        integers / ROUNDS,
        real / ROUNDS,
        30,
        "lower",
    )
    memory = memory_growth(weights, total)
    weights, *_ = convolutional_workload()
    ours, plain = seconds(*by_autodiff(weights, x, y, total), repeats=3)
    convolutional = row(
        "training round of a small CNN, 1 thread", "its gradient without clipping", ours, plain, 8, "lower"
    )
    return [found[0], on_features, summed, memory, convolutional]


if __name__ == "__main__":
    print(json.dumps(rows(int(sys.argv[1])), default=lambda value: value.item()))
