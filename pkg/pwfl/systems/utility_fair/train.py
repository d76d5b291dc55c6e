"""Federated learning of Alvi et al.: noisy copies of the model and, if so chosen, uploads; rounds react to the last."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
import tensorflow as tf

from pwfl import streams
from pwfl.learning import datasets, network
from pwfl.learning.mlp import glorot_uniform
from pwfl.learning.partition import deal
from pwfl.systems.utility_fair import copies, link, utility
from pwfl.systems.utility_fair.rounds import UPLOADS, round_function

if TYPE_CHECKING:
    from pwfl.systems.utility_fair.scenario import UtilityFair

log = logging.getLogger(__name__)


class Choice(NamedTuple):
    """What each device does in a round, arrays of shape (device,); zeros where it sits out."""

    iterations: np.ndarray
    computing_j: np.ndarray
    power_w: np.ndarray
    transmit_s: np.ndarray
    energy_j: np.ndarray


def trainer(
    scenario: "UtilityFair", data: datasets.Dataset, tables: dict[str, pl.DataFrame]
) -> Callable[[int], pl.DataFrame]:
    """A function that trains one realization and returns each device's rounds.

    Every realization deals out samples, starts from weights, and draws batches and noise by streams of its own,
    the same for all schemes. With noisy uploads the access point knows no gradient and no update but with its
    device's noise. In a round in which nobody takes part the model stays; a training that leaves the finite numbers
    ends there. The column `status` says so.
    """
    seed, training, batch = scenario.seed, scenario.training, scenario.device.batch_size
    size, beta_2_j = datasets.SIZES[scenario.data.dataset], scenario.utility.beta_2_j
    widths = [size.features, *training.hidden_layers, size.classes]
    x_test, y_test = tf.constant(data.x_test), tf.constant(data.y_test)
    evaluate = tf.function(network.evaluate)
    play = round_function(training.learning_rate, training.correction, scenario.utility.deviation)
    by_realization = {
        name: {realization: part for (realization,), part in tables[name].group_by("realization", maintain_order=True)}
        for name in ("users", "schedule", "noise")
    }

    def train(realization: int) -> pl.DataFrame:
        users, schedule, noise = (by_realization[name][realization] for name in ("users", "schedule", "noise"))
        owned = deal(size.train, users["samples"].to_numpy(), seed, realization)
        weights = [tf.constant(w) for w in glorot_uniform(widths, streams.generator(seed, "weights", realization))]
        key, *upload_keys = (streams.key(seed, purpose, realization) for purpose in ("noise", *UPLOADS))
        vectors = tf.constant(noise["noise_vector"].to_numpy(), tf.int32)
        std, multiplier, theta = (noise[name].to_numpy() for name in ("noise_std", "noise_multiplier", "theta"))
        clean = noise["upload_std"].null_count() > 0
        upload_std = None if clean else tf.constant(noise["upload_std"].to_numpy(), tf.float32)
        beta_1, deviation, frames = np.ones(len(users)), None, []
        evaluated = {1, schedule["round"].max(), *range(0, schedule["round"].max(), training.evaluate_every)}
        for (t,), plan in schedule.group_by("round", maintain_order=True):
            choice = choose(plan, beta_1, scenario)
            took_part = choice.iterations > 0
            if deviation is None:  # the start weights hold no data, so the first round's copies are clean
                copy_std, copy_multiplier = np.zeros(len(users)), np.full(len(users), np.nan)
            else:
                copy_std, copy_multiplier = (copies.scaled(base, theta, deviation) for base in (std, multiplier))
            rows = batches(streams.generator(seed, f"batches/{t}", realization), owned, batch)
            weights, losses, similarity = play(
                weights,
                tf.constant(data.x_train[rows]),
                tf.constant(data.y_train[rows]),
                tf.constant(choice.iterations, tf.int32),
                tf.constant(copy_std, tf.float32),
                vectors,
                tf.constant([key, t], tf.int64),
                upload_std,
                tf.constant([[upload_key, t] for upload_key in upload_keys], tf.int64),
            )
            losses, similarity = losses.numpy().astype(float), similarity.numpy().astype(float)
            finite = np.isfinite(losses).all() and np.isfinite(similarity).all()
            deviation = copies.deviations(np.nan_to_num(similarity), took_part)
            beta_1 = utility.beta_1_of(deviation, choice.computing_j, beta_2_j)
            tested = [float(v) for v in evaluate(weights, x_test, y_test)] if t in evaluated else [None, None]
            frames.append(
                plan.select("realization", "round", "device").with_columns(
                    loss=pl.Series(losses),
                    noise_multiplier=pl.Series(copy_multiplier, nan_to_null=True),
                    deviation=pl.Series(deviation),
                    iterations=pl.Series(choice.iterations),
                    power_w=pl.Series(choice.power_w),
                    transmit_s=pl.Series(choice.transmit_s),
                    energy_j=pl.Series(choice.energy_j),
                    accuracy=pl.lit(tested[0], pl.Float64),
                    test_loss=pl.lit(tested[1], pl.Float64),
                    status=pl.lit("diverged" if not finite else "trained" if took_part.any() else "nobody_took_part"),
                )
            )
            if not finite:
                break
        log.info("realization %d: %d rounds, %s", realization, t, "trained" if finite else "diverged")
        return pl.concat(frames)

    return train


def choose(plan: pl.DataFrame, beta_1: np.ndarray, scenario: "UtilityFair") -> Choice:
    """What the devices do in a round: transmit at the schedule's power or, where it is null, Theorem 2's.

    `plan` holds the round's rows of the schedule, `beta_1` one number for each.
    """
    limits = link.limits(scenario.radio, scenario.device)
    consumption = link.consumption(scenario.device)
    unit, power = plan["unit_power_w"].to_numpy(), plan["power_w"].to_numpy()
    z = link.log_snr(power, unit)
    open_ = np.isnan(power)
    z[open_] = utility.best_z(
        unit[open_],
        beta_1[open_],
        scenario.utility.beta_2_j,
        scenario.utility.energy_scale_j,
        limits,
        consumption,
    )
    active = plan["takes_part"].to_numpy()
    iterations = np.zeros(len(plan), np.int64)
    columns = {name: np.zeros(len(plan)) for name in ("computing_j", "power_w", "transmit_s", "energy_j")}
    z, unit = z[active], unit[active]
    iterations[active] = link.whole(link.iterations(z, limits))
    computing_s = iterations[active] * limits.iteration_s
    columns["computing_j"][active] = computing_s * consumption.computing_power_w
    columns["power_w"][active] = link.power_w(z, unit)
    columns["transmit_s"][active] = link.transmit_s(z, limits)
    columns["energy_j"][active] = link.energy_j(computing_s, z, unit, limits, consumption)
    return Choice(iterations, **columns)


def batches(generator: np.random.Generator, owned: list[np.ndarray], batch: int) -> np.ndarray:
    """Numbers of the samples in each device's batch, drawn without replacement, shape (device, batch)."""
    return np.stack([mine[generator.random(len(mine)).argpartition(batch - 1)[:batch]] for mine in owned])
