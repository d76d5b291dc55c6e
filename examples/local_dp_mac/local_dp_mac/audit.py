"""Stage audit: what the server receives in the worst-off device's slot: sensitivity, noise, what canary records show.

That is the mean gradient of the devices that share the slot: of all over the air, of one alone one after the other.
"""

from collections.abc import Iterator

import numpy as np
import polars as pl
import tensorflow as tf

from local_dp_mac.descent import descend
from local_dp_mac.reception import received
from pwfl import streams
from pwfl.learning import adversarial, datasets, engine, mlp, network
from pwfl.privacy import audit

FAR = np.float32(1e4)  # features so large that next to nothing of a canary's gradient is the bias's


def verdicts(scenario, tables: dict[str, pl.DataFrame]) -> Iterator[audit.Verdict]:
    """Tests of what the server sees of the worst-off device, in the realization whose worst record is worst off."""
    outcome = audit.worst(tables["outcome"])
    realization, epsilon = outcome["realization"], outcome["epsilon_exact"]
    device = tables["leakage"].filter(realization=realization).sort("epsilon", descending=True)["user"][0]
    observer = f"what is received in the slot of device {device} of every round"
    subject = audit.Subject(realization, observer, outcome["delta"], epsilon)
    if not np.isfinite(epsilon):
        yield audit.untested(subject)
        return
    heard = received(tables).filter(realization=realization)
    heard = heard.join(heard.filter(user=device), on=["round", "slot"], how="semi").sort("round", "user")
    sharing = heard.filter(round=heard["round"][0]).select("user")
    records = tables["users"].filter(realization=realization).join(sharing, on="user", how="semi")["samples"].sum()
    noise_std = heard.filter(user=device)["received_std"].to_numpy() / len(sharing)
    generator = streams.generator(scenario.seed, "canaries", realization)
    stated = 2 * scenario.training.clip_norm / records
    yield audit.sensitivity(subject, moves(scenario, records, generator), stated)
    yield from audit.noise(subject, noise(scenario, noise_std), noise_std[:, None])
    first = audit.coins(generator, scenario.audit.canaries)
    yield from audit.signal(subject, first, scores(scenario, records, noise_std, first))


def moves(scenario, records: int, generator: np.random.Generator) -> np.ndarray:
    """How far the mean gradient moves as a record is replaced by an opposite one, shape (layer, place)."""
    size = datasets.size(scenario.data)
    clip = tf.constant(scenario.training.clip_norm, tf.float32)

    def released(weights, x, y):
        return engine.per_sample_gradient(network.backward, x, y, clip)(weights)[0]

    shapes = mlp.shapes([size.features, *scenario.training.hidden_layers, size.classes])
    cases = adversarial.opposed(network.logits, shapes, size.features, scenario.training.clip_norm, generator)
    return adversarial.moves(released, cases, records, (0, records - 1))


def noise(scenario, noise_std: np.ndarray) -> np.ndarray:
    """What the server sees of a gradient that is zero, shape (stream, round, coordinate)."""
    rounds = len(noise_std)
    start = [tf.zeros([audit.width(rounds)])]
    tested = streams.of_tested_noise(scenario)
    return np.array([_seen(lambda w: (w, tf.constant(0.0)), start, noise_std, stream)[0] for stream in tested])


def scores(scenario, records: int, noise_std: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Log-likelihood ratios over mu of canaries, which are a weight of a linear layer each; shape (canary,).

    A canary's gradient is clipped to L and counts as that of one of the records of the slot, of one of m canaries
    here: L is scaled by m / records.
    """
    width, canary = int(np.ceil(np.sqrt(first.size))), np.arange(first.size)
    row, column = np.divmod(canary, width)
    x, derivative = np.zeros((2, first.size, width), np.float32)
    x[canary, row], derivative[canary, column] = FAR, FAR * audit.signs_of(first)
    clip = tf.constant(scenario.training.clip_norm * first.size / records, tf.float32)
    gradient = engine.per_sample_gradient(
        lambda weights, x, y: ([x], [y]), tf.constant(x), tf.constant(derivative), clip
    )
    start = [tf.zeros((width, width)), tf.zeros(width)]
    seen = _seen(gradient, start, noise_std, (*streams.of_noise(scenario), 0))[0]
    weight = 1 / noise_std**2 / np.sqrt((1 / noise_std**2).sum())
    return np.tensordot(weight, seen, 1)[row, column]


def _seen(gradient: engine.Gradient, start: list[tf.Tensor], noise_std: np.ndarray, stream: tuple):
    """Steps of -1 from zero, round by round, with the noise of a stream: arrays of shape (round, ...)."""
    key = tf.constant(streams.key(*stream), tf.int64)

    @tf.function
    def sent(t):
        return descend(gradient, tf.constant(-1.0), tf.constant(noise_std, tf.float32), key)(start, t, tf.constant(1))[
            0
        ]

    rounds = [sent(tf.constant(t)) for t in range(len(noise_std))]
    return [np.array([part.numpy() for part in parts], float) for parts in zip(*rounds, strict=True)]
