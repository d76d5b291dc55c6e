"""What batch sizes tell of a record: laws by enumeration, epsilons by simulation and on grids."""

import itertools
import math
from collections import defaultdict

import numpy as np
import pytest
from scipy import stats

from pwfl.privacy import sampled
from pwfl.systems.anonymous_oac import batches
from test_sampled import hockey_stick

DELTA = 1e-5


# The laws.


def enumerated(devices, samples, participation, sampling, view):
    """The law of record 0's chance to be in the batch given a view of (participants, batches), by adding up all cases."""
    total, inside = defaultdict(float), defaultdict(float)
    chances = [1 - participation, participation], [1 - sampling, sampling]
    for part in itertools.product((0, 1), repeat=devices):
        for drawn in itertools.product((0, 1), repeat=devices * samples):
            probability = math.prod(chances[0][a] for a in part) * math.prod(chances[1][d] for d in drawn)
            batch = np.array(drawn).reshape(devices, samples) * np.array(part)[:, None]
            seen = view(part, batch.sum(axis=1))
            total[seen] += probability
            inside[seen] += probability * batch[0, 0]
    merged = defaultdict(float)
    for seen, probability in filter(lambda item: item[1] > 0, total.items()):
        merged[round(inside[seen] / probability, 12)] += probability
    return merged


VIEWS = {
    ("anonymous", False, False): lambda part, sizes: None,
    ("identified", False, False): lambda part, sizes: part,
    ("anonymous_read", False, False): lambda part, sizes: sizes.sum(),
    ("identified_read", False, False): lambda part, sizes: (part, sizes.sum()),
    ("identified_read", True, False): lambda part, sizes: (part, *sizes),
    ("anonymous_read", False, True): lambda part, sizes: any(part),
    ("identified_read", False, True): lambda part, sizes: part,
    ("identified_read", True, True): lambda part, sizes: part,
}


@pytest.mark.parametrize(("reading", "local", "fixed"), VIEWS)
@pytest.mark.parametrize(("participation", "sampling"), [(0.3, 0.4), (1.0, 0.7), (0.5, 1.0)])
def test_a_reading_is_what_its_observer_can_infer(reading, local, fixed, participation, sampling):
    expected = enumerated(3, 2, participation, sampling, VIEWS[reading, local, fixed])
    found = batches.readings(3, 2, participation, sampling, local, fixed)[reading]
    merged = defaultdict(float)
    for rate, weight in zip(found.values, found.weights, strict=True):
        merged[round(rate, 12)] += weight
    law, wanted = ({r: w for r, w in weights.items() if w > 1e-15} for weights in (merged, expected))
    assert law == pytest.approx(wanted)
    assert found.lost == 0


@pytest.mark.parametrize("law", [batches.participants_batch, batches.total_batch])
def test_what_is_cut_off_the_laws_of_participants_and_of_batches_counts_as_lost(monkeypatch, law):
    monkeypatch.setattr(batches, "CUT", 1e-2)
    found = law(40, 30, 0.3, 0.2)
    assert found.weights.sum() == pytest.approx(1, abs=1e-12)
    assert found.lost == pytest.approx(2e-2, rel=1e-3)  # of who takes part, and of their batches


def test_what_is_cut_off_and_lost_is_private_at_no_epsilon():
    whole, cut = sampled.Rates(np.array([0.1]), np.ones(1)), sampled.Rates(np.array([0.1]), np.array([0.99]), 0.01)
    assert sampled.PAIRS["tight"].epsilons(cut, 1.0, [1], 0.005)[0] == np.inf
    finite = sampled.PAIRS["tight"].epsilons(cut, 1.0, [1], 0.02)[0]
    assert sampled.PAIRS["tight"].epsilons(whole, 1.0, [1], 0.02)[0] < finite < np.inf


def test_what_is_cut_off_a_law_is_less_than_what_counts_as_lost():
    for count, rate in ((60_000, 0.01), (600, 0.02), (10_000, 0.9), (500, 1e-6)):
        values, weights, cut = batches._binomial(count, rate)
        left_out = stats.binom.cdf(values[0] - 1, count, rate) + stats.binom.sf(values[-1], count, rate)
        assert left_out <= cut == batches.CUT
        assert weights.sum() == pytest.approx(1, abs=1e-11)


# A round of a known batch size is worth the mean of the curves; fewer rates are no optimism.

SETTINGS = [  # devices, records of each, p, q, own batches, multiplier, rounds
    (100, 600, 0.5, 0.02, True, 1.2497918, 1000),
    (100, 600, 0.1, 0.1, False, 1.0, 1000),
    (20, 70, 0.3, 0.3, True, 1.5065218, 60),
    (20, 70, 0.2, 0.5, False, 1.0, 100),
]


@pytest.mark.parametrize("setting", SETTINGS)
def test_few_rates_stand_for_all_and_are_never_better(setting, monkeypatch):
    *law, local, multiplier, rounds = setting
    reading = "identified_read" if local else "anonymous_read"
    few = batches.readings(*law, local, False)[reading]
    monkeypatch.setattr(batches, "NODES", 300)
    many = batches.readings(*law, local, False)[reading]
    assert len(few.values) <= 70
    assert few.weights @ few.values == pytest.approx(many.weights @ many.values, rel=1e-12)
    for adjacency in (sampled.REMOVE, sampled.ADD):
        epsilon = np.linspace(-3, 6, 301)
        curves = [
            sum(w * sampled.hockey_stick(r, epsilon, multiplier, adjacency) for r, w in zip(*pair, strict=True) if r)
            for pair in (few[:2], many[:2])
        ]
        zero = [pair.weights[pair.values == 0].sum() * -np.expm1(np.minimum(epsilon, 0)) for pair in (few, many)]
        assert (curves[0] + zero[0] >= curves[1] + zero[1] - 1e-14).all()
    epsilons = [
        sampled.PAIRS["tight"].epsilons(rates, multiplier, [rounds], DELTA, interval=sampled.COARSE)[0]
        for rates in (few, many)
    ]
    assert epsilons[1] <= epsilons[0] <= 1.0005 * epsilons[1]


@pytest.mark.parametrize(
    ("setting", "reading", "plain", "read"),
    [
        (SETTINGS[0], "identified_read", 1.8282, 1.932),
        (SETTINGS[1], "anonymous_read", 1.8282, 1.950),
        (SETTINGS[2], "identified_read", 5.0280, 5.1466),
    ],
)
def test_reference_values_of_batch_sizes_read(setting, reading, plain, read):
    *law, local, multiplier, rounds = setting
    found = batches.readings(*law, local, False)
    without = found["identified" if local else "anonymous"]
    assert sampled.PAIRS["tight"].epsilons(without, multiplier, [rounds], DELTA)[0] == pytest.approx(plain, abs=2e-4)
    assert sampled.PAIRS["tight"].epsilons(found[reading], multiplier, [rounds], DELTA)[0] == pytest.approx(
        read, abs=5e-4
    )


# Replace-one: what is proved.


@pytest.mark.parametrize("multiplier", [0.3, 1.0, 6.0])
@pytest.mark.parametrize("rate", [0.01, 0.4, 1.0])
def test_a_batch_of_known_size_makes_the_bound_the_larger_of_both_directions(rate, multiplier):
    epsilon = np.linspace(-12, 12, 2001)
    expected = np.maximum(*(sampled.hockey_stick(rate, epsilon, multiplier, a) for a in (sampled.REMOVE, sampled.ADD)))
    np.testing.assert_allclose(sampled.replace_one(rate, epsilon, multiplier, 1.0), expected, rtol=1e-9, atol=3e-15)


@pytest.mark.parametrize(("rate", "multiplier"), [(0.02, 0.7), (0.3, 1.0), (0.9, 3.0)])
@pytest.mark.parametrize("absent", [0.5, 1.0])
def test_the_bound_is_advanced_joint_convexity(rate, multiplier, absent):
    for epsilon in (0.0, 0.2, 1.0):
        a = 1 + math.expm1(epsilon) / rate
        c = math.exp(epsilon) / a
        one, other = (hockey_stick([(1, d)], [(1, 0)], multiplier, math.log(a)) for d in (absent, 1))
        expected = rate * ((1 - c) * one + c * other)
        found = sampled.replace_one(rate, np.array([epsilon, -epsilon]), multiplier, absent)
        assert found[0] == pytest.approx(expected, rel=1e-5)
        assert found[1] == pytest.approx(1 - math.exp(-epsilon) + math.exp(-epsilon) * expected, rel=1e-5)


@pytest.mark.parametrize("multiplier", [0.1, 0.5, 1.0, 4.0, 30.0])
@pytest.mark.parametrize("rate", [1e-3, 0.1, 0.5, 0.99])
@pytest.mark.parametrize("absent", [0.5, 1.0])
def test_the_bound_is_the_curve_of_some_pair(rate, multiplier, absent):
    """Convex and falling in exp(epsilon), between (1 - exp(epsilon))^+ and 1: so it composes."""
    for order in (np.linspace(1e-6, 3, 3001), np.geomspace(1e-6, 1e5, 3001)):
        curve = sampled.replace_one(rate, np.log(order), multiplier, absent)
        slope = np.diff(curve) / np.diff(order)
        assert (slope <= 1e-12).all()
        assert (np.diff(slope) >= -1e-9 - 4e-15 / np.diff(order)[:-1]).all()
        assert (curve >= 1 - order - 1e-15).all()
        assert (curve <= 1).all()


def composed(pairs, multiplier, epsilon):
    """delta of independent rounds, one for each pair of mixtures, on a grid."""
    x = np.linspace(-9 * multiplier - 1, 9 * multiplier + 1, 901)
    one, other = np.ones(1), np.ones(1)
    for pair in pairs:
        p, q = (sum(w * stats.norm.pdf(x, m, multiplier) for w, m in mixture) * (x[1] - x[0]) for mixture in pair)
        one, other = np.outer(one, p).ravel(), np.outer(other, q).ravel()
    return np.maximum(one - np.exp(epsilon) * other, 0).sum()


@pytest.mark.parametrize(("rate", "multiplier", "delta"), [(0.3, 1.0, 1e-3), (0.1, 0.7, 1e-4), (0.6, 2.0, 1e-2)])
def test_rounds_of_any_pairs_stay_below_what_is_proved(rate, multiplier, delta):
    """Every round a pair of its own: a record's gradient, and its place among the others', may change."""

    def mixture(without, present):
        return [(1 - rate, without), (rate, present)]

    gradients = [(0.5, -0.5), (-0.5, 0.5), (0.5, 0.0), (0.0, 0.5), (0.5, -0.2)]
    divided_by_a_constant = [(mixture(0, g), mixture(0, other)) for g, other in gradients]
    of_known_size = [*divided_by_a_constant, (mixture(0, 1), mixture(0, 0)), (mixture(0, 0), mixture(0, 1)),
                     (mixture(-0.5, 0.5), mixture(-0.5, -0.5))]  # fmt: skip
    plain = batches.poisson(rate)
    for absent, pairs in ((0.5, divided_by_a_constant), (1.0, of_known_size)):
        for rounds in (1, 2):
            epsilon = sampled.PAIRS["proved"].epsilons(plain, multiplier, [rounds], delta, absent)[0]
            deltas = [composed(some, multiplier, epsilon) for some in itertools.product(pairs, repeat=rounds)]
            assert max(deltas) <= delta * (1 + 1e-3)
            if absent == 1 and rounds == 1:
                assert max(deltas) == pytest.approx(delta, rel=1e-3)  # attained


def test_reference_values_of_what_is_proved():
    given = batches.poisson(0.1), 1.0, [1000], DELTA
    assert sampled.PAIRS["tight"].epsilons(*given)[0] == pytest.approx(25.2045, abs=1e-3)
    assert sampled.PAIRS["proved"].epsilons(*given)[0] == pytest.approx(31.07, abs=0.01)
    assert sampled.PAIRS["proved"].epsilons(*given, 0.5)[0] == pytest.approx(21.394, abs=0.001)
    assert sampled.PAIRS["opposite"].epsilons(*given)[0] == pytest.approx(17.685, abs=0.001)


def test_without_sampling_what_is_proved_is_the_gaussian_mechanism():
    for absent in (0.5, 1.0):
        exact = sampled.PAIRS["tight"].epsilons(batches.poisson(1.0), 2.0, [50], DELTA)[0]
        assert sampled.PAIRS["proved"].epsilons(batches.poisson(1.0), 2.0, [50], DELTA, absent)[0] == exact
        nearly = sampled.PAIRS["proved"].epsilons(batches.poisson(1 - 1e-9), 2.0, [50], DELTA, absent)[0]
        assert nearly == pytest.approx(exact, rel=1e-4)


@pytest.mark.parametrize("direction", [sampled.REMOVE, sampled.ADD])
def test_both_directions_count(direction, monkeypatch):
    """With nothing to lose in one direction, epsilon is that of the other."""
    whole = sampled.hockey_stick

    def one_sided(rate, epsilon, multiplier, adjacency):
        if adjacency == direction:
            return whole(rate, epsilon, multiplier, adjacency)
        return -np.expm1(np.minimum(epsilon, 0.0))

    monkeypatch.setattr(sampled, "hockey_stick", one_sided)
    found = sampled.PAIRS["tight"].epsilons(batches.poisson(0.3), 1.0, [1], 1e-3)[0]
    mixture = [(0.7, 0), (0.3, 1)], [(1, 0)]
    pair = mixture if direction == sampled.REMOVE else mixture[::-1]
    assert hockey_stick(*pair, 1.0, found) == pytest.approx(1e-3, rel=1e-2)
