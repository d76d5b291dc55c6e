"""Audit of the system `anonymous_oac`: what the server receives, in networks drawn anew for each run.

The privacy comes from who takes part and what is sampled as much as from noise, so each run draws
channels, batches and noise as the study's realizations do, with a canary on each device. The loss is <w, x> + b
as for `multicell`, whose canaries these are: a round's noise-free update moves by +-L along a canary's direction if
that is in the batch, over a noise of 2 L times the multiplier. The score is the log-likelihood ratio of
both signs, of what the observer knows of the sampling.
"""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import polars as pl
import tensorflow as tf
from scipy.stats import binom

from pwfl import streams
from pwfl.learning import adversarial, features, network
from pwfl.learning.linear import LARGE, linear
from pwfl.learning.mlp import shapes
from pwfl.privacy import audit
from pwfl.scenario.values import replaced
from pwfl.systems.anonymous_oac import batches, participation, sampled
from pwfl.systems.anonymous_oac.mechanism import readings, strengths
from pwfl.systems.anonymous_oac.parameters import AnonymousOac
from pwfl.systems.anonymous_oac.rounds import Sent, drawn, received
from pwfl.systems.anonymous_oac.schemes import NOISES, READINGS
from pwfl.tables.arrays import to_array

LOCAL_RUNS = 1000  # of networks of one device, at most
OVER_THE_AIR, UPLOAD = "sum of all uploads of every round", "one device's upload of every round"


class Network(NamedTuple):
    """A network's tables, and what is sent in it.

    Attributes
    ----------
    sent
        Rows are places of records that follow each other device by device.
    taken
        Who takes part with how many records, of the table `schedule`.
    """

    sent: Sent
    taken: pl.DataFrame


def verdicts(scenario: AnonymousOac, tables: dict[str, pl.DataFrame]) -> Iterator[audit.Verdict]:
    """On what the server receives, under the reading that the scheme's epsilon is stated for.

    A device's own upload is seen in a network of one device.
    """
    outcome = audit.worst(tables["outcome"])
    multiplier, scheme = outcome["noise_multiplier"], tables["noise"]["noise"][0]
    local = NOISES[scheme].local
    subject = audit.Subject(
        outcome["realization"], UPLOAD if local else OVER_THE_AIR, outcome["delta"], outcome["epsilon_exact"]
    )
    if np.isinf(subject.epsilon):
        yield audit.untested(subject)
        return
    alone = replaced(scenario, "network.devices", 1 if local else scenario.network.devices)
    runs = -(-scenario.audit.canaries // alone.network.devices)
    seen = list(
        networks(alone, scheme, tables["noise"]["noise_multiplier"][0], min(runs, LOCAL_RUNS) if local else runs)
    )
    generator = streams.generator(scenario.seed, "audit", outcome["realization"])
    divisor = np.array([divisors(alone, scheme, each) for each in seen[:2]])
    heard = np.flatnonzero((divisor > 0).all(axis=0))  # in both of the first two runs
    if not len(heard):
        yield audit.untested(subject._replace(epsilon=None))
        return
    moved = 2 * scenario.training.clip_norm / divisor[:, heard, None]  # at most, by a record
    yield audit.sensitivity(subject, moves(alone, seen[0].sent, heard[0], generator), moved[0, 0, 0])
    runs = [0, 1, 0]  # of the streams that a test compares
    draws = noise(scenario, [seen[run].sent for run in runs], heard)
    yield from audit.noise(subject, draws, multiplier * moved[runs])
    reading, rounds = outcome["reading"], scenario.training.rounds
    rates = law_of(alone, scheme, reading, tables)
    least = sampled.opposite_epsilon(rates, multiplier, [rounds], subject.delta, sampled.COARSE)
    yield audit.at_least(subject, float(least[0]))
    law = partial(sampled.opposite_loss, rates, multiplier, rounds)
    scores = canary_scores(alone, scheme, reading, multiplier, seen, generator)
    yield audit.distribution(subject, audit.LOSS, scores, law, sampled.COARSE * np.sqrt(rounds))
    chance = scenario.network.participation * scenario.data.sampling
    sent = np.array([rounds_with(alone, each.sent) for each in seen])
    yield audit.distribution(subject, "rounds that a record is in", sent, binom(rounds, chance).cdf, 0.5)


def networks(scenario: AnonymousOac, scheme: str, multiplier: float, runs: int) -> Iterator[Network]:
    """The runs' networks, drawn by the stages that draw the study's."""
    tables = participation.draw(scenario, range(runs))
    way = "orthogonal" if NOISES[scheme].local else "over_the_air"
    tables |= {"schedule": participation.batches(scenario, way, tables)}
    noise = strengths(scenario, scheme, multiplier, tables).partition_by("realization", as_dict=True)
    schedule = tables["schedule"].partition_by("realization", as_dict=True)
    samples = to_array(tables["users"].filter(pl.col("realization") == 0), "samples", "user")
    for run in range(runs):
        taken = schedule.get((run,), tables["schedule"].clear())
        generator = streams.generator(scenario.seed, "records", run)
        yield Network(drawn(taken, noise[run,], samples, generator), taken)


def divisors(scenario: AnonymousOac, scheme: str, seen: Network) -> np.ndarray:
    """What the sum of each round's gradients is divided by, shape (round,); 0 where nothing is sent.

    As the batches are, by Sec. III, or are expected to be.
    """
    _, local, fixed = NOISES[scheme]
    place, batch = seen.taken["round"].to_numpy() - 1, seen.taken["batch"].to_numpy()
    rounds, network = scenario.training.rounds, scenario.network
    if not fixed:
        return np.bincount(place, batch, rounds)
    of_each = scenario.data.samples * scenario.data.sampling
    senders = np.bincount(place, minlength=rounds)
    return of_each * (senders if local else np.where(senders, network.devices * network.participation, 0.0))


def moves(scenario: AnonymousOac, sent: Sent, t: int, generator: np.random.Generator) -> np.ndarray:
    """How far what is received in round t moves as a record of its batch is replaced by an opposite one, noise off."""
    training, size = scenario.training, features.size(scenario)
    count = int(sent.stops[t + 1] - sent.stops[t])
    batch = Sent.of(np.arange(count), [0, count], sent.mean_weight[t : t + 1], [0.0])
    clip_norm, key = tf.constant(training.clip_norm, tf.float32), tf.constant(0, tf.int64)

    def released(weights, x, y):
        return received(network.backward, weights, x, y, batch, clip_norm, key, tf.constant(0))[0]

    widths = [size.features, *training.hidden_layers, size.classes]
    cases = adversarial.opposed(network.logits, shapes(widths), size.features, training.clip_norm, generator)
    return adversarial.moves(released, cases, count, (0, count - 1))


def noise(scenario: AnonymousOac, sent: list[Sent], rounds: np.ndarray) -> np.ndarray:
    """What is received in some rounds, of records without a gradient, shape (stream, round, coordinate)."""
    width = audit.width(len(rounds))
    start = [tf.zeros([width, 1]), tf.zeros(1)]
    clip_norm, one = tf.constant(scenario.training.clip_norm, tf.float32), tf.zeros([1, width])

    @tf.function
    def heard(sent, key):
        def of_round(t):
            return received(linear, start, one, None, sent, clip_norm, key, t)[0][0][:, 0]

        return tf.map_fn(of_round, tf.constant(rounds, tf.int32), fn_output_signature=tf.float32, parallel_iterations=1)

    heard_in = []
    for stream, each in zip(streams.of_tested_noise(scenario), sent, strict=True):
        key = tf.constant(streams.key(*stream), tf.int64)
        count = len(each.noise_std)  # one blank record in each round's batch
        blank = Sent.of(np.zeros(count), np.arange(count + 1), each.mean_weight, each.noise_std)
        heard_in.append(heard(blank, key).numpy())
    return np.array(heard_in, float)


def rounds_with(scenario: AnonymousOac, sent: Sent) -> np.ndarray:
    """In how many rounds' batches each device's first record is, shape (device,)."""
    device, place = np.divmod(sent.rows.numpy(), scenario.data.samples)
    return np.bincount(device[place == 0], minlength=scenario.network.devices)


def chances(scenario: AnonymousOac, scheme: str, reading: str, seen: Network) -> np.ndarray:
    """Each device's canary's chance to be in the batch, as the observer knows it, shape (round, device).

    0 in rounds in which nothing is sent.
    """
    _, local, fixed = NOISES[scheme]
    shape = scenario.training.rounds, scenario.network.devices
    samples, sampling = scenario.data.samples, scenario.data.sampling
    part, batch = np.zeros(shape), np.zeros(shape)
    place = seen.taken["round"].to_numpy() - 1, seen.taken["user"].to_numpy()
    part[place], batch[place] = 1.0, seen.taken["batch"].to_numpy()
    if not READINGS[reading].participation:
        sent = divisors(scenario, scheme, seen)[:, None] > 0
        return np.where(sent, _hidden(scenario, fixed).values[0], np.zeros(shape))
    if fixed:
        return part * sampling
    if local:
        return batch / samples
    return part * (batch.sum(axis=1) / np.maximum(part.sum(axis=1) * samples, 1))[:, None]


def law_of(scenario: AnonymousOac, scheme: str, reading: str, tables: dict[str, pl.DataFrame]) -> sampled.Rates:
    """The law of `chances`: that of the accountant, but for rounds in which nothing is sent, where these tell."""
    if READINGS[reading].participation:
        return readings(scenario, scheme, tables)[reading]
    return _hidden(scenario, NOISES[scheme].fixed)


def _hidden(scenario: AnonymousOac, fixed: bool) -> sampled.Rates:
    """Nobody can tell who takes part, but that nothing is sent: without participants, or without records."""
    chance, sampling = scenario.network.participation, scenario.data.sampling
    with_records = 1.0 if fixed else 1 - (1 - sampling) ** scenario.data.samples
    sent = 1 - (1 - chance * with_records) ** scenario.network.devices
    return batches.seen(sent, batches.poisson(chance * sampling / sent))


def canary_scores(
    scenario: AnonymousOac,
    scheme: str,
    reading: str,
    multiplier: float,
    runs: list[Network],
    generator: np.random.Generator,
) -> np.ndarray:
    """Log-likelihood ratios of all devices' canaries, in favour of what they are, in all runs, shape (run, device).

    A device's first record is its canary; all others are blank. Run r takes the noise of realization r.
    """
    devices, samples, clip_norm = scenario.network.devices, scenario.data.samples, scenario.training.clip_norm
    first = audit.coins(generator, len(runs), devices)
    canaries = tf.concat([LARGE * clip_norm * tf.eye(devices), tf.zeros([1, devices])], axis=0)
    start, shift = [tf.zeros([devices, 1]), tf.zeros(1)], 1 / (2 * multiplier)

    @tf.function(reduce_retracing=True)
    def play(signs, sent, stated, rate, key):
        x = canaries * tf.concat([signs, [1.0]], axis=0)[:, None]
        scores = tf.zeros([devices])
        for t in tf.range(tf.size(sent.noise_std)):
            (moved, _), _ = received(linear, start, x, None, sent, tf.constant(clip_norm, tf.float32), key, t)
            seen = moved[:, 0] / stated[t]
            plus, minus = (
                tf.math.log1p(rate[t] * tf.math.expm1(sign * shift * seen - shift**2 / 2)) for sign in (1.0, -1.0)
            )
            scores += plus - minus
        return scores

    scores = []
    for run, (signs, each) in enumerate(zip(audit.signs_of(first), runs, strict=True)):
        divisor = divisors(scenario, scheme, each)
        heard = np.flatnonzero(divisor)  # rounds in which nothing is sent tell nothing, and are counted through
        device, place = np.divmod(each.sent.rows.numpy(), samples)
        stops = each.sent.stops.numpy()
        sent = Sent.of(
            np.where(place == 0, device, devices),
            np.append(stops[heard], stops[-1]),
            each.sent.mean_weight.numpy()[heard],
            each.sent.noise_std.numpy()[heard],
        )
        stated = multiplier * 2 * clip_norm / divisor[heard]
        rate = chances(scenario, scheme, reading, each)[heard]
        key = tf.constant(streams.key(*streams.of_noise(scenario), run), tf.int64)
        told = tf.constant(stated, tf.float32), tf.constant(rate, tf.float32)
        scores.append(play(tf.constant(signs), sent, *told, key).numpy())
    told = np.where(first, scores, np.negative(scores)).astype(float)
    return np.clip(np.nan_to_num(told, nan=np.inf), -sampled.FARTHEST, sampled.FARTHEST)
