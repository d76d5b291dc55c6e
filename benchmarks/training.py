"""One training round, 11,000 samples of 35 users: the paper's network against its matrix products, a small CNN.

Run as `python benchmarks/training.py THREADS`; prints the rows as JSON.
"""

import json
import sys
from functools import partial
from itertools import pairwise

from measure import pin_threads, resident_mib, row, seconds

if __name__ == "__main__":
    pin_threads(int(sys.argv[1]))

import numpy as np
import tensorflow as tf

from pwfl.learning import autodiff, cnn, engine, network
from pwfl.learning.mlp import glorot_uniform, start_weights
from pwfl.systems.multicell import rounds as multicell

IMAGE = (28, 28)
WIDTHS, USERS, SAMPLES, ROUNDS = [784, 256, 256, 10], 35, 11_000, 5
CLIP, STEP = 10.0, 0.05
FEATURES = 160  # of strokes


def workload():
    """Start weights, features, labels, users' sample counts (lognormal, summing to SAMPLES) and noise."""
    generator = np.random.default_rng(1)
    share = generator.lognormal(0, 0.9, USERS)
    samples = np.maximum((share / share.sum() * SAMPLES).astype(int), 50)
    samples[samples.argmax()] += SAMPLES - samples.sum()
    x = tf.constant(generator.random((SAMPLES, WIDTHS[0]), dtype=np.float32))
    y = tf.constant(generator.integers(0, WIDTHS[-1], SAMPLES).astype(np.int32))
    weights = [tf.constant(w) for w in glorot_uniform(WIDTHS, generator)]
    return weights, x, y, samples, generator.uniform(1e-3, 1e-2, USERS).astype(np.float32)


def convolutional_workload():
    """The same, with start weights of the small convolutional network."""
    _, *rest = workload()
    generator = np.random.default_rng(3)
    return [tf.constant(w) for w in start_weights(cnn.shapes(IMAGE, WIDTHS[-1]), generator)], *rest


def average_noise(samples, noise) -> float:
    """Standard deviation of the users' noise in their average, weighted by samples."""
    return float(np.sqrt(((samples * noise) ** 2).sum()) / samples.sum())


def fused(weights, x, y, noise):
    """ROUNDS rounds of the engine."""

    @tf.function
    def rounds(weights, x, y, noise):
        gradient = engine.per_sample_gradient(network.backward, x, y, tf.constant(CLIP))
        return engine.train_rounds(
            gradient, weights, tf.constant(STEP), noise, tf.constant(5, tf.int64), tf.constant(0), tf.constant(ROUNDS)
        )

    return lambda: rounds(weights, x, y, noise)


def linear(y, noise):
    """ROUNDS rounds of the engine with softmax regression on features, of the same records."""
    generator = np.random.default_rng(4)
    x = tf.constant(generator.normal(size=(SAMPLES, FEATURES)).astype(np.float32))
    return fused([tf.constant(w) for w in glorot_uniform([FEATURES, WIDTHS[-1]], generator)], x, y, noise)


def in_integers(y, samples):
    """The same, with users' sums as integers modulo 2^16, and discrete Gaussian noise of 50 steps each."""
    x = tf.constant(np.random.default_rng(2).random((SAMPLES, FEATURES), dtype=np.float32))
    start = [tf.zeros([FEATURES, WIDTHS[-1]]), tf.zeros(WIDTHS[-1])]
    each = [
        tf.ones(USERS, tf.float64) / SAMPLES,
        tf.ones(USERS, tf.float64),
        tf.fill([USERS], tf.constant(50.0, tf.float64)),
    ]
    sums = engine.clipped_sums(network.backward, x, y, tf.constant(CLIP), tf.constant(samples, tf.int32))

    def gradient(weights):
        vectors, clipped = sums(weights)
        return [vectors, *each, tf.zeros(USERS, tf.int32)], clipped

    @tf.function
    def rounds(weights):
        given = tf.constant(STEP), tf.constant(0.0), tf.constant(5, tf.int64), tf.constant(0), tf.constant(ROUNDS)
        return engine.train_rounds(gradient, weights, *given, partial(multicell.in_integers, 16))

    return lambda: rounds(start)


def by_autodiff(weights, x, y, noise):
    """A round of the engine that takes any model, and the gradient of its mean loss alone: the floor."""
    losses = autodiff.cross_entropy(autodiff.convolutional(IMAGE, WIDTHS[-1]))

    @tf.function
    def one_round(weights, x, y, noise):
        gradient = autodiff.per_sample_gradient(losses, x, y, tf.constant(CLIP))
        return engine.train_rounds(
            gradient, weights, tf.constant(STEP), noise, tf.constant(5, tf.int64), tf.constant(0), tf.constant(1)
        )

    @tf.function
    def mean_gradient(weights, x, y):
        with tf.GradientTape() as tape:
            tape.watch(weights)
            loss = tf.reduce_mean(losses(weights, x, y))
        return tape.gradient(loss, weights)

    return lambda: one_round(weights, x, y, noise), lambda: mean_gradient(weights, x, y)


def matrix_products(weights, x):
    """The products of ROUNDS rounds and nothing else: the floor."""
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
    """A loop over users, each a tf.function: gradient, clipping, noise; then the weighted average."""
    stop = np.cumsum(samples)
    parts = [(x[a:b], y[a:b]) for a, b in pairwise([0, *stop])]

    @tf.function(reduce_retracing=True)
    def user_gradient(weights, x, y):
        with tf.GradientTape() as tape:
            tape.watch(weights)
            _, loss = network.evaluate(weights, x, y)
        return tf.clip_by_global_norm(tape.gradient(loss, weights), CLIP)[0]

    def one_round(weights=weights):
        total = [tf.zeros_like(w) for w in weights]
        for (a, b), count, std in zip(parts, samples, noise, strict=True):
            noisy = [g + tf.random.normal(g.shape, stddev=std) for g in user_gradient(weights, a, b)]
            total = [t + count / SAMPLES * g for t, g in zip(total, noisy, strict=True)]
        return [w - STEP * t for w, t in zip(weights, total, strict=True)]

    return one_round


def memory_growth(weights, noise) -> dict:
    """Resident memory after 200 trainings of different sizes, over that after 20."""
    generator = np.random.default_rng(2)

    @tf.function(reduce_retracing=True)
    def rounds(x, y):
        gradient = engine.per_sample_gradient(network.backward, x, y, tf.constant(CLIP))
        return engine.train_rounds(
            gradient, weights, tf.constant(STEP), noise, tf.constant(5, tf.int64), tf.constant(0), tf.constant(2)
        )

    def train(times):
        for n in generator.choice([300, 400, 500, 600, 700], times):
            rounds(tf.ones([n, WIDTHS[0]]), tf.zeros([n], tf.int32))
        return resident_mib()

    early, late = train(20), train(180)
    return row("memory after 200 trainings (MiB in place of s)", "after 20", late, early, 1.05, "lower")


def rows(threads: int) -> list[dict]:
    """All rows of this module, at the threads it was started with."""
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
