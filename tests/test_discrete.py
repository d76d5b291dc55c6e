"""Discrete Gaussian noise: exact samples, and bounds on what sums of it keep private, held against convolutions."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import chi2

from pwfl.privacy import discrete, gaussian

FALSE_ALARM = 1e-6
SAMPLES = 100_000
DELTA = 1e-5


def pmf(deviation, reach):
    """Of -reach to reach."""
    mass = np.exp(-(np.arange(-reach, reach + 1.0) ** 2) / (2 * deviation**2))
    return mass / mass.sum()


def follows(samples, deviation):
    """Chi-square test against the exact law, in bins of at least 20 expected samples, one false alarm in a million."""
    reach = int(np.ceil(12 * deviation))
    edges = np.unique(np.floor(np.linspace(-3 * deviation, 3 * deviation, 60))) + 0.5
    bins = np.searchsorted(edges, np.arange(-reach, reach + 1))
    expected = samples.size * np.bincount(bins, pmf(deviation, reach))
    keep = expected >= 20
    counts = np.bincount(np.searchsorted(edges, samples), minlength=len(expected))
    return ((counts - expected)[keep] ** 2 / expected[keep]).sum() < chi2.isf(FALSE_ALARM, keep.sum() - 1)


@pytest.mark.parametrize(
    "variance", [Fraction(9, 100), 3, Fraction(9, 4), Fraction(23, 10), 10**6, Fraction(10**8, 3), 10**8]
)
def test_samples_follow_the_discrete_gaussian(variance):
    samples = discrete.discrete_gaussian(np.random.default_rng(0), variance, (2, SAMPLES // 2))
    assert samples.shape == (2, SAMPLES // 2)
    assert samples.dtype == np.int64
    assert follows(samples.ravel(), float(variance) ** 0.5)


def test_rounded_normal_numbers_and_a_deviation_four_percent_off_do_not_pass():
    rng = np.random.default_rng(1)
    assert not follows(np.round(rng.normal(scale=0.6, size=SAMPLES)).astype(int), 0.6)
    assert not follows(discrete.discrete_gaussian(rng, 10**6, (SAMPLES,)), 1040)


def test_noise_of_less_than_half_a_step_vanishes():
    samples = discrete.discrete_gaussian(np.random.default_rng(2), Fraction(9, 100), (SAMPLES,))
    assert samples.var() < 0.09 / 10
    with pytest.raises(ValueError, match=r"0\.3 grid steps; at least 1\.5"):
        discrete.round_cost(discrete.ORDERS, 1.0, np.array([2.0, 0.3]), 5, 10)


@pytest.mark.parametrize("variance", [0, -1, np.nan, np.inf, 10**9])
def test_a_variance_that_does_not_fit_is_refused(variance):
    with pytest.raises(ValueError, match="must be positive, and at most"):
        discrete.discrete_gaussian(np.random.default_rng(), variance, (1,))


@pytest.mark.parametrize("bits", [3, 7, 12])
def test_the_law_is_the_same_however_few_digits_decide_at_first(bits, monkeypatch):
    """With few, many samples lie too near to a value of the distribution function, and further digits are drawn."""
    asked, resolved = [], discrete._resolved
    monkeypatch.setattr(discrete, "BITS", bits)
    monkeypatch.setattr(discrete, "_resolved", lambda *given: asked.append(given) or resolved(*given))
    samples = discrete.discrete_gaussian(np.random.default_rng(4), 2.3, (30_000,))
    assert len(asked) > 200
    assert follows(samples, 2.3**0.5)
    wrong = [first for *_, first in asked if not 0 <= first < 2**bits]
    assert not wrong


@pytest.mark.parametrize("variance", [Fraction(9, 100), Fraction(23, 10), 1000])
@pytest.mark.parametrize("bits", [64, 128])
def test_the_distribution_function_is_right_in_the_digits_that_are_used(variance, bits):
    """Against sums in three times as many digits."""
    first, values = discrete._distribution(Fraction(variance), bits)
    with localcontext() as context:
        context.prec = bits
        mass = [(-Decimal(z * z * variance.denominator) / (2 * variance.numerator)).exp() for z in range(-600, 601)]
        total, unit = sum(mass), 2**bits
        for k in range(0, len(values), 7):
            exact = sum(mass[: first + k + 601]) / total * unit
            assert abs(values[k] - exact) <= 1
    assert values[0] <= 1
    assert values[-1] == unit


def renyi(alpha, first, second):
    both = (first > 0) & (second > 0)  # the ends of what is cut off 9 deviations away
    return np.log(np.sum(first[both] ** alpha * second[both] ** (1 - alpha))) / (alpha - 1)


def moved(mass, steps, room):
    """`mass`, moved by a number of steps and, in the mean, by the fraction of one more, as with rounding."""
    below, fraction = int(steps), steps - int(steps)
    return sum(
        share * np.pad(mass, (room + shift, room - shift))
        for share, shift in ((1 - fraction, below), (fraction, below + 1))
    )


@pytest.mark.parametrize("honest", [1, 2, 5])
@pytest.mark.parametrize("deviation", [1.5, 2.5])
def test_costs_are_upper_bounds_of_the_mechanism_and_near_it(honest, deviation):
    mass = one = pmf(deviation, int(9 * deviation))
    for _ in range(honest - 1):
        mass = np.convolve(mass, one)
    zero = np.pad(mass, 8)
    for steps in (0.02, 0.3, 1.0, 1.3, 3.7):
        for alpha in (1.01, 1.5, 2.0, 4.0):
            case = (np.array([alpha]), steps, deviation, honest, 1)
            bound = discrete.round_cost(*case)[0]
            below, fraction = int(steps), steps % 1
            each = [renyi(alpha, np.pad(mass, (8 + k, 8 - k)), zero) for k in (below, below + 1)]
            public = np.log(np.average(np.exp((alpha - 1) * np.array(each)), weights=[1 - fraction, fraction]))
            public /= alpha - 1
            starts = [(y, y + steps) for y in (0, 0.3, 0.5, 0.8, 1 - fraction)]
            private = max(
                renyi(alpha, moved(mass, first, 8), moved(mass, second, 8))
                for pair in starts
                for first, second in (pair, pair[::-1])
            )
            assert private <= public * (1 + 1e-9) <= bound * (1 + 1e-9), (steps, alpha)
            if steps < 0.1:  # H touches the cost
                assert_allclose(bound, public, rtol=1e-4)
            if alpha >= 2:
                bound = discrete.private_dither_cost(*case)[0]
                assert private <= bound, (steps, alpha)
                if steps < 0.1 and alpha == 2:
                    assert_allclose(bound, private, rtol=0.07)


def test_private_dithers_are_accounted_at_whole_orders_up_to_a_multiple_of_the_variance():
    cost = discrete.private_dither_cost(np.array([2, 23, 24]), 1.0, 1.5, 8, 10)  # 1 + 1.25 * 18 = 23.5
    assert_allclose(np.isfinite(cost), [True, True, False])
    with pytest.raises(ValueError, match="whole numbers from 2 on"):
        discrete.private_dither_cost(discrete.ORDERS, 1.0, 1.5, 8, 10)


def of_coordinate(steps, rate, above):
    """ln E exp(above rate k^2) / above, of k = m, or m + 1 with the probability of the fraction."""
    m = np.floor(steps)
    with np.errstate(divide="ignore"):
        both = np.log([1 - (steps - m), steps - m]) + above * rate * np.array([m, m + 1]) ** 2
    return np.logaddexp(*both) / above


@pytest.mark.parametrize(("alpha", "variance"), [(1.1, 70), (3, 70), (2, 2.25), (30, 70), (1000, 2.25), (3, 1e5)])
def test_the_envelope_is_concave_and_above_the_cost(alpha, variance):
    rate, above = alpha / (2 * variance), alpha - 1
    square = np.linspace(0, 30, 3001)[1:] ** 2
    envelope = discrete._envelope(square, np.array(rate), np.array(above))
    assert np.all(np.isfinite(envelope))
    assert np.all(envelope * discrete.UPWARD >= of_coordinate(np.sqrt(square), rate, above))
    slope = np.diff(envelope) / np.diff(square)
    assert np.all(np.diff(slope) <= 1e-4 * slope[:-1])


def test_the_envelope_is_the_least_concave_function_above():
    rate, above = 3 / 140, 2.0
    steps = np.append(np.linspace(0, 0.05, 1000), np.linspace(0.06, 12, 1195))
    cost = of_coordinate(steps, rate, above)
    for square in (0.001, 0.5, 1.0, 4.2, 30.0):
        # The best mixture of two squares with this mean.
        low, high = steps[steps**2 <= square, None] ** 2, steps[steps**2 > square] ** 2
        weight = (high - square) / (high - low)
        best = np.max(weight * cost[steps**2 <= square, None] + (1 - weight) * cost[steps**2 > square])
        assert best <= discrete._envelope(np.array(square), np.array(rate), np.array(above)) <= best * 1.002


def published_cost(orders, sensitivity, deviation, honest, dimensions):
    """Theorem 1 of Kairouz, Liu and Steinke (2021): rounding moves a vector by up to a step more in each coordinate."""
    rho = (sensitivity + dimensions**0.5) ** 2 / (2 * honest * deviation**2)
    return orders * rho[..., None] + dimensions * discrete.divergence_of_sum(deviation, honest)[..., None]


def test_epsilons_of_many_bits_are_those_of_continuous_noise_and_fall_with_bits():
    # A cell's 5 senders, one of whom colludes: MNIST, 1600 dimensions, 10 rounds.
    rho, clipped, size, rounds, honest = 0.1115, 0.5 * 1150, 1600, 10, 4
    noise = np.sqrt(2 * rounds * 0.25 / rho / honest)
    step = 8 * np.sqrt(clipped**2 / size + 5 * noise**2) / 2.0 ** np.array([10, 12, 14, 16, 24])
    cost = rounds * discrete.round_cost(discrete.ORDERS, 1 / step, noise / step, honest, size)
    epsilon = discrete.epsilon(discrete.ORDERS, cost, DELTA)
    assert_allclose(epsilon[:4], [5.1, 2.46, 2.062, 2.035], rtol=0.01)
    assert gaussian.tight_epsilon(rho, DELTA) <= epsilon[-1] <= gaussian.tight_epsilon(rho, DELTA) * 1.0003
    orders = discrete.WHOLE_ORDERS
    private = discrete.epsilon(
        orders, rounds * discrete.private_dither_cost(orders, 1 / step, noise / step, 4, size), DELTA
    )
    assert_allclose(private, [2.047, 2.047, 2.036, 2.034, 2.033], atol=0.001)
    published = rounds * published_cost(discrete.ORDERS, 1 / step, noise / step, honest, size)
    assert_allclose(discrete.epsilon(discrete.ORDERS, published, DELTA)[:4], [17, 5.1, 2.76, 2.22], rtol=0.02)


def test_costs_of_groups_are_as_if_computed_alone():
    orders = np.array([1.5, 4.0])
    both = discrete.round_cost(orders, np.array([1.0, 2.0]), np.array([1.5, 3.0]), np.array([1, 4]), 10)
    for row, values in zip(both, [(1.0, 1.5, 1), (2.0, 3.0, 4)], strict=True):
        assert_allclose(row, discrete.round_cost(orders, *values, 10), rtol=1e-12)
    assert discrete.divergence_of_sum(0.5, 1) == 0
    assert_allclose(discrete.divergence_of_sum(0.5, 3), 10 * (np.exp(-(np.pi**2) / 4) + np.exp(-(np.pi**2) / 3)))
