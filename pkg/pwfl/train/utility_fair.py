"""Federated learning of Alvi et al.: noisy copies of the model and, if so chosen, uploads; rounds react to the last."""

import logging
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import polars as pl
import tensorflow as tf

from pwfl import datasets, streams
from pwfl.fairness import copies, link, utility
from pwfl.mlp import glorot_uniform
from pwfl.tables import to_array
from pwfl.train import local_steps, network

log = logging.getLogger(__name__)

UPLOADS = ("gradient_noise", "update_noise")  # streams of the noise of what a device sends in a round


class Choice(NamedTuple):
    """What each device does in a round, arrays of shape (device,); zeros where it sits out."""

    iterations: np.ndarray
    computing_j: np.ndarray
    power_w: np.ndarray
    transmit_s: np.ndarray
    energy_j: np.ndarray


def trainer(parameters: dict, data: datasets.Dataset, tables: dict[str, pl.DataFrame]) -> Callable[[int], pl.DataFrame]:
    """A function that trains one realization and returns each device's rounds.

    Every realization deals out samples, starts from weights, and draws batches and noise by streams of its own,
    the same for all schemes. With noisy uploads the access point knows no gradient and no update but with its
    device's noise. In a round in which nobody takes part the model stays; a training that leaves the finite numbers
    ends there. The column `status` says so.
    """
    seed, training, batch = parameters["seed"], parameters["training"], parameters["device"]["batch_size"]
    size, beta_2_j = datasets.SIZES[parameters["data"]["dataset"]], parameters["utility"]["beta_2_j"]
    widths = [size.features, *training["hidden_layers"], size.classes]
    x_test, y_test = tf.constant(data.x_test), tf.constant(data.y_test)
    evaluate = tf.function(network.evaluate)
    play = round_function(training["learning_rate"], training["correction"], parameters["utility"]["deviation"])
    by_realization = {
        name: {realization: part for (realization,), part in tables[name].group_by("realization", maintain_order=True)}
        for name in ("users", "schedule", "noise")
    }

    def train(realization: int) -> pl.DataFrame:
        users, schedule, noise = (by_realization[name][realization] for name in ("users", "schedule", "noise"))
        dealt = streams.generator(seed, "data", realization).permutation(size.train)
        owned = np.split(dealt, users["samples"].to_numpy().cumsum())[:-1]
        weights = [tf.constant(w) for w in glorot_uniform(widths, streams.generator(seed, "weights", realization))]
        key, *upload_keys = (streams.key(seed, purpose, realization) for purpose in ("noise", *UPLOADS))
        vectors = tf.constant(noise["noise_vector"].to_numpy(), tf.int32)
        std, multiplier, theta = (noise[name].to_numpy() for name in ("noise_std", "noise_multiplier", "theta"))
        clean = noise["upload_std"].null_count() > 0
        upload_std = None if clean else tf.constant(noise["upload_std"].to_numpy(), tf.float32)
        beta_1, deviation, frames = np.ones(len(users)), None, []
        evaluated = {1, schedule["round"].max(), *range(0, schedule["round"].max(), training["evaluate_every"])}
        for (t,), plan in schedule.group_by("round", maintain_order=True):
            choice = choose(plan, beta_1, parameters)
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


def choose(plan: pl.DataFrame, beta_1: np.ndarray, parameters: dict) -> Choice:
    """What the devices do in a round: transmit at the schedule's power or, where it is null, Theorem 2's.

    `plan` holds the round's rows of the schedule, `beta_1` one number for each.
    """
    limits = link.limits(parameters["radio"], parameters["device"])
    consumption = link.consumption(parameters["device"])
    unit, power = plan["unit_power_w"].to_numpy(), to_array(plan, "power_w", -1)
    z = link.log_snr(power, unit)
    open_ = np.isnan(power)
    z[open_] = utility.best_z(
        unit[open_],
        beta_1[open_],
        parameters["utility"]["beta_2_j"],
        parameters["utility"]["energy_scale_j"],
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


def round_function(step_size: float, correction: float, compared_with: str):
    """One round of all devices as a graph, traced once.

    Returns a function of the model's weights, the devices' batches x (device, sample, feature) and y (device,
    sample), their iterations (0: sits out), the noise std of their copies and the number of the noise vector
    they get, the noise's seed, and the noise std of what they send (None: clean) with the seeds of gradients and
    updates. It returns the new weights (4), the losses of the copies on their batches, and the cosine of each update,
    as it is received, with the mean update or the new model, (15), `compared_with`.
    """

    @tf.function(reduce_retracing=True)
    def play(weights, x, y, iterations, copy_std, vectors, noise_seed, upload_std=None, upload_seeds=None):
        copied = noisy_copies(weights, copy_std, vectors, noise_seed)
        share = tf.cast(iterations > 0, tf.float32)
        share = tf.math.divide_no_nan(share, tf.reduce_sum(share))
        losses = local_steps.losses(copied, x, y)
        sent = local_steps.gradients(copied, x, y)
        if upload_std is not None:
            sent = noisy_uploads(sent, upload_std, upload_seeds[0])
        gradient = average(sent, share)
        direction = [correction * g[None] for g in gradient]
        update = local_steps.updates(copied, x, y, direction, iterations, step_size)
        if upload_std is not None:
            update = noisy_uploads(update, upload_std, upload_seeds[1])
        mean_update = average(update, share)
        new = [w + tf.reshape(m, w.shape) for w, m in zip(weights, mean_update, strict=True)]
        reference = mean_update if compared_with == "mean_update" else new
        return new, losses, cosines(update, reference)

    return play


def noisy_copies(
    weights: local_steps.Weights, copy_std: tf.Tensor, vectors: tf.Tensor, noise_seed: tf.Tensor
) -> local_steps.Weights:
    """The devices' copies of the model, with noise of their standard deviations, as `local_steps` wants them.

    `vectors` numbers the noise vector that each gets: devices with the same number get the same one.
    """
    sizes = [w.shape.num_elements() for w in weights]
    normal = tf.random.stateless_normal([tf.reduce_max(vectors) + 1, sum(sizes)], seed=noise_seed)
    noise = tf.split(copy_std[:, None] * tf.gather(normal, vectors), sizes, axis=1)
    shapes = [w.shape if w.shape.rank == 2 else [1, *w.shape] for w in weights]  # biases as rows
    return [
        tf.reshape(w, shape) + tf.reshape(n, [-1, *shape]) for w, n, shape in zip(weights, noise, shapes, strict=True)
    ]


def noisy_uploads(parts: local_steps.Weights, std: tf.Tensor, noise_seed: tf.Tensor) -> local_steps.Weights:
    """What the devices send, (device, ...), each with a noise vector of its own of its standard deviation."""
    sizes = [part.shape[1:].num_elements() for part in parts]
    noise = std[:, None] * tf.random.stateless_normal([tf.size(std), sum(sizes)], seed=noise_seed)
    return [p + tf.reshape(n, tf.shape(p)) for p, n in zip(parts, tf.split(noise, sizes, axis=1), strict=True)]


def average(parts: local_steps.Weights, share: tf.Tensor) -> local_steps.Weights:
    """The devices' average, (device, ...) -> (...), weighted by shares that sum to one, or all zero."""
    return [tf.tensordot(share, part, 1) for part in parts]


def cosines(update: local_steps.Weights, reference: local_steps.Weights) -> tf.Tensor:
    """Cosine of each device's update with a reference, shape (device,); 0 where either vanishes."""
    flat = tf.concat([tf.reshape(u, [tf.shape(u)[0], -1]) for u in update], axis=1)
    direction = tf.concat([tf.reshape(r, [-1]) for r in reference], axis=0)
    product = tf.linalg.matvec(flat, direction)
    return tf.math.divide_no_nan(product, tf.norm(flat, axis=1) * tf.norm(direction))
