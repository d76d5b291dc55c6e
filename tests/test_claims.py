"""Bands, intervals and verdicts of claims, against closed forms, scipy, simulated coverage and made-up worlds."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from scipy import stats

from pwfl.privacy import sampled
from pwfl.privacy.gaussian import tight_epsilon
from pwfl.report import claims, measures, statements
from pwfl.report.claims import PAPER as PAPERS
from pwfl.report.claims import PROJECT, Band, Claim, Interpretation, Quantity, combine_means, statistic, value
from pwfl.report.measures import Measure, difference, ratio
from pwfl.scenario import resolve
from pwfl.scenario.resolution import merge
from pwfl.scenario.values import plain, replaced
from pwfl.systems.anonymous_oac import claims as anonymous_oac_claims
from pwfl.systems.multicell import claims as multicell_claims
from pwfl.systems.random_orthogonalization import claims as random_orthogonalization_claims
from pwfl.systems.utility_fair import claims as utility_fair_claims


@pytest.mark.parametrize(
    ("band", "text", "yes", "undecided", "no"),
    [
        (Band(below=0), "< 0", [(-2, -1), (None, -1)], [(-2, 0), (None, None), (np.nan, np.nan)], [(0, 1), (1, None)]),
        (Band(most=0), "<= 0", [(-2, 0)], [(0, 1)], [(1e-9, 1)]),
        (Band(above=0.06), "> 0.06", [(0.07, 1)], [(0.06, 1)], [(-1, 0.06)]),
        (Band(least=8), ">= 8", [(8, 9)], [(7, 8)], [(7, 7.9)]),
        (Band(least=0.9, most=1), "0.9 to 1", [(0.9, 1)], [(0.8, 1.1)], [(1.01, 1.1), (0.1, 0.89)]),
        (Band(least=-0.05, below=0), ">= -0.05, < 0", [(-0.05, -0.01)], [], [(0, 0.01)]),
    ],
)
def test_the_interval_decides(band, text, yes, undecided, no):
    assert str(band) == text
    for expected, intervals in (("supported", yes), ("inconclusive", undecided), ("refuted", no)):
        for interval in intervals:
            assert claims.verdict(Measure(0, *interval, measures.STUDENT, 9), band) == expected


ONE_NUMBER = Claim(
    id="X-1",
    statement="A number is as it is said to be.",
    source="Sec. V",
    quantity=Quantity(None, "a number"),
    compare=value("number"),
    required=Band(most=1),
)


def rows_of(claim: Claim, *series: dict, interpretations=()) -> list[dict]:
    """Rows of a claim about scenarios with these values."""
    contents = {f"s{k}": {"scenario": described(seed=k), "values": each} for k, each in enumerate(series)}
    return claims.measure([claim], contents, lambda content: content["values"], interpretations).rows(named=True)


def row_of(found: Measure, **given) -> dict:
    """The row of a claim whose number is this measure."""
    claim = replace(ONE_NUMBER, **{"compare": statistic("it", lambda _: found, value("number"))} | given)
    (row,) = rows_of(claim, {"number": 0})
    return row


def test_a_number_without_an_interval_decides_by_itself_and_says_so():
    for found in (measures.fixed(2.0), measures.counted(2.0, 7)):
        for band, expected in ((Band(above=1), "supported"), (Band(above=2), "refuted")):
            line = row_of(found, required=band)
            ends = line["measured_ci_low"], line["measured_ci_high"]
            assert (line["verdict"], line["measured"], *ends) == (expected, 2.0, None, None)
            assert line["interval"].startswith("none: ")
    assert claims.verdict(measures.fixed(np.inf), Band(above=100)) == "supported"
    assert claims.verdict(measures.fixed(np.nan), Band(above=100)) == "not measured"


def test_a_claim_is_measured_where_there_is_all_that_it_names_and_says_what_it_was_asked():
    claim = replace(ONE_NUMBER, compare=combine_means("a less b", difference, value("a"), value("b")))
    series = {"a": np.array([3.0, np.nan, 5.0]), "b": np.array([1.0, 2.0, 3.0, 9.0])}
    (line,) = rows_of(claim, series)
    assert (line["claim"], line["scenario"], line["against"]) == ("X-1", "s0", None)
    assert (line["origin"], line["source"], line["quantity"]) == (PROJECT, "Sec. V", "a number: a less b")
    assert (line["measured"], line["required_range"], line["realizations"]) == (2.0, "<= 1", 2)
    lacking = ({"a": series["a"]}, series | {"b": None}, series | {"b": np.array([np.nan])})
    assert not any(rows_of(claim, some) for some in lacking)
    zero = replace(ONE_NUMBER, compare=statistic("share", measures.counted, value("share"), value("count")))
    (line,) = rows_of(zero, {"share": 0.0, "count": 7})
    assert (line["verdict"], line["realizations"]) == ("supported", 7)


def test_arithmetic_on_schemes_is_that_of_their_means_in_words_and_ranges():
    first, other = claims.scheme("a", "x", "A"), claims.scheme("b", "y", "B")
    generator = np.random.default_rng(5)
    values = {(("a", "x"), "v"): generator.uniform(1, 2, 9), (("b", "y"), "v"): generator.uniform(1, 2, 9)}
    values |= {(("a", "x"), "w"): generator.uniform(1, 2, 9)}
    a, b, w = (each.mean() for each in values.values())
    share = Quantity("v", "share", claims.SHARE)
    for term, expected, words, ends in (
        (first - other, a - b, "A - B", (-1, 1)),
        (first / other, a / b, "A / B", (0, np.inf)),
        (first / other - 1, a / b - 1, "A / B - 1", (-1, np.inf)),
        (1 - first / other, 1 - a / b, "1 - (A / B)", (-np.inf, 1)),
        (first - (other - first), a - (b - a), "A - (B - A)", (-1, 2)),
        (first["w"] / first, w / a, "(w of A) / A", (0, np.inf)),
        ((first - other) / other, (a - b) / b, "(A - B) / B", (-np.inf, np.inf)),
    ):
        (line,) = rows_of(replace(ONE_NUMBER, quantity=share, compare=term), values)
        assert line["measured"] == pytest.approx(expected, rel=1e-12)
        assert (line["quantity"], term.range(share.bounds)) == (f"share: {words}", ends)


def test_scenarios_are_compared_as_a_term_says_and_each_number_of_a_claim_has_a_row():
    first, other = claims.scheme("a", "x", "A"), claims.scheme("b", "y", "B")
    later = claims.larger("seed", "at a larger seed")
    values = [
        {(pair, "v"): np.full(3, k + shift) for shift, pair in enumerate((("a", "x"), ("b", "y")))} for k in (1, 5)
    ]
    claim = replace(ONE_NUMBER, quantity=Quantity("v", "v"), compare=(first.at(later) - first, other.at(later) - first))
    found = rows_of(claim, *values)
    assert [(row["scenario"], row["against"], row["measured"]) for row in found] == [
        ("s1", "s0", 4.0),
        ("s1", "s0", 5.0),
    ]
    assert [row["quantity"] for row in found] == ["v: A at a larger seed - A", "v: B at a larger seed - A"]
    every = claims.pairs("later", "seed", matches=lambda one, of: of.seed > one.seed, together=True)
    several = replace(claim, compare=statistic("sum", lambda of, others: measures.fixed(of.sum() + sum(map(np.sum, others))),
                                               first, first.at(every)))  # fmt: skip
    (row,) = rows_of(several, *values, {(("a", "x"), "v"): np.ones(2)})[:1]
    assert (row["scenario"], row["against"], row["measured"]) == ("s1 and s2", "s0", 3.0 + 15.0 + 2.0)
    by_scenario = replace(claim, compare=lambda scenario: {f"seed {scenario.seed}": first})
    assert [row["quantity"] for row in rows_of(by_scenario, *values)] == ["v: A; seed 0", "v: A; seed 1"]


def test_rows_name_the_interpretation_that_they_are_measured_under():
    reading = Interpretation("I1", "Which seed.", "0.", {"seed": (0,)})
    twice = statistic("it", lambda n: measures.fixed(2 * n[0]), value("number"))
    claim = replace(ONE_NUMBER, setting={}, otherwise={"I2: twice": twice})
    found = rows_of(claim, {"number": np.full(2, 1.0)}, interpretations=[reading])
    assert [(row["interpretation"], row["measured"]) for row in found[1:]] == [("I2: twice", 2.0)]
    both = rows_of(claim, {"number": np.full(2, 1.0)}, {"number": np.full(2, 1.0)}, interpretations=[reading])
    assert [row["interpretation"] for row in both if row["measured"] == 1.0] == [None, "I1: seed 1"]
    two = {"number": np.full(2, 1.0)}, {"number": np.full(2, 1.0)}
    for of, names in ((claim, ("F9-9",)), (replace(claim, setting=None), ())):  # of another claim, and of no paper's
        rows = rows_of(of, *two, interpretations=[reading._replace(concerns=names)])
        assert {row["interpretation"] for row in rows} == {None, "I2: twice"}
    rows = rows_of(claim, *two, interpretations=[reading._replace(concerns=(claim.id,))])
    assert [row["interpretation"] for row in rows if row["measured"] == 1.0] == [None, "I1: seed 1"]


def test_an_interval_ends_where_the_quantity_does():
    found = measures.estimate(lambda means: 1 - ratio(means), [[0.001, 0.002, 0.012], [1.0, 1.0, 1.0]])
    assert found.low < 0.99 < 1 + 1e-4 < found.high  # as a share cannot be
    lines = [
        row_of(
            found,
            required=Band(least=0.97, most=1),
            compare=statistic("it", lambda _: found, value("number"), bounds=b),
        )
        for b in (claims.UNBOUNDED, (-np.inf, 1.0))
    ]
    assert [line["verdict"] for line in lines] == ["inconclusive", "supported"]
    assert [line["measured_ci_high"] for line in lines] == [found.high, 1.0]
    # Nothing else moves: neither the other end, nor one that is not known.
    assert lines[0]["measured_ci_low"] == lines[1]["measured_ci_low"] == found.low
    one = row_of(measures.estimate(ratio, [[1.0], [2.0]]))
    assert (one["measured_ci_low"], one["measured_ci_high"], one["verdict"]) == (None, None, "inconclusive")


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.04, 0.06, "refuted"),
        (0.07, 0.09, "refuted"),
        (0.04, 0.06256, "supported"),  # a number that rounds to the reported one
        (0.06264, 0.09, "supported"),
        (0.04, 0.09, "supported"),
        (None, 0.05, "refuted"),
        (None, 0.09, "inconclusive"),
        (0.04, None, "inconclusive"),
        (0.07, None, "refuted"),
    ],
)
def test_a_reported_number_has_to_lie_in_the_measured_interval(low, high, expected):
    reported = claims.Reported(0.0626, 0.06255, 0.06265)
    found = row_of(Measure(0.05, low, high, measures.STUDENT, 9), reported="6.26%", required=reported)
    assert (found["verdict"], found["required_range"]) == (expected, "interval contains 0.0626")
    # A fact is its own interval.
    assert row_of(measures.fixed(0.0626), required=reported)["verdict"] == "supported"
    assert row_of(measures.fixed(0.0627), required=reported)["verdict"] == "refuted"


def test_a_maximum_of_too_few_realizations_does_not_support_a_reported_one():
    values, half = np.array([0.2, 0.48]), claims.Reported(0.5, 0.45, 0.55)
    for bound, expected in ((4.0, "inconclusive"), (0.5, "supported")):
        assert row_of(measures.maximum(values, 100, bound), required=half)["verdict"] == expected
    assert row_of(measures.maximum(values * 2, 100, 4.0), required=half)["verdict"] == "refuted"
    assert row_of(measures.maximum(values, 2, 4.0), required=half)["verdict"] == "supported"


def test_a_setting_allows_combinations_of_values():
    claim = replace(ONE_NUMBER, setting={("seed", "realizations"): ((0, 5), (1, 7)), "system": ("multicell",)})
    for seed, count, expected in ((0, 5, True), (1, 7, True), (0, 7, False), (1, 5, False)):
        own = described(seed=seed, realizations=count, training_realizations=1)
        assert claims.in_setting(claim, [own]) == expected


def test_a_claim_counts_once_and_has_to_hold_in_each_scenario_of_its_setting():
    columns = ["claim", "scenario", "against", "interpretation", "origin", "verdict"]
    rows = [("always", name, None, None, PAPERS, "supported") for name in "abcdef"]
    rows += [("mostly", n, None, None, PAPERS, "inconclusive" if n == "f" else "supported") for n in "abcdef"]
    rows += [("pairs", "b", "a", None, PAPERS, "refuted"), ("pairs", "c", "a", None, PAPERS, "supported")]
    rows += [("never", name, None, None, PAPERS, "refuted") for name in "ab"]
    rows += [
        ("unclear", "a", None, None, PAPERS, "inconclusive"),
        ("undefined", "a", None, None, PAPERS, "not measured"),
    ]
    rows += [("read", "a", None, reading, PAPERS, of) for reading, of in ((None, "supported"), ("I2: x", "refuted"))]
    rows += [("read in part", "a", None, r, PAPERS, of) for r, of in ((None, "supported"), ("I2: x", "inconclusive"))]
    rows += [("otherwise alone", "a", None, "I2: x", PAPERS, "supported")]
    rows += [("always", "learns otherwise", None, None, PAPERS, None), ("elsewhere", "a", None, None, PAPERS, None)]
    rows += [("own", name, None, None, PROJECT, "supported") for name in "abc"]
    table = pl.DataFrame(rows, schema=columns, orient="row").with_columns(
        no_user_scheduled=0, system=pl.lit("multicell"), statement=pl.col("claim") + " it is."
    )
    found = {row["claim"]: (row["verdict"], row["divided"]) for row in statements.judged(table).iter_rows(named=True)}
    assert found == {
        **dict.fromkeys(("always", "otherwise alone", "own"), ("supported", "")),
        "mostly": ("inconclusive", "inconclusive in 1 of 6 cases"),
        "pairs": ("refuted", "refuted in 1 of 2 cases"),
        "never": ("refuted", "refuted in 2 of 2 cases"),
        "unclear": ("inconclusive", ""),
        "undefined": ("not measured", ""),
        "read": ("depends on interpretation", "refuted in 1 of 2 cases"),
        "read in part": ("inconclusive", "inconclusive in 1 of 2 cases"),
        "elsewhere": (None, ""),
    }


def test_intervals_of_means_and_paired_differences_are_students():
    values = np.random.default_rng(1).lognormal(size=(2, 6))
    for function, sample in ((lambda m: m[0], values[0]), (difference, values[0] - values[1])):
        found = measures.estimate(function, values)
        low, high = stats.t.interval(0.95, 5, sample.mean(), stats.sem(sample))
        assert (found.value, found.low, found.high) == pytest.approx((sample.mean(), low, high), rel=1e-12)


def test_an_interval_of_a_ratio_agrees_with_fiellers():
    values = np.random.default_rng(2).normal([[2.0], [4.0]], 0.3, (2, 40))
    found = measures.estimate(ratio, values)
    (a, b), cov = values.mean(1), np.cov(values) / 40
    t = stats.t.isf(0.025, 39)
    quadratic = (b**2 - t**2 * cov[1, 1], -2 * (a * b - t**2 * cov[0, 1]), a**2 - t**2 * cov[0, 0])
    assert [found.low, found.high] == pytest.approx(sorted(np.roots(quadratic)), abs=5e-4)  # half widths are 0.025


@pytest.mark.parametrize("count", [2, 5, 20])
def test_intervals_cover_as_often_as_they_say(count):
    tries = 4000
    draws = np.random.default_rng(count).normal([[[3.0]], [[2.0]]], 0.5, (2, tries, count))
    draws[1] += 0.8 * (draws[0] - 3)  # realizations are shared
    for function, truth in ((difference, 1.0), (ratio, 1.5)):
        found = [measures.estimate(function, draws[:, k]) for k in range(tries)]
        covered = np.mean([m.low <= truth <= m.high for m in found])
        # A binomial share of 0.95 over 4000 leaves 0.95 +- 0.017 once in a million; a ratio's is asymptotic.
        assert covered > 0.95 - 0.017 - (0.01 if function is ratio else 0)
        assert covered < 0.95 + 0.017 + (0.02 if function is ratio else 0)


@pytest.mark.parametrize("largest", [True, False])
def test_the_worst_of_several_means_is_missed_at_most_as_often_as_is_said(largest):
    # All equal: the hardest case for the end away from the limit, where the largest of all is too large.
    tries, cases = 4000, 8
    draws = np.random.default_rng(4).normal(1.0, 1.0, (tries, cases, 10))
    found = [measures.worst(lambda means: means, values, largest=largest) for values in draws]
    assert all(m.low <= m.value <= m.high for m in found)
    np.testing.assert_allclose([m.value for m in found], (np.max if largest else np.min)(draws.mean(-1), axis=1))
    # A share of 0.025 over 4000 stays below 0.0375 but once in a million.
    assert np.mean([m.high < 1 for m in found]) < 0.0375
    assert np.mean([m.low > 1 for m in found]) < 0.0375
    # One case stands out: the end towards the limit has no correction.
    draws[:, 0] += 9 if largest else -9
    found = [measures.worst(lambda means: means, values, largest=largest) for values in draws]
    ends = [m.high < 10 if largest else m.low > -8 for m in found]
    assert abs(np.mean(ends) - 0.025) < 0.0125


def test_one_realization_decides_nothing_and_equal_ones_leave_an_interval_of_a_point():
    found = measures.estimate(difference, np.array([[1.0], [5.0]]))
    assert (found.value, found.low, found.high, found.interval) == (-4.0, None, None, measures.ONE)
    assert claims.verdict(found, Band(below=0)) == "inconclusive"
    equal = measures.worst(difference, np.full((2, 3, 7), 0.1))
    assert (equal.low, equal.high) == (0.0, 0.0)
    assert claims.verdict(equal, Band(most=0)) == "supported"


def test_a_maximum_is_a_lower_end_unless_the_study_is_as_large_as_the_papers():
    values = np.array([0.2, 0.95, 0.4])
    few, bounded, enough = (
        measures.maximum(values, 4),
        measures.maximum(values, 4, bound=1.0),
        measures.maximum(values, 3),
    )
    assert (few.value, few.low, few.high) == (0.95, 0.95, None)
    decided = [claims.verdict(few, band) for band in (Band(most=1), Band(most=0.9))]
    decided += [claims.verdict(bounded, band) for band in (Band(least=0.9, most=1), Band(least=0.97))]
    assert [*decided, claims.verdict(enough, Band(most=1))] == [
        "inconclusive",
        "refuted",
        "supported",
        "inconclusive",
        "supported",
    ]
    assert enough.interval == "none: a fact about these realizations; a further one exceeds it at 1 in 4"
    # That share, simulated: 0.25 over 40,000 stays within 0.011 but once in a million.
    draws = np.random.default_rng(3).exponential(size=(40_000, 4))
    assert abs((draws[:, 3] > draws[:, :3].max(1)).mean() - 0.25) < 0.011


@pytest.mark.parametrize("status", ["diverged", "noise_infeasible"])
def test_a_training_that_failed_counts_against_its_scheme(status):
    columns = {"realization": [2, 0, 1, 3], "training": [status, "trained", "no_user_scheduled", None]}
    columns |= {"accuracy": [None, 0.8, 0.1, None], "loss": [None, 0.5, 2.3, None]}
    np.testing.assert_array_equal(measures.accuracies(pl.DataFrame(columns), 10), [0.8, 0.1, 0.1, np.nan])
    failed, sound = measures.losses(pl.DataFrame(columns)), np.array([0.6, 2.4, 0.6, 0.6])
    np.testing.assert_array_equal(failed, [0.5, 2.3, np.inf, np.nan])
    for function, band in ((difference, Band(below=0)), (ratio, Band(most=1.1))):
        own, others = measures.paired(failed, sound), measures.paired(sound, failed)
        assert own.shape == (2, 3)
        assert claims.verdict(measures.estimate(function, own), band) == "refuted"
        # Its rival's failure alone proves nothing.
        assert claims.verdict(measures.estimate(function, others), band) == "inconclusive"
        both = measures.estimate(function, measures.paired(failed, failed))
        assert claims.verdict(both, band) == "not measured"
        assert row_of(both, required=band)["measured"] is None


def described(**config):
    """A scenario as claims get it."""
    return resolve(config, {}).part(None)


def make_scenario(system: str, schemes: list[tuple[str, str, str]], **config):
    """A scenario of a system with schemes of these names, schedulers and noises."""
    return described(system=system, schemes=[dict(zip(KEYS, scheme, strict=True)) for scheme in schemes], **config)


def test_scenarios_are_alike_that_differ_in_the_named_keys_alone():
    def content(blocks, gamma, sd, name="a"):
        changed = {"radio": {"resource_blocks": blocks}, "schedule": {"gamma": gamma}, "data": {"samples_log_sd": sd}}
        return {"scenario": make_scenario("multicell", [(name, "random", "random")], **changed)}

    scenarios = {"a": content(5, 1, 1), "x": content(5, 1, 2), "b": content(8, 2, 1), "y": content(8, 2, 2)}
    scenarios |= {"z": content(8, 2, 2, "b")}
    assert claims.comparable(scenarios, "radio.resource_blocks", "schedule.gamma") == [["a", "b"], ["x", "y"], ["z"]]
    assert scenarios["a"] == content(5, 1, 1)  # untouched


# Two worlds for multicell: in one all that the paper says is so, in the other nothing.

KEYS = ("name", "scheduler", "noise")
SCHEMES = [("one", "random", "random"), ("two", "optimal", "random"), ("three", "optimal", "optimal")]
PAPER = {  # R, gamma -> column -> RndSched, OptSched, OptSched+DP
    (5, 1e6): {"objective_per_sample": (0.7, 0.4, 0.38), "accuracy": (0.7, 0.8, 0.77), "loss": (2.0, 1.0, 1.05),
               "rho_worst_user": (3.9, 3.9, 0.48), "rho_median": (0.4, 0.3, 0.1), "noise_variance_median": (8.0, 4.0, 9.0)},
    (8, 1e6): {"objective_per_sample": (0.65, 0.39, 0.37), "accuracy": (0.8, 0.85, 0.83), "loss": (1.5, 1.0, 1.05),
               "rho_worst_user": (3.9, 3.9, 0.48), "rho_median": (0.4, 0.3, 0.1), "noise_variance_median": (8.0, 6.0, 9.0)},
    (8, 1e7): {"objective_per_sample": (0.6, 0.38, 0.3), "accuracy": (0.8, 0.85, 0.83), "loss": (1.5, 1.0, 1.05),
               "rho_worst_user": (3.9, 3.9, 0.48), "rho_median": (0.4, 0.2, 0.1), "noise_variance_median": (8.0, 7.0, 9.0)},
}  # fmt: skip
OPPOSITE = {
    (5, 1e6): {"objective_per_sample": (0.4, 0.6, 0.7), "accuracy": (0.8, 0.7, 0.5), "loss": (1.0, 2.0, 9.0),
               "rho_worst_user": (2.0, 3.9, 1.0), "rho_median": (0.1, 0.2, 0.3), "noise_variance_median": (8.0, 7.0, 9.0)},
    (8, 1e6): {"objective_per_sample": (0.6, 0.7, 0.8), "accuracy": (0.8, 0.7, 0.75), "loss": (1.0, 2.0, 1.5),
               "rho_worst_user": (2.0, 3.9, 1.0), "rho_median": (0.1, 0.2, 0.3), "noise_variance_median": (8.0, 7.0, 9.0)},
    (8, 1e7): {"objective_per_sample": (0.6, 0.7, 0.9), "accuracy": (0.8, 0.7, 0.75), "loss": (1.0, 2.0, 1.5),
               "rho_worst_user": (2.0, 3.9, 1.0), "rho_median": (0.1, 0.3, 0.4), "noise_variance_median": (8.0, 6.0, 9.0)},
}  # fmt: skip
CHOSEN = {"samples_per_scheduled": (140.0, 200.0, 200.0), "gain_db_median": (-116.0, -115.0, -115.0),
          "lost_share": (0.15, 0.01, 0.01), "rho_not_lowered": (0.0, 0.0, 0.0)}  # fmt: skip
NOT_CHOSEN = {"samples_per_scheduled": (140.0, 130.0, 130.0), "gain_db_median": (-116.0, -117.0, -117.0),
              "lost_share": (0.15, 0.2, 0.2), "rho_not_lowered": (1.0, 1.0, 0.5)}  # fmt: skip
PAPER = {setting: columns | CHOSEN for setting, columns in PAPER.items()}
OPPOSITE = {setting: columns | NOT_CHOSEN for setting, columns in OPPOSITE.items()}


UNSAID = {
    "objective_gap": 1.0,
    "scheduled": 1.0,
    "samples_per_scheduled": 1.0,
    "gain_db_median": 1.0,
    "noise_variance_median": 1.0,
    "lost_share": 0.1,
    "rho_total": 1.0,
    "rho_not_lowered": 0.0,
    "epsilon": 1.0,
    "epsilon_tight": 1.0,
}  # where a world does not say


def world(means: dict, count: int, prefix: str = "", schemes=SCHEMES, **override) -> dict[str, dict]:
    """Scenarios whose realizations scatter by 0.001 around the means."""
    generator, found = np.random.default_rng(7), {}
    for (blocks, gamma), columns in means.items():
        config = {"radio": {"resource_blocks": blocks}, "schedule": {"gamma": gamma}} | override
        frames = []
        for k, (scheme, *_) in enumerate(schemes):
            values = {name: means[k] - generator.uniform(0, 1e-3, count) for name, means in columns.items()}
            keys = {"scheme": scheme, "realization": range(count), "training": "trained"}
            frames.append(pl.DataFrame(keys | UNSAID | values))
        scenario = make_scenario("multicell", schemes, **config)
        found[f"{prefix}{len(found)}"] = {"scenario": scenario, "realizations": pl.concat(frames)}
    return found


# Each setting and its maxima, few blocks, (b) against (a), to a larger gamma alone, to a larger R alone.
ROWS = 3 * (13 + 3) + 3 + 5 + 4 + 1


def places(table: pl.DataFrame) -> list[str]:
    """The scenarios of a table's rows, `one` or `one against another`."""
    against = pl.when(pl.col("against").is_not_null()).then(pl.format("{} against {}", "scenario", "against"))
    return table.select(against.otherwise("scenario")).to_series().to_list()


def of(table: pl.DataFrame, *ids: str) -> pl.DataFrame:
    """The rows of claims."""
    return table.filter(pl.col("claim").is_in(ids))


def assert_all(table: pl.DataFrame, expected: str) -> None:
    """All claims that are judged are decided as expected."""
    assert table["verdict"].count()
    kept = table.filter(pl.col("verdict") != expected)
    assert kept.is_empty(), kept.select("claim", "scenario", "measured", "required_range", "verdict")


@pytest.mark.parametrize(("means", "expected"), [(PAPER, "supported"), (OPPOSITE, "refuted")])
def test_every_claim_of_multicell_holds_in_the_papers_world_and_fails_in_its_opposite(means, expected):
    table = multicell_claims.claims(world(means, 100))
    assert len(table) == ROWS
    assert not table["claim"].str.starts_with("X").any()  # about schemes that the study lacks
    assert_all(table, expected)
    unjudged = table.filter(pl.col("verdict").is_null())
    # R = 8 with gamma = 1e6 is no setting of the paper's, nor can (20) fall as gamma alone grows.
    assert Counter(places(unjudged)) == {"1": 16, "2 against 1": 1}
    assert unjudged.drop_nulls("against")["claim"].to_list() == ["F4-3"]


FEW_BLOCKS, STEPS = ("F5-5", "F5-6", "S7-1"), ("F4-3", "F4-4", "F4-5", "F5-10", "F5-11")
LEARNED = {"F5-1", "F5-2", "F5-3", "F5-4", *FEW_BLOCKS}  # what the paper says of its learning
OTHERWISE = {  # another scenario of `multicell`, and whether it is still the setting of what is learned, and of the rest
    "fewer users and rounds": ({"network": {"users": 50}, "training": {"rounds": 20}}, True, True),
    "whole users clipped": ({"training": {"clipping": "per_user"}}, True, True),
    "noise by multipliers": ({"privacy": {"bounds": "multiplier"}}, True, True),
    "better features": ({"training": {"features": "strokes"}}, False, True),
    "better weights": ({"training": {"recipe": "inverse_variance"}}, False, True),
    "few labels a user": ({"data": {"partition": "dirichlet"}}, False, True),
    "another data set": ({"data": {"dataset": "fashion_mnist"}}, False, True),
    "another path loss": ({"radio": {"path_loss": "uma"}}, False, False),
}


@pytest.mark.parametrize("change", OTHERWISE)
def test_the_papers_claims_are_judged_in_the_papers_setting_alone(change):
    override, learned, rest = OTHERWISE[change]
    study = {
        name: content | {"scenario": described(**merge(plain(content["scenario"]), override))}
        for name, content in world(PAPER, 100).items()
    }
    del study["1"]
    table = multicell_claims.claims(study)
    assert set(table["origin"]) == {PAPERS}
    of_learning = pl.col("claim").is_in(LEARNED)
    for where, expected in ((of_learning, learned), (~of_learning, rest)):
        judged = table.filter(where)["verdict"].is_not_null()
        assert judged.all() if expected else not judged.any()
    (clipping,) = (each for each in multicell_claims.INTERPRETATIONS if each.id == "I4")
    concerned = {row["claim"]: row["interpretation"] for row in table.rows(named=True) if row["claim"] != "F5-9"}
    clipped = {name for name in concerned if change == "whole users clipped" and name in clipping.concerns}
    assert concerned == {n: "I4: training.clipping per_user" if n in clipped else None for n in concerned}
    assert set(clipping.concerns) <= {each.id for each in multicell_claims.PAPER_CLAIMS}


def test_settings_are_told_by_parameters_not_by_names_or_their_order():
    table = multicell_claims.claims(world(PAPER, 100))
    turned = world(dict(reversed(PAPER.items())), 100)
    turned = {name: turned[place] for name, place in zip("210", "012", strict=True)}
    others, columns = multicell_claims.claims(turned), ("claim", "scenario", "verdict")
    assert Counter(table.select(columns).rows()) == Counter(others.select(columns).rows())
    alone = table.filter(pl.col("interpretation").str.starts_with("I2"))
    for step, pair in (("F4-5", "1 against 0"), *((step, "2 against 1") for step in STEPS if step != "F4-5")):
        assert places(of(alone, step)) == [pair]
        assert places(of(table, step).filter(pl.col("interpretation").is_null())) == ["2 against 0"]
    assert set(places(of(table, *FEW_BLOCKS))) == {"0"}
    one, _, other = PAPER.values()
    assert multicell_claims.claims(world({(8, 1e6): one, (5, 1e7): other}, 100))["against"].is_null().all()


def test_steps_of_r_and_gamma_are_compared_whatever_is_trained():
    scenarios = world(PAPER, 100)
    scenarios["1"]["scenario"] = replaced(scenarios["1"]["scenario"], "training_realizations", 3)
    table = multicell_claims.claims(scenarios)
    assert set(places(table.drop_nulls("against"))) == {"1 against 0", "2 against 1", "2 against 0"}


@pytest.mark.parametrize(("objective", "holds"), [((0.321, 0.3), "supported"), ((0.34, 0.3), "refuted")])
def test_large_r_is_a_block_for_every_user(objective, holds):
    columns = PAPER[8, 1e7] | {"objective_per_sample": (*objective, 0.2)}
    table = multicell_claims.claims(world({(99, 1e7): columns, (100, 1e7): columns, (300, 1e7): columns}, 100))
    table = of(table, "S6A-1")
    assert table.select("scenario", "verdict").rows() == [("1", holds), ("2", holds)]


def test_settings_are_compared_within_a_law_of_samples_only():
    both = world(PAPER, 100, "law") | world(OPPOSITE, 100, "other", data={"samples_log_sd": 2.0})
    table = multicell_claims.claims(both)
    pairs = set(places(table.drop_nulls("against")))
    assert pairs == {
        f"{law}{pair[0]} against {law}{pair[1]}" for law in ("law", "other") for pair in ("10", "21", "20")
    }
    for prefix, expected in (("law", "supported"), ("other", "refuted")):
        assert_all(table.filter(pl.col("scenario").str.starts_with(prefix)), expected)


def test_few_realizations_leave_maxima_open_and_one_leaves_means_open():
    few = multicell_claims.claims(world(PAPER, 99))
    maxima = pl.col("claim").is_in(["F5-7", "F5-8", "S7-3"])
    # The bound of (22) closes RndSched's interval from above.
    assert of(few, "F5-7")["verdict"].to_list() == ["supported", None, "supported"]
    assert of(few, "F5-8", "S7-3")["verdict"].drop_nulls().to_list() == ["inconclusive"] * 4
    assert set(few.filter(~maxima)["verdict"].drop_nulls()) == {"supported"}
    one = multicell_claims.claims(world(PAPER, 1))
    assert len(one) == ROWS
    assert set(one.filter(~maxima)["verdict"].drop_nulls()) == {"inconclusive"}


def test_a_diverged_training_of_optsched_fails_its_claims():
    scenarios = world(PAPER, 100)
    broken = (pl.col("scheme") == "two") & (pl.col("realization") < 60)
    numbers = [pl.when(~broken).then(column) for column in ("accuracy", "loss")]
    training = pl.when(broken).then(pl.lit("diverged")).otherwise("training")
    for content in scenarios.values():
        content["realizations"] = content["realizations"].with_columns(*numbers, training=training)
    table = multicell_claims.claims(scenarios)
    own = of(table, "F5-1", "F5-2", "S7-1")
    assert own["verdict"].drop_nulls().to_list() == ["refuted"] * 5
    assert set(own["realizations"]) == {100}
    rival = of(table, "F5-4")
    assert rival["verdict"].drop_nulls().to_list() == ["inconclusive"] * 2


# The claims that are not the paper's, in a world where they hold and in one where none does.

PAIRS = ("optimal random", "optimal optimal", "joint random", "joint_noise optimal", "optimal equal_sum")
OWN_SCHEMES = [(pair, *pair.split()) for pair in (*PAIRS, "optimal fill_up", "joint_snr equal_max")]
BETTER = {
    "objective_per_sample": (0.5, 0.45, 0.48, 0.43, 0.6, 0.6, 0.6),
    "objective_gap": (0.04, 0.05, 5e-4, 5e-4, 0.1, 0.1, 0.1),
    "accuracy": (0.7, 0.6, 0.7, 0.63, 0.62, 0.61, 0.65),
    "rho_worst_user": (3.0, 0.4, 3.0, 0.3, 0.3, 0.4, 0.39),
    "rho_median": (0.3, 0.1, 0.3, 0.1, 0.1, 0.1, 0.1),
    "scheduled": (35.0,) * 7,
    "loss": (1.0,) * 7,
}
WORSE = BETTER | {
    "objective_per_sample": (0.5, 0.45, 0.52, 0.47, 0.6, 0.6, 0.6),
    "objective_gap": (0.04, 0.05, 0.01, 0.01, 0.1, 0.1, 0.1),
    "accuracy": (0.7, 0.7, 0.7, 0.6, 0.6, 0.6, 0.6),
    "rho_worst_user": (3.0, 0.4, 3.0, 0.3, 0.35, 0.4, 0.5),
    "rho_total": (1.0, 1.0, 1.0, 1.0, 2.0, 1.0, 1.0),
}
CHANGES = {"accuracy": 0.02, "rho_worst_user": -0.01, "scheduled": 15.0}  # where the channel is drawn anew


def own_claims(static: dict, sign: int) -> pl.DataFrame:
    """Claims about two scenarios, the second of which draws the channel anew, in fewer realizations and schemes."""
    anew = {name: tuple(v + sign * CHANGES.get(name, 0.0) for v in values[1:]) for name, values in static.items()}
    both = world({(5, 1e6): static}, 100, "static", OWN_SCHEMES)
    both |= world({(5, 1e6): anew}, 40, "anew", OWN_SCHEMES[1:], training={"rounds": 200}, privacy={"planned_share": 0.5},
                  radio={"resource_blocks": 5, "coherence_rounds": 20})  # fmt: skip
    return multicell_claims.claims(both).filter(pl.col("claim").str.starts_with("X"))


@pytest.mark.parametrize(("static", "sign", "expected"), [(BETTER, 1, "supported"), (WORSE, -1, "refuted")])
def test_every_claim_beyond_the_paper_holds_in_its_world_and_fails_in_its_opposite(static, sign, expected):
    table = own_claims(static, sign)
    assert_all(table, expected)
    assert Counter(places(table)) == {"static0": 10, "anew0": 9, "anew0 against static0": 6}
    assert set(of(table, "X-10", "X-11", "X-12")["realizations"]) == {40}
    assert set(table["source"]) == {"docs/explanation/multicell.md"}


LEARNERS = {  # of one setting: what differs from the paper's learning, and what accuracy gains
    "paper": ({}, 0.0),
    "steps": ({"step": "snr", "recipe": "zero_start", "hidden_layers": []}, 0.1),
    "weights": ({"step": "snr", "recipe": "inverse_variance", "hidden_layers": []}, 0.12),
    "features": ({"step": "snr", "recipe": "inverse_variance", "hidden_layers": [], "features": "scattering"}, 0.14),
}


@pytest.mark.parametrize(("sign", "factor", "expected"), [(1, 1.0, "supported"), (-1, 1 + 1e-9, "refuted")])
def test_every_claim_about_learning_holds_in_its_world_and_fails_in_its_opposite(sign, factor, expected):
    key = (5, 1e6)
    found = {}
    for number, (name, (training, gain)) in enumerate(LEARNERS.items()):
        columns = PAPER[key] | {"accuracy": tuple(a + sign * gain for a in PAPER[key]["accuracy"])}
        (scenario,) = world({key: columns}, 100, training=training).values()
        leakage = pl.col("rho_worst_user", "rho_total") * factor**number  # the draws of `world` are the same each time
        found[name] = scenario | {"realizations": scenario["realizations"].with_columns(leakage)}
    table = of(multicell_claims.claims(found), "X-13", "X-14", "X-15", "X-16")
    assert_all(table, expected)
    names = list(LEARNERS)
    counts = {f"{name} against paper": 4 for name in names[1:]}
    assert Counter(places(table)) == counts | {f"{b} against {a}": 3 for a, b in pairwise(names[1:])}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([np.inf, np.inf], [np.inf, np.inf], None),  # no noise
        ([1.0, 2.0], [1.0, 3.0], 0.5),
        ([1.0, np.inf], [1.0, np.inf], 0.0),
        ([1.0, 2.0], [1.0, np.inf], np.inf),
        ([1.0, np.inf], [1.0, 2.0], np.inf),
    ],
)
def test_the_change_of_an_unbounded_leakage_is_not_measured(before, after, expected):
    found = multicell_claims._largest_change({"scheme": np.array(before)}, {"scheme": np.array(after)})
    assert (found and found.value) == expected


AT_TARGET = [("RndSched", "random", "target"), ("OptSched", "optimal", "target"), ("JointSNR", "joint_snr", "target")]
OWN_NOISE = [*SCHEMES, ("four", "joint_snr", "equal_max")]


def sums_claims(gain: float, lead: float, bound: float) -> pl.DataFrame:
    """Claims about observers of sums, who leave more accuracy by `gain`, in a world and in its opposite.

    `bound` is the epsilon of integers over that of the same noise of real numbers.
    """

    def settings(name, accuracy, schemes=AT_TARGET, epsilon=1.86, bits=None, **seen):
        columns = {"accuracy": accuracy, "objective_per_sample": (0.5,) * len(accuracy), "loss": (1.0,) * len(accuracy),
                   "rho_worst_user": (1.0,) * len(accuracy), "rho_median": (1.0,) * len(accuracy),
                   "epsilon": (epsilon,) * len(accuracy)}  # fmt: skip
        training, privacy = {"rounds": 10, "bits": bits}, {"target_epsilon": epsilon} | seen
        (found,) = world({(5, 1e6): columns}, 40, "", schemes, training=training, privacy=privacy).values()
        exact = bound * tight_epsilon(1.0, found["scenario"].privacy.delta) if bits else epsilon
        told = found["realizations"].with_columns(epsilon=pl.lit(exact), rho_worst_user=pl.lit(1.0))
        return {name: found | {"realizations": told}}

    base, gone = (0.955, 0.968, 0.970), {"colluders": 0.2, "dropouts": 0.1}
    sums = (base[0] + gain, base[0] + gain + lead, base[2] + gain)
    found = settings("user", base)
    for seen in ("cell", "network"):
        found |= settings(f"{seen} gone", sums, observer=seen, **gone)
        found |= settings(seen, sums, observer=seen)
        for k, epsilon in enumerate((0.3, 0.6, 1.2)):  # accuracy has that of single uploads at the lowest, or nowhere
            found |= settings(
                f"{seen} {epsilon}", tuple(a + gain * (k + 1) / 4 for a in base), epsilon=epsilon, observer=seen
            )
        integers = tuple(a - (0.0 if gain > 0 else 0.002) for a in sums)
        found |= settings(f"{seen} bits", integers, observer=seen, bits={"cell": 10, "network": 14}[seen])
        found |= settings(f"{seen} few bits", (0.1,) * 3, observer=seen, bits={"cell": 9, "network": 11}[seen])
    found |= settings("own cell", (0.95, 0.96, 0.96, 0.965), OWN_NOISE, observer="cell")
    found |= settings("own network", tuple(a + gain for a in (0.95, 0.96, 0.96, 0.965)), OWN_NOISE, observer="network")
    return of(multicell_claims.claims(found), *(f"X-{number}" for number in range(17, 25)))


@pytest.mark.parametrize(
    ("given", "expected"), [((0.012, 0.004, 1.04), "supported"), ((-0.012, 0.012, 1.06), "refuted")]
)
def test_every_claim_about_sums_holds_in_its_world_and_fails_in_its_opposite(given, expected):
    table = sums_claims(*given)
    assert_all(table, expected)
    counts = {"X-17": 3, "X-18": 3, "X-19": 3, "X-20": 3, "X-21": 1, "X-22": 4, "X-23": 6, "X-24": 6}
    assert Counter(table["claim"]) == counts
    # Beyond the epsilons that were simulated, only an end is known: a 0.16th of the first one's, or 0.65 of it.
    quarter = of(table, "X-20")
    if expected == "supported":
        assert (quarter["measured_ci_high"] <= 0.3 / 1.86 + 1e-9).all()
        assert quarter["measured_ci_low"].is_null().all()
    else:
        assert quarter["measured_ci_low"].to_list() == pytest.approx([1.0] * 3)
        assert quarter["measured_ci_high"].is_null().all()
    assert quarter["interval"].str.starts_with("one-sided").all()


def test_an_epsilon_below_all_that_were_simulated_is_at_most_the_least():
    """Its ratio is not known to exceed what a claim requires, however large the least simulated epsilon is."""
    accuracy = np.random.default_rng(0).normal(0.9, 1e-3, 20)
    epsilons = [np.full(20, each) for each in (1.0, 2.0)]
    better = [accuracy + 0.02, accuracy + 0.03]
    found = multicell_claims._epsilon_ratio(accuracy, np.full(20, 2.0), better, epsilons)
    assert (found.value, found.low) == (pytest.approx(0.5), None)
    assert found.high == pytest.approx(0.5)
    for limit, expected in ((0.25, "inconclusive"), (0.5 + 1e-9, "supported")):
        assert claims.verdict(found, Band(most=limit)) == expected
    worse = [accuracy - 0.03, accuracy - 0.02]
    found = multicell_claims._epsilon_ratio(accuracy, np.full(20, 4.0), worse, epsilons)
    assert (found.value, found.high) == (pytest.approx(0.5), None)
    assert found.low == pytest.approx(0.5)
    for limit, expected in ((0.25, "refuted"), (0.6, "inconclusive")):
        assert claims.verdict(found, Band(most=limit)) == expected
    within = [accuracy - 0.01, accuracy + 0.01]
    found = multicell_claims._epsilon_ratio(accuracy, np.full(20, 2.0), within, epsilons)
    assert found.value == pytest.approx(np.sqrt(2) / 2, rel=1e-3)
    assert found.low < found.value < found.high


# The other systems: tables made up so that all claims hold, and so that none does.


COLUMNS = ["epsilon", "epsilon_max"] + [
    f"epsilon_{name}" for name in ("printed", "sensitivity", "gaussian", "antennas")
]


def realizations(columns: dict[tuple[str, str], float], count: int = 12, **plain) -> pl.DataFrame:
    """A frame of `count` realizations for each scheme: values by (scheme, column), scattered by a thousandth."""
    generator = np.random.default_rng(8)
    frames = []
    for scheme in dict.fromkeys(scheme for scheme, _ in columns):
        own = {column: value for (name, column), value in columns.items() if name == scheme}
        values = {column: value * generator.uniform(0.9995, 1.0005, count) for column, value in own.items()}
        keys = {"scheme": scheme, "realization": range(count), "training": "trained"}
        frames.append(pl.DataFrame(keys | values | plain))
    return pl.concat(frames)


# Of Proposed and of both benchmarks: what the paper says, and its opposite.
DEVICES = {
    "supported": {"batch_loss": (1.0626, 1.0), "batch_loss_std": (0.103, 0.1), "accuracy": (0.915, 0.92),
            "energy_j": (0.8783, 1.0), "energy_std_j": (0.01, 1.0), "learning_gain": (0.01, 0.01),
            "learning_gain_std": (0.0005, 0.01), "utility": (0.07, 0.06), "utility_std": (0.001, 0.02), "slope": (0.0, 1.9)},
    "refuted": {"batch_loss": (1.2, 1.0), "batch_loss_std": (0.5, 0.1), "accuracy": (0.90, 0.92),
           "energy_j": (0.7, 1.0), "energy_std_j": (0.5, 1.0), "learning_gain": (0.01, 0.01),
           "learning_gain_std": (0.002, 0.001), "utility": (0.07, 0.06), "utility_std": (0.003, 0.004), "slope": (1.9, -0.1)},
}  # fmt: skip
FAIR = [("Proposed", "utility", "fair"), ("Own", "benchmark", "independent"), ("Same", "benchmark", "shared")]


def fair_copies(means: dict, schemes=FAIR, **override) -> dict:
    """A scenario of `utility_fair`: means of Proposed and of all others."""
    columns = {(of, name): each[of != "Proposed"] for of, *_ in schemes for name, each in means.items()}
    path_loss = np.linspace(60, 90, 10)
    devices = pl.concat(
        pl.DataFrame({"scheme": of, "realization": k, "device": range(10), "path_loss_db": path_loss,
                      "energy_j": 1e-3 * (100 + columns[of, "slope"] * path_loss + 0.001 * k * path_loss),
                      "utility": 0.06 + 1e-4 * k, "batch_loss": 1.0 + 1e-3 * k, "noise_multiplier": 5.0})
        for of, *_ in schemes
        for k in range(12)
    )  # fmt: skip
    scenario = make_scenario("utility_fair", schemes, **override)
    return {"scenario": scenario, "realizations": realizations(columns), "devices": devices}


@pytest.mark.parametrize("expected", DEVICES)
def test_every_claim_of_utility_fair_can_hold_and_fail(expected):
    content = fair_copies(DEVICES[expected])
    table = utility_fair_claims.claims({"one": content})
    assert set(table["claim"]) == {claim.id for claim in utility_fair_claims.CLAIMS}
    shared = table.filter(interpretation=utility_fair_claims.SHARED_NOISE)["claim"].to_list()
    assert shared == ["F1-1", "F1-2", "F1-3"]  # of what is compared with both benchmarks
    assert len(table) == len(utility_fair_claims.CLAIMS) + len(shared)
    assert set(table["origin"]) == {PAPERS}
    assert_all(table, expected)
    training = pl.when(scheme="Proposed").then(pl.lit("diverged")).otherwise("training")
    loss = pl.when(pl.col("scheme") != "Proposed").then("batch_loss")
    diverged = content["realizations"].with_columns(loss, training=training)
    table = utility_fair_claims.claims({"one": content | {"realizations": diverged}})
    assert set(of(table, "F1-1", "F1-2", "F1-3", "F1-4")["verdict"]) == {"refuted"}


@pytest.mark.parametrize(("sign", "expected"), [(1, "supported"), (-1, "refuted")])
def test_every_claim_about_devices_that_save_effort_can_hold_and_fail(sign, expected):
    none, saving = fair_copies(DEVICES["supported"]), fair_copies(DEVICES["supported"], network={"savers": 3})
    gain = pl.when(scheme="Proposed").then(-sign * 0.01).otherwise(sign * 0.01)
    saves = pl.col("device") < 3
    loss, noise = pl.col("batch_loss"), pl.col("noise_multiplier")
    saving["devices"] = saving["devices"].with_columns(
        utility=pl.when(saves).then(pl.col("utility") + gain).otherwise(7.0),
        batch_loss=pl.when(saves).then(9.0).otherwise(loss + sign * 0.1),
        noise_multiplier=pl.when(saves & (pl.col("scheme") == "Proposed")).then(noise + sign).otherwise(noise),
    )
    other = fair_copies(DEVICES["supported"], network={"savers": 3}, training={"rounds": 7})  # differs in more
    table = utility_fair_claims.claims({"none": none, "saving": saving, "other": other})
    assert set(places(table)) == {"none", "saving against none"}
    assert set(table.filter(scenario="none")["claim"]) == {claim.id for claim in utility_fair_claims.CLAIMS}
    table = table.drop_nulls("against")
    assert table["claim"].to_list() == [claim.id for claim in utility_fair_claims.OF_SAVERS]
    assert_all(table, expected)
    diverged = none["devices"].filter(~((pl.col("scheme") == "Own") & (pl.col("realization") == 2)))
    table = utility_fair_claims.claims({"none": none | {"devices": diverged}, "saving": saving})
    assert set(of(table, "A-1", "S1-1")["realizations"]) == {11}  # of the benchmark


@pytest.mark.parametrize("expected", DEVICES)
def test_a_scenario_of_the_papers_words_is_judged_by_its_own_benchmark(expected):
    words = {"privacy": {"uploads": "noisy"}, "utility": {"deviation": "model"}, "training": {"rounds": 200}}
    table = utility_fair_claims.claims({"one": fair_copies(DEVICES[expected], [FAIR[0], FAIR[2]], **words)})
    assert sorted(table["claim"]) == sorted(claim.id for claim in utility_fair_claims.CLAIMS)
    of_proposed = pl.col("claim").is_in(["F1-4", "F2-2", "S1-6"])
    literal = "I1: privacy.uploads noisy; I3: utility.deviation model"
    assert set(table.filter(of_proposed)["interpretation"]) == {literal}
    assert set(table.filter(~of_proposed)["interpretation"]) == {f"{utility_fair_claims.SHARED_NOISE}; {literal}"}
    assert_all(table, expected)


@pytest.mark.parametrize("expected", ["supported", "refuted"])
def test_every_claim_of_anonymous_oac_can_hold_and_fail(expected, monkeypatch):
    if expected == "refuted":  # Theorem 1 is about no scenario
        monkeypatch.setattr(anonymous_oac_claims.sampled, "renyi_closed_form", lambda *_: sampled.ORDERS * 0.0)
    good = expected == "supported"
    curve = [  # reading, method, participation, rate, epsilon where claims hold, and where they fail
        ("anonymous_read", "tight", 1.0, 0.01, 5.0, 50.0),
        ("identified_read", "tight", 0.5, 0.02, 5.0, 61.0),
        ("anonymous", "advanced_composition", 1.0, 1.0, 900.0, 90.0),
        ("anonymous", "renyi", 1.0, 1.0, 200.0, 95.0),
        ("anonymous", "tight", 1.0, 1.0, 150.0, 80.0),
        ("anonymous", "renyi", 1.0, 0.5, 120.0, 90.0),
        ("anonymous", "tight", 1.0, 0.5, 110.0, 70.0),
        ("anonymous", "tight", 1.0, 0.01, 5.0, 40.0),
        ("identified", "tight", 0.5, 0.02, 5.0, 60.0),
    ]
    rows = [("rounds", 1000.0, name, p, q, method, 1.0, yes if good else no) for name, method, p, q, yes, no in curve]
    hidden = ("anonymous", 1.0, 0.01, "tight")
    rows += [("failed_devices", float(k), *hidden, 1.0, 2.0 + (0.01 if good else 2) * k) for k in range(6)]
    for k in (0.1, 1.0):
        rows += [("estimate_scale_of_one_device", k, *hidden, 1.0, 2.0 if good else 2 / k)]
    names = ["quantity", "x", "reading", "participation", "sampling_rate", "method", "noise_multiplier", "epsilon"]
    curves = pl.DataFrame(rows, schema=names, orient="row").with_columns(scheme=pl.lit("a"))
    pairs = [("over_the_air", "anonymous"), ("over_the_air", "identified"), ("orthogonal", "local")]
    pairs += [(scheduler, f"{noise}_fixed") for scheduler, noise in pairs]
    schemes = [(name, *pair) for name, pair in zip("abcdef", pairs, strict=True)]
    accuracy = (0.9, 0.8, 0.7, 0.92, 0.82, 0.72) if good else (0.7, 0.8, 0.9, 0.68, 0.78, 0.88)
    columns = {(name, "accuracy"): value for (name, *_), value in zip(schemes, accuracy, strict=True)}
    # Orthogonally the average carries sqrt(10) times the noise of a device.
    multipliers = dict(zip("abcdef", (1.0, 1.5, 0.5) * 2 if good else (1.5, 1.4, 0.4) * 2, strict=True))
    for name, multiplier in multipliers.items():
        columns |= {(name, "noise_multiplier"): multiplier, (name, "participants"): 10.0, (name, "epsilon"): 5.0}
    network, data = {"devices": 20, "participation": 0.5}, {"sampling": 0.02, "dataset": "digits", "samples": 60}
    scenario = make_scenario("anonymous_oac", schemes, network=network, data=data, training={"rounds": 1000})
    content = {"scenario": scenario, "curves": curves, "realizations": realizations(columns)}
    table = anonymous_oac_claims.claims({"one": content})
    declared = anonymous_oac_claims.PAPER_CLAIMS + anonymous_oac_claims.OWN_CLAIMS
    assert set(table["claim"]) == {claim.id for claim in declared if claim.compare is not None}
    assert_all(table, expected)
    measured = of(table, "A-1", "S1-1")["measured"].to_list()
    assert measured == pytest.approx([2 / 3, 3 / 10**0.5] if good else [1.5 / 1.4, 3.5 / 10**0.5], rel=2e-3)
    # Without a guarantee there is no equal privacy to compare at.
    bare = content["realizations"].with_columns(epsilon=pl.lit(np.inf))
    lost = anonymous_oac_claims.claims({"one": content | {"realizations": bare}})
    assert of(lost, "A-1", "S1-1").is_empty()
    epsilons = sorted(of(table, "F1-3")["measured"])
    assert epsilons == ([5.0] * 4 if good else [40, 50, 60, 61])
    # Failing devices are followed down to half of the participants, and each end decides by itself.
    for quantity, count in zip(of(table, "L4-1")["quantity"], (1, 5), strict=True):
        assert f"{count} of 10" in quantity
    # At a larger p q the paper does not say that epsilon is acceptable.
    often = content | {"scenario": described(**merge(plain(scenario), {"data": {"sampling": 0.03}}))}
    assert of(anonymous_oac_claims.claims({"one": often}), "F1-3").is_empty()


@pytest.mark.parametrize("expected", ["supported", "refuted"])
def test_every_claim_of_random_orthogonalization_can_hold_and_fail(expected):
    good = expected == "supported"
    found = {}
    for name, antennas, coherence in (("many", 64, None), ("few", 16, None), ("redrawn", 16, 2)):
        count, generator = 8, np.random.default_rng(antennas)
        rising = 1.2 if (name == "many") == good else 1.0
        leakage = pl.concat(
            realizations({("Private", column): rising * (20 / users if good else 1.5 * users) for column in COLUMNS}, count)
            .with_columns(users=pl.lit(users), epsilon_closed_form=pl.lit(rising * (20 / users if good else 2 * users)),
                          epsilon_antennas=pl.col("epsilon_antennas") * (0.99 if good else 30))
            for users in (5, 10)
        )  # fmt: skip
        energy, understated = (0.5, 0.0) if good else (700.0, 0.4)
        fixed = {"understated": understated, "transmit_energy_limit": 1.0, "users": 10}
        epsilon = (4.0 if good else 20.0) if name == "redrawn" else 4.8 if good else 21.0
        each = realizations({("Private", "transmit_energy"): energy, ("Private", "epsilon"): epsilon}, count, **fixed)
        accuracy = generator.uniform(0.89, 0.9, count) if good else 0.7 if name == "redrawn" else 0.8
        each = each.with_columns(accuracy=pl.lit(accuracy) if np.isscalar(accuracy) else pl.Series(accuracy))
        last = {"round": 14, "status": "trained", "accuracy": accuracy}
        history = pl.DataFrame({"scheme": "Private", "realization": range(count)} | last)
        bare = pl.DataFrame({"scheme": "Bare", "realization": range(count)} | last | {"accuracy": 0.9})
        bare = bare.with_columns(round=pl.lit(14 if good else 7, history.schema["round"]))
        each = pl.concat([each, each.with_columns(scheme=pl.lit("Bare"), accuracy=pl.lit(0.9))])
        history = pl.concat([history, bare])
        parts = {"network": {"antennas": antennas}, "radio": {"coherence_rounds": coherence}}
        schemes = [("Private", "all", "fixed"), ("Bare", "all", "none")]
        scenario = make_scenario("random_orthogonalization", schemes, **parts)
        found[name] = {"scenario": scenario, "leakage": leakage, "realizations": each, "history": history}
    table = random_orthogonalization_claims.claims(found)
    declared = random_orthogonalization_claims.PAPER_CLAIMS + random_orthogonalization_claims.OWN_CLAIMS
    assert set(table["claim"]) == {claim.id for claim in declared if claim.compare is not None}
    assert_all(table.drop_nulls("verdict"), expected)
    delay = of(table, "A-2").row(by_predicate=pl.col("scenario") == "few", named=True)
    assert delay["measured"] == (0 if good else 8)
    assert "0.88" in delay["quantity"]
    elsewhere = described(**merge(plain(found["few"]["scenario"]), {"data": {"dataset": "fashion_mnist"}}))
    other = random_orthogonalization_claims.claims({"few": found["few"] | {"scenario": elsewhere}})
    other = of(other, "A-2").row(0, named=True)
    assert (delay["verdict"] is None, other["verdict"]) == (False, None)
    assert ("one-sided" in delay["interval"]) == (delay["measured_ci_high"] is None) == (not good)
    assert set(places(of(table, "F2-2", "X-2"))) == {"many against few"}
    of_channel = of(table, "X-4", "X-5")
    assert set(places(of_channel)) == {"few against redrawn"}
    assert of_channel["quantity"].str.contains("redrawn every 2 rounds").all()
    assert table.filter(origin=PAPERS, scenario="redrawn")["verdict"].is_null().all()
    # A third scenario that differs in more than M is compared with none of both.
    third = described(**merge(plain(found["few"]["scenario"]), {"privacy": {"noise_variance": 1.0}}))
    again = random_orthogonalization_claims.claims(found | {"third": found["few"] | {"scenario": third}})
    assert set(places(of(again, "F2-2", "X-2"))) == {"many against few"}
    diverged = found["few"]["history"].with_columns(accuracy=None, status=pl.lit("diverged"))
    lost = random_orthogonalization_claims.claims({"few": found["few"] | {"history": diverged}})
    first = of(lost, "F1-1").row(0, named=True)
    assert (first["measured"], first["verdict"]) == (pytest.approx(0.1), "refuted")


def test_rounds_are_counted_to_the_first_with_the_level_of_runs_that_do_not_diverge():
    generator = np.random.default_rng(3)
    accuracy = generator.uniform(0, 1, (40, 6))
    diverged = generator.random(40) < 0.2
    frame = pl.DataFrame(
        {
            "realization": np.repeat(np.arange(40), 6),
            "round": np.tile(np.arange(6), 40),
            "accuracy": accuracy.ravel(),
            "status": np.where(np.repeat(diverged, 6), "diverged", "trained"),
        }
    ).sample(fraction=1, shuffle=True, seed=1)
    expected = [
        next((k for k, value in enumerate(row) if value >= 0.8), np.inf) if not lost else np.inf
        for row, lost in zip(accuracy, diverged, strict=True)
    ]
    assert random_orthogonalization_claims.rounds_to(frame, 0.8).tolist() == expected
    assert {0, 1, np.inf} < set(expected)


@pytest.mark.parametrize(
    ("private", "bare", "value", "known", "expected"),
    [
        ([9, 10, 11], [9, 10, 11], 0.0, (True, True), "supported"),
        ([12, 13, 14], [7, 8, 9], 5.0, (True, True), "refuted"),
        ([np.inf, 9, 9.5], [9, 9, 9], 6.5 / 3, (True, False), "inconclusive"),  # at least
        ([np.inf, 14, 14], [7, 7, 7], 22 / 3, (True, False), "refuted"),
        ([7, 8, 9], [np.inf, 12, 14], -17 / 3, (False, True), "supported"),  # at most
        ([np.inf] * 3, [np.inf] * 3, 0.0, (False, False), "inconclusive"),
    ],
)
def test_a_run_that_never_has_the_level_leaves_an_end_unknown(private, bare, value, known, expected):
    found = random_orthogonalization_claims._delay(np.array(private, float), np.array(bare, float), 14)
    assert found.value == pytest.approx(value)
    assert (found.low is not None, found.high is not None) == known
    assert claims.verdict(found, Band(most=1)) == expected
    shorter = random_orthogonalization_claims._delay(np.array(private, float), np.array(bare[:2], float), 14)
    assert shorter.realizations == 2


def test_a_ratio_that_one_realization_alone_makes_finite_has_no_interval():
    """Without the first realization, the ratio's second mean is 0: no jackknife is finite, and nothing warns."""
    measured = measures.estimate(lambda means: means[0] / means[1], [[1.0, 2.0, 3.0], [3.0, 0.0, 0.0]])
    assert measured.value == 2.0
    assert (measured.low, measured.high, measured.interval) == (None, None, measures.INFINITE)
