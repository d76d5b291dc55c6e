"""Audit of the system `multicell`, in the style of Andrew et al. (2024, "One-shot Empirical Privacy Estimation").

The loss is <w, x> + b, so that a record's gradient is the record itself, and a 1 for the bias. Canary j
is plus or minus c u_j, with u_j orthonormal and c so large that clipping leaves no bias: its clipped
gradient is +-L u_j. An observer of noisy sums of gradients has nothing better than the sum over rounds
of their products with u_j, the log-likelihood ratio of both records but for a factor. Where senders change
from interval to interval, each interval's sum counts by the canary's share of it over its noise's variance.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import tensorflow as tf

from pwfl import streams
from pwfl.learning.linear import LARGE, linear, linear_losses
from pwfl.privacy.audit import RUNS, Attack, coins, signs_of, worst
from pwfl.privacy.gaussian import exact_epsilon, zcdp
from pwfl.systems.multicell.assigned import KEYS, assigned
from pwfl.systems.multicell.beyond.server import aggregated_noise_std, counts
from pwfl.systems.multicell.rounds import Senders, advance_function
from pwfl.tables.arrays import to_array

if TYPE_CHECKING:
    from pwfl.systems.multicell.parameters import Multicell, Training

WIDEST = 200  # canaries in one run


def attacks(scenario: "Multicell", tables: dict[str, pl.DataFrame]) -> Iterator[Attack]:
    """On the worst-off user's uploads, and on the sums of all users' that the server's model takes.

    The first is held to the table `outcome`; the second to the exact epsilon of that sum, which is no
    more, since others' noise hides a record, too. With `per_user` clipping the record that is claimed
    about can turn its user's whole gradient around, and is held to that worst case.
    """
    training = scenario.training
    per_user = training.clipping == "per_user"
    stated = "epsilon_worst_case" if per_user else "epsilon_exact"
    outcome = worst(tables["outcome"], stated)
    realization, delta, upper = outcome["realization"], outcome["delta"], outcome[stated]
    if upper is None:
        yield Attack(realization, "nobody sends", delta, None, True, np.empty(0, bool), np.empty(0))
        return
    sent = assigned(tables).filter(pl.col("realization") == realization)
    sent = sent.join(tables["leakage"], on=["realization", "user"], how="semi").sort(KEYS)
    samples, scheduled, noise_std = (to_array(sent, name, *KEYS)[0] for name in ("samples", "scheduled", "noise_std"))
    samples = samples[0]
    sensitivity = np.full(len(samples), 2.0) if per_user else 2 / samples  # of an upload, in clipping norms
    signal = np.divide(sensitivity, noise_std, where=scheduled, out=np.zeros(scheduled.shape))
    target = int(np.argmax((signal**2).sum(axis=0)))
    generator = streams.generator(scenario.seed, "audit", realization)

    def attack(users: np.ndarray, observer: str, upper: float) -> Attack:
        canary = int(np.flatnonzero(users == target)[0])
        own = (samples[users], scheduled[:, users], noise_std[:, users])
        first, scores = canary_scores(scenario, *own, canary, generator)
        return Attack(realization, observer, delta, upper, True, first.ravel(), scores.ravel())

    user, everyone = sent["user"][target], np.arange(len(samples))
    yield attack(everyone[[target]], f"user {user}'s upload of every round", upper)
    share, std = in_sums(training, samples, scheduled, noise_std, target)
    rho = zcdp(training.clip_norm * sensitivity[target] * share, std, training.rounds // len(scheduled)).sum()
    yield attack(
        everyone, f"sum of all uploads of every round, user {user}'s records", float(exact_epsilon(rho, delta))
    )


def in_sums(
    training: "Training", samples: np.ndarray, scheduled: np.ndarray, noise_std: np.ndarray, user: int
) -> tuple[np.ndarray, np.ndarray]:
    """The share of a user's gradient in the sums of the intervals in which it sends, and their noise's deviations.

    Parameters are those of `canary_scores`.
    """
    own = scheduled[:, user]
    counted = counts(training, samples, scheduled, noise_std)[own]
    std = [aggregated_noise_std(*each) for each in zip(counted, scheduled[own], noise_std[own], strict=True)]
    return counted[:, user] / counted.sum(axis=1), np.array(std)


def canary_scores(
    scenario: "Multicell",
    samples: np.ndarray,
    scheduled: np.ndarray,
    noise_std: np.ndarray,
    user: int,
    generator: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Coins and scores of one user's canaries in several runs of all rounds.

    All records but the canaries are blank. Run r takes the noise of realization r.

    Parameters
    ----------
    samples
        K_i of users who ever send, shape (user,).
    scheduled, noise_std
        Who sends in each interval, and sigma_i, shape (interval, user).
    user
        Whose records are canaries, by the place in these.

    Returns
    -------
    Which record each canary is, and its score, shape (run, canary).
    """
    training = scenario.training
    # A clipped mean has one direction, so there one record decides over all of it.
    width = 1 if training.clipping == "per_user" else min(samples[user], WIDEST)
    runs = min(-(-scenario.audit.canaries // width), RUNS)
    first = coins(generator, runs, width)
    keys = [streams.key(scenario.seed, "noise", run) for run in range(runs)]
    share, std = in_sums(training, samples, scheduled, noise_std, user)
    weight = tf.constant(share / std**2 / np.max(share / std**2), tf.float32)
    own = tf.constant(np.flatnonzero(scheduled[:, user]), tf.int32)
    senders, coherence = Senders.of(training, samples, scheduled, noise_std), training.rounds // len(scheduled)
    model = linear if training.model == "dense" else linear_losses
    before = samples[:user].sum()
    blank = [[before, samples.sum() - before - width], [0, 0]]
    canary = LARGE * training.clip_norm * np.eye(width, dtype=np.float32)

    @tf.function
    def totals(signs, keys):
        def total(run):
            signs, key = run
            x = tf.pad(signs[:, None] * canary, blank)
            advance = advance_function(model, x, None, senders, len(scheduled), training, tf.constant(1.0), key)
            start, score = [tf.zeros([width, 1]), tf.zeros(1)], tf.zeros(width)
            for k in tf.range(tf.size(own)):
                (kernel, _), _ = advance(start, own[k] * coherence, tf.constant(coherence))
                score -= weight[k] * kernel[:, 0]
            return score

        return tf.map_fn(total, (signs, keys), fn_output_signature=tf.float32, parallel_iterations=1)

    return first, totals(tf.constant(signs_of(first)), tf.constant(keys, tf.int64)).numpy().astype(float)
