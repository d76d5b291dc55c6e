"""Chance levels, start models, and the lines that figures have for them."""

import numpy as np
import polars as pl
import pytest

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
    assert chance.level(DIGITS) == pytest.approx(share)
    assert chance.LARGEST.keys() == datasets.SIZES.keys()
    for name, size in datasets.SIZES.items():
        assert chance.LARGEST[name] >= 1 / size.classes


def test_without_knowledge_of_the_test_records_chance_is_one_of_the_classes():
    own = Values({"data": {"dataset": "file", "content": {"classes": 4}}})
    assert chance.level(own) == 0.25
    assert chance.level(Values({"data": {"samples": 3}})) is None  # a regression
    assert chance.level(Values({})) is None


def test_the_start_model_is_that_of_round_0():
    assert chance.start(history(0.1, 0.2)) == pytest.approx(0.15)
    assert chance.start(history(0.1).filter(pl.col("round") > 0)) is None
    assert chance.start(pl.DataFrame({"round": [0]})) is None


def test_lines_name_what_they_are():
    found = chance.scenario_levels(DIGITS, history(0.1, 0.12))
    assert found["text"].to_list() == ["chance 13.1%", "start model 11%"]
    assert found["level"].to_list() == pytest.approx([47 / 360, 0.11])
    assert chance.scenario_levels(Values({}), pl.DataFrame()).is_empty()


def test_levels_are_lines_where_the_axis_reaches_and_are_named_at_its_right_end_in_any_case():
    levels = pl.DataFrame({"level": [0.1, 0.2], "text": ["start model 10%", "chance 20%"]})
    axis = leveled(theme.accuracy_axis(), levels, [0.5, 0.9], most=1)
    low, high = axis["scale"]["domain"]
    assert low < 0.1
    [lines], named = theme.level_lines(axis, levels)
    assert lines.data["level"].to_list() == [0.1, 0.2]
    assert [text for text, *_ in named] == ["start model 10%", "chance 20%"]
    at = [theme.HEIGHT * (high - level) / (high - low) for level in levels["level"]]
    assert [place for _, place, _ in named] == pytest.approx(at)
    axis = leveled(theme.accuracy_axis(), levels, [0.92, 0.95], most=1)
    assert axis["scale"]["domain"][0] > 0.9
    [lines], named = theme.level_lines(axis, levels)
    assert lines.data.is_empty()
    assert [text for text, *_ in named] == ["start model 10% (below)", "chance 20% (below)"]
    assert theme.level_lines(axis, None) == ([], [])


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
