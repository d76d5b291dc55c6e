"""The loss difference, Theorem 1's bounds on it, and the searches for the best schedule."""

import sys
from functools import partial
from itertools import permutations, product

import numpy as np
import polars as pl
import pytest
import yaml
from scipy.stats import norm

from conftest import ROOT
from pwfl import scenario
from pwfl.systems.age_aware import age_search, loss_difference, markov, rounds

sys.path.append(str(ROOT / "benchmarks"))

import distinct_times

FALSE_ALARM = 1e-6


def chain(generator, states):
    weights = generator.gamma(0.4, size=(states, states)) + 1e-2
    return weights / weights.sum(axis=1, keepdims=True)


class Instance:
    """Random clients at random times: what the functions of `loss_difference` take, shape (user,)."""

    def __init__(self, generator, samples=None, states=None):
        clients = int(generator.integers(1, 4)) if samples is None else len(samples)
        count = int(generator.integers(2, 5)) if states is None else len(states)
        self.states = np.sort(generator.uniform(0, 200, count)) if states is None else np.array(states)
        self.horizon = int(generator.integers(1, 8))
        self.transition = np.stack([chain(generator, count) for _ in range(clients)])
        self.start = generator.dirichlet(np.full(count, 0.4), size=clients)
        self.samples = generator.integers(1, 400, clients) if samples is None else np.array(samples)
        self.times = generator.integers(0, self.horizon + 1, clients)
        self.scale = generator.choice([0.0, 0.3, 3.0], clients)
        mu = [markov.laws(p, s, self.horizon) for p, s in zip(self.transition, self.start, strict=True)]
        self.law = np.stack([m[t] for m, t in zip(mu, self.times, strict=True)])
        self.final = np.stack([m[-1] for m in mu])
        self.share = self.samples / self.samples.sum()
        self.mean, self.final_mean = self.law @ self.states, self.final @ self.states
        self.variance = self.law @ self.states**2 - self.mean**2
        self.final_variance = self.final @ self.states**2 - self.final_mean**2
        self.divergence = markov.divergence(self.law, self.final)
        self.information = np.log1p(((self.law > 0).sum(axis=1) - 1) / self.samples)
        self.range = np.ptp(self.states)

    def expected(self):
        excess = loss_difference.sampling_excess(self.share, self.samples, self.variance, self.final_variance)
        power = loss_difference.noise_power(self.share, self.scale)
        return loss_difference.expected(self.share * (self.mean - self.final_mean), excess, power)

    def bounds(self, age=True, information=None):
        """The paired and the separate bound."""
        told = self.information if information is None else information, self.divergence * age
        paired = loss_difference.paired_penalty(self.share, self.range, *told)
        paired = paired - loss_difference.paired_offset(self.share, self.samples, self.final_variance)
        separate = loss_difference.separate_penalty(self.share, self.range, *told)
        return (np.stack([paired, separate]) + loss_difference.noise_power(self.share, self.scale)).sum(axis=1)


def test_the_expected_loss_difference_is_that_of_all_outcomes():
    generator = np.random.default_rng(1)
    for _ in range(30):
        one = Instance(generator, generator.integers(1, 3, 2), [0.0, 30.0, 100.0])

        def excess_risk(laws, noise_variance, one=one):
            """Expected squared distance of the average of all samples, and independent noise, from its target."""
            total, owners = 0.0, np.repeat([0, 1], one.samples)
            for outcome in product(range(3), repeat=len(owners)):
                chance = np.prod([laws[owner][state] for owner, state in zip(owners, outcome, strict=True)])
                model = one.states[list(outcome)].mean()
                total += chance * ((model - one.share @ one.final_mean) ** 2 + noise_variance)
            return total

        noise = 2 * ((one.share * one.scale) ** 2).sum()
        exact = excess_risk(one.law, noise) - excess_risk(one.final, 0.0)
        assert one.expected() == pytest.approx(exact, rel=1e-9, abs=1e-9)
        offset = loss_difference.paired_offset(one.share, one.samples, one.final_variance).sum()
        assert offset == pytest.approx(excess_risk(one.final, 0.0), rel=1e-9, abs=1e-9)


def test_the_bounds_are_the_printed_formulas():
    share, information, divergence = np.array([0.25, 0.75]), np.array([0.5, 0.02]), np.array([0.22, 0.0])
    separate = loss_difference.separate_penalty(share, 2.0, information, divergence)
    # alpha R (sqrt((I + D) / 2) + sqrt(D / 2)) with R = 4.
    np.testing.assert_allclose(separate, [0.6 + 0.11**0.5, 0.3], rtol=1e-12)
    paired = loss_difference.paired_penalty(share, 2.0, information, divergence)
    np.testing.assert_allclose(paired, [0.36, 0.03], rtol=1e-12)  # alpha R (I + D) / 2


def mutual_information(law, states, samples):
    """I(mean of the samples; one of them), nats, exactly."""
    joint = {}
    for outcome in product(range(len(states)), repeat=samples):
        chance, mean = np.prod(law[list(outcome)]), round(float(states[list(outcome)].mean()), 9)
        joint[mean, outcome[0]] = joint.get((mean, outcome[0]), 0) + chance
    of_mean, of_first = {}, {}
    for (mean, first), chance in joint.items():
        of_mean[mean] = of_mean.get(mean, 0) + chance
        of_first[first] = of_first.get(first, 0) + chance
    return sum(c * np.log(c / of_mean[m] / of_first[f]) for (m, f), c in joint.items() if c > 0)


def test_the_information_of_a_mean_is_below_its_bound():
    generator = np.random.default_rng(2)
    for _ in range(40):
        states, samples = int(generator.integers(2, 4)), int(generator.integers(1, 6))
        law = generator.dirichlet(np.full(states, 0.7))
        exact = mutual_information(law, np.array([20.0, 50.0, 100.0])[:states], samples)
        assert exact <= np.log1p((states - 1) / samples) + 1e-12
    # With one sample the mean is the sample: the entropy, at most the logarithm of the number of states.
    assert mutual_information(np.full(3, 1 / 3), np.array([20.0, 50.0, 100.0]), 1) == pytest.approx(np.log(3))


def test_theorem_one_holds_with_the_exact_information_too():
    generator = np.random.default_rng(3)
    for _ in range(60):
        one = Instance(generator, generator.integers(1, 5, 2), [20.0, 50.0, 100.0])
        exact = np.array([mutual_information(p, one.states, n) for p, n in zip(one.law, one.samples, strict=True)])
        assert one.expected() <= one.bounds(information=exact)[0] + 1e-9


def test_theorem_one_holds_and_without_its_age_term_does_not():
    """And the paired bound is below the separate one where the data are not hopeless."""
    generator = np.random.default_rng(4)
    violated = np.zeros(2, int)
    for _ in range(1500):
        one = Instance(generator)
        bounds = one.bounds()
        assert (one.expected() <= bounds + 1e-9).all()
        violated += one.expected() > one.bounds(age=False)
        assert bounds[0] <= bounds[1] + 1e-9 or (one.information + one.divergence > 2).any()
    assert (violated > 20).all()


def sampled(generator, one: Instance, draws: int) -> tuple[np.ndarray, rounds.Clients]:
    """Means of clients' samples by the function of the stage train, and what their data follow."""
    clients = rounds.Clients(one.states, one.samples, one.start, one.transition)
    return rounds.sample_means(generator, clients, one.horizon, draws), clients


def test_a_draws_loss_difference_is_that_of_its_two_models():
    generator, best = np.random.default_rng(11), 3.0
    means, noise = generator.normal(3, 2, (4, 3, 6)), generator.laplace(size=(4, 2, 3))
    times, scale = generator.integers(0, 6, (2, 3)), generator.exponential(1, (2, 3))
    share = np.array([0.5, 0.3, 0.2])
    uploaded = rounds.uploads(means[:, np.arange(3), times], scale, noise)
    losses = rounds.loss_differences(uploaded, means[:, :, -1], share, best)
    for draw, case in product(range(4), range(2)):
        private = sum(
            share[k] * (means[draw, k, times[case, k]] + scale[case, k] * noise[draw, case, k]) for k in range(3)
        )
        fresh = sum(share[k] * means[draw, k, 5] for k in range(3))
        assert losses[draw, case] == pytest.approx((private - best) ** 2 - (fresh - best) ** 2)


def test_the_simulation_agrees_with_the_closed_form():
    generator, draws, cases = np.random.default_rng(6), 20_000, 25
    limit, caught = norm.isf(FALSE_ALARM / 2 / cases), 0
    for seed in range(cases):
        one = Instance(generator)
        one.scale = np.full(len(one.samples), 20.0)
        own = np.random.default_rng(seed)
        means, clients = sampled(own, one, draws)
        noise, best = own.laplace(size=(draws, 1, len(one.times))), one.share @ rounds.final_means(clients, one.horizon)
        scales, times = np.outer([1.0, 1.05], one.scale), np.tile(one.times, (2, 1))
        uploaded = rounds.uploads(means[:, np.arange(len(one.times)), times], scales, noise)
        losses = rounds.loss_differences(uploaded, means[:, :, -1], one.share, best)
        score = np.abs(losses.mean(axis=0) - one.expected()) / (losses.std(axis=0) / np.sqrt(draws))
        assert score[0] < limit
        caught += score[1] > limit
    assert caught > 0  # the must-fail twin: noise five per cent too strong


def test_samples_follow_their_chains():
    generator = np.random.default_rng(8)
    one = Instance(generator, samples=[7, 30])
    draws, limit = 40_000, norm.isf(FALSE_ALARM / 200)
    means, _ = sampled(generator, one, draws)
    for k, n in enumerate(one.samples):
        mu = markov.laws(one.transition[k], one.start[k], one.horizon)
        mean = mu @ one.states
        variance = mu @ one.states**2 - mean**2
        score = (means[:, k].mean(axis=0) - mean) / np.sqrt(np.maximum(variance, 1e-12) / n / draws)
        assert np.abs(score).max() < limit
        # Samples keep their chains: the covariance of the means at t and at T is that of one chain over n.
        for t in range(one.horizon):
            joint = mu[t][:, None] * np.linalg.matrix_power(one.transition[k], one.horizon - t)
            covariance = (one.states @ joint @ one.states - mean[t] * mean[-1]) / n
            deviations = (means[:, k, t] - mean[t]) * (means[:, k, -1] - mean[-1])
            assert abs(deviations.mean() - covariance) < limit * deviations.std() / np.sqrt(draws) + 1e-9


def all_schedules(cost, shared, required, common_cost):
    """The least value of all schedules, by a loop."""
    values = []
    for schedule in product(range(cost.shape[1]), repeat=len(cost)):
        picked = list(enumerate(schedule))
        values.append(sum(cost[at] for at in picked) + sum(shared[at] for at in picked) ** 2)
        if common_cost is not None:
            values[-1] += common_cost(min(required[at] for at in picked))
    return min(values)


def random_program(generator, ties):
    clients, times = int(generator.integers(1, 5)), int(generator.integers(1, 6))
    cost, required = generator.exponential(1, (clients, times)), generator.uniform(0.1, 5, (clients, times))
    if ties:
        cost, required = np.ceil(2 * cost), np.ceil(required)
    forbidden = generator.random((clients, times)) < 0.2
    forbidden[np.arange(clients), generator.integers(times, size=clients)] = False
    return np.where(forbidden, np.inf, cost), required


def value_of(times, cost, required, common_cost):
    picked = np.arange(len(times)), times
    return cost[picked].sum() + common_cost(required[picked].min())


@pytest.mark.parametrize("seed", range(8))
def test_the_searches_find_what_the_enumeration_finds(seed):
    generator = np.random.default_rng(seed)
    for trial in range(60):
        cost, required = random_program(generator, ties=trial % 2 == 1)
        weight = generator.choice([0.0, 0.5, 5.0])

        def common(classical, weight=weight):
            return weight / classical**2

        nothing = np.zeros_like(cost)
        times, value, evaluations = age_search.best_separate(cost)
        assert value == pytest.approx(all_schedules(cost, nothing, required, None))
        assert value == pytest.approx(cost[np.arange(len(times)), times].sum())
        assert evaluations == cost.size
        times, value, evaluations = age_search.best_common(cost, required, common)
        assert value == pytest.approx(all_schedules(cost, nothing, required, common))
        assert value_of(times, cost, required, common) == pytest.approx(value)
        assert evaluations <= len(cost) * cost.size
        shared = generator.normal(size=cost.shape)
        for rule in (None, common):
            times, value, evaluations = age_search.enumerate_all(cost, shared, required, rule)
            assert value == pytest.approx(all_schedules(cost, shared, required, rule))
            squared = shared[np.arange(len(times)), times].sum() ** 2
            assert value == pytest.approx(value_of(times, cost, required, rule or np.zeros_like) + squared)
            assert evaluations == cost.shape[1] ** len(cost)


@pytest.mark.parametrize("seed", range(4))
def test_the_best_distinct_times_are_those_of_all_schedules_without_a_time_twice(seed):
    generator = np.random.default_rng(seed)
    infeasible = 0
    for trial in range(60):
        cost, required = random_program(generator, ties=trial % 2 == 1)
        weight = generator.choice([0.0, 0.5, 5.0])

        def common(classical, weight=weight):
            return weight / classical**2

        separate, shared = [], []
        for schedule in permutations(range(cost.shape[1]), len(cost)):
            picked = np.arange(len(cost)), np.array(schedule)
            if np.isfinite(cost[picked]).all():
                separate.append(cost[picked].sum())
                shared.append(separate[-1] + common(required[picked].min()))
        if not separate:
            infeasible += 1
            shared_too = partial(distinct_times.distinct_common, required=required, common_cost=common)
            for search in (distinct_times.distinct_separate, shared_too):
                with pytest.raises(ValueError, match="infeasible"):
                    search(cost)
            continue
        times, value = distinct_times.distinct_separate(cost)
        assert len(set(times)) == len(times)
        assert (value, value_of(times, cost, required, np.zeros_like)) == pytest.approx((min(separate),) * 2)
        times, value = distinct_times.distinct_common(cost, required, common)
        assert len(set(times)) == len(times)
        assert (value, value_of(times, cost, required, common)) == pytest.approx((min(shared),) * 2)
    assert 0 < infeasible < 60


def test_the_page_says_what_distinct_times_cost():
    page = (ROOT / "docs/explanation/age_aware.md").read_text(encoding="utf-8")
    lines = distinct_times.lines()
    assert len(lines) == 14
    for line in lines:
        assert f"  {line}\n" in page
    hundred = scenario.load(yaml.safe_load(distinct_times.CONFIG.read_text()), "age_aware").scenarios["hundred_clients"]
    found = pl.DataFrame(list(distinct_times.compared(hundred, "paired")))
    classic = 2 * (1.8 / found["target"]) ** 2 / 100  # worse than classic DP
    assert (found["distinct_loss_wh2"] > classic).all()
    assert (found["loss_wh2"] <= classic * (1 + 1e-9)).all()


def test_among_equal_optima_the_freshest_data_are_taken():
    cost = np.array([[1.0, 0.0, 0.0, 2.0]])
    assert age_search.best_separate(cost)[0].tolist() == [2]
    assert age_search.best_common(cost, np.ones((1, 4)), lambda c: 0 * c)[0].tolist() == [2]


def test_choosing_times_for_the_expected_loss_difference_holds_the_partition_problem():
    """Why the simulated optimum is enumerated: its minimum tells whether numbers split into equal sums."""
    for numbers, splits in (([3, 1, 1, 2, 2, 1], True), ([3, 1, 1, 2, 2, 8], False)):
        shared = np.array([[-x, x] for x in numbers], float)
        _, value, count = age_search.enumerate_all(np.zeros_like(shared), shared, np.ones_like(shared), None)
        assert (value == 0) == splits
        assert count == 2 ** len(numbers)
