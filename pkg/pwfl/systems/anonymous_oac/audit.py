"""Audit of the system `anonymous_oac`: one canary of each device, in networks drawn anew for each run.

The privacy comes from who takes part and what is sampled as much as from noise, so each run draws
channels, batches and noise as the study's realizations do. The loss is <w, x> + b as for `multicell`,
whose canaries these are: a round's noise-free update moves by +-L along a canary's direction if that
is in the batch, over a noise of 2 L times the multiplier. The score is the log-likelihood ratio of
both signs, of what the observer knows of the sampling.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
import tensorflow as tf

from pwfl import streams
from pwfl.learning.linear import LARGE, linear
from pwfl.privacy.audit import Attack, coins, signs_of, worst
from pwfl.scenario.values import replaced
from pwfl.systems.anonymous_oac import participation, sampled
from pwfl.systems.anonymous_oac.mechanism import readings, strengths
from pwfl.systems.anonymous_oac.rounds import Sent, Step, batches, mean_weights, train_rounds
from pwfl.systems.anonymous_oac.schemes import NOISES, READINGS
from pwfl.tables.arrays import to_array

if TYPE_CHECKING:
    from pwfl.systems.anonymous_oac.parameters import AnonymousOac

TELLING_DELTA = 0.05
LOCAL_RUNS = 1000  # of networks of one device, at most
OVER_THE_AIR, UPLOAD = "sum of all uploads of every round", "one device's upload of every round"


class Run(NamedTuple):
    """One network's training: the rounds in which something is sent, and what its observer knows of them.

    Attributes
    ----------
    sent
        Its rows are numbers of devices, whose canary each stands for; the number of devices stands for any record
        that is no canary.
    rate
        Chance of each device's canary to be in the batch, float32, shape (round, device).
    """

    sent: Sent
    rate: tf.Tensor


def attacks(scenario: "AnonymousOac", tables: dict[str, pl.DataFrame]) -> Iterator[Attack]:
    """On what the server receives, under the reading that the scheme's epsilon is stated for.

    At the outcome's delta, and at one where few canaries show most of a sampled mechanism.
    """
    outcome = worst(tables["outcome"])
    multiplier, scheme = tables["noise"].select("noise_multiplier", "noise").row(0)
    local, wanted = NOISES[scheme].local, scenario.audit.canaries
    # A device's own upload is seen in a network of one device.
    devices = 1 if local else scenario.network.devices
    alone = replaced(scenario, "network.devices", devices)
    runs = min(-(-wanted // devices), LOCAL_RUNS) if local else -(-wanted // devices)
    first = coins(streams.generator(scenario.seed, "audit", outcome["realization"]), runs, devices)
    signs, play = signs_of(first), play_function(devices, scenario.training.clip_norm, multiplier)
    scores = []
    for run, drawn in enumerate(networks(alone, scheme, multiplier, runs)):
        key = tf.constant(streams.key(scenario.seed, "noise", run), tf.int64)
        scores.append(play(tf.constant(signs[run]), drawn, key).numpy())
    law, rounds = readings(scenario, scheme, tables)[outcome["reading"]], scenario.training.rounds
    stated = {
        outcome["delta"]: outcome["epsilon_exact"],
        TELLING_DELTA: float(sampled.tight_epsilon(law, multiplier, [rounds], TELLING_DELTA, sampled.COARSE)[0]),
    }
    for delta, epsilon in stated.items():
        yield Attack(
            outcome["realization"],
            UPLOAD if local else OVER_THE_AIR,
            delta,
            epsilon,
            False,
            first.ravel(),
            np.array(scores).ravel(),
        )


def networks(scenario: "AnonymousOac", scheme: str, multiplier: float, runs: int) -> Iterator[Run]:
    """The runs' networks, drawn by the stages that draw the study's."""
    reading, local, fixed = NOISES[scheme]
    drawn = participation.draw(scenario, range(runs))
    drawn |= {"schedule": participation.batches(scenario, "orthogonal" if local else "over_the_air", drawn)}
    noise = strengths(scenario, scheme, multiplier, drawn).partition_by("realization", as_dict=True)
    taken = drawn["schedule"].partition_by("realization", as_dict=True)
    samples = to_array(drawn["users"].filter(pl.col("realization") == 0), "samples", "user")
    rounds, sampling = scenario.training.rounds, scenario.data.sampling
    for run in range(runs):
        schedule = taken.get((run,), drawn["schedule"].clear())
        generator = streams.generator(scenario.seed, "records", run)
        rows, stops = batches(schedule, samples, rounds, generator)
        device, place = np.divmod(rows, samples[0])
        std, divisor = (to_array(noise[run,], name, "round") for name in ("noise_std", "divisor"))
        part = np.zeros((rounds, len(samples)))
        batch = np.zeros((rounds, len(samples)))
        at = schedule["round"].to_numpy() - 1, schedule["user"].to_numpy()
        part[at], batch[at] = 1.0, schedule["batch"].to_numpy()
        if not READINGS[reading].participation:
            rate = np.full(part.shape, scenario.network.participation * sampling)
        else:
            rate = batch / samples if local and not fixed else part * sampling
        # Rounds in which nothing is sent tell nothing; the others are counted through.
        heard = np.flatnonzero(std > 0)
        sent = Sent.of(
            rows=np.where(place == 0, device, len(samples)),
            stops=np.concatenate([stops[heard], stops[-1:]]),
            mean_weight=mean_weights(stops, divisor)[heard],
            noise_std=std[heard],
        )
        yield Run(sent, tf.constant(rate[heard], tf.float32))


def play_function(devices: int, clip_norm: float, multiplier: float):
    """A function of the canaries' signs, a `Run` and the key of its noise; it returns scores, shape (device,)."""
    step = Step(clip_norm, learning_rate=1.0)
    canaries = tf.concat([LARGE * clip_norm * tf.eye(devices), tf.zeros([1, devices])], axis=0)
    shift = 1 / (2 * multiplier)  # of the update by a canary in the batch, in standard deviations of the noise

    @tf.function(reduce_retracing=True)
    def play(signs, run, key):
        x = canaries * tf.concat([signs, [1.0]], axis=0)[:, None]
        start = [tf.zeros([devices, 1]), tf.zeros(1)]
        scores = tf.zeros([devices])
        for t in tf.range(tf.size(run.sent.noise_std)):
            (moved, _), _ = train_rounds(linear, start, x, None, run.sent, step, key, t, tf.constant(1))
            seen = -moved[:, 0] / run.sent.noise_std[t]
            plus, minus = (
                tf.math.log1p(run.rate[t] * tf.math.expm1(sign * shift * seen - shift**2 / 2)) for sign in (1.0, -1.0)
            )
            scores += plus - minus
        return scores

    return play
