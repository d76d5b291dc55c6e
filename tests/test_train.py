"""Stage train: the fused pass of dense networks against per-sample gradients, rounds, the plain two-level algorithm."""

import math
import os
import subprocess
import sys

import keras
import numpy as np
import polars as pl
import pytest
import tensorflow as tf
from scipy import stats
from sklearn.metrics import accuracy_score, log_loss, recall_score

import stage_of
import two_level
from graphs import operations, sums_up_in_place
from pipeline import on_one_channel, part
from pwfl import registry, streams, tables
from pwfl.api import stage_tables
from pwfl.learning import datasets, sources
from pwfl.learning.mlp import glorot_uniform, parameter_count
from pwfl.scenario import resolve
from pwfl.systems.multicell import receive
from pwfl.systems.multicell.train import parts
from pwfl.training import dense, rounds, trainings
from pwfl.training.batching import Draws
from pwfl.training.gradients import Gradients, UserGradients
from pwfl.training.trainable import Dense
from trained import Drift, averaging, drifted, summed, tables_of, training

FALSE_ALARM = 1e-6
DEPTHS = [[64, 10], [64, 12, 10], [64, 9, 7, 10], [64, 6, 6, 6, 10]]


@pytest.fixture(scope="module")
def digits():
    return datasets.prepared(sources.load("digits"))


def start_weights(widths, seed=0, scale=1.0):
    generator = np.random.default_rng(seed)
    weights = glorot_uniform(widths, generator)
    return [np.float32(scale * w + 0.1 * generator.standard_normal(w.shape)) for w in weights]


def assert_close(actual, desired, tolerance=1e-5):
    """Equal up to float32 rounding, which grows with the largest number of the tensor."""
    for a, d in zip(actual, desired, strict=True):
        np.testing.assert_allclose(a, d, rtol=0, atol=tolerance * np.abs(d).max())


# Gradients


def sample_norms(weights, x, y):
    return [two_level.norm(two_level.gradient(weights, x[k : k + 1], y[k : k + 1])) for k in range(len(x))]


def clipped_mean(weights, x, y, clip_norm, **more):
    """The fused pass over all records."""
    given = [tf.constant(w) for w in weights], tf.constant(x), tf.constant(y), float(clip_norm), tf.constant(len(x))
    return dense.clipped_mean(*given, **more)


@pytest.mark.parametrize("quantile", [None, 0.0, 0.5, 1.0], ids=["loose", "all", "some", "none"])
@pytest.mark.parametrize("widths", DEPTHS, ids=str)
def test_fused_gradient_clips_every_sample(digits, widths, quantile):
    weights, x, y = start_weights(widths), digits.x_train[:40], digits.y_train[:40]
    norms = sample_norms(weights, x, y)
    clip_norm = 1e6 if quantile is None else np.quantile(norms, quantile) * {0.0: 0.9, 0.5: 1, 1.0: 1.1}[quantile]
    assert (np.array(norms) > clip_norm).sum() == {None: 0, 0.0: 40, 0.5: 20, 1.0: 0}[quantile]
    fused, clipped = clipped_mean(weights, x, y, clip_norm)
    assert_close(fused, two_level.mean_clipped_gradient(weights, x, y, clip_norm))
    assert clipped == {None: 0, 0.0: 40, 0.5: 20, 1.0: 0}[quantile]


@pytest.mark.parametrize("large", [False, True])
def test_records_count_in_the_mean_as_they_are_said_to(digits, monkeypatch, large):
    if large:  # records go through in blocks
        monkeypatch.setattr(dense, "LARGE_LAYER", 100)
    weights, x, y = start_weights([64, 12, 10]), digits.x_train[:40], digits.y_train[:40]
    counts = np.random.default_rng(2).uniform(0, 2, 40).astype(np.float32)
    found, clipped = clipped_mean(weights, x, y, 1.4, counts=tf.constant(counts))
    each = [two_level.mean_clipped_gradient(weights, x[k : k + 1], y[k : k + 1], 1.4) for k in range(40)]
    assert_close(found, [np.tensordot(counts, parts, axes=1) / 40 for parts in zip(*each, strict=True)])
    assert clipped == (np.array(sample_norms(weights, x, y)) > 1.4).sum()


def keras_model(widths, weights):
    layers = [keras.layers.Dense(n, activation="relu") for n in widths[1:-1]] + [keras.layers.Dense(widths[-1])]
    model = keras.Sequential([keras.layers.Input([widths[0]]), *layers])
    model.set_weights(weights)
    return model


@pytest.mark.parametrize("clip_norm", [0.05, 1.4, 50.0], ids=["all", "some", "none"])
@pytest.mark.parametrize("widths", DEPTHS, ids=str)
def test_per_user_gradient_clips_every_users_mean(digits, widths, clip_norm):
    weights, samples = start_weights(widths), [1, 2, 25, 12]
    x, y = digits.x_train[:40], digits.y_train[:40]
    parts = list(zip(np.split(x, np.cumsum(samples)[:-1]), np.split(y, np.cumsum(samples)[:-1]), strict=True))
    clipped = [two_level.norm(two_level.gradient(weights, *part)) > clip_norm for part in parts]
    assert {0.05: all(clipped), 1.4: any(clipped) and not all(clipped), 50.0: not any(clipped)}[clip_norm]
    means = [two_level.clipped_mean_gradient(weights, *part, clip_norm) for part in parts]
    expected = two_level.average(means, samples)
    learner = UserGradients(Dense(tuple(widths), lambda draws: weights), clip_norm)
    found, measured = summed(learner, weights, x, y, averaging(samples, unit=False), samples)
    assert_close(found, expected)
    assert measured.numpy().tolist() == [sum(clipped), 4]


def test_a_sample_without_gradient_counts_as_zero():
    # A hopelessly certain network: its delta is exactly 0, and so is the norm it is divided by.
    weights = [np.zeros((4, 3), np.float32), np.float32([500, 0, 0])]
    x, y = np.ones((3, 4), np.float32), np.int32([0, 0, 1])
    (kernel, bias), clipped = clipped_mean(weights, x, y, 0.3)
    assert clipped == 1
    expected = two_level.mean_clipped_gradient(weights, x, y, 0.3)
    assert_close([kernel, bias], expected)
    assert two_level.norm([kernel.numpy(), bias.numpy()]) == pytest.approx(0.3 / 3, rel=1e-6)
    samples = [2, 1]
    learner = UserGradients(Dense((4, 3), lambda draws: weights), 0.3)
    zero, _ = summed(learner, weights, x, y, averaging(samples, unit=False), samples)
    assert_close(zero, expected)


def test_papers_model_size():
    widths = [784, 256, 256, 10]
    assert parameter_count(widths) == sum(w.size for w in start_weights(widths)) == 269_322
    weights, x = start_weights(widths, scale=2.0), np.float32(np.random.default_rng(5).random((6, 784)))
    y = np.int32([3, 1, 4, 1, 5, 9])
    clip_norm = np.median(sample_norms(weights, x, y))
    fused, clipped = clipped_mean(weights, x, y, clip_norm)
    assert_close(fused, two_level.mean_clipped_gradient(weights, x, y, clip_norm))
    assert clipped == 3


def test_start_weights_are_glorot_uniform():
    kernel, bias, *_ = glorot_uniform([200, 100, 10], np.random.default_rng(3))
    limit = math.sqrt(6 / 300)
    assert stats.kstest(kernel.ravel(), stats.uniform(-limit, 2 * limit).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(kernel.ravel(), stats.uniform(-1.05 * limit, 2.1 * limit).cdf).pvalue < FALSE_ALARM
    assert not bias.any()


def test_evaluation_is_that_of_scikit_learn(digits):
    weights = start_weights([64, 12, 10], scale=3.0)
    logits = keras_model([64, 12, 10], weights)(digits.x_test).numpy().astype(float)
    given = [tf.constant(w) for w in weights], tf.constant(digits.x_test), tf.constant(digits.y_test)
    (accuracy, *by_label), loss = dense.evaluate(*given)
    assert float(accuracy) == pytest.approx(accuracy_score(digits.y_test, logits.argmax(axis=1)), abs=1e-6)
    probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    assert float(loss) == pytest.approx(log_loss(digits.y_test, probabilities), rel=1e-5)
    recall = recall_score(digits.y_test, logits.argmax(axis=1), average=None)
    assert np.array(by_label) == pytest.approx(recall, abs=1e-6)


# Algorithm 1


def test_exactly_t_rounds_are_run_and_can_be_run_in_parts():
    for number in (0, 1, 200):
        (weight,) = drifted([np.float32([3.0])], [0.5] * 200, [0.0], 0, tf.constant(number))
        assert float(weight[0]) == 3 - 0.5 * number
    weights, settings = start_weights([5, 3]), ([0.5] * 6, [0.3])
    whole = drifted(weights, *settings, 0, tf.constant(6))
    some = drifted(weights, *settings, 0, tf.constant(4))
    for w, p in zip(whole, drifted(some, *settings, 4, tf.constant(2)), strict=True):
        np.testing.assert_array_equal(w, p)


@pytest.mark.parametrize("length", [1, 2, 6])
def test_each_round_goes_by_its_interval_and_its_step(length):
    intervals = 6 // length
    at, steps, start = np.arange(1.0, 1 + intervals), 0.1 * np.arange(1, 7), np.float32([3.0, -2.0])
    expected = (start + 1) * np.prod(1 - steps * np.repeat(at, length)) - 1
    (found,) = drifted([start], steps, [0.0] * intervals, 0, tf.constant(6), at, slope=1.0)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    state = [start]
    for t in range(6):  # one round is no loop
        state = drifted(state, steps, [0.0] * intervals, t, 1, at, slope=1.0)
    np.testing.assert_allclose(state[0], found, rtol=1e-6)


CELLS = [0, 1, 1, 0, 2, 2]
SAMPLES = [12, 7, 20, 1, 9, 16]
SCHEDULED = [True, True, True, True, False, True]


def scenario_tables(samples, scheduled, noise_std, realizations=range(1)):
    """The tables `train` reads: the same users in each realization."""
    n, users = len(realizations), range(len(samples))
    keys = {"realization": np.repeat(list(realizations), len(samples)), "user": [*users] * n}
    sent = {"resource_block": [0 if s else None for s in scheduled] * n, "rate_bps": 1e5, "power_w": 1e-3}
    frames = {
        "users": pl.DataFrame(keys | {"samples": samples * n, "cell": 0}),
        "schedule": pl.DataFrame(keys | sent),
        "noise": pl.DataFrame(keys | {"noise_std": noise_std * n}, schema_overrides={"noise_std": pl.Float64}),
    }
    return on_one_channel(frames)


def scenario(seed=1, **changes):
    base = {"network": {"users": 6}, "data": {"dataset": "digits"}, "seed": seed}
    base["training"] = {"hidden_layers": [8], "rounds": 5, "learning_rate": 0.5, "clip_norm": 1.0}
    return resolve(base, {"training": changes})


def history(digits, users, realizations=range(1), **changes):
    return trained(scenario(**changes), digits, users, realizations)


def trained(model, data, frames, realizations):
    """The history of what is received by some tables."""
    found = frames | receive.run(part(model, "receive"), frames)
    return stage_of.train(part(model, "train"), data, realizations, found)["history"]


def cells_of(digits, noise_std, realization=0):
    """Each station's scheduled users of the tables above, with the samples that are theirs."""
    owned = streams.generator(1, "data", realization).permutation(len(digits.x_train))
    parts = np.split(owned[: sum(SAMPLES)], np.cumsum(SAMPLES)[:-1])
    cells = [[], [], []]
    for cell, mine, scheduled, std in zip(CELLS, parts, SCHEDULED, noise_std, strict=True):
        if scheduled:
            cells[cell].append(two_level.User(digits.x_train[mine], digits.y_train[mine], std))
    return cells


@pytest.mark.parametrize(
    ("clipping", "user_gradient"),
    [("per_sample", two_level.mean_clipped_gradient), ("per_user", two_level.clipped_mean_gradient)],
)
@pytest.mark.parametrize("hidden_layers", [[], [8], [6, 5]], ids=str)
def test_training_without_noise_is_the_two_level_algorithm(digits, hidden_layers, clipping, user_gradient):
    silent = [0.0] * 6
    users = scenario_tables(SAMPLES, SCHEDULED, silent)
    rows = history(digits, users, hidden_layers=hidden_layers, clipping=clipping, rounds=4)
    weights = glorot_uniform([64, *hidden_layers, 10], streams.generator(1, "weights", 0))
    generator = np.random.default_rng(0)
    for number, accuracy, loss in rows.select("round", "accuracy", "loss").rows():
        model = two_level.train(weights, cells_of(digits, silent), number, 0.5, 1.0, generator, user_gradient)
        logits = keras_model([64, *hidden_layers, 10], model)(digits.x_test)
        assert loss == pytest.approx(float(two_level.loss(model, digits.x_test.astype(float), digits.y_test)), rel=2e-6)
        assert accuracy == pytest.approx(accuracy_score(digits.y_test, np.argmax(logits, axis=1)), abs=1.5 / 360)
    assert rows["round"].to_list() == [0, 1, 4]


NOISE_STD = [0.5, 0.9, 0.3, 5.0, 0.0, 0.4]


@pytest.mark.parametrize("compiled", [False, True])
def test_noise_of_all_layers_has_one_law(compiled):
    key = [3] if compiled else 3  # as several have their draws, or one
    start = [tf.zeros([1, *shape] if compiled else shape) for shape in ((50, 40), (40,), (40, 10), (10,))]
    draws = zip(*(Draws(t, compiled).normals(tf.constant(key, tf.int64), start) for t in range(50)), strict=True)
    for k, layer in enumerate(np.ravel(draw) for draw in draws):
        low, high = stats.chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], layer.size)
        assert low < (layer.astype(float) ** 2).sum() < high, k
        assert stats.kstest(layer, "norm").pvalue > FALSE_ALARM, k


HELD, SIGMAS, TOTAL = [30, 70, 20, 80], [4.0, 1.0, 2.5, 2.0], 200


@pytest.mark.parametrize("scheduled", [[True] * 4, [True, False, False, True], [False] * 4])
def test_aggregated_noise_counts_scheduled_users_only(scheduled):
    chosen = [(k, std) for k, std, a in zip(HELD, SIGMAS, scheduled, strict=True) if a]
    total = sum(k for k, _ in chosen)
    expected = math.sqrt(sum((k * std / total) ** 2 for k, std in chosen))
    found = receive.run(part(scenario(), "receive"), scenario_tables(HELD, scheduled, SIGMAS))
    (row,) = found["reception_noise"].rows(named=True)
    assert row["update_noise_std"] == row["planned_noise_std"] == pytest.approx(expected, rel=1e-12)
    assert row["planned_senders"] == len(chosen)


def test_the_stage_adds_the_aggregated_noise():
    # Blank images of one class train nothing but the biases, so the loss tells the noise on them.
    size = datasets.SIZES["digits"]
    blank = datasets.Dataset(
        np.zeros((size.train, 64), np.float32),
        np.zeros(size.train, np.int32),
        np.zeros((size.test, 64), np.float32),
        np.ones(size.test, np.int32),
    )
    training = {"hidden_layers": [], "rounds": 1, "learning_rate": 0.3, "clip_norm": 10.0}
    base = {"network": {"users": 5}, "data": {"dataset": "digits"}, "training": training}
    keys = {"realization": np.repeat(range(20), 5), "user": np.tile(range(5), 20)}
    frames = {
        "users": pl.DataFrame(keys | {"samples": [*HELD, 40] * 20, "cell": 0}),
        "schedule": pl.DataFrame(keys | {"resource_block": [0, 0, 0, 0, None] * 20, "power_w": 0.01, "rate_bps": 1e5}),
        "noise": pl.DataFrame(keys | {"noise_std": [*SIGMAS, 0.0] * 20}),
    }
    model = resolve(base, {})
    values, history = part(model, "train"), trained(model, blank, on_one_channel(frames), range(20))
    losses = history.filter(pl.col("round") == 1)["loss"].to_numpy()

    std = math.sqrt(sum((k * sigma / TOTAL) ** 2 for k, sigma in zip(HELD, SIGMAS, strict=True)))

    def expected(std):
        gradient = np.full(10, 0.1) - np.eye(10)[0]
        bias = -0.3 * (gradient + std * bias_noise)
        return np.log(np.exp(bias).sum(axis=1)) - bias[:, 1]

    noise = [
        tf.random.stateless_normal([650], seed=tf.constant([streams.key(*streams.name_noise(values, r)), 0], tf.int64))
        for r in range(20)
    ]
    bias_noise = np.array([n.numpy()[640:] for n in noise], float)
    np.testing.assert_allclose(losses, expected(std), rtol=1e-5)
    for wrong in (std * 1.001, sum(k * sigma / TOTAL for k, sigma in zip(HELD, SIGMAS, strict=True))):
        assert np.abs(losses / expected(wrong) - 1).max() > 1e-4


# History


@pytest.mark.parametrize(
    ("rounds", "every", "expected"),
    [
        (7, 3, [0, 1, 3, 6, 7]),
        (3, 10, [0, 1, 3]),
        (1, 5, [0, 1]),
        (2, 2, [0, 1, 2]),
    ],
)
def test_evaluated_rounds_are_first_last_and_every_nth(digits, rounds, every, expected):
    assert trainings.evaluation_rounds(rounds, every) == expected
    if rounds < 10:
        users = scenario_tables([5, 6], [True, False], [0.1, 0.0], range(3, 5))
        rows = history(digits, users, range(3, 5), rounds=rounds, evaluate_every=every)
        assert rows.select("realization", "round").rows() == [(r, t) for r in (3, 4) for t in expected]


def test_rounds_between_evaluations_do_not_change_the_training(digits):
    users = scenario_tables(SAMPLES, SCHEDULED, NOISE_STD)
    often = history(digits, users, rounds=12, evaluate_every=1)
    seldom = history(digits, users, rounds=12, evaluate_every=5)
    shared = often.filter(pl.col("round").is_in([0, 1, 5, 10, 12]))
    assert shared.drop("clipped_share").equals(seldom.drop("clipped_share"))
    between = often.filter(pl.col("round").is_between(6, 10))["clipped_share"]
    assert 0 < between.mean() < 1
    assert seldom.filter(round=10)["clipped_share"].item() == pytest.approx(between.mean(), rel=1e-6)
    assert seldom["clipped_share"].null_count() == 1  # before the first round


STATUSES = {
    "trained": ([True, False], [0.1, 0.0], {}),
    "no_user_scheduled": ([False, False], [0.0, 0.0], {}),
    "noise_infeasible": ([True, False], [None, 0.0], {}),
    "diverged": ([True, False], [0.1, 0.0], {"learning_rate": 1e38}),
}


@pytest.mark.parametrize("status", STATUSES)
def test_history_of_each_status_meets_the_schema(digits, status):
    scheduled, noise_std, training = STATUSES[status]
    rows = history(digits, scenario_tables([5, 6], scheduled, noise_std), **training)
    assert rows["status"].unique().to_list() == [status]
    assert len(tables.finished(rows, "history", "multicell")) == len(rows)
    if status == "no_user_scheduled":  # keeps the start weights
        start = history(digits, scenario_tables([5, 6], [True, False], [0.1, 0.0])).row(0, named=True)
        assert rows["round"].to_list() == [0, 1, 5]
        assert rows.select("accuracy", "loss").unique().rows() == [(start["accuracy"], start["loss"])]
    if status == "noise_infeasible":  # is not trained, and nothing is sent
        (row,) = rows.rows(named=True)
        said = {"realization": 0, "round": 0, "status": status, "processor": "cpu"}
        said |= {"air_seconds_cumulative": 0.0, "transmit_energy_j_cumulative": 0.0}
        assert row == dict.fromkeys(row) | said


class Counting(Drift):
    """Weights count rounds, and losses are said."""

    def evaluate(self, weights, data):
        return 0.5 * tf.ones([*weights[0].shape[:-1], 2]), tf.gather(data, tf.cast(weights[0][..., 0], tf.int32))


def counted(losses, starts):
    """The courses of trainings that begin at some places of `losses`, evaluated after each of two rounds, and a fifth."""
    server = trainings.Server(None)
    given = trainings.Parts(Counting(), server, [0, 1, 2, 5], None, 0.0)
    used = trainings.Training(given, rounds.Loop(Counting(), 5, 1), None, tf.constant(losses), ())
    rest = (), np.ones(1, np.float32), np.zeros(1, np.float32), trainings.NO_NOISE, -np.ones(5, np.float32)
    return used.train([trainings.Start(0, [np.float32([first])], *rest, [], None) for first in starts])


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_diverged_training_is_not_evaluated_beyond_its_first_loss_that_is_not_finite(bad):
    losses = [3.0, 2.0, bad, 1.0, 0.5, 0.4]
    (course,) = counted(losses, [0])
    np.testing.assert_array_equal(course.losses, [3.0, 2.0, bad])
    assert course.accuracies.shape == (3, 2)
    np.testing.assert_array_equal(course.sums, [[0], [0.25], [0.25]])
    (course,) = counted([3.0, 2.0, 1.0, bad, bad, 0.4], [0])  # between evaluations
    np.testing.assert_array_equal(course.losses, np.float32([3.0, 2.0, 1.0, 0.4]))
    np.testing.assert_array_equal(course.sums, [[0], [0.25], [0.25], [0.75]])


def test_of_several_trainings_each_ends_at_its_own_loss_that_is_not_finite():
    first, second = counted([3.0, np.nan, 1.0, 7.0, 0.5, 0.4, 0.3, 0.2], [0, 2])
    np.testing.assert_array_equal(first.losses, [3.0, np.nan])
    np.testing.assert_array_equal(second.losses, np.float32([1.0, 7.0, 0.5, 0.2]))
    assert (len(first.accuracies), len(second.accuracies)) == (2, 4)


def test_one_diverged_realization_leaves_the_others_alone(digits):
    mixed = scenario_tables([5, 6], [True, False], [0.1, 0.0], range(3))
    wild = [0.1, 0.0, 1e38, 0.0, 0.1, 0.0]
    mixed["noise"] = mixed["noise"].with_columns(noise_std=pl.Series(wild))
    rows = history(digits, mixed, range(3))
    statuses = rows.group_by("realization", maintain_order=True).agg(pl.col("status").first())["status"].to_list()
    assert statuses == ["trained", "diverged", "trained"]
    alone = history(digits, scenario_tables([5, 6], [True, False], [0.1, 0.0], range(3)), range(3))
    last = pl.col("realization") == 2
    assert rows.filter(last).equals(alone.filter(last))


# Reproducibility


def many_users(realizations):
    """Realizations of different sizes, so that shapes change within a shard."""
    frames = scenario_tables(SAMPLES, SCHEDULED, NOISE_STD, realizations)
    more = pl.col("samples") + 13 * pl.col("realization") * pl.col("user")
    return frames | {"users": frames["users"].with_columns(samples=more)}


@pytest.mark.parametrize("clipping", ["per_sample", "per_user"])
def test_shards_do_not_change_a_bit(digits, clipping):
    whole = history(digits, many_users(range(4)), range(4), clipping=clipping)
    halves = [history(digits, many_users(part), part, clipping=clipping) for part in (range(2), range(2, 4))]
    assert whole.equals(pl.concat(halves))
    single = [history(digits, many_users(range(r, r + 1)), range(r, r + 1), clipping=clipping) for r in range(4)]
    assert whole.equals(pl.concat(single))


FRESH_PROCESS = """
import resource
import sys
from pwfl.learning import datasets, sources
from test_train import history, many_users, scenario_tables

folder = sys.argv[1]
digits = datasets.prepared(sources.load("digits"))
history(digits, many_users(range(3)), range(3)).write_parquet(folder + "/history.parquet")
for trainings in (range(20), range(600)):
    users = scenario_tables([20, 30], [True, True], [0.1, 0.2], trainings)
    sizes = users["users"]["samples"] + users["users"]["realization"] % 5
    history(digits, users | {"users": users["users"].with_columns(samples=sizes)}, trainings, rounds=2)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_a_new_process_with_one_thread_gives_the_same_bits_and_its_memory_does_not_grow(digits, tmp_path):
    threads = {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}
    command = [sys.executable, "-c", FRESH_PROCESS, str(tmp_path)]
    folder = os.path.dirname(__file__)
    result = subprocess.run(command, cwd=folder, env=os.environ | threads, stdout=subprocess.PIPE, check=True)
    there = pl.read_parquet(tmp_path / "history.parquet")
    assert there.equals(history(digits, many_users(range(3)), range(3)))
    after_20, after_600 = (int(peak) for peak in result.stdout.split())
    assert after_600 < 1.05 * after_20


# Resources


def test_rounds_are_traced_once_for_all_schemes_and_hardly_more_often_for_all_sizes(digits):
    rounds.forget()
    used = []
    for n in (6, 5, 8, 13, 21, 34):
        for noise_std, step in ((0.1, 0.5), (0.0, 0.3)):
            model = scenario(n, rounds=3, learning_rate=step)
            frames = scenario_tables([n, n + 1], [True, True], [noise_std, 0.2])
            frames |= receive.run(part(model, "receive"), frames)
            values = part(model, "train")
            own = trainings.training(parts(values, digits, frames), values, digits, frames)
            assert own.train([own.begin(0)])[0].losses[-1] > 0
            used.append(rounds.train_function(own.loop, False, tuple(own.parts.stops), own.tested))
        if n == 6:
            assert used[0].experimental_get_tracing_count() == 1
    assert len(set(used)) == 1  # though each has parts of its own
    assert rounds.train_function.cache_info().misses == 1
    assert used[0].experimental_get_tracing_count() == 2  # the second is for any numbers of records


@pytest.mark.parametrize("learner", [Gradients, UserGradients])
@pytest.mark.parametrize("widths", [[784, 256, 256, 10], [64, 10]])
def test_no_sum_in_the_loop_of_rounds_needs_a_temporary_variable(widths, learner):
    generator = np.random.default_rng(0)
    x, y = generator.random((60, widths[0]), np.float32), generator.integers(0, 10, 60).astype(np.int32)
    own = learner(Dense(tuple(widths), lambda draws: glorot_uniform(widths, draws())), 1.0)
    frames = tables_of([[20, 40]], [averaging([20, 40], unit=learner is Gradients)], [np.array([0.1])], 3)
    used = training(own, datasets.Dataset(x, y, x, y), frames)
    found = operations(lambda: used.train([used.begin(0)]))
    assert "MatMul" in str(found)
    assert not sums_up_in_place(found)


def test_a_sum_of_three_is_noticed_and_not_in_a_later_call():
    @tf.function
    def loop(x):
        for _ in tf.range(3):
            x = tf.add_n([x, x * 2, x * 3])
        return x

    @tf.function
    def double(x):
        return x * 2

    operations(lambda: double(tf.ones([4, 4])))
    loop(tf.ones([4, 4]))
    assert not sums_up_in_place(operations(lambda: double(tf.ones([3, 3]))))
    assert sums_up_in_place(operations(lambda: loop(tf.ones([5, 5]))))


@pytest.mark.parametrize(
    ("system", "change"),
    [
        ("multicell", {"training": {"evaluate_every": 1}}),
        ("random_orthogonalization", {"privacy": {"user_numbers": [2], "delta": 1e-6}}),
    ],
)
def test_what_only_observes_trains_the_same_model(system, change):
    tiny = registry.system(system).catalog.tiny | {"system": system, "realizations": 2, "training_realizations": 2}
    histories = [stage_tables(resolve(tiny, changed))["history"] for changed in ({}, change)]
    before, after = (each.group_by("scheme", "realization", maintain_order=True).last() for each in histories)
    assert before["loss"].to_list() == after["loss"].to_list()
