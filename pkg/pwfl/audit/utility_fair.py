"""Audit of the system `utility_fair`: copies of models, or uploads, that are S_f apart, as the account assumes.

Canary j moves the model, or what a device sends, by +-S_f / 2 along coordinate j. That a record cannot move
it further is observed, not enforced, and not audited here.
"""

from collections.abc import Iterator

import numpy as np
import polars as pl
import tensorflow as tf

from pwfl import streams
from pwfl.audit import Attack, coins, signs_of, worst
from pwfl.train import utility_fair

WIDTH = 500  # canaries in one run


def attacks(parameters: dict, tables: dict[str, pl.DataFrame]) -> Iterator[Attack]:
    """On what the exact epsilon is of, and held to it.

    Clean uploads: all devices' copies of all noisy rounds, at deviation 0. Noisy ones: one device's uploads.
    """
    outcome = worst(tables["outcome"])
    realization = outcome["realization"]
    noise = tables["noise"].filter(pl.col("realization") == realization).sort("device")
    generator = streams.generator(parameters["seed"], "audit", realization)
    if noise["upload_std"].null_count():
        std, vectors = noise["noise_std"].to_numpy(), noise["noise_vector"].to_numpy()
        first, scores = canary_scores(parameters, std, vectors, generator)
        observer = "all devices' copies of every noisy round; models S_f apart"
    else:
        first, scores = upload_scores(parameters, noise["upload_std"].min(), generator)
        observer = "a device's gradients and updates of every round; each S_f apart"
    yield Attack(realization, observer, outcome["delta"], outcome["epsilon_exact"], True, first.ravel(), scores.ravel())


def upload_scores(parameters: dict, std: float, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Coins and scores in several runs of all rounds of one device, shape (run, canary)."""
    rounds, half = parameters["training"]["rounds"], parameters["privacy"]["sensitivity"] / 2

    @tf.function
    def total(signs, keys):
        sent, seen = [signs[None] * half], tf.zeros([WIDTH])
        for t in tf.range(1, rounds + 1):
            for key in tf.unstack(keys):
                seed = tf.stack([key, tf.cast(t, tf.int64)])
                seen += utility_fair.noisy_uploads(sent, tf.constant([std], tf.float32), seed)[0][0]
        return seen

    def run(signs, number):
        keys = [streams.key(parameters["seed"], purpose, number) for purpose in utility_fair.UPLOADS]
        return total(tf.constant(signs), tf.constant(keys, tf.int64)).numpy()

    first = coins(generator, -(-parameters["audit"]["canaries"] // WIDTH), WIDTH)
    return first, np.array([run(s, number) for number, s in enumerate(signs_of(first))], float)


def canary_scores(
    parameters: dict, std: np.ndarray, vectors: np.ndarray, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Coins and scores in several runs of all noisy rounds, shape (run, canary).

    `std` and `vectors`, shape (device,), are those of the devices' copies. Devices that share a noise
    vector get one copy, which counts once. Run r takes the noise of realization r.
    """
    rounds, half = parameters["training"]["rounds"], parameters["privacy"]["sensitivity"] / 2
    runs = -(-parameters["audit"]["canaries"] // WIDTH)
    first = coins(generator, runs, WIDTH)
    own = np.unique(vectors, return_index=True)[1]
    factor = np.zeros(len(std), np.float32)
    factor[own] = (std[own].min() / std[own]) ** 2

    @tf.function
    def total(signs, key):
        model, seen = [signs[:, None] * half, tf.zeros(1)], tf.zeros([WIDTH])
        for t in tf.range(2, rounds + 1):  # the first round's copies are clean
            copies = utility_fair.noisy_copies(
                model,
                tf.constant(std, tf.float32),
                tf.constant(vectors, tf.int32),
                tf.stack([key, tf.cast(t, tf.int64)]),
            )
            seen += tf.tensordot(factor, copies[0][..., 0], 1)
        return seen

    keys = [streams.key(parameters["seed"], "noise", run) for run in range(runs)]
    scores = [
        total(tf.constant(s), tf.constant(key, tf.int64)).numpy() for s, key in zip(signs_of(first), keys, strict=True)
    ]
    return first, np.array(scores, float)
