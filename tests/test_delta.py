"""Accounting at a second delta, in every system that has one: all epsilons follow it, by formulas of their own."""

from functools import cache

import numpy as np
import polars as pl
import pytest
from dp_accounting import GaussianDpEvent, NeighboringRelation, PoissonSampledDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from scipy import optimize, stats

import stage_of
from conftest import in_turn
from pipeline import part
from pwfl import registry
from pwfl.privacy.accountant import ALL, USERS
from pwfl.scenario import ScenarioError, resolve
from pwfl.scenario.resolution import merge
from pwfl.systems.random_orthogonalization import mimo

DELTAS = (1e-6, 1e-4)
ROUNDS = 4
CONFIGS = {
    "multicell": {
        "network": {"users": 12}, "data": {"dataset": "digits", "samples_offset": 10, "samples_log_mean": 2.5},
        "privacy": {"min_noise": 3.5, "max_noise_error": 0.4},
        "training": {"rounds": ROUNDS, "clip_norm": 1.0, "clipping": "per_user"},
    },
    "anonymous_oac": {
        "network": {"devices": 3, "participation": 0.4}, "data": {"dataset": "digits", "samples": 8, "sampling": 0.3},
        "privacy": {"curve_rates": [1.0], "noise_multiplier": 2.0}, "training": {"rounds": ROUNDS},
    },
    "random_orthogonalization": {
        "network": {"users": 3, "antennas": 4}, "radio": {"coherence_rounds": 1},
        "data": {"dataset": "digits", "samples_per_user": 30},
        "privacy": {"user_numbers": [2]}, "training": {"rounds": ROUNDS, "batch_size": 8},
    },
    "utility_fair": {
        "network": {"devices": 3}, "data": {"dataset": "digits", "samples_per_device": 60},
        "device": {"batch_size": 16}, "training": {"rounds": ROUNDS},
    },
}  # fmt: skip
SCHEMES = {
    "multicell": ("random", "random"),
    "anonymous_oac": ("over_the_air", "identified"),
    "random_orthogonalization": ("all", "fixed"),
    "utility_fair": ("benchmark", "fair"),
}
GIVEN = {"utility_fair": {"epsilon_printed"}}  # a parameter


@cache
def accounted(system: str, delta: float, noise_delta: float | None = None, **changes):
    """The tables of noise and account; noise is calibrated at `noise_delta`, for which `delta` stands in."""
    scheduler, scheme = SCHEMES[system]
    if noise_delta == delta:
        return accounted(system, delta, **changes)
    config = merge({"system": system, "realizations": 2, "training_realizations": 1}, CONFIGS[system])
    for path, value in changes.items():
        section, _, key = path.partition("__")
        config = merge(config, {section: {key: value}})
    model, before = (resolve(config, {"privacy": {"delta": chosen}}) for chosen in (delta, noise_delta or delta))
    found = stage_of.channel(part(before, "channel"), range(2))
    found |= stage_of.schedule(part(before, "schedule", scheduler), scheduler, found)
    found |= stage_of.noise(part(before, "noise", scheme), scheme, found)
    if "receive" in registry.stages(system):
        found |= stage_of.receive(part(model, "receive"), found)
    return found | stage_of.account(part(model, "account"), found)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The least epsilon of a Gaussian mechanism, by its definition."""

    def excess(epsilon):
        upper, lower = stats.norm.logcdf(mu / 2 - epsilon / mu), stats.norm.logcdf(-mu / 2 - epsilon / mu)
        return np.exp(upper) - np.exp(epsilon + lower) - delta

    return optimize.brentq(excess, 1e-9, mu**2 / 2 + mu * 20 + 1, xtol=1e-12, rtol=1e-12)


def gaussian_epsilons(mu, delta: float) -> list:
    return [pytest.approx(gaussian_epsilon(float(m), delta), rel=1e-6) for m in mu]


def epsilons(frame: pl.DataFrame, system: str) -> dict[str, np.ndarray]:
    """All columns of guarantees that are not given."""
    columns = {name for name in frame.columns if name.startswith("epsilon") and frame.schema[name].is_float()}
    columns -= GIVEN.get(system, set())
    return {name: frame[name].cast(pl.Float64).to_numpy() for name in columns}


@pytest.mark.parametrize("system", in_turn(CONFIGS, *(set(CONFIGS) - {"anonymous_oac"})))
def test_every_epsilon_falls_as_delta_grows(system):
    small, large = (accounted(system, delta, DELTAS[0]) for delta in DELTAS)
    compared = 0
    for table in ("leakage", "outcome"):
        at_small, at_large = epsilons(small[table], system), epsilons(large[table], system)
        assert at_small.keys() == at_large.keys()
        for name, values in at_small.items():
            some = np.isfinite(values) & (values > 0)
            compared += some.sum()
            assert (at_large[name][some] < values[some]).all(), (table, name)
    assert compared > 10
    assert [set(found["outcome"]["delta"]) for found in (small, large)] == [{delta} for delta in DELTAS]
    if system != "anonymous_oac":  # whose users hold equally many samples
        samples = small["users"].group_by("realization", maintain_order=True).agg(pl.col("samples").sum())
        expected = small["outcome"].select("realization").join(samples, on="realization", maintain_order="left")
        assert small["outcome"]["samples"].to_list() == expected["samples"].to_list()


def renyi_epsilon(rho, delta: float) -> np.ndarray:
    """By Canonne, Kamath and Steinke, over fine orders."""
    alpha = 1 + np.exp(np.linspace(-9, 9, 200_001))[:, None]
    return (rho * alpha + np.log1p(-1 / alpha) - np.log(delta * alpha) / (alpha - 1)).min(axis=0)


@pytest.mark.parametrize("delta", DELTAS)
def test_multicell_by_its_formulas(delta):
    found = accounted("multicell", delta)
    users = found["users"].select("samples").with_columns(found["noise"]["noise_std"]).filter(pl.col("noise_std") > 0)
    samples, std = (users[name].to_numpy() for name in ("samples", "noise_std"))
    leakage, rho = found["leakage"], 2 * ROUNDS / (samples * std) ** 2
    assert leakage["epsilon"].to_list() == gaussian_epsilons(np.sqrt(2 * rho), delta)
    np.testing.assert_allclose(leakage["epsilon_tight"], renyi_epsilon(rho, delta), rtol=1e-6)
    np.testing.assert_allclose(leakage["epsilon_classic"], rho + 2 * np.sqrt(rho * np.log(1 / delta)), rtol=1e-9)
    # One record turns a user's clipped mean around: sensitivity 2 L, whatever the user's number of samples.
    worst = 2 * ROUNDS / std**2
    np.testing.assert_allclose(leakage["rho_worst_case"], worst, rtol=1e-12)
    of_realization = leakage.with_columns(worst=worst).group_by("realization", maintain_order=True).agg(
        pl.col("epsilon", "epsilon_tight", "epsilon_classic", "worst").max()
    )  # fmt: skip
    outcome = found["outcome"]
    assert outcome["epsilon_worst_case"].to_list() == gaussian_epsilons(np.sqrt(2 * of_realization["worst"]), delta)
    for name in ("epsilon", "epsilon_tight", "epsilon_classic"):
        assert outcome[name].to_list() == of_realization[name].to_list()


def sampled_epsilon(rate: float, multiplier: float, delta: float) -> float:
    """After all rounds of Poisson sampling, by dp-accounting."""
    accountant = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE)
    accountant.compose(PoissonSampledDpEvent(rate, GaussianDpEvent(multiplier)), ROUNDS)
    return accountant.get_epsilon(delta)


@pytest.mark.parametrize("delta", DELTAS)
def test_anonymous_oac_by_its_formulas(delta):
    found = accounted("anonymous_oac", delta)
    status, outcome = found["noise_status"].row(0, named=True), found["outcome"].row(0, named=True)
    hidden, multiplier = 0.4 * 0.3, status["noise_multiplier"]
    # Known participation gets the noise that gives what hidden participation has with a multiplier of 2.
    assert status["epsilon"] == pytest.approx(sampled_epsilon(hidden, 2.0, delta), rel=1e-3)
    assert outcome["epsilon"] == pytest.approx(status["epsilon"], rel=1e-3)
    assert outcome["epsilon_anonymous"] == pytest.approx(sampled_epsilon(hidden, multiplier, delta), rel=1e-3)
    orders = np.arange(2, 65)
    accountant = RdpAccountant(orders)
    accountant.compose(PoissonSampledDpEvent(hidden, GaussianDpEvent(multiplier)), ROUNDS)
    by_renyi = (accountant.rdp + np.log(1 / delta) / (orders - 1)).min()
    assert outcome["epsilon_renyi_anonymous"] == pytest.approx(by_renyi, rel=1e-9)


def test_theorem_1_of_anonymous_oac_falls_with_delta():
    settings = {"privacy__noise_multiplier": 6.0, "network__participation": 0.1, "data__sampling": 0.1}
    small, large = (accounted("anonymous_oac", delta, DELTAS[0], **settings)["outcome"] for delta in DELTAS)
    assert 0 < large["epsilon_theorem_1"][0] < small["epsilon_theorem_1"][0]


def stated(found, observer, noise):
    """What `guarantees` states of a record against an observer, by realization."""
    return found["guarantees"].filter(observer=observer, unit="record", noise_from=noise).sort("realization")


@pytest.mark.parametrize("delta", DELTAS)
def test_random_orthogonalization_by_its_formulas(delta):
    factor = np.sqrt(2 * np.log(1.25 / delta))
    several = accounted("random_orthogonalization", delta)
    assert several["leakage"]["epsilon"].to_list() == gaussian_epsilons(several["leakage"]["mu"], delta)
    one = accounted("random_orthogonalization", delta, training__rounds=1)
    leakage = one["leakage"]
    assert leakage["epsilon_gaussian"].to_list() == gaussian_epsilons(leakage["mu"], delta)
    np.testing.assert_allclose(leakage["epsilon_sensitivity"], leakage["mu"] * factor, rtol=1e-9)
    expected = gaussian_epsilons(leakage["epsilon_antennas_classic"] / factor, delta)
    assert leakage["epsilon_antennas"].to_list() == expected
    of_all = stated(one, "antennas", ALL)["epsilon"].to_list()  # of one round, too
    worst = leakage.filter(users=3).group_by("realization").agg(pl.col("epsilon_antennas").max()).sort("realization")
    assert of_all == worst["epsilon_antennas"].to_list()
    own = one["schedule"].join(one["noise"], on=["realization", "round"])
    for column, std in (("epsilon_printed", "_printed"), ("epsilon_modulus", "_modulus")):
        expected = 2 * own["energy"] / 3 / own[f"effective_noise_std{std}"] * factor
        np.testing.assert_allclose(leakage.filter(users=3)[column], expected, rtol=1e-9)


@pytest.mark.parametrize("variance", [1e-6, 1e-12])
def test_random_orthogonalization_guarantees_what_holds_without_the_receivers_noise(variance):
    changes = {"privacy__noise_variance": variance}
    quiet = accounted("random_orthogonalization", 1e-5, radio__receiver_noise_variance=0.0, **changes)["outcome"]
    assert set(quiet["epsilon_assumes"]) == {"realized channel known"}  # however little it is
    for column in ("epsilon", "epsilon_server"):
        assert (quiet[column] > 1e3).all()
    heard = accounted("random_orthogonalization", 1e-5, **changes)
    outcome = heard["outcome"]
    assert (outcome["epsilon"] < 200).all()
    for column, observer in (("epsilon", "update"), ("epsilon_server", "antennas")):
        assert stated(heard, observer, USERS)["epsilon"].to_list() == pytest.approx(quiet[column].to_list())
    assert set(outcome["epsilon_assumes"]) == {"realized channel known, receivers' noise"}
    assert set(outcome["epsilon_server_assumes"]) == {"realized channel known, receivers' noise"}


def test_random_orthogonalization_guarantees_nothing_after_one_round_without_noise():
    found = accounted("random_orthogonalization", 1e-5, radio__receiver_noise_variance=0.0)
    numbers = {"system": "random_orthogonalization", "realizations": 2, "training_realizations": 1}
    model = resolve(numbers | CONFIGS["random_orthogonalization"], {})
    silent = (pl.col("realization") == 1) & (pl.col("round") == 2)
    zero = {name: pl.when(silent).then(0.0).otherwise(name) for name in ("noise_std", *mimo.EFFECTIVE)}
    noise = found["noise"].with_columns(**zero)
    found |= stage_of.receive(part(model, "receive"), found | {"noise": noise})
    made = stage_of.account(part(model, "account"), found | {"noise": noise})
    assert stated(made, "update", USERS)["epsilon"].is_infinite().to_list() == [False, True]
    assert made["outcome"]["guarantee"].to_list() == ["conditional", "none"]  # nothing hides that round


SAMPLING = {"multicell": "data.sampling", "anonymous_oac": "network.participation"}


@pytest.mark.parametrize("system", SAMPLING)
def test_a_delta_too_small_for_sampling_is_refused_before_work(system):
    """Without sampling, any is accounted for; see tests/test_sampled.py and tests/test_gaussian.py."""
    config = merge({"system": system}, CONFIGS[system])
    if system == "multicell":
        schemes = [{"name": "a", "scheduler": "random", "noise": "target"}]
        changes = {
            "data": {"sampling": 0.5},
            "privacy": {"target_epsilon": 8.0},
            "training": {"clipping": "per_sample"},
        }
        config, without = merge(config, changes) | {"schemes": schemes}, {"data": {"sampling": None}}
    else:
        without = {"network": {"participation": 1.0}, "data": {"sampling": 1.0}}
    for delta in (1e-16, 3.9e-15, 1e-100):
        with pytest.raises(ScenarioError, match=rf"privacy.delta: {delta:g} is too small .* at least 4e-15; increase"):
            resolve(config, {"privacy": {"delta": delta}})
        resolve(merge(config, without), {"privacy": {"delta": delta}})
    resolve(config, {"privacy": {"delta": 1e-14}})
