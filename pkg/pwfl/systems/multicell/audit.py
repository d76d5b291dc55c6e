"""Audit of the system `multicell`: what its observer sees of one user, and the sums of all that the model takes.

Signals are tested in the style of Andrew et al. (2024, "One-shot Empirical Privacy Estimation"). The loss is
<w, x> + b, so that a record's gradient is the record itself, and a 1 for the bias. Canary j is plus or minus c u_j,
with u_j orthonormal and c so large that clipping leaves no bias: its clipped gradient is +-L u_j. An observer of noisy
sums of gradients has nothing better than the sum over rounds of their products with u_j, each by the canary's share of
it over its noise's variance.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from math import ceil
from typing import NamedTuple

import numpy as np
import polars as pl
import tensorflow as tf

from pwfl import streams
from pwfl.learning import adversarial, features
from pwfl.learning.linear import LARGE, linear, linear_losses
from pwfl.privacy import audit
from pwfl.privacy.gaussian import exact_epsilon, zcdp
from pwfl.process import user_code
from pwfl.systems.multicell.assigned import KEYS, assigned
from pwfl.systems.multicell.beyond import integers, sums
from pwfl.systems.multicell.beyond.server import counts
from pwfl.systems.multicell.model import parameter_count, shapes, start_weights
from pwfl.systems.multicell.parameters import Multicell, Training
from pwfl.systems.multicell.rounds import Senders, advance_function, as_weights, logits_of, model_of, senders_spec
from pwfl.tables.arrays import to_array

WIDEST, RUNS = 200, 500  # canaries in one run, and runs of all rounds, at most
DROPOUTS = 20_000  # rounds in which it is looked who drops out


class Users(NamedTuple):
    """Those whose messages the observer sees, and which of them is tested.

    Attributes
    ----------
    samples
        K_i, shape (user,).
    scheduled, noise_std, group
        Who sends in each interval, sigma_i, and the group in which uploads are summed, shape (interval, user).
    target
        The place of the user that is tested.
    step
        Of the grids that messages are integers on, as the noise was planned, likewise; None: they are none.
    """

    samples: np.ndarray
    scheduled: np.ndarray
    noise_std: np.ndarray
    group: np.ndarray
    target: int
    step: np.ndarray | None

    def grouped(self) -> "Users":
        """The tested user's group, without the others."""
        own = self.group[0] == self.group[0, self.target]
        parts = (values[:, own] for values in (self.scheduled, self.noise_std, self.group))
        step = None if self.step is None else self.step[:, own]
        return Users(self.samples[own], *parts, int(own[: self.target].sum()), step)

    def senders(self, training: Training) -> Senders:
        """As training has them."""
        return Senders.of(training, self.samples, self.scheduled, self.noise_std, self.group, step=self.step)


def verdicts(scenario: Multicell, tables: dict[str, pl.DataFrame]) -> Iterator[audit.Verdict]:
    """On what the observer sees of the worst-off user, and on the sums of all users' that the server's model takes.

    The first, the user's upload or its group's sum, off which colluders have taken their noise, is held to the table
    `outcome`; the second to the exact epsilon of that sum. With `per_user` clipping the record that is claimed
    about can turn its user's whole gradient around, and is held to that worst case.
    """
    training = scenario.training
    per_user = training.clipping == "per_user"
    stated = "epsilon_worst_case" if per_user else "epsilon_exact"
    outcome = audit.worst(tables["outcome"], stated)
    realization, delta, epsilon = outcome["realization"], outcome["delta"], outcome[stated]
    if epsilon is None:
        yield audit.untested(audit.Subject(realization, "nobody sends", delta, None))
        return
    if np.isinf(epsilon):
        yield audit.untested(audit.Subject(realization, "every upload", delta, epsilon))
        return
    sent = assigned(tables).filter(pl.col("realization") == realization)
    sent = sent.join(tables["leakage"], on=["realization", "user"], how="semi").sort(KEYS)
    columns = ("samples", "scheduled", "noise_std", "cell")
    samples, scheduled, noise_std, cell = (to_array(sent, name, *KEYS)[0] for name in columns)
    samples, group = samples[0], sums.groups(scenario.privacy.observer, cell)
    moved = training.clip_norm * (np.full(len(samples), 2.0) if per_user else 2 / samples)  # by a record, in an upload
    leaks = tables["leakage"].filter(realization=realization)
    worst = leaks.sort("rho_worst_case" if per_user else "rho", descending=True, maintain_order=True).row(0, named=True)
    rho, user = worst["rho_worst_case" if per_user else "rho"], worst["user"]
    target = int(np.argmax(sent["user"].unique().sort() == user))
    step = integers.grids(scenario, sent)[0] if training.bits else None
    everyone = Users(samples, scheduled, noise_std, group, target, step)
    moved = moved[everyone.target]
    generator = streams.generator(scenario.seed, "audit", realization)

    message, gone = seen(scenario, everyone, streams.generator(scenario.seed, "audited dropouts", realization))
    whose = {
        "user": f"user {user}'s upload of every round",
        "cell": f"sum of cell {group[0, everyone.target]} of every round, user {user}'s records{gone}",
        "network": f"sum of the network of every round, user {user}'s records{gone}",
    }
    upload = audit.Subject(realization, whose[scenario.privacy.observer], delta, epsilon)
    yield from of_messages(scenario, upload, message, moved, rho, generator)
    rho = spent(scenario, everyone, moved)
    observer = f"sum of all uploads of every round, user {user}'s records"
    summed = audit.Subject(realization, observer, delta, float(exact_epsilon(rho, delta)))
    yield from of_messages(scenario, summed, everyone, moved, rho, generator)


def seen(scenario: Multicell, users: Users, generator: np.random.Generator) -> tuple[Users, str]:
    """The tested user's group as the observer sees its sum: without the noise of as many as may be gone; in words.

    Those of most noise are: a share of the senders colludes, and as many are missing as in any drawn round whose sum
    the code that trains opens.
    """
    privacy, grouped = scenario.privacy, users.grouped()
    if privacy.observer == "user":
        return grouped, ""
    sends, own, senders = grouped.scheduled, grouped.target, grouped.scheduled.sum(axis=1)
    missing = np.zeros(len(sends), int)
    if privacy.dropouts:
        heard = sums.rounds_heard(privacy, sends, grouped.group, -(-DROPOUTS // len(sends)) * len(sends), generator)
        heard = heard.reshape(len(sends), -1, heard.shape[1])
        lacking = np.where(heard[..., own], senders[:, None] - heard.sum(axis=2), 0).max(axis=1)
        missing = np.maximum(sums.dropping(privacy, senders), lacking)
    # Counted anew: what noise and accounts count by is tested, too.
    colluding = np.minimum(np.ceil(privacy.colluders * senders - 1e-9), np.maximum(senders - 1, 0)).astype(int)
    amount = np.where(sends, grouped.samples * grouped.noise_std, -1.0)
    amount[:, own] = -2.0
    rank = np.argsort(np.argsort(-amount, axis=1, kind="stable"), axis=1)
    gone = sends & (rank < (colluding + missing)[:, None]) & (np.arange(sends.shape[1]) != own)
    first = int(np.argmax(sends[:, own]))
    words = f"; of {senders[first]} senders {colluding[first]} collude and {missing[first]} are missing"
    return grouped._replace(noise_std=np.where(gone, 0.0, grouped.noise_std)), words


def of_messages(
    scenario: Multicell,
    subject: audit.Subject,
    users: Users,
    moved: float,
    rho: float,
    generator: np.random.Generator,
) -> Iterator[audit.Verdict]:
    """Tests of what some users' messages add up to.

    `moved` is how far one record moves the tested user's at most, `rho` what all rounds are stated to cost it.
    """
    share, std = in_sums(scenario.training, users)
    stated = np.repeat(std, _coherence(scenario, users))[:, None] * np.sqrt(spent(scenario, users, moved) / rho)
    reached = not user_code.is_reference(scenario.training.model)
    yield audit.sensitivity(subject, moves(scenario, users, generator), moved * share[0], reached=reached)
    yield from audit.noise(subject, noise(scenario, users), stated)
    if scenario.training.bits is None:
        yield from audit.signal(subject, *canary_scores(scenario, users, generator))
        return
    # Of integers, what is stated is a bound, and canaries show what noise that is no integer would.
    yield from audit.signal(subject, *canary_scores(scenario, users, generator), np.sqrt(2 * rho))
    yield audit.at_least(subject, float(exact_epsilon(np.array(rho), subject.delta)))


def spent(scenario: Multicell, users: Users, moved: float) -> float:
    """rho of the tested user's record in what the messages add up to, by their noise."""
    share, std = in_sums(scenario.training, users)
    return float(zcdp(moved * share, std, _coherence(scenario, users)).sum())


def in_sums(training: Training, users: Users) -> tuple[np.ndarray, np.ndarray]:
    """The tested user's share of the sums of the intervals in which it sends, and their noise's deviations."""
    own = users.scheduled[:, users.target]
    counted = counts(training, users.samples, users.scheduled, users.noise_std, users.group)[own]
    noise = np.where(users.scheduled, users.noise_std, 0.0)[own]
    total = counted.sum(axis=1)
    return counted[:, users.target] / total, np.sqrt(((counted * noise) ** 2).sum(axis=1)) / total


def moves(scenario: Multicell, users: Users, generator: np.random.Generator) -> np.ndarray:
    """How far the users' message moves as a record of the tested user is replaced by an opposite one, noise off.

    For each layer in turn, the record first or last among the user's; all others are blank. Of the user's own model,
    whose layers may be any, a record of several sizes gets another label.
    """
    training, size = scenario.training, features.size(scenario)
    model, logits = model_of(training, size)[0], logits_of(training, size)
    senders = users.senders(training)
    interval = int(np.argmax(users.scheduled[:, users.target]))
    # Where a mean is clipped, one record is to outweigh the other's biases.
    outweighed = 100 * users.samples[users.target] if training.clipping == "per_user" else 1
    before = users.samples[: users.target].sum()

    def query(gradient, weights, *_, **in_integers):
        found, clipped = gradient(weights)
        if in_integers:
            vectors, factors, *_ = found
            found = as_weights(tf.linalg.matvec(vectors, tf.cast(factors, tf.float32), transpose_a=True), weights)
        return found, clipped

    def released(weights, x, y):
        advance = advance_function(
            model, x, y, senders, len(users.scheduled), training, tf.constant(1.0), tf.constant(0, tf.int64), query
        )
        return advance(weights, tf.constant(interval * _coherence(scenario, users)), tf.constant(1))[0]

    if user_code.is_reference(training.model):
        cases = adversarial.tied(logits, start_weights(training, size, generator), size.features, generator)
    else:
        cases = adversarial.opposed(
            logits, shapes(training, size), size.features, outweighed * training.clip_norm, generator
        )
    places = before, before + users.samples[users.target] - 1
    return adversarial.moves(released, cases, users.samples.sum(), places)


def noise(scenario: Multicell, users: Users) -> np.ndarray:
    """The noise of the users' message, of records without a gradient, of the streams that a test compares.

    Returns
    -------
    Shape (stream, round, coordinate), of the rounds in which the tested user sends.
    """
    training, coherence = scenario.training, _coherence(scenario, users)
    rounds = np.flatnonzero(np.repeat(users.scheduled[:, users.target], coherence))
    width = audit.width(len(rounds))
    one_each = np.ones_like(users.samples)
    senders, few = users.senders(training), users._replace(samples=one_each).senders(training)
    few = few._replace(noise_std=senders.noise_std, messages=senders.messages)
    x = tf.zeros([len(one_each), width])
    keys = [streams.key(*stream) for stream in streams.of_tested_noise(scenario)]
    heard = _heard(training, len(users.scheduled), width)
    return np.array(
        [heard(tf.constant(key, tf.int64), few, x, tf.constant(rounds, tf.int32)).numpy() for key in keys], float
    )


@lru_cache(maxsize=4)
def _heard(training: Training, intervals: int, width: int) -> Callable:
    """What some senders' messages of a model with zero weights add up to in some rounds, traced once for all users."""

    @tf.function(
        input_signature=[
            tf.TensorSpec([], tf.int64),
            senders_spec(training, intervals),
            tf.TensorSpec([None, width], tf.float32),
            tf.TensorSpec([None], tf.int32),
        ]
    )
    def heard(key, senders, x, rounds):
        advance = advance_function(_linear(training), x, None, senders, intervals, training, tf.constant(1.0), key)
        start = [tf.zeros([width, 1]), tf.zeros(1)]
        return tf.map_fn(
            lambda t: -advance(start, t, tf.constant(1))[0][0][:, 0],
            rounds,
            fn_output_signature=tf.float32,
            parallel_iterations=1,
        )

    return heard


def canary_scores(scenario: Multicell, users: Users, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Coins and scores of the tested user's canaries in several runs of all rounds.

    All records but the canaries are blank. Run r takes the noise of realization r. Scores are log-likelihood ratios
    over mu, of deviation 1 if the noise is as the tables say.

    Returns
    -------
    Which record each canary is, and its score, shape (run, canary).
    """
    training, samples, scheduled, user = scenario.training, users.samples, users.scheduled, users.target
    coherence = _coherence(scenario, users)
    # A clipped mean has one direction, so there one record decides over all of it.
    width = 1 if training.clipping == "per_user" else min(samples[user], WIDEST)
    runs = min(-(-scenario.audit.canaries // width), RUNS)
    first = audit.coins(generator, runs, width)
    keys = [streams.key(*streams.of_noise(scenario), run) for run in range(runs)]
    share, std = in_sums(training, users)
    weight = tf.constant(share / std**2 / np.sqrt(coherence * ((share / std) ** 2).sum()), tf.float32)
    own = tf.constant(np.flatnonzero(scheduled[:, user]), tf.int32)
    senders = users.senders(training)
    before = samples[:user].sum()
    blank = [[before, samples.sum() - before - width], [0, 0]]
    summed = np.where(scheduled & (users.group == users.group[:, [user]]), samples, 0).sum(axis=1)[scheduled[:, user]]
    size = parameter_count(training, features.size(scenario)) if training.bits else 0
    room = max(width, ceil(width * size / summed.min() ** 2))
    totals = _totals(training, len(scheduled), width, room)
    signs, keys = tf.constant(audit.signs_of(first)), tf.constant(keys, tf.int64)
    scores = totals(signs, keys, senders, tf.constant(blank, tf.int32), weight, own)
    return first, scores.numpy().astype(float)


@lru_cache(maxsize=4)
def _totals(training: Training, intervals: int, width: int, room: int) -> Callable:
    """The scores of canaries of some signs, shape (run, canary), traced once for all users."""
    canary = LARGE * training.clip_norm * np.eye(width, room, dtype=np.float32)
    coherence = training.rounds // intervals

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, width], tf.float32),
            tf.TensorSpec([None], tf.int64),
            senders_spec(training, intervals),
            tf.TensorSpec([2, 2], tf.int32),
            tf.TensorSpec([None], tf.float32),
            tf.TensorSpec([None], tf.int32),
        ]
    )
    def totals(signs, keys, senders, blank, weight, own):
        # A grid is for sums no larger than all records make them: canaries are to be no larger in a coordinate, and
        # blank records, whose gradients are 1 for the bias, nothing.
        model, y = (_of_canaries, tf.pad(tf.ones([width, 1]), blank)) if training.bits else (_linear(training), None)

        def total(run):
            signs, key = run
            x = tf.ensure_shape(tf.pad(signs[:, None] * canary, blank), [None, room])
            advance = advance_function(model, x, y, senders, intervals, training, tf.constant(1.0), key)
            start, score = [tf.zeros([room, 1]), tf.zeros(1)], tf.zeros(width)
            for k in tf.range(tf.size(own)):
                (kernel, _), _ = advance(start, own[k] * coherence, tf.constant(coherence))
                score -= weight[k] * kernel[:width, 0]
            return score

        return tf.map_fn(total, (signs, keys), fn_output_signature=tf.float32, parallel_iterations=1)

    return totals


def _of_canaries(weights: list, x: tf.Tensor, y: tf.Tensor) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    """As `linear`, of records that have a gradient where y is 1, and none where it is 0."""
    return [x], [y]


def _linear(training: Training):
    """The model whose gradients are its records, as the engine of this training takes it."""
    return linear if training.model == "dense" else linear_losses


def _coherence(scenario: Multicell, users: Users) -> int:
    """Rounds of an interval."""
    return scenario.training.rounds // len(users.scheduled)
