"""Epsilons and noise of Gaussian mechanisms over nearly all doubles: upper bounds, and not loose, against mpmath.

A point is checked by one evaluation of the textbook formula at 340 digits: the least delta falls with
epsilon and rises with mu, so epsilon is enough if it is met there, and too much if it is still met at a
larger mu.
"""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from pwfl.privacy import gaussian

DIGITS = 340  # epsilon / mu and mu / 2 agree to 150 digits at rho 1e300, delta is 1e-300
RHO = (1e-300, 1e300)
DELTA = (1e-300, 1 - 1e-12)
LOOSE = mpmath.mpf("1e-13")  # relative, in rho or in the multiplier
DELTAS = [1e-300, 1e-100, 1e-12, 1e-5, 0.1, 0.5, np.nextafter(0.5, 1), 0.9, 1 - 1e-6, 1 - 1e-12]
GRID = [(10.0**exponent, delta) for exponent in range(-300, 301, 30) for delta in DELTAS]
# Off by a relative 0.8, 1e-9 and 1e-7 where each difference of tails is taken as it stands.
CANCELLING = [(1e-30, 1e-300), (1e-16, 1e-12), (1e3, 1 - 1e-12)]


def points(count, seed):
    """rho and delta: over the whole range, at usual values, and where delta is nearly met at epsilon = 0."""
    rng = np.random.default_rng(seed)
    third = count // 3
    delta = np.concatenate([10 ** rng.uniform(-300, 0, third), 10 ** rng.uniform(-16, 0, third)])
    delta = np.minimum(np.append(delta, 1 - 10 ** rng.uniform(-12, -0.3, count - len(delta))), DELTA[1])
    wide, usual = 10 ** rng.uniform(-300, 300, count), 10 ** rng.uniform(-20, 10, count)
    # At epsilon = 0, delta is erf(mu / sqrt(8)), about mu / sqrt(2 pi).
    free = np.array([float(mpmath.erfinv(mpmath.mpf(float(d))) ** 2 * 4) for d in delta])
    free *= 1 + rng.choice([-0.5, 1, 1], count) * 10 ** rng.uniform(-17, 0.5, count)
    rho = np.choose(rng.integers(3, size=count), [wide, usual, free])
    return [(float(r), float(d)) for r, d in zip(np.clip(rho, *RHO), delta, strict=True)]


def met(epsilon, mu, delta):
    """Whether a Gaussian mechanism's least delta at epsilon is at most delta (Balle and Wang, 2018, Theorem 8)."""
    epsilon = mpmath.mpf(float(epsilon))
    upper, lower = (mpmath.ncdf(sign * mu / 2 - epsilon / mu) for sign in (1, -1))
    return upper - mpmath.exp(epsilon) * lower <= mpmath.mpf(float(delta))


@pytest.mark.parametrize("where", [CANCELLING, GRID, points(300, 0)], ids=["cancelling", "grid", "random"])
def test_exact_epsilon_is_enough_and_hardly_more(where):
    with mpmath.workdps(DIGITS):
        for rho, delta in where:
            epsilon, mu = float(gaussian.exact_epsilon(rho, delta)), mpmath.sqrt(2 * mpmath.mpf(rho))
            assert np.isfinite(epsilon), (rho, delta)
            assert met(epsilon, mu, delta), (rho, delta)
            assert epsilon == 0 or not met(epsilon, mu * mpmath.sqrt(1 + LOOSE), delta), (rho, delta)


@pytest.mark.parametrize("where", [CANCELLING, GRID, points(300, 2)], ids=["cancelling", "grid", "random"])
def test_exact_multiplier_is_enough_and_hardly_more(where):
    rng = np.random.default_rng(3)
    with mpmath.workdps(DIGITS):
        for size, delta in where:
            # Of all sizes, and of the size that a mechanism with rho = `size` has.
            for epsilon in (size, float(min(np.sqrt(2 * size) * abs(rng.normal(0, 3)), 1e300))):
                multiplier = float(gaussian.exact_multiplier(epsilon, delta))
                assert np.isfinite(multiplier), (epsilon, delta)
                assert met(epsilon, 1 / mpmath.mpf(multiplier), delta), (epsilon, delta)
                assert not met(epsilon, (1 + LOOSE) / mpmath.mpf(multiplier), delta), (epsilon, delta)


def test_no_epsilon_at_all_needs_finite_noise():
    for delta in DELTAS:
        multiplier = float(gaussian.exact_multiplier(0.0, delta))
        with mpmath.workdps(DIGITS):
            assert multiplier * 2 * mpmath.sqrt(2) * mpmath.erfinv(mpmath.mpf(delta)) == pytest.approx(1, rel=1e-13)
            assert met(0.0, 1 / mpmath.mpf(multiplier), delta)


def tight_reference(rho, delta):
    """The least epsilon over orders: golden section in ln(alpha - 1)."""
    rho, delta = mpmath.mpf(rho), mpmath.mpf(delta)

    def conversion(t):
        alpha = 1 + mpmath.exp(t)
        return rho * alpha + mpmath.log(1 - 1 / alpha) - mpmath.log(delta * alpha) / (alpha - 1)

    low, high, ratio = mpmath.mpf(-400), mpmath.mpf(750), (mpmath.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    values = conversion(left), conversion(right)
    for _ in range(100):
        if values[0] < values[1]:
            high, right = right, left
            left = high - ratio * (high - low)
            values = conversion(left), values[0]
        else:
            low, left = left, right
            right = low + ratio * (high - low)
            values = values[1], conversion(right)
    return max(min(values), mpmath.mpf(0))


@pytest.mark.parametrize("where", [CANCELLING, GRID[::4], points(150, 4)], ids=["cancelling", "grid", "random"])
def test_tight_and_classic_epsilons_are_enough_and_hardly_more(where):
    with mpmath.workdps(DIGITS):
        for rho, delta in where:
            tight, classic = (float(f(rho, delta)) for f in (gaussian.tight_epsilon, gaussian.classic_epsilon))
            bound = mpmath.mpf(rho) + 2 * mpmath.sqrt(-rho * mpmath.log(mpmath.mpf(delta)))
            assert 0 <= classic - bound <= 1e-14 * bound, (rho, delta)
            assert 0 <= tight - tight_reference(rho, delta) <= 1e-13 * bound, (rho, delta)


def test_zcdp_is_rounded_up():
    rng = np.random.default_rng(5)
    sensitivity, noise = 10 ** rng.uniform(-60, 60, (2, 1000))
    for s, n in zip(sensitivity, noise, strict=True):
        rounds = int(rng.integers(1, 10_000))
        true = Fraction(rounds, 2) * (Fraction(float(s)) / Fraction(float(n))) ** 2
        assert true <= Fraction(float(gaussian.zcdp(s, n, rounds))) <= true * (1 + Fraction(1, 10**14))


def test_a_leakage_that_underflows_is_still_one():
    assert_array_equal(gaussian.zcdp([1e-200, 1e-300, 0.0], 1.0, 1000) > 0, [True, True, False])


@pytest.mark.parametrize(("low", "high"), [(-0.7, 0.0), (0.0, 1.0), (1.0, 8.0), (8.0, 50.0), (50.0, 1e4), (1e4, 1e150)])
def test_mills_ratio_is_within_its_error(low, high):
    x = np.concatenate([np.linspace(low, high, 500), np.geomspace(max(low, 1e-12), abs(high) or 1e-12, 500)])
    found = gaussian._mills(x)
    with mpmath.workdps(60):
        for value, at in zip(found, map(mpmath.mpf, x.tolist()), strict=True):
            if at > 1e6:  # the tail's asymptotic series
                true = (1 - at**-2 + 3 * at**-4 - 15 * at**-6 + 105 * at**-8) / at
            else:
                true = mpmath.ncdf(-at) / mpmath.npdf(at)
            assert abs(value / true - 1) <= gaussian.MILLS_ERROR * 0.7


def test_differences_of_mills_ratios_are_within_their_error():
    rng = np.random.default_rng(6)
    a = np.append(rng.uniform(-0.68, 2, 300), rng.uniform(0, 39, 300))
    mu = np.append(10 ** rng.uniform(-150, 0, 500), rng.uniform(0.9, 1, 100)) * gaussian.CLOSE
    found = gaussian._slope(a, mu)
    with mpmath.workdps(DIGITS):
        for value, x, width in zip(found, map(mpmath.mpf, a.tolist()), map(mpmath.mpf, mu.tolist()), strict=True):
            ends = [mpmath.ncdf(-y) / mpmath.npdf(y) for y in (x, x + width)]
            assert abs(value - (ends[0] - ends[1]) / width) <= 2 * gaussian.MILLS_ERROR


def test_the_excess_over_delta_is_an_upper_bound_by_its_error():
    rng = np.random.default_rng(7)
    count = 0
    with mpmath.workdps(80):
        for a, mu in zip(rng.uniform(-8, 37, 300), 10 ** rng.uniform(-8, 4, 300), strict=True):
            x, width = mpmath.mpf(float(a)), mpmath.mpf(float(mu))
            upper, lower = mpmath.ncdf(-x), mpmath.exp(width * (x + width / 2)) * mpmath.ncdf(-x - width)
            delta = float(upper - lower)
            if x <= -width / 2 or not DELTA[0] < delta < DELTA[1]:
                continue
            count += 1
            value, error, _, _ = (float(v[0]) for v in gaussian._excess(np.array([a]), np.array([mu]), delta))
            exact = mpmath.mpf(delta)
            ratio = (1 - exact) / (1 - upper + lower) if delta > 0.5 else (upper - lower) / exact
            assert 0 <= value - mpmath.log(ratio) <= 2 * error, (a, mu)
    assert count > 100


def test_what_is_not_found_is_infinite():
    found = gaussian._least(lambda v: (np.array([1.0, np.nan]), np.full(2, 1e-9), np.ones(2)), np.zeros(2))
    assert_array_equal(found, np.inf)


def test_beyond_the_range_epsilon_may_be_infinite_but_not_too_small():
    for rho in (5e-324, 1e-310, 1e305, 1.7e308, np.inf, np.nan):
        for delta in (5e-324, 1e-5, np.nextafter(1, 0)):
            for epsilon in (gaussian.exact_epsilon, gaussian.tight_epsilon, gaussian.classic_epsilon):
                found = float(epsilon(rho, delta))
                if rho > 1:
                    # Of delta near 1, the exact epsilon is less than rho by some standard deviations sqrt(2 rho).
                    assert found >= rho * (1 - 1e-14) or np.isnan(rho)
                else:
                    assert np.isnan(rho) or 0 <= found < 1e-150


def test_shapes_are_kept():
    rho = np.array([[1e-12, 0.5, 4.0], [1e8, np.inf, 0.0]])
    for function in (gaussian.exact_epsilon, gaussian.tight_epsilon, gaussian.classic_epsilon):
        assert_array_equal(function(rho, 1e-5), [[float(function(r, 1e-5)) for r in row] for row in rho])
        assert function(rho[:0], 1e-5).shape == (0, 3)
    epsilon = np.array([[1e-12, 0.5, 4.0], [1e8, 1e-300, 0.0]])
    assert_array_equal(
        gaussian.exact_multiplier(epsilon, 0.7),
        [[float(gaussian.exact_multiplier(e, 0.7)) for e in row] for row in epsilon],
    )
    assert gaussian.exact_multiplier(epsilon[:0], 0.7).shape == (0, 3)
