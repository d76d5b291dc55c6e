"""Audit of the system `random_orthogonalization`: every user is a canary, since an update is clipped as a whole.

For its signal the loss is a sample's output, so that a gradient is the sample itself, in directions of their own for
all users. A user's samples are all plus or all minus a vector so long that its update, after the real
local steps, is clipped to +-C along its direction. What an observer of the server's update has best is
the sum over rounds of (weight / variance) times the update's part in that direction.
"""

from collections.abc import Iterator

import numpy as np
import polars as pl
import tensorflow as tf

from pwfl import streams
from pwfl.learning import adversarial, features, mlp, network
from pwfl.privacy import audit
from pwfl.systems.random_orthogonalization import local_sgd
from pwfl.systems.random_orthogonalization.parameters import RandomOrthogonalization
from pwfl.systems.random_orthogonalization.rounds import clipped_updates
from pwfl.tables.arrays import to_array

LARGE = 1e5  # norm of a user's update, in clipping norms
RUNS = 2000  # of all rounds, at most


def verdicts(scenario: RandomOrthogonalization, tables: dict[str, pl.DataFrame]) -> Iterator[audit.Verdict]:
    """On the server's update of every round, held to the worst user's exact epsilon.

    What all antennas see is not simulated, so not tested.
    """
    outcome = audit.worst(tables["outcome"])
    realization, clip_norm = outcome["realization"], scenario.training.clip_norm
    schedule, noise_of = (tables[name].filter(pl.col("realization") == realization) for name in ("schedule", "noise"))
    weight = to_array(schedule, "coupling_real", "round", "user")
    weight = weight / weight.shape[1]
    noise_std = to_array(noise_of, "effective_noise_std", "round")
    observer = "server's update of every round, channels known"
    subject = audit.Subject(realization, observer, outcome["delta"], outcome["epsilon_exact"])
    if not (noise_std > 0).all():
        yield audit.untested(subject)
        return
    generator = streams.generator(scenario.seed, "audit", realization)
    loss = np.sqrt(((weight / noise_std[:, None]) ** 2).sum(axis=0))
    moved = 2 * clip_norm * abs(weight[0, loss.argmax()])
    samples = tables["users"]["samples"][0]
    yield audit.sensitivity(subject, moves(scenario, weight[0, loss.argmax()], samples, generator), moved)
    yield from audit.noise(subject, noise(scenario, noise_std), noise_std[:, None])
    runs = min(-(-scenario.audit.canaries // weight.shape[1]), RUNS)
    scores = canary_scores(scenario, weight, noise_std, runs, generator)
    yield from audit.signal(subject, *scores, subject.mu * loss / loss.max())


def moves(scenario: RandomOrthogonalization, weight: float, samples: int, generator: np.random.Generator) -> np.ndarray:
    """How far the server's update of the first round moves as a user's record is replaced by an opposite one.

    Without noise, and of the real model and all local steps; all other records are blank.

    Parameters
    ----------
    weight
        Of the user's update in the server's.
    samples
        How many records the user has.
    """
    training, size = scenario.training, features.size(scenario)
    key = tf.constant(streams.key(scenario.seed, "batches", 0), tf.int64)
    batches = local_sgd.minibatches(key, 0, 1, samples, training.batch_size, training.local_steps)
    weights_of_sum, silent = tf.constant([weight], tf.float32), tf.constant(0.0)

    def released(weights, x, y):
        kernel, bias = weights
        start = tf.concat([tf.transpose(kernel), bias[:, None]], axis=1)
        x, derivative = local_sgd.with_bias(x)[None], local_sgd.cross_entropy_derivative
        update, _ = clipped_updates(start, x, y[None], batches, training, derivative)
        return [local_sgd.received(update, weights_of_sum, silent, key, 0)]

    # One record is to outweigh what the others' biases do in all steps.
    norm = 100 * training.local_steps * training.batch_size * max(training.clip_norm, training.learning_rate)
    norm /= training.learning_rate
    shapes = mlp.shapes([size.features, size.classes])
    cases = adversarial.opposed(network.logits, shapes, size.features, norm, generator)
    return adversarial.moves(released, cases, samples, [int(batches[0, 0, 0])])


def noise(scenario: RandomOrthogonalization, noise_std: np.ndarray) -> np.ndarray:
    """The noise of the server's update of every round, shape (stream, round, coordinate)."""
    width = audit.width(len(noise_std))
    nothing, unheard = tf.zeros([1, 1, width]), tf.zeros([1])
    std = tf.constant(noise_std, tf.float32)

    @tf.function
    def heard(key):
        def of_round(t):
            return local_sgd.received(nothing, unheard, std[t], key, t)[0]

        rounds = tf.range(len(noise_std))
        return tf.map_fn(of_round, rounds, fn_output_signature=tf.float32, parallel_iterations=1)

    keys = [tf.constant(streams.key(*stream), tf.int64) for stream in streams.of_tested_noise(scenario)]
    return np.array([heard(key).numpy() for key in keys], float)


def canary_scores(
    scenario: RandomOrthogonalization,
    weight: np.ndarray,
    noise_std: np.ndarray,
    runs: int,
    generator: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Coins and scores of all users in several runs of all rounds, shape (run, user).

    Run r takes the noise and batches of realization r. Scores are log-likelihood ratios over each user's mu.

    Parameters
    ----------
    weight
        Of each user's update in the server's, shape (round, user).
    noise_std
        Of the noise in the server's update, shape (round,).
    """
    training, (rounds, users) = scenario.training, weight.shape
    first = audit.coins(generator, runs, users)
    purposes = (scenario.seed, "batches"), streams.of_noise(scenario)
    batch_keys, noise_keys = ([streams.key(*purpose, run) for run in range(runs)] for purpose in purposes)
    size = training.batch_size  # samples are alike, so one batch of them is as good as all
    samples = tf.constant(LARGE * training.clip_norm / training.learning_rate * np.eye(users), tf.float32)
    weights, stds = tf.constant(weight, tf.float32), tf.constant(noise_std, tf.float32)
    factor = tf.constant(weight / noise_std[:, None] ** 2 / np.sqrt(((weight / noise_std[:, None]) ** 2).sum(axis=0)))

    @tf.function
    def totals(signs, batch_keys, noise_keys):
        def total(run):
            signs, batch_key, noise_key = run
            x = tf.repeat((signs[:, None] * samples)[:, None], size, axis=1)
            batches = local_sgd.minibatches(batch_key, 0, users, size, size, training.local_steps)
            # The same in every round, since the loss is linear.
            update, _ = clipped_updates(tf.zeros([1, users]), x, x[..., 0], batches, training, linear)
            seen = tf.zeros([users], tf.float64)
            for t in tf.range(rounds):
                change = local_sgd.received(update, weights[t], stds[t], noise_key, t)
                seen += factor[t] * tf.cast(change[0], tf.float64)
            return -seen

        inputs = (signs, batch_keys, noise_keys)
        return tf.map_fn(total, inputs, fn_output_signature=tf.float64, parallel_iterations=1)

    signs = tf.constant(audit.signs_of(first))
    return first, totals(signs, tf.constant(batch_keys, tf.int64), tf.constant(noise_keys, tf.int64)).numpy()


def linear(outputs: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """The derivative of a loss that is the output."""
    return tf.ones_like(outputs)
