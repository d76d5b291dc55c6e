"""What releases of the same records cost together: other accountants, and densities that are integrated."""

import math

import numpy as np
import pytest
from dp_accounting import (
    ComposedDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NeighboringRelation,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.pld import PLDAccountant
from scipy import optimize, stats

from pwfl.privacy import composition, discrete, sampled
from pwfl.privacy.composition import Loss, Sampled, compose
from pwfl.privacy.gaussian import exact_epsilon
from pwfl.systems.anonymous_oac import batches
from pwfl.systems.anonymous_oac.schemes import NOISES

DELTA = 1e-5
RATE, MU = 0.1, 1.0


def pld_epsilon(*events):
    """By the privacy loss distributions of another library; an unsampled pair is that of a record added."""
    accountant = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE)
    accountant.compose(ComposedDpEvent(list(events)))
    return accountant.get_epsilon(DELTA)


def of_batches(*knows, mu=MU, realization=0, seed=1, design="one", rounds=1, rate=RATE) -> Loss:
    """A training whose records are in a round's batch at a rate, of a sum that is divided by a constant."""

    def law(_knows):
        return batches.poisson(rate), 0.5

    return Loss(sampled=Sampled(mu, rounds, seed, design, realization, frozenset(knows), law))


def test_gaussian_releases_are_worth_one_of_the_sum_of_their_rho():
    rho = [4.0, 0.5, 0.02]
    found = compose([Loss(rho=each) for each in rho], DELTA)
    assert found.bound == "upper bound"  # each release's worst record may be another one
    assert found.epsilon == pytest.approx(
        pld_epsilon(*(GaussianDpEvent(1 / (2 * each) ** 0.5) for each in rho)), rel=1e-3
    )
    assert found.epsilon == pytest.approx(float(exact_epsilon(np.array(4.52), DELTA)), rel=1e-9)
    assert found.epsilon < 0.9 * sum(compose([Loss(rho=each)], DELTA).epsilon for each in rho)


def test_one_gaussian_release_alone_is_exact():
    assert compose([Loss(rho=4.0)], DELTA) == (pytest.approx(15.45616, abs=1e-5), composition.EXACT)
    assert compose([of_batches()], DELTA).bound == "upper bound"


def test_pure_epsilons_add_up_and_come_beside_others():
    assert compose([Loss(pure=0.3), Loss(pure=0.5)], 0.0).epsilon == pytest.approx(0.8, rel=1e-12)
    both = compose([Loss(pure=0.5), Loss(rho=0.5)], DELTA).epsilon
    assert (
        pld_epsilon(LaplaceDpEvent(2.0), GaussianDpEvent(1.0))
        < both
        < 1.15 * pld_epsilon(LaplaceDpEvent(2.0), GaussianDpEvent(1.0))
    )
    assert compose([Loss(pure=0.5), Loss(rho=0.5)], 0.0).epsilon == math.inf


def exact_of_opposite_records(mu: tuple[float, float], shared: bool) -> float:
    """epsilon of a record turned around, in two Gaussian releases of one batch or of a batch each, by integration."""
    y = np.arange(-9, 9, 0.02)
    one, two = np.meshgrid(y, y, indexing="ij")

    def density(sign):
        parts = [
            stats.norm.pdf(each, shift * sign * m / 2) for each, m in ((one, mu[0]), (two, mu[1])) for shift in (0, 1)
        ]
        if shared:
            return (1 - RATE) * parts[0] * parts[2] + RATE * parts[1] * parts[3]
        return ((1 - RATE) * parts[0] + RATE * parts[1]) * ((1 - RATE) * parts[2] + RATE * parts[3])

    first, second = density(1), density(-1)

    def excess(epsilon):
        return np.maximum(first - math.exp(epsilon) * second, 0).sum() * 0.02**2 - DELTA

    return optimize.brentq(excess, 0.01, 20)


@pytest.mark.parametrize(("count", "mu"), [(8, 0.5), (32, 0.25), (50, 0.3)])
def test_releases_of_one_batch_are_one_mechanism_and_not_independent_ones(count, mu):
    """Two times `count` releases: sums of `count` outputs tell of one batch what all of them do."""
    pair = (mu * count**0.5,) * 2
    exact, of_two_batches = (exact_of_opposite_records(pair, shared) for shared in (True, False))
    independent = compose([of_batches(mu=mu, realization=k) for k in range(2 * count)], DELTA).epsilon
    together = compose([of_batches(mu=mu)] * (2 * count), DELTA).epsilon
    assert independent < 0.5 * exact
    assert of_two_batches < exact <= together
    assert exact == pytest.approx(exact_of_opposite_records((math.hypot(*pair), 0.0), True), rel=1e-4)
    (alone,) = sampled.PAIRS["proved"].epsilons(batches.poisson(RATE), 1 / math.hypot(*pair), [1], DELTA, absent=0.5)
    assert together == pytest.approx(alone, rel=1e-6)


def test_realizations_are_independent_rounds_of_a_batch_each():
    found = compose([of_batches(realization=r, rounds=20) for r in range(4)], DELTA).epsilon
    (proved,) = sampled.PAIRS["proved"].epsilons(batches.poisson(RATE), 1 / MU, [80], DELTA, absent=0.5)
    assert found == pytest.approx(proved, rel=1e-9)
    usual = PoissonSampledDpEvent(RATE, GaussianDpEvent(2 / MU))  # a record of norm L, added
    assert found > pld_epsilon(SelfComposedDpEvent(usual, 80))
    assert found < 0.5 * float(exact_epsilon(np.array(80 * MU**2 / 2), DELTA))


def test_batches_of_several_designs_hide_nothing_but_those_of_other_seeds_do():
    losses = [of_batches(rounds=10), of_batches(rounds=10, design="two", realization=5)]
    found = compose(losses, DELTA)
    assert found.epsilon == pytest.approx(float(exact_epsilon(np.array(10 * MU**2), DELTA)), rel=1e-9)
    assert found.bound == composition.UNAMPLIFIED
    other = compose([losses[0], of_batches(rounds=10, design="two", seed=2)], DELTA)
    assert other.bound == "upper bound"
    assert other.epsilon == pytest.approx(compose([of_batches(rounds=20)], DELTA).epsilon, rel=1e-6)
    mixed = compose([*losses, of_batches(rounds=10, seed=2)], DELTA).epsilon
    assert found.epsilon < mixed < float(exact_epsilon(np.array(15 * MU**2), DELTA))


def test_variants_of_batches_matter_in_their_own_realization_alone():
    def loss(realization, variant):
        return Loss(sampled=of_batches(rounds=10, realization=realization).sampled._replace(variant=variant))

    apart = compose([loss(0, "x"), loss(1, "y")], DELTA)
    assert apart == (pytest.approx(compose([of_batches(rounds=20)], DELTA).epsilon, rel=1e-6), composition.UPPER)
    both = compose([loss(0, "x"), loss(0, "y")], DELTA)
    assert both == (pytest.approx(float(exact_epsilon(np.array(10 * MU**2), DELTA)), rel=1e-9), composition.UNAMPLIFIED)
    some = compose([loss(0, "x"), loss(0, "y"), loss(1, "x")], DELTA).epsilon
    assert both.epsilon < some < float(exact_epsilon(np.array(15 * MU**2), DELTA))


def test_sampled_releases_and_others_compose_by_their_privacy_losses():
    losses = [of_batches(rounds=60), Loss(rho=2.0)]
    found, apart = compose(losses, DELTA).epsilon, [compose([each], DELTA).epsilon for each in losses]
    assert max(apart) < found < 0.9 * sum(apart)
    usual = PoissonSampledDpEvent(RATE, GaussianDpEvent(2 / MU))
    assert found > pld_epsilon(SelfComposedDpEvent(usual, 60), GaussianDpEvent(0.5))
    # Where privacy losses are too large for distributions of them, nothing of sampling is counted.
    large = compose([of_batches(rounds=60), Loss(rho=1e5)], DELTA).epsilon
    assert large == pytest.approx(float(exact_epsilon(np.array(1e5 + 30 * MU**2), DELTA)), rel=1e-9)


def test_an_observer_of_several_releases_knows_what_any_of_them_tells():
    told = []

    def law(knows):
        told.append(knows)
        return batches.known(20, 30, 0.3, RATE, knows)

    def loss(*knows):
        return Loss(sampled=Sampled(MU, 3, 1, "one", 0, frozenset(knows), law))

    together = compose([loss("size"), loss("participation")], DELTA).epsilon
    assert told == [{"size", "participation"}]
    assert together > compose([loss("size"), loss("size")], DELTA).epsilon


@pytest.mark.parametrize("scheme", [name for name in NOISES if name != "none"])
def test_of_one_release_what_is_known_of_batches_is_what_its_server_reads(scheme):
    noise = NOISES[scheme]
    rates, absent = batches.known(10, 20, 0.3, 0.2, batches.revealed_facts(noise))
    laws = batches.readings(10, 20, 0.3, 0.2, noise.local, noise.fixed)
    expected = laws["anonymous_read" if noise.reading.startswith("anonymous") else "identified_read"]
    np.testing.assert_array_equal(rates.values, expected.values)
    np.testing.assert_array_equal(rates.weights, expected.weights)
    assert absent == (0.5 if noise.fixed else 1.0)


@pytest.mark.parametrize("count", [1, 4, 30])
def test_integers_compose_by_a_rho_that_bounds_their_divergences_up_to_an_order(count):
    orders = discrete.WHOLE_ORDERS
    cost = 20 * discrete.private_dither_cost(orders, *map(np.array, (2.0, 4.0, 8)), 650)
    rho, order = discrete.concentrated(orders, cost, DELTA)
    below = orders <= order
    assert below.sum() > 3
    assert (cost[below] <= rho * orders[below]).all()
    assert (cost > rho * orders).any()  # which no rho of this size does at all orders
    found = compose([Loss(rho=float(rho), order=float(order))] * count, DELTA).epsilon
    by_divergences = float(discrete.epsilon(orders, count * cost, DELTA))
    assert by_divergences <= found < 1.1 * by_divergences
    if count == 1:
        with_gaussian = compose([Loss(rho=float(rho), order=float(order)), Loss(rho=1.0)], DELTA).epsilon
        assert with_gaussian >= float(discrete.epsilon(orders, cost + orders, DELTA))


def test_what_may_fail_is_part_of_delta():
    lost = [Loss(rho=0.5, lost=4e-6)] * 2
    assert compose(lost, DELTA).epsilon == pytest.approx(float(exact_epsilon(np.array(1.0), 2e-6)), rel=1e-6)
    assert compose([*lost, *lost], DELTA).epsilon == math.inf


@pytest.mark.parametrize("delta", [1e-16, 1e-100])
def test_at_deltas_that_rounding_errors_exceed_nothing_of_sampling_is_counted_and_the_bound_says_so(delta):
    found = compose([of_batches(rounds=60), Loss(rho=2.0)], delta)
    exact = float(exact_epsilon(np.array(2.0 + 30 * MU**2), delta))
    assert found == (pytest.approx(exact, rel=1e-9), composition.UNRESOLVED)
    assert compose([Loss(rho=2.0), Loss(rho=1.0)], delta).bound == composition.UPPER  # nothing is sampled
