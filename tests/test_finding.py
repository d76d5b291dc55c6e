"""What a study found, in sentences: nothing that is not above chance leads, and what diverged is counted."""

import polars as pl
import pytest

import pwfl
from conftest import TINY
from pwfl.report import build, chance, finding, latex, sweeps
from pwfl.scenario import load
from pwfl.scenario.resolution import merge

FEW = {"realizations": 4, "training_realizations": 4, "network": {"users": 6}, "schedule": {"gamma": 300.0}}
FEW |= {"training": {"hidden_layers": [], "rounds": 2, "learning_rate": 1.0, "clip_norm": 1.0, "evaluate_every": 1}}
SCHEMES = [
    {"name": "RndSched", "scheduler": "random", "noise": "random"},
    {"name": "OptSched", "scheduler": "optimal", "noise": "optimal"},
    {"name": "No noise", "scheduler": "optimal", "noise": "none"},
]
TITLES, BARE = {"one": "The one"}, {"one": ["No noise"]}
LEVEL = 47 / 360  # the largest class of the digits that are tested


@pytest.fixture(scope="module")
def content() -> dict:
    """A scenario with its report's tables."""
    config = {"base": merge(TINY["base"], FEW) | {"schemes": SCHEMES}, "scenarios": {"one": {}}}
    found, study = pwfl.simulate(config), load(config, "study.yaml")
    return {"scenario": study.scenarios["one"].part(), "point": study.point("one"), **found.scenarios["one"].report}


def compared(content: dict, accuracies: dict[str, list[float]]) -> tuple[dict, dict]:
    """The study's tables and its content where schemes come to other accuracies; None: diverged."""
    frames = []
    for scheme, values in accuracies.items():
        own = content["realizations"].filter(scheme=scheme).sort("realization")
        ended = ["trained" if value is not None else "diverged" for value in values]
        frames.append(own.with_columns(accuracy=pl.Series(values, dtype=pl.Float64), training=pl.Series(ended)))
    study = {"one": content | {"realizations": pl.concat(frames)}}
    return build.compare(study), study


def said(tables: dict) -> list[str]:
    return finding.sentences(finding.points(tables, BARE, TITLES), tables["differences"])


def test_a_scheme_that_is_not_above_chance_is_not_starred_ringed_or_in_the_first_sentence(content):
    assert chance.level(content["scenario"]).share == LEVEL
    good, poor, bare = [0.8, 0.82, 0.81, 0.8], [0.1, 0.2, 0.12, 0.13], [0.9] * 4
    for best, worst in (("RndSched", "OptSched"), ("OptSched", "RndSched")):
        tables, study = compared(content, {best: good, worst: poor, "No noise": bare})
        assert set(tables["front"]["scheme"]) == {best}
        points = finding.points(tables, BARE, TITLES)
        assert points.filter("best")["scheme"].to_list() == [best]
        first, second, third, *_ = said(tables)
        assert first.startswith("Highest final test accuracy with a proved guarantee: 80.8% (95% interval 79.")
        assert f"by {best}." in first
        assert second.startswith("Best non-private baseline: 90.0%")
        assert third == f"Not above chance (0.131): {worst}."
        (rows,) = [
            rows
            for rows in build.comparison_figure("multicell", "plane", study).to_dict()["datasets"].values()
            if "best" in rows[0]
        ]
        assert {row["scheme"]: row["best"] for row in rows} == {best: True, worst: False}


def test_where_nothing_is_above_chance_nothing_leads(content):
    poor = {scheme["name"]: [0.1, 0.2, 0.12, 0.13] for scheme in SCHEMES}
    tables, _ = compared(content, poor)
    (sentence,) = said(tables)
    start, _, names = sentence.rstrip(".").partition(": ")
    assert start == "Not above chance (0.131)"
    assert sorted(names.split(", ")) == sorted(poor)
    assert tables["front"].filter(y="accuracy").is_empty()


def test_a_study_of_one_scheme_says_what_it_comes_to(content):
    tables, _ = compared(content, {"RndSched": [0.8, 0.82, 0.81, 0.8]})
    sentence, of_users = said(tables)
    assert sentence.startswith("Highest final test accuracy with a proved guarantee: 80.8% (95% interval 79.")
    assert sentence.endswith(", by RndSched.")
    assert of_users.startswith("This ε protects one record.")


def test_of_several_systems_each_has_one_sentence(content):
    tables, _ = compared(content, {"RndSched": [0.8, 0.82, 0.81, 0.8], "OptSched": [0.6, 0.62, 0.61, 0.6]})
    points = finding.points(tables, BARE, TITLES).with_columns(attack_rate=pl.lit(0.5))
    other = points.with_columns(system=pl.lit("anonymous_oac"))
    first, second = finding.sentences(pl.concat([points, other]), tables["differences"])
    assert first.startswith("multicell: Highest final test accuracy with a proved guarantee: 80.8%")
    assert second.startswith("anonymous_oac: Highest")


def test_the_first_sentence_has_the_best_result_of_its_guarantee_whoever_observes(content):
    tables, _ = compared(content, {"RndSched": [0.8, 0.82, 0.81, 0.8], "OptSched": [0.6, 0.62, 0.61, 0.6]})
    points = finding.points(tables, BARE, TITLES).with_columns(best=~pl.col("bare"))
    elsewhere = points.filter(scheme="OptSched").with_columns(observer=pl.lit("another one"), mean=pl.lit(0.95))
    first, *_ = finding.sentences(pl.concat([points, elsewhere]), tables["differences"])
    assert first.startswith("Highest final test accuracy with a proved guarantee: 95.0%")


def several_points(tables: dict, rows: list[dict]) -> pl.DataFrame:
    """Points of a front, made of one of a study, with other values in some columns."""
    point = finding.points(tables, BARE, TITLES).filter(scheme="RndSched").row(0, named=True)
    schema = finding.points(tables, BARE, TITLES).schema
    return pl.DataFrame([point | {"best": True} | row for row in rows], schema=schema)


def test_the_leader_is_the_best_point_at_which_attacks_rarely_succeed(content):
    tables, _ = compared(content, {"RndSched": [0.8, 0.82, 0.81, 0.8]})
    front = [("a", 1.0, 0.7, 0.02), ("b", 2.0, 0.8, 0.034), ("c", 4.0, 0.9, 0.081)]
    rows = [dict(zip(("scheme", "epsilon", "mean", "attack_rate"), point, strict=True)) for point in front]
    first, second, *_ = finding.sentences(several_points(tables, rows), tables["differences"])
    assert first.startswith(
        "Highest final test accuracy with a proved guarantee and an attack rate of at most 5%: 80.0%"
    )
    assert "an attack with 1% false positives succeeds in at most 3.4% of cases" in first
    assert first.endswith(", by b.")
    assert second.startswith("Highest on the Pareto front: 90.0%")
    assert "at ε = 4, by c; smallest ε on the Pareto front: 1, at 70.0%" in second
    # Another observer's front, of a better result at which attacks succeed, does not lead.
    other = [row | {"observer": "another one", "mean": 0.95, "attack_rate": 0.5, "scheme": "d"} for row in rows[:1]]
    first, *_ = finding.sentences(several_points(tables, rows + other), tables["differences"])
    assert first.endswith(", by b.")
    # Where attacks succeed everywhere, the best result leads.
    often = [row | {"attack_rate": 0.3} for row in rows]
    first, *_ = finding.sentences(several_points(tables, often), tables["differences"])
    assert first.startswith("Highest final test accuracy with a proved guarantee: 90.0%")


@pytest.mark.parametrize(
    ("most", "said"),
    [
        (2.0, "This ε protects all records of a user together."),
        (11348.0, "This ε protects one record. For all records of a user together it is up to 11,300, because"),
        (10.0, None),
        (None, None),
        (float("inf"), None),
    ],
)
def test_what_an_epsilon_means_for_a_user_is_said(content, most, said):
    tables, _ = compared(content, {"RndSched": [0.8, 0.82, 0.81, 0.8]})
    rows = several_points(tables, [{"epsilon": 2.0, "user_epsilon_most": most}])
    sentences = finding.sentences(rows, tables["differences"])
    found = [sentence for sentence in sentences if sentence.startswith("This ε")]
    assert found[0].startswith(said) if said else not found, sentences


def test_an_interval_that_reaches_down_to_chance_is_not_above_it(content):
    just = [LEVEL + 0.01, LEVEL + 0.05, LEVEL - 0.01, LEVEL + 0.03]
    tables, _ = compared(content, {"RndSched": just, "OptSched": [value + 0.1 for value in just]})
    accuracy = tables["outcomes"].filter(outcome="accuracy")
    assert accuracy["mean"].min() > LEVEL > accuracy["low"].min()
    assert accuracy.filter(sweeps.not_above_chance())["scheme"].to_list() == ["RndSched"]
    assert accuracy["chance"].unique().to_list() == [pytest.approx(LEVEL)]


def test_realizations_that_diverged_are_counted_beside_every_mean(content):
    accuracies = {"RndSched": [0.8, None, 0.81, None], "OptSched": [0.7, 0.72, 0.71, 0.7], "No noise": [0.9] * 4}
    tables, study = compared(content, accuracies)
    accuracy = tables["outcomes"].filter(outcome="accuracy")
    assert dict(accuracy.select("scheme", "diverged").rows()) == {"RndSched": 2, "OptSched": 0, "No noise": 0}
    assert accuracy["realizations"].to_list() == [2, 4, 4]
    assert "2 more diverged" in said(tables)[1]  # on the best result, where attacks succeed
    rows, _ = finding.table(finding.points(tables, BARE, TITLES))
    assert {row["scheme"]: row["unscheduled"] for row in rows}["RndSched"] == "2 more diverged"
    assert "diverged" in latex.outcomes(tables["outcomes"])
    front = tables["front"].filter(pl.col("scheme") == "RndSched")
    counts = {(axis, row[axis]): row[f"{axis}_diverged"] for row in front.iter_rows(named=True) for axis in "xy"}
    assert {count for (_, outcome), count in counts.items() if outcome == "accuracy"} == {2}
    assert {count for (_, outcome), count in counts.items() if outcome == "epsilon"} == {0}
    pair = tables["differences"].filter(outcome="accuracy", scheme="OptSched", than_scheme="RndSched")
    assert pair.select("realizations", "without_result").row(0) == (2, 2)
    for name in ("plane", "differences", "rounds"):
        title = build.comparison_figure("multicell", name, study).to_dict()["title"]["subtitle"]
        assert "left out, as training diverged: RndSched, 2 of 4" in " ".join(title), name
