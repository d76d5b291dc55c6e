"""Audit of the system `utility_fair`: copies of the model, or uploads, as the account takes them.

A canary moves the model, or what a device sends, by +-S_f / 2 along a coordinate of its own. Where uploads are clipped,
that no record moves them further is tested through the real network and all local steps; otherwise it is assumed.
"""

from collections.abc import Iterator

import numpy as np
import polars as pl
import tensorflow as tf

from pwfl import streams
from pwfl.learning import adversarial, features, mlp
from pwfl.privacy import audit
from pwfl.systems.utility_fair import local_steps, uploads
from pwfl.systems.utility_fair.parameters import UtilityFair
from pwfl.systems.utility_fair.rounds import STREAMS, near, noisy_copies, noisy_uploads, round_noise
from pwfl.training import dense

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
        messages, std = copies, plan["noise_std"].to_numpy()
        half = np.full(len(plan), scenario.privacy.sensitivity / 2)
        rounds = range(2, scenario.training.rounds + 1)  # the first round's copies are clean
    else:
        apart = "S_f apart" if clip_norm is None else "clipped"
        observer = f"a device's gradients and updates of every round; each {apart}"
        plan = plan.sort("upload_std", maintain_order=True).head(1)
        messages, std = sent, np.repeat(plan["upload_std"].to_numpy(), uploads.SENT)
        moved = uploads.sensitivity(clip_norm, scenario.device.batch_size, scenario.privacy.sensitivity)
        half = np.full(uploads.SENT, moved / 2)
        rounds = range(1, scenario.training.rounds + 1)
    subject = audit.Subject(realization, observer, outcome["delta"], outcome["epsilon_exact"])
    if np.isinf(subject.epsilon):
        yield audit.untested(subject)
        return
    if messages is sent and clip_norm is not None:
        for message, norms in moves(scenario, generator).items():
            yield audit.sensitivity(subject, norms, 2 * half[0], message)
    tested = [[streams.key(*stream) for stream in streams.of_tested_noise(scenario, purpose)] for purpose in STREAMS]
    keys = list(zip(*tested, strict=True))
    scaled = heard(messages, plan, rounds, keys, audit.width(len(rounds) * len(std))) / std[:, None]
    yield from audit.noise(subject, scaled.reshape(len(keys), len(rounds), -1), 1.0)
    if len(std) > 1:
        each = np.moveaxis(scaled, 2, 0).reshape(len(std), -1)
        yield audit.correlation(subject, "noise of different messages of a round", each)
    runs = -(-scenario.audit.canaries // WIDTH)
    first = audit.coins(generator, runs, WIDTH)
    keys = [[streams.key(*streams.of_noise(scenario, purpose), run) for purpose in STREAMS] for run in range(runs)]
    seen = heard(messages, plan, rounds, keys, WIDTH) + half[:, None] * audit.signs_of(first)[:, None, None]
    weight = half / std**2 / np.sqrt(len(rounds) * ((half / std) ** 2).sum())
    yield from audit.signal(subject, first, np.einsum("rtmc,m->rc", seen, weight))


def heard(messages, plan: pl.DataFrame, rounds: range, keys: list, width: int) -> np.ndarray:
    """What observers see of some rounds, of a model or vectors that are zero.

    Returns
    -------
    Shape (run, round, message, coordinate); `keys` has those of each run's noise, by STREAMS.
    """
    std = plan["noise_std"].to_numpy()
    play = tf.function(messages, reduce_retracing=True)
    zero = tf.zeros([width, 1])
    return np.array([[play(zero, round_noise(plan, std, of_run, t)).numpy() for t in rounds] for of_run in keys], float)


def copies(model: tf.Tensor, noise) -> tf.Tensor:
    """The devices' copies of a model of one layer, shape (device, coordinate)."""
    start = [model, tf.zeros(1)]
    return noisy_copies(start, noise.copy_std, noise.vectors, noise.copy_seed)[0][..., 0]


def sent(vector: tf.Tensor, noise) -> tf.Tensor:
    """What a device sends of a gradient and an update that are alike, shape (2, coordinate)."""
    parts = [
        noisy_uploads([vector[None]], noise.upload_std, seed)[0][0, :, 0] for seed in tf.unstack(noise.upload_seeds)
    ]
    return tf.stack(parts)


def moves(scenario: UtilityFair, generator: np.random.Generator) -> dict[str, np.ndarray]:
    """How far a gradient and an update move as a record of the batch is replaced by an opposite one, without noise.

    All other records are blank. The average gradient, which an update starts from, turns the last layer around: so
    records that the copy takes for each other's class are taken for their own after a step.
    """
    training, size, batch = scenario.training, features.size(scenario), scenario.device.batch_size
    radius = uploads.radius(training.clip_norm, batch)
    shapes = mlp.shapes([size.features, *training.hidden_layers, size.classes])
    outweighed = 100 * batch * max(training.clip_norm, 1.0)

    def in_device(weights, x, y):
        return [w[None] if w.shape.rank == 2 else w[None, None] for w in weights], x[None], y[None]

    def gradient(weights, x, y):
        return local_steps.gradients(*in_device(weights, x, y), radius)

    def update(weights, x, y):
        copied, x, y = in_device(weights, x, y)
        around = 2 / training.learning_rate * tf.cast(weights[-1] >= 0, tf.float32)  # of the two classes
        direction = [tf.zeros_like(w) for w in copied[:-2]] + [around * w for w in copied[-2:]]
        steps = tf.constant([STEPS])
        known = local_steps.straight(direction, steps, training.learning_rate)
        moved = local_steps.updates(copied, x, y, direction, steps, training.learning_rate)
        return [m - k for m, k in zip(near(moved, known, radius), known, strict=True)]

    found = {}
    for message, released in (("gradient", gradient), ("update", update)):
        cases = adversarial.opposed(dense.outputs, shapes, size.features, outweighed, generator)
        found[message] = adversarial.moves(released, cases, batch, (0, batch - 1))
    return found
