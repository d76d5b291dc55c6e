"""Stage audit: canary records in place of data, attacked by the server."""

from collections.abc import Iterator

import numpy as np
import polars as pl
import tensorflow as tf

from local_dp_mac.descent import descend
from local_dp_mac.reception import mean_std
from pwfl import streams
from pwfl.learning import engine
from pwfl.privacy.audit import Attack, coins, signs_of, worst

FAR = np.float32(1e4)  # features so large that next to nothing of a canary's gradient is the bias's


def attacks(scenario, tables: dict[str, pl.DataFrame]) -> Iterator[Attack]:
    """The server's attack on the realization whose worst record is worst off."""
    outcome = worst(tables["outcome"])
    realization, upper = outcome["realization"], outcome["epsilon_exact"]
    first = coins(streams.generator(scenario.seed, "canaries", realization), scenario.audit.canaries)
    finite = np.isfinite(upper)
    yield Attack(
        realization=realization,
        observer="the server's mean gradient of each round",
        delta=outcome["delta"],
        epsilon_upper=upper,
        gaussian=True,
        first=first if finite else first[:0],
        scores=_scores(scenario, tables, realization, first) if finite else np.zeros(0),
    )


def _scores(scenario, tables: dict[str, pl.DataFrame], realization: int, first: np.ndarray) -> np.ndarray:
    """Log-likelihood ratios, up to a factor, of canaries which are a weight of a linear layer each; shape (canary,).

    A canary's gradient is clipped to L and counts as that of one of the records of all devices, of one of m canaries
    here: L is scaled by m / records.
    """
    records = tables["users"].filter(realization=realization)["samples"].sum()
    noise_std = mean_std(tables).filter(realization=realization).sort("round")["mean_std"].to_numpy()
    width = int(np.ceil(np.sqrt(first.size)))
    canary = np.arange(first.size)
    row, column = np.divmod(canary, width)
    x, derivative = np.zeros((2, first.size, width), np.float32)
    x[canary, row], derivative[canary, column] = FAR, FAR * signs_of(first)
    clip = tf.constant(scenario.training.clip_norm * first.size / records, tf.float32)
    key = tf.constant(streams.key(scenario.seed, "noise of the audit", realization), tf.int64)

    @tf.function
    def sent(t):
        gradient = engine.per_sample_gradient(
            lambda weights, x, y: ([x], [y]), tf.constant(x), tf.constant(derivative), clip
        )
        advance = descend(gradient, tf.constant(-1.0), tf.constant(noise_std, tf.float32), key)
        return advance([tf.zeros((width, width)), tf.zeros(width)], t, tf.constant(1))[0][0]

    rounds = (sent(tf.constant(t)).numpy() / std**2 for t, std in enumerate(noise_std))
    return sum(rounds)[row, column]
