"""Chance levels, start models, and the lines that figures have for them."""

import re

import numpy as np
import polars as pl
import pytest
import vl_convert

from pwfl.learning import datasets, sources
from pwfl.report import chance, theme
from pwfl.report.axes import fitted, leveled
from pwfl.scenario.values import Values

DIGITS = Values({"data": {"dataset": "digits"}})


def history(*starts: float) -> pl.DataFrame:
    return pl.DataFrame(
        {"round": [0, 4] * len(starts), "accuracy": [part for start in starts for part in (start, 0.9)]}
    )


def test_chance_is_the_share_of_the_largest_class_of_the_test_records():
    labels = sources.load("digits")[3]
    share = np.bincount(labels).max() / len(labels)
    assert chance.level(DIGITS) == chance.Level(pytest.approx(share), chance.KNOWN)
    assert chance.LARGEST.keys() == datasets.SIZES.keys()
    for name, size in datasets.SIZES.items():
        assert chance.LARGEST[name] >= 1 / size.classes


def test_without_knowledge_of_the_test_records_chance_is_one_of_the_classes():
    own = Values({"data": {"dataset": "file", "content": {"classes": 4}}})
    assert chance.level(own) == chance.Level(0.25, chance.COUNTED)
    assert chance.level(Values({"data": {"samples": 3}})) is None  # a regression
    assert chance.level(Values({})) is None


def test_the_start_model_is_that_of_round_0():
    assert chance.start(history(0.1, 0.2)) == pytest.approx(0.15)
    assert chance.start(history(0.1).filter(pl.col("round") > 0)) is None
    assert chance.start(pl.DataFrame({"round": [0]})) is None
    assert chance.start(None) is None


def test_lines_name_what_they_are():
    alone = chance.scenario_levels(DIGITS, history(0.1))
    assert alone["text"].to_list() == ["chance 13.1% (largest class)", "start model 10%"]
    own = Values({"data": {"dataset": "file", "content": {"classes": 4}}})
    study = {"a": {"scenario": DIGITS, "history": history(0.1)}, "b": {"scenario": own, "history": history(0.3)}}
    assert chance.levels(study)["text"].to_list() == [
        *("chance 13.1% (largest class, a)", "chance 25% (1/classes, b)"),
        *("worst start model 10%", "best start model 30%"),
    ]
    study["b"] = {"scenario": DIGITS, "history": history(0.11)}
    close = chance.levels(study)
    assert close["text"][1] == "start model 10% to 11%"
    assert close["level"][1] == pytest.approx(0.105)
    assert chance.levels({"a": {"scenario": Values({})}}).is_empty()


def test_levels_are_on_the_axis_and_named_in_a_legend_that_says_which_are_beyond_it():
    levels = pl.DataFrame({"level": [0.1, 0.2], "text": ["start model 10%", "chance 20% (largest class, first)"]})
    named = ["chance 20% (largest class,\nfirst)", "start model 10%"]  # from the highest
    axis, layers = leveled(theme.accuracy_axis(), levels, [0.5, 0.9], most=1)
    assert axis["scale"]["domain"][0] < 0.1
    [line] = [layer.to_dict() for layer in layers]
    assert line["mark"]["type"] == "rule"  # no text is drawn where curves are
    assert line["encoding"]["strokeWidth"]["scale"]["domain"] == named
    assert layers[0].data["level"].to_list() == [0.2, 0.1]
    texts = re.findall(r">([^<>]+)</(?:text|tspan)>", vl_convert.vegalite_to_svg(line))
    assert {"chance 20% (largest class,", "first)", "start model 10%"} <= set(texts)
    axis, layers = leveled(theme.accuracy_axis(), levels, [0.92, 0.95], most=1)
    assert axis["scale"]["domain"][0] > 0.9
    domain = layers[0].to_dict()["encoding"]["strokeWidth"]["scale"]["domain"]
    assert [text.replace("\n", " ") for text in domain] == [
        f"below this axis: {t.replace(chr(10), ' ')}" for t in named
    ]
    assert layers[0].data.is_empty()


def test_a_legend_of_one_level_leaves_room_for_its_line():
    levels = pl.DataFrame({"level": [0.2, 0.1], "text": ["chance 20%", "start model 10%"]})
    places = []
    for count in (2, 1):
        _, (line,) = leveled(theme.accuracy_axis(), levels.head(count), [0.5, 0.9], most=1)
        drawn = vl_convert.vegalite_to_svg(line.to_dict())
        places += re.findall(r'translate\(([-\d.]+),([-\d.]+)\)"[^>]*>chance', drawn)
    assert len(places) == 2
    assert places[0] == places[1]
    assert float(places[1][0]) > 0


@pytest.mark.parametrize(
    ("points", "ends", "most", "domain"),
    [
        ([0.5], [], 1, [0.4, 0.6]),
        ([0.95], [0.7, 1.0], 1, [0.685, 1.0]),
        ([0.0, 4.0], [9.0, np.inf, np.nan], None, [0.0, 9.45]),
        ([0.0], [], 1, [0.0, 1.0]),
        ([2.0], [-8.0], None, [-8.5, 2.5]),
    ],
)
def test_an_axis_holds_points_and_ends_of_intervals_within_bounds(points, ends, most, domain):
    axis = fitted(theme.accuracy_axis(), pl.Series(points), pl.Series(ends, dtype=pl.Float64), most=most)
    assert axis["scale"]["domain"] == pytest.approx(domain)
