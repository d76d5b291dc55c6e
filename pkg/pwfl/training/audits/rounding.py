"""Audit of messages sent as integers: each user's coordinates must be rounded at random, independently.

The server's function (`Loop.summed`) gets messages without noise, spread over several grid steps. Its result minus the
messages' sum, in rotated coordinates and grid steps, is the sum of the users' rounding errors.
"""

from collections.abc import Iterator
from math import factorial

import numpy as np
from scipy.special import comb

from pwfl.learning import rotation
from pwfl.privacy import audit
from pwfl.process.tensorflow import tf
from pwfl.training import trainings
from pwfl.training.integers import round_signs
from pwfl.training.rounds import slice_interval

ROUNDS = 48
SPREAD = 4.0  # standard deviation of messages in grid steps, at which their fractions are uniform to 1e-100
GRAIN = 1e-3  # grid steps that float32 adds to a rounding error
USERS = 2  # senders, so that users who share random numbers are detected


def verdicts(
    subject: audit.Subject, used: trainings.Training, start: trainings.Start, bits: int, generator: np.random.Generator
) -> Iterator[audit.Verdict]:
    """Yield the tests of the rounding errors of two users' sum, or of one user's if no two are in one group.

    `bits`: integers are added up modulo 2^bits. The other arguments are as in `errors`.
    """
    off, users = errors(used, start, bits, generator)
    yield audit.distribution(subject, "distribution of errors of rounding", off, lambda x: law(x, users), GRAIN)
    yield audit.correlation(subject, "errors of rounding of different rounds", off)
    yield audit.lags(subject, "errors of rounding of different coordinates", off * np.sqrt(6 / users))


def law(values: np.ndarray, users: int) -> np.ndarray:
    """Compute the distribution function of the sum of `users` rounding errors, in grid steps, at some values.

    With the fraction f of a number, uniform in [0, 1), and u, uniform in [0, 1), the error of rounding up if u < f has
    the distribution of a difference of two uniform numbers. The sum of n errors, plus n, is a sum of 2 n uniform
    numbers, whose distribution is that of Irwin and Hall: F(x) = (1 / (2 n)!) sum_k (-1)^k C(2 n, k) max(x - k, 0)^2n.
    """
    count, shifted = 2 * users, np.clip(values + users, 0, 2 * users)
    terms = [(-1) ** k * comb(count, k) * np.maximum(shifted - k, 0) ** count for k in range(count + 1)]
    return sum(terms) / factorial(count)


def errors(
    used: trainings.Training, start: trainings.Start, bits: int, generator: np.random.Generator
) -> tuple[np.ndarray, int]:
    """Compute sums of users' rounding errors, in grid steps, shape (round, coordinate), and the number of users.

    Of ROUNDS rounds with the noise's key of `start`, in the interval with the most senders. `generator` draws the
    messages.
    """
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
