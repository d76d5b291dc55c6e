"""Lower bounds on epsilon: below the truth as often as they say, close to it, and blind to nothing they should see."""

import numpy as np
import pytest
from scipy import stats

from pwfl.privacy import lower_bounds
from pwfl.privacy.gaussian import exact_epsilon

DELTA = 1e-5


def gaussian_scores(mu, count, seed):
    generator = np.random.default_rng(seed)
    first = generator.random(count) < 0.5
    return first, np.where(first, mu / 2, -mu / 2) + generator.standard_normal(count)


def truth(mu):
    return float(exact_epsilon(np.array([mu**2 / 2]), DELTA)[0])


@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
def test_bounds_are_above_the_truth_no_more_often_than_they_say(mu):
    alarm, tries = 0.1, 200
    above = {"any law": 0, "normal": 0}
    for seed in range(tries):
        first, scores = gaussian_scores(mu, 200, seed)
        above["any law"] += lower_bounds.epsilon_lower(first, scores, DELTA, alarm) > truth(mu)
        above["normal"] += lower_bounds.gaussian_epsilon_lower(first, scores, DELTA, alarm) > truth(mu)
    # A count above this has a probability of 1e-6 at the stated rate.
    limit = stats.binom.isf(1e-6, tries, alarm)
    assert max(above.values()) <= limit


@pytest.mark.parametrize(("mu", "share"), [(0.5, 0.85), (1.0, 0.9), (4.0, 0.95)])
def test_many_normal_scores_come_close_to_the_truth(mu, share):
    first, scores = gaussian_scores(mu, 40_000, 0)
    low = lower_bounds.gaussian_epsilon_lower(first, scores, DELTA)
    assert share * truth(mu) < low < truth(mu)


def test_randomized_response_is_found_whatever_its_law():
    # Says the coin with odds e^2: epsilon 2 exactly, which a threshold between the two answers attains.
    generator = np.random.default_rng(1)
    first = generator.random(100_000) < 0.5
    said = np.where(generator.random(len(first)) < 1 / (1 + np.exp(-2)), first, ~first)
    scores = np.where(said, 1.0, -1.0)
    low = lower_bounds.epsilon_lower(first, scores, 0.0)
    assert 1.85 < low < 2
    assert lower_bounds.epsilon_lower(~first, -scores, 0.0) == pytest.approx(low, rel=0.02)


def test_what_only_one_side_shows_is_found():
    # A mechanism that gives the second record away with probability 0.1 and else nothing: no epsilon at delta < 0.1.
    generator = np.random.default_rng(2)
    first = generator.random(20_000) < 0.5
    scores = np.where(~first & (generator.random(len(first)) < 0.1), -1.0, 0.0)
    assert lower_bounds.epsilon_lower(first, scores, DELTA) > 3.5
    assert lower_bounds.epsilon_lower(first, scores, 0.2) == 0


SILENT = np.random.default_rng(3)
NOTHING = {
    "scores of noise": (SILENT.random(5000) < 0.5, SILENT.standard_normal(5000)),
    "one side alone": (np.full(100, True), np.arange(100.0)),
    "equal scores": (np.arange(100) % 3 == 0, np.zeros(100)),
    **{f"{count} scores": (np.arange(count) % 2 == 0, np.arange(count, dtype=float)) for count in range(4)},
}


@pytest.mark.parametrize("what", NOTHING)
def test_scores_that_say_nothing_bound_nothing(what):
    assert lower_bounds.epsilon_lower(*NOTHING[what], DELTA) == 0
    if what not in ("one side alone", "equal scores"):
        assert lower_bounds.gaussian_epsilon_lower(*NOTHING[what], DELTA) == lower_bounds.mu_lower(*NOTHING[what]) == 0


def test_delta_counts():
    first, scores = gaussian_scores(2.0, 20_000, 4)
    at = [lower_bounds.gaussian_epsilon_lower(first, scores, delta) for delta in (1e-6, 0.1)]
    assert at[0] > at[1] + 1


def test_a_weak_tell_is_found_by_the_threshold_that_no_data_chose():
    # mu 0.3, as a rarely sampled record: half of the canaries would not be enough.
    found = [lower_bounds.epsilon_lower(*gaussian_scores(0.3, 4000, seed), DELTA) for seed in range(20)]
    chosen = [lower_bounds._chosen(*gaussian_scores(0.3, 4000, seed), DELTA, 1e-4) for seed in range(20)]
    assert np.median(found) > 0.03 > np.median(chosen)
    assert max(found) < truth(0.3)


def test_a_threshold_chosen_on_some_canaries_is_tried_on_others():
    # Scores that say nothing: chosen and tried on the same ones, a threshold would find something in a third of tries.
    tries, alarm, found = 200, 0.2, 0
    for seed in range(tries):
        generator = np.random.default_rng(seed)
        first = generator.random(2000) < 0.5
        found += lower_bounds._chosen(first, generator.standard_normal(2000), 0.0, alarm) > 0
    assert found <= stats.binom.isf(1e-6, tries, alarm)


@pytest.mark.parametrize(("hits", "misses"), [(0, 0), (7, 0), (40, 3), (50, 60), (1, 60)])
def test_shares_are_bounded_as_by_a_binomial_test(hits, misses):
    # 50 canaries were the first record and 60 were not; so many of each scored above the threshold 0.
    first = np.arange(110) < 50
    scores = np.concatenate([np.arange(50) < hits, np.arange(60) < misses]) - 0.5
    least, most = (
        stats.binomtest(k, n, alternative=side).proportion_ci(1 - 0.05, method="exact")
        for k, n, side in ((hits, 50, "greater"), (misses, 60, "less"))
    )
    expected = np.log((least.low - 0.01) / most.high) if least.low > 0.01 else -np.inf
    found = lower_bounds._log_ratio(first, scores, np.zeros(1), 0.01, 0.1)[0]
    assert found == pytest.approx(expected, rel=1e-9)


def test_few_normal_scores_are_bounded_by_their_spreads_upper_end():
    tries, alarm = 3000, 0.02
    above = sum(lower_bounds.mu_lower(*gaussian_scores(1.0, 5, seed), alarm) > 1.0 for seed in range(tries))
    assert above <= stats.binom.isf(1e-6, tries, alarm)
