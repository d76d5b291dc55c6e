"""The system random_orthogonalization, from its reference values to its report."""

import math
from functools import partial

import numpy as np
import polars as pl
import pytest
import tensorflow as tf
import yaml
from dp_accounting import GaussianDpEvent
from dp_accounting.pld import PLDAccountant
from scipy import stats

import stage_of
from conftest import ROOT, in_turn
from graphs import operations, sums_up_in_place
from pipeline import digits, part, run
from pwfl import registry, scenario, simulate, streams
from pwfl.privacy import visibility
from pwfl.privacy.gaussian import exact_epsilon, textbook_epsilon
from pwfl.report import build
from pwfl.report.catalog import COMPARISON, scenario_figures
from pwfl.scenario.values import replaced
from pwfl.stages import REPORT
from pwfl.systems.random_orthogonalization import account, mimo, receive, train
from pwfl.systems.random_orthogonalization.claims import OWN_CLAIMS, PAPER_CLAIMS, claims
from pwfl.systems.random_orthogonalization.tables import ANTENNAS, WORST
from pwfl.tables.arrays import to_array
from pwfl.training import local_sgd, rounds, trainings
from pwfl.training.batching import Draws

SYSTEM = "random_orthogonalization"
FALSE_ALARM = 1e-6
LIMIT = stats.norm.isf(FALSE_ALARM / 2)  # 4.89 standard errors
DELTA = 1e-5
SIGMA, RECEIVER_STD, ALPHA = UPLINK = mimo.Uplink(math.sqrt(0.1), 1.0, 3.0)  # Fig. 2
SMALL = {
    "system": SYSTEM,
    "realizations": 3,
    "training_realizations": 2,
    "network": {"users": 6, "antennas": 8},
    "radio": {"coherence_rounds": 1},
    "data": {"dataset": "digits", "samples_per_user": 30},
    "privacy": {"user_numbers": [3, 9]},
    "training": {"rounds": 3, "local_steps": 5, "batch_size": 8, "learning_rate": 0.5},
}


def override(config, changes):
    """The config with keys of sections changed."""
    return config | {k: config.get(k, {}) | v if isinstance(v, dict) else v for k, v in changes.items()}


def before_training(config, noise_scheme="fixed"):
    """Tables of the stages before train, and what gives the part of the scenario that a stage reads."""
    parameters = partial(part, scenario.resolve(config, {}))
    found = stage_of.channel(parameters("channel"), range(config["realizations"]))
    found |= stage_of.schedule(parameters("schedule", "all"), "all", found)
    found |= stage_of.noise(parameters("noise", noise_scheme), noise_scheme, found)
    found |= stage_of.receive(parameters("receive"), found)
    return found, parameters


def accounted(changes=None, config=None):
    """Tables of the stage account."""
    found, parameters = before_training(override(config or SMALL, changes or {}))
    return stage_of.account(parameters("account"), found)


def drawn(generator, *shape):
    """CN(0, 1)."""
    return (generator.standard_normal(shape) + 1j * generator.standard_normal(shape)) / math.sqrt(2)


def gram(seed, realizations, interval, users, antennas):
    """Inner products of channels."""
    return mimo.inner_products(mimo.channels(seed, realizations, interval, users, antennas))


# Reference values


def printed_epsilon(products):
    """(6) with (5) as printed, of each user, from the channels' inner products."""
    coupling = mimo.couplings(products)
    std = mimo.effective_noise(coupling, UPLINK, products.shape[-1])["effective_noise_std_printed"]
    return textbook_epsilon(2 * coupling["energy"] / products.shape[-1] / std[..., None], DELTA)


REFERENCE = {(10, 64): 6.435, (10, 512): 6.638, (100, 64): 1.599, (100, 512): 2.018}


@pytest.mark.parametrize(("users", "antennas"), REFERENCE)
def test_closed_form_and_monte_carlo_give_the_reference_values(users, antennas):
    formula = textbook_epsilon(2 / users / mimo.mean_noise(users, antennas, UPLINK), DELTA)
    assert round(float(formula), 3) == REFERENCE[users, antennas]
    measured = printed_epsilon(gram(7, range(60), 1, users, antennas)).mean()
    assert measured == pytest.approx(formula, rel=0.01)


def test_channels_that_are_not_random_give_the_reference_values_exactly():
    orthonormal, equal = np.eye(10, dtype=complex), np.ones((10, 10), complex)
    np.testing.assert_allclose(printed_epsilon(orthonormal), 6.66884733, rtol=0, atol=5e-9)
    np.testing.assert_allclose(printed_epsilon(equal), 2.90688316, rtol=0, atol=5e-9)


def test_the_textbook_formula_is_unsafe_above_about_8_4():
    mu = np.array([8.3, 8.6]) / math.sqrt(2 * math.log(1.25 / DELTA))
    exact = exact_epsilon(mu**2 / 2, DELTA)
    assert exact[0] < 8.3
    assert exact[1] > 8.6


# Channels


@pytest.mark.parametrize("antennas", [1, 5, 64])
def test_channels_are_complex_gaussian(antennas):
    products = gram(11, range(4000), 2, 2, antennas)
    energy = products[:, [0, 1], [0, 1]].real
    assert stats.kstest(2 * antennas * energy.ravel(), stats.chi2(2 * antennas).cdf).pvalue > FALSE_ALARM
    # Along another channel, a channel is CN(0, 1/M) whatever that is.
    along = np.sqrt(antennas) * products[:, 0, 1] / np.sqrt(energy[:, 0])
    assert stats.kstest(np.abs(along) ** 2, stats.expon.cdf).pvalue > FALSE_ALARM
    assert stats.kstest(np.angle(along) / (2 * np.pi) + 0.5, "uniform").pvalue > FALSE_ALARM
    # The test sees a scale that is 10% off.
    assert stats.kstest(2 * antennas * 1.1 * energy.ravel(), stats.chi2(2 * antennas).cdf).pvalue < FALSE_ALARM


def test_a_channel_does_not_depend_on_other_users_or_on_the_block():
    many = gram(1, range(5), 3, 7, 4)
    np.testing.assert_allclose(gram(1, range(2, 4), 3, 5, 4), many[2:4, :5, :5], atol=1e-14)
    assert not np.isclose(gram(1, range(5), 4, 7, 4), many).any()
    assert not np.isclose(gram(2, range(5), 3, 7, 4), many).any()


@pytest.mark.parametrize("normalization", ["I/M", "I"])
@pytest.mark.parametrize("coherence", [2, 3, 6, None])
def test_rounds_of_an_interval_are_those_of_its_first_round_where_channels_are_redrawn(coherence, normalization):
    config = override(SMALL, {"radio": {"normalization": normalization}, "training": {"rounds": 6}})
    redrawn, _ = before_training(config)
    found, _ = before_training(override(config, {"radio": {"coherence_rounds": coherence}}))
    length = 6 if coherence is None else coherence
    for name, key, first in (("links", "round", 1), ("noise", "round", 1), ("visibility", "interval", 0)):
        known = {number: first + (number - 1) // length for number in range(1, 7)}  # from 1 to 6
        keys = [each for each in ("realization", "users", "observer", "user") if each in found[name].columns]
        for number, interval in known.items():
            own = found[name].filter(pl.col(key) == number - 1 + first).drop(key).sort(keys)
            theirs = redrawn[name].filter(pl.col(key) == interval).drop(key).sort(keys)
            assert own.equals(theirs), (name, number)


@pytest.mark.parametrize(("users", "antennas"), [(12, 16), (30, 8)])
def test_weights_are_negative_as_often_as_their_law_says(users, antennas):
    # Given ||h_k||^2 = e, Re(h_s^H h_k) is normal, of mean e and variance e (K - 1) / (2 M); M e is Gamma(M).
    count = 4000
    weight = mimo.couplings(gram(13, range(count), 1, users, antennas))["coupling_real"]
    law = stats.gamma(antennas, scale=1 / antennas)
    chance = law.expect(lambda e: stats.norm.cdf(-np.sqrt(2 * antennas * e / (users - 1))))
    negative = (weight < 0).sum(axis=1)  # users of a realization go together
    error = LIMIT * negative.std() / math.sqrt(count)
    assert abs(negative.mean() - users * chance) < error
    assert error < users * chance / 5  # the test sees a fifth


@pytest.mark.parametrize("coherence", [1, 3, None])
def test_signs_of_weights_are_counted_user_by_user(coherence):
    config = override(SMALL, {"realizations": 5, "radio": {"coherence_rounds": coherence}, "training": {"rounds": 6}})
    config = override(config, {"network": {"antennas": 2}})
    _, tables = run(config, audited=False)
    negative = {}  # (users, realization, user) -> number of rounds
    for users, realization, user, weight in (
        tables["links"].select("users", "realization", "user", "coupling_real").iter_rows()
    ):
        key = users, realization, user
        negative[key] = negative.get(key, 0) + (weight < 0)
    for *key, count in tables["leakage"].select("users", "realization", "user", "negative_rounds").iter_rows():
        assert negative[tuple(key)] == count
    own = {(realization, user): count for (users, realization, user), count in negative.items() if users == 6}
    assert set(own.values()) <= {1: set(range(7)), 3: {0, 3, 6}, None: {0, 6}}[coherence]
    assert len(set(own.values())) > 1
    for realization, share, users in (
        tables["outcome"].select("realization", "negative_weights", "negative_users").iter_rows()
    ):
        of_it = [count for (r, _), count in own.items() if r == realization]
        assert share == pytest.approx(sum(of_it) / 36)
        assert users == of_it.count(6)
    signs = build.summarize(scenario.resolve(config, {}).select_stage(REPORT), tables)["signs"].filter(scheme="Private")
    assert signs["negative_rounds"].to_list() == list(range(7))
    for many, mean in signs.select("negative_rounds", "user_count_mean").iter_rows():
        assert mean == pytest.approx(list(own.values()).count(many) / 5)
    counts = [[own[r, user] for user in range(6)].count(0) for r in range(5)]
    low, high = stats.t.interval(0.95, 4, np.mean(counts), stats.sem(counts))
    assert signs.select("user_count_ci_low", "user_count_ci_high").row(0) == pytest.approx((max(low, 0), high))


def test_blocks_cover_all_realizations_and_stay_small(monkeypatch):
    monkeypatch.setattr(mimo, "BLOCK_BYTES", 16 * 6 * 8 * 4 + 5)
    found = list(mimo.blocks(range(3, 14), 6, 8))
    assert [len(block) for block in found] == [4, 4, 3]
    assert [r for block in found for r in block] == list(range(3, 14))
    assert [len(block) for block in mimo.blocks(range(2), 10**6, 10**6)] == [1, 1]


@pytest.mark.parametrize("normalization", ["I/M", "I"])
def test_effective_noise_is_what_the_server_gets(normalization):
    # (1)-(4) signal by signal: real noise of the users, complex noise of every antenna.
    users, antennas, sigma, receiver_variance, alpha, count = 4, 6, 0.7, 1.3, 1.7, 40_000
    generator = np.random.default_rng(5)
    h = drawn(generator, antennas, users) / (math.sqrt(antennas) if normalization == "I/M" else 1)
    scale = antennas if normalization == "I" else 1
    noise_of_users = sigma * generator.standard_normal((users, count))
    y = alpha * h @ noise_of_users + math.sqrt(receiver_variance) * drawn(generator, antennas, count)
    update = h.sum(axis=1).conj() @ y / (alpha * users * scale)
    coupling = mimo.couplings(h.conj().T @ h / scale)
    receiver_std = mimo.receiver_noise_std(receiver_variance, normalization, antennas)
    std = mimo.effective_noise(coupling, mimo.Uplink(sigma, receiver_std, alpha), users)
    error = LIMIT * math.sqrt(2 / count)
    assert update.real.var() == pytest.approx(std["effective_noise_std"] ** 2, rel=error)
    assert (np.abs(update) ** 2).mean() == pytest.approx(std["effective_noise_std_modulus"] ** 2, rel=error)
    # Not the one for the other.
    assert abs(update.real.var() / std["effective_noise_std_modulus"] ** 2 - 1) > error
    # A user's signal arrives with the weight that training takes.
    weight = (h.sum(axis=1).conj() @ h / (users * scale)).real
    np.testing.assert_allclose(coupling["coupling_real"] / users, weight)


def test_the_printed_noise_is_the_mean_of_that_given_the_channels():
    coupling = mimo.couplings(gram(9, range(20_000), 1, 5, 4))
    std = mimo.effective_noise(coupling, UPLINK, 5)
    variance = {name: values**2 for name, values in std.items()}
    formula = mimo.mean_noise(5, 4, UPLINK) ** 2
    for name in ("effective_noise_std_printed", "effective_noise_std_modulus"):
        error = LIMIT * variance[name].std() / math.sqrt(len(variance[name]))
        assert abs(variance[name].mean() - formula) < error
    assert abs(variance["effective_noise_std"].mean() - formula) > 10 * error


# Accounting


def distance_at_antennas(h, sigma, receiver_std, alpha):
    """Squared Mahalanobis distance of y under a unit change of each user's update, by its covariance."""
    stacked = np.concatenate([h.real, h.imag])
    covariance = (alpha * sigma) ** 2 * stacked @ stacked.T + receiver_std**2 / 2 * np.eye(len(stacked))
    return np.array([alpha**2 * g @ np.linalg.solve(covariance, g) for g in stacked.T])


@pytest.mark.parametrize(("users", "antennas"), [(1, 1), (3, 8), (8, 8), (30, 8)])
@pytest.mark.parametrize(("sigma", "receiver_std"), [(0.3, 1.0), (0.0, 1.0), (2.0, 0.05)])
def test_visibility_is_the_distance_at_the_antennas(users, antennas, sigma, receiver_std):
    h = drawn(np.random.default_rng(users), antennas, users) / math.sqrt(antennas)
    products = ALPHA**2 * (h.conj().T @ h).real[None]
    seen = visibility.through_gram(products, np.array([sigma]), receiver_std / math.sqrt(2))[0] ** 2
    np.testing.assert_allclose(seen, distance_at_antennas(h, sigma, receiver_std, ALPHA), rtol=1e-8)
    # And what is observed is as many real numbers.
    stacked = ALPHA * np.concatenate([h.real, h.imag])
    receivers = np.full(2 * antennas, receiver_std / math.sqrt(2))
    np.testing.assert_allclose(visibility.linear(stacked, np.full(users, sigma), receivers) ** 2, seen, rtol=1e-8)
    # All antennas tell no less than the server's update.
    coupling = mimo.couplings(h.conj().T @ h)
    update = mimo.effective_noise(coupling, mimo.Uplink(sigma, receiver_std, ALPHA), users)["effective_noise_std"]
    assert (seen >= (coupling["coupling_real"] / users / update) ** 2 * (1 - 1e-9)).all()


def test_without_receiver_noise_the_antennas_see_a_users_noise_alone():
    products = gram(1, range(1), 1, 5, 9).real
    np.testing.assert_allclose(visibility.through_gram(products, np.array([0.4]), 0.0), 1 / 0.4)
    assert np.isinf(visibility.through_gram(products, np.array([0.0]), 0.0)).all()


@pytest.mark.parametrize(("users", "antennas"), [(33, 16), (40, 3), (9, 1)])
def test_of_many_users_channels_give_what_inner_products_do(users, antennas):
    """Whatever the noise, and with some of them silent."""
    channel = mimo.channels(3, range(4), 1, users, antennas)
    silent = np.random.default_rng(users).random((4, users)) < 0.6
    for heard in (channel, np.where(silent[..., None], 0.0, channel)):
        products = np.einsum("rjm,rkm->rjk", heard.conj(), heard)
        for name, values in mimo.couplings(products).items():
            np.testing.assert_allclose(mimo.couplings_of_many(heard)[name], values, rtol=1e-9, atol=1e-12)
        observed = np.concatenate([heard.real, heard.imag], axis=2).swapaxes(1, 2)
        for std, receiver_std in ((0.3, 0.2), (100.0, 1e-3), (0.0, 0.5), (0.3, 0.0), (0.0, 0.0)):
            direct = visibility.through_gram(products.real, np.full(4, std), receiver_std)
            np.testing.assert_allclose(
                visibility.through_few(observed, np.full(4, std), receiver_std), direct, rtol=1e-9
            )


def test_networks_of_many_users_have_links_and_views_as_small_ones_have(monkeypatch):
    """By channels, where a network has more than twice as many users as antennas, or by inner products."""
    config = override(SMALL, {"network": {"antennas": 2}, "privacy": {"user_numbers": [3, 4, 9]}})
    found, _ = before_training(config)
    monkeypatch.setattr(mimo, "few", lambda users, antennas: True)
    direct, _ = before_training(config)
    for table in ("links", "visibility"):
        for name, values in direct[table].select(pl.col(pl.Float64)).to_dict().items():
            np.testing.assert_allclose(found[table][name], values, rtol=1e-9, atol=1e-12)
    assert not found["links"].equals(direct["links"])


def test_what_the_antennas_see_is_of_every_networks_own_channels():
    found, _ = before_training(SMALL)
    uplink = mimo.Uplink(np.full((3, 3), SIGMA), RECEIVER_STD, np.full((3, 3), ALPHA))
    everyone = {size: np.ones((3, 3, size), bool) for size in (3, 6)}
    seen = receive.antennas_visibility(scenario.resolve(SMALL, {}).seed, range(3), 8, uplink, 1, everyone)
    for size, of in ((6, ANTENNAS), (3, f"{ANTENNAS} of 3 users")):
        rows = found["visibility"].filter(observer=of)
        keys = ("realization", "interval", "user")
        np.testing.assert_allclose(to_array(rows, "visibility", *keys), seen[size], rtol=1e-12)
        for realization, t in np.ndindex(2, 2):
            products = gram(scenario.resolve(SMALL, {}).seed, range(realization, realization + 1), t + 1, size, 8)
            root = np.linalg.cholesky(products[0] + 1e-13 * np.eye(size)).conj().T  # vectors of these products
            expected = distance_at_antennas(root, SIGMA, RECEIVER_STD, ALPHA)
            np.testing.assert_allclose(seen[size][realization, t] ** 2, expected, rtol=1e-6)
        np.testing.assert_allclose(rows["visibility_users_only"], 1 / SIGMA, rtol=1e-12)


@pytest.mark.parametrize("coherence", [1, None])
def test_rounds_compose_as_the_library_composes_them(coherence):
    found, parameters = before_training(override(SMALL, {"radio": {"coherence_rounds": coherence}}))
    leakage = stage_of.account(parameters("account"), found)["leakage"]
    of_one = found["schedule"].filter(realization=1, user=2)["coupling_real"].to_numpy() / 6
    std = found["noise"].filter(realization=1)["effective_noise_std"].to_numpy()
    accountant = PLDAccountant(value_discretization_interval=1e-4)
    for weight, sigma in zip(of_one, std, strict=True):
        accountant.compose(GaussianDpEvent(sigma / (2 * abs(weight))))
    row = leakage.filter(realization=1, users=6, user=2).row(0, named=True)
    assert row["epsilon"] == pytest.approx(accountant.get_epsilon(DELTA), rel=1e-3)
    assert row["mu"] == pytest.approx(math.sqrt(sum((2 * of_one / std) ** 2)))


def test_leakages_are_those_of_each_user_and_round():
    found, parameters = before_training(SMALL)
    leakage = stage_of.account(parameters("account"), found)["leakage"].filter(users=6)
    frame = found["schedule"].join(found["noise"], on=["realization", "round"])
    factor = math.sqrt(2 * math.log(1.25 / DELTA))
    printed = 2 * frame["energy"] / 6 / frame["effective_noise_std_printed"] * factor
    modulus = 2 * frame["energy"] / 6 / frame["effective_noise_std_modulus"] * factor
    sensitivity = 2 * frame["coupling_real"].abs() / 6 / frame["effective_noise_std"] * factor
    exact = exact_epsilon((sensitivity.to_numpy() / factor) ** 2 / 2, DELTA)
    each = {"epsilon_printed": printed, "epsilon_modulus": modulus, "epsilon_sensitivity": sensitivity}
    each |= {"epsilon_gaussian": pl.Series(exact), "understated": (printed.to_numpy() < exact).astype(float)}
    keys = ["realization", "user"]
    expected = frame.select(keys).with_columns(**each).group_by(keys).mean().sort(keys)
    for column in expected.columns[2:]:
        np.testing.assert_allclose(leakage[column], expected[column], rtol=1e-9)


@pytest.mark.parametrize("normalization", ["I/M", "I"])
def test_a_network_of_other_size_is_accounted_for_as_its_own_scenario(normalization):
    config = override(SMALL, {"radio": {"normalization": normalization}})
    swept = accounted(config=config)["leakage"]
    for users in (3, 9):
        own = accounted({"network": {"users": users}, "privacy": {"user_numbers": []}}, config)["leakage"]
        compared = swept.filter(users=users)
        assert compared.select("realization", "user").equals(own.select("realization", "user"))
        for column in own.columns[3:]:
            np.testing.assert_allclose(compared[column], own[column], rtol=1e-9)


def test_outcome_is_that_of_the_worst_user_of_the_own_network():
    frames = accounted()
    outcome, own = frames["outcome"], frames["leakage"].filter(users=6)
    for realization in range(3):
        worst = own.filter(realization=realization)
        row = outcome.row(realization, named=True)
        assert row["epsilon"] == worst["epsilon"].max()
        of_all = frames["guarantees"].filter(realization=realization, observer="antennas", unit="record")
        assert row["epsilon_server"] == of_all.filter(noise_from="users and receivers")["epsilon"].item()
        assert row["epsilon_server"] > row["epsilon"] > row["epsilon_gaussian"]
        assert row["channel_uses"] == 650 * 3  # 10 (64 + 1) weights, one symbol each
        assert row["transmit_energy_bound"] == pytest.approx(9 * (1 + 650 * 0.1))
        assert row["transmit_energy_limit"] == 9


def test_without_the_receiver_what_is_left_is_the_users_noise():
    found, before = accounted(), before_training(SMALL)[0]
    outcome, of_users = found["outcome"], found["guarantees"].filter(unit="record", noise_from="users")
    update, antennas = (of_users.filter(observer=name)["epsilon"].to_numpy() for name in ("update", "antennas"))
    weights = to_array(before["schedule"], "coupling_real", "realization", "round", "user")
    mu = 2 * np.abs(weights) / np.sqrt((weights**2).sum(axis=-1, keepdims=True)) / SIGMA
    rho = (mu**2).sum(axis=1).max(axis=1) / 2
    np.testing.assert_allclose(update, exact_epsilon(rho, DELTA), rtol=1e-9)
    np.testing.assert_allclose(antennas, exact_epsilon(np.array([3 * (2 / SIGMA) ** 2 / 2]), DELTA)[0], rtol=1e-9)
    assert (outcome["epsilon"].to_numpy() < update).all()
    assert (outcome["epsilon_server"].to_numpy() < antennas).all()


@pytest.mark.parametrize("variance", [0.0, 5e-324, 1e-310])
def test_noise_too_small_to_count_means_no_privacy(variance):
    outcome = accounted({"radio": {"receiver_noise_variance": variance}, "privacy": {"noise_variance": variance}})[
        "outcome"
    ]
    for column in WORST:
        assert (outcome[column] > 1e150).all()


def leakages_of_one_user(visible, sensitivity=0.0, noise_std=0.0):
    """Leakages of a round of one user's, C = 1.5, that shows alike to all observers, and in all readings."""
    mu = np.full((1, 2, 1), 2 * 1.5 * visible)
    by_theorem = {
        f"epsilon_{name}": (np.full((1, 2, 1), sensitivity), np.full((1, 2), noise_std))
        for name in ("closed_form", "printed", "modulus")
    }
    return account.account_round(by_theorem, mu, mu, DELTA, DELTA)


def test_what_all_antennas_see_counts_an_update_turned_around():
    found = leakages_of_one_user(0.4)
    mu = 2 * 1.5 * 0.4  # 2 C times the visibility
    one = float(exact_epsilon(np.array([mu**2 / 2]), DELTA)[0])
    assert found["epsilon_antennas"].item() == pytest.approx(one, rel=1e-9)
    assert found["epsilon_antennas_classic"].item() == pytest.approx(float(textbook_epsilon(mu, DELTA)), rel=1e-9)


def test_neither_signal_nor_noise_is_taken_for_no_privacy():
    outcome, found = accounted(
        {"network": {"users": 1, "antennas": 1}, "privacy": {"user_numbers": [], "noise_variance": 0.0},
         "radio": {"receiver_noise_variance": 0.0}}
    ).values(), leakages_of_one_user(np.inf)  # fmt: skip
    for frame in outcome:
        for name in {"epsilon_gaussian", "epsilon", "epsilon_printed"} & set(frame.columns):
            assert frame[name].is_infinite().all(), name
    assert np.isinf(found["epsilon_printed"]).all()


def test_nothing_of_a_message_in_nothing_of_noise_shows_whole():
    found, parameters = before_training(override(SMALL, {"radio": {"receiver_noise_variance": 0.0}}), "none")
    silent = found["links"].with_columns(pl.lit(0.0).alias(name) for name in mimo.COUPLINGS)
    noise = found["noise"].with_columns(pl.lit(0.0).alias(name) for name in ("noise_std", *mimo.EFFECTIVE))
    seen = stage_of.receive(parameters("receive"), found | {"links": silent, "noise": noise})["visibility"]
    assert seen["visibility"].is_infinite().all()


# Training


def minibatches(key, t, users, samples, batch_size, steps):
    """Mini-batches of users with as many samples each, by the stream (key, t)."""
    own = local_sgd.Local(tf.zeros([users, samples], tf.int32), (), (), (), tf.constant(key, tf.int64))
    return local_sgd.minibatches(Draws(tf.constant(t), False).uniforms, own, batch_size, steps).numpy()


def test_minibatches_are_passes_through_the_samples():
    batches = minibatches(4, 2, 3, 11, 4, 7)
    assert batches.shape == (3, 7, 4)
    for user in batches:
        for first in range(0, 6, 2):  # two batches a pass, three samples left out
            assert len(set(user[first : first + 2].ravel())) == 8
    assert batches.min() >= 0
    assert batches.max() <= 10
    assert (minibatches(4, 3, 3, 11, 4, 7) != batches).any()
    assert (batches[0] != batches[1]).any()


def test_every_sample_is_as_likely_in_a_minibatch():
    batches = minibatches(4, 0, 4000, 11, 4, 1)
    # Drawn without replacement, counts vary less than the test takes them to.
    assert stats.chisquare(np.bincount(batches.ravel(), minlength=11)).pvalue > FALSE_ALARM


@pytest.mark.parametrize("extra", [0, 5])
def test_minibatches_of_unequal_users_are_passes_through_each_ones_samples_however_far_arrays_are_filled_up(extra):
    held = np.array([11, 3, 8, 4], np.int32)  # of 4 a batch: 2, 1, 2, 1 batches a pass
    laps, most = 7, 11
    own = local_sgd.Local(
        *map(tf.constant, (np.zeros((4, most + extra), np.int32), held, np.zeros(laps + extra, np.int32))),
        tf.constant([laps, most]), tf.constant(4, tf.int64),
    )  # fmt: skip
    batches = local_sgd.minibatches(Draws(tf.constant(2), False).uniforms, own, 4, 7).numpy()
    assert batches.shape == (4, 7, 4)
    for user, count in zip(batches, held, strict=True):
        each = max(count // 4, 1)
        for first in range(0, 7, each):
            taken = user[first : first + each].ravel()
            assert len(set(taken)) == min(len(taken), count)
            assert taken.max() < count
    drawn = tf.random.stateless_uniform([4 * (laps + extra) * (most + extra)], seed=[4, 2]).numpy()
    for user, lap in ((0, 0), (0, 1), (2, 2), (3, 5)):
        place = (user * laps + lap) * most + np.arange(held[user])
        each = max(held[user] // 4, 1)
        np.testing.assert_array_equal(
            batches[user, lap * each], np.argsort(drawn[place], kind="stable")[:4], err_msg=f"{user}, {lap}"
        )


def softmax(outputs):
    e = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def plain_updates(weights, x, y, batches, step_size):
    """Local SGD user by user and step by step, in double precision."""
    found = []
    for own_x, own_y, own_batches in zip(x, y, batches, strict=True):
        w = weights.astype(float)
        for rows in own_batches:
            slope = softmax(own_x[rows] @ w.T) - np.eye(len(w))[own_y[rows]]
            w = w - step_size * slope.T @ own_x[rows] / len(rows)
        found.append(w - weights)
    return np.array(found)


@pytest.mark.parametrize("cache", [1, 4 * 12 * 7 * 2, 2**22], ids=["user by user", "two and one", "at once"])
def test_updates_are_those_of_plain_sgd(monkeypatch, cache):
    monkeypatch.setattr(local_sgd, "CACHE_BYTES", cache)
    generator = np.random.default_rng(2)
    x = generator.random((3, 12, 7)).astype(np.float32)
    y = generator.integers(4, size=(3, 12)).astype(np.int32)
    weights = generator.standard_normal((4, 7)).astype(np.float32)
    batches = minibatches(1, 0, 3, 12, 5, 9)
    found = local_sgd.updates(*map(tf.constant, (weights, x, y, batches, np.float32(0.3))))
    np.testing.assert_allclose(found, plain_updates(weights, x, y, batches, 0.3), atol=2e-6)


def test_clipping_keeps_directions_and_short_updates():
    update = np.random.default_rng(3).standard_normal((4, 2, 3)).astype(np.float32)
    update[0] *= 0.01
    update[3] = 0
    clipped, norms = local_sgd.clip(tf.constant(update), tf.constant(1.0))
    np.testing.assert_allclose(norms, np.linalg.norm(update.reshape(4, -1), axis=1), rtol=1e-6)
    np.testing.assert_array_equal(clipped.numpy()[[0, 3]], update[[0, 3]])
    np.testing.assert_allclose(clipped.numpy()[1], update[1] / np.linalg.norm(update[1]), rtol=1e-6)


@pytest.mark.parametrize("compiled", [False, True])
def test_an_update_without_a_finite_norm_becomes_zero(compiled):
    update = np.ones((4, 2, 3), np.float32)
    update[0, 0, 0], update[1, 1, 1], update[2] = np.nan, np.inf, 1e30  # the last one's norm overflows
    clipped, norms = tf.function(local_sgd.clip, jit_compile=compiled)(tf.constant(update), tf.constant(1.0))
    assert not np.isfinite(norms[:3]).any()
    np.testing.assert_array_equal(clipped[:3], 0.0)
    np.testing.assert_allclose(clipped[3], update[3] / np.sqrt(6), rtol=1e-6)


@pytest.mark.parametrize("coherence", [1, None])
def test_training_is_the_plain_algorithm(coherence):
    config = override(SMALL, {"radio": {"receiver_noise_variance": 0.0, "coherence_rounds": coherence}})
    found, parameters = before_training(config, noise_scheme="none")
    parameters = parameters("train")
    history = stage_of.train(parameters, digits(), range(2), found)["history"]
    data, settings, seed = digits(), parameters.training, parameters.seed
    with_one = [np.hstack([x, np.ones((len(x), 1), np.float32)]) for x in (data.x_train, data.x_test)]
    weight = found["schedule"].filter(realization=1)["coupling_real"].to_numpy().reshape(3, 6) / 6
    owned = streams.generator(seed, "data", 1).permutation(1437)[:180].reshape(6, 30)
    key = streams.key(seed, "batches", 1)
    w, rows = np.zeros((10, 65)), history.filter(realization=1)
    for t in range(4):
        outputs = with_one[1] @ w.T
        assert rows["accuracy"][t] == pytest.approx((outputs.argmax(axis=1) == data.y_test).mean(), abs=1 / 360)
        loss = -np.log(softmax(outputs)[np.arange(360), data.y_test]).mean()
        assert rows["loss"][t] == pytest.approx(loss, rel=1e-4)
        if t < 3:
            batches = minibatches(key, t, 6, 30, 8, settings.local_steps)
            update = plain_updates(w, with_one[0][owned], data.y_train[owned], batches, settings.learning_rate)
            norm = np.linalg.norm(update.reshape(6, -1), axis=1)
            assert rows["update_norm"][t + 1] == pytest.approx(norm.mean(), rel=1e-4)
            assert rows["clipped_share"][t + 1] == pytest.approx((norm > 1).mean(), abs=1e-6)
            assert rows["transmit_energy"][t + 1] == pytest.approx(9 * (np.minimum(norm, 1) ** 2).mean(), rel=1e-4)
            w = w + np.tensordot(weight[t], np.minimum(1, 1 / norm)[:, None, None] * update, axes=1)


def test_no_sum_in_the_loop_of_rounds_needs_a_temporary_variable():
    # TensorFlow's optimizer gives one to sums of three; in a loop they collide now and then, and a training ends.
    config = override(SMALL, {"training": {"rounds": 2, "local_steps": 2, "batch_size": 5}})
    tables, parameters = before_training(config)
    values = parameters("train")
    used = trainings.training(train.parts(values, digits(), tables), values, digits(), tables)
    begun = [used.begin(0)]
    found = operations(lambda: used.train(begun))
    assert "MatMul" in str(found)
    assert not sums_up_in_place(found)


def test_tables_do_not_depend_on_blocks(monkeypatch):
    whole, parameters = before_training(SMALL)
    whole |= stage_of.account(parameters("account"), whole)
    monkeypatch.setattr(mimo, "BLOCK_BYTES", 1)
    again, parameters = before_training(SMALL)
    again |= stage_of.account(parameters("account"), again)
    for name, frame in whole.items():
        assert frame.equals(again[name]), name


def received(update, weight, noise_std, key, t):
    """What the server receives of users' messages in round t, of the noise's stream (key, t)."""
    given = [tf.constant(update)], tf.constant(weight), tf.constant(noise_std), tf.constant(key, tf.int64)
    (found,) = rounds.receive(*given, Draws(tf.constant(t), False))
    return found.numpy()


def test_the_server_gets_the_weighted_sum_and_noise_of_its_own_in_every_round():
    generator, weight, std = np.random.default_rng(1), np.float32([0.5, -0.2, 0.1]), np.float32(0.02)
    update = generator.standard_normal((3, 20, 1000)).astype(np.float32)
    expected = np.tensordot(weight.astype(float), update, axes=1)
    keys = [(key, t) for key in (8, 9) for t in range(30)]
    noise = np.array([
        (received(update, weight, std, key, t) - expected).ravel() for key, t in keys
    ]) / std  # fmt: skip
    assert stats.kstest(noise.ravel(), "norm").pvalue > FALSE_ALARM
    assert stats.kstest(noise.ravel() * 1.01, "norm").pvalue < FALSE_ALARM  # the test sees 1%
    z = (noise @ noise.T)[np.triu_indices(len(keys), 1)] / math.sqrt(noise.shape[1])
    assert np.abs(z).max() < stats.norm.isf(FALSE_ALARM / 2 / len(z))
    np.testing.assert_allclose(received(update, weight, np.float32(0), 8, 0), expected, atol=1e-6)


# Scenario


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"privacy": {"user_numbers": [10, 20, 10]}}, "privacy.user_numbers: 10 "),
        ({"network": {"users": 101}}, "data.samples_per_user: 101 users would hold 60600 samples, but mnist has 60000; lower data.samples_per_user to 594 or less"),
        ({"training": {"batch_size": 601}}, "training.batch_size: 601 exceeds data.samples_per_user: 600"),
        ({"radio": {"coherence_rounds": 4}}, "radio.coherence_rounds: 4 does not divide training.rounds: 14; use a divisor, or null"),
        ({"radio": {"coherence_rounds": 28}}, "radio.coherence_rounds: 28 does not divide training.rounds: 14"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_place_and_what_would_be_right(changes, expected):
    with pytest.raises(scenario.ScenarioError) as caught:
        scenario.load({"base": {"system": SYSTEM} | changes, "scenarios": {"one": {}}}, "file.yaml")
    assert str(caught.value).startswith("file.yaml: ")
    assert expected in str(caught.value)


def test_the_study_has_what_the_papers_figures_were_read_as():
    path = ROOT / "config" / f"{SYSTEM}.yaml"
    found = scenario.load(yaml.safe_load(path.read_text()), path.name).scenarios
    kept = {name: each for name, each in found.items() if each.radio.coherence_rounds is None}
    assert [each.network.antennas for each in kept.values()] == [64, 128, 256, 512]
    for each in found.values():
        assert (each.network.users, each.data.dataset, each.data.partition) == (100, "mnist", "iid")
        assert each.privacy.user_numbers == [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
        assert each.training.rounds == 14
    assert set(found) - set(kept) == {"m64_redrawn", "m256_redrawn"}
    for name in ("m64", "m256"):
        redrawn = replaced(kept[name].part(None), "radio.coherence_rounds", 1)
        assert found[f"{name}_redrawn"].part(None) == redrawn


# Report

EDGES = {
    "one realization": {"realizations": 1, "training_realizations": 1},
    "one user": {"network": {"users": 1}, "privacy": {"user_numbers": []}},
    "one antenna": {"network": {"antennas": 1}},
    "one round of one step with all samples": {"training": {"rounds": 1, "local_steps": 1, "batch_size": 30}},
    "no noise at all": {"radio": {"receiver_noise_variance": 0.0}, "privacy": {"noise_variance": 0.0}},
    "unit variance": {"radio": {"normalization": "I"}},
    "one channel for all rounds": {"radio": {"coherence_rounds": None}},
    "training diverges": {"training": {"learning_rate": 1e38}},
    "an epsilon of 0": {"privacy": {"noise_variance": 1e4, "delta": 0.9}},
    "one scheme without noise": {"schemes": [{"name": "a", "scheduler": "all", "noise": "none"}]},
}


@pytest.mark.parametrize("edge", in_turn(EDGES, "one realization", "no noise at all", "training diverges"))
def test_every_figure_and_table_is_made_in_edge_cases(edge):
    config, catalog = override(SMALL, EDGES[edge]), registry.system(SYSTEM).catalog
    parameters, found = run(config)
    for name, needed in scenario_figures(catalog).items():
        assert build.figure(parameters, name, {table: found[table] for table in needed}).to_dict(format="vega")
    frames = build.summarize(parameters, found)
    assert set(frames) == set(catalog.all_tables)
    content = {"few": {"scenario": scenario.resolve(config, {}).part(None)} | frames}
    assert set(build.compare(content)) == set(COMPARISON)
    summary = frames["summary"]
    if edge == "training diverges":
        assert summary["diverged"].to_list() == [2, 2]
        assert summary["accuracy_mean"].null_count() == 2
    if edge == "no noise at all":
        assert summary["epsilon_max"].is_infinite().all()


@pytest.fixture(scope="module")
def studied():
    """Two scenarios, as `build.compare` takes them."""
    found = {}
    for antennas in (32, 4):
        config = override(SMALL, {"network": {"antennas": antennas}, "realizations": 10, "training": {"rounds": 14}})
        whole = scenario.resolve(config, {}).part(None)
        found[f"m{antennas}"] = {"scenario": whole} | build.summarize(*run(config, audited=False))
    return found


def test_schemes_and_antennas_share_draws_but_for_the_channel(studied):
    history = pl.concat([content["history"].with_columns(name=pl.lit(name)) for name, content in studied.items()])
    start = history.filter(round=0, realization=0)
    assert start["accuracy"].n_unique() == 1
    # The first round's updates do not depend on antennas or noise.
    assert history.filter(round=1, realization=0)["update_norm"].n_unique() == 1
    assert history.filter(round=2, realization=0)["update_norm"].n_unique() == 4


def test_claims_are_of_what_can_be_measured_of_the_scenarios(studied):
    table = claims(studied)
    ids = [claim.id for claim in PAPER_CLAIMS + OWN_CLAIMS if claim.compare is not None]
    assert table["claim"].unique(maintain_order=True).to_list() == ids[:-2]  # all channels are drawn alike
    first = table.filter(claim="F1-1", scenario="m32").row(0, named=True)
    private = studied["m32"]["realizations"].filter(scheme="Private")["accuracy"]
    assert (first["measured"], first["realizations"]) == (pytest.approx(private.mean()), 2)
    of_antennas = {"F2-2", "X-2"}
    assert set(claims({"m4": studied["m4"]})["claim"]) == set(ids[:-2]) - of_antennas
    lead = table.filter(claim="A-1", scenario="m32").row(0, named=True)
    bare = studied["m32"]["realizations"].filter(scheme="No privacy noise")["accuracy"]
    assert (lead["measured"], lead["realizations"]) == (pytest.approx(private.mean() - bare.mean()), 2)
    whole = studied["m4"]["scenario"]
    silent = replaced(whole, "schemes", [scheme for scheme in whole.schemes if scheme.noise == "none"])
    assert claims({"m4": studied["m4"] | {"scenario": silent}}).is_empty()
    # Whoever else decides who sends: statements are about all.
    chosen = replaced(whole, "schemes", [replaced(scheme, "scheduler", "some.py:schedule") for scheme in whole.schemes])
    assert claims({"m4": studied["m4"] | {"scenario": chosen}}).is_empty()


def test_the_summary_holds_means_over_realizations(studied):
    summary, each = (studied["m32"][name].filter(scheme="Private") for name in ("summary", "realizations"))
    row = summary.row(0, named=True)
    assert row["epsilon_mean"] == pytest.approx(each["epsilon"].mean())
    assert row["epsilon_max"] == each["epsilon"].max()
    assert (row["realizations"], row["trained"], row["antennas"]) == (10, 2, 32)


@pytest.mark.slow
def test_scenarios_of_several_sizes_train_in_one_process_as_each_alone():
    sizes = {"a": (2, 20), "b": (5, 20), "c": (4, 35), "d": (4, 20)}
    model = {"training": {"local_steps": 3, "batch_size": 10, "rounds": 2}, "data": {"dataset": "digits"}}
    parts = {
        name: {"network": {"users": users}, "data": {"samples_per_user": samples}}
        for name, (users, samples) in sizes.items()
    }
    base = override(override(SMALL, model), {"privacy": {"user_numbers": []}, "training_realizations": 1})
    together = simulate({"base": base, "scenarios": parts}).scenarios
    for name, size in parts.items():
        rounds.forget()
        alone = simulate(scenario.resolution.merge(base, size)).scenarios["scenario"]
        assert together[name].stages["history"].equals(alone.stages["history"])
