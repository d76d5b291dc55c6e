"""The system `utility_fair`: policies against oracles, training against plain NumPy, accounting, all stages at the edges."""

import math
from pathlib import Path

import mpmath
import numpy as np
import polars as pl
import pytest
import tensorflow as tf
from scipy import constants, optimize, stats

import stage_of
from conftest import ROOT
from pipeline import digits, part, run
from pwfl import scenario, streams, tables
from pwfl.learning.mlp import glorot_uniform, parameter_count
from pwfl.privacy.gaussian import exact_epsilon, exact_multiplier
from pwfl.report import build
from pwfl.report.catalog import COMMON_TABLES, COMPARISON, scenario_figures
from pwfl.scenario.resolution import merge
from pwfl.systems import registry
from pwfl.systems.utility_fair import copies, link, local_steps, utility
from pwfl.systems.utility_fair import rounds as one_round
from pwfl.systems.utility_fair import train as training
from pwfl.systems.utility_fair.catalog import CATALOG
from pwfl.systems.utility_fair.parameters import UtilityFair
from stages import STAGES, readers

FALSE_ALARM = 1e-6
TINY = {
    "system": "utility_fair",
    "realizations": 3,
    "training_realizations": 2,
    "network": {"devices": 4},
    "data": {"dataset": "digits", "samples_per_device": 60},
    "device": {"batch_size": 16, "sample_bits": 50176.0},
    "training": {"hidden_layers": [6], "rounds": 3, "evaluate_every": 2},
}
DEFAULT = scenario.resolve({"system": "utility_fair"}, {})
RADIO, DEVICE = DEFAULT.radio, DEFAULT.device
THERMAL = RADIO.model_copy(update={"noise": "thermal"})
LIMITS, CONSUMPTION = link.limits(RADIO, DEVICE), link.consumption(DEVICE)
VARRHO = BETA_2 = 0.5
TERMS = utility.Terms(LIMITS, CONSUMPTION, beta_2_j=BETA_2, energy_scale_j=VARRHO)


def changed(config: dict, path: str, value) -> dict:
    *sections, key = path.split(".")
    inner = {key: value}
    for section in reversed(sections):
        inner = {section: inner}
    return merge(config, inner)


def links(count: int, radio=RADIO, seed: int = 1) -> np.ndarray:
    """Unit powers of random devices."""
    generator = np.random.default_rng(seed)
    distance, fading = generator.uniform(50, 200, count), generator.exponential(2, count)
    return link.unit_power_w(fading * link.path_gain(distance, radio), radio)


# Table I, as read


def test_the_values_of_table_one():
    assert (constants.c / (4 * math.pi * 32e6)) ** 2 == pytest.approx(link.path_gain(1.0, RADIO))
    assert link.path_gain(1.0, RADIO) == pytest.approx(0.556, abs=5e-4)
    assert link.unit_power_w(1.0, RADIO) / 10**0.98 == pytest.approx(3.98e-21, rel=1e-3, abs=0)
    assert 10 ** (RADIO.snr_gap_db / 10) == pytest.approx(9.55, abs=5e-3)
    assert LIMITS.iteration_s == pytest.approx(6.021e-3, abs=5e-7)
    assert LIMITS.max_power_w == pytest.approx(1.0)
    assert parameter_count([784, *DEFAULT.training.hidden_layers, 10]) == 109_386
    thermal = link.unit_power_w(1.0, THERMAL)
    assert thermal / link.unit_power_w(1.0, RADIO) == pytest.approx(250e3)


def test_noise_multipliers_of_copies():
    base = copies.base_multiplier(0.95, 1e-5)
    assert base == pytest.approx(5.0998, abs=5e-5)
    assert copies.scaled(base, 0.6, 1.0) == pytest.approx(12.7495, abs=5e-5)
    assert exact_multiplier(np.array([0.95, 0.38]), 1e-5) == pytest.approx([3.909, 9.046], abs=5e-4)


# Links


def test_limits_and_energy_agree_with_the_printed_formulas():
    a, b, v = links(50), RADIO.bandwidth_hz, RADIO.update_bits
    d_tau = 128 * 6272 * 7.5e-9
    printed_20 = a * (math.exp(v * math.log(2) / (b * (0.75 - 10 * d_tau))) - 1)
    np.testing.assert_allclose(link.power_w(link.least_z(LIMITS), a), printed_20, rtol=1e-12)
    printed_21 = (0.75 - v * math.log(2) / (b * np.log(1 + 1.0 / a))) / d_tau
    np.testing.assert_allclose(link.iterations(link.log_snr(1.0, a), LIMITS), printed_21, rtol=1e-12)
    power, j = 0.3, 57
    rate = b * np.log2(1 + power / a)
    printed_13 = j * d_tau * 0.096 + v * (power / 0.45 + 0.0825) / rate
    z = link.log_snr(power, a)
    np.testing.assert_allclose(link.energy_j(j * LIMITS.iteration_s, z, a, LIMITS, CONSUMPTION), printed_13, rtol=1e-12)
    np.testing.assert_allclose(link.transmit_s(z, LIMITS), v / rate, rtol=1e-12)
    np.testing.assert_allclose(link.power_w(z, a), power, rtol=1e-12)


def test_iterations_are_rounded_down_but_not_by_a_rounding_error():
    z = link.least_z(LIMITS)
    assert link.whole(link.iterations(np.array([z]), LIMITS)).tolist() == [10]
    assert link.whole(np.array([9.999, 10 - 1e-12, 10.0, 10.999])).tolist() == [9, 10, 10, 10]


def test_energies_of_the_two_readings_of_the_noise():
    """The spec's numbers: 12% less energy with -174 dBm in all, 49% with N0 B."""
    for radio, saving in ((RADIO, 0.1217), (THERMAL, 0.49)):
        a = links(20_000, radio)
        a = a[link.log_snr(1.0, a) >= link.least_z(LIMITS)]
        deviation = np.random.default_rng(0).uniform(0, 0.4, a.shape)
        beta_1 = utility.beta_1_of(deviation, 0.06, BETA_2)
        energy = []
        for z in (utility.best_z(a, beta_1, TERMS), link.log_snr(1.0, a)):
            j = link.whole(link.iterations(z, LIMITS))
            energy.append(link.energy_j(j * LIMITS.iteration_s, z, a, LIMITS, CONSUMPTION).mean())
        assert 1 - energy[0] / energy[1] == pytest.approx(saving, abs=0.012)


# Theorem 2


def golden_maximum(function, low, high):
    """Maxima of unimodal functions, elementwise, in extended precision: no derivative, no root finding."""
    ratio = (np.sqrt(np.longdouble(5)) - 1) / 2
    low, high = low.astype(np.longdouble), high.astype(np.longdouble)
    for _ in range(90):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        better = function(left) > function(right)
        high, low = np.where(better, right, high), np.where(better, low, left)
    return (low + high) / 2


def utility_of(z, a, beta_1, computing_s=None):
    filled = LIMITS.deadline_s - link.transmit_s(z, LIMITS) if computing_s is None else computing_s
    return utility.utility(filled, z, a, beta_1, TERMS)


@pytest.fixture(scope="module")
def devices():
    """400 random devices: half with the printed noise, half thermal; beta_1 from 0 to beyond the first round's 1."""
    a = np.concatenate([links(200), links(200, THERMAL, seed=2)])
    beta_1 = np.random.default_rng(3).uniform(0, 1.2, 400)
    return a, beta_1, utility.best_z(a, beta_1, TERMS)


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="needs extended precision for 1e-7 in Z")
def test_theorem_2_agrees_with_direct_maximization(devices):
    a, beta_1, z = devices
    low, high = np.full(400, link.least_z(LIMITS)), link.log_snr(1.0, a)
    a_long, beta_long = a.astype(np.longdouble), beta_1.astype(np.longdouble)
    direct = golden_maximum(lambda z: utility_of(z, a_long, beta_long), low, high)
    np.testing.assert_allclose(z, direct.astype(float), rtol=0, atol=1e-7)


def test_theorem_2_is_the_best_of_all_powers_and_iterations(devices):
    """Over a grid of powers and of iterations that need not fill the deadline; (22) has no better point."""
    a, beta_1 = (values[:, None, None] for values in devices[:2])
    share = np.linspace(0, 1, 161)[:, None]
    grid = link.least_z(LIMITS) * (1 - share) + link.log_snr(1.0, a) * share
    filled = LIMITS.deadline_s - link.transmit_s(grid, LIMITS)
    least = LIMITS.min_iterations * LIMITS.iteration_s
    computing = least + (filled - least) * np.linspace(0, 1, 31)
    found = utility_of(grid, a, beta_1, computing).max(axis=(1, 2))
    best = utility_of(devices[2], devices[0], devices[1])
    assert (found <= best + 1e-12).all()
    assert (found > best - 2e-3).all()


def test_theorem_2_agrees_with_scipy(devices):
    a, beta_1, z = devices
    for k in range(0, 400, 40):
        result = optimize.minimize_scalar(
            lambda z, k=k: -utility_of(z, a[k], beta_1[k]),
            bounds=(link.least_z(LIMITS), link.log_snr(1.0, a[k])),
            method="bounded",
            options={"xatol": 1e-10},
        )
        assert -result.fun == pytest.approx(utility_of(z[k], a[k], beta_1[k]), abs=1e-13)
        assert result.x == pytest.approx(z[k], abs=1e-4)


def test_the_root_solves_27_as_printed(devices):
    a, beta_1, z = devices
    inside = z < link.log_snr(1.0, a)
    assert inside.sum() > 300
    a, beta_1, z = a[inside], beta_1[inside], z[inside]
    b_hz, v, p_cp, p_cir, rho, t = 250e3, 875e3, 0.096, 0.0825, 0.45, 0.75
    b, c = a * math.log(2) / (rho * b_hz), rho * p_cir / a - 1
    left = (2 * p_cp * (t - v * math.log(2) / b_hz / z) + 2 * v * b / z * (np.exp(z) + c) - VARRHO) * (
        b_hz * b / (p_cp * math.log(2)) * ((z - 1) * np.exp(z) - c) + 1
    )
    right = beta_1 / BETA_2 * np.exp(p_cp / BETA_2 * (v / b_hz / z * math.log(2) - t))
    np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-9)


def test_theorem_2_at_the_ends():
    near, hopeless = 1e-30, 1.0
    far = LIMITS.max_power_w / np.expm1(link.least_z(LIMITS)) * (1 - 1e-9)
    z = utility.best_z(np.array([near, far, hopeless]), np.zeros(3), TERMS)
    assert z[0] == link.log_snr(LIMITS.max_power_w, near)  # even full power costs less than varrho / 2
    assert z[1] == link.least_z(LIMITS)
    assert np.isnan(z[2])
    assert utility.best_z(np.empty(0), np.empty(0), TERMS).shape == (0,)


def test_a_root_that_is_not_found_is_an_error(devices, monkeypatch):
    find = utility.elementwise.find_root

    def fail_at_the_first(*arguments, **options):
        found = find(*arguments, **options)
        found.success[0] = False
        return found

    monkeypatch.setattr(utility.elementwise, "find_root", fail_at_the_first)
    with pytest.raises(ArithmeticError, match=r"\(27\) was not solved for unit powers \["):
        utility.best_z(*devices[:2], TERMS)


def test_where_links_are_so_weak_that_the_circuit_counts_theorem_2_is_not_the_best_point():
    """Said in the docs: with the deadline filled the energy exceeds its target; fewer iterations would be better."""
    a, terms = np.array([0.02]), TERMS._replace(energy_scale_j=0.2)
    z = utility.best_z(a, np.array([0.0]), terms)
    filled = LIMITS.deadline_s - link.transmit_s(z, LIMITS)
    at = [utility.utility(s, z, a, 0.0, terms) for s in (filled, 0.8 * filled)]
    assert at[1] > at[0]


def test_beta_1_makes_the_model_reproduce_the_deviation():
    beta_1 = utility.beta_1_of(0.3, 0.06, BETA_2)
    assert beta_1 * math.exp(-0.06 / BETA_2) == pytest.approx(0.3)


# The access point


def test_deviations_are_relative_to_the_best_and_cut():
    everyone = np.full(3, True)
    np.testing.assert_allclose(copies.deviations(np.array([0.8, 0.4, -0.2]), everyone), [0, 0.5, 1])
    np.testing.assert_allclose(copies.deviations(np.array([0.8, 0.4, 0.0]), np.array([False, True, False])), [1, 0, 1])
    # What points away from the reference is no similarity, however long: neither the best one's nor its own.
    np.testing.assert_allclose(copies.deviations(np.array([0.4, -0.8, 0.2]), everyone), [0, 1, 0.5])
    assert copies.deviations(np.array([-0.5, -0.1, 0.0]), everyone).tolist() == [1, 1, 1]
    assert copies.deviations(np.zeros(3), np.full(3, False)).tolist() == [1, 1, 1]


def copied_noise(vectors, std, rounds=3, coordinates=20_000, key=5):
    """Noise of the copies of a model of zeros, shape (round, device, coordinate), by the path that training takes."""
    weights = [tf.zeros([coordinates // 10 - 1, 10]), tf.zeros(10)]
    copy = tf.function(one_round.noisy_copies)
    drawn = []
    for t in range(rounds):
        parts = copy(
            weights, tf.constant(std, tf.float32), tf.constant(vectors, tf.int32), tf.constant([key, t], tf.int64)
        )
        drawn.append(np.concatenate([p.numpy().reshape(len(vectors), -1) for p in parts], axis=1))
    return np.array(drawn, np.float64)


def law_holds(drawn, std):
    """Chi-square test of every copy's variance and normal quantiles, all pairs of copies uncorrelated."""
    count = drawn[0, 0].size
    low, high = stats.chi2.ppf([FALSE_ALARM / 2 / drawn[..., 0].size, 1 - FALSE_ALARM / 2 / drawn[..., 0].size], count)
    energy = (drawn**2).sum(axis=2) / np.square(std)
    flat = drawn.reshape(-1, count) / np.linalg.norm(drawn.reshape(-1, count), axis=1, keepdims=True)
    correlation = (flat @ flat.T)[np.triu_indices(len(flat), 1)] * math.sqrt(count)
    return (
        ((low <= energy) & (energy <= high)).all(),
        (np.abs(correlation) < stats.norm.isf(FALSE_ALARM / 2 / len(correlation))).all(),
        stats.kstest((drawn[0, 0] / std[0]), "norm").pvalue > FALSE_ALARM,
    )


def test_copies_carry_the_noise_they_should():
    std = np.array([0.05, 0.08, 0.127])
    assert law_holds(copied_noise([0, 1, 2], std), std) == (True, True, True)


def test_the_test_of_noise_rejects_wrong_laws():
    std = np.array([0.05, 0.08, 0.127])
    assert not law_holds(copied_noise([0, 1, 2], 1.06 * std), std)[0]
    assert not law_holds(copied_noise([0, 1, 2], std**2), std)[0]
    assert not law_holds(copied_noise([0, 0, 0], std), std)[1]
    assert not law_holds(np.repeat(copied_noise([0, 1, 2], std, rounds=1), 2, axis=0), std)[1]


def upload_noise(std, coordinates=20_000, rounds=3):
    """Noise of what devices send where it is zero, (round and vector, device, coordinate), by training's path."""
    parts = [tf.zeros([len(std), coordinates // 10 - 1, 10]), tf.zeros([len(std), 1, 10])]
    send = tf.function(one_round.noisy_uploads)
    drawn = []
    for t in range(rounds):
        for name in ("gradient_noise", "update_noise"):
            sent = send(parts, tf.constant(std, tf.float32), tf.constant([streams.key(1, name, 0), t], tf.int64))
            drawn.append(np.concatenate([p.numpy().reshape(len(std), -1) for p in sent], axis=1))
    return np.array(drawn, np.float64)


def test_gradients_and_updates_carry_noise_of_their_own():
    std = np.array([0.05, 0.08, 0.127])
    assert law_holds(upload_noise(std), std) == (True, True, True)
    assert not law_holds(upload_noise(1.06 * std), std)[0]
    assert not law_holds(np.repeat(upload_noise(std)[::2], 2, axis=0), std)[1]


def test_devices_with_the_same_vector_get_the_same_noise():
    drawn = copied_noise([0, 0, 1], np.full(3, 0.05), rounds=1)[0]
    assert (drawn[0] == drawn[1]).all()
    assert not (drawn[0] == drawn[2]).any()
    assert not (drawn[0] == copied_noise([0, 0, 1], np.full(3, 0.05), rounds=1, key=6)[0, 0]).any()


# Local training


def plain_loss_and_gradient(weights, x, y):
    """Mean cross-entropy of one device and its gradient, float64, layer by layer."""
    inputs = [x]
    for kernel, bias in zip(weights[:-2:2], weights[1:-2:2], strict=True):
        inputs.append(np.maximum(inputs[-1] @ kernel + bias, 0))
    logits = inputs[-1] @ weights[-2] + weights[-1]
    logits = logits - logits.max(axis=1, keepdims=True)
    softmax = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    loss = -np.log(softmax[np.arange(len(y)), y]).mean()
    delta = softmax.copy()
    delta[np.arange(len(y)), y] -= 1
    delta /= len(y)
    gradient = []
    for layer in range(len(inputs) - 1, -1, -1):
        gradient = [inputs[layer].T @ delta, delta.sum(axis=0), *gradient]
        delta = (delta @ weights[2 * layer].T) * (inputs[layer] > 0)
    return loss, gradient


def plain_update(weights, x, y, direction, steps, eta):
    """h after some steps of one device, as (3) is written."""
    start = plain_loss_and_gradient(weights, x, y)[1]
    h = [np.zeros_like(w) for w in weights]
    for _ in range(steps):
        here = plain_loss_and_gradient([w + u for w, u in zip(weights, h, strict=True)], x, y)[1]
        h = [u - eta * (g - g0 + d) for u, g, g0, d in zip(h, here, start, direction, strict=True)]
    return h


@pytest.mark.parametrize("hidden", [[], [6], [9, 5]])
def test_local_steps_agree_with_one_device_after_the_other(hidden):
    generator = np.random.default_rng(4)
    widths, steps = [12, *hidden, 5], np.array([0, 3, 40])
    x = generator.random((3, 8, 12))
    y = generator.integers(5, size=(3, 8))
    weights = [[w + 0.1 * generator.standard_normal(w.shape) for w in glorot_uniform(widths, generator)] for _ in steps]
    plain = [plain_loss_and_gradient(w, *batch) for w, batch in zip(weights, zip(x, y, strict=True), strict=True)]
    direction = [np.mean(g, axis=0) for g in zip(*(gradient for _, gradient in plain), strict=True)]

    def rows(layers):
        return [tf.constant(np.array(w).reshape(len(w), -1, np.array(w).shape[-1]), tf.float32) for w in layers]

    stacked = rows(zip(*weights, strict=True))
    batch = tf.constant(x, tf.float32), tf.constant(y, tf.int32)
    np.testing.assert_allclose(local_steps.losses(stacked, *batch), [loss for loss, _ in plain], rtol=1e-5)
    for found, expected in zip(
        local_steps.gradients(stacked, *batch), zip(*(g for _, g in plain), strict=True), strict=True
    ):
        np.testing.assert_allclose(found.numpy().squeeze(), np.array(expected).squeeze(), atol=2e-6)
    found = local_steps.updates(stacked, *batch, rows([d[None] for d in direction]), tf.constant(steps, tf.int32), 0.3)
    for k, count in enumerate(steps):
        expected = plain_update(weights[k], x[k], y[k], direction, count, 0.3)
        for layer, h in zip(found, expected, strict=True):
            np.testing.assert_allclose(layer[k].numpy().squeeze(), h.squeeze(), atol=2e-5)


def before_training(config: dict, scheduler: str, noise_scheme: str):
    """The tables of one scheme up to noise, and the scenario."""
    model = scenario.resolve(config, {})
    found = stage_of.channel(part(model, "channel"), range(model.realizations))
    found |= stage_of.schedule(part(model, "schedule", scheduler), scheduler, found)
    found |= stage_of.noise(part(model, "noise", noise_scheme), noise_scheme, found)
    return found, model


def account(model, found):
    """The tables of the stage account."""
    return stage_of.account(part(model, "account"), found)


def train(model, found, realizations: range):
    """The history of some realizations."""
    return stage_of.train(part(model, "train"), digits(), realizations, found)["history"]


def shortened(vector, most):
    """A vector in parts, scaled down to a norm of at most `most`."""
    norm = math.sqrt(sum((part**2).sum() for part in vector))
    return [part * min(1, most / norm) for part in vector]


def plain_training(found, model, data, scheduler, compared_with):
    """The whole training of realization 0, written as the paper has it: float64, one device after the other."""
    devices = model.network.devices
    limits, consumption = link.limits(model.radio, model.device), link.consumption(model.device)
    widths = [data.x_train.shape[1], *model.training.hidden_layers, 10]
    samples = model.data.samples_per_device
    owned = streams.generator(1, "data", 0).permutation(len(data.x_train))[: devices * samples].reshape(devices, -1)
    weights = [w.astype(float) for w in glorot_uniform(widths, streams.generator(1, "weights", 0))]
    sizes = [w.size for w in weights]
    noise_table = found["noise"].filter(pl.col("realization") == 0)
    beta_1, deviation, rows = np.ones(devices), None, []
    for t in range(1, model.training.rounds + 1):
        plan = found["schedule"].filter(pl.col("realization") == 0, pl.col("round") == t)
        a = plan["unit_power_w"].to_numpy()
        z = link.log_snr(limits.max_power_w, a)
        if scheduler == "utility":
            z = utility.best_z(a, beta_1, utility.terms(model))
        j = np.floor((limits.deadline_s - limits.transmit_nat_s / z) / limits.iteration_s).astype(int)
        draws = streams.generator(1, f"batches/{t}", 0)
        batch = [
            mine[draws.random(samples).argpartition(model.device.batch_size - 1)[: model.device.batch_size]]
            for mine in owned
        ]
        key, *upload_keys = (streams.key(1, name, 0) for name in ("noise", "gradient_noise", "update_noise"))
        normal = tf.random.stateless_normal([devices, sum(sizes)], seed=[key, t]).numpy().astype(float)
        upload_std = noise_table["upload_std"][0] or 0.0
        sent_noise = [
            upload_std * tf.random.stateless_normal([devices, sum(sizes)], seed=[k, t]).numpy().astype(float)
            for k in upload_keys
        ]

        def received(vectors, noise):
            """The devices' vectors as they reach the access point."""
            parts = [np.split(row, np.cumsum(sizes)[:-1]) for row in noise]
            return [[v + n.reshape(v.shape) for v, n in zip(*pair, strict=True)]
                    for pair in zip(vectors, parts, strict=True)]  # fmt: skip

        local = []
        for k in range(devices):
            std = 0.0
            if t > 1:
                row = noise_table.row(k, named=True)
                std = row["noise_std"] / (1 - row["theta"] * deviation[k])
                normal_k = normal[row["noise_vector"]]
            parts = np.split(std * normal_k if t > 1 else np.zeros(sum(sizes)), np.cumsum(sizes)[:-1])
            local.append([w + n.reshape(w.shape) for w, n in zip(weights, parts, strict=True)])
        results = [
            plain_loss_and_gradient(w, data.x_train[b], data.y_train[b]) for w, b in zip(local, batch, strict=True)
        ]
        own = [g for _, g in results]
        if (clip_norm := model.training.clip_norm) is not None:
            own = [
                [
                    np.mean(layer, axis=0)
                    for layer in zip(
                        *(
                            shortened(plain_loss_and_gradient(w, data.x_train[[i]], data.y_train[[i]])[1], clip_norm)
                            for i in b
                        ),
                        strict=True,
                    )
                ]
                for w, b in zip(local, batch, strict=True)
            ]
        gradients = received(own, sent_noise[0])
        direction = [sum(g) / devices for g in zip(*gradients, strict=True)]
        updates = [
            plain_update(local[k], data.x_train[batch[k]], data.y_train[batch[k]], direction, j[k], 0.01)
            for k in range(devices)
        ]
        if clip_norm is not None:
            known = [[-0.01 * steps * part for part in direction] for steps in j]
            changes = [[h - c for h, c in zip(*pair, strict=True)] for pair in zip(updates, known, strict=True)]
            changes = [shortened(change, clip_norm / model.device.batch_size) for change in changes]
            updates = [[c + h for c, h in zip(*pair, strict=True)] for pair in zip(known, changes, strict=True)]
        updates = received(updates, sent_noise[1])
        mean = [sum(h) / devices for h in zip(*updates, strict=True)]
        weights = [w + h for w, h in zip(weights, mean, strict=True)]
        flat = [np.concatenate([part.ravel() for part in h]) for h in updates]
        reference = np.concatenate([part.ravel() for part in (mean if compared_with == "mean_update" else weights)])
        cosine = np.array([h @ reference / np.linalg.norm(h) / np.linalg.norm(reference) for h in flat])
        deviation = np.clip(1 - cosine / cosine.max(), 0, 1) if cosine.max() > 0 else np.ones(devices)
        beta_1 = deviation * np.exp(j * limits.iteration_s * consumption.computing_power_w / BETA_2)
        energy = j * limits.iteration_s * 0.096 + limits.transmit_nat_s / z * (a * np.expm1(z) / 0.45 + 0.0825)
        rows.append(([loss for loss, _ in results], deviation, j, energy))
    return [np.array(column) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize(
    ("scheduler", "noise_scheme", "compared_with", "uploads"),
    [
        ("utility", "fair", "mean_update", "clean"),
        ("benchmark", "shared", "mean_update", "clean"),
        ("utility", "fair", "model", "clean"),
        ("utility", "fair", "mean_update", "noisy"),
        ("utility", "fair", "mean_update", "noisy and clipped"),
    ],
)
def test_a_training_agrees_with_the_paper_written_out(scheduler, noise_scheme, compared_with, uploads):
    config = changed(changed(TINY, "privacy.sensitivity", 0.04), "utility.deviation", compared_with)
    config = changed(config, "privacy.uploads", uploads.split()[0])
    if uploads == "noisy and clipped":  # some samples' gradients keep their length
        config = changed(config, "training.clip_norm", 2.0)
    found, model = before_training(config, scheduler, noise_scheme)
    history = train(model, found, range(1))
    losses, deviation, j, energy = plain_training(found, model, digits(), scheduler, compared_with)
    shape = losses.shape
    np.testing.assert_allclose(history["loss"].to_numpy().reshape(shape), losses, rtol=2e-5)
    np.testing.assert_allclose(history["deviation"].to_numpy().reshape(shape), deviation, atol=5e-5)
    np.testing.assert_array_equal(history["iterations"].to_numpy().reshape(shape), j)
    np.testing.assert_allclose(history["energy_j"].to_numpy().reshape(shape), energy, rtol=1e-6)


def no_noise(devices):
    """The noise of a round whose copies and uploads are clean."""
    return one_round.Noise(tf.zeros(devices), tf.range(devices), tf.constant([1, 1], tf.int64))


def test_who_sits_out_does_not_count_in_the_average():
    data, generator = digits(), np.random.default_rng(2)
    play = one_round.round_function(0.01, 1.0, "mean_update")
    weights = [tf.constant(w) for w in glorot_uniform([64, 6, 10], generator)]
    x, y = data.x_train[:48].reshape(3, 16, 64), data.y_train[:48].reshape(3, 16)

    def after(devices, iterations):
        return play(
            weights, tf.constant(x[devices]), tf.constant(y[devices]), tf.constant(iterations), no_noise(len(devices))
        )[0]  # fmt: skip

    for found, expected in zip(after([0, 1, 2], [5, 0, 9]), after([0, 2], [5, 9]), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_record_can_move_the_model_by_more_than_the_sensitivity():
    """S_f is observed and not enforced: one replaced record of one batch, one round without noise."""
    data, generator = digits(), np.random.default_rng(0)
    play = one_round.round_function(0.01, 1.0, "mean_update")
    weights = [tf.constant(w) for w in glorot_uniform([64, 32, 10], generator)]
    x = data.x_train[:160].reshape(10, 16, 64)
    y = data.y_train[:160].reshape(10, 16)
    replaced = x.copy(), y.copy()
    replaced[0][0, 0], replaced[1][0, 0] = 1.0, (y[0, 0] + 5) % 10
    steps, noise = tf.constant([100] * 10), no_noise(10)
    after = [play(weights, tf.constant(a), tf.constant(b), steps, noise)[0] for a, b in ((x, y), replaced)]
    moved = math.sqrt(sum(float(tf.reduce_sum((a - b) ** 2)) for a, b in zip(*after, strict=True)))
    assert moved > DEFAULT.privacy.sensitivity


NEIGHBOURS = 300


def farthest(radius: float | None, vector: str) -> float:
    """The greatest distance between what a device sends of two batches that differ in a record, by a random search.

    Model, average gradient and number of iterations are the same for both: they are known.
    """
    generator, found = np.random.default_rng(5), []
    updates = tf.function(local_steps.updates)
    shapes, samples = ((5, 4), (1, 4), (4, 3), (1, 3)), 4

    def normal(scale, *shape):
        return scale * generator.standard_normal(shape)

    for _ in range(NEIGHBOURS):
        weights = [normal(10.0 ** generator.uniform(-2, 20 if vector == "gradient" else 1), *s) for s in shapes]
        x = np.repeat(normal(10.0 ** generator.uniform(-2, 2), 1, samples, 5), 2, axis=0)
        y = np.repeat(generator.integers(3, size=(1, samples)), 2, axis=0)
        x[1, 0], y[1, 0] = -x[0, 0] * 10.0 ** generator.uniform(-1, 1), generator.integers(3)
        batches = tf.constant(x, tf.float32), tf.constant(y, tf.int32)
        model = [tf.constant(np.stack([w, w]), tf.float32) for w in weights]
        rounding = 0.0
        if vector == "gradient":
            parts = local_steps.gradients(model, *batches, radius)
        else:
            direction = [tf.constant(normal(1.0, 1, *s), tf.float32) for s in shapes]
            walk = direction, tf.constant([7, 7]), 0.3
            parts = updates(model, *batches, *walk)
            if radius is not None:
                known = local_steps.straight(*walk)
                parts = one_round.near(parts, known, radius)
                rounding = (
                    np.finfo(np.float32).eps * max(float(tf.reduce_max(tf.abs(k))) for k in known) * math.sqrt(39)
                )
        moved = math.sqrt(sum(((p[0] - p[1]).numpy().astype(float) ** 2).sum() for p in parts))
        found.append(moved - rounding)
    return np.max(np.nan_to_num(found, nan=np.inf))


@pytest.mark.parametrize("vector", ["gradient", "update"])
def test_no_record_moves_what_is_sent_by_more_than_its_sensitivity(vector):
    for radius in (0.02, 3.0):
        assert 1.7 * radius < farthest(radius, vector) <= 2 * radius * (1 + 1e-5)
    assert farthest(None, vector) > 100


def test_what_is_not_finite_counts_as_nothing_and_what_is_short_stays():
    values = np.array([[3.0, 4.0], [0.3, 0.4], [np.inf, 1.0], [np.nan, 1.0], [3e30, 3e30], [0.0, 0.0]], np.float32)
    kernel, bias = one_round.clipped([tf.constant(values[:, :1, None]), tf.constant(values[:, None, 1:])], 1.0)
    np.testing.assert_allclose(
        np.concatenate([kernel[:, 0], bias[:, 0]], axis=1), [[0.6, 0.8], [0.3, 0.4], *[[0, 0]] * 4], rtol=1e-6
    )
    # A sample whose gradient overflows on the way leaves that of the others alone.
    weights = [tf.constant(np.full((1, *s), 1e30), tf.float32) for s in ((2, 4), (1, 4), (4, 3), (1, 3))]
    x, y = tf.constant([[[0.0, -1.0], [1e30, 1e30]]]), tf.constant([[0, 1]])
    alone = local_steps.gradients(weights, x[:, :1], y[:, :1], 0.1)
    for found, expected in zip(local_steps.gradients(weights, x, y, 0.1), alone, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


# Accounting


def log_delta(epsilon, mu):
    """delta of Gaussian DP at epsilon, 50 digits."""
    mpmath.mp.dps = 50
    epsilon, mu = mpmath.mpf(epsilon), mpmath.mpf(mu)
    return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def test_exact_multipliers_are_inverse_to_exact_epsilons():
    for delta in (1e-9, 1e-5, 0.3):
        epsilon = np.array([1e-3, 0.38, 0.95, 5.0, 60.0])
        multiplier = exact_multiplier(epsilon, delta)
        np.testing.assert_allclose(exact_epsilon(1 / (2 * multiplier**2), delta), epsilon, rtol=1e-9)
        for e, m in zip(epsilon, multiplier, strict=True):
            assert float(log_delta(e, 1 / m)) == pytest.approx(delta, rel=1e-7)


def test_compositions_over_rounds_and_colluding_devices():
    multiplier = copies.base_multiplier(0.95, 1e-5)
    config = {"system": "utility_fair", "realizations": 1, "training_realizations": 1}
    expected = {"fair": 10, "independent": 10, "shared": 1}
    for rounds in (50, 200):
        for scheme, colluding in expected.items():
            found, model = before_training(changed(config, "training.rounds", rounds), "benchmark", scheme)
            result = account(model, found)
            leakage, outcome = result["leakage"].row(0, named=True), result["outcome"].row(0, named=True)
            for value, count in (
                (leakage["epsilon_copy"], 1),
                (leakage["epsilon_device"], rounds - 1),
                (outcome["epsilon_round"], colluding),
                (outcome["epsilon_exact"], colluding * (rounds - 1)),
            ):
                assert float(log_delta(value, math.sqrt(count) / multiplier)) == pytest.approx(1e-5, rel=1e-6)
            assert leakage["copies"] == rounds - 1
            assert leakage["epsilon_copy"] < leakage["epsilon_printed"] == 0.95
            assert leakage["noise_multiplier"] > leakage["exact_multiplier"]
            assert outcome["epsilon_worst_case"] == math.inf
            assert "not guaranteed" in outcome["guarantee"]


def test_what_devices_send_is_accounted_for():
    """Noisy: a gradient and an update in each round, the first, too; all else is computed of them. Clean: nothing holds."""
    for rounds, delta in ((50, 1e-5), (7, 1e-7)):
        multiplier = math.sqrt(2 * math.log(1.25 / delta)) / 0.95
        config = {"system": "utility_fair", "realizations": 2, "training_realizations": 1}
        config |= {"training": {"rounds": rounds}, "privacy": {"delta": delta}}
        for scheme in ("fair", "shared"):
            outcomes, leakages = {}, {}
            for uploads in ("clean", "noisy"):
                found, model = before_training(changed(config, "privacy.uploads", uploads), "benchmark", scheme)
                result = account(model, found)
                outcomes[uploads], leakages[uploads] = (result[n].row(0, named=True) for n in ("outcome", "leakage"))
            clean, noisy = outcomes["clean"], outcomes["noisy"]
            assert (
                clean["epsilon_server"] == clean["epsilon_upload"] == leakages["clean"]["epsilon_uploads"] == math.inf
            )
            assert noisy["epsilon_exact"] == noisy["epsilon_server"] == leakages["noisy"]["epsilon_uploads"]
            for value, count in ((noisy["epsilon_upload"], 2), (noisy["epsilon_server"], 2 * rounds)):
                assert float(log_delta(value, math.sqrt(count) / multiplier)) == pytest.approx(delta, rel=1e-6)
            for name in ("epsilon_copy", "epsilon_round", "epsilon_device"):
                assert clean[name] == noisy[name]
            for outcome in (clean, noisy):
                assert not outcome["guaranteed"]
                assert "not guaranteed: the sensitivity is observed, not enforced" in outcome["guarantee"]
            assert "access point" in noisy["observer"]
            assert "access point" not in clean["observer"]


def test_noisy_uploads_that_are_clipped_have_a_guarantee():
    config = {"system": "utility_fair", "realizations": 2, "training_realizations": 1, "privacy": {"uploads": "noisy"}}
    (noisy, _), (clipped, model) = (
        before_training(changed(config, "training.clip_norm", norm), "utility", "fair") for norm in (None, 0.3)
    )
    np.testing.assert_allclose(clipped["noise"]["upload_std"] / noisy["noise"]["upload_std"], 2 * 0.3 / 128 / 0.01)
    assert clipped["noise"].drop("upload_std").equals(noisy["noise"].drop("upload_std"))
    for outcome in account(model, clipped)["outcome"].rows(named=True):
        assert outcome["guaranteed"]
        assert outcome["guarantee"].startswith("guaranteed: all that a device sends is clipped and noisy")
        assert outcome["epsilon_exact"] == outcome["epsilon_server"] == outcome["epsilon_worst_case"] < math.inf


def test_the_server_learns_most_of_the_device_that_adds_least():
    config = {"system": "utility_fair", "realizations": 2, "training_realizations": 1, "privacy": {"uploads": "noisy"}}
    found, model = before_training(config, "benchmark", "fair")
    quieter = pl.when(pl.col("device") == 3).then(pl.col("upload_multiplier") / 2).otherwise("upload_multiplier")
    found["noise"] = found["noise"].with_columns(upload_multiplier=quieter)
    result = account(model, found)
    worst = result["leakage"].filter(device=3)["epsilon_uploads"]
    assert (worst > result["leakage"].filter(device=0)["epsilon_uploads"]).all()
    assert result["outcome"]["epsilon_server"].to_list() == worst.to_list()


def test_symbols_and_energy_of_the_benchmark():
    found, model = before_training(TINY, "benchmark", "independent")
    outcome = account(model, found)["outcome"]
    rate = 250e3 * np.log2(1 + 1 / found["schedule"]["unit_power_w"].to_numpy())
    seconds = (875e3 / rate).reshape(3, -1).sum(axis=1)
    np.testing.assert_allclose(outcome["channel_uses"], seconds * 250e3)
    np.testing.assert_allclose(outcome["transmit_energy_j"], seconds)
    iterations = np.floor((0.75 - 875e3 / rate) / LIMITS.iteration_s).reshape(3, -1).mean(axis=1)
    np.testing.assert_allclose(outcome["local_steps"], iterations)
    found, model = before_training(TINY, "utility", "fair")
    undecided = account(model, found)["outcome"]
    assert undecided["channel_uses"].null_count() == undecided["transmit_energy_j"].null_count() == 3
    assert undecided["local_steps"].null_count() == 3


# Channel


@pytest.mark.parametrize("scale", [1.0, 1.3])
def test_distances_and_fades_follow_their_laws(scale):
    model = scenario.resolve({"system": "utility_fair", "radio": {"fading_scale": scale}}, {})
    found = stage_of.channel(part(model, "channel"), range(100))
    users = found["users"]
    frame = found["links"].join(users, on=["realization", "device"])
    fading = frame["gain"].to_numpy() * frame["distance_m"].to_numpy() ** 4 / link.path_gain(1.0, RADIO)
    assert stats.kstest(users["distance_m"].to_numpy(), stats.uniform(50, 150).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(fading, stats.expon(scale=2 * scale**2).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(fading, stats.expon(scale=1.9 * scale**2).cdf).pvalue < FALSE_ALARM
    path = 10 * np.log10(users["distance_m"].to_numpy() ** 4 / 0.5558)
    np.testing.assert_allclose(users["path_loss_db"], path, atol=1e-3)


def test_a_longer_training_begins_with_the_links_of_a_shorter_one():
    def links_of(rounds):
        model = scenario.resolve(changed(TINY, "training.rounds", rounds), {})
        return stage_of.channel(part(model, "channel"), range(3))["links"]

    assert links_of(5).filter(pl.col("round") <= 3).equals(links_of(3))


def test_shards_and_order_do_not_change_a_bit():
    found, model = before_training(TINY, "utility", "fair")
    alone = stage_of.channel(part(model, "channel"), range(1, 3))
    for name in ("users", "links"):
        assert alone[name].equals(found[name].filter(pl.col("realization") >= 1))
    later = {name: frame.filter(pl.col("realization") >= 1) for name, frame in found.items()}
    for name, frame in stage_of.schedule(part(model, "schedule", "utility"), "utility", alone).items():
        assert frame.equals(later[name])
    both, one = train(model, found, range(2)), train(model, later, range(1, 2))
    assert one.equals(both.filter(pl.col("realization") == 1))


# All stages, all edges

EDGES = {
    "as it is": {},
    "one device, one realization, two rounds": {
        "realizations": 1, "training_realizations": 1, "network": {"devices": 1}, "training": {"rounds": 2},
    },
    "softmax regression on the whole of each device's samples": {
        "training": {"hidden_layers": []}, "data": {"samples_per_device": 16},
    },
    "all devices at one distance": {"network": {"min_distance_m": 100.0, "max_distance_m": 100.0}},
    "nobody ever takes part": {"device": {"max_power_dbm": -88.0}},
    "some sit rounds out": {"device": {"max_power_dbm": -62.0}},
    "training diverges": {"privacy": {"sensitivity": 1e9}, "training": {"hidden_layers": [6, 6, 6, 6, 6]}},
    "noisy uploads": {"privacy": {"uploads": "noisy"}},
    "clipped uploads, a target": {
        "privacy": {"uploads": "noisy", "target_epsilon": 2.0}, "training": {"clip_norm": 0.3},
    },
    "all pairs of schemes": {
        "schemes": [{"name": f"{s}, {n}", "scheduler": s, "noise": n}
                    for s in ("utility", "benchmark") for n in ("fair", "independent", "shared")]
    },
}  # fmt: skip


def reported(config: dict):
    """A scenario's tables, those of its report, and what comparisons are made of."""
    settings, found = run(config)
    frames = build.summarize(settings, found)
    return settings, found, {"one": {"scenario": scenario.resolve(config, {}).part(None)} | frames}


@pytest.mark.parametrize("edge", EDGES)
def test_every_figure_and_table_is_made_in_edge_cases(edge):
    settings, found, study = reported(merge(TINY, EDGES[edge]))
    for name, needed in scenario_figures(CATALOG).items():
        chart = build.figure(settings, name, {table: found[table] for table in needed})
        assert chart.to_dict(format="vega")["$schema"].startswith("https://vega.github.io")
    frames = study["one"]
    assert set(frames) - {"scenario"} == set(CATALOG.tables | COMMON_TABLES)
    summary, history = frames["summary"], found["history"]
    assert summary["scheme"].to_list() == [scheme.name for scheme in settings.schemes]
    compared = build.compare(study)
    assert set(compared) == set(COMPARISON)
    for name in CATALOG.comparison_figures:
        build.comparison_figure("utility_fair", name, study).to_dict(format="vega")
    out = history["iterations"] == 0
    assert (history.filter(out)["energy_j"] == 0).all()
    assert (history.filter(out & (history["status"] != "diverged"))["deviation"] == 1).all()
    match edge:
        case "nobody ever takes part":
            assert set(history["status"]) == {"nobody_took_part"}
            assert set(summary["nobody_took_part"]) == {2}
            still = (
                history.drop_nulls("test_loss").group_by("scheme", "realization").agg(pl.col("test_loss").n_unique())
            )
            assert (still["test_loss"] == 1).all()
            assert set(found["schedule_status"]["status"]) == {"always_out"}
            assert set(frames["realizations"]["channel_uses"]) == {0.0}
        case "some sit rounds out":
            assert 0 < out.sum() < len(out)
            assert (frames["devices"]["rounds_out"] > 0).any()
            assert (history.filter(~out)["iterations"] >= 10).all()
        case "training diverges":
            assert set(summary["diverged"]) == {2}
            assert summary["loss_mean"].null_count() == len(summary)
            assert len(frames["devices"]) == 0
        case "as it is":
            assert set(compared["claims"]["claim"].str.head(1)) == {"1", "2", "3"}
            first = history.filter(pl.col("round") == 1)
            assert first["noise_multiplier"].null_count() == len(first)
            assert first.filter(scheme="Proposed")["loss"].equals(first.filter(scheme="Benchmark")["loss"])


def test_figures_have_captions():
    folder = registry.system("utility_fair").folder / "captions"
    for name in [*CATALOG.figures, *CATALOG.comparison_figures]:
        assert (folder / f"{name}.rst").read_text().startswith("**")


def test_the_report_agrees_with_plain_sums():
    _, found, study = reported(TINY)
    frames = study["one"]
    history = found["history"].filter(pl.col("scheme") == "Proposed").sort("realization", "round", "device")
    loss, energy, seconds, power = (
        history[name].to_numpy().reshape(2, 3, 4) for name in ("loss", "energy_j", "transmit_s", "power_w")
    )
    rows = frames["realizations"].filter(pl.col("scheme") == "Proposed")[:2]
    np.testing.assert_allclose(rows["loss"], loss[:, 1:].mean(axis=(1, 2)))
    np.testing.assert_allclose(rows["loss_std"], loss[:, 1:].std(axis=2).mean(axis=1))
    np.testing.assert_allclose(rows["energy_j"], energy.mean(axis=(1, 2)))
    np.testing.assert_allclose(rows["energy_std_j"], energy.mean(axis=1).std(axis=1))
    np.testing.assert_allclose(rows["channel_uses"], (seconds * 250e3).sum(axis=(1, 2)))
    np.testing.assert_allclose(rows["transmit_energy_j"], (seconds * power).sum(axis=(1, 2)))
    np.testing.assert_allclose(rows["local_steps"], history["iterations"].to_numpy().reshape(2, -1).mean(axis=1))
    claims = build.compare(study)["claims"]
    for scheme in ("Proposed", "Benchmark"):
        each = frames["devices"].filter(pl.col("scheme") == scheme)
        slope = np.polyfit(each["path_loss_db"], 1000 * each["energy_j"], 1)[0]
        text = f"2. mean energy of a round over path loss, {scheme} (slope, mJ/dB)"
        assert claims.row(by_predicate=pl.col("claim") == text, named=True)["measured"] == pytest.approx(
            slope, abs=1e-9
        )


# The scenario

VARIANTS = {"schedule": ("utility", "benchmark"), "noise": ("fair", "independent", "shared")}
READERS = {
    "seed": (2, {"channel", "train", "audit"}),
    "audit.canaries": (60, {"audit"}),
    "realizations": (101, {"audit", "report"}),
    "training_realizations": (9, {"report"}),
    "shards.optimization": (7, set()),
    "shards.training": (7, set()),
    "network.devices": (9, {"channel"}),
    "network.min_distance_m": (60.0, {"channel"}),
    "network.max_distance_m": (190.0, {"channel"}),
    "radio.frequency_hz": (33e6, {"channel"}),
    "radio.path_loss_exponent": (3.9, {"channel"}),
    "radio.fading_scale": (1.1, {"channel"}),
    "radio.bandwidth_hz": (260e3, {"schedule", "train", "account", "report"}),
    "radio.noise_density_dbm_hz": (-173.0, {"schedule"}),
    "radio.noise": ("thermal", {"schedule"}),
    "radio.snr_gap_db": (9.0, {"schedule"}),
    "radio.update_bits": (9e5, {"schedule", "train", "account"}),
    "device.deadline_s": (0.8, {"schedule", "train"}),
    "device.batch_size": (120, {"schedule", "noise", "train", "audit"}),
    "device.sample_bits": (6000.0, {"schedule", "train"}),
    "device.seconds_per_bit": (7e-9, {"schedule", "train"}),
    "device.min_iterations": (11, {"schedule", "train"}),
    "device.max_power_dbm": (29.0, {"schedule", "train"}),
    "device.amplifier_efficiency": (0.5, {"train"}),
    "device.circuit_power_w": (0.08, {"train"}),
    "device.computing_power_w": (0.1, {"train"}),
    "utility.energy_scale_j": (0.4, {"train"}),
    "utility.beta_2_j": (0.4, {"train"}),
    "utility.deviation": ("model", {"train"}),
    "data.dataset": ("fashion_mnist", {"train"}),
    "data.folder": ("elsewhere", set()),
    "data.samples_per_device": (5000, {"channel"}),
    "data.partition": ("shards", {"train"}),
    "data.alpha": (1.0, {"train"}),
    "data.labels_per_user": (3, {"train"}),
    "data.validation": (100, {"train"}),
    "privacy.epsilon": (0.9, {"noise", "account"}),
    "privacy.delta": (1e-6, {"noise", "account"}),
    "privacy.target_epsilon": (2.0, {"noise"}),
    "privacy.theta": (0.5, {"noise/fair"}),
    "privacy.sensitivity": (0.02, {"noise", "audit"}),
    "privacy.uploads": ("noisy", {"noise"}),
    "training.features": ("scattering", {"train"}),
    "training.directions": (10, {"train"}),
    "training.hidden_layers": ([9], {"train"}),
    "training.rounds": (40, {"channel", "noise", "account", "audit"}),
    "training.learning_rate": (0.02, {"train"}),
    "training.correction": (0.9, {"train"}),
    "training.clip_norm": (0.5, {"noise", "train", "account", "audit"}),
    "training.evaluate_every": (4, {"train"}),
    "schemes": (
        [
            {"name": name, "scheduler": scheduler, "noise": noise}
            for name, scheduler, noise in (
                ("a", "utility", "fair"),
                ("b", "benchmark", "independent"),
                ("c", "benchmark", "shared"),
            )
        ],
        {"report"},
    ),
}


def test_the_table_of_readers_names_every_parameter():
    known = {".".join(path) for path, _ in scenario.parameters(UtilityFair)}
    assert set(READERS) == known - {"system"}


@pytest.mark.parametrize("parameter", READERS)
def test_a_parameter_reaches_the_stages_that_read_it(parameter):
    value, expected = READERS[parameter]
    every = {f"{s}/{v}" if v else s for s in STAGES for v in VARIANTS.get(s, [None])}
    base = {"privacy": {"uploads": "noisy"}} if parameter == "training.clip_norm" else {}
    if parameter == "data.validation":  # some are left for it
        base = {"data": {"samples_per_device": 5000}}
    assert readers("utility_fair", parameter, value, base) == {
        stage for stage in every if expected & {stage, stage.partition("/")[0]}
    }


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ({"privacy": {"theta": 1.0}}, "base.privacy.theta: 1.0 is wrong: input should be less than or equal to 0.999"),
        ({"privacy": {"epsilon": 1.0}}, "base.privacy.epsilon: 1.0 is wrong: input should be less than 1"),
        ({"privacy": {"sensitivity": 0.0}}, "base.privacy.sensitivity: 0.0 is wrong: input should be greater than"),
        ({"network": {"min_distance_m": 300.0}}, "base.network.min_distance_m: 300 exceeds network.max_distance_m: 200"),
        ({"device": {"computing_power_w": 0.01}}, "base.device.computing_power_w: 0.01 is below device.circuit_power_w: 0.0825"),
        ({"device": {"batch_size": 7000}}, "base.device.batch_size: 7000 exceeds data.samples_per_device: 6000"),
        ({"network": {"devices": 11}}, "data.samples_per_device: 11 devices would hold 66000 samples, mnist has 60000"),
        ({"device": {"deadline_s": 0.00075}}, "base.device.deadline_s: 0.00075 leaves no time to transmit after device.min_iterations: 10"),
        ({"device": {"min_iterations": 125}}, "device.deadline_s: 0.75 leaves no time to transmit after device.min_iterations: 125"),
        ({"device": {"max_power_dbm": -100.0}, "radio": {"noise": "thermal"}}, "base.device.max_power_dbm: -100 reaches the access point from no distance"),
        ({"training": {"rounds": 1}}, "base.training.rounds: 1 is wrong: input should be greater than or equal to 2"),
        ({"radio": {"noise": "thermic"}}, "base.radio.noise: 'thermic' is wrong: input should be 'as_printed' or 'thermal'"),
        ({"schemes": [{"name": "a", "scheduler": "optimal", "noise": "fair"}]}, "base.schemes.0.scheduler: 'optimal' is wrong"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_place_and_what_would_be_right(override, expected):
    with pytest.raises(scenario.ScenarioError) as caught:
        scenario.load({"base": {"system": "utility_fair"} | override, "scenarios": {"one": {}}}, "file.yaml")
    assert expected in str(caught.value)


def test_tables_refuse_what_cannot_be(tmp_path):
    found, model = before_training(TINY, "utility", "fair")
    described = stage_of.addresses(model)["noise", "utility", "fair"]
    path = str(tmp_path / "noise.parquet")
    tables.write(found["noise"], "noise", path, described)
    reader = {"system": model.system, "upstream": {"noise": described["address"]}}
    assert tables.read("noise", path, reader).equals(found["noise"])
    with pytest.raises(tables.TableError, match="theta"):
        tables.write(found["noise"].with_columns(theta=pl.lit(1.0)), "noise", path, described)


def test_the_page_names_functions_that_exist():
    text = Path(ROOT, "docs", "utility_fair.md").read_text()
    for module, names in {
        link: ("energy_j", "least_z", "iterations", "unit_power_w", "whole"),
        utility: ("utility", "best_z", "beta_1_of"),
        copies: ("base_multiplier", "scaled", "deviations"),
        training: ("choose",),
        one_round: ("round_function", "noisy_copies", "noisy_uploads", "near"),
        local_steps: ("updates", "gradients"),
    }.items():
        for name in names:
            assert callable(getattr(module, name))
            assert f"`{module.__name__.rpartition('.')[2]}.{name}`" in text
