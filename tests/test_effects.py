"""Effects: their intervals, p-values and corrections, which points are compared, and what is said of it."""

from itertools import combinations

import numpy as np
import polars as pl
import pytest
from scipy import stats

import pwfl
from conftest import TINY
from pwfl.report import effects, factors, latex, points
from pwfl.report.effects import LEVEL, NOISE, OBSERVER, POWER, PRIVACY, SCHEDULER, paired
from pwfl.scenario import load
from pwfl.scenario.resolution import merge

FEW = {"realizations": 5, "training_realizations": 4, "network": {"users": 6}, "schedule": {"gamma": 300.0}}
FEW |= {"training": {"hidden_layers": [], "rounds": 2, "learning_rate": 1.0, "clip_norm": 1.0, "evaluate_every": 1}}
SCHEMES = [
    {"name": "RndSched", "scheduler": "random", "noise": "random"},
    {"name": "OptSched", "scheduler": "optimal", "noise": "random"},
    {"name": "OptSched+DP", "scheduler": "optimal", "noise": "optimal"},
    {"name": "No noise", "scheduler": "optimal", "noise": "none"},
]
TARGETS = [{"name": "OptSched", "scheduler": "optimal", "noise": "target"}]
SWEEP = {"privacy.target_epsilon": [2.0, 8.0], "training.clip_norm": [0.5, 1.0, 2.0]}
SCENARIOS = {
    "drawn": {},
    "zero": {"title": "Zero start", "training": {"recipe": "zero_start"}},
    "steep": {"title": "Steep", "training": {"learning_rate": 2.0, "recipe": "zero_start"}},
    "others": {"seed": 9},
    "swept": {"title": "Swept", "schemes": TARGETS, "sweep": SWEEP},
    "summed": {"title": "Swept, sums", "schemes": TARGETS, "sweep": SWEEP, "privacy": {"observer": "network"}},
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
        np.testing.assert_allclose(
            [found[name][k] for name in ("difference", "difference_ci_low", "difference_ci_high", "p")], expected
        )


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
    np.testing.assert_allclose(effects.holm(p), expected)


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
        needed = effects.needed(difference, np.full(4, std), pairs)
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
    assert np.isnan(found["difference_ci_low"][3])
    assert found["difference"].tolist() == [0.5, 0.0, 0.0, 1.0]


def flat(values: dict, prefix: str = "") -> dict:
    found = {}
    for key, value in values.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def test_pairs_are_those_that_differ_in_one_factor_by_brute_force(study):
    found, _, loaded = study
    every = []
    for name, one in loaded.scenarios.items():
        written = flat(one.model_dump(exclude={"schemes", "audit"}))
        for scheme in one.schemes:
            kept = {k: v for k, v in written.items() if scheme.noise != "none" or not k.startswith("privacy.")}
            every.append((name, scheme, kept))
    expected = set()
    for (a, one, of_a), (b, other, of_b) in combinations(every, 2):
        keys = {key for key in of_a | of_b if of_a.get(key) != of_b.get(key)}
        noiseless = [scheme.noise == "none" for scheme in (one, other)]
        if sum(noiseless) == 1:  # whatever its privacy parameters
            keys = {key for key in keys if not key.startswith("privacy.")}
            if not keys and one.scheduler == other.scheduler:
                expected.add((PRIVACY, frozenset([(a, one.name), (b, other.name)])))
            continue
        parts = [SCHEDULER] * (one.scheduler != other.scheduler) + [NOISE] * (one.noise != other.noise)
        alone = keys & {OBSERVER, *SWEEP}
        sections = {key.split(".")[0] for key in keys - alone}
        rest = list(keys - alone)
        named = [*alone, *(rest if len(rest) == 1 else sections)]
        if parts + named in (
            [part]
            for part in [
                SCHEDULER,
                NOISE,
                OBSERVER,
                "training",
                "training.recipe",
                "training.learning_rate",
                "training.clip_norm",
            ]
        ):
            clips = {of["training.clip_norm"] for of in (of_a, of_b)}
            if named != ["training.clip_norm"] or clips == {0.5, 2.0} or {a, b} & {"drawn", "zero", "steep"}:
                expected.add(((parts + named)[0], frozenset([(a, one.name), (b, other.name)])))
    table = found.comparison["effects"]
    rows = {
        (row["factor"], frozenset([(row["from_scenario"], row["from_scheme"]), (row["to_scenario"], row["to_scheme"])]))
        for row in table.iter_rows(named=True)
    }
    assert rows <= expected, rows - expected
    # Those of equal results, or that repeat another one, have no rows: of swept clipping where nobody is clipped.
    assert {factor for factor, _ in expected} == {factor for factor, _ in rows}
    assert len(rows) > 0.7 * len(expected)
    assert not {"others"} & {name for _, pair in rows for name, _ in pair if len({n for n, _ in pair}) > 1}
    targets = table.filter(factor="training.clip_norm").select("from", "to").unique()
    assert ("0.5", "2") in targets.rows()
    assert not any(
        "1" in row
        for row in table.filter(factor="training.clip_norm", from_scheme="OptSched")
        .filter(pl.col("from_scenario").str.starts_with("swept"))
        .select("from", "to")
        .rows()
    )


def test_differences_go_from_less_to_more_and_from_no_noise_to_noise(study):
    table = study[0].comparison["effects"]
    assert set(table.filter(factor=PRIVACY)["from_scheme"]) == {"No noise"}
    assert set(table.filter(factor=OBSERVER).select("from", "to").rows()) == {("user", "network")}
    numbers = table.filter(factor="training.clip_norm").select(pl.col("from", "to").cast(pl.Float64))
    assert (numbers["from"] < numbers["to"]).all()
    assert set(table.filter(factor=SCHEDULER).select("from", "to").rows()) == {("RndSched", "OptSched")}


def test_a_difference_is_that_of_the_realizations_and_all_are_corrected_together(study):
    found, _, _ = study
    rows = found.comparison["effects"]
    for row in rows.sample(20, seed=0).iter_rows(named=True):
        values = []
        for end in ("to", "from"):
            each = found.scenarios[row[f"{end}_scenario"]].report["realizations"]
            values.append(each.filter(scheme=row[f"{end}_scheme"]).sort("realization")[row["outcome"]].to_numpy())
        difference = values[0].astype(float) - values[1].astype(float)
        difference = difference[np.isfinite(difference)]
        assert row["realizations"] == len(difference)
        assert row["difference"] == pytest.approx(difference.mean(), abs=1e-12)
    assert set(rows["outcome"]) == {"accuracy", "epsilon", "air_seconds", "transmit_energy_j"}
    accuracy = rows.filter(outcome="accuracy")
    assert set(accuracy["realizations"]) == {4}
    assert accuracy["comparisons"].unique().to_list() == [len(accuracy)]
    np.testing.assert_allclose(accuracy["p_corrected"], effects.holm(accuracy["p"].to_numpy()))
    assert rows.filter(outcome="epsilon", factor=PRIVACY).is_empty()  # infinite


def test_pairs_of_equal_results_are_there_once():
    generator = np.random.default_rng(5)
    a, b, c = generator.normal(size=(3, 1, 6))
    values = {"accuracy": np.concatenate([a, b, a, c, b]), "epsilon": np.concatenate([b, c, b, a, c])}
    pairs = [(*pair, "f", "x", "y") for pair in [(1, 0), (2, 0), (3, 0), (4, 1), (3, 2), (4, 2), (4, 3)]]
    # Points 2 and 4 are 0 and 1 again: (2, 0), (4, 1) are of equal results, (3, 2) and (4, 2) repeat earlier pairs.
    assert [pair[:2] for pair in effects._different(pairs, values)] == [(1, 0), (3, 0), (4, 3)]


def test_factors_are_named_by_titles_and_say_what_else_changes(study):
    found, contents, loaded = study
    rows = points.points(contents, found.comparison, loaded.titles)
    accuracy = points.find_outcome(rows.row(0, named=True))
    known = {each.key: each for each in factors.factors(found.comparison["effects"], rows, "accuracy", accuracy)}
    assert list(known)[:2] == [SCHEDULER, NOISE]
    assert list(known)[-1] == PRIVACY
    assert known["training"].name == "Learning rule"
    assert known[OBSERVER].before == "each user's message"
    said = [row["setting"] for each in known.values() for row in each.rows]
    assert not any("_" in text or "privacy." in text for text in said)
    for each in known.values():
        assert "nan" not in " ".join(factors.effect(each)) + factors.costs(each)


def test_latex_has_a_row_for_each_pair(study):
    table = study[0].comparison["effects"]
    said = latex.effects(table)
    pairs = table.n_unique(["factor", *(f"{end}_{key}" for end in ("from", "to") for key in ("scenario", "scheme"))])
    assert said.count(" \\\\\n") == pairs + 1
    assert "Final test" in said
    assert latex.effects(table.clear()).startswith("%")
    assert latex.claims(study[0].comparison["claims"].clear()).startswith("%")
