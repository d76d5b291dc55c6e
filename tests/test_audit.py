"""One-shot audit of the privacy that training gives, in the style of Andrew et al. (arXiv 2302.03098).

The loss is <w, x> + b, so a record's gradient is the record itself and a 1 for the bias. Canary j is
the record b_j c u_j, with u_j orthonormal, b_j = +-1 and c = 1e5 L: the bias takes less than 1e-10 of
the clipped canary's norm, far below what the audit can see.
"""

import math
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
import tensorflow as tf
from scipy import stats

import stage_of
from pipeline import on_one_cell, on_one_channel, part
from pwfl import streams
from pwfl.learning import datasets, engine, network
from pwfl.learning.mlp import glorot_uniform, parameter_count
from pwfl.scenario import resolve
from pwfl.systems.multicell.rounds import aggregated_noise_std

FALSE_ALARM = 1e-6
LIMIT = stats.norm.isf(FALSE_ALARM / 2)  # 4.89 standard errors
CLIP = 10.0


def linear(weights, x, y):
    """The model <w, x> + b, whose loss is its output."""
    return [x], [tf.ones([tf.shape(x)[0], 1])]


def clip_samples(x, samples):
    return engine.per_sample_gradient(linear, x, None, tf.constant(CLIP))


def clip_users(x, samples):
    return engine.per_user_gradient(linear, x, None, tf.constant(CLIP), samples)


class Canaries(NamedTuple):
    directions: np.ndarray  # u_j as columns, (coordinates, canaries)
    signs: np.ndarray  # b_j

    @property
    def records(self):
        return (self.signs * 1e5 * CLIP * self.directions).T.astype(np.float32)


def canaries(coordinates, count, seed=0):
    generator = np.random.default_rng(seed)
    directions, _ = np.linalg.qr(generator.standard_normal((coordinates, count)).astype(np.float32))
    return Canaries(directions, generator.choice([-1.0, 1.0], count))


def released(records, samples, noise_std, key, rounds, clip=clip_samples):
    """M_t for each of the given rounds without its bias, shape (round, coordinate): steps of size 1 from 0."""
    x, samples = tf.constant(records), tf.constant(samples, tf.int32)
    start = [tf.zeros([records.shape[1], 1]), tf.zeros(1)]

    @tf.function
    def step(t):
        return engine.train_rounds(
            clip(x, samples), start, tf.constant(1.0), tf.constant(noise_std, tf.float32), key, t, tf.constant(1)
        )

    key = tf.constant(key, tf.int64)
    return np.array([-step(tf.constant(t))[0][0].numpy().ravel() for t in rounds])


class Audit(NamedTuple):
    mu: float  # estimate
    mu_passes: bool
    variance_passes: bool

    @property
    def passes(self):
        return self.mu_passes and self.variance_passes


def audit(query, canary, mu, noise_std):
    """Hold released queries, shape (round, coordinate), to the mu and the noise that are claimed."""
    rounds, (coordinates, count) = len(query), canary.directions.shape
    score = query.sum(axis=0) @ canary.directions / (noise_std * math.sqrt(rounds))
    estimate = 2 * np.mean(canary.signs * score)
    noise = query - query @ canary.directions @ canary.directions.T
    degrees = rounds * (coordinates - count)
    low, high = stats.chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], degrees)
    energy = float((noise.astype(np.float64) ** 2).sum()) / noise_std**2
    return Audit(estimate, bool(abs(estimate - mu) <= LIMIT * 2 / math.sqrt(count)), bool(low <= energy <= high))


def uncorrelated(vectors):
    """Whether all pairs of rows may be independent, at the stated false-alarm rate in all."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    z = (unit @ unit.T)[np.triu_indices(len(unit), 1)] * math.sqrt(vectors.shape[1])
    return bool(np.abs(z).max() < stats.norm.isf(FALSE_ALARM / 2 / len(z)))


# One user: K records, all of them canaries, sigma of its own.

COUNT, COORDINATES, ROUNDS = 200, 2000, 60
SIGMA = 0.9
CANARIES = canaries(COORDINATES, COUNT)


def gaussian_dp(samples, noise_std, rounds):
    """mu = 2 L sqrt(T) / (K sigma)."""
    return 2 * CLIP * math.sqrt(rounds) / (samples * noise_std)


def aggregated(samples, noise_std):
    return aggregated_noise_std(np.array(samples), np.full(len(samples), True), np.array(noise_std))


def audit_of_one_user(noise_std=SIGMA, rounds=range(ROUNDS), clip=clip_samples):
    """The audit of a path that adds `noise_std` where SIGMA is claimed."""
    query = released(CANARIES.records, [COUNT], aggregated([COUNT], [noise_std]), 5, rounds, clip)
    return audit(query, CANARIES, gaussian_dp(COUNT, SIGMA, len(rounds)), SIGMA)


def test_training_passes_the_audit():
    assert audit_of_one_user().passes


def test_claimed_mu_is_the_audited_one():
    # The table that reports mu says what the audit finds.
    override = {
        "network": {"users": 1},
        "data": {"dataset": "digits"},
        "training": {"rounds": ROUNDS, "clip_norm": CLIP},
    }
    keys = {"realization": [0], "user": [0]}
    frames = {
        "users": pl.DataFrame(keys | {"samples": [COUNT]}),
        "schedule": pl.DataFrame(keys | {"resource_block": [0], "power_w": 0.01, "rate_bps": 1e5}),
        "noise": pl.DataFrame(keys | {"noise_std": [SIGMA]}),
    }
    (mu,) = stage_of.account(part(resolve({}, override), "account"), on_one_cell(frames))["leakage"]["mu"]
    assert abs(audit_of_one_user().mu - mu) <= LIMIT * 2 / math.sqrt(COUNT)


def test_one_call_over_all_rounds_releases_their_sum():
    x = tf.constant(CANARIES.records)
    (kernel, _), _ = engine.train_rounds(
        clip_samples(x, None),
        [tf.zeros([COORDINATES, 1]), tf.zeros(1)],
        tf.constant(1.0),
        tf.constant(SIGMA),
        tf.constant(5, tf.int64),
        tf.constant(0),
        tf.constant(ROUNDS),
    )
    query = released(CANARIES.records, [COUNT], SIGMA, 5, range(ROUNDS))
    np.testing.assert_allclose(-kernel.numpy().ravel(), query.sum(axis=0), atol=1e-4)


def test_audit_rejects_clipping_the_mean():
    result = audit_of_one_user(clip=clip_users)
    assert not result.mu_passes
    # Clipped as a whole, the mean still moves by L / sqrt(K) along each canary: sqrt(K) times too much.
    assert abs(result.mu - math.sqrt(COUNT) * gaussian_dp(COUNT, SIGMA, ROUNDS)) <= LIMIT * 2 / math.sqrt(COUNT)


@pytest.mark.parametrize(
    "noise_std",
    [SIGMA**2, SIGMA / COUNT, 0.98 * SIGMA, 1.02 * SIGMA],
    ids=["sigma squared", "sigma / K applied twice", "2% low", "2% high"],
)
def test_audit_rejects_noise_of_another_size(noise_std):
    assert not audit_of_one_user(noise_std=noise_std).passes


def test_audit_rejects_one_seed_for_all_rounds():
    # The sum over rounds then has T^2 times a round's noise variance, not T times.
    def total(rounds):
        query = released(CANARIES.records, [COUNT], SIGMA, 5, rounds).sum(axis=0, keepdims=True)
        return audit(query, CANARIES, gaussian_dp(COUNT, SIGMA, ROUNDS), SIGMA * math.sqrt(ROUNDS))

    assert total(range(ROUNDS)).passes
    assert not total([0] * ROUNDS).variance_passes


def noise_of(keys, rounds, coordinates=20_000):
    nothing = np.zeros((1, coordinates), np.float32)
    return np.concatenate([released(nothing, [1], 1.0, key, rounds) for key in keys])


def test_noise_of_rounds_realizations_and_seeds_is_uncorrelated():
    keys = [streams.key(seed, "noise", realization) for seed in (1, 2) for realization in range(4)]
    assert len(set(keys)) == len(keys)
    assert uncorrelated(noise_of(keys, range(8)))


@pytest.mark.parametrize(
    ("keys", "rounds"),
    [([3, 4, 3], range(8)), ([3, 4], [0, 1, 2, 1])],
    ids=["a key for two realizations", "a stream for two rounds"],
)
def test_audit_rejects_reused_seeds(keys, rounds):
    assert not uncorrelated(noise_of(keys, rounds))


# Several users: the server's average weighs user i's noise by K_i / Ka.

SAMPLES = [30, 70, 20, 80]
SIGMAS = [4.0, 1.0, 2.5, 2.0]
TOTAL = sum(SAMPLES)


def server_std():
    return math.sqrt(sum((k * std / TOTAL) ** 2 for k, std in zip(SAMPLES, SIGMAS, strict=True)))


def audit_of_users(noise_std):
    query = released(CANARIES.records, SAMPLES, noise_std, 8, range(ROUNDS))
    return audit(query, CANARIES, gaussian_dp(TOTAL, server_std(), ROUNDS), server_std())


def test_users_noise_adds_up_to_the_root_of_the_sum_of_squares():
    assert audit_of_users(aggregated(SAMPLES, SIGMAS)).passes


@pytest.mark.parametrize("scheduled", [[True] * 4, [True, False, False, True], [False] * 4])
def test_aggregated_noise_counts_scheduled_users_only(scheduled):
    chosen = [(k, std) for k, std, a in zip(SAMPLES, SIGMAS, scheduled, strict=True) if a]
    total = sum(k for k, _ in chosen)
    expected = math.sqrt(sum((k * std / total) ** 2 for k, std in chosen))
    actual = aggregated_noise_std(np.array(SAMPLES), np.array(scheduled), np.array(SIGMAS))
    assert actual == pytest.approx(expected, rel=1e-12)


def test_audit_rejects_one_noise_vector_broadcast_to_all_users():
    assert not audit_of_users(sum(k * std / TOTAL for k, std in zip(SAMPLES, SIGMAS, strict=True))).passes


def test_audit_rejects_an_unweighted_average_of_noise():
    assert not audit_of_users(math.sqrt(sum(std**2 for std in SIGMAS)) / len(SIGMAS)).passes


# Sensitivity: without noise, a replaced record moves the query by at most 2 L / K.


def shift(before, after, clip):
    """How far the query, its bias included, moves from one data set to its neighbour."""
    start = [tf.zeros([before.shape[1], 1]), tf.zeros(1)]
    samples = tf.constant([len(before)])
    queries = [[part.numpy().ravel() for part in clip(tf.constant(x), samples)(start)[0]] for x in (before, after)]
    return np.linalg.norm(np.concatenate(queries[0]) - np.concatenate(queries[1]))


def neighbours(x, row, record):
    other = x.copy()
    other[row] = record
    return x, other


def test_a_replaced_record_moves_the_query_by_at_most_its_sensitivity():
    generator = np.random.default_rng(3)
    bound = 2 * CLIP / 25
    for scale in (0.1, 1.0, 10.0, 1e6):
        x = np.float32(scale * generator.standard_normal((25, 40)))
        for record in (-x[4], np.zeros(40), 1e4 * generator.standard_normal(40)):
            assert shift(*neighbours(x, 4, record), clip_samples) <= bound * (1 + 1e-5)


def test_an_opposite_record_attains_the_sensitivity():
    x = np.zeros((25, 40), np.float32)
    x[4, 7] = 1e5 * CLIP
    assert shift(*neighbours(x, 4, -x[4]), clip_samples) == pytest.approx(2 * CLIP / 25, rel=1e-5)


def test_audit_rejects_the_sensitivity_of_a_clipped_mean():
    x = np.zeros((25, 40), np.float32)
    x[4, 7] = 1e5 * CLIP
    # One record turns the whole mean around: 2 L, not 2 L / K.
    assert shift(*neighbours(x, 4, -x[4]), clip_users) == pytest.approx(2 * CLIP, rel=1e-4)


def test_a_replaced_record_of_the_network_moves_its_query_by_at_most_its_sensitivity():
    generator = np.random.default_rng(4)
    weights = [3 * w for w in glorot_uniform([30, 20, 10], generator)]
    clip_norm, k = 0.7, 12

    def query(x, y, clipping):
        if clipping == "per_sample":
            parts = engine.per_sample_gradient(network.backward, x, y, tf.constant(clip_norm))(weights)[0]
        else:
            samples = tf.constant([k])
            parts = engine.per_user_gradient(network.backward, x, y, tf.constant(clip_norm), samples)(weights)[0]
        return np.concatenate([part.numpy().ravel() for part in parts])

    moved = {"per_sample": [], "per_user": []}
    for _ in range(30):
        x, y = np.float32(generator.random((k, 30))), np.int32(generator.integers(10, size=k))
        _, other = neighbours(x, 0, 100 * generator.random(30))
        _, label = neighbours(y, 0, (y[0] + 1) % 10)
        for clipping, shifts in moved.items():
            shifts.append(np.linalg.norm(query(x, y, clipping) - query(other, label, clipping)))
    assert max(moved["per_sample"]) <= 2 * clip_norm / k * (1 + 1e-5)
    assert max(moved["per_user"]) > 2 * clip_norm / k


# The paper's size, and the stage as jobs run it.


def test_papers_model_size_passes_the_audit():
    coordinates, count, rounds = parameter_count([784, 256, 256, 10]) - 1, 32, 200
    assert coordinates + 1 == 269_322
    canary = canaries(coordinates, count, seed=1)
    sigma = 100 / count  # K sigma = Nmin: rho 4, mu sqrt(8)
    x = tf.constant(canary.records)

    @tf.function
    def all_rounds(key):
        return engine.train_rounds(
            clip_samples(x, None),
            [tf.zeros([coordinates, 1]), tf.zeros(1)],
            tf.constant(1.0),
            tf.constant(aggregated([count], [sigma]), tf.float32),
            key,
            tf.constant(0),
            tf.constant(rounds),
        )

    total = -all_rounds(tf.constant(streams.key(1, "noise", 0), tf.int64))[0][0].numpy().reshape(1, -1)
    # The sum over rounds has T times a round's mean and variance.
    std = sigma * math.sqrt(rounds)
    assert gaussian_dp(count, sigma, rounds) == pytest.approx(math.sqrt(8))
    assert audit(total, canary, math.sqrt(8), std).passes
    assert not audit(total, canary, math.sqrt(8), std * 0.98).passes
    assert not audit(total, canary, math.sqrt(8), std / 0.98).passes


def test_the_stage_adds_the_aggregated_noise():
    # Blank images of one class train nothing but the biases, so the loss tells the noise on them.
    size = datasets.SIZES["digits"]
    blank = datasets.Dataset(
        np.zeros((size.train, 64), np.float32),
        np.zeros(size.train, np.int32),
        np.zeros((size.test, 64), np.float32),
        np.ones(size.test, np.int32),
    )
    training = {"hidden_layers": [], "rounds": 1, "learning_rate": 0.3, "clip_norm": CLIP}
    base = {"network": {"users": 5}, "data": {"dataset": "digits"}, "training": training}
    keys = {"realization": np.repeat(range(20), 5), "user": np.tile(range(5), 20)}
    frames = {
        "users": pl.DataFrame(keys | {"samples": [*SAMPLES, 40] * 20}),
        "schedule": pl.DataFrame(keys | {"resource_block": [0, 0, 0, 0, None] * 20, "power_w": 0.01, "rate_bps": 1e5}),
        "noise": pl.DataFrame(keys | {"noise_std": [*SIGMAS, 0.0] * 20}),
    }
    history = stage_of.train(part(resolve(base, {}), "train"), blank, range(20), on_one_channel(frames))["history"]
    losses = history.filter(pl.col("round") == 1)["loss"].to_numpy()

    def expected(std):
        gradient = np.full(10, 0.1) - np.eye(10)[0]
        bias = -0.3 * (gradient + std * bias_noise)
        return np.log(np.exp(bias).sum(axis=1)) - bias[:, 1]

    noise = [
        tf.random.stateless_normal([650], seed=tf.constant([streams.key(1, "noise", r), 0], tf.int64))
        for r in range(20)
    ]
    bias_noise = np.array([n.numpy()[640:] for n in noise], float)
    np.testing.assert_allclose(losses, expected(server_std()), rtol=1e-5)
    for wrong in (server_std() * 1.001, sum(k * std / TOTAL for k, std in zip(SAMPLES, SIGMAS, strict=True))):
        assert np.abs(losses / expected(wrong) - 1).max() > 1e-4
