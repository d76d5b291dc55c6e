"""What all records of a user lose: worst data found by search, laws by enumeration, epsilons by quadrature."""

import itertools
import math

import numpy as np
import pytest
from scipy import optimize, stats

from pwfl.privacy import accountant, gaussian, sampled, users
from pwfl.privacy.labels import Kind
from pwfl.systems.anonymous_oac import batches

DELTA = 1e-5


def clipped(gradients, norm):
    return gradients * np.minimum(1, norm / np.linalg.norm(gradients, axis=-1, keepdims=True))


@pytest.mark.parametrize(("records", "clip_norm"), [(1, 1.0), (7, 0.5), (40, 3.0)])
def test_replacing_all_records_moves_a_sum_of_clipped_gradients_by_so_many_times_a_records_sensitivity(
    records, clip_norm
):
    """No random data move it further, and data that a search turns against each other do."""
    generator = np.random.default_rng(records)
    one, other = (generator.standard_normal((300, records, 5)) * 10 for _ in range(2))
    found = accountant.Losses(np.full((1, 1, 1), 2 * clip_norm), np.ones(1, int))
    claim = accountant.Claim("user", accountant.USER, records=np.full((1, 1), records))
    most = found.moved(claim.records).mu.item()

    def moved(a, b):
        return np.linalg.norm(clipped(a, clip_norm).sum(axis=-2) - clipped(b, clip_norm).sum(axis=-2), axis=-1)

    assert moved(one, other).max() < most
    a, b = one[0], other[0]
    for _ in range(3):  # each record towards where the sums lie apart
        apart = clipped(a, clip_norm).sum(axis=0) - clipped(b, clip_norm).sum(axis=0)
        a, b = np.tile(100 * apart, (records, 1)), np.tile(-100 * apart, (records, 1))
    assert moved(a, b) == pytest.approx(most, rel=1e-12)
    # A mean clipped as a whole: one record moves it as far as all do.
    mean = clipped(np.concatenate([a[:1] * 1e6, one[0][1:]]).mean(axis=0), clip_norm)
    turned = clipped(np.concatenate([-a[:1] * 1e6, one[0][1:]]).mean(axis=0), clip_norm)
    assert np.linalg.norm(mean - turned) == pytest.approx(2 * clip_norm, rel=1e-4)


def test_messages_have_the_law_of_enumerated_batches():
    devices, samples, participation, sampling = 3, 4, 0.3, 0.6
    known, hidden, fixed = (
        batches.messages(devices, samples, participation, sampling, *terms)
        for terms in ((True, False), (False, False), (False, True))
    )
    sizes = np.zeros(samples + 1)
    for drawn in itertools.product((0, 1), repeat=samples):
        sizes[sum(drawn)] += math.prod(sampling if d else 1 - sampling for d in drawn)
    np.testing.assert_allclose(known.weights, sizes, rtol=1e-12)
    others = [taken for taken in itertools.product((0, 1), repeat=devices - 1) if not any(taken)]
    silent = sum(math.prod(participation if t else 1 - participation for t in taken) for taken in others)
    assert (known.shown, hidden.shown, fixed.shown) == (1, 0, pytest.approx(silent, rel=1e-12))


def delta_of(law, multiplier, rounds, epsilon):
    """delta by enumeration of the batches' sizes of all rounds, whose gradients all point one way, or the other."""
    cases = [(0, 1 - law.participation), *zip(law.sizes, law.participation * law.weights, strict=True)]
    total = 0.0
    for sizes in itertools.product(cases, repeat=rounds):
        mu = math.sqrt(sum(size**2 for size, _ in sizes)) / multiplier
        if mu:
            tails = [stats.norm.logcdf(side * mu / 2 - epsilon / mu) for side in (1, -1)]
            total += math.prod(p for _, p in sizes) * (math.exp(tails[0]) - math.exp(epsilon + tails[1]))
    return total


@pytest.mark.parametrize(
    ("samples", "sampling", "multiplier", "rounds"), [(3, 0.4, 2.0, 3), (4, 0.5, 9.0, 3), (1, 1.0, 0.7, 6)]
)
def test_known_participation_is_the_mixture_of_gaussians_of_all_batches(samples, sampling, multiplier, rounds):
    law = batches.messages(4, samples, 0.6, sampling, True, False)
    found = users.epsilon(law, multiplier, rounds, DELTA)
    expected = optimize.brentq(lambda e: delta_of(law, multiplier, rounds, e) - DELTA, 0, 1000)
    assert expected <= found == pytest.approx(expected, rel=1e-6)
    coarse = users.epsilon(law, multiplier, rounds, 1e-9)  # what transforms round is taken off
    assert coarse >= optimize.brentq(lambda e: delta_of(law, multiplier, rounds, e) - 1e-9, 0, 1000)


def test_a_coarse_grid_of_sums_is_an_upper_bound(monkeypatch):
    law = batches.messages(4, 6, 0.5, 0.5, True, False)
    fine = users.epsilon(law, 5.0, 4, DELTA)
    monkeypatch.setattr(users, "CELLS", 40)
    assert fine < users.epsilon(law, 5.0, 4, DELTA) < 1.3 * fine
    monkeypatch.setattr(users, "ROUNDED", 1.0)  # nothing is left of delta: all records in all rounds
    everything = float(gaussian.exact_epsilon(gaussian.zcdp(6.0, 5.0, 4), DELTA))
    assert users.epsilon(law, 5.0, 4, DELTA) == pytest.approx(everything, rel=1e-9)


def curve(pairs, multiplier, epsilon):
    """delta of rounds of pairs of mixtures ((weight, mean), ...) on a line, by quadrature over their product."""
    x = np.linspace(-10 * multiplier - 4, 10 * multiplier + 4, 801)
    one, other = np.ones(1), np.ones(1)
    for pair in pairs:
        p, q = (sum(w * stats.norm.pdf(x, m, multiplier) for w, m in mixture) * (x[1] - x[0]) for mixture in pair)
        one, other = np.outer(one, p).ravel(), np.outer(other, q).ravel()
    return np.maximum(one - np.exp(epsilon) * other, 0).sum()


@pytest.mark.parametrize("absent", [0.5, 1.0])
@pytest.mark.parametrize(("samples", "sampling", "multiplier"), [(1, 1.0, 1.0), (3, 0.5, 2.0), (4, 1.0, 6.0)])
def test_hidden_participation_bounds_all_pairs_of_users(samples, sampling, multiplier, absent):
    """A user's gradients anywhere in their balls, in two rounds of pairs of their own; where a batch of known size has
    other records instead, these are at the far end.
    """
    participation, delta = 0.4, 1e-3
    law = batches.messages(4, samples, participation, sampling, False, False)

    def mixture(gradient):
        there = -0.5 if absent == 1 else 0.0  # what a record's stand-in adds
        parts = [(1 - participation, samples * there)]
        for size, weight in zip(law.sizes, law.weights, strict=True):
            parts.append((participation * weight, (samples - size) * there + size * gradient))
        return parts

    gradients = [(0.5, -0.5), (-0.5, 0.5), (0.5, 0.0), (0.2, -0.5), (-0.5, 0.0)]
    pairs = [(mixture(one), mixture(other)) for one, other in gradients]
    for rounds in (1, 2):
        epsilon = users.epsilon(law, multiplier, rounds, delta, absent)
        lost = [curve(some, multiplier, epsilon) for some in itertools.product(pairs, repeat=rounds)]
        assert max(lost) <= delta * (1 + 1e-3)
        if (sampling, absent, rounds) == (1, 1, 1):
            assert max(lost) == pytest.approx(delta, rel=2e-3)  # attained


def test_one_record_a_user_that_is_always_taken_is_a_record_sampled_at_the_rate_of_participation():
    law = batches.messages(50, 1, 0.2, 1.0, False, False)
    for absent in (0.5, 1.0):
        expected = sampled.PAIRS["proved"].epsilons(batches.poisson(0.2), 2.0, [60], DELTA, absent)[0]
        found = users.epsilon(law, 2.0, 60, DELTA, absent)
        assert expected * (1 - 1e-6) <= found == pytest.approx(expected, rel=2e-3)


def test_more_is_lost_the_more_is_seen():
    seen = [users.epsilon(batches.messages(90, 8, 0.3, 0.5, *terms), 12.0, 30, DELTA, absent)
            for absent, terms in ((0.5, (False, True)), (1.0, (False, False)), (1.0, (True, False)))]  # fmt: skip
    silent = users.epsilon(batches.messages(2, 8, 0.3, 0.5, False, True), 12.0, 30, DELTA, 0.5)
    assert seen[0] < silent < seen[2]
    assert seen[0] < seen[1] < seen[2]


def test_many_sizes_are_rounded_up(monkeypatch):
    law = batches.messages(9, 60, 0.3, 0.5, False, False)
    assert len(law.sizes) > users.NODES
    few = users.epsilon(law, 60.0, 20, DELTA)
    monkeypatch.setattr(users, "NODES", 1000)
    assert users.epsilon(law, 60.0, 20, DELTA) < few < 1.1 * users.epsilon(law, 60.0, 20, DELTA)


def test_without_chance_it_is_the_gaussian_mechanism_and_without_noise_infinite():
    law = batches.messages(3, 5, 1.0, 1.0, False, True)
    expected = float(gaussian.exact_epsilon(gaussian.zcdp(5.0, 40.0, 7), DELTA))
    assert users.worth(law, 40.0, 7, DELTA) == (expected, Kind.EXACT)
    assert users.worth(batches.messages(3, 5, 0.5, 0.5, True, False), 0.0, 7, DELTA) == (math.inf, Kind.EXACT)


@pytest.mark.parametrize("lost", [0.0, 1e-30])
def test_epsilon_falls_as_delta_grows_from_the_smallest_and_is_never_above_that_of_all_records_in_all_rounds(lost):
    law, last = batches.messages(4, 6, 0.5, 0.5, True, False)._replace(lost=lost), math.inf
    # Transforms round as much as 7e-12, where a bound with what they leave of delta has no more to say.
    for delta in np.sort([1e-100, 1e-30, 1e-16, *np.geomspace(1e-13, 1e-10, 60), 1e-5, 1e-3]):
        found = users.epsilon(law, 5.0, 4, delta)
        assert found <= last
        last = found
        if delta <= 4 * lost:
            assert found == math.inf
        else:
            everything = float(gaussian.exact_epsilon(gaussian.zcdp(6.0, 5.0, 4), delta - 4 * lost))
            assert 0 < found <= everything
