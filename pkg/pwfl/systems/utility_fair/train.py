"""Federated learning of Alvi et al.: noisy copies, optionally noisy uploads; each round depends on the previous one."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from pwfl import streams
from pwfl.learning import datasets, features, partition
from pwfl.process.tensorflow import tf
from pwfl.systems.utility_fair import copies, link, utility
from pwfl.systems.utility_fair.parameters import UtilityFair
from pwfl.systems.utility_fair.rounds import STREAMS, Noise, learning, round_function
from pwfl.tables.arrays import joined, to_array, to_table
from pwfl.training import models, trainable, trainings

log = logging.getLogger(__name__)
KEYS = ("realization", "round", "device")


class Plan(NamedTuple):
    """Columns of the tables `schedule` and `noise` for devices in some rounds, arrays of shape (..., device)."""

    unit_power_w: np.ndarray
    power_w: np.ndarray
    takes_part: np.ndarray
    noise_multiplier: np.ndarray
    copy_std: np.ndarray
    theta: np.ndarray
    noise_vector: np.ndarray
    upload_std: np.ndarray

    def at_round(self, t: int) -> "Plan":
        """Select round t of arrays of shape (realization, round, device)."""
        return Plan(*(values[:, t - 1] for values in self))


class Choice(NamedTuple):
    """Each device's choice in a round, arrays of shape (..., device); zeros without participation."""

    iterations: np.ndarray
    computing_j: np.ndarray
    power_w: np.ndarray
    transmit_s: np.ndarray
    energy_j: np.ndarray


class Began(NamedTuple):
    """Inputs of a realization's training."""

    realization: int
    user_records: list[np.ndarray]
    weights: list[np.ndarray]
    keys: list[np.int64]  # keys of noise, by STREAMS
    plan: Plan


class Played(NamedTuple):
    """Results of a round, arrays of shape (realization, device) unless stated otherwise."""

    losses: np.ndarray
    noise_multiplier: np.ndarray
    deviation: np.ndarray
    choice: Choice
    learning_gain: np.ndarray
    utility: np.ndarray
    spent: np.ndarray  # cumulative airtime (s) and radiated energy (J), shape (2, realization)
    tested: list[np.ndarray] | None  # accuracies, (realization, 1 + class), and losses, (realization,)
    lasting: np.ndarray  # whether all results are finite so far, (realization,)


class Round(NamedTuple):
    """A computed round of some realizations.

    Attributes
    ----------
    rows
        Indices in the training data of each device's batch, shape (realization, device, sample).
    weights
        The access point's model parameters after the round.
    released
        Messages by STREAMS; see `round_function`.
    played
        Its results, from which `history` is made.
    """

    rows: np.ndarray
    weights: list[tf.Tensor]
    released: dict[str, list[tf.Tensor]]
    played: Played


class Training(NamedTuple):
    """Functions and data that train the realizations of some tables; audits use them, too."""

    scenario: UtilityFair
    data: datasets.Dataset
    model: trainable.Model
    begin: Callable[[int], Began]
    play: Callable
    evaluate: Callable
    compiled: bool

    def train(self, realizations: Iterable[int]) -> dict[int, pl.DataFrame]:
        """Train some realizations as one batch and return their rows of `history`, by realization."""
        starts = [self.begin(realization) for realization in realizations]
        played = [one.played for one in self.rounds(starts)]
        return {start.realization: history(start, b, played, self.data) for b, start in enumerate(starts)}

    def rounds(self, starts: Sequence[Began], instead: Callable[[int], dict] | None = None) -> Iterator[Round]:
        """Compute the rounds of some realizations as one batch, until no realization has finite results.

        `instead` returns, for a round, messages by STREAMS that are received in place of the released ones.
        """
        scenario, data, batch = self.scenario, self.data, self.scenario.device.batch_size
        several, terms = self.compiled or len(starts) > 1, utility.terms(scenario)
        weights, keys = trainings.stack_starts(starts, several, self.compiled, ("weights", "keys"))

        def tensor(values: np.ndarray, kind: tf.DType = tf.float32) -> tf.Tensor:
            return tf.constant(values if several else values[0], kind)

        def numpy(value: tf.Tensor) -> np.ndarray:
            return value.numpy().astype(float) if several else value.numpy().astype(float)[None]

        plan = Plan(*(np.stack(parts) for parts in zip(*(start.plan for start in starts), strict=True)))
        clean = bool(np.isnan(plan.upload_std).any())
        beta_1, deviation = np.ones(plan.theta[:, 0].shape), None
        spent, count, lasting = np.zeros((2, len(starts))), plan.theta.shape[1], np.ones(len(starts), bool)
        evaluated = trainings.evaluation_rounds(count, scenario.training.evaluate_every)
        for t in range(1, count + 1):
            now = plan.at_round(t)
            choice = choose(now, beta_1, terms)
            # Devices transmit at the same time, on separate channels.
            spent = np.add(spent, [choice.transmit_s.max(axis=1), (choice.transmit_s * choice.power_w).sum(axis=1)])
            multiplier, std = copy_noise(now, deviation)
            upload_std = None if clean else tensor(now.upload_std)
            noise = Noise(tensor(std), tensor(now.noise_vector, tf.int32), *keys, upload_std)
            generators = [streams.generator(scenario.seed, f"batches/{t}", s.realization) for s in starts]
            rows = np.stack([batches(g, s.user_records, batch) for g, s in zip(generators, starts, strict=True)])
            x, y = tensor(data.x_train[rows]), tensor(data.y_train[rows], tf.int32)
            steps, other = tensor(choice.iterations, tf.int32), None if instead is None else instead(t)
            weights, *results, released = self.play(weights, x, y, steps, noise, tf.constant(t), other)
            losses, similarity = (numpy(result) for result in results)
            lasting = lasting & np.isfinite(losses).all(axis=1) & np.isfinite(similarity).all(axis=1)
            deviation = copies.deviations(np.nan_to_num(similarity), choice.iterations > 0)
            beta_1 = utility.beta_1_of(deviation, choice.computing_j, terms.beta_2_j)
            gain = utility.learning_gain(choice.computing_j, beta_1, terms)
            worth = utility.utility(choice.computing_j, choice.energy_j, beta_1, terms)
            tested = [numpy(value) for value in self.evaluate(weights)] if t in evaluated else None
            played = Played(losses, multiplier, deviation, choice, gain, worth, spent, tested, lasting)
            yield Round(rows, weights, released, played)
            if not lasting.any():
                return


def training(
    scenario: UtilityFair,
    data: datasets.Dataset,
    tables: dict[str, pl.DataFrame],
    compiled: bool = False,
    deal: Callable[[np.ndarray, int], list[np.ndarray]] | None = None,
) -> Training:
    """Return the `Training` of a scenario's realizations, from its tables `users`, `schedule` and `noise`.

    Each scheme has independent noise. Choices in a round follow from the previous round, so each round is a separate
    call of the graph. A round without participants leaves the model unchanged. A training run ends at the first round
    with a value that is not finite. The column `status` contains both. `deal` is that of `trainings.beginnings`.
    """
    model = trainable.model_of(models.network(scenario.training, features.size(scenario)), compiled)
    vectors = int(tables["noise"].select(pl.max("noise_vector")).item()) + 1
    play = round_function(model, learning(scenario), vectors, compiled)
    x_test, y_test = tf.constant(data.x_test), tf.constant(data.y_test)

    @tf.function(jit_compile=compiled or None, autograph=False)
    def evaluate(weights):
        return model.evaluate(weights, x_test, y_test)

    begun_of = trainings.beginnings(scenario, data, tables["users"], model.start, deal, key="device")
    plans = joined(tables["schedule"], tables["noise"], "realization", "device")
    plans = plans.partition_by("realization", as_dict=True)

    def begin(realization: int) -> Began:
        plan = Plan(*(to_array(plans[realization,], name, *KEYS[1:]) for name in Plan._fields))
        keys = [trainings.key_of(scenario, realization, purpose) for purpose in STREAMS]
        return Began(realization, *begun_of(realization), keys, plan)

    return Training(scenario, data, model, begin, play, evaluate, compiled)


def build_trainer(
    scenario: UtilityFair, data: datasets.Dataset, tables: dict[str, pl.DataFrame], compiled: bool
) -> tuple[Callable[[Iterable[int]], dict[int, pl.DataFrame]], float]:
    """Return a function from realizations to their rows of `history`, and the memory of one realization in bytes."""
    devices = tables["users"]["device"].n_unique()
    network = models.network(scenario.training, features.size(scenario))
    weights = 4.0 * 12 * devices * models.parameter_count(network)  # copies, gradients, directions, updates, noise
    held = trainable.bytes_each(network, devices * scenario.device.batch_size, data.x_test.shape)
    return training(scenario, data, tables, compiled).train, weights + held


trainer, batch_trainer = trainings.both_trainers(build_trainer)


def history(start: Began, place: int, played: list[Played], data: datasets.Dataset) -> pl.DataFrame:
    """Make a realization's rows of `history`; `place` is its index among those that were trained with it."""
    played = played[: 1 + sum(bool(one.lasting[place]) for one in played)]
    diverged = not played[-1].lasting[place]
    keys = {
        "realization": [start.realization],
        "round": range(1, len(played) + 1),
        "device": range(len(start.user_records)),
    }

    def stack(values: list[np.ndarray]) -> np.ndarray:
        return np.array([one[place] for one in values])[None]

    choices = {name: stack([getattr(one.choice, name) for one in played]) for name in Choice._fields}
    frame = to_table(
        keys,
        batch_loss=stack([one.losses for one in played]),
        noise_multiplier=stack([one.noise_multiplier for one in played]),
        deviation=stack([one.deviation for one in played]),
        learning_gain=stack([one.learning_gain for one in played]),
        utility=stack([one.utility for one in played]),
        **choices,
    ).with_columns(pl.col("noise_multiplier").fill_nan(None))
    rounds = []
    for t, one in enumerate(played, 1):
        tested = dict.fromkeys(("accuracy", "loss", *partition.USER_ACCURACIES))
        if one.tested is not None:
            accuracies, loss = (values[place] for values in one.tested)
            held = partition.held(data.y_train, start.user_records, len(accuracies) - 1)
            tested = {"accuracy": accuracies[0], "loss": loss}
            tested |= partition.user_accuracies(accuracies[1:], held)
        took_part = (one.choice.iterations[place] > 0).any()
        ended = not one.lasting[place]
        status = "diverged" if ended else "trained" if took_part else "nobody_took_part"
        spent = dict(zip(("air_seconds_cumulative", "transmit_energy_j_cumulative"), one.spent[:, place], strict=True))
        rounds.append({"round": t} | spent | tested | {"status": status})
    floats = {name: pl.Float64 for name in rounds[0] if name not in ("round", "status")}
    rounds_table = pl.DataFrame(rounds, schema={"round": pl.Int64} | floats | {"status": pl.String})
    log.info("realization %d: %d rounds, %s", start.realization, len(played), "diverged" if diverged else "trained")
    frame = frame.join(rounds_table, on="round", how="left", maintain_order="left")
    return frame.with_columns(pl.col(partition.USER_ACCURACIES).fill_nan(None))


def choose(plan: Plan, beta_1: np.ndarray, terms: utility.Terms) -> Choice:
    """Compute the devices' choices in a round: the schedule's power or, where that is NaN, Theorem 2's."""
    limits, consumption = terms.limits, terms.consumption
    unit, power = plan.unit_power_w, plan.power_w
    z = link.log_snr(power, unit)
    undecided = np.isnan(power)
    z[undecided] = utility.best_z(unit[undecided], beta_1[undecided], terms)
    active = plan.takes_part.astype(bool)
    choice = Choice(np.zeros(unit.shape, np.int64), *np.zeros((4, *unit.shape)))
    z, unit = z[active], unit[active]
    choice.iterations[active] = link.whole(link.iterations(z, limits))
    computing_s = choice.iterations[active] * limits.iteration_s
    choice.computing_j[active] = computing_s * consumption.computing_power_w
    choice.power_w[active] = link.power_w(z, unit)
    choice.transmit_s[active] = link.transmit_s(z, limits)
    choice.energy_j[active] = link.energy_j(computing_s, z, unit, limits, consumption)
    return choice


def copy_noise(plan: Plan, deviation: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Compute multiplier (NaN: clean) and standard deviation of the noise of each device's copy, shape (..., device).

    `deviation` is that of the previous round; None: the first round. Its copies are clean, as start parameters contain
    no data.
    """
    if deviation is None:
        return np.full(plan.theta.shape, np.nan), np.zeros(plan.theta.shape)
    multiplier, std = (copies.scaled(base, plan.theta, deviation) for base in (plan.noise_multiplier, plan.copy_std))
    return multiplier, std


def batches(generator: np.random.Generator, user_records: list[np.ndarray], batch: int) -> np.ndarray:
    """Draw indices of each device's batch from its records without replacement, shape (device, batch)."""
    return np.stack([mine[generator.random(len(mine)).argpartition(batch - 1)[:batch]] for mine in user_records])
