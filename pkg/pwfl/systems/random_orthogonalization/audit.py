"""Audit of the system `random_orthogonalization`: every user is a canary, since an update is clipped as a whole.

The loss is a sample's output, so that a gradient is the sample itself, in directions of their own for
all users. A user's samples are all plus or all minus a vector so long that its update, after the real
local steps, is clipped to +-C along its direction. What an observer of the server's update has best is
the sum over rounds of (weight / variance) times the update's part in that direction.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import tensorflow as tf

from pwfl import streams
from pwfl.privacy.audit import Attack, coins, signs_of, worst
from pwfl.systems.random_orthogonalization import local_sgd
from pwfl.systems.random_orthogonalization.rounds import clipped_updates
from pwfl.tables.arrays import to_array

if TYPE_CHECKING:
    from pwfl.systems.random_orthogonalization.parameters import RandomOrthogonalization

LARGE = 1e5  # norm of a user's update, in clipping norms
NEARLY = 0.95  # of the worst user's mu
RUNS = 2000  # of all rounds, at most


def attacks(scenario: "RandomOrthogonalization", tables: dict[str, pl.DataFrame]) -> Iterator[Attack]:
    """On the server's update of every round, held to the worst user's exact epsilon.

    Scores of the users who lose nearly as much are taken together with the worst one's. What all
    antennas see is not simulated, so not attacked.
    """
    outcome = worst(tables["outcome"])
    realization = outcome["realization"]
    schedule, noise = (tables[name].filter(pl.col("realization") == realization) for name in ("schedule", "noise"))
    weight = to_array(schedule, "coupling_real", "round", "user")
    weight = weight / weight.shape[1]
    noise_std = to_array(noise, "effective_noise_std", "round")
    delta, upper = outcome["delta"], outcome["epsilon_exact"]
    observer = "server's update of every round, channels known"
    if not (noise_std > 0).all():
        yield Attack(realization, observer, delta, upper, True, np.empty(0, bool), np.empty(0))
        return
    loss = ((weight / noise_std[:, None]) ** 2).sum(axis=0)
    kept = loss >= NEARLY**2 * loss.max()
    generator = streams.generator(scenario.seed, "audit", realization)
    runs = min(-(-scenario.audit.canaries // kept.sum()), RUNS)
    first, scores = (part[:, kept] for part in canary_scores(scenario, weight, noise_std, runs, generator))
    yield Attack(realization, observer, delta, upper, True, first.ravel(), scores.ravel())


def canary_scores(
    scenario: "RandomOrthogonalization",
    weight: np.ndarray,
    noise_std: np.ndarray,
    runs: int,
    generator: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Coins and scores of all users in several runs of all rounds, shape (run, user).

    Run r takes the noise and batches of realization r.

    Parameters
    ----------
    weight
        Of each user's update in the server's, shape (round, user).
    noise_std
        Of the noise in the server's update, shape (round,).
    """
    training, (rounds, users) = scenario.training, weight.shape
    first = coins(generator, runs, users)
    batch_keys, noise_keys = (
        [streams.key(scenario.seed, purpose, run) for run in range(runs)] for purpose in ("batches", "noise")
    )
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

    scores = totals(tf.constant(signs_of(first)), tf.constant(batch_keys, tf.int64), tf.constant(noise_keys, tf.int64))
    return first, scores.numpy()


def linear(outputs: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """The derivative of a loss that is the output."""
    return tf.ones_like(outputs)
