"""Stage train: the fused engine against per-sample gradients and the plain two-level algorithm."""

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
from pwfl import streams, tables
from pwfl.learning import datasets, engine, network, sources
from pwfl.learning.mlp import glorot_uniform, parameter_count
from pwfl.scenario import resolve
from pwfl.systems.multicell.beyond.server import aggregated_noise_std
from pwfl.systems.multicell.rounds import Senders, history_function

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


@pytest.mark.parametrize("quantile", [None, 0.0, 0.5, 1.0], ids=["loose", "all", "some", "none"])
@pytest.mark.parametrize("widths", DEPTHS, ids=str)
def test_fused_gradient_clips_every_sample(digits, widths, quantile):
    weights, x, y = start_weights(widths), digits.x_train[:40], digits.y_train[:40]
    norms = sample_norms(weights, x, y)
    clip_norm = 1e6 if quantile is None else np.quantile(norms, quantile) * {0.0: 0.9, 0.5: 1, 1.0: 1.1}[quantile]
    assert (np.array(norms) > clip_norm).sum() == {None: 0, 0.0: 40, 0.5: 20, 1.0: 0}[quantile]
    fused, share = engine.per_sample_gradient(network.backward, x, y, np.float32(clip_norm))(weights)
    assert_close(fused, two_level.mean_clipped_gradient(weights, x, y, clip_norm))
    assert share == {None: 0, 0.0: 1, 0.5: 0.5, 1.0: 0}[quantile]


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
    gradient = engine.per_user_gradient(network.backward, x, y, np.float32(clip_norm), tf.constant(samples))
    fused, share = gradient(weights)
    assert_close(fused, expected)
    assert share == np.mean(clipped)


def test_a_sample_without_gradient_counts_as_zero():
    # A hopelessly certain network: its delta is exactly 0, and so is the norm it is divided by.
    weights = [np.zeros((4, 3), np.float32), np.float32([500, 0, 0])]
    x, y = np.ones((3, 4), np.float32), np.int32([0, 0, 1])
    (kernel, bias), share = engine.per_sample_gradient(network.backward, x, y, tf.constant(0.3))(weights)
    assert float(share) == pytest.approx(1 / 3)
    expected = two_level.mean_clipped_gradient(weights, x, y, 0.3)
    assert_close([kernel, bias], expected)
    assert two_level.norm([kernel.numpy(), bias.numpy()]) == pytest.approx(0.3 / 3, rel=1e-6)
    zero, _ = engine.per_user_gradient(network.backward, x, y, tf.constant(0.3), tf.constant([2, 1]))(weights)
    assert_close(zero, expected)


def test_papers_model_size():
    widths = [784, 256, 256, 10]
    assert parameter_count(widths) == sum(w.size for w in start_weights(widths)) == 269_322
    weights, x = start_weights(widths, scale=2.0), np.float32(np.random.default_rng(5).random((6, 784)))
    y = np.int32([3, 1, 4, 1, 5, 9])
    clip_norm = np.median(sample_norms(weights, x, y))
    fused, share = engine.per_sample_gradient(network.backward, x, y, np.float32(clip_norm))(weights)
    assert_close(fused, two_level.mean_clipped_gradient(weights, x, y, clip_norm))
    assert share == 0.5


def test_start_weights_are_glorot_uniform():
    kernel, bias, *_ = glorot_uniform([200, 100, 10], np.random.default_rng(3))
    limit = math.sqrt(6 / 300)
    assert stats.kstest(kernel.ravel(), stats.uniform(-limit, 2 * limit).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(kernel.ravel(), stats.uniform(-1.05 * limit, 2.1 * limit).cdf).pvalue < FALSE_ALARM
    assert not bias.any()


def test_evaluation_is_that_of_scikit_learn(digits):
    weights = start_weights([64, 12, 10], scale=3.0)
    logits = keras_model([64, 12, 10], weights)(digits.x_test).numpy().astype(float)
    accuracy, loss = network.evaluate(weights, digits.x_test, digits.y_test)
    assert float(accuracy) == pytest.approx(accuracy_score(digits.y_test, logits.argmax(axis=1)), abs=1e-6)
    probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    assert float(loss) == pytest.approx(log_loss(digits.y_test, probabilities), rel=1e-5)
    (overall, *by_label), again = network.evaluate_labels(weights, digits.x_test, digits.y_test)
    assert (overall, again) == (accuracy, loss)
    recall = recall_score(digits.y_test, logits.argmax(axis=1), average=None)
    assert np.array(by_label) == pytest.approx(recall, abs=1e-6)


# Algorithm 1


def rounds_of(weights, first, rounds, noise_std=0.0):
    """Weights after some rounds of a constant gradient."""
    settings = (
        tf.constant(0.5),
        tf.constant(noise_std),
        tf.constant(7, tf.int64),
        tf.constant(first),
        tf.constant(rounds),
    )
    after, _ = engine.train_rounds(
        lambda weights: ([tf.ones_like(w) for w in weights], tf.constant(0.25)),
        [tf.constant(w) for w in weights],
        *settings,
    )
    return after


def test_exactly_t_rounds_are_run_and_can_be_run_in_parts():
    for rounds in (0, 1, 200):
        (weight,) = rounds_of([np.float32([3.0])], 0, rounds)
        assert float(weight[0]) == 3 - 0.5 * rounds
    weights = start_weights([5, 3])
    whole = rounds_of(weights, 0, 6, noise_std=0.3)
    parts = rounds_of(rounds_of(weights, 0, 4, noise_std=0.3), 4, 2, noise_std=0.3)
    for w, p in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(w, p)


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


def scenario(seed=1, **training):
    base = {"network": {"users": 6}, "data": {"dataset": "digits"}, "seed": seed}
    base["training"] = {"hidden_layers": [8], "rounds": 5, "learning_rate": 0.5, "clip_norm": 1.0}
    return part(resolve(base, {"training": training}), "train")


def history(digits, users, realizations=range(1), **training):
    return stage_of.train(scenario(**training), digits, realizations, users)["history"]


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
    for rounds, accuracy, loss in rows.select("round", "accuracy", "loss").rows():
        model = two_level.train(weights, cells_of(digits, silent), rounds, 0.5, 1.0, generator, user_gradient)
        logits = keras_model([64, *hidden_layers, 10], model)(digits.x_test)
        assert loss == pytest.approx(float(two_level.loss(model, digits.x_test.astype(float), digits.y_test)), rel=2e-6)
        assert accuracy == pytest.approx(accuracy_score(digits.y_test, np.argmax(logits, axis=1)), abs=1.5 / 360)
    assert rows["round"].to_list() == [0, 1, 4]


NOISE_STD = [0.5, 0.9, 0.3, 5.0, 0.0, 0.4]


def test_noise_of_all_layers_has_one_law():
    start = [tf.zeros(shape) for shape in ((50, 40), (40,), (40, 10), (10,))]
    draws = zip(*(engine.normals(start, tf.constant(3, tf.int64), t) for t in range(50)), strict=True)
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
    actual = aggregated_noise_std(np.array(HELD), np.array(scheduled), np.array(SIGMAS))
    assert actual == pytest.approx(expected, rel=1e-12)


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
    values = part(resolve(base, {}), "train")
    history = stage_of.train(values, blank, range(20), on_one_channel(frames))["history"]
    losses = history.filter(pl.col("round") == 1)["loss"].to_numpy()

    std = math.sqrt(sum((k * sigma / TOTAL) ** 2 for k, sigma in zip(HELD, SIGMAS, strict=True)))

    def expected(std):
        gradient = np.full(10, 0.1) - np.eye(10)[0]
        bias = -0.3 * (gradient + std * bias_noise)
        return np.log(np.exp(bias).sum(axis=1)) - bias[:, 1]

    noise = [
        tf.random.stateless_normal([650], seed=tf.constant([streams.key(*streams.of_noise(values), r), 0], tf.int64))
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
    assert engine.evaluation_rounds(rounds, every) == expected
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
        start = history(digits, scenario_tables([5, 6], [True, False], [0.1, 0.0])).row(0)
        assert rows["round"].to_list() == [0, 1, 5]
        assert rows.select("accuracy", "loss").unique().rows() == [start[2:4]]
    if status == "noise_infeasible":  # is not trained, and nothing is sent
        assert rows.rows() == [(0, 0, None, None, None, "noise_infeasible", *[None] * 3, 0.0, 0.0, "cpu")]


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_diverged_training_is_not_evaluated_beyond_its_first_loss_that_is_not_finite(bad):
    losses = tf.constant([3.0, 2.0, bad, 1.0, 0.5])
    accuracy, loss, clipped = engine.history(
        [tf.constant(0)],
        tf.constant([0, 1, 2, 3, 4]),
        lambda weights, first, count: ([weights[0] + count], tf.cast(first, tf.float32)),
        lambda weights: (tf.constant(0.5), losses[weights[0]]),
    )
    np.testing.assert_array_equal(loss, [3.0, 2.0, bad])
    assert len(accuracy) == 3
    np.testing.assert_array_equal(clipped, [0, 0, 1])


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


def senders_of(training, samples):
    """All users, who send in the only interval, with noise."""
    everybody = np.ones((1, len(samples)), bool)
    return Senders.of(training, np.array(samples), everybody, 0.1 * everybody)


def test_the_round_is_traced_once_for_all_sizes(digits):
    test = tf.constant(digits.x_test), tf.constant(digits.y_test)
    training = scenario(rounds=3).training
    history = history_function(datasets.SIZES["digits"], [0, 1, 3], 1, training, *test)
    for n in (3, 5, 8, 13, 21, 34):
        history(
            [tf.constant(w) for w in start_weights([64, 8, 10])],
            x=tf.constant(digits.x_train[:n]),
            y=tf.constant(digits.y_train[:n]),
            senders=senders_of(training, [1] * n),
            step_sizes=tf.fill([3], 0.1),
            key=tf.constant(n, tf.int64),
        )
    assert history.func.experimental_get_tracing_count() == 1


@pytest.mark.parametrize("clipping", ["per_sample", "per_user"])
@pytest.mark.parametrize("widths", [[784, 256, 256, 10], [64, 10]])
def test_no_sum_in_the_loop_of_rounds_needs_a_temporary_variable(widths, clipping):
    generator = np.random.default_rng(0)
    x = tf.constant(generator.random((60, widths[0]), np.float32))
    y = tf.constant(generator.integers(0, 10, 60), tf.int32)
    training = scenario(rounds=3, hidden_layers=widths[1:-1], clipping=clipping).training
    history_of = history_function(datasets.Size(60, 60, (widths[0],), 10), [0, 1, 3], 1, training, x, y)
    weights = [tf.constant(w) for w in glorot_uniform(widths, generator)]
    given = {
        "senders": senders_of(training, [20, 40]),
        "step_sizes": tf.fill([3], 0.1),
        "key": tf.constant(3, tf.int64),
    }
    found = operations(lambda: history_of(weights, x=x, y=y, **given))
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
