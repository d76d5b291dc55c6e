"""Privacy of one record in what a server receives, as `pwfl.learning.descent` trains on it: zCDP, and an audit.

The audit runs the code that trains. A canary is a weight of a linear layer each: its gradient, clipped, is the
clipping norm in this coordinate, or less that, and it counts as the tested record does.
"""

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from pwfl import streams
from pwfl.learning import adversarial, descent, engine, mlp, network
from pwfl.learning.descent import Received
from pwfl.learning.linear import LARGE, linear
from pwfl.privacy import audit


def moved(clip_norm: float, received: Received, record: int) -> np.ndarray:
    """How far a replaced record moves each round's mean at most, shape (round,)."""
    return 2 * clip_norm * received.counts[:, record] / received.counts.shape[1]


def verdicts(
    scenario, subject: audit.Subject, received: Received, record: int, generator: np.random.Generator
) -> Iterator[audit.Verdict]:
    """Tests of what the server receives of a record: sensitivity, noise, and the signal of `audit.canaries` canaries.

    `subject` states a finite epsilon, that of a Gaussian mechanism of sensitivity `moved` in each round. The stage
    reads what `descent.trainer` reads of `data.dataset` and `training`.
    """
    sensitivity = moved(scenario.training.clip_norm, received, record)
    heard = np.flatnonzero(sensitivity)  # rounds
    loudest = int(sensitivity.argmax())
    yield audit.sensitivity(subject, moves(scenario, received.counts[loudest], record, generator), sensitivity[loudest])
    noise_std = received.noise_std[heard, None]
    yield from audit.noise(subject, noise(scenario, received, heard), noise_std)
    first = audit.coins(generator, scenario.audit.canaries)
    yield from audit.signal(subject, first, scores(scenario, received, record, heard, first))


def moves(scenario, counts: np.ndarray, record: int, generator: np.random.Generator) -> np.ndarray:
    """How far a round's mean moves as a record is replaced by an opposite one, noise off, shape (layer, 1)."""
    widths, clip_norm = descent.widths_of(scenario), scenario.training.clip_norm
    clip, counted = tf.constant(clip_norm, tf.float32), tf.constant(counts, tf.float32)

    def released(weights, x, y):
        return engine.per_sample_gradient(network.backward, x, y, clip, counted)(weights)[0]

    cases = adversarial.opposed(network.logits, mlp.shapes(widths), widths[0], clip_norm, generator)
    return adversarial.moves(released, cases, len(counts), [record])


def noise(scenario, received: Received, heard: np.ndarray) -> np.ndarray:
    """What the server receives in some rounds of a record without a gradient, shape (stream, round, coordinate)."""
    width = audit.width(len(heard))
    blank = tf.zeros([1, width]), None, np.zeros((len(received.noise_std), 1))
    start = [tf.zeros([width, 1]), tf.zeros(1)]
    each = [steps(scenario, linear, start, *blank, received, heard, key) for key in streams.of_tested_noise(scenario)]
    return np.array([kernel[..., 0] for kernel, _ in each])


def scores(scenario, received: Received, record: int, heard: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Log-likelihood ratios over mu of canaries' two records, shape (canary,).

    Canaries are as many records as the mean is over, so that each counts as much as the tested one where what it
    counts is scaled by their number over that of the records.
    """
    width, canary = int(np.ceil(np.sqrt(first.size))), np.arange(first.size)
    row, column = np.divmod(canary, width)
    x, derivative = np.zeros((2, first.size, width), np.float32)
    x[canary, row], derivative[canary, column] = LARGE, LARGE * audit.signs_of(first)
    own = received.counts[:, [record]] * first.size / received.counts.shape[1]
    start = [tf.zeros((width, width)), tf.zeros(width)]

    def backward(weights, x, y):
        return [x], [y]

    stream = *streams.of_noise(scenario), 0
    records = tf.constant(x), tf.constant(derivative), np.broadcast_to(own, (len(own), first.size))
    kernel, _ = steps(scenario, backward, start, *records, received, heard, stream)
    seen, distance = kernel[:, row, column], moved(scenario.training.clip_norm, received, record)[heard]
    weight = distance / received.noise_std[heard] ** 2
    return weight @ seen / np.sqrt(weight @ distance)


def steps(scenario, backward, start, x, y, counts, received: Received, heard, stream: tuple) -> list[np.ndarray]:
    """Steps of -1 from `start`, zeros, in each of some rounds, with the noise of a stream, shapes (round, ...)."""
    key, noise_std = tf.constant(streams.key(*stream), tf.int64), tf.constant(received.noise_std, tf.float32)
    given = scenario.training.clip_norm, tf.constant(counts, tf.float32), noise_std, tf.constant(-1.0), key

    @tf.function
    def step(t):
        return descent.advance_function(backward, x, y, *given)(start, t, tf.constant(1))[0]

    rounds = [step(tf.constant(t, tf.int32)) for t in heard]
    return [np.array(parts, float) for parts in zip(*rounds, strict=True)]
