"""Audit of the system `utility_fair`: copies of the model, or uploads, as the account takes them.

A canary moves the model, or what a device sends, by +-S_f / 2 along a coordinate of its own. Where uploads are clipped,
that no record moves them further is tested through the real network and all local steps; otherwise it is assumed.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
import polars as pl
import tensorflow as tf

from pwfl import streams
from pwfl.learning import adversarial, features
from pwfl.privacy import audit
from pwfl.systems.utility_fair import uploads
from pwfl.systems.utility_fair.parameters import UtilityFair
from pwfl.systems.utility_fair.rounds import COPIES, GRADIENTS, STREAMS, UPDATES, Noise, learning, round_function
from pwfl.training import models, trainable
from pwfl.training.trainable import Dense

WIDTH = 500  # canaries in one run
STEPS = 2  # local iterations in which a record turns an update around


def verdicts(scenario: UtilityFair, tables: dict[str, pl.DataFrame]) -> Iterator[audit.Verdict]:
    """On what the exact epsilon is of, and held to it.

    Clean uploads: all devices' copies of all noisy rounds, at deviation 0. Noisy ones: one device's uploads.
    """
    outcome = audit.worst(tables["outcome"])
    realization, clip_norm = outcome["realization"], scenario.training.clip_norm
    plan = tables["noise"].filter(pl.col("realization") == realization).sort("device")
    generator = streams.generator(scenario.seed, "audit", realization)
    if plan["upload_std"].null_count():
        observer = "all devices' copies of every noisy round; models S_f apart"
        plan = plan.unique("noise_vector", keep="first", maintain_order=True)  # the same noise makes the same copy
        std = plan["copy_std"].to_numpy()
        half = np.full(len(plan), scenario.privacy.sensitivity / 2)
        rounds = range(2, scenario.training.rounds + 1)  # the first round's copies are clean
    else:
        apart = "S_f apart" if clip_norm is None else "clipped"
        observer = f"a device's gradients and updates of every round; each {apart}"
        plan = plan.sort("upload_std", maintain_order=True).head(1)
        std = np.repeat(plan["upload_std"].to_numpy(), uploads.SENT)
        moved = uploads.sensitivity(clip_norm, scenario.device.batch_size, scenario.privacy.sensitivity)
        half = np.full(uploads.SENT, moved / 2)
        rounds = range(1, scenario.training.rounds + 1)
    subject = audit.Subject(realization, observer, outcome["delta"], outcome["epsilon_exact"])
    if np.isinf(subject.epsilon):
        yield audit.untested(subject)
        return
    if _noisy(plan) and clip_norm is not None:
        reached = trainable.model_of(models.network(scenario.training, features.size(scenario))).known
        for message, norms in moves(scenario, plan, generator).items():
            yield audit.sensitivity(subject, norms, 2 * half[0], message, reached)
    tested = [[streams.key(*stream) for stream in streams.of_tested_noise(scenario, purpose)] for purpose in STREAMS]
    keys = list(zip(*tested, strict=True))
    scaled = heard(scenario, plan, rounds, keys, audit.width(len(rounds) * len(std))) / std[:, None]
    yield from audit.noise(subject, scaled.reshape(len(keys), len(rounds), -1), 1.0)
    if len(std) > 1:
        each = np.moveaxis(scaled, 2, 0).reshape(len(std), -1)
        yield audit.correlation(subject, "noise of different messages of a round", each)
    runs = -(-scenario.audit.canaries // WIDTH)
    first = audit.coins(generator, runs, WIDTH)
    keys = [[streams.key(*streams.of_noise(scenario, purpose), run) for purpose in STREAMS] for run in range(runs)]
    seen = heard(scenario, plan, rounds, keys, WIDTH) + half[:, None] * audit.signs_of(first)[:, None, None]
    weight = half / std**2 / np.sqrt(len(rounds) * ((half / std) ** 2).sum())
    yield from audit.signal(subject, first, np.einsum("rtmc,m->rc", seen, weight))


def heard(scenario: UtilityFair, plan: pl.DataFrame, rounds: range, keys: list, width: int) -> np.ndarray:
    """What observers see of some rounds of a model without a gradient, all of whose `width` weights are zero.

    Returns
    -------
    Shape (run, round, message, coordinate), the messages each device's copy or, where uploads are noisy, the only
    device's gradient and update; `keys` has those of each run's noise, by STREAMS.
    """
    purposes, devices = (GRADIENTS, UPDATES) if _noisy(plan) else (COPIES,), len(plan)
    model = Dense((width, 1), start=lambda draws: [])  # one class is sure
    vectors = plan["noise_vector"].to_numpy()
    play = round_function(model, learning(scenario), int(vectors.max()) + 1, tapped=True)
    weights = [tf.zeros([width, 1]), tf.zeros(1)]
    x, y, steps = tf.zeros([devices, 1, width]), tf.zeros([devices, 1], tf.int32), tf.fill([devices], STEPS)
    std = tf.constant(plan["copy_std"].to_numpy(), tf.float32)
    upload_std = tf.constant(plan["upload_std"].to_numpy(), tf.float32) if _noisy(plan) else None
    still = {GRADIENTS: [tf.zeros([devices, *w.shape]) for w in weights]}  # updates follow what is received of these

    def of_round(of_run: list[int], t: int) -> np.ndarray:
        noise = Noise(std, tf.constant(vectors, tf.int32), *map(tf.constant, of_run), upload_std)
        *_, kept = play(weights, x, y, steps, noise, tf.constant(t), still)
        return np.concatenate([kept[purpose][0].numpy()[..., 0] for purpose in purposes])

    return np.array([[of_round(of_run, t) for t in rounds] for of_run in keys], float)


def moves(scenario: UtilityFair, plan: pl.DataFrame, generator: np.random.Generator) -> dict[str, np.ndarray]:
    """How far a gradient and an update move as a record of the batch is replaced by an opposite one, of equal noise.

    All other records are blank. The average gradient, which an update starts from, turns the last layer around: so
    records that the copy takes for each other's class are taken for their own after a step.
    """
    training, size, batch = scenario.training, features.size(scenario), scenario.device.batch_size
    model = trainable.model_of(models.network(training, size))
    play = round_function(model, learning(scenario), 1, tapped=True)
    outweighed = 100 * batch * max(training.clip_norm, 1.0)
    key, none = tf.constant(0, tf.int64), tf.zeros(1)
    noise = Noise(none, tf.zeros(1, tf.int32), key, key, key, none)

    def released(purpose: str, weights: list, x: tf.Tensor, y: tf.Tensor) -> list[tf.Tensor]:
        instead = None
        if purpose == UPDATES:
            around = 2 / training.learning_rate * tf.cast(weights[-1] >= 0, tf.float32)  # of the two classes
            direction = [tf.zeros_like(w) for w in weights[:-2]] + [around * w for w in weights[-2:]]
            instead = {GRADIENTS: [d[None] / training.correction for d in direction]}
        *_, kept = play(weights, x[None], y[None], tf.constant([STEPS]), noise, tf.constant(1), instead)
        return [part[0] for part in kept[purpose]]

    found = {}
    for message, purpose in (("gradient", GRADIENTS), ("update", UPDATES)):
        cases = model.opposed(outweighed, generator)
        found[message] = adversarial.moves(partial(released, purpose), cases, batch, (0, batch - 1))
    return found


def _noisy(plan: pl.DataFrame) -> bool:
    """Whether uploads are."""
    return not plan["upload_std"].null_count()
