"""Noise optimizer (36)-(39): a conic solver, the KKT conditions, closed forms; noise tables."""

from itertools import combinations

import cvxpy as cp
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stage_of
from pipeline import on_one_channel, part
from pwfl.scenario import resolve
from pwfl.systems.multicell.assigned import assigned
from pwfl.systems.multicell.beyond import allocation
from pwfl.systems.multicell.optimal_noise import optimal_noise


def leakage(samples, noise_std):
    return ((samples * noise_std) ** -2.0).sum()


def check_kkt(samples, noise_std, multiplier, max_error, min_noise):
    """(21), (22), stationarity (37) and complementary slackness: together they prove the optimum."""
    error, limit = (samples * noise_std**2).sum(), max_error * samples.sum()
    assert error == pytest.approx(limit, rel=1e-12)  # tight
    assert (samples * noise_std >= min_noise * (1 - 1e-12)).all()
    assert multiplier > 0
    gradient = -1 / (samples**2 * noise_std**3) + multiplier * samples * noise_std
    scale = 1 / (samples**2 * noise_std**3)
    at_floor = samples * noise_std <= min_noise * (1 + 1e-9)
    assert (gradient >= -1e-9 * scale).all()  # the multiplier of (22)
    assert (abs(gradient[~at_floor]) <= 1e-9 * scale[~at_floor]).all()


@st.composite
def networks(draw):
    users = draw(st.integers(1, 30))
    samples = np.array(draw(st.lists(st.integers(1, 5000), min_size=users, max_size=users)), float)
    scheduled = np.array(draw(st.lists(st.booleans(), min_size=users, max_size=users)))
    return samples, scheduled, draw(st.floats(1e-3, 100)), draw(st.floats(0.1, 1000))


@settings(derandomize=True, deadline=None, max_examples=400)
@given(networks())
def test_kkt_conditions_hold_or_the_least_noise_is_too_much(network):
    samples, scheduled, max_error, min_noise = network
    noise_std, multiplier, feasible = optimal_noise(samples[None], scheduled[None], max_error, min_noise)
    k, sigma = samples[scheduled], noise_std[0, scheduled]
    assert (noise_std[0, ~scheduled] == 0).all()
    assert feasible[0] == ((min_noise**2 / k).sum() <= max_error * k.sum())
    if not scheduled.any() or not feasible[0]:
        assert np.isnan(sigma).all()
        assert np.isnan(multiplier[0])
    else:
        check_kkt(k, sigma, multiplier[0], max_error, min_noise)


@pytest.mark.parametrize("slack", [1.01, 1.1, 2.0, 10.0])
def test_kkt_conditions_hold_where_some_users_are_at_the_floor(slack):
    rng = np.random.default_rng(0)
    for users in (1, 2, 5, 15, 35, 35):
        samples = np.rint(50 + rng.lognormal(4, 1, users))
        max_error = slack * (100.0**2 / samples).sum() / samples.sum()  # (21) with everyone at the floor, slackened
        noise_std, multiplier, feasible = optimal_noise(samples[None], np.ones((1, users), bool), max_error, 100.0)
        assert feasible[0]
        check_kkt(samples, noise_std[0], multiplier[0], max_error, 100.0)


def test_noise_at_the_floor_that_just_meets_21_is_feasible():
    noise_std, _, feasible = optimal_noise(np.full((1, 3), 128), np.ones((1, 3), bool), 0.25, 64.0)
    assert feasible[0]
    np.testing.assert_array_equal(noise_std, 0.5)


def test_realizations_in_one_call_do_not_mix():
    rng = np.random.default_rng(5)
    samples, scheduled = np.rint(50 + rng.lognormal(4, 1, (50, 12))), rng.random((50, 12)) < 0.4
    together = optimal_noise(samples, scheduled, 1.5, 100.0)
    for r in range(50):
        alone = optimal_noise(samples[r : r + 1], scheduled[r : r + 1], 1.5, 100.0)
        for a, b in zip(together, alone, strict=True):
            np.testing.assert_array_equal(a[r], b[0])
    assert 0 < together[2].sum() < 50


# Tables

TABLES = {
    "users": pl.DataFrame(
        {
            "realization": [4, 4, 4, 5, 5, 5, 6, 6, 6],
            "user": [0, 1, 2] * 3,
            "samples": [100, 200, 50, 50, 60, 900, 80, 90, 100],
        }
    ),
    "start_values": pl.DataFrame(
        {
            "realization": [4, 4, 4, 5, 5, 5, 6, 6, 6],
            "user": [0, 1, 2] * 3,
            "noise_std": [2.0, 1.0, 3.0, 4.0, 5.0, 0.5, 2.0, 2.0, 2.0],
        }
    ),
    # Realization 5 serves only users whose least noise, 2 and 1.67, is above the bound; 6 serves nobody.
    "schedule": pl.DataFrame(
        {
            "realization": [4, 4, 4, 5, 5, 5, 6, 6, 6],
            "user": [0, 1, 2] * 3,
            "interval": [0] * 9,
            "resource_block": [0, 1, None, 2, 0, None, None, None, None],
        }
    ),
}


def test_optimal_noise_table_tells_infeasible_and_empty_realizations():
    model = resolve({}, {"privacy": {"max_noise_error": 2.0}})
    found = stage_of.noise(part(model, "noise", "optimal"), "optimal", TABLES)
    assert found["noise_status"]["status"].to_list() == ["optimal", "infeasible", "no_user_scheduled"]
    assert found["noise_status"]["multiplier"].is_null().to_list() == [False, True, True]
    std = found["noise"]["noise_std"].to_list()
    check_kkt(np.array([100.0, 200.0]), np.array(std[:2]), found["noise_status"]["multiplier"][0], 2.0, 100.0)
    assert std[2:] == [0.0, None, None, 0.0, 0.0, 0.0, 0.0]


def test_random_noise_table_holds_the_start_values_of_the_scheduled():
    found = stage_of.noise(part(resolve({}, {}), "noise", "random"), "random", TABLES)
    assert found["noise"]["noise_std"].to_list() == [2.0, 1.0, 0.0, 4.0, 5.0, 0.0, 0.0, 0.0, 0.0]
    assert found["noise_status"]["status"].to_list() == ["random", "random", "no_user_scheduled"]
    assert found["noise_status"]["multiplier"].null_count() == 3


# Allocations of what (36) leaves.

ALLOCATIONS = {
    "equal_sum": allocation.share_sum, "equal_max": allocation.share_maximum, "fill_up": allocation.fill_up
}  # fmt: skip
MIXED = np.array([[90, 20, 55, 300, 41], [60, 70, 80, 90, 100], [10, 20, 30, 40, 50]])
SENT = np.array([[True, True, True, True, False], [True] * 5, [False] * 5])


def allocated(name):
    """Samples, the optimizer's noise and that of an allocation, of a network of four senders at different exposures."""
    noise, _, feasible = optimal_noise(MIXED, SENT, 0.05, 3.0)
    assert feasible.all()
    exposure = (MIXED[0, :4] * noise[0, :4]) ** -2.0
    assert np.ptp(exposure) > 0.1 * exposure.max()
    return noise, ALLOCATIONS[name](MIXED, noise)


def test_equal_exposures_at_a_sum_have_the_least_variance_of_the_servers_average():
    noise, found = allocated("equal_sum")
    samples, sent = MIXED[0, :4], slice(0, 4)
    exposure = cp.Variable(4)
    total = leakage(samples, noise[0, sent])
    problem = cp.Problem(cp.Minimize(cp.sum(cp.inv_pos(exposure / total))), [cp.sum(exposure) == total])
    problem.solve(solver="CLARABEL")
    np.testing.assert_allclose((samples * found[0, sent]) ** -2.0, exposure.value, rtol=1e-5)
    weighted, optimal = (np.linalg.norm(samples * each[0, sent]) for each in (found, noise))
    assert weighted < 0.999 * optimal


def test_everyone_at_the_maximum_keeps_both_bounds_and_the_largest_leakage():
    noise, found = allocated("equal_max")
    exposure = (MIXED[0, :4] * found[0, :4]) ** -2.0
    np.testing.assert_allclose(exposure, ((MIXED[0, :4] * noise[0, :4]) ** -2.0).max(), rtol=1e-12)
    assert (found <= noise * (1 + 1e-12)).all()
    assert (exposure <= 3.0**-2 * (1 + 1e-12)).all()


def test_filling_up_takes_the_users_of_most_samples_that_the_sum_pays_for():
    noise, found = allocated("fill_up")
    before = (MIXED[0, :4] * noise[0, :4]) ** -2.0
    paid = [c for n in range(1, 5) for c in combinations(range(4), n) if n * before.max() <= before.sum()]
    best = max(paid, key=lambda chosen: MIXED[0, list(chosen)].sum())
    assert 0 < len(best) < 4
    assert set(np.flatnonzero(np.isfinite(found[0, :4]))) == set(best)
    np.testing.assert_allclose((MIXED[0, list(best)] * found[0, list(best)]) ** -2.0, before.max(), rtol=1e-12)


@pytest.mark.parametrize("name", ALLOCATIONS)
def test_allocations_of_equal_exposures_change_nothing(name):
    samples = np.array([[12, 35, 80, 7, 11, 19, 23]])
    noise = 1 / (samples * np.sqrt(0.07))
    np.testing.assert_allclose(ALLOCATIONS[name](samples, noise), noise, rtol=1e-12)


@pytest.mark.parametrize("name", ALLOCATIONS)
def test_allocations_leave_the_unscheduled_silent_and_the_infeasible_unknown(name):
    noise, _, _ = optimal_noise(MIXED, SENT, 0.05, 3.0)
    noise[1] = np.nan
    found = ALLOCATIONS[name](MIXED, noise)
    assert found[0, 4] == 0
    assert (found[2] == 0).all()
    assert np.isnan(found[1]).all()
    np.testing.assert_array_equal(found[:1], ALLOCATIONS[name](MIXED[:1], noise[:1]))


def test_who_has_no_leakage_to_spend_is_not_scheduled_but_keeps_no_one_else_out():
    users = pl.DataFrame({"realization": 0, "user": [0, 1, 2, 3], "samples": [5, 6, 7, 8], "cell": 0})
    tables = {
        "users": users,
        "noise": users.select("realization", "user", noise_std=pl.Series([0.5, np.inf, None, 0.0])),
        "schedule": users.select("realization", "user", resource_block=pl.Series([0, 1, 2, None])),
    }
    assert assigned(on_one_channel(tables))["scheduled"].to_list() == [True, False, True, False]
