"""Chains, their reverse kernels, and age-dependent privacy, against reference values and independent oracles."""

from itertools import combinations, pairwise, product

import mpmath
import numpy as np
import pytest

from pwfl.systems.age_aware import age, markov

STATES = 4
CHAIN = markov.birth_death(0.3, 0.3, STATES)
START = np.array([0.7, 0.2, 0.1, 0.0])


def random_chain(generator, states, reversible):
    """A random irreducible aperiodic chain; a reversible one by symmetric weights."""
    weights = generator.gamma(0.3, size=(states, states)) + 1e-3
    if reversible:
        weights = weights + weights.T
    return weights / weights.sum(axis=1, keepdims=True)


def random_cases(count, seed):
    generator = np.random.default_rng(seed)
    for _ in range(count):
        states, horizon = int(generator.integers(2, 6)), int(generator.integers(1, 12))
        transition = random_chain(generator, states, generator.random() < 0.5)
        start = generator.dirichlet(np.full(states, 0.5))
        yield transition, start if generator.random() < 0.7 else markov.stationary(transition), horizon


def exact_total_variation(transition, start, horizon):
    return markov.total_variation(markov.reverse_kernels(transition, start, horizon))


@pytest.mark.parametrize(
    ("gap", "delta", "bound", "epsilon", "required"),
    [(2, 0.82, 0.960833, 0.879208, 1.129938), (10, 0.174747, 0.204729, 0.262568, 2.382595)],
)
def test_reference_values_from_the_stationary_law(gap, delta, bound, epsilon, required):
    pi = markov.stationary(CHAIN)
    exact = exact_total_variation(CHAIN, pi, 15)[15 - gap]
    assert round(exact, 6) == delta
    assert round(markov.total_variation_bound(CHAIN, pi, 15)[15 - gap], 6) == bound
    assert round(float(age.age_epsilon(1.0, exact)), 6) == epsilon
    assert round(float(age.required_epsilon(1.0, exact)), 6) == required


def test_reference_values_of_another_start_law_and_of_the_decay():
    assert round(exact_total_variation(CHAIN, START, 5)[2], 5) == 0.55458
    assert round(exact_total_variation(CHAIN, markov.stationary(CHAIN), 5)[2], 3) == 0.676
    assert (1 - markov.spectral_gap(CHAIN)) ** 2 == pytest.approx(0.6795, abs=1e-4)  # the exact distance is 0.82


@pytest.mark.parametrize(("up", "down"), [(0.3, 0.3), (0.05, 0.6), (0.9, 0.1), (0.2, 0.01)])
def test_eigenvalues_of_the_birth_death_chain(up, down):
    chain = markov.birth_death(up, down, STATES)
    formula = [1.0, *(1 - up - down + 2 * np.sqrt(up * down) * np.cos(j * np.pi / 4) for j in (1, 2, 3))]
    np.testing.assert_allclose(np.sort(np.linalg.eigvals(chain).real), np.sort(formula), atol=1e-12)
    gap = 1 - np.sort(np.abs(formula))[-2]
    assert markov.spectral_gap(chain) == pytest.approx(gap)
    assert markov.contraction(chain) == pytest.approx(1 - gap)


def test_reverse_kernels_are_bayes_over_all_paths():
    for transition, start, _ in random_cases(20, seed=1):
        states, horizon = len(start), 4
        joint = np.zeros((horizon + 1, states, states))  # of the state at T and that at t
        for path in product(range(states), repeat=horizon + 1):
            weight = start[path[0]] * np.prod([transition[a, b] for a, b in pairwise(path)])
            for t, state in enumerate(path):
                joint[t, path[-1], state] += weight
        kernels = markov.reverse_kernels(transition, start, horizon)
        np.testing.assert_allclose(kernels, joint / joint.sum(axis=2, keepdims=True), atol=1e-12)


def test_states_that_are_impossible_at_the_end_are_not_asked_about():
    kernels = markov.reverse_kernels(CHAIN, np.array([1.0, 0, 0, 0]), 2)
    assert kernels.shape == (3, 3, 4)  # the fourth state is three steps away
    assert np.isfinite(kernels).all()
    assert markov.total_variation(kernels)[0] == pytest.approx(0, abs=1e-13)  # all start in the first one
    assert markov.total_variation_bound(CHAIN, np.eye(4)[0], 0).tolist() == [0]  # nor is there another one to tell from


def test_total_variation_is_the_largest_difference_over_events():
    for transition, start, horizon in random_cases(20, seed=2):
        kernels = markov.reverse_kernels(transition, start, horizon)
        events = [list(e) for r in range(1, len(start)) for e in combinations(range(len(start)), r)]
        for t in range(horizon + 1):
            chance = np.array([kernels[t][:, e].sum(axis=1) for e in events])
            largest = (chance.max(axis=1) - chance.min(axis=1)).max()
            assert markov.total_variation(kernels)[t] == pytest.approx(min(largest, 1), abs=1e-12)


def exact_distances(transition, start, horizon):
    """Total variation of the reverse kernels, t = 0..T, in 60 digits, of the chain as floating point has it."""
    with mpmath.workdps(60):
        p, states = mpmath.matrix(transition.tolist()), range(len(start))
        powers = [mpmath.eye(len(start))]
        for _ in range(horizon):
            powers.append(powers[-1] * p)
        law = [mpmath.matrix([start.tolist()]) * power for power in powers]
        kernels = [
            [[law[t][a] * powers[horizon - t][a, x] / law[-1][x] for a in states] for x in states]
            for t in range(horizon + 1)
        ]
        pairs = list(combinations(states, 2))
        return [max(sum(abs(a - b) for a, b in zip(k[x], k[y], strict=True)) / 2 for x, y in pairs) for k in kernels]


def test_the_distance_of_long_ages_is_never_understated():
    distances = exact_total_variation(CHAIN, START, 200)
    for distance, exact in zip(distances[:-1], exact_distances(CHAIN, START, 200), strict=False):
        assert exact <= distance <= exact + 1e-11


def test_no_distance_is_understated_though_sums_are_rounded():
    """At most 1, which is where the freshest data stand; below it sums alone are too small as often as too large."""
    below = above = 0
    for transition, start, horizon in random_cases(60, seed=8):
        exact, kernels = exact_distances(transition, start, horizon), markov.reverse_kernels(transition, start, horizon)
        distances = markov.total_variation(kernels)
        sums = np.abs(kernels[:, :, None] - kernels[:, None]).sum(axis=-1).max(axis=(1, 2)) / 2
        for t in range(horizon):
            assert mpmath.mpf(distances[t]) >= exact[t]
            below, above = below + (sums[t] < exact[t]), above + (sums[t] > exact[t])
        assert (distances - sums <= 1e-12).all()
    assert min(below, above) > 20  # what the rounding is for


def test_the_provable_bound_holds_for_every_start_law_and_older_data_tell_no_more():
    below = 0
    for transition, start, horizon in random_cases(400, seed=3):
        exact = exact_total_variation(transition, start, horizon)
        bound = markov.total_variation_bound(transition, start, horizon)
        assert (exact <= bound + 1e-9).all()
        assert (np.diff(exact) >= -1e-12).all()
        assert exact[-1] == 1
        decay = (1 - markov.spectral_gap(transition)) ** np.arange(horizon, -1, -1)
        below += (decay < exact - 1e-9).any()
    assert below > 100  # the must-fail twin: without its constant it is no bound


def test_required_and_age_dependent_epsilon_are_inverse():
    generator = np.random.default_rng(5)
    target, distance = generator.uniform(1e-3, 10, 500), generator.uniform(1e-9, 1, 500)
    required = age.required_epsilon(target, distance)
    assert (required >= target * (1 - 1e-12)).all()
    np.testing.assert_allclose(age.age_epsilon(required, distance), target, rtol=1e-12)
    np.testing.assert_allclose(age.age_epsilon(target, 1.0), target, rtol=1e-12)
    assert age.age_epsilon(5.0, 0.0) == 0
    assert age.age_epsilon(np.inf, 0.0) == 0
    assert age.age_epsilon(np.inf, 0.5) == np.inf
    assert age.age_epsilon(2000.0, 0.5) == pytest.approx(2000 + np.log(0.5))
    assert age.age_epsilon(699.999, 0.5) == pytest.approx(699.999 + np.log(0.5), rel=1e-12)
    assert age.required_epsilon(1.0, 0.0) == np.inf


def test_randomized_response_of_old_data_never_leaks_more_than_said_and_can_leak_as_much():
    """Exact, by the law of the output: of all classical mechanisms randomized response is the worst."""
    attained = 0
    for transition, start, horizon in random_cases(200, seed=6):
        if len(start) != 2:
            continue
        kernels = markov.reverse_kernels(transition, start, horizon)
        for classical in (0.1, 1.0, 4.0):
            response = np.array([[np.exp(classical), 1], [1, np.exp(classical)]]) / (1 + np.exp(classical))
            output = kernels @ response
            leaked = np.log(output.max(axis=1) / output.min(axis=1)).max(axis=1)
            said = age.age_epsilon(classical, markov.total_variation(kernels))
            assert (leaked <= said + 1e-9).all()
            attained += (leaked[-1] == pytest.approx(said[-1])) and said[-1] == pytest.approx(classical)
    assert attained > 20
    # Where one present state rules out a past one, the formula is attained for old data, too.
    kernel = np.array([[[1.0, 0.0], [0.6, 0.4]]])
    response = np.array([[1, np.e], [np.e, 1]]) / (1 + np.e)
    output = kernel @ response
    assert np.log(output.max(axis=1) / output.min(axis=1)).max() == pytest.approx(np.log(1 + 0.4 * (np.e - 1)))


def laplace_log_ratio(kernel, states, scale):
    """Largest log ratio of the densities of X_t + Laplace noise given two states at T, n = 1; exact at the kinks.

    Between kinks the ratio of two sums of exponentials e^{+-y/b} is monotone, so the extremes lie at states.
    """
    density = np.exp(-np.abs(states[:, None] - states) / scale)  # (output, past state), unscaled
    chance = kernel @ density.T
    return np.log(chance.max(axis=0) / chance.min(axis=0)).max()


def test_the_laplace_mechanism_meets_every_target_and_an_unsafe_distance_does_not():
    """The audit: noise as the stages make it, leakage from the exact law of what is uploaded."""
    states = np.array([20.0, 50.0, 100.0, 200.0])
    unsafe_worst = 0.0
    for up, down in ((0.3, 0.3), (0.05, 0.05), (0.4, 0.3), (0.4, 0.05)):
        chain = markov.birth_death(up, down, STATES)
        for start in (markov.stationary(chain), START):
            kernels = markov.reverse_kernels(chain, start, 12)
            exact = markov.total_variation(kernels)
            decay = (1 - markov.spectral_gap(chain)) ** np.arange(12, -1, -1)
            for target, t in product((0.1, 1.0, 3.0), range(13)):
                required = (age.required_epsilon(target, distance[t]) for distance in (exact, decay))
                scales = (age.laplace_scale(180.0, epsilon) for epsilon in required)
                safe, unsafe = (laplace_log_ratio(kernels[t], states, scale) for scale in scales)
                assert safe <= target * (1 + 1e-9)
                unsafe_worst = max(unsafe_worst, unsafe / target)
    assert unsafe_worst > 1.05  # the must-fail twin


def grid_log_ratio(kernel, states, scale, step):
    """The largest log-ratio of an upload's densities given two present states, over pairs and a grid of uploads."""
    worst = 0.0
    uploads = np.arange(states.min() - 3 * scale, states.max() + 3 * scale, step * scale)
    for first, other in combinations(kernel, 2):
        of_first, of_other = (
            sum(p * np.exp(-np.abs(uploads - state) / scale) / 2 / scale for p, state in zip(law, states, strict=True))
            for law in (first, other)
        )
        worst = max(worst, np.abs(np.log(of_first / of_other)).max())
    return worst


def test_the_exact_epsilon_is_the_largest_log_ratio_over_a_grid_of_uploads_and_pairs():
    generator, step, below = np.random.default_rng(8), 1e-3, []
    for transition, start, horizon in random_cases(60, seed=9):
        kernels = markov.reverse_kernels(transition, start, horizon)
        states, classical = generator.normal(size=len(transition)) * 50, 10 ** generator.uniform(-1, 1, 3)
        t = int(generator.integers(horizon + 1))
        found = age.exact_epsilon(classical, kernels[t], states)
        delta = markov.total_variation(kernels)[t]
        for epsilon, epsilon_c in zip(found, classical, strict=True):
            looked_at = grid_log_ratio(kernels[t], states, np.ptp(states) / epsilon_c, step)
            # Between places of the grid, the log-ratio changes by at most 2 step / 2.
            assert looked_at <= epsilon + 1e-9 <= looked_at + step + 2e-9
            assert epsilon <= age.age_epsilon(epsilon_c, delta) * (1 + 1e-9)
            below.append(epsilon / age.age_epsilon(epsilon_c, delta))
    assert min(below) < 0.8  # what the bound (1) says beyond it
    assert np.mean(np.array(below) > 0.99) > 0.05


def test_the_largest_loss_may_be_at_an_upload_between_the_extremes():
    states, kernel = np.array([0.0, 1.0, 2.0]), np.array([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]])
    [epsilon] = age.exact_epsilon(np.array([2.0]), kernel, states)
    assert epsilon == pytest.approx(1.0)  # ln 1 / e^-1 in the middle; far out ln cosh 1
    assert epsilon > np.log(np.cosh(1.0)) + 0.5


def test_divergence():
    law, other = np.array([0.5, 0.5, 0]), np.array([0.25, 0.25, 0.5])
    assert markov.divergence(law, other) == pytest.approx(np.log(2))
    assert markov.divergence(np.array([0.5, 0.5]), np.array([1.0, 0.0])) == np.inf
    assert markov.divergence(other, other) == 0


def test_flaws_of_chains_agree_with_their_eigenvalues():
    generator = np.random.default_rng(7)
    kinds = {None: 0, "reducible": 0, "periodic": 0}
    for _ in range(600):
        states = int(generator.integers(2, 5))
        weights = generator.random((states, states)) * (generator.random((states, states)) < 0.45)
        weights[np.arange(states), generator.integers(states, size=states)] += 0.1
        chain = weights / weights.sum(axis=1, keepdims=True)
        values = np.linalg.eigvals(chain)
        # Oracle: one eigenvalue 1 with a positive left vector means irreducible; others on the circle, periodic.
        ones = (np.abs(values - 1) < 1e-7).sum()
        irreducible = ones == 1 and (markov.stationary(chain) > 1e-9).all()
        expected = None if irreducible else "reducible"
        if irreducible and (np.abs(values) > 1 - 1e-7).sum() > 1:
            expected = "periodic"
        flaw = markov.matrix_flaw(chain)
        assert (flaw is None) == (expected is None), (chain, flaw)
        assert expected is None or expected in flaw
        kinds[expected] += 1
    assert min(kinds.values()) > 10
