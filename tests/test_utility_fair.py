"""The system `utility_fair`: policies against oracles, training against plain NumPy, accounting, all stages at the edges."""

import math

import mpmath
import numpy as np
import polars as pl
import pytest
import tensorflow as tf
from scipy import constants, stats

import stage_of
from conftest import in_turn, python
from pipeline import digits, part
from pwfl import scenario, streams
from pwfl.learning.mlp import glorot_uniform, parameter_count
from pwfl.report import build
from pwfl.scenario.resolution import merge
from pwfl.systems.utility_fair import copies, link, local_steps, rounds, train, utility
from pwfl.systems.utility_fair.claims import CLAIMS
from pwfl.systems.utility_fair.model_steps import ModelSteps
from pwfl.training import dense, trainable
from pwfl.training.batching import Draws
from reported import everything_made, reported

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
TWO = {"system": "utility_fair", "realizations": 2, "training_realizations": 1}
NOISY = {"privacy": {"uploads": "noisy"}}
DEFAULT = scenario.resolve({"system": "utility_fair"}, {})
RADIO = DEFAULT.radio
THERMAL = RADIO.model_copy(update={"noise": "thermal"})
TERMS = utility.terms(DEFAULT)
LIMITS, CONSUMPTION, BETA_2, VARRHO = TERMS


def links(count: int, radio=RADIO, seed: int = 1, mean_fading: float = 2.0) -> np.ndarray:
    """Unit powers of random devices."""
    generator = np.random.default_rng(seed)
    distance, fading = generator.uniform(50, 200, count), generator.exponential(mean_fading, count)
    return link.unit_power_w(fading * link.path_gain(distance, radio), radio)


def test_the_values_of_table_one():
    assert BETA_2 == VARRHO == 0.5
    assert (constants.c / (4 * math.pi * 32e6)) ** 2 == pytest.approx(link.path_gain(1.0, RADIO))
    assert link.path_gain(1.0, RADIO) == pytest.approx(0.556, abs=5e-4)
    assert link.unit_power_w(1.0, RADIO) / 10**0.98 == pytest.approx(3.98e-21, rel=1e-3, abs=0)
    assert link.unit_power_w(1.0, THERMAL) / link.unit_power_w(1.0, RADIO) == pytest.approx(250e3)
    assert LIMITS.iteration_s == pytest.approx(6.021e-3, abs=5e-7)
    assert LIMITS.max_power_w == pytest.approx(1.0)
    assert parameter_count([784, *DEFAULT.training.hidden_layers, 10]) == 109_386
    base = copies.base_multiplier(0.95, 1e-5)
    assert (base, copies.scaled(base, 0.6, 1.0)) == (pytest.approx(5.0998, abs=5e-5), pytest.approx(12.7495, abs=5e-5))


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
    # Rounded down, but not by a rounding error.
    assert link.whole(link.iterations(np.array([link.least_z(LIMITS)]), LIMITS)).tolist() == [10]
    assert link.whole(np.array([9.999, 10.0, 10.999])).tolist() == [9, 10, 10]


def test_energies_of_the_two_readings_of_the_noise_and_of_the_fading():
    """12% less energy with -174 dBm in all, 49% with N0 B, 14% if the printed scale 1 is the mean of |h|^2."""
    for radio, mean_fading, saving in ((RADIO, 2.0, 0.1217), (THERMAL, 2.0, 0.49), (RADIO, 1.0, 0.143)):
        a = links(20_000, radio, mean_fading=mean_fading)
        a = a[link.log_snr(1.0, a) >= link.least_z(LIMITS)]
        beta_1 = utility.beta_1_of(np.random.default_rng(0).uniform(0, 0.4, a.shape), 0.06, BETA_2)
        energy = []
        for z in (utility.best_z(a, beta_1, TERMS), link.log_snr(1.0, a)):
            j = link.whole(link.iterations(z, LIMITS))
            energy.append(link.energy_j(j * LIMITS.iteration_s, z, a, LIMITS, CONSUMPTION).mean())
        assert 1 - energy[0] / energy[1] == pytest.approx(saving, abs=0.012)


def golden_maximum(function, low, high):
    """Maxima of unimodal functions, elementwise, in extended precision: no derivative, no root finding."""
    ratio = (np.sqrt(np.longdouble(5)) - 1) / 2
    low, high = low.astype(np.longdouble), high.astype(np.longdouble)
    for _ in range(90):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        better = function(left) > function(right)
        high, low = np.where(better, right, high), np.where(better, low, left)
    return (low + high) / 2


def utility_of(z, a, beta_1, computing_s=None, terms=TERMS):
    filled = LIMITS.deadline_s - link.transmit_s(z, LIMITS) if computing_s is None else computing_s
    energy = link.energy_j(filled, z, a, LIMITS, CONSUMPTION)
    return utility.utility(filled * CONSUMPTION.computing_power_w, energy, beta_1, terms)


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
    on_grid = utility_of(grid, a, beta_1, least + (filled - least) * np.linspace(0, 1, 31)).max(axis=(1, 2))
    best = utility_of(devices[2], devices[0], devices[1])
    assert (on_grid <= best + 1e-12).all()
    assert (on_grid > best - 2e-3).all()


def test_the_root_solves_27_as_printed(devices):
    inside = devices[2] < link.log_snr(1.0, devices[0])
    assert inside.sum() > 300
    a, beta_1, z = (values[inside] for values in devices)
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
        root = find(*arguments, **options)
        root.success[0] = False
        return root

    monkeypatch.setattr(utility.elementwise, "find_root", fail_at_the_first)
    with pytest.raises(ArithmeticError, match=r"\(27\) could not be solved for unit powers \["):
        utility.best_z(*devices[:2], TERMS)


def test_where_links_are_so_weak_that_the_circuit_counts_theorem_2_is_not_the_best_point():
    """Said in the docs: with the deadline filled the energy exceeds its target; fewer iterations would be better."""
    a, terms = np.array([0.02]), TERMS._replace(energy_scale_j=0.2)
    z = utility.best_z(a, np.array([0.0]), terms)
    filled = LIMITS.deadline_s - link.transmit_s(z, LIMITS)
    assert utility_of(z, a, 0.0, 0.8 * filled, terms) > utility_of(z, a, 0.0, filled, terms)


@pytest.mark.parametrize("scheduler", ["utility", "benchmark"])
def test_devices_that_save_effort_compute_and_transmit_as_little_as_they_may(scheduler):
    plain, _ = before_training(scheduler, "fair", TINY)
    found, model = before_training(scheduler, "fair", TINY, {"network": {"savers": 2}})
    saves = found["schedule"]["device"] < 2
    of_savers, others = found["schedule"].filter(saves), found["schedule"].filter(~saves)
    assert others.equals(plain["schedule"].filter(~saves))
    np.testing.assert_allclose(of_savers["power_w"], of_savers["min_power_w"], rtol=1e-12)
    assert (of_savers["iterations"] == LIMITS.min_iterations).all()
    # (13) with P_min and j_min, which fill the deadline.
    least = 10 * LIMITS.iteration_s
    energy = least * 0.096 + (0.75 - least) * (of_savers["min_power_w"].to_numpy() / 0.45 + 0.0825)
    history = stage_of.train(part(model, "train"), digits(), range(3), found)["history"]
    np.testing.assert_allclose(history.filter(pl.col("device") < 2)["energy_j"], energy, rtol=1e-9)
    status = found["schedule_status"].group_by("status", maintain_order=True).agg(pl.col("device").unique().sort())
    ended = {"utility": "chosen_in_training", "benchmark": "full_power"}[scheduler]
    assert dict(status.iter_rows()) == {"least_effort": [0, 1], ended: [2, 3]}
    outcome = stage_of.account(part(model, "account"), found)["outcome"]["local_steps"]
    if scheduler == "benchmark":
        np.testing.assert_allclose(
            outcome, history.group_by("realization", maintain_order=True).agg(pl.col("iterations").mean())["iterations"]
        )
        np.testing.assert_array_equal(
            history["iterations"], found["schedule"].filter(pl.col("realization") < 3)["iterations"]
        )
    else:
        assert outcome.null_count() == 3


def test_deviations_are_relative_to_the_best_and_cut():
    everyone = np.full(3, True)
    np.testing.assert_allclose(copies.deviations(np.array([0.8, 0.4, 0.0]), np.array([False, True, False])), [1, 0, 1])
    # What points away from the reference is no similarity, however long: neither the best one's nor its own.
    np.testing.assert_allclose(copies.deviations(np.array([0.4, -0.8, 0.2]), everyone), [0, 1, 0.5])
    assert copies.deviations(np.array([-0.5, -0.1, 0.0]), everyone).tolist() == [1, 1, 1]
    assert copies.deviations(np.zeros(3), np.full(3, False)).tolist() == [1, 1, 1]


COORDINATES = 20_000  # of vectors whose noise is looked at
SHAPES = [COORDINATES // 10 - 1, 10], [10]
STD = np.array([0.05, 0.08, 0.127])


def flat(parts) -> np.ndarray:
    """The devices' vectors, shape (device, coordinate)."""
    return np.concatenate([p.numpy().reshape(len(p), -1) for p in parts], axis=1, dtype=np.float64)


def copied_noise(std, vectors=(0, 1, 2), count=3, key=5):
    """Noise of the copies of a model of zeros, shape (round, device, coordinate), by the path that training takes."""
    weights, unused = [tf.zeros(SHAPES[0]), tf.zeros(10)], tf.constant(0, tf.int64)
    noise = rounds.Noise(
        tf.constant(std, tf.float32), tf.constant(vectors, tf.int32), tf.constant(key, tf.int64), unused, unused
    )

    @tf.function(autograph=False)
    def copy(t):
        return rounds.noisy_copies(weights, noise, Draws(t, False), max(vectors) + 1)

    return np.array([flat(copy(tf.constant(t))) for t in range(count)])


def upload_noise(std, count=3):
    """Noise of what devices send where it is zero, (round and vector, device, coordinate), by training's path."""
    parts = [tf.zeros([len(std), *shape]) for shape in SHAPES]

    @tf.function(autograph=False)
    def send(key, t):
        return rounds.noisy_uploads(parts, tf.constant(std, tf.float32), Draws(t, False), key, len(std))

    keys = [streams.key(1, name, 0) for name in ("gradient_noise", "update_noise")]
    sent = ((tf.constant(key, tf.int64), tf.constant(t)) for t in range(count) for key in keys)
    return np.array([flat(send(*seed)) for seed in sent])


def law_holds(drawn, std=STD):
    """Chi-square test of every copy's variance and normal quantiles, all pairs of copies uncorrelated."""
    tail = FALSE_ALARM / 2 / drawn[..., 0].size
    low, high = stats.chi2.ppf([tail, 1 - tail], COORDINATES)
    energy = (drawn**2).sum(axis=2) / np.square(std)
    rows = drawn.reshape(-1, COORDINATES) / np.linalg.norm(drawn.reshape(-1, COORDINATES), axis=1, keepdims=True)
    correlation = (rows @ rows.T)[np.triu_indices(len(rows), 1)] * math.sqrt(COORDINATES)
    return (
        ((low <= energy) & (energy <= high)).all(),
        (np.abs(correlation) < stats.norm.isf(FALSE_ALARM / 2 / len(correlation))).all(),
        stats.kstest((drawn[0, 0] / std[0]), "norm").pvalue > FALSE_ALARM,
    )


@pytest.mark.parametrize("noise", [copied_noise, upload_noise])
def test_copies_and_uploads_carry_the_noise_they_should(noise):
    assert law_holds(noise(STD)) == (True, True, True)
    assert not law_holds(noise(1.06 * STD))[0]
    assert not law_holds(noise(STD**2))[0]
    assert not law_holds(np.repeat(noise(STD)[::2], 2, axis=0))[1]  # the same in two rounds, or in both vectors
    if noise is copied_noise:
        assert not law_holds(copied_noise(STD, (0, 0, 0)))[1]


def test_devices_with_the_same_vector_get_the_same_noise():
    drawn, other = (copied_noise(np.full(3, 0.05), (0, 0, 1), 1, key)[0] for key in (5, 6))
    assert (drawn[0] == drawn[1]).all()
    assert not (drawn[0] == drawn[2]).any()
    assert not (drawn[0] == other[0]).any()


def plain_loss_and_gradient(weights, x, y):
    """Mean cross-entropy of one device and its gradient, float64, layer by layer."""
    inputs = [x]
    for kernel, bias in zip(weights[:-2:2], weights[1:-2:2], strict=True):
        inputs.append(np.maximum(inputs[-1] @ kernel + bias, 0))
    logits = inputs[-1] @ weights[-2] + weights[-1]
    logits = logits - logits.max(axis=1, keepdims=True)
    softmax = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    loss = -np.log(softmax[np.arange(len(y)), y]).mean()
    delta = (softmax - np.eye(softmax.shape[1])[y]) / len(y)
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


@pytest.mark.parametrize("of_any_model", [False, True], ids=["dense", "any model"])
@pytest.mark.parametrize("hidden", [[], [6], [9, 5]])
def test_local_steps_agree_with_one_device_after_the_other(hidden, of_any_model):
    generator = np.random.default_rng(4)
    widths, steps = [12, *hidden, 5], np.array([0, 3, 40])
    x, y = generator.random((3, 8, 12)), generator.integers(5, size=(3, 8))
    weights = [[w + 0.1 * generator.standard_normal(w.shape) for w in glorot_uniform(widths, generator)] for _ in steps]
    losses, gradients = zip(*(plain_loss_and_gradient(*one) for one in zip(weights, x, y, strict=True)), strict=True)
    direction = [np.mean(g, axis=0) for g in zip(*gradients, strict=True)]

    def rows(layers):
        return [tf.constant(np.array(w), tf.float32) for w in layers]

    stacked, steps_of = rows(zip(*weights, strict=True)), ModelSteps(Losses) if of_any_model else local_steps
    batch = tf.constant(x, tf.float32), tf.constant(y, tf.int32)
    np.testing.assert_allclose(steps_of.losses(stacked, *batch), losses, rtol=1e-5)
    for layer, expected in zip(steps_of.gradients(stacked, *batch), zip(*gradients, strict=True), strict=True):
        np.testing.assert_allclose(layer.numpy().squeeze(), np.array(expected).squeeze(), atol=2e-6)
    updates = steps_of.updates(stacked, *batch, rows([d[None] for d in direction]), tf.constant(steps, tf.int32), 0.3)
    for k, count in enumerate(steps):
        for layer, h in zip(updates, plain_update(weights[k], x[k], y[k], direction, count, 0.3), strict=True):
            np.testing.assert_allclose(layer[k].numpy().squeeze(), h.squeeze(), atol=2e-5)


class Losses:
    """Dense networks as any model that is differentiated."""

    @staticmethod
    def losses(weights, x, y):
        return tf.nn.sparse_softmax_cross_entropy_with_logits(y, dense.outputs(weights, x))


@pytest.mark.parametrize("radius", [None, 0.02, 3.0])
def test_gradients_of_any_model_are_clipped_as_those_of_dense_networks(radius):
    generator = np.random.default_rng(6)
    weights = [tf.constant(generator.standard_normal((2, *s)), tf.float32) for s in ((5, 4), (4,), (4, 3), (3,))]
    x, y = (
        tf.constant(generator.standard_normal((2, 6, 5)), tf.float32),
        tf.constant(generator.integers(3, size=(2, 6)), tf.int32),
    )
    found = ModelSteps(Losses).gradients(weights, x, y, radius)
    for one, other in zip(found, local_steps.gradients(weights, x, y, radius), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-7)


def before_training(scheduler: str, noise_scheme: str, config: dict, *changes: dict):
    """The tables of one scheme up to noise, and the scenario."""
    for change in changes:
        config = merge(config, change)
    model = scenario.resolve(config, {})
    found = stage_of.channel(part(model, "channel"), range(model.realizations))
    found |= stage_of.schedule(part(model, "schedule", scheduler), scheduler, found)
    found |= stage_of.noise(part(model, "noise", noise_scheme), noise_scheme, found)
    return found, model


def accounted(scheduler: str, noise_scheme: str, config: dict, *changes: dict):
    found, model = before_training(scheduler, noise_scheme, config, *changes)
    return found | stage_of.account(part(model, "account"), found)


def added(one, other):
    return [a + b.reshape(a.shape) for a, b in zip(one, other, strict=True)]


def shortened(vector, most):
    """A vector in parts, scaled down to a norm of at most `most`."""
    norm = math.sqrt(sum((part**2).sum() for part in vector))
    return [part * min(1, most / norm) for part in vector]


def mean_of(vectors):
    return [np.mean(layer, axis=0) for layer in zip(*vectors, strict=True)]


def plain_training(found, model, data, scheduler, compared_with):
    """The whole training of realization 0, written as the paper has it: float64, one device after the other."""
    devices, batch_size, clip_norm = model.network.devices, model.device.batch_size, model.training.clip_norm
    samples, terms = model.data.samples_per_device, utility.terms(model)
    limits, consumption = terms.limits, terms.consumption
    widths = [data.x_train.shape[1], *model.training.hidden_layers, 10]
    owned = streams.generator(1, "data", 0).permutation(len(data.x_train))[: devices * samples].reshape(devices, -1)
    weights = [w.astype(float) for w in glorot_uniform(widths, streams.generator(1, "weights", 0))]
    sizes = [w.size for w in weights]
    noise = found["noise"].filter(realization=0).rows(named=True)
    purposes = ("noise", "gradient_noise", "update_noise")
    keys = [streams.key(*streams.name_noise(part(model, "train"), 0, name)) for name in purposes]
    beta_1, deviation, rows = np.ones(devices), None, []
    for t in range(1, model.training.rounds + 1):
        a = found["schedule"].filter(realization=0, round=t)["unit_power_w"].to_numpy()
        z = utility.best_z(a, beta_1, terms) if scheduler == "utility" else link.log_snr(limits.max_power_w, a)
        j = np.floor((limits.deadline_s - limits.transmit_nat_s / z) / limits.iteration_s).astype(int)
        draws = streams.generator(1, f"batches/{t}", 0)
        chosen = [mine[draws.random(samples).argpartition(batch_size - 1)[:batch_size]] for mine in owned]
        batch = [(data.x_train[b], data.y_train[b]) for b in chosen]
        drawn = [tf.random.stateless_normal([devices, sum(sizes)], seed=[key, t]).numpy().astype(float) for key in keys]
        normal, *sent = ([np.split(row, np.cumsum(sizes)[:-1]) for row in rows_] for rows_ in drawn)

        def received(vectors, normals):
            """The devices' vectors as they reach the access point."""
            stds = [row["upload_std"] or 0.0 for row in noise]
            each = zip(vectors, normals, stds, strict=True)
            return [added(vector, [std * n for n in parts]) for vector, parts, std in each]

        local = [weights] * devices
        if t > 1:
            stds = [row["copy_std"] / (1 - row["theta"] * e) for row, e in zip(noise, deviation, strict=True)]
            own = [normal[row["noise_vector"]] for row in noise]
            local = [added(weights, [std * n for n in parts]) for parts, std in zip(own, stds, strict=True)]
        losses, own = zip(*(plain_loss_and_gradient(w, *b) for w, b in zip(local, batch, strict=True)), strict=True)
        if clip_norm is not None:
            own = [
                mean_of(shortened(plain_loss_and_gradient(w, x[[i]], y[[i]])[1], clip_norm) for i in range(len(y)))
                for w, (x, y) in zip(local, batch, strict=True)
            ]
        direction = mean_of(received(own, sent[0]))
        updates = [plain_update(w, *b, direction, n, 0.01) for w, b, n in zip(local, batch, j, strict=True)]
        if clip_norm is not None:
            known = [[-0.01 * steps * part for part in direction] for steps in j]
            changes = [[h - c for h, c in zip(*pair, strict=True)] for pair in zip(updates, known, strict=True)]
            changes = [shortened(change, clip_norm / batch_size) for change in changes]
            updates = [added(*pair) for pair in zip(known, changes, strict=True)]
        updates = received(updates, sent[1])
        mean = mean_of(updates)
        weights = added(weights, mean)
        h = np.array([np.concatenate([part.ravel() for part in update]) for update in updates])
        reference = np.concatenate([part.ravel() for part in (mean if compared_with == "mean_update" else weights)])
        cosine = h @ reference / np.linalg.norm(h, axis=1) / np.linalg.norm(reference)
        deviation = np.clip(1 - cosine / cosine.max(), 0, 1) if cosine.max() > 0 else np.ones(devices)
        beta_1 = deviation * np.exp(j * limits.iteration_s * consumption.computing_power_w / BETA_2)
        energy = j * limits.iteration_s * 0.096 + limits.transmit_nat_s / z * (a * np.expm1(z) / 0.45 + 0.0825)
        rows.append((losses, deviation, j, energy, beta_1 - deviation, beta_1 - deviation - energy * (energy - 0.5)))
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
    changes = {"privacy": {"sensitivity": 0.04, "uploads": uploads.split()[0]}, "utility": {"deviation": compared_with}}
    if uploads == "noisy and clipped":  # some samples' gradients keep their length
        changes["training"] = {"clip_norm": 2.0}
    found, model = before_training(scheduler, noise_scheme, TINY, changes)
    history = stage_of.train(part(model, "train"), digits(), range(1), found)["history"]
    losses, deviation, j, energy, gain, worth = plain_training(found, model, digits(), scheduler, compared_with)
    np.testing.assert_allclose(history["batch_loss"].to_numpy().reshape(j.shape), losses, rtol=2e-5)
    np.testing.assert_allclose(history["deviation"].to_numpy().reshape(j.shape), deviation, atol=5e-5)
    np.testing.assert_array_equal(history["iterations"].to_numpy().reshape(j.shape), j)
    np.testing.assert_allclose(history["energy_j"].to_numpy().reshape(j.shape), energy, rtol=1e-6)
    np.testing.assert_allclose(history["learning_gain"].to_numpy().reshape(j.shape), gain, atol=1e-5)
    np.testing.assert_allclose(history["utility"].to_numpy().reshape(j.shape), worth, atol=1e-5)


@pytest.mark.parametrize("uploads", ["clean", "noisy"])
@pytest.mark.parametrize("scheme", ["fair", "shared"])
def test_realizations_side_by_side_end_as_each_alone(scheme, uploads):
    changes = {"privacy": {"sensitivity": 0.04, "uploads": uploads}}
    if uploads == "noisy":
        changes["training"] = {"clip_norm": 2.0}
    scheduler = "utility" if scheme == "fair" else "benchmark"
    found, model = before_training(scheduler, scheme, TINY, changes)
    values = part(model, "train")
    alone = train.trainer(values, digits(), found)
    train_all, size = train.batch_trainer(values, digits(), found)
    assert size > 0
    for realization, batched in train_all([0, 1]).items():
        each = alone(realization)
        assert batched.columns == each.columns
        for name in each.columns:
            if each.schema[name].is_float():
                np.testing.assert_allclose(batched[name].cast(float), each[name].cast(float), rtol=1e-4, atol=1e-5)
            else:
                assert batched[name].equals(each[name])


def after_a_round(hidden, x, y, iterations, seed):
    """The model's weights after a round without noise, in parts."""
    model = trainable.Dense((64, hidden, 10), start=lambda draws: [])
    play = rounds.round_function(model, rounds.Learning(0.01, "mean_update"), len(iterations))
    weights = [tf.constant(w) for w in glorot_uniform([64, hidden, 10], np.random.default_rng(seed))]
    devices = len(iterations)
    noise = rounds.Noise(tf.zeros(devices), tf.range(devices), *[tf.constant(1, tf.int64)] * 3)
    return play(weights, tf.constant(x), tf.constant(y), tf.constant(iterations), noise, tf.constant(1))[0]


def test_who_sits_out_does_not_count_in_the_average():
    x, y = digits().x_train[:48].reshape(3, 16, 64), digits().y_train[:48].reshape(3, 16)
    everyone = after_a_round(6, x, y, [5, 0, 9], seed=2)
    for one, other in zip(everyone, after_a_round(6, x[[0, 2]], y[[0, 2]], [5, 9], seed=2), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_a_record_can_move_the_model_by_more_than_the_sensitivity():
    """S_f is observed and not enforced: one replaced record of one batch, one round without noise."""
    x, y = digits().x_train[:160].reshape(10, 16, 64), digits().y_train[:160].reshape(10, 16)
    other_x, other_y = x.copy(), y.copy()
    other_x[0, 0], other_y[0, 0] = 1.0, (y[0, 0] + 5) % 10
    after = (after_a_round(32, *data, [100] * 10, seed=0) for data in ((x, y), (other_x, other_y)))
    moved = math.sqrt(sum(float(tf.reduce_sum((a - b) ** 2)) for a, b in zip(*after, strict=True)))
    assert moved > DEFAULT.privacy.sensitivity


NEIGHBOURS = 300


def farthest(radius: float | None, vector: str) -> float:
    """The greatest distance between what a device sends of two batches that differ in a record, by a random search.

    Model, average gradient and number of iterations are the same for both: they are known.
    """
    generator, distances = np.random.default_rng(5), []
    updates = tf.function(local_steps.updates)
    shapes, samples = ((5, 4), (4,), (4, 3), (3,)), 4

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
            walk = [tf.constant(normal(1.0, 1, *s), tf.float32) for s in shapes], tf.constant([7, 7]), 0.3
            parts = updates(model, *batches, *walk)
            if radius is not None:
                known = local_steps.straight(*walk)
                parts = rounds.near(parts, known, radius)
                largest = max(float(tf.reduce_max(tf.abs(k))) for k in known)
                rounding = np.finfo(np.float32).eps * largest * math.sqrt(39)
        moved = math.sqrt(sum(((p[0] - p[1]).numpy().astype(float) ** 2).sum() for p in parts))
        distances.append(moved - rounding)
    return np.max(np.nan_to_num(distances, nan=np.inf))


@pytest.mark.parametrize("vector", ["gradient", "update"])
def test_no_record_moves_what_is_sent_by_more_than_its_sensitivity(vector):
    for radius in (0.02, 3.0):
        assert 1.7 * radius < farthest(radius, vector) <= 2 * radius * (1 + 1e-5)
    assert farthest(None, vector) > 100


def test_what_is_not_finite_counts_as_nothing_and_what_is_short_stays():
    values = np.array([[3.0, 4.0], [0.3, 0.4], [np.inf, 1.0], [np.nan, 1.0], [3e30, 3e30], [0.0, 0.0]], np.float32)
    kernel, bias = rounds.clipped([tf.constant(values[:, :1, None]), tf.constant(values[:, 1:])], 1.0)
    clipped = np.concatenate([kernel[:, 0], bias], axis=1)
    np.testing.assert_allclose(clipped, [[0.6, 0.8], [0.3, 0.4], *[[0, 0]] * 4], rtol=1e-6)
    # A sample whose gradient overflows on the way leaves that of the others alone.
    weights = [tf.constant(np.full((1, *s), 1e30), tf.float32) for s in ((2, 4), (4,), (4, 3), (3,))]
    x, y = tf.constant([[[0.0, -1.0], [1e30, 1e30]]]), tf.constant([[0, 1]])
    alone = local_steps.gradients(weights, x[:, :1], y[:, :1], 0.1)
    for both, expected in zip(local_steps.gradients(weights, x, y, 0.1), alone, strict=True):
        np.testing.assert_allclose(both, expected, rtol=1e-6)


def delta_of(epsilon, mu):
    """delta of Gaussian DP at epsilon, 50 digits."""
    mpmath.mp.dps = 50
    epsilon, mu = mpmath.mpf(epsilon), mpmath.mpf(mu)
    return float(mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu))


@pytest.mark.parametrize(("count", "delta"), [(50, 1e-5), (7, 1e-7)])
@pytest.mark.parametrize(("scheme", "colluding"), [("fair", 10), ("independent", 10), ("shared", 1)])
def test_what_devices_get_and_send_is_accounted_for(scheme, colluding, count, delta):
    """Clean uploads: copies of all rounds but the first. Noisy: a gradient and an update in each round, the first, too;
    all else is computed of them."""
    multiplier = math.sqrt(2 * math.log(1.25 / delta)) / 0.95
    changes = {"training": {"rounds": count}, "privacy": {"delta": delta}}
    outcomes, leakages = {}, {}
    for uploads in ("clean", "noisy"):
        found = accounted("benchmark", scheme, TWO, changes, {"privacy": {"uploads": uploads}})
        outcomes[uploads], leakages[uploads] = (found[table].row(0, named=True) for table in ("outcome", "leakage"))
    clean, noisy, leakage = outcomes["clean"], outcomes["noisy"], leakages["clean"]
    for value, releases in (
        (leakage["epsilon_copy"], 1),
        (leakage["epsilon_device"], count - 1),
        (clean["epsilon_round"], colluding),
        (clean["epsilon"], colluding * (count - 1)),
        (noisy["epsilon_upload"], 2),
        (noisy["epsilon_server"], 2 * count),
    ):
        assert delta_of(value, math.sqrt(releases) / multiplier) == pytest.approx(delta, rel=1e-6)
    theta = 0.6 if scheme == "fair" else 0.0
    for name, epsilon in (("exact_multiplier", 0.95), ("exact_largest_multiplier", 0.95 * (1 - theta))):
        assert delta_of(epsilon, 1 / leakage[name]) == pytest.approx(delta, rel=1e-6)
    assert leakage["copies"] == count - 1
    assert leakage["epsilon_copy"] < leakage["epsilon_printed"] == 0.95
    assert leakage["noise_multiplier"] > leakage["exact_multiplier"]
    assert clean["epsilon_server"] == clean["epsilon_upload"] == math.inf
    assert leakage["epsilon"] == clean["epsilon"]
    assert noisy["epsilon"] == noisy["epsilon_server"]
    assert noisy["epsilon"] == pytest.approx(leakages["noisy"]["epsilon"], rel=1e-12)
    for name in ("epsilon_copy", "epsilon_round", "epsilon_device"):
        assert clean[name] == noisy[name]
    for outcome in (clean, noisy):
        assert outcome["guarantee"] == "conditional"
        assert outcome["epsilon_worst_case"] == math.inf
        assert "sensitivity observed but not enforced" in outcome["epsilon_assumes"]
    assert ("deviations" in clean["epsilon_assumes"], "deviations" in noisy["epsilon_assumes"]) == (True, False)
    assert "access point" in noisy["observer"]
    assert "access point" not in clean["observer"]


def test_noisy_uploads_that_are_clipped_have_a_guarantee():
    noisy, clipped = (accounted("utility", "fair", TWO, NOISY, {"training": {"clip_norm": c}}) for c in (None, 0.3))
    np.testing.assert_allclose(clipped["noise"]["upload_std"] / noisy["noise"]["upload_std"], 2 * 0.3 / 128 / 0.01)
    assert clipped["noise"].drop("upload_std").equals(noisy["noise"].drop("upload_std"))
    for outcome in clipped["outcome"].rows(named=True):
        assert (outcome["guarantee"], outcome["epsilon_kind"]) == ("proved", "upper bound")
        assert outcome["epsilon"] == outcome["epsilon_server"] == outcome["epsilon_worst_case"] < math.inf


def test_the_server_learns_most_of_the_device_that_adds_least():
    found, model = before_training("benchmark", "fair", TWO, NOISY)
    quieter = pl.when(pl.col("device") == 3).then(pl.col("upload_multiplier") / 2).otherwise("upload_multiplier")
    found["noise"] = found["noise"].with_columns(upload_multiplier=quieter)
    result = stage_of.account(part(model, "account"), found)
    worst = result["leakage"].filter(device=3)["epsilon"]
    assert (worst > result["leakage"].filter(device=0)["epsilon"]).all()
    np.testing.assert_allclose(result["outcome"]["epsilon_server"], worst, rtol=1e-12)


def test_symbols_and_iterations_of_the_benchmark():
    found = accounted("benchmark", "independent", TINY)
    seconds = 875e3 / (250e3 * np.log2(1 + 1 / found["schedule"]["unit_power_w"].to_numpy()))
    np.testing.assert_allclose(found["outcome"]["channel_uses"], 250e3 * seconds.reshape(3, -1).sum(axis=1))
    iterations = np.floor((0.75 - seconds) / LIMITS.iteration_s).reshape(3, -1).mean(axis=1)
    np.testing.assert_allclose(found["outcome"]["local_steps"], iterations)
    undecided = accounted("utility", "fair", TINY)["outcome"]
    assert undecided["channel_uses"].null_count() == undecided["local_steps"].null_count() == 3


@pytest.mark.parametrize("scale", [1.0, 1.3])
def test_distances_and_fades_follow_their_laws(scale):
    model = scenario.resolve({"system": "utility_fair", "radio": {"fading_scale": scale}}, {})
    found = stage_of.channel(part(model, "channel"), range(100))
    distance = found["users"]["distance_m"].to_numpy()
    frame = found["links"].join(found["users"], on=["realization", "device"])
    fading = frame["gain"].to_numpy() * frame["distance_m"].to_numpy() ** 4 / link.path_gain(1.0, RADIO)
    assert stats.kstest(distance, stats.uniform(50, 150).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(fading, stats.expon(scale=2 * scale**2).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(fading, stats.expon(scale=1.9 * scale**2).cdf).pvalue < FALSE_ALARM
    np.testing.assert_allclose(found["users"]["path_loss_db"], 10 * np.log10(distance**4 / 0.5558), atol=1e-3)


def test_a_longer_training_begins_with_the_links_of_a_shorter_one():
    longer, shorter = (
        before_training("benchmark", "shared", TINY, {"training": {"rounds": count}})[0]["links"] for count in (5, 3)
    )
    assert longer.filter(pl.col("round") <= 3).equals(shorter)


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
    "clipped uploads, a target": {
        "privacy": {"uploads": "noisy", "target_epsilon": 2.0}, "training": {"clip_norm": 0.3},
    },
    "all pairs of schemes": {
        "schemes": [{"name": f"{s}, {n}", "scheduler": s, "noise": n}
                    for s in ("utility", "benchmark") for n in ("fair", "independent", "shared")]
    },
}  # fmt: skip


@pytest.mark.parametrize("edge", in_turn(EDGES, "as it is", "nobody ever takes part", "some sit rounds out"))
def test_every_figure_and_table_is_made_in_edge_cases(edge):
    settings, found, frames, compared = everything_made(merge(TINY, EDGES[edge]))
    summary, history = frames["summary"], found["history"]
    assert summary["scheme"].to_list() == [scheme.name for scheme in settings.schemes]
    out = history["iterations"] == 0
    assert (history.filter(out)["energy_j"] == 0).all()
    assert (history.filter(out & (history["status"] != "diverged"))["deviation"] == 1).all()
    assert (history.filter(out)["utility"] == 0).all()
    match edge:
        case "nobody ever takes part":
            assert set(history["status"]) == {"nobody_took_part"}
            assert set(summary["nobody_took_part"]) == {2}
            tested = history.drop_nulls("loss").group_by("scheme", "realization")
            assert (tested.agg(pl.col("loss").n_unique())["loss"] == 1).all()
            assert set(found["schedule_status"]["status"]) == {"always_out"}
            assert set(frames["realizations"]["channel_uses"]) == {0.0}
        case "some sit rounds out":
            assert 0 < out.sum() < len(out)
            assert (frames["devices"]["rounds_out"] > 0).any()
            assert (history.filter(~out)["iterations"] >= 10).all()
        case "training diverges":
            assert set(summary["diverged"]) == {2}
            assert summary["batch_loss_mean"].null_count() == len(summary)
            assert len(frames["devices"]) == 0
        case "as it is":
            assert set(compared["claims"]["claim"]) == {claim.id for claim in CLAIMS}
            first = history.filter(pl.col("round") == 1)
            assert first["noise_multiplier"].null_count() == len(first)
            assert first.filter(scheme="Proposed")["batch_loss"].equals(first.filter(scheme="Benchmark")["batch_loss"])


def test_the_report_agrees_with_plain_sums():
    _, found, frames = reported(TINY)
    history = found["history"].filter(pl.col("scheme") == "Proposed").sort("realization", "round", "device")
    loss, energy, gain, worth, seconds, power, iterations = (
        history[name].to_numpy().reshape(2, 3, 4)
        for name in ("batch_loss", "energy_j", "learning_gain", "utility", "transmit_s", "power_w", "iterations")
    )
    rows = frames["realizations"].filter(pl.col("scheme") == "Proposed")[:2]
    np.testing.assert_allclose(rows["batch_loss"], loss[:, 1:].mean(axis=(1, 2)))
    np.testing.assert_allclose(rows["batch_loss_std"], loss[:, 1:].std(axis=2).mean(axis=1))
    np.testing.assert_allclose(rows["energy_j"], energy.mean(axis=(1, 2)))
    np.testing.assert_allclose(rows["energy_std_j"], energy.mean(axis=1).std(axis=1))
    np.testing.assert_allclose(rows["learning_gain"], gain.mean(axis=(1, 2)))
    np.testing.assert_allclose(rows["learning_gain_std"], gain.mean(axis=1).std(axis=1))
    np.testing.assert_allclose(rows["utility"], worth.mean(axis=(1, 2)))
    np.testing.assert_allclose(rows["utility_std"], worth.mean(axis=1).std(axis=1))
    np.testing.assert_allclose(rows["channel_uses"], (seconds * 250e3).sum(axis=(1, 2)))
    np.testing.assert_allclose(rows["transmit_energy_j"], (seconds * power).sum(axis=(1, 2)))
    np.testing.assert_allclose(rows["local_steps"], iterations.mean(axis=(1, 2)))
    claims = build.compare({"one": frames})["claims"]
    for scheme, claim in (("Proposed", "F2-2"), ("Benchmark", "F2-1")):
        each = frames["devices"].filter(pl.col("scheme") == scheme)
        slope = np.polyfit(each["path_loss_db"], 1000 * each["energy_j"], 1)[0]
        (measured,) = claims.filter(claim=claim)["measured"]
        assert measured == pytest.approx(slope, abs=1e-9)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ({"network": {"min_distance_m": 300.0}}, "base.network.min_distance_m: 300 exceeds network.max_distance_m: 200"),
        ({"device": {"computing_power_w": 0.01}}, "base.device.computing_power_w: 0.01 is below device.circuit_power_w: 0.0825"),
        ({"device": {"batch_size": 7000}}, "base.device.batch_size: 7000 exceeds data.samples_per_device: 6000"),
        ({"network": {"savers": 11}}, "base.network.savers: 11 exceeds network.devices: 10"),
        ({"network": {"devices": 11}}, "data.samples_per_device: 11 users would hold 66000 samples, but mnist has 60000"),
        ({"device": {"deadline_s": 0.00075}}, "base.device.deadline_s: 0.00075 leaves no time to transmit after device.min_iterations: 10"),
        ({"device": {"min_iterations": 125}}, "device.deadline_s: 0.75 leaves no time to transmit after device.min_iterations: 125"),
        ({"device": {"max_power_dbm": -100.0}, "radio": {"noise": "thermal"}}, "base.device.max_power_dbm: -100 is too low to reach the access point from any distance"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_place_and_what_would_be_right(override, expected):
    with pytest.raises(scenario.ScenarioError) as caught:
        scenario.load({"base": {"system": "utility_fair"} | override, "scenarios": {"one": {}}}, "file.yaml")
    assert expected in str(caught.value)


@pytest.mark.slow
def test_local_steps_of_a_small_cnn_have_the_same_bits_in_every_process():
    code = """
import warnings
warnings.simplefilter("ignore")
import pwfl
from pwfl import registry
tiny = registry.system("utility_fair").catalog.tiny
training = tiny["training"] | {"model": "cnn", "clip_norm": 1.0}
base = tiny | {"system": "utility_fair", "realizations": 1, "training_realizations": 1, "training": training}
found = pwfl.simulate({"study": "cnn", "base": base, "scenarios": {"one": {}}}, until="train")
print(found.scenarios["one"].stages["history"].write_csv())
"""
    first, *others = (python("-c", code).stdout for _ in range(6))
    assert first.count("\n") > 2
    assert set(others) == {first}
