"""Federated learning of Alvi et al.: noisy copies of the model and, if so chosen, uploads; rounds react to the last."""

import logging
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import polars as pl
import tensorflow as tf

from pwfl import streams
from pwfl.learning import datasets, features, partition
from pwfl.learning.mlp import glorot_uniform
from pwfl.systems.utility_fair import copies, link, uploads, utility
from pwfl.systems.utility_fair.parameters import UtilityFair
from pwfl.systems.utility_fair.rounds import STREAMS, round_function, round_noise
from pwfl.tables.arrays import joined
from pwfl.training import dense

log = logging.getLogger(__name__)


class Choice(NamedTuple):
    """What each device does in a round, arrays of shape (device,); zeros where it sits out."""

    iterations: np.ndarray
    computing_j: np.ndarray
    power_w: np.ndarray
    transmit_s: np.ndarray
    energy_j: np.ndarray


def trainer(
    scenario: UtilityFair, data: datasets.Dataset, tables: dict[str, pl.DataFrame]
) -> Callable[[int], pl.DataFrame]:
    """A function that trains one realization and returns each device's rounds, rows of `history`.

    Every realization deals out samples, starts from weights and draws batches by streams of its own, the same for all
    schemes; noise is each scheme's own. A round in which nobody takes part leaves the model as it is; a training that
    leaves the finite numbers ends there. The column `status` says so.
    """
    seed, training, batch = scenario.seed, scenario.training, scenario.device.batch_size
    size = features.size(scenario)
    widths = [size.features, *training.hidden_layers, size.classes]
    x_test, y_test = tf.constant(data.x_test), tf.constant(data.y_test)
    evaluate = tf.function(dense.evaluate)
    radius = uploads.radius(training.clip_norm, batch)
    play = round_function(training.learning_rate, training.correction, scenario.utility.deviation, radius)
    terms = utility.terms(scenario)
    plans = joined(tables["schedule"], tables["noise"], "realization", "device")
    users_of, plans_of = (frame.partition_by("realization", as_dict=True) for frame in (tables["users"], plans))

    def train(realization: int) -> pl.DataFrame:
        samples, plans = users_of[realization,]["samples"].to_numpy(), plans_of[realization,]
        owned = partition.deal_out(scenario.data, data.y_train, samples, seed, realization, data.users)
        counts = partition.held(data.y_train, owned, size.classes)
        weights = [tf.constant(w) for w in glorot_uniform(widths, streams.generator(seed, "weights", realization))]
        keys = [streams.key(*streams.of_noise(scenario, purpose), realization) for purpose in STREAMS]
        beta_1, deviation, frames = np.ones(len(samples)), None, []
        air_s, radiated_j = 0.0, 0.0
        last = plans["round"].max()
        evaluated = {1, last, *range(0, last, training.evaluate_every)}
        for (t,), plan in plans.group_by("round", maintain_order=True):
            choice = choose(plan, beta_1, terms)
            took_part = choice.iterations > 0
            air_s += choice.transmit_s.max()  # each device has a channel of its own
            radiated_j += (choice.transmit_s * choice.power_w).sum()
            multiplier, std = copy_noise(plan, deviation)
            noise = round_noise(plan, std, keys, t)
            rows = batches(streams.generator(seed, f"batches/{t}", realization), owned, batch)
            x, y, steps = data.x_train[rows], data.y_train[rows], tf.constant(choice.iterations, tf.int32)
            weights, *results = play(weights, tf.constant(x), tf.constant(y), steps, noise)
            losses, similarity = (result.numpy().astype(float) for result in results)
            finite = np.isfinite(losses).all() and np.isfinite(similarity).all()
            deviation = copies.deviations(np.nan_to_num(similarity), took_part)
            beta_1 = utility.beta_1_of(deviation, choice.computing_j, terms.beta_2_j)
            tested = dict.fromkeys(("accuracy", "test_loss", *partition.USER_ACCURACIES))
            if t in evaluated:
                accuracies, test_loss = (value.numpy().astype(float) for value in evaluate(weights, x_test, y_test))
                tested = {"accuracy": accuracies[0], "test_loss": test_loss}
                tested |= partition.user_accuracies(accuracies[1:], counts)
            frames.append(
                plan.select("realization", "round", "device").with_columns(
                    loss=losses,
                    noise_multiplier=pl.Series(multiplier, nan_to_null=True),
                    deviation=deviation,
                    **choice._asdict(),
                    air_seconds_so_far=pl.lit(air_s),
                    transmit_energy_j_so_far=pl.lit(radiated_j),
                    **{name: pl.lit(value, pl.Float64) for name, value in tested.items()},
                    status=pl.lit("diverged" if not finite else "trained" if took_part.any() else "nobody_took_part"),
                )
            )
            if not finite:
                break
        log.info("realization %d: %d rounds, %s", realization, t, "trained" if finite else "diverged")
        return pl.concat(frames).with_columns(pl.col(partition.USER_ACCURACIES).fill_nan(None))

    return train


def choose(plan: pl.DataFrame, beta_1: np.ndarray, terms: utility.Terms) -> Choice:
    """What the devices of a round of the schedule do: transmit at its power or, where that is null, Theorem 2's."""
    limits, consumption = terms.limits, terms.consumption
    unit, power = plan["unit_power_w"].to_numpy(), plan["power_w"].to_numpy()
    z = link.log_snr(power, unit)
    undecided = np.isnan(power)
    z[undecided] = utility.best_z(unit[undecided], beta_1[undecided], terms)
    active = plan["takes_part"].to_numpy()
    choice = Choice(np.zeros(len(plan), np.int64), *np.zeros((4, len(plan))))
    z, unit = z[active], unit[active]
    choice.iterations[active] = link.whole(link.iterations(z, limits))
    computing_s = choice.iterations[active] * limits.iteration_s
    choice.computing_j[active] = computing_s * consumption.computing_power_w
    choice.power_w[active] = link.power_w(z, unit)
    choice.transmit_s[active] = link.transmit_s(z, limits)
    choice.energy_j[active] = link.energy_j(computing_s, z, unit, limits, consumption)
    return choice


def copy_noise(plan: pl.DataFrame, deviation: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Multiplier (NaN: clean) and standard deviation of the noise of each device's copy, shape (device,).

    `deviation` is that of the last round; None in the first one, whose copies are clean: start weights hold no data.
    """
    if deviation is None:
        return np.full(len(plan), np.nan), np.zeros(len(plan))
    multiplier, std, theta = (plan[name].to_numpy() for name in ("noise_multiplier", "noise_std", "theta"))
    return copies.scaled(multiplier, theta, deviation), copies.scaled(std, theta, deviation)


def batches(generator: np.random.Generator, owned: list[np.ndarray], batch: int) -> np.ndarray:
    """Numbers of the samples in each device's batch, drawn without replacement from those it owns, (device, batch)."""
    return np.stack([mine[generator.random(len(mine)).argpartition(batch - 1)[:batch]] for mine in owned])
