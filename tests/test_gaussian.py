"""Epsilons and noise of Gaussian mechanisms over nearly all doubles: upper bounds, hardly loose, against mpmath.

A point is checked by one evaluation of the textbook formula at 340 digits: the least delta falls with
epsilon and rises with mu, so epsilon is enough if it is met there, and too much if it is still met at a
larger mu.
"""

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from pwfl.privacy import gaussian

DIGITS = 340  # epsilon / mu and mu / 2 agree to 150 digits at rho 1e300, delta is 1e-300
RHO = (1e-300, 1e300)
DELTA = (1e-300, 1 - 1e-12)
LOOSE = mpmath.mpf("3e-9")  # relative, in rho or in the multiplier
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
            assert multiplier * 2 * mpmath.sqrt(2) * mpmath.erfinv(mpmath.mpf(delta)) == pytest.approx(1, rel=2e-9)
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
def test_tight_and_classic_epsilons_are_their_formulas(where):
    with mpmath.workdps(DIGITS):
        for rho, delta in where:
            tight, classic = (float(f(rho, delta)) for f in (gaussian.tight_epsilon, gaussian.classic_epsilon))
            bound = mpmath.mpf(rho) + 2 * mpmath.sqrt(-rho * mpmath.log(mpmath.mpf(delta)))
            assert abs(classic - bound) <= 1e-14 * bound, (rho, delta)
            assert abs(tight - tight_reference(rho, delta)) <= 1e-13 * bound, (rho, delta)


def test_a_leakage_that_underflows_is_still_one():
    assert_array_equal(gaussian.zcdp([1e-200, 1e-300, 0.0], 1.0, 1000) > 0, [True, True, False])


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


def test_noise_for_an_epsilon_is_worth_no_more_than_it():
    rng = np.random.default_rng(8)
    for epsilon, delta in zip(10 ** rng.uniform(-4, 3, 300), 10 ** rng.uniform(-12, -1, 300), strict=True):
        releases = int(rng.integers(1, 1000))
        multiplier = gaussian.composed_multiplier(epsilon, delta, releases)
        found = float(gaussian.exact_epsilon(gaussian.zcdp(1.0, multiplier, releases), delta))
        assert epsilon * (1 - 1e-6) < found <= epsilon, (epsilon, delta, releases)


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
