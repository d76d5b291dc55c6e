"""Trainings of the core, by tables of `receive` made by hand."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
import tensorflow as tf

from pwfl.learning.datasets import Dataset
from pwfl.scenario.values import Values
from pwfl.tables.reception import EMPTY
from pwfl.training import rounds, trainings
from pwfl.training.batching import times
from pwfl.training.trainings import Parts, Server

SCENARIO = Values({"seed": 1, "release": "a test's"})


class Drift(NamedTuple):
    """A learner of one user, whose message is, whatever it holds, its interval's number times (slope w + 1)."""

    slope: float = 0.0
    measured: int = 1

    def gather(self, own, at, data):
        return ()

    def summed(self, weights, own, at, used, uniforms):
        return [times(at, self.slope * w + 1) for w in weights], tf.fill([*at.shape, 1], 0.25)


def drifted(weights, steps, noise_std, first, count, at=None, slope=0.0):
    """Weights after `count` rounds of `Drift` from round `first` on; intervals are those of noise."""
    noise_std, intervals = np.asarray(noise_std, np.float32), len(noise_std)
    loop = rounds.Loop(Drift(slope), len(steps) // intervals, intervals)
    at, steps = (np.ones(intervals) if at is None else at), np.asarray(steps, np.float32)
    advance = tf.function(rounds.advance_function(loop, single=isinstance(count, int)))
    given = (), tf.constant(at, tf.float32), tf.constant(noise_std), tf.constant(5, tf.int64), tf.constant(steps)
    return advance(weights, rounds.Inputs(*given), (), tf.constant(first), count)[0]


def tables_of(
    samples: Sequence[Sequence[int]], weight: Sequence[np.ndarray], noise_std: Sequence[np.ndarray], length: int
) -> dict[str, pl.DataFrame]:
    """The tables that trainings are of: each realization's numbers of records, and what is received of its users.

    `weight`, (interval, user), 0 of who is not heard, and `noise_std`, (interval,), are of intervals of `length` rounds.
    """
    users, reception, noise = [], [], []
    for realization, (held, weights, std) in enumerate(zip(samples, weight, noise_std, strict=True)):
        users.append(pl.DataFrame({"realization": realization, "user": range(len(held)), "samples": held}))
        interval, user = np.nonzero(weights)
        rows = {"realization": realization, "interval": interval, "user": user, "weight": weights[interval, user]}
        reception.append(pl.DataFrame(rows))
        senders = (weights > 0).sum(axis=1)
        rows = {"realization": realization, "interval": range(len(std)), "rounds": length, "planned_senders": senders}
        noise.append(pl.DataFrame(rows | {"update_noise_std": std, "planned_noise_std": std}))
    heard = pl.concat(reception).with_columns(user_noise_std=pl.lit(0.0), **EMPTY)
    return {"users": pl.concat(users), "reception": heard, "reception_noise": pl.concat(noise)}


def averaging(samples: Sequence[int], sends: np.ndarray | None = None, unit: bool = True) -> np.ndarray:
    """The weights, (interval, user), of a mean of all senders' records, by messages that are sums (`unit`) or means."""
    counted = np.array(samples) * (np.ones((1, len(samples)), bool) if sends is None else sends)
    weight = counted / np.maximum(counted.sum(axis=1, keepdims=True), 1)
    return weight / samples if unit else weight


def training(
    learner, data: Dataset, tables: dict, step: float = 0.5, compiled=False, stops=None, deal=None
) -> trainings.Training:
    """A training by some tables; users hold records one user after the other, or as they are dealt."""
    number = tables["reception_noise"].filter(realization=0)["rounds"].sum()
    server = Server(lambda reception: np.full(number, step))
    parts = Parts(learner, server, stops or sorted({0, 1, number}), trainings.clipped_share, 0.0)
    return trainings.training(parts, SCENARIO, data, tables, compiled, deal or in_turn)


def in_turn(samples: np.ndarray, realization: int) -> list[np.ndarray]:
    """Records of users, one user after the other."""
    return np.split(np.arange(samples.sum()), samples.cumsum())[:-1]


def of_interval(begun: trainings.Start, interval: int = 0) -> tuple:
    """What the learner goes by in an interval of a training, as tensors."""
    own = tf.nest.map_structure(tf.constant, begun.fixed)
    return own, tf.nest.map_structure(lambda part: tf.constant(part[interval]), begun.varying)


def summed(learner, weights, x, y, weight: np.ndarray, samples: Sequence[int]) -> tuple[list, np.ndarray]:
    """The weighted sum of users' messages at some weights, and what is measured of them."""
    data = Dataset(x, y, x[:1], y[:1])
    used = training(learner, data, tables_of([samples], [weight], [np.zeros(1)], 1))
    own, at = of_interval(used.begin(0))
    return learner.summed([tf.constant(w) for w in weights], own, at, learner.gather(own, at, used.data), None)
