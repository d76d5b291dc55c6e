"""Faults in systems that train by the core, each put into the code that trains, receives or accounts: audits see them.

A fault changes functions of the package, never copies of them. Most would make an epsilon wrong by 5 % or far more.
"""

import dataclasses
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
import tensorflow as tf
from scipy import stats

import stage_of
from conftest import in_turn
from pwfl.airs import linear
from pwfl.learning import modular, partition
from pwfl.privacy import accountant, audit, gaussian
from pwfl.privacy.labels import gives
from pwfl.scenario.values import replaced
from pwfl.systems.anonymous_oac import fading, participation
from pwfl.systems.anonymous_oac import receive as anonymous_oac
from pwfl.systems.multicell import account as multicell_account
from pwfl.systems.multicell import audit as multicell_audit
from pwfl.systems.multicell import receive as multicell
from pwfl.systems.multicell import train as multicell_train
from pwfl.systems.multicell.beyond import learners, sums
from pwfl.systems.random_orthogonalization import account as random_orthogonalization_account
from pwfl.systems.random_orthogonalization import observers
from pwfl.systems.random_orthogonalization import receive as random_orthogonalization
from pwfl.systems.random_orthogonalization import train as random_orthogonalization_train
from pwfl.training import autodiff, dense, gradients, integers, local_sgd, rounds, trainable, trainings
from pwfl.training.audits.model import ALIKE
from pwfl.training.audits.signal import ANY_USER
from pwfl.training.audits.whole import ALL_RECORDS, ONE_RECORD
from pwfl.training.batching import Draws
from pwfl.training.gradients import Gradients, UserGradients
from test_audits import FADING, OWN, WAYS, one_key, one_stream_for_all_schemes, replace, stages, violated

SEEDS = range(5)
NETWORK = {"privacy": {"observer": "network", "colluders": 0.4, "min_noise": 8.0, "max_noise_error": 4.0}}
DROPOUTS = {"privacy": NETWORK["privacy"] | {"colluders": 0.0, "dropouts": 0.3, "dropout_tolerance": 1e-3}}
MORE = {  # ways besides those of `test_audits`
    "multicell, network": ("multicell", NETWORK, None),
    "multicell, dropouts": ("multicell", DROPOUTS, None),
    "multicell, own model, fading": ("multicell", OWN | {"radio": FADING["radio"]}, None),
    "random_orthogonalization, colluders": ("random_orthogonalization", {"privacy": {"colluders": 0.4}}, None),
    "random_orthogonalization, convolutions": ("random_orthogonalization", {"training": {"model": "cnn"}}, None),
    "random_orthogonalization, user": ("random_orthogonalization", {"privacy": {"observer": "user"}}, None),
}
ALL = WAYS | MORE


@cache
def made(way: str):
    """The audit's parameters and tables of the code as it is."""
    return stages(*ALL[way])


class Fault(NamedTuple):
    """What is changed, by `change(monkeypatch)`, and the test that sees it; `anew`: tables are made with the fault."""

    change: Callable
    test: str
    anew: bool = False


# The server's sum


def in_server(change):
    """Another `rounds.receive`: change(right, messages, weight, noise_std, key, draws)."""

    def fault(monkeypatch):
        right = rounds.receive
        monkeypatch.setattr(rounds, "receive", lambda *a: change(right, *a))

    return fault


def deviation(change):
    """Other noise in the server's sum, by a function of its deviation."""
    return in_server(lambda right, messages, weight, std, *rest: right(messages, weight, change(std), *rest))


def normals(change):
    """Other normal numbers of the server's: change(right, draws, key, like)."""

    def fault(monkeypatch):
        right = Draws.normals
        monkeypatch.setattr(Draws, "normals", lambda *a: change(right, *a))

    return fault


def by_number(change):
    """Each normal number is changed by a function of it."""
    return normals(lambda right, *a: [change(n) for n in right(*a)])


def by_tensor(change):
    """The list of a round's normal tensors is changed."""
    return normals(lambda right, *a: change(right(*a)))


def by_rounds(change):
    """Noise follows from that of other rounds: change(noise_of, t), noise_of(t) a list of tensors."""

    def wrong(right, draws, key, like):
        return change(lambda t: right(draws._replace(t=t), key, like), draws.t)

    return normals(wrong)


def quantile(number):
    """The probability that a normal number is smaller."""
    return 0.5 * (1 + tf.math.erf(number / np.float32(np.sqrt(2))))


def uniform(number):
    return np.float32(np.sqrt(12)) * (quantile(number) - 0.5)


def two_sided_exponential(number):
    tail = tf.minimum(quantile(number), quantile(-number))
    return -tf.sign(number) * tf.math.log(2 * tf.maximum(tail, 1e-30)) / np.float32(np.sqrt(2))


def truncated(number):
    # At 1.85 deviations, with the deviation that it had.
    tail = np.float32(stats.norm.cdf(-1.85))
    return tf.math.ndtri(tail + (1 - 2 * tail) * quantile(number)) / np.float32(stats.truncnorm(-1.85, 1.85).std())


def one_number(right, draws, key, like):
    return [tf.fill(w.shape, tf.reshape(n, [-1])[0]) for w, n in zip(like, right(draws, key, like), strict=True)]


def biases_as_kernels(noise):
    first = tf.reshape(noise[0], [-1])
    return [n if n.shape.rank > 1 else first[: n.shape[0]] for n in noise]


def a_tenth_taken_off(noise_of, t):
    # What rounds add up to has a fifth less variance.
    return [
        (n - 0.1 * before) / np.float32(np.sqrt(1.01)) for n, before in zip(noise_of(t), noise_of(t - 1), strict=True)
    ]


def a_little_taken_off(noise_of, t):
    return [
        (n - 0.05 * before) / np.float32(np.sqrt(1.0025))
        for n, before in zip(noise_of(t), noise_of(t - 1), strict=True)
    ]


def moved_by_one_place(noise_of, t):
    return [tf.reshape(tf.roll(tf.reshape(n, [-1]), t % 2, 0), n.shape) for n in noise_of(t // 2)]


def opposite_every_other_round(noise_of, t):
    return [n * (1 - 2 * tf.cast(t % 2, tf.float32)) for n in noise_of(t // 2)]


def in_advance(change):
    """Other arguments of the rounds that are not tapped: change(noise_std, steps)."""

    def fault(monkeypatch):
        right = rounds.advance_function

        def advance_function(*given, **more):
            advance = right(*given, **more)

            def changed(state, inputs, data, first, count, tap=None, **used):
                if tap is None:
                    noise_std, key, steps = change(inputs.noise_std, inputs.key, inputs.steps)
                    inputs = inputs._replace(noise_std=noise_std, key=key, steps=steps)
                return advance(state, inputs, data, first, count, tap, **used)

            return changed

        monkeypatch.setattr(rounds, "advance_function", advance_function)

    return fault


def longer_steps(monkeypatch):
    right = rounds.advance_function

    def advance_function(*given, **more):
        advance = right(*given, **more)
        return lambda state, inputs, *rest, **used: advance(
            state, inputs._replace(steps=1.02 * inputs.steps), *rest, **used
        )

    monkeypatch.setattr(rounds, "advance_function", advance_function)


def begun_otherwise(change):
    """Trainings begin with something else, where nobody looks at a part of it: change(start)."""

    def fault(monkeypatch):
        right = trainings.training

        def training(*given):
            used = right(*given)

            def begin(realization, view=None):
                start = used.begin(realization, view)
                return start if view else change(start)

            return used._replace(begin=begin)

        monkeypatch.setattr(trainings, "training", training)

    return fault


def another_trainer(monkeypatch):
    # What is run is not what is audited.
    right = multicell_train.trainer

    def trainer(scenario, data, tables):
        noise = tables["reception_noise"].with_columns(update_noise_std=UPDATE / 2)
        return right(scenario, data, tables | {"reception_noise": noise})

    replace(monkeypatch, right, trainer)


# Messages


def clipping(change):
    """Records are clipped to another norm."""

    def fault(monkeypatch):
        for module, name, place in (
            (dense, "clipped_mean", 3),
            (dense, "clipped_sums", 3),
            (autodiff, "clipped_mean", 4),
        ):
            right = getattr(module, name)

            def wrong(*given, right=right, place=place):
                return right(*given[:place], change(given[place]), *given[place + 1 :])

            monkeypatch.setattr(module, name, wrong)
        monkeypatch.setattr(trainable.Dense, "clipped_mean", staticmethod(dense.clipped_mean))

    return fault


def kept(change):
    """What is kept of records' gradients follows from other squares of norms: change(inputs' squares, deltas', layer)."""

    def wrong(inputs, deltas, x_squares, clip_norm):
        squares = [x_squares, *map(dense.row_squares, inputs[1:])]
        counted = [change(s, dense.row_squares(d), k) for k, (s, d) in enumerate(zip(squares, deltas, strict=True))]
        return clip_norm * tf.math.rsqrt(tf.add_n(counted))

    return lambda monkeypatch: monkeypatch.setattr(dense, "_kept", wrong)


def without_layer(layer):
    """Clipping by the norm of all layers' gradients but one."""
    return kept(lambda inputs, deltas, k: deltas * (inputs + 1) * (k != layer))


def last_block_is_not_clipped(monkeypatch):
    right, calls = dense._kept, []

    def wrong(*given):
        calls.append(None)
        return right(*given) if len(calls) % dense.BLOCKS else tf.ones_like(right(*given))

    monkeypatch.setattr(dense, "LARGE_LAYER", 0)
    monkeypatch.setattr(dense, "_kept", wrong)


def clipped_means(monkeypatch):
    # What is clipped is a user's mean gradient, as often as it has records.
    class Means(UserGradients):
        def inputs(self, reception, owned, *rest):
            samples = np.array([len(mine) for mine in owned])
            return super().inputs(reception._replace(weight=reception.weight * samples), owned, *rest)

    monkeypatch.setattr(multicell_train, "Gradients", lambda model, clip, alike, compiled: Means(model, clip))


def clipped_by_data(monkeypatch):
    right = multicell_train.Gradients

    def parts(scenario, data, tables, compiled=False):
        found = multicell_parts(scenario, data, tables, compiled)
        clip_norm = scenario.training.clip_norm * (1 + float(np.mean(data.x_train)))
        return found._replace(learner=right(found.learner.model, clip_norm, found.learner.alike, compiled))

    multicell_parts = multicell_train.parts
    monkeypatch.setattr(multicell_audit, "parts", parts)
    monkeypatch.setattr(multicell_audit, "trainer", trainings.trainers(parts)[0])


def steps_by_data(monkeypatch):
    def parts(scenario, data, tables, compiled=False):
        found = multicell_parts(scenario, data, tables, compiled)
        scale = 1 + float(np.mean(data.x_train))
        steps = found.server.steps
        return found._replace(server=found.server._replace(steps=lambda reception: scale * steps(reception)))

    multicell_parts = multicell_train.parts
    monkeypatch.setattr(multicell_audit, "parts", parts)
    monkeypatch.setattr(multicell_audit, "trainer", trainings.trainers(parts)[0])


def looser_users(monkeypatch):
    class Loose(UserGradients):
        def summed(self, *given):
            return UserGradients.summed(dataclasses.replace(self, clip_norm=1.02 * self.clip_norm), *given)

    monkeypatch.setattr(learners, "UserGradients", Loose)


def looser_updates(monkeypatch):
    class Loose(local_sgd.ModelLocalSgd):
        def summed(self, *given):
            steps = self.steps._replace(clip_norm=1.02 * self.steps.clip_norm)
            return local_sgd.ModelLocalSgd.summed(dataclasses.replace(self, steps=steps), *given)

    monkeypatch.setattr(random_orthogonalization_train, "ModelLocalSgd", Loose)


def clip(change):
    """Updates are clipped by another function: change(right, update, clip_norm)."""

    def fault(monkeypatch):
        right = local_sgd.clip
        monkeypatch.setattr(local_sgd, "clip", lambda *given: change(right, *given))

    return fault


def by_mean_norm(right, update, clip_norm):
    _, norms = right(update, clip_norm)
    return tf.minimum(1.0, clip_norm / tf.reduce_mean(norms, axis=-1))[..., None, None, None] * update, norms


def each_output(right, update, clip_norm):
    norms = tf.norm(update, axis=-1, keepdims=True)
    return tf.minimum(1.0, clip_norm / norms) * update, right(update, clip_norm)[1]


def mixed_losses(monkeypatch):
    # As a layer has it that normalizes batches: a record's loss is of all.
    right = autodiff.clipped_mean

    def wrong(losses, weights, x, y, *rest):
        return right(lambda w, *own: losses(w, *own) + tf.reduce_mean(losses(w, x, y)), weights, x, y, *rest)

    monkeypatch.setattr(autodiff, "clipped_mean", wrong)


def weights_that_follow_the_data(monkeypatch):
    # A record counts three times as much where it lies on the one side.
    right = Gradients.gather

    def wrong(*given):
        x, y, counts, prepared = right(*given)
        return x, y, counts * tf.where(x[..., 0] > 0, 3.0, 1.0), prepared

    monkeypatch.setattr(Gradients, "gather", wrong)


def inputs(change):
    """Learners compute of something else: change(reception, owned)."""

    def fault(monkeypatch):
        for learner in (Gradients, local_sgd.LocalSgd):
            right = learner.inputs

            def wrong(self, reception, owned, *rest, right=right):
                return right(self, *change(reception, owned), *rest)

            monkeypatch.setattr(learner, "inputs", wrong)

    return fault


def louder(reception, owned):
    return reception._replace(weight=1.1 * reception.weight), owned


def one_is_louder(reception, owned):
    # Not the user who is audited.
    first = np.argmax(reception.sends.any(axis=0))
    return reception._replace(weight=reception.weight * np.where(np.arange(len(owned)) == first, 2.0, 1.0)), owned


def first_record_twice(reception, owned):
    return reception, [np.append(mine[:1], mine[:-1]) for mine in owned]


def neighbours_record(reception, owned):
    # Each user's last record is the next one's first.
    return reception, [np.append(a[:-1], b[0]) for a, b in zip(owned, [*owned[1:], owned[0]], strict=True)]


def dealt_to_two(monkeypatch):
    right = partition.deal_out
    monkeypatch.setattr(partition, "deal_out", lambda *given: neighbours_record(None, right(*given))[1])


# Integers


def rounding(change):
    """Other integers of values: change(values, generator)."""
    return lambda monkeypatch: monkeypatch.setattr(modular, "rounded", change)


def rounded_by(values, dither):
    below = np.floor(values)
    return below.astype(np.int64) + (dither < values - below)


def one_dither(values, generator):
    return rounded_by(values, generator.random(values.shape[-1]))


def in_sum(change):
    """Another sum of integers: change(right, vectors, weights, step, noise_std, ...)."""

    def fault(monkeypatch):
        right = integers.server_sum
        monkeypatch.setattr(integers, "server_sum", lambda *given: change(right, *given))

    return fault


half_the_integers_noise = in_sum(lambda right, v, w, step, std, *rest: right(v, w, step, std / 2, *rest))


def without_the_first_users(right, vectors, weights, step, std, *rest):
    return right(vectors, weights, step, std * (np.arange(len(std)) > 0), *rest)


def a_users_noise_low(monkeypatch):
    # The user of most noise adds less; it is one of some ten.
    def change(right, vectors, weights, step, std, *rest):
        return right(vectors, weights, step, np.where(std == std.max(), 0.8 * std, std), *rest)

    in_sum(change)(monkeypatch)


def one_discrete_vector(monkeypatch):
    right = integers.discrete.discrete_gaussian

    def wrong(generator, variance, shape):
        return np.broadcast_to(right(generator, variance, (1, *shape[1:])), shape)

    monkeypatch.setattr(integers.discrete, "discrete_gaussian", wrong)


def one_round_of_integers(monkeypatch):
    right = integers._sum
    monkeypatch.setattr(integers, "_sum", lambda bits, key, t, *rest: right(bits, key, 0 * t, *rest))


def wrapped_too_early(monkeypatch):
    right = modular.wrapped
    monkeypatch.setattr(modular, "wrapped", lambda integers, bits: right(integers, bits - 2))


def rotated_longer(monkeypatch):
    right = modular.rotate
    monkeypatch.setattr(modular, "rotate", lambda *given: 1.05 * right(*given))


# Records' chances


def a_round_late(monkeypatch):
    right = Gradients.inputs

    def wrong(*given):
        own, rows = right(*given)
        late = {name: np.roll(getattr(rows, name), 1, axis=0) for name in ("rows", "sizes", "total")}
        return own, rows._replace(**late)

    monkeypatch.setattr(Gradients, "inputs", wrong)


def first_records_always(monkeypatch):
    # The first records of every device are in all batches.
    def wrong(sends, records, samples, generator):
        first = np.concatenate([[0], np.cumsum(samples)])
        return [
            np.concatenate([np.empty(0, int), *(first[k] + np.arange(of_round[k]) for k in np.flatnonzero(of_round))])
            for of_round in records
        ]

    monkeypatch.setattr(gradients, "batches", wrong)


def in_batches(change):
    """Other records in a round's batch: change(rows, own, first, samples, generator).

    Of each of its records `own` is the device, `first` the device's first record, `samples` how many it has.
    """

    def fault(monkeypatch):
        right = gradients.batches

        def wrong(sends, records, samples, generator):
            start, found = np.concatenate([[0], np.cumsum(samples)])[:-1], []
            for rows in right(sends, records, samples, generator):
                own = np.searchsorted(start, rows, side="right") - 1
                found.append(change(rows, own, start[own], samples[own], generator).astype(np.int32))
            return found

        monkeypatch.setattr(gradients, "batches", wrong)

    return fault


def with_the_second(rows, own, first, samples, generator):
    """A device's second record is in place of another one, where it is not in a batch."""
    last = np.append(np.diff(own) > 0, True)[: len(rows)]
    lacks = last & ~np.isin(own, own[rows == first + 1]) & (samples > 1)
    return np.where(lacks, first + 1, rows)


second_records_always = in_batches(with_the_second)
drawn_with_repetition = in_batches(lambda rows, own, first, samples, generator: first + generator.integers(samples))


def same_devices_always(monkeypatch):
    right = fading.draw

    def wrong(scenario, realizations):
        drawn = right(scenario, realizations)
        first = drawn["links"].filter(round=1)
        rounds = [first.with_columns(round=pl.lit(t + 1, pl.Int64)) for t in range(scenario.training.rounds)]
        return drawn | {"links": pl.concat(rounds).sort("realization", "round", "user")}

    monkeypatch.setattr(fading, "draw", wrong)


def chances(**changed):
    """Devices take part, and records are in batches, with other probabilities."""

    def fault(monkeypatch):
        right = participation.batches

        def wrong(scenario, *given):
            for path, value in changed.items():
                scenario = replaced(scenario, path.replace("__", "."), value)
            return right(scenario, *given)

        monkeypatch.setattr(participation, "batches", wrong)

    return fault


# What is received, and by whom


def delivered(module, table="reception", **columns):
    """A system's `receive` makes other columns of a table."""
    return stage(module, table, lambda frame, _: frame.with_columns(**columns))


def stage(module, table, change):
    """A stage makes another table: change(frame, all tables)."""

    def fault(monkeypatch):
        right = module.run

        def wrong(scenario, tables):
            found = right(scenario, tables)
            return found | {table: change(found[table], tables | found)}

        monkeypatch.setattr(module, "run", wrong)

    return fault


def by_samples_twice(frame, tables):
    keys = ["realization", "user"]
    each = frame.join(tables["users"].select(*keys, "samples"), on=keys, maintain_order="left")
    return each.with_columns(USERS / pl.col("samples")).drop("samples")


def of_users_noise(total):
    """The update's noise is another function of its users'."""

    def change(frame, tables):
        keys = ["realization", "interval"]
        alike = tables["reception"].group_by(keys).agg(update_noise_std=total)
        noise = frame.drop("update_noise_std").join(alike, on=keys, how="left")
        return noise.select(frame.columns)

    return change


# The deviation of the sum is that of users who all add the same vector.
one_vector_for_all_users = stage(multicell, "reception_noise", of_users_noise(pl.col("user_noise_std").sum()))


def one_users_noise_left_out(monkeypatch):
    last = pl.col("user") == pl.col("user").max().over("realization")
    delivered(multicell, user_noise_std=pl.when(last).then(0.0).otherwise(USERS))(monkeypatch)
    root = (pl.col("user_noise_std") ** 2).sum().sqrt()
    stage(multicell, "reception_noise", of_users_noise(root))(monkeypatch)


def dropouts_unplanned(monkeypatch):
    right = sums.left_to

    def wrong(observer, privacy, *given):
        return right(observer, replaced(privacy, "dropouts", 0.0), *given)

    monkeypatch.setattr(sums, "left_to", wrong)


def of_the_most_visible(change):
    """The user who leaks most is said to be visible otherwise, as another one may then leak most."""
    most = SEEN.max().over("realization", "observer") == SEEN
    return delivered(multicell, "visibility", visibility=change(most), visibility_users_only=change(most))


# What is accounted for


def accounted(module, losses=None, delta: float = 1.0):
    """An account by other losses, change(right, *given), or at another delta, than audits go by."""

    def fault(monkeypatch):
        def accounts(tables, claims, mechanism, asked, *rest, **more):
            with pytest.MonkeyPatch.context() as context:
                if losses:
                    account_losses(losses)(context)
                return accountant.accounts(tables, claims, mechanism, delta * asked, *rest, **more)

        monkeypatch.setattr(module, "accountant", SimpleNamespace(**vars(accountant) | {"accounts": accounts}))

    return fault


def half_as_visible(right, *given, **more):
    found = right(*given, **more)
    return found._replace(mu=found.mu / 2)


def half_the_rounds(right, *given, **more):
    found = right(*given, **more)
    many = found.mu.shape[1]
    if many == 1:
        return found._replace(rounds=found.rounds // 2)
    return found._replace(mu=found.mu * (np.arange(many) < many // 2)[:, None])


def account_losses(change):
    """The accountant itself, by which audits go, too."""

    def fault(monkeypatch):
        right = accountant.shown

        def shown(*given):
            priced, there = right(*given)
            return {noise: change(lambda losses=losses: losses) for noise, losses in priced.items()}, there

        monkeypatch.setattr(accountant, "shown", shown)

    return fault


def epsilon_of(change, everywhere=False):
    """Other epsilons of rho: change(right, rho, delta); of the account of `multicell`, or everywhere."""

    def fault(monkeypatch):
        right = gaussian.exact_epsilon
        other = gives(right.kind)(lambda *given: change(right, *given))
        if everywhere:
            replace(monkeypatch, right, other)
        else:
            monkeypatch.setattr(accountant, "exact_epsilon", other)

    return fault


def half_zcdp(monkeypatch):
    right = gaussian.zcdp
    replace(monkeypatch, right, lambda *given: right(*given) / 2)


def least_users(frame, tables):
    least = tables["leakage"].group_by("realization").agg(pl.col("epsilon").min())
    return frame.drop("epsilon").join(least, on="realization", how="left").select(frame.columns)


HALF, LOW = (lambda std: std / 2), (lambda std: std * 0.98)
DEVIATION, SENSITIVITY, RECORD, LEAST = "deviation of the noise", "sensitivity", audit.RECORD, audit.LEAST
ALL_NOISE, LAW, MODEL = "noise of all users", "distribution of the noise", "model of what was received"
EACH, PLACES = "deviation of each coordinate's noise", "noise of different coordinates"
RUNS, ROUNDS, RELEASES = "noise of different runs", "noise of different rounds", "noise of another release"
TRAINED = audit.TRAINED
WHOLE, ALL_ROUNDS = "deviation of all noise", "epsilon of all rounds"
IN_A_ROW, ROUNDED = "noise at any distance", "distribution of errors of rounding"
TOGETHER = "deviation of all users' noise"
CHANCE, LOSS = "rounds that a record is in", "loss of that model"
UPDATE, USERS, WEIGHT, SEEN = map(pl.col, ("update_noise_std", "user_noise_std", "weight", "visibility"))
FAULTS = {
    # What all systems have: noise.
    ("multicell", "half the noise"): Fault(deviation(HALF), DEVIATION),
    ("multicell", "noise 2 % low"): Fault(deviation(LOW), DEVIATION),
    ("multicell", "the variance as deviation"): Fault(deviation(tf.square), DEVIATION),
    ("multicell", "noise of two points"): Fault(by_number(tf.sign), LAW),
    ("multicell", "uniform noise"): Fault(by_number(uniform), LAW),
    ("multicell", "two-sided exponential noise"): Fault(by_number(two_sided_exponential), LAW),
    ("multicell", "truncated noise"): Fault(by_number(truncated), LAW),
    ("multicell", "noise with a mean"): Fault(by_number(lambda n: n + 0.1), "mean of the noise"),
    ("multicell", "one number for all"): Fault(normals(one_number), PLACES),
    ("multicell", "noise in the first kernel alone"): Fault(
        by_tensor(lambda noise: [noise[0], *(0 * n for n in noise[1:])]), DEVIATION
    ),
    ("multicell", "no noise in biases"): Fault(
        by_tensor(lambda noise: [n * (k % 2 == 0) for k, n in enumerate(noise)]), EACH
    ),
    ("multicell", "no noise in the last bias"): Fault(by_tensor(lambda noise: [*noise[:-1], 0 * noise[-1]]), EACH),
    ("multicell", "less noise in biases"): Fault(
        by_tensor(lambda noise: [n * (0.8 if k % 2 else 1.0) for k, n in enumerate(noise)]),
        "deviation of each tensor's noise",
    ),
    ("multicell", "biases' noise as kernels'"): Fault(by_tensor(biases_as_kernels), PLACES),
    ("multicell", "the same noise each round"): Fault(by_rounds(lambda of, t: of(0 * t)), ROUNDS),
    ("multicell", "each noise twice"): Fault(by_rounds(lambda of, t: of(t // 2)), ROUNDS),
    ("multicell", "noise taken off in the next round"): Fault(by_rounds(opposite_every_other_round), ROUNDS),
    ("multicell", "a tenth taken off in the next round"): Fault(by_rounds(a_tenth_taken_off), IN_A_ROW),
    ("multicell", "a twentieth taken off in the next round"): Fault(by_rounds(a_little_taken_off), IN_A_ROW),
    ("multicell", "noise of the round before, moved"): Fault(by_rounds(moved_by_one_place), IN_A_ROW),
    ("multicell", "the same noise in all runs"): Fault(one_key, RUNS),
    ("multicell", "the same noise in all schemes"): Fault(one_stream_for_all_schemes, RELEASES),
    ("multicell", "half the noise where nobody looks"): Fault(
        in_advance(lambda std, key, steps: (std / 2, key, steps)), TRAINED
    ),
    ("multicell", "half the noise of the whole update"): Fault(
        begun_otherwise(lambda start: start._replace(noise_std=start.noise_std / 2)), WHOLE
    ),
    ("multicell", "another trainer than is audited"): Fault(another_trainer, TRAINED),
    # Records and messages.
    ("multicell", "weights x 1.1"): Fault(inputs(louder), SENSITIVITY),
    ("multicell", "one user's weight twice"): Fault(inputs(one_is_louder), ALL_RECORDS),
    ("multicell", "a record twice"): Fault(inputs(first_record_twice), SENSITIVITY),
    ("multicell", "a record in two messages"): Fault(inputs(neighbours_record), ONE_RECORD),
    ("multicell", "a record dealt to two users"): Fault(dealt_to_two, "users of a record"),
    ("multicell", "no clipping"): Fault(clipping(lambda clip: 1e30), SENSITIVITY),
    ("multicell", "clipped to twice"): Fault(clipping(lambda clip: 2 * clip), SENSITIVITY),
    ("multicell", "clipped to 1.02"): Fault(clipping(lambda clip: 1.02 * clip), SENSITIVITY),
    ("multicell", "clipped to .98"): Fault(clipping(lambda clip: 0.98 * clip), SENSITIVITY),
    ("multicell", "without the first layer"): Fault(without_layer(0), SENSITIVITY),
    ("multicell", "without the second layer"): Fault(without_layer(1), SENSITIVITY),
    ("multicell", "without the last layer"): Fault(without_layer(2), SENSITIVITY),
    ("multicell", "without biases"): Fault(kept(lambda inputs, deltas, k: inputs * deltas), SENSITIVITY),
    ("multicell", "without kernels"): Fault(kept(lambda inputs, deltas, k: deltas), SENSITIVITY),
    ("multicell", "clipped by what data are"): Fault(clipped_by_data, ALIKE),
    ("multicell", "steps by what data are"): Fault(steps_by_data, ALIKE),
    ("multicell", "the last block is not clipped"): Fault(last_block_is_not_clipped, ALL_RECORDS),
    ("multicell", "means are clipped"): Fault(clipped_means, SENSITIVITY),
    ("multicell, fading", "weights follow data"): Fault(weights_that_follow_the_data, SENSITIVITY),
    ("multicell, users clipped", "clipped to 1.02"): Fault(looser_users, SENSITIVITY),
    ("multicell, convolutions", "no clipping"): Fault(clipping(lambda clip: 1e30), SENSITIVITY),
    ("multicell, convolutions", "clipped to 1.02"): Fault(clipping(lambda clip: 1.02 * clip), SENSITIVITY),
    ("multicell, convolutions", "losses are mixed"): Fault(mixed_losses, SENSITIVITY),
    ("multicell, own model", "clipped to twice"): Fault(clipping(lambda clip: 2 * clip), SENSITIVITY),
    # The model.
    ("multicell", "steps x 1.02"): Fault(longer_steps, MODEL),
    ("multicell", "another training than is tapped"): Fault(
        in_advance(lambda std, key, steps: (std, key, 2.0 * steps)), LOSS
    ),
    # Integers.
    ("multicell, integers", "half the noise"): Fault(half_the_integers_noise, DEVIATION),
    ("multicell, integers", "one user adds no noise"): Fault(in_sum(without_the_first_users), DEVIATION),
    ("multicell, integers", "one vector for all users"): Fault(one_discrete_vector, TOGETHER),
    ("multicell, integers", "the same noise each round"): Fault(one_round_of_integers, ROUNDS),
    ("multicell, integers", "clipped to twice"): Fault(clipping(lambda clip: 2 * clip), SENSITIVITY),
    ("multicell, integers", "rotated to 1.05"): Fault(rotated_longer, SENSITIVITY),
    ("multicell, integers", "wrapped too early"): Fault(wrapped_too_early, TOGETHER),
    ("multicell, integers", "always rounded up"): Fault(
        rounding(lambda values, _: np.ceil(values).astype(np.int64)), ROUNDED
    ),
    ("multicell, integers", "rounded to the nearest"): Fault(
        rounding(lambda values, _: np.rint(values).astype(np.int64)), ROUNDED
    ),
    ("multicell, integers", "one dither for all users"): Fault(rounding(one_dither), ROUNDED),
    ("multicell, integers", "one dither for all coordinates"): Fault(
        rounding(lambda values, generator: rounded_by(values, generator.random((len(values), 1)))),
        "errors of rounding of different coordinates",
    ),
    ("multicell, integers", "the same dithers each round"): Fault(
        rounding(lambda values, _: rounded_by(values, np.random.default_rng(0).random(values.shape))),
        "errors of rounding of different rounds",
    ),
    ("multicell, integers", "a user's noise 20 % low"): Fault(a_users_noise_low, DEVIATION),
    # What is received.
    ("multicell", "half the noise delivered"): Fault(delivered(multicell, user_noise_std=USERS / 2), RECORD, anew=True),
    ("multicell", "noise 2 % low delivered"): Fault(
        delivered(multicell, user_noise_std=USERS * 0.98), RECORD, anew=True
    ),
    ("multicell", "divided by K twice"): Fault(stage(multicell, "reception", by_samples_twice), RECORD, anew=True),
    ("multicell", "half the noise in the update"): Fault(
        delivered(multicell, "reception_noise", update_noise_std=UPDATE / 2), ALL_NOISE, anew=True
    ),
    ("multicell", "one vector for all users"): Fault(one_vector_for_all_users, ALL_NOISE, anew=True),
    ("multicell", "one user's noise left out"): Fault(one_users_noise_left_out, ANY_USER, anew=True),
    ("multicell", "weights delivered x 1.1"): Fault(delivered(multicell, weight=1.1 * WEIGHT), RECORD, anew=True),
    ("multicell", "half the visibility delivered"): Fault(
        delivered(multicell, "visibility", visibility=SEEN / 2, visibility_users_only=SEEN / 2), RECORD, anew=True
    ),
    ("multicell", "the most visible is said to be half as visible"): Fault(
        of_the_most_visible(lambda most: pl.when(most).then(SEEN / 2).otherwise(SEEN)),
        ANY_USER,
        anew=True,
    ),
    ("multicell", "another observer's rows"): Fault(
        delivered(multicell, "visibility", observer=pl.col("observer").replace({"user": "network", "network": "user"})),
        RECORD,
        anew=True,
    ),
    ("multicell, network", "colluders' noise is counted"): Fault(
        lambda monkeypatch: monkeypatch.setattr(
            sums, "colluding", lambda privacy, senders: np.zeros_like(senders, int)
        ),
        RECORD,
        anew=True,
    ),
    ("multicell, dropouts", "dropouts' noise is counted"): Fault(
        dropouts_unplanned,
        ANY_USER,
        anew=True,
    ),
    # What is accounted for.
    ("multicell", "half the sensitivity"): Fault(
        accounted(multicell_account, losses=half_as_visible), LEAST, anew=True
    ),
    ("multicell", "half the rounds"): Fault(accounted(multicell_account, losses=half_the_rounds), LEAST, anew=True),
    ("multicell", "half the sensitivity of all"): Fault(account_losses(half_as_visible), RECORD, anew=True),
    ("multicell", "half the rounds of all"): Fault(account_losses(half_the_rounds), RECORD, anew=True),
    ("multicell", "another delta"): Fault(
        epsilon_of(lambda right, rho, delta: right(rho, 100 * delta)), LEAST, anew=True
    ),
    ("multicell", "another delta, everywhere"): Fault(
        epsilon_of(lambda right, rho, delta: right(rho, 100 * delta), everywhere=True), LEAST, anew=True
    ),
    ("multicell", "amplified without sampling"): Fault(
        epsilon_of(lambda right, *given: np.logaddexp(0.0, right(*given)) - np.log(2)), LEAST, anew=True
    ),
    ("multicell", "half of zCDP"): Fault(half_zcdp, LEAST, anew=True),
    ("multicell", "the user who leaks least"): Fault(
        stage(multicell_account, "outcome", least_users), LEAST, anew=True
    ),
    # What anonymous_oac has of its own.
    ("anonymous_oac", "records a round late"): Fault(a_round_late, SENSITIVITY),
    ("anonymous_oac", "half the noise"): Fault(deviation(HALF), DEVIATION),
    ("anonymous_oac", "noise 2 % low"): Fault(deviation(LOW), DEVIATION),
    ("anonymous_oac, local", "half the noise"): Fault(deviation(HALF), DEVIATION),
    ("anonymous_oac", "the same noise in all runs"): Fault(one_key, RUNS),
    ("anonymous_oac", "the same noise in all schemes"): Fault(one_stream_for_all_schemes, RELEASES),
    ("anonymous_oac", "weights x 1.1"): Fault(inputs(louder), SENSITIVITY),
    ("anonymous_oac", "no clipping"): Fault(clipping(lambda clip: 1e30), SENSITIVITY),
    ("anonymous_oac", "clipped to 1.02"): Fault(clipping(lambda clip: 1.02 * clip), SENSITIVITY),
    ("anonymous_oac", "without the first layer"): Fault(without_layer(0), SENSITIVITY),
    ("anonymous_oac", "without the last layer"): Fault(without_layer(1), SENSITIVITY),
    ("anonymous_oac", "steps x 1.02"): Fault(longer_steps, MODEL),
    ("anonymous_oac", "records are not sampled"): Fault(first_records_always, CHANCE),
    ("anonymous_oac", "second records are not sampled"): Fault(second_records_always, CHANCE),
    ("anonymous_oac", "records are drawn with repetition"): Fault(
        drawn_with_repetition, "times of a record in a round"
    ),
    ("anonymous_oac", "participation is not random"): Fault(same_devices_always, CHANCE, anew=True),
    ("anonymous_oac", "participation twice as often"): Fault(chances(network__participation=1.0), CHANCE, anew=True),
    ("anonymous_oac", "larger batches"): Fault(chances(data__sampling=0.65), CHANCE, anew=True),
    ("anonymous_oac, known", "half as often with twice the records"): Fault(
        chances(network__participation=0.25, data__sampling=1.0), "rounds that a user is in", anew=True
    ),
    ("anonymous_oac", "half the noise delivered"): Fault(
        delivered(anonymous_oac, user_noise_std=USERS / 2), RECORD, anew=True
    ),
    ("anonymous_oac", "half the noise in the update"): Fault(
        delivered(anonymous_oac, "reception_noise", update_noise_std=UPDATE / 2), ALL_NOISE, anew=True
    ),
    ("anonymous_oac", "weights delivered x 1.1"): Fault(
        delivered(anonymous_oac, weight=1.1 * WEIGHT), RECORD, anew=True
    ),
    ("anonymous_oac", "half the visibility delivered"): Fault(
        delivered(anonymous_oac, "visibility", visibility=SEEN / 2), RECORD, anew=True
    ),
    ("anonymous_oac", "half the sensitivity"): Fault(accounted(linear, losses=half_as_visible), LEAST, anew=True),
    ("anonymous_oac", "half the rounds"): Fault(accounted(linear, losses=half_the_rounds), ALL_ROUNDS, anew=True),
    ("anonymous_oac", "another delta"): Fault(accounted(linear, delta=100), ALL_ROUNDS, anew=True),
    # What random_orthogonalization has of its own.
    ("random_orthogonalization", "half the noise"): Fault(deviation(HALF), DEVIATION),
    ("random_orthogonalization", "noise 2 % low"): Fault(deviation(LOW), DEVIATION),
    ("random_orthogonalization", "the same noise each round"): Fault(by_rounds(lambda of, t: of(0 * t)), ROUNDS),
    ("random_orthogonalization", "the same noise in all runs"): Fault(one_key, RUNS),
    ("random_orthogonalization", "the same noise in all schemes"): Fault(one_stream_for_all_schemes, RELEASES),
    ("random_orthogonalization", "weights x 1.1"): Fault(inputs(louder), SENSITIVITY),
    ("random_orthogonalization", "one user's weight twice"): Fault(inputs(one_is_louder), ALL_RECORDS),
    ("random_orthogonalization", "steps x 1.02"): Fault(longer_steps, MODEL),
    ("random_orthogonalization", "no clipping"): Fault(
        clip(lambda right, update, norm: right(update, 1e30 * norm)), SENSITIVITY
    ),
    ("random_orthogonalization", "clipped to 1.02"): Fault(
        clip(lambda right, update, norm: right(update, 1.02 * norm)), SENSITIVITY
    ),
    ("random_orthogonalization", "scaled by the mean norm"): Fault(clip(by_mean_norm), SENSITIVITY),
    ("random_orthogonalization", "each output is clipped"): Fault(clip(each_output), SENSITIVITY),
    ("random_orthogonalization, convolutions", "clipped to 1.02"): Fault(looser_updates, SENSITIVITY),
    ("random_orthogonalization", "half the noise delivered"): Fault(
        delivered(random_orthogonalization, "reception_noise", update_noise_std=UPDATE / 2), RECORD, anew=True
    ),
    ("random_orthogonalization", "weights delivered x 1.1"): Fault(
        delivered(random_orthogonalization, weight=1.1 * WEIGHT), RECORD, anew=True
    ),
    ("random_orthogonalization", "half the visibility delivered"): Fault(
        delivered(random_orthogonalization, "visibility", visibility=SEEN / 2), RECORD, anew=True
    ),
    ("random_orthogonalization, user", "another observer's rows"): Fault(
        delivered(
            random_orthogonalization,
            "visibility",
            observer=pl.col("observer").replace({"update": "antennas", "antennas": "update"}),
            visibility_users_only=pl.col("visibility"),
        ),
        RECORD,
        anew=True,
    ),
    ("random_orthogonalization, colluders", "colluders' noise is counted"): Fault(
        lambda monkeypatch: monkeypatch.setattr(observers, "gone", lambda *given: 0), RECORD, anew=True
    ),
    ("random_orthogonalization", "half the sensitivity"): Fault(
        accounted(random_orthogonalization_account, half_as_visible), LEAST, anew=True
    ),
    ("random_orthogonalization", "half the rounds"): Fault(
        accounted(random_orthogonalization_account, half_the_rounds), LEAST, anew=True
    ),
    ("random_orthogonalization", "another delta"): Fault(
        accounted(random_orthogonalization_account, delta=100), LEAST, anew=True
    ),
}


QUICK = (  # one of each kind
    ("multicell", "noise 2 % low"),
    ("multicell", "noise of two points"),
    ("multicell", "truncated noise"),
    ("multicell", "no noise in the last bias"),
    ("multicell", "biases' noise as kernels'"),
    ("multicell", "the same noise each round"),
    ("multicell", "noise of the round before, moved"),
    ("multicell", "the same noise in all schemes"),
    ("multicell", "another trainer than is audited"),
    ("multicell", "half the noise of the whole update"),
    ("multicell", "a record in two messages"),
    ("multicell", "a record dealt to two users"),
    ("multicell", "clipped to 1.02"),
    ("multicell", "without the second layer"),
    ("multicell", "the last block is not clipped"),
    ("multicell, users clipped", "clipped to 1.02"),
    ("multicell", "noise 2 % low delivered"),
    ("multicell", "one user's noise left out"),
    ("multicell", "another observer's rows"),
    ("multicell, network", "colluders' noise is counted"),
    ("multicell", "half the rounds"),
    ("multicell", "another delta, everywhere"),
    ("anonymous_oac", "records are not sampled"),
    ("anonymous_oac", "half the rounds"),
    ("random_orthogonalization", "one user's weight twice"),
    ("random_orthogonalization", "scaled by the mean norm"),
    ("random_orthogonalization", "steps x 1.02"),
)


def audited_with(monkeypatch, way: str, fault: Fault):
    """The audit's parameters and tables, with a fault in the code."""
    found = None if fault.anew else made(way)
    fault.change(monkeypatch)
    return found or stages(*ALL[way])


@pytest.mark.parametrize(("way", "name"), [pytest.param(*case, id=": ".join(case)) for case in QUICK])
def test_a_fault_is_seen_by_the_test_that_is_for_it(monkeypatch, way, name):
    fault = FAULTS[way, name]
    assert fault.test in violated(stage_of.audit(*audited_with(monkeypatch, way, fault)))


@pytest.mark.slow
@pytest.mark.parametrize(("way", "name"), [pytest.param(*case, id=": ".join(case)) for case in FAULTS])
def test_a_fault_is_seen_with_every_seed(monkeypatch, way, name):
    # Of faults far above what verdicts call detectable; one that is seen with 99 % is missed once in 20 cases. With
    # records that are drawn, now one test sees a fault and now another.
    parameters, found = audited_with(monkeypatch, way, FAULTS[way, name])
    for seed in SEEDS:
        assert violated(stage_of.audit(replaced(parameters, "seed", seed), found)), seed


@pytest.mark.parametrize("way", in_turn(MORE, "multicell, network", "random_orthogonalization, colluders"))
def test_without_a_fault_nothing_is_seen(way):
    assert set(stage_of.audit(*made(way))["status"]) == {"passed"}
