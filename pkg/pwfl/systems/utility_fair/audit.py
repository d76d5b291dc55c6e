"""Audit of the system `utility_fair`: copies of models, or uploads, that are S_f apart, as the account assumes.

A canary moves the model, or what a device sends, by +-S_f / 2 along a coordinate of its own. That a record cannot
move it further is observed, not enforced, and not audited here; where uploads are clipped, that of updates is.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import tensorflow as tf

from pwfl import streams
from pwfl.learning.linear import LARGE
from pwfl.privacy.audit import Attack, coins, signs_of, worst
from pwfl.systems.utility_fair import uploads
from pwfl.systems.utility_fair.rounds import UPLOADS, clipped, noisy_copies, noisy_uploads

if TYPE_CHECKING:
    from pwfl.systems.utility_fair.parameters import UtilityFair

WIDTH = 500  # canaries in one run


def attacks(scenario: "UtilityFair", tables: dict[str, pl.DataFrame]) -> Iterator[Attack]:
    """On what the exact epsilon is of, and held to it.

    Clean uploads: all devices' copies of all noisy rounds, at deviation 0. Noisy ones: one device's uploads.
    """
    outcome = worst(tables["outcome"])
    realization = outcome["realization"]
    noise = tables["noise"].filter(pl.col("realization") == realization).sort("device")
    generator = streams.generator(scenario.seed, "audit", realization)
    if noise["upload_std"].null_count():
        std, vectors = noise["noise_std"].to_numpy(), noise["noise_vector"].to_numpy()
        first, scores = canary_scores(scenario, std, vectors, generator)
        observer = "all devices' copies of every noisy round; models S_f apart"
    else:
        first, scores = upload_scores(scenario, noise["upload_std"].min(), generator)
        apart = "S_f apart" if scenario.training.clip_norm is None else "clipped"
        observer = f"a device's gradients and updates of every round; each {apart}"
    yield Attack(realization, observer, outcome["delta"], outcome["epsilon_exact"], True, first.ravel(), scores.ravel())


def upload_scores(scenario: "UtilityFair", std: float, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Coins and scores in several runs of all rounds of devices with a canary each, whose uploads have noise of `std`.

    Where updates are clipped, a canary would move its device's by far more than it may.

    Returns
    -------
    Coins and scores, shape (run, canary).
    """
    rounds, clip_norm, batch_size = scenario.training.rounds, scenario.training.clip_norm, scenario.device.batch_size
    half = uploads.sensitivity(clip_norm, batch_size, scenario.privacy.sensitivity) / 2
    radius = uploads.radius(clip_norm, batch_size)
    stds = np.full(WIDTH, std, np.float32)

    @tf.function
    def total(signs, keys):
        gradient, seen = [signs[:, None] * half], tf.zeros([WIDTH])
        update = gradient if radius is None else clipped([LARGE * g for g in gradient], radius)
        for t in tf.range(1, rounds + 1):
            for sent, key in zip((gradient, update), tf.unstack(keys), strict=True):
                seed = tf.stack([key, tf.cast(t, tf.int64)])
                seen += noisy_uploads(sent, tf.constant(stds), seed)[0][:, 0]
        return seen

    def run(signs, number):
        keys = [streams.key(scenario.seed, purpose, number) for purpose in UPLOADS]
        return total(tf.constant(signs), tf.constant(keys, tf.int64)).numpy()

    first = coins(generator, -(-scenario.audit.canaries // WIDTH), WIDTH)
    return first, np.array([run(s, number) for number, s in enumerate(signs_of(first))], float)


def canary_scores(
    scenario: "UtilityFair", std: np.ndarray, vectors: np.ndarray, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Coins and scores in several runs of all noisy rounds of all devices; run r takes the noise of realization r.

    Parameters
    ----------
    std, vectors
        Noise of the devices' copies and numbers of their noise vectors, shape (device,). Devices that share a vector
        get one copy, which counts once.

    Returns
    -------
    Coins and scores, shape (run, canary).
    """
    rounds, half = scenario.training.rounds, scenario.privacy.sensitivity / 2
    runs = -(-scenario.audit.canaries // WIDTH)
    first = coins(generator, runs, WIDTH)
    own = np.unique(vectors, return_index=True)[1]
    factor = np.zeros(len(std), np.float32)
    factor[own] = (std[own].min() / std[own]) ** 2

    @tf.function
    def total(signs, key):
        model, seen = [signs[:, None] * half, tf.zeros(1)], tf.zeros([WIDTH])
        for t in tf.range(2, rounds + 1):  # the first round's copies are clean
            copies = noisy_copies(
                model,
                tf.constant(std, tf.float32),
                tf.constant(vectors, tf.int32),
                tf.stack([key, tf.cast(t, tf.int64)]),
            )
            seen += tf.tensordot(factor, copies[0][..., 0], 1)
        return seen

    keys = [streams.key(scenario.seed, "noise", run) for run in range(runs)]
    scores = [
        total(tf.constant(s), tf.constant(key, tf.int64)).numpy() for s, key in zip(signs_of(first), keys, strict=True)
    ]
    return first, np.array(scores, float)
