"""Paired differences: their intervals, p-values and corrections, what is compared, and what is said of it."""

from itertools import combinations

import numpy as np
import polars as pl
import pytest
from scipy import stats

import pwfl
from conftest import TINY
from pwfl.report import build, differences, differences_figure, finding, latex
from pwfl.report.differences import LEVEL, POWER, paired
from pwfl.report.sweeps import KIND
from pwfl.scenario import load
from pwfl.scenario.resolution import merge
from pwfl.scenario.values import Values

FEW = {"realizations": 5, "training_realizations": 4, "network": {"users": 6}, "schedule": {"gamma": 300.0}}
FEW |= {"training": {"hidden_layers": [], "rounds": 2, "learning_rate": 1.0, "clip_norm": 1.0, "evaluate_every": 1}}
SCHEMES = [
    {"name": "RndSched", "scheduler": "random", "noise": "random"},
    {"name": "OptSched", "scheduler": "optimal", "noise": "random"},
    {"name": "No noise", "scheduler": "optimal", "noise": "none"},
]
SCENARIOS = {
    "zero": {"title": "Zero start", "training": {"recipe": "zero_start"}},
    "drawn": {},
    "steep": {"training": {"learning_rate": 2.0}},
    "others": {"seed": 9},
}


@pytest.fixture(scope="module")
def study() -> tuple:
    """A study's tables, and what comparisons are made of."""
    config = {"base": merge(TINY["base"], FEW) | {"schemes": SCHEMES}, "scenarios": SCENARIOS}
    found, loaded = pwfl.simulate(config), load(config, "study.yaml")
    contents = {
        name: {"scenario": loaded.scenarios[name].part(), "point": loaded.point(name), **one.report}
        for name, one in found.scenarios.items()
    }
    return found, contents, loaded


def test_intervals_and_p_values_are_those_of_a_paired_t_test():
    generator = np.random.default_rng(0)
    first, second = generator.normal(size=(2, 40, 9))
    second += np.linspace(-2, 2, 40)[:, None]
    first[generator.random(first.shape) < 0.2] = np.nan
    second[3, 4] = np.inf
    found = paired(first, second)
    for k, (a, b) in enumerate(zip(first, second, strict=True)):
        both = np.isfinite(a) & np.isfinite(b)
        test = stats.ttest_rel(a[both], b[both])
        interval = test.confidence_interval(0.95)
        assert found["realizations"][k] == both.sum()
        assert found["without_result"][k] == 9 - both.sum()
        expected = [np.mean(a[both] - b[both]), interval.low, interval.high, test.pvalue]
        np.testing.assert_allclose([found[name][k] for name in ("difference", "low", "high", "p")], expected)


def test_the_correction_is_holms():
    # Step by step: the k-th smallest of m is multiplied by m - k, and no corrected p is below an earlier one.
    p = np.random.default_rng(1).random(50) ** 3
    p[[3, 17]] = np.nan
    p[5] = p[6]
    known = np.flatnonzero(np.isfinite(p))
    expected, so_far = np.full(50, np.nan), 0.0
    for k, place in enumerate(sorted(known, key=lambda place: p[place])):
        so_far = max(so_far, min(1.0, (len(known) - k) * p[place]))
        expected[place] = so_far
    np.testing.assert_allclose(differences.holm(p), expected)


def test_of_equal_schemes_any_of_all_pairs_is_called_different_once_in_twenty_studies():
    # 600 studies of 6 schemes, all 15 pairs: a family-wise rate of at most 5 %. Above 9.3 % once in a million.
    generator, pairs = np.random.default_rng(2), np.array([(b, a) for a in range(6) for b in range(a + 1, 6)])
    wrong = 0
    for _ in range(600):
        values = generator.normal(size=(6, 8)) + generator.normal(size=8)
        wrong += (paired(values[pairs[:, 0]], values[pairs[:, 1]])["p_corrected"] < LEVEL).any()
    assert 0.005 < wrong / 600 < 0.093  # nor is it so strict that nothing is ever found


@pytest.mark.parametrize("pairs", [1, 10])
def test_what_is_called_detectable_is_detected_with_its_power(pairs):
    generator, count = np.random.default_rng(3), 12
    errors = generator.normal(size=(4000, count))
    # Of a standard deviation of 1, not of the sample's.
    detectable = (stats.t.ppf(1 - LEVEL / (2 * pairs), count - 1) + stats.t.ppf(POWER, count - 1)) / np.sqrt(count)
    p = stats.ttest_1samp(errors + detectable, 0.0, axis=1).pvalue
    assert POWER - 0.06 < (p < LEVEL / pairs).mean() < POWER + 0.06
    some = np.concatenate([errors[:1], np.zeros((1, count))] + [errors[:1]] * (pairs - 1))
    found = paired(some[:1].repeat(pairs, axis=0), some[1:2].repeat(pairs, axis=0))
    assert found["detectable"][0] == pytest.approx(detectable * errors[0].std(ddof=1))


def test_so_many_realizations_as_are_asked_for_detect_the_measured_difference():
    std, difference = 1.0, np.array([2.0, 0.5, 0.1, 0.0])
    for pairs in (1, 20):
        needed = differences.needed(difference, np.full(4, std), pairs)
        assert np.isnan(needed[3])
        for size, count in zip(difference[:3], needed[:3].astype(int), strict=True):

            def resolved(n, of=pairs):
                quantiles = stats.t.ppf(1 - LEVEL / (2 * of), n - 1) + stats.t.ppf(POWER, n - 1)
                return std * quantiles / np.sqrt(n)

            assert resolved(count) <= size
            assert resolved(max(2, int(0.99 * count) - 1)) > size or count == 2


def test_without_spread_a_difference_is_certain_and_none_is_none():
    found = paired(
        np.array([[1.0, 1.0], [0.3, 0.3], [0.1 + 0.2, 0.6], [1.0, np.nan]]),
        np.array([[0.5, 0.5], [0.3, 0.3], [0.3, 0.6], [0.0, 1.0]]),
    )
    assert found["p"][:3].tolist() == [0.0, 1.0, 1.0]
    assert np.isnan(found["p"][3])
    assert np.isnan(found["low"][3])
    assert found["difference"].tolist() == [0.5, 0.0, 0.0, 1.0]


def test_schemes_are_compared_in_their_scenario_and_points_at_one_epsilon(study):
    found, _, _ = study
    rows = found.comparison["differences"].filter(outcome="accuracy")
    inside = rows.filter(pl.col("scenario") == pl.col("than_scenario"))
    names = [("OptSched", "RndSched"), ("No noise", "RndSched"), ("No noise", "OptSched")]
    expected = {(scenario, *pair) for scenario in SCENARIOS for pair in names}
    assert sorted(inside.select("scenario", "scheme", "than_scheme").rows()) == sorted(expected)
    across = rows.filter(pl.col("scenario") != pl.col("than_scenario"))
    # Noise is what the scenarios of one seed have in common, scheme by scheme; of another seed nothing is paired.
    assert set(across["scheme"]) == {"RndSched", "OptSched"}
    pairs = {("drawn", "zero"), ("steep", "zero"), ("steep", "drawn")}
    assert set(across.select("scenario", "than_scenario").rows()) == pairs
    outcomes = found.comparison["outcomes"].filter(outcome="epsilon")
    epsilons = {row[:2]: row[2] for row in outcomes.select("scenario", "scheme", "mean").iter_rows()}
    for row in across.iter_rows(named=True):
        for prefix in ("", "than_"):
            own = epsilons[row[f"{prefix}scenario"], row[f"{prefix}scheme"]]
            assert row["epsilon"] == pytest.approx(own, rel=differences.SAME_EPSILON)
    assert rows["pairs"].unique().to_list() == [len(rows)]


def test_pairs_are_those_that_brute_force_finds():
    generator = np.random.default_rng(6)
    names, count = ["a", "b", "c"], 40
    tasks = {"a": (1, "digits"), "b": (1, "digits"), "c": (1, "mnist")}
    study = {name: {"scenario": Values({"seed": s, "data": {"dataset": d}})} for name, (s, d) in tasks.items()}
    some = {
        "target_epsilon": [None, 1.0, 2.0],
        "guarantee": [None, "proved", "none"],
        "epsilon_trusts": [None, "stations"],
    }
    some |= {"observer": ["user", "network"], "epsilon": [None, np.inf, 0.0, 1.0, 1.0005, 1.01], "scenario": names}
    columns = {name: [values[k] for k in generator.integers(len(values), size=count)] for name, values in some.items()}
    points = pl.DataFrame(columns, strict=False)
    rows, expected = points.rows(named=True), []
    for first, second in combinations(range(count), 2):
        one, other = rows[first], rows[second]
        if one["scenario"] == other["scenario"]:
            found = one["target_epsilon"] == other["target_epsilon"]
        else:
            found = tasks[one["scenario"]] == tasks[other["scenario"]] and all(one[k] == other[k] for k in KIND)
            low, high = sorted(row["epsilon"] or 0.0 for row in (one, other))
            found &= 0 < low <= high < np.inf and high <= 1.001 * low
        if found:
            expected.append([second, first])
    with np.errstate(invalid="ignore"):
        assert differences._pairs(study, points).tolist() == expected
    assert len({rows[a]["scenario"] == rows[b]["scenario"] for a, b in expected}) == 2
    assert differences._pairs(study, points.head(1)).shape == (0, 2)


def test_pairs_of_equal_results_are_there_once():
    generator = np.random.default_rng(5)
    a, b, c = generator.normal(size=(3, 1, 6))
    values = {"accuracy": np.concatenate([a, b, a, c, b]), "epsilon": np.concatenate([b, c, b, a, c])}
    pairs = np.array([(1, 0), (2, 0), (3, 0), (4, 1), (3, 2), (4, 2), (4, 3)])
    # Points 2 and 4 are 0 and 1 again: (2, 0), (4, 1) are of equal results, (3, 2) and (4, 2) repeat earlier pairs.
    assert differences._different(pairs, values).tolist() == [[1, 0], [3, 0], [4, 3]]


def test_a_difference_is_that_of_the_realizations(study):
    found, _, _ = study
    rows = found.comparison["differences"]
    for row in rows.sample(20, seed=0).iter_rows(named=True):
        values = []
        for prefix in ("", "than_"):
            each = found.scenarios[row[f"{prefix}scenario"]].report["realizations"]
            values.append(each.filter(scheme=row[f"{prefix}scheme"]).sort("realization")[row["outcome"]].to_numpy())
        difference = values[0].astype(float) - values[1].astype(float)
        difference = difference[np.isfinite(difference)]
        assert row["realizations"] == len(difference)
        assert row["difference"] == pytest.approx(difference.mean(), abs=1e-12)
    assert set(rows["outcome"]) == {"accuracy", "epsilon", "air_seconds", "transmit_energy_j"}
    assert set(rows.filter(outcome="accuracy")["realizations"]) == {4}
    assert rows.filter(outcome="epsilon", scheme="No noise").is_empty()  # infinite


def test_a_figure_is_against_each_scheme_and_each_point_at_one_epsilon(study):
    _, contents, loaded = study
    titled = build.titled(contents, loaded.titles)
    charts = build.choices("multicell", "differences", titled)
    assert list(charts)[:3] == [f"against {scheme['name']}" for scheme in SCHEMES]
    assert "against RndSched (Zero start)" in charts
    first = build.comparison_figure("multicell", "differences", titled).to_dict()
    assert first == charts["against RndSched"].to_dict()
    (data,) = [rows for rows in first["datasets"].values() if "difference" in rows[0]]
    assert {row["point"] for row in data} >= {"OptSched (Zero start)", "No noise (drawn)"}
    own = differences.table(contents, build.compare(contents)["outcomes"]).filter(
        outcome="accuracy", scenario="zero", than_scenario="zero", scheme="OptSched", than_scheme="RndSched"
    )
    (row,) = [row for row in data if row["point"] == "OptSched (Zero start)"]
    assert row["difference"] == pytest.approx(100 * own["difference"][0])
    turned = differences_figure.references(differences.table(contents, build.compare(contents)["outcomes"]))
    (back,) = turned["OptSched"].filter(outcome="accuracy", scenario="zero", scheme="RndSched").to_dicts()
    assert [back["difference"], back["low"], back["high"]] == [-own[name][0] for name in ("difference", "high", "low")]


def test_sentences_say_which_is_better_or_how_many_realizations_would_tell():
    row = {"difference": -0.116, "low": -0.2, "high": -0.032, "p": 0.001, "p_corrected": 0.008, "realizations": 10}
    row |= {"pairs": 3, "epsilon": 8.0, "detectable": 0.04, "realizations_needed": 9, "outcome": "accuracy"}
    accuracy = finding.outcomes_of("multicell")["accuracy"]
    said = finding.difference(row, "PF", "OptSched", accuracy)
    assert said == (
        "PF is 11.6 points below OptSched in final test accuracy (95% interval -20 to -3.2; p = 0.008, corrected for 3 "
        "pairs; 10 realizations) at ε = 8."
    )
    certain = finding.difference(row | {"p_corrected": 0.0}, "PF", "OptSched", accuracy)
    assert "; p < 0.0001, corrected" in certain
    single = finding.difference(row | {"pairs": 1}, "PF", "OptSched", accuracy)
    assert "; p = 0.008; 10 realizations)" in single
    unclear = row | {"p_corrected": 0.3, "epsilon": None, "realizations_needed": 30}
    said = finding.difference(unclear, "PF", "OptSched", accuracy, 0.5)
    assert said == (
        "PF and OptSched do not differ significantly in final test accuracy: -11.6 points (95% interval -20 to -3.2; "
        "p = 0.3, corrected for 3 pairs; 10 realizations); its record-level ε is 0.5 higher. 10 realizations detect 4 points, about 30 "
        "would detect the measured difference."
    )
    alone = finding.difference(row | {"p": None, "realizations": 1}, "PF", "OptSched", accuracy)
    assert alone == "PF and OptSched have one realization in common, which tells nothing of their difference."


def test_latex_has_a_row_for_each_pair(study):
    table = study[0].comparison["differences"]
    said = latex.differences(table)
    assert said.count(" \\\\\n") == len(table.filter(outcome="accuracy")) + 1
    assert "Final test" in said
    assert latex.differences(table.clear()).startswith("%")
    assert latex.claims(study[0].comparison["claims"].clear()).startswith("%")


def test_a_figure_of_many_points_says_how_many_of_them_it_has(monkeypatch, study):
    _, contents, loaded = study
    titled = build.titled(contents, loaded.titles)
    whole = build.comparison_figure("multicell", "differences", titled).to_dict()["title"]["subtitle"]
    assert "differences.csv" not in " ".join(whole)
    monkeypatch.setattr(differences_figure, "MOST", 2)
    monkeypatch.setattr(differences_figure, "MOST_POINTS", 1)
    *_, rows = differences_figure._known(titled)
    across = differences.both_ways(rows).filter(pl.col("scenario") != pl.col("than_scenario"))
    points = across.select("than_scenario", "than_scheme").n_unique()
    first = next(iter(differences_figure.references(rows).values()))
    said = " ".join(build.comparison_figure("multicell", "differences", titled).to_dict()["title"]["subtitle"])
    assert f"the first 2 of {len(first)} rows; all are in differences.csv" in said
    assert f"the menu has the first 1 of {points} points; all are in differences.csv" in said
