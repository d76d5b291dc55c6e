"""Accounting of sampled Gaussian mechanisms: the reference values, and other ways to each of them."""

import math
import re
import warnings

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, NeighboringRelation, PoissonSampledDpEvent, SampledWithoutReplacementDpEvent
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from conftest import ROOT
from pwfl.privacy import gaussian, rounding, sampled
from pwfl.systems.anonymous_oac import batches

DELTA = 1e-5
REFERENCE = {  # p q -> the paper's accountant and PLD, after 1 and 1000 rounds at multiplier 1
    1.0: ((5.30259, 1011.51293), (4.377178, 633.92985)),
    0.5: ((4.47912, 368.88694), (3.533998, 218.61923)),
    0.1: ((2.67368, 28.54979), (1.684544, 25.204554)),
    0.01: ((1.31748, 2.53835), (0.199450, 1.828237)),
}


def tight_epsilon(participation, rate, *others, **more):
    return sampled.PAIRS["tight"].epsilons(law(participation, rate), *others, **more)


def opposite_epsilon(participation, rate, *others, **more):
    return sampled.PAIRS["opposite"].epsilons(law(participation, rate), *others, **more)


def law(participation, rate):
    """A device takes part with a probability, for all to see, and then samples its records at a rate."""
    return batches.seen(participation, batches.poisson(rate))


def renyi_epsilon(rate, multiplier, rounds, delta=DELTA):
    return sampled.renyi_epsilon(sampled.renyi(rate, multiplier), rounds, delta)


@pytest.mark.parametrize("rate", REFERENCE)
def test_reference_values(rate):
    renyi, tight = REFERENCE[rate]
    np.testing.assert_allclose(renyi_epsilon(rate, 1.0, [1, 1000]), renyi, rtol=0, atol=6e-6)
    found = tight_epsilon(1.0, rate, 1.0, [1, 1000], DELTA)
    np.testing.assert_allclose(found, tight, rtol=0, atol=1e-5)
    if rate == 0.1:  # known participation hides less
        assert tight_epsilon(rate, 1.0, 1.0, [1000], DELTA)[0] == pytest.approx(99.9, abs=0.05)


OPACUS = np.array([*(1 + np.arange(1, 100) / 10), *range(12, 64)])  # its default orders


def mixture_renyi(rate, order, absent, present, other):
    """Renyi divergence by quadrature in the plane, of N(absent, I) with probability 1 - rate and else N(present, I) from
    the same with N(other, I), multiplier 1; points have shape (2,).
    """
    axis = np.linspace(-10, 10 + 1.5 * order, 161)
    grid, cell = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1), (axis[1] - axis[0]) ** 2

    def log_density(mean):
        return -((grid - mean) ** 2).sum(axis=-1) / 2 - math.log(2 * math.pi)

    without = np.log1p(-rate) + log_density(np.asarray(absent))
    one, two = (np.logaddexp(without, math.log(rate) + log_density(np.asarray(mean))) for mean in (present, other))
    return math.log(np.exp(order * one + (1 - order) * two).sum() * cell) / (order - 1)


def fractional_renyi(rate):
    """Renyi DP of the usual pair at Opacus' orders, multiplier 1, by quadrature on a line."""
    x = np.linspace(-40, 110, 15_001)
    null = -(x**2) / 2 - math.log(2 * math.pi) / 2
    ratio = np.logaddexp(np.log1p(-rate), math.log(rate) + x - 0.5) if rate < 1 else x - 0.5
    logs = np.multiply.outer(OPACUS, ratio) + null
    most = logs.max(axis=1)
    return (most + np.log(np.exp(logs - most[:, None]).sum(axis=1) * (x[1] - x[0]))) / (OPACUS - 1)


def test_the_page_says_what_fractional_orders_would_give():
    page = (ROOT / "docs/explanation/anonymous_oac.md").read_text(encoding="utf-8")
    lines = re.findall(r"^  \| ([\d.]+) \| ([\d. |]+) \|$", page, re.MULTILINE)
    rows = {float(rate): [float(x) for x in rest.split(" | ")] for rate, rest in lines}
    assert list(rows) == list(REFERENCE)
    for rate, stated in rows.items():
        whole = renyi_epsilon(rate, 1.0, [1000])[0]
        found = fractional_renyi(rate)
        integer = OPACUS.round() == OPACUS
        np.testing.assert_allclose(found[integer], sampled.renyi(rate, 1.0)[OPACUS[integer].astype(int) - 2], rtol=1e-6)
        fractional = (1000 * found + math.log(1 / DELTA) / (OPACUS - 1)).min()
        tight = tight_epsilon(1.0, rate, 1.0, [1000], DELTA)[0]
        proved = sampled.PAIRS["proved"].epsilons(law(1.0, rate), 1.0, [1000], DELTA)[0]
        assert stated == pytest.approx([whole, fractional, tight, proved], rel=6e-4)
        assert tight < fractional <= whole * (1 + 1e-4)
        # Against a replaced record: at 0.5 integer orders say more than is proved, fractional ones less.
        assert (fractional >= proved, whole >= proved) == {0.5: (False, True), 0.1: (False, False)}.get(
            rate, (True,) * 2
        )


@pytest.mark.parametrize("order", [1.2, 1.9, 2, 3])
@pytest.mark.parametrize("rate", [0.5, 0.1])
def test_no_replaced_record_is_found_that_loses_more_renyi_than_the_usual_pair(rate, order):
    """The absent record's stand-in at -1/2 of a known batch, both records' gradients anywhere on the clipping circle."""
    usual = mixture_renyi(rate, order, (-0.5, 0), (0.5, 0), (-0.5, 0))
    assert usual == pytest.approx(np.interp(order, OPACUS, fractional_renyi(rate)), rel=1e-6)
    angles = [(np.cos(angle) / 2, np.sin(angle) / 2) for angle in np.linspace(0, 2 * np.pi, 13)]
    found = [mixture_renyi(rate, order, (-0.5, 0), one, two) for one in angles[:7] for two in angles]
    assert 0.99 * usual < max(found) < usual * (1 + 1e-9)


def test_a_bound_proved_for_replaced_records_gains_nothing_from_orders_below_2():
    """Wang, Balle and Kasiviswanathan (2019), Corollary 10: between integers it is interpolated."""
    accountant = RdpAccountant([1.2, 1.9, 2.0], NeighboringRelation.REPLACE_ONE)
    accountant.compose(SampledWithoutReplacementDpEvent(1000, 100, GaussianDpEvent(1.0)))
    np.testing.assert_allclose(accountant.rdp, accountant.rdp[-1], rtol=1e-12)


@pytest.mark.parametrize(("rate", "multiplier"), [(0.2, 0.7), (0.01, 1.0), (0.5, 4.0)])
def test_renyi_is_that_of_dp_accounting(rate, multiplier):
    accountant = RdpAccountant(sampled.ORDERS)
    accountant.compose(PoissonSampledDpEvent(rate, GaussianDpEvent(multiplier)))
    np.testing.assert_allclose(sampled.renyi(rate, multiplier), accountant.rdp, rtol=1e-9)


def test_renyi_of_known_participation_averages_the_likelihood_ratio():
    divergence = sampled.renyi(0.3, 1.1)
    moments = [0.8 + 0.2 * math.exp((a - 1) * d) for a, d in zip(sampled.ORDERS[:20], divergence[:20], strict=True)]
    expected = np.log(moments) / (sampled.ORDERS[:20] - 1)
    np.testing.assert_allclose(sampled.revealed(0.2, divergence)[:20], expected, rtol=1e-12)


@pytest.mark.parametrize("multiplier", [0.0, 1e-200])
@pytest.mark.parametrize("rate", [1.0, 0.3, 1e-6])
def test_renyi_without_noise_is_infinite_and_no_warning(rate, multiplier):
    divergence = sampled.renyi(rate, multiplier)
    with warnings.catch_warnings(action="error"):
        known = sampled.revealed(0.2, divergence)
        epsilon = sampled.renyi_epsilon(known, [1, 10], DELTA)
    for found in (divergence, known, epsilon):
        assert (found == np.inf).all()


@pytest.mark.parametrize(("participation", "rounds", "multiplier"), [(0.1, 1000, 1.0), (0.5, 30, 2.0), (0.9, 5, 0.8)])
def test_known_participation_is_a_binomial_mixture_of_gaussians(participation, rounds, multiplier):
    count = np.arange(1, rounds + 1)
    weight, mu = stats.binom.pmf(count, rounds, participation), np.sqrt(count) / multiplier

    def excess(epsilon):
        upper, lower = stats.norm.logcdf(mu / 2 - epsilon / mu), stats.norm.logcdf(-mu / 2 - epsilon / mu)
        return (weight * (np.exp(upper) - np.exp(epsilon + lower))).sum() - DELTA

    expected = optimize.brentq(excess, 1e-6, 500)
    found = tight_epsilon(participation, 1.0, multiplier, [rounds], DELTA)[0]
    assert expected - 1e-9 <= found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("adjacency", [AdjacencyType.REMOVE, AdjacencyType.ADD])
@pytest.mark.parametrize("multiplier", [0.05, 0.3, 1.0, 20.0])
@pytest.mark.parametrize("rate", [1e-4, 0.1, 0.5, 0.999, 1.0])
def test_the_hockey_stick_is_that_of_dp_accounting(rate, multiplier, adjacency):
    loss = GaussianPrivacyLoss(multiplier, sampling_prob=rate, adjacency_type=adjacency)
    bounds = loss.connect_dots_bounds()
    epsilon = np.linspace(1.1 * bounds.epsilon_lower, 1.1 * bounds.epsilon_upper, 1001)
    found = sampled.hockey_stick(rate, epsilon, multiplier, adjacency)
    np.testing.assert_allclose(found, loss.get_delta_for_epsilon(epsilon), rtol=0, atol=2e-15)


def hockey_stick(present, absent, multiplier, epsilon, points=400_001):
    """E[(P - e^epsilon Q)_+] on a fine grid, for mixtures given as pairs of weights and means."""
    x = np.linspace(-20 * multiplier, 20 * multiplier, points)
    p, q = (sum(w * stats.norm.pdf(x, m, multiplier) for w, m in mixture) for mixture in (present, absent))
    return np.trapezoid(np.maximum(p - np.exp(epsilon) * q, 0), x)


@pytest.mark.parametrize(("rate", "multiplier"), [(0.1, 1.0), (0.5, 0.7), (0.9, 2.0)])
def test_one_round_is_the_hockey_stick_divergence_on_a_grid(rate, multiplier):
    mixture, null = [(1 - rate, 0), (rate, 1)], [(1, 0)]
    tight = tight_epsilon(1.0, rate, multiplier, [1], DELTA)[0]
    assert hockey_stick(mixture, null, multiplier, tight) == pytest.approx(DELTA, rel=1e-3)
    assert hockey_stick(null, mixture, multiplier, tight) <= DELTA
    opposite = opposite_epsilon(1.0, rate, multiplier, [1], DELTA)[0]
    pair = [(1 - rate, 0), (rate, 0.5)], [(1 - rate, 0), (rate, -0.5)]
    assert hockey_stick(*pair, multiplier, opposite) == pytest.approx(DELTA, rel=1e-3)


def test_without_sampling_all_are_the_gaussian_mechanism():
    rounds, multiplier = np.array([1, 10, 100]), 3.0
    exact = gaussian.exact_epsilon(rounds / (2 * multiplier**2), DELTA)
    np.testing.assert_allclose(tight_epsilon(1.0, 1.0, multiplier, rounds, DELTA), exact, rtol=1e-12)
    np.testing.assert_allclose(opposite_epsilon(1.0, 1.0, multiplier, rounds, DELTA), exact, rtol=1e-4)
    np.testing.assert_allclose(tight_epsilon(1 - 1e-9, 1.0, multiplier, rounds, DELTA), exact, rtol=1e-4)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.floats(0.6, 8), st.floats(0.02, 0.9), st.floats(0.05, 1.0), st.integers(1, 60))
def test_accountants_are_ordered_and_monotone(multiplier, rate, participation, rounds):
    def all_of(known, sampling, noise, count):
        divergence = sampled.revealed(known, sampled.renyi(sampling, noise))
        return (
            opposite_epsilon(known, sampling, noise, [count], DELTA, interval=sampled.COARSE)[0],
            tight_epsilon(known, sampling, noise, [count], DELTA, interval=sampled.COARSE)[0],
            sampled.renyi_epsilon(divergence, [count], DELTA)[0],
        )

    opposite, tight, renyi = all_of(participation, rate, multiplier, rounds)
    slack = 1 + 1e-3
    assert opposite <= tight * slack + 1e-3
    assert tight <= renyi * slack
    assert all_of(participation, rate, 1.1 * multiplier, rounds)[1] <= tight * slack
    assert all_of(participation, rate, multiplier, rounds + 5)[1] * slack >= tight
    # Hiding who takes part never makes it worse.
    assert all_of(1.0, participation * rate, multiplier, rounds)[1] <= tight * slack + 1e-3


@pytest.mark.parametrize(("participation", "rate", "epsilon"), [(0.1, 0.1, 1.8), (1.0, 0.3, 5.0), (0.5, 1.0, 20.0)])
def test_the_multiplier_found_gives_the_epsilon_asked_for(participation, rate, epsilon):
    usual = sampled.Batches(law(participation, rate), "tight", interval=sampled.COARSE)
    multiplier = usual.multiplier_for(epsilon, 200, DELTA)
    assert tight_epsilon(participation, rate, multiplier, [200], DELTA)[0] == pytest.approx(epsilon, rel=1e-3)


def test_an_epsilon_out_of_reach_is_an_error():
    with pytest.raises(ValueError, match=r"no noise multiplier between 0\.01 and 1e5 gives epsilon 1e-08"):
        sampled.Batches(law(1.0, 0.5), "tight").multiplier_for(1e-8, 10, DELTA)


@pytest.mark.parametrize("multiplier", [1e-2, 1e-3, 1e-100, 1e-200])
@pytest.mark.parametrize("rate", [1.0, 0.5, 0.01])
def test_too_little_noise_is_infinite_never_understated(rate, multiplier):
    tight = tight_epsilon(0.5, rate, multiplier, [1, 10], DELTA)
    others = opposite_epsilon(1.0, rate, multiplier, [1, 10], DELTA), renyi_epsilon(rate, multiplier, [1, 10])
    assert (np.array([tight, *others, sampled.advanced_composition(multiplier, [1, 10], DELTA)]) > 1000).all()
    assert multiplier > 1e-3 or rate == 1 or np.isinf(tight).all()


def theorem_applies(rate, multiplier, order):
    """(3) and (4), as the paper prints them."""
    log = math.log(1 + 1 / (rate * (order - 1)))
    third = 0.5 * multiplier**2 * log - 2 * math.log(multiplier)
    fourth = (0.5 * multiplier**2 * log**2 - math.log(5) - 2 * math.log(multiplier)) / (
        log + math.log(rate * order) + 1 / (2 * multiplier**2)
    )
    return rate <= 0.2 and multiplier >= 4 and 1 < order <= third and order <= fourth


@pytest.mark.parametrize(
    ("rate", "multiplier"),
    [(0.01, 4.0), (0.2, 5.0), (0.1, 20.0), (0.21, 5.0), (0.1, 3.9), (0.0223813, 13.812467), (0.0374701, 9.138344)],
)
def test_the_closed_form_holds_where_its_conditions_do(rate, multiplier):
    found = sampled.renyi_closed_form(rate, multiplier)
    for order, value, exact in zip(sampled.ORDERS, found, sampled.renyi(rate, multiplier), strict=True):
        if theorem_applies(rate, multiplier, order):
            assert value == pytest.approx(2 * rate**2 * order / multiplier**2, rel=1e-12)
            assert value >= exact
        else:
            assert math.isinf(value)


def test_advanced_composition_is_theorem_3_20():
    each = math.sqrt(2 * math.log(1.25 / DELTA)) / 2
    expected = math.sqrt(2 * 50 * math.log(1 / DELTA)) * each + 50 * each * (math.exp(each) - 1)
    assert sampled.advanced_composition(2.0, 50, DELTA) == pytest.approx(expected, rel=1e-12)


# Small deltas: tails far below delta, and what Fourier transforms round

ALWAYS = sampled.Rates(np.ones(1), np.ones(1))


def gaussian_epsilon(multiplier, rounds, delta):
    return float(gaussian.exact_epsilon(gaussian.zcdp(1.0, multiplier, rounds), delta))


@pytest.mark.parametrize(("rounds", "mu"), [(1, 1.0), (4, 0.3), (10, 3.0), (1000, 1.0)])
def test_composed_rounds_are_an_upper_bound_down_to_the_least_delta(rounds, mu):
    """Privacy losses of rounds without sampling, against the Gaussian mechanism that they are."""
    multiplier, least = rounds**0.5 / mu, rounding.least_delta(rounds)
    for delta, over in ((least, 1e-2), (30 * least, 1e-3), (1e4 * least, 1e-4)):
        mechanisms = [sampled.Mechanism(ALWAYS, multiplier, rounds)]
        found, exact = sampled.proved_together(mechanisms, delta, 2e-4), gaussian_epsilon(multiplier, rounds, delta)
        assert exact < found < exact * (1 + over)


def test_epsilons_of_small_deltas_are_ordered_and_fall_as_delta_grows():
    rates, rounds, multiplier, last = law(1.0, 0.5), 4, 2.0, np.full(3, np.inf)
    for delta in (4e-15, 1e-14, 1e-12, 1e-9):
        pairs = [sampled.PAIRS[method] for method in ("opposite", "tight", "proved")]
        found = np.array([pair.epsilons(rates, multiplier, [rounds], delta, interval=2e-3)[0] for pair in pairs])
        assert (found < last).all()
        assert found[0] < found[1] < renyi_epsilon(0.5, multiplier, [rounds], delta)[0]
        assert found[1] <= found[2] * (1 + 5e-3)
        assert found[2] < gaussian_epsilon(multiplier, rounds, delta)
        last = found


@pytest.mark.parametrize("delta", [1e-16, 3.9e-15, 1e-100])
def test_a_delta_that_rounding_errors_exceed_is_refused(delta):
    rates, message = law(1.0, 0.5), rf"delta {delta:g} is too small: .* of 4 sampled rounds require at least 4e-15"
    for pair in sampled.PAIRS.values():
        with pytest.raises(ValueError, match=message):
            pair.epsilons(rates, 2.0, [4], delta, interval=1e-2)
    with pytest.raises(ValueError, match=message):
        sampled.Batches(rates, interval=1e-2).composed_worth([(2.0, 1), (3.0, 3)], delta)


@pytest.mark.parametrize("delta", [1e-3, 1e-16, 1e-100, 1e-300])
def test_without_sampling_any_delta_has_the_closed_form(delta):
    exact, two = gaussian_epsilon(2.0, 4, delta), gaussian_epsilon(1.0, 3, delta)
    for method in ("opposite", "tight", "proved"):
        always = sampled.Batches(ALWAYS, method)
        assert always.composed_worth([(2.0, 4)], delta)[0] == pytest.approx(exact, rel=1e-12)
        several = always.composed_worth([(2.0, 4), (2**-0.5 * 1.0, 1)], delta)[0]
        assert several == pytest.approx(two, rel=1e-12)
