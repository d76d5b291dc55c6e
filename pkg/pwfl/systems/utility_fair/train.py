"""Federated learning of Alvi et al.: noisy copies of the model and, if so chosen, uploads; rounds react to the last."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
import tensorflow as tf

from pwfl import streams
from pwfl.learning import datasets, features, network, partition
from pwfl.learning.mlp import glorot_uniform
from pwfl.systems.utility_fair import copies, link, uploads, utility
from pwfl.systems.utility_fair.rounds import STREAMS, round_function, round_noise
from pwfl.tables.arrays import beside

if TYPE_CHECKING:
    from pwfl.systems.utility_fair.parameters import UtilityFair

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
    """A function that trains one realization and returns each device's rounds, rows of `history`.

    Every realization deals out samples, starts from weights, and draws batches and noise by streams of its own,
    the same for all schemes. With noisy uploads the access point knows no gradient and no update but with its
    device's noise. In a round in which nobody takes part the model stays; a training that leaves the finite numbers
    ends there. The column `status` says so.
    """
    seed, training, batch = scenario.seed, scenario.training, scenario.device.batch_size
    size = features.size(scenario)
    widths = [size.features, *training.hidden_layers, size.classes]
    x_test, y_test = tf.constant(data.x_test), tf.constant(data.y_test)
    evaluate = tf.function(network.evaluate_labels)
    radius = uploads.radius(training.clip_norm, batch)
    play = round_function(training.learning_rate, training.correction, scenario.utility.deviation, radius)
    terms = utility.terms(scenario)
    samples_of, plans_of = (
        {realization: part for (realization,), part in frame.group_by("realization", maintain_order=True)}
        for frame in (tables["users"], beside(tables["schedule"], tables["noise"], "realization", "device"))
    )

    def train(realization: int) -> pl.DataFrame:
        samples, plans = samples_of[realization]["samples"].to_numpy(), plans_of[realization]
        owned = partition.deal_out(scenario.data, data.y_train, samples, seed, realization)
        counts = partition.held(data.y_train, owned, size.classes)
        weights = [tf.constant(w) for w in glorot_uniform(widths, streams.generator(seed, "weights", realization))]
        keys = [streams.key(seed, purpose, realization) for purpose in STREAMS]
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
            rows = batches(streams.generator(seed, f"batches/{t}", realization), owned, batch)
            weights, losses, similarity = play(
                weights,
                tf.constant(data.x_train[rows]),
                tf.constant(data.y_train[rows]),
                tf.constant(choice.iterations, tf.int32),
                round_noise(plan, std, keys, t),
            )
            losses, similarity = losses.numpy().astype(float), similarity.numpy().astype(float)
            finite = np.isfinite(losses).all() and np.isfinite(similarity).all()
            deviation = copies.deviations(np.nan_to_num(similarity), took_part)
            beta_1 = utility.beta_1_of(deviation, choice.computing_j, terms.beta_2_j)
            tested = {"accuracy": None, "test_loss": None} | dict.fromkeys(partition.USER_ACCURACIES)
            if t in evaluated:
                accuracies, test_loss = (value.numpy().astype(float) for value in evaluate(weights, x_test, y_test))
                tested = {"accuracy": accuracies[0], "test_loss": test_loss}
                tested |= partition.user_accuracies(accuracies[1:], counts)
            frames.append(
                plan.select("realization", "round", "device").with_columns(
                    loss=pl.Series(losses),
                    noise_multiplier=pl.Series(multiplier, nan_to_null=True),
                    deviation=pl.Series(deviation),
                    iterations=pl.Series(choice.iterations),
                    power_w=pl.Series(choice.power_w),
                    transmit_s=pl.Series(choice.transmit_s),
                    energy_j=pl.Series(choice.energy_j),
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
    """What the devices do in a round: transmit at the schedule's power or, where it is null, Theorem 2's.

    Parameters
    ----------
    plan
        The round's rows of the schedule.
    beta_1
        One number for each of them.
    """
    limits, consumption = terms.limits, terms.consumption
    unit, power = plan["unit_power_w"].to_numpy(), plan["power_w"].to_numpy()
    z = link.log_snr(power, unit)
    open_ = np.isnan(power)
    z[open_] = utility.best_z(unit[open_], beta_1[open_], terms)
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


def copy_noise(plan: pl.DataFrame, deviation: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Multiplier (NaN: clean) and standard deviation of the noise of each device's copy, shape (device,).

    `deviation` is that of the last round; None in the first one, whose copies are clean: start weights hold no data.
    """
    if deviation is None:
        return np.full(len(plan), np.nan), np.zeros(len(plan))
    multiplier, std, theta = (plan[name].to_numpy() for name in ("noise_multiplier", "noise_std", "theta"))
    return copies.scaled(multiplier, theta, deviation), copies.scaled(std, theta, deviation)


def batches(generator: np.random.Generator, owned: list[np.ndarray], batch: int) -> np.ndarray:
    """Numbers of the samples in each device's batch, drawn without replacement, shape (device, batch).

    `owned` holds the numbers of each device's samples.
    """
    return np.stack([mine[generator.random(len(mine)).argpartition(batch - 1)[:batch]] for mine in owned])
