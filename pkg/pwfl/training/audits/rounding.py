"""Audit of sums of integers: whether users' numbers are rounded at random, each by a number of its own.

The server's sum takes messages of which the numbers lie anywhere between integers, without noise. What comes out, less
the messages, are errors of rounding, seen before the public rotation is undone.
"""

from collections.abc import Iterator
from math import factorial

import numpy as np
import tensorflow as tf
from scipy.special import comb

from pwfl.learning import rotation
from pwfl.privacy import audit
from pwfl.training import trainings
from pwfl.training.integers import round_signs
from pwfl.training.rounds import slice_interval

ROUNDS = 48
SPREAD = 4.0  # steps of the grid: deviation of messages, whose fractions then are uniform to 1e-100
GRAIN = 1e-3  # steps: what float32 adds to an error of rounding
USERS = 2  # who send, so that errors of users who share one dither would be seen


def verdicts(
    subject: audit.Subject, used: trainings.Training, start: trainings.Start, bits: int, generator: np.random.Generator
) -> Iterator[audit.Verdict]:
    """Tests of errors of rounding in two users' sum; of one user's alone where no two are in a group."""
    off, users = errors(used, start, bits, generator)
    yield audit.distribution(subject, "distribution of errors of rounding", off, lambda x: law(x, users), GRAIN)
    yield audit.correlation(subject, "errors of rounding of different rounds", off)
    yield audit.lags(subject, "errors of rounding of different coordinates", off * np.sqrt(6 / users))


def law(values: np.ndarray, users: int) -> np.ndarray:
    """The probability that the sum of some users' errors is at most each of some values.

    An error is the difference of two uniform numbers: what decides on the integer, and where the number is above it. So
    the sum is one of twice as many uniform numbers in [0, 1), less the users (Irwin and Hall).
    """
    count, shifted = 2 * users, np.clip(values + users, 0, 2 * users)
    terms = [(-1) ** k * comb(count, k) * np.maximum(shifted - k, 0) ** count for k in range(count + 1)]
    return sum(terms) / factorial(count)


def errors(
    used: trainings.Training, start: trainings.Start, bits: int, generator: np.random.Generator
) -> tuple[np.ndarray, int]:
    """Errors of rounding, in steps of the grid, shape (round, coordinate), and how many users' they are the sum of."""
    varying = slice_interval(start.varying, int((start.varying.samples > 0).sum(axis=1).argmax()), several=False)
    groups, numbers = np.unique(varying.group[varying.samples > 0], return_counts=True)
    loud = np.flatnonzero((varying.group == groups[numbers.argmax()]) & (varying.samples > 0))[:USERS]
    samples = np.zeros_like(varying.samples)
    samples[loud] = varying.samples[loud]  # others send nothing
    varying = varying._replace(noise_std=0 * varying.noise_std, samples=samples)
    step, weight, size = varying.grid_step[loud[0]], varying.weight[loud[0]], sum(w.size for w in start.weights)
    sent = np.zeros((len(varying.samples), size), np.float32)
    sent[loud] = SPREAD * step * generator.standard_normal((len(loud), size))
    exact, off, weights = sent.astype(float).sum(axis=0), [], [tf.constant(w) for w in start.weights]
    summed = used.loop.summed
    assert summed is not None  # where alone anything is rounded
    for t in range(ROUNDS):
        update = summed(weights, tf.constant(sent), varying, tf.constant(start.key), tf.constant(t))
        total = np.concatenate([np.ravel(part) for part in update]).astype(float) / weight
        error = rotation.rotate(total - exact, round_signs(start.key, t, size)[0]) / step
        off.append(error - 2**bits * np.rint(error / 2**bits))  # sums are modulo 2^bits
    return np.array(off), len(loud)
