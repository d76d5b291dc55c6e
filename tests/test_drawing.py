"""What figures of a page are made of: names that touch nothing, colours that can be read, SVG that stands by itself."""

import itertools
import re
from xml.etree import ElementTree

import altair as alt
import numpy as np
import polars as pl
import pytest

from pwfl import registry
from pwfl.report import drawing, labels, theme
from pwfl.report.headline import NOTHING, Lead
from pwfl.report.labels import Label, Part, named
from pwfl.report.overview import overview

STYLE = drawing.style("style.css")
OF_DARK = re.compile(r"prefers-color-scheme: dark\) \{.*?\n\}", re.DOTALL)
LIGHT, DARK = OF_DARK.sub("", STYLE), "".join(OF_DARK.findall(STYLE))


def luminance(colour: str) -> float:
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    return np.dot(
        [0.2126, 0.7152, 0.0722], [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    )


def contrast(one: str, other: str) -> float:
    dark, light = sorted(map(luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


def variable(style: str, name: str) -> str:
    colour = re.search(rf"--{name}: (#[0-9a-f]+)", style)[1]
    return colour if len(colour) == 7 else "#" + "".join(2 * digit for digit in colour[1:])


@pytest.mark.parametrize("style", [LIGHT, DARK], ids=["light", "dark"])
def test_words_can_be_read_on_their_ground(style):
    for name in ("ink", "soft", "link", "good", "bad", "open"):
        assert contrast(variable(style, name), variable(style, "bg")) > 4.5, name
    for name in ("good", "bad", "open"):
        assert contrast(variable(style, name), variable(style, f"{name}-bg")) > 4.5, name


def test_every_colour_of_marks_has_one_for_words_and_those_of_the_dark():
    colours = {*theme.PALETTE} | {
        c for name in registry.BUILT_IN for c in registry.system(name).catalog.colours.values()
    }
    for colour in colours - {"#000000"}:
        words = drawing.TEXT[colour]
        assert contrast(words, "#FFFFFF") > 4.5, colour
        assert contrast(words, drawing.WEAK) > 4.5, colour
        assert f'[stroke="{colour}"]' in DARK
        for each in {colour, words} - {drawing.SOFT}:
            (dark,) = re.findall(rf'\[fill="{each}"\][^{{]*{{ fill: (#\w+)', DARK)
            assert contrast(dark, variable(DARK, "bg")) > 4.5, each
    assert '[fill="#000000"]' in LIGHT


def test_names_touch_no_line_no_dot_and_no_other_name():
    rng = np.random.default_rng(5)
    for count in (1, 5, 12):
        dots = [tuple(map(float, dot)) for dot in rng.uniform((20, 20), (480, 330), (count, 2))]
        lines = list(itertools.pairwise(dots[:3]))
        wanted = [Label(named(f"Scheme {k}", "only the sum"), [dot], "#0072B2") for k, dot in enumerate(dots)]
        found = labels.place(wanted, lines, dots, (0, 0, 520, 350))
        assert len(found) == 2 * count  # a name and additional words
        boxes = [
            (x - 4, y - size / 2 - 1, x + labels.width(part.text, size, part.bold) + 4, y + size / 2 + 1)
            for x, y, part, _, size in found
        ]
        for k, one in enumerate(boxes):
            left, top, right, bottom = one
            assert (left >= 0, top >= 0, right <= 520, bottom <= 350) == (True,) * 4
            assert not any(left < x < right and top < y < bottom for x, y in dots)
            assert all(labels.overlap(one, other) == 0 for other in boxes[: k - k % 2])  # those of other labels
    assert labels.place(wanted, lines, dots, (0, 0, 520, 350)) == found  # whenever it is asked
    assert labels.place([], [], [], (0, 0, 1, 1)) == []


def test_a_name_without_a_good_place_is_left_out_only_if_it_may_be():
    spots = [(x, y) for x in range(0, 100, 8) for y in range(0, 100, 8)]
    label = Label([[[Part("in the way")]]], [(50, 50)], "#000")
    assert len(labels.place([label], [], spots, (0, 0, 100, 100))) == 1
    label.optional = True
    assert labels.place([label], [], spots, (0, 0, 100, 100)) == []


def test_svg_of_a_page_has_its_size_ids_of_its_own_and_text_of_twelve_pixels():
    rows = pl.DataFrame({"x": [1.0, 2.0], "y": [1.0, 3.0], "tip": ["a & <b>", "c"]})
    chart = alt.Chart(rows, width=200, height=100).mark_point().encode(x="x:Q", y="y:Q", description="tip:N")
    placed = labels.place([Label(named("One", "more"), [(50, 50)], "#0072B2")], [], [(50, 50)], (0, 0, 200, 100))
    texts = [drawing.svg(alt.layer(chart, *drawing.words(placed)), "A & B"), drawing.svg(chart, "Another")]
    for text in texts:
        ElementTree.fromstring(text)
        assert "http" not in text.replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert 'aria-label="a &amp; &lt;b&gt;"' in text
        assert {float(size) for size in re.findall(r'font-size="([\d.]+)', text)} == {12}
    ids = [set(re.findall(r'id="([^"]+)"', text)) for text in texts]
    assert not ids[0] & ids[1]
    assert drawing.svg(chart, "Another") == texts[1]
    assert 'aria-label="A &amp; B"' in texts[0]
    assert f"translate({placed[0].x:.2f}".rstrip("0").rstrip(".") in texts[0]
    assert texts[0].count(">One<") == 2  # and its outline


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("upright", [False, True])
def test_pixels_of_an_axis_are_those_that_altair_draws(log, upright):
    scale = drawing.Scale(2, 50, 300, log, upright)
    rows = pl.DataFrame({"v": [3.0, 20.0]})
    channel = {"y" if upright else "x": scale.axis("v", values=[2])}
    sizes = {"height" if upright else "width": 300}
    text = drawing.svg(alt.Chart(rows, **sizes).mark_point().encode(**channel), "")
    drawn = [tuple(map(float, pair)) for pair in re.findall(r'transform="translate\(([\d.]+),([\d.]+)\)" d="M', text)]
    assert [pair[upright] for pair in drawn] == pytest.approx([scale.at(3), scale.at(20)], abs=0.02)
    ends = pl.DataFrame({"end": [None, np.inf, 900.0], "else": 7.0})
    assert ends.select(scale.cut("end", "else")).to_series().to_list() == [7, 7, 50]


def test_figures_of_systems_side_by_side_have_the_axes_of_all_points():
    rows = {"system": "multicell", "outcome": "accuracy", "scheme": "A", "scenario": ["a", "b", "c"], "rank": 0}
    rows |= {"sweep_of": ["a", "b", "c"], "title": ["a", "b", "c"], "place": ["a", "b", "c"], "value": ""}
    rows |= {"mean": [0.5, 0.6, 0.9], "ci_low": None, "ci_high": None, "epsilon": [1.0, 4.0, 64.0], "seen": "all"}
    rows |= {"epsilon_ci_low": None, "epsilon_ci_high": None, "attack_rate": None, "delta": 1e-5, "chance": None}
    rows |= {"bare": False, "open": False, "target_epsilon": None, "colour": "#0072B2", "useless": False}
    kinds = dict.fromkeys(
        ("ci_low", "ci_high", "epsilon_ci_low", "epsilon_ci_high", "attack_rate", "chance"), pl.Float64
    )
    every = pl.DataFrame(rows).cast(kinds | {"target_epsilon": pl.Float64})
    lead, ends = Lead(NOTHING, None), []
    for own in (every.head(2), every.tail(1)):  # one of them has an epsilon alone
        spec = overview(own, lead, narrow=True, every=every).to_dict()
        channels = [layer["encoding"] for layer in spec["layer"] if "scale" in layer["encoding"].get("y", {})]
        ends.append([next(c[axis]["scale"]["domain"] for c in channels if c[axis]["scale"]) for axis in "xy"])
    assert ends[0] == ends[1]
    (low, high), (least, most) = ends[0]
    assert (low < 1, high > 64, least < 0.5, most > 0.9) == (True,) * 4
