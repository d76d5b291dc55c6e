"""Altair charts as SVG in an HTML page: at their final size, readable on a dark background, with tooltips.

Only points have tooltips: the channel `description`, one text for mouse, touch and screen readers.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Sequence
from functools import partial
from html import escape, unescape
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import altair as alt
import numpy as np
import polars as pl
import vl_convert
from altair.utils import schemapi
from jinja2 import Environment
from markupsafe import Markup

from pwfl.report import labels
from pwfl.report.axes import ALIKE, WIDE
from pwfl.report.catalog import BARE
from pwfl.report.labels import SIZE, Label, Part, Placed

unchecked = partial(schemapi.debug_mode, False)  # for jobs; `pwfl test` and tests check charts by Vega-Lite's schema
VEGA_LITE = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])  # in the form that Altair's `save` uses
INK, SOFT, RULE, LINE, HALO = "#1B1F24", "#57606A", "#E3E7EB", "#9AA4AE", "white"
WEAK, WARM = "#F3E9E1", "#8A5A3C"  # background where privacy is weak, and its text
BAD = "#B42318"  # failures
# Colour of marks -> colour of text: a contrast of at least 4.5 on white and on WEAK. For dark mode, see figures.css.
TEXT = {
    "#0072B2": "#0066A0",
    "#D55E00": "#B04406",
    "#009E73": "#007557",
    "#CC79A7": "#A4457C",
    "#E69F00": "#875C00",
    "#56B4E9": "#19699A",
    "#B8A800": "#6E6500",
    BARE: SOFT,
}
FONT = "Helvetica Neue, Helvetica, Arial, Liberation Sans, sans-serif"
TEXTS = re.compile(r'<text ([^>]*font-size="([\d.]+)px"[^>]*)>([^<]+)</text>')
PLACES = re.compile(r' (?:d|transform|[xy][12]?|width|height)="[^"]*"')  # their numbers are cut to two decimals
SHARES = (0.5, 0.35, 0.65, 0.2, 0.8, 0.9, 0.1)  # of a frame's height, at which a rising curve may have its name
POINTS = 40  # points of a curve that are used to keep names off it
TENFOLD = 10.0  # ratio of outcomes from which their axis is logarithmic
MARK, OPAQUE = 62, 0.75  # area of a dot; opacity of intervals
DOTS: dict[str, Any] = {"filled": True, "opacity": 1, "size": MARK, "stroke": HALO, "strokeWidth": 1}


class Scale(NamedTuple):
    """The map of an axis from values to pixels: `low` to 0 and `high` to `length`, or the reverse if `upright`."""

    low: float
    high: float
    length: float
    log: bool = False
    upright: bool = False

    def at(self, value: float) -> float:
        """Return the pixel of a value.

        >>> Scale(1, 100, 200, log=True).at(10), Scale(0, 1, 200, upright=True).at(0.25)
        (100.0, 150.0)
        """
        first, last, value = map(math.log, (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        share = (value - first) / (last - first)
        return self.length * (1 - share if self.upright else share)

    def inside(self, value: float) -> float:
        """Return the pixel of a value, or of the end of the axis that the value is beyond."""
        return self.at(min(max(value, self.low), self.high))

    def places(self, values: pl.Series) -> pl.Series:
        """Return the pixels of a column."""
        return pl.Series([self.at(value) for value in values], dtype=pl.Float64)

    def cut(self, column: str, otherwise: str) -> pl.Expr:
        """Return a column clipped to the axis; where it is null or not finite, the column `otherwise`, clipped."""
        known = pl.when(pl.col(column).is_finite()).then(column).otherwise(otherwise)
        return known.cast(pl.Float64).clip(self.low, self.high)

    def axis(self, field: str, **options) -> alt.X | alt.Y:
        """Return the channel of a field on this scale, with `options` of its axis; none: it is drawn for another field.

        An upright axis is only grid and labels, as its quantity is the figure's title; a horizontal one has no grid.
        """
        scale = alt.Scale(type="log" if self.log else "linear", domain=[self.low, self.high], nice=False, zero=False)
        look = {"title": None, "domain": False, "ticks": False} if self.upright else {"grid": False}
        axis = alt.Axis(**(look | options)) if options else alt.Undefined
        return (alt.Y if self.upright else alt.X)(f"{field}:Q", scale=scale, axis=axis)


def fitted(values: Iterable[float | None], most: float | None = None) -> tuple[float, float]:
    """Return the ends of an axis of all finite values, with room, but below 0 only if a value is, and up to `most`.

    >>> fitted([0.2, 0.9, None, float("inf")], 1), fitted([0.98, 1.0], 1)
    ((0.158, 0.942), (0.9788, 1))
    >>> fitted([3.0]), fitted([]), fitted([0.0]), fitted([-1.0, 1.0])
    ((2.4, 3.6), (0.0, 1.0), (0.0, 1.0), (-1.12, 1.12))
    >>> fitted([3.0, 3.0 + 3e-9]), fitted([3.0, 3.00001])
    ((2.4, 3.6), (2.9999994, 3.0000106))
    """
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return 0.0, 1.0
    low, high = min(known), max(known)
    size = max(abs(low), abs(high))
    room = (0.06 * (high - low) if high - low > ALIKE * size else WIDE * size) or 1.0
    digits = max(4, 1 + math.ceil(math.log10(max(size, room) / room)))  # enough digits for the ends to keep their room
    start, end = (float(f"{value:.{digits}g}") for value in (low - room, high + room))
    return start if low < 0 else max(start, 0.0), end if most is None else min(end, most)


def upright(means: Sequence[float], ends: Iterable[float | None], length: float, share: bool) -> Scale:
    """Return an outcome's vertical axis; logarithmic if means, not shares, are positive and differ over TENFOLD.

    >>> upright([0.1, 20], [0.05, 22], 100, share=False).log, upright([-1, 20], [], 100, share=False).log
    (True, False)
    >>> upright([0.01, 0.9], [0.0, 0.95], 100, share=True)
    Scale(low=0.0, high=1, length=100, log=False, upright=True)
    """
    values = [*means, *ends]
    if not share and 0 < TENFOLD * min(means, default=0) < max(means):
        high = max(value for value in values if value is not None and math.isfinite(value))
        return Scale(0.8 * min(means), 1.25 * high, length, log=True, upright=True)
    return Scale(*fitted(values, 1 if share else None), length, upright=True)


def ticks(low: float, high: float, most: float = 5.5) -> list[float]:
    """Return the round numbers on an axis, spaced so that it has at most `most` steps.

    >>> ticks(0, 1), ticks(-0.31, 0.42), ticks(2, 2)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [-0.2, 0.0, 0.2, 0.4], [])
    """
    if not (math.isfinite(high - low) and high > low):
        return []
    size = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(size * m for m in (1, 2, 5, 10) if (high - low) / (size * m) <= most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{k * step:.10g}") + 0.0 for k in range(first, last + 1)]


def whole_ticks(high: float) -> list[float]:
    """Return whole ticks of an axis of counts from 0, since Vega labels ticks at halves as whole numbers.

    >>> whole_ticks(2), whole_ticks(60)
    ([0.0, 1.0, 2.0], [0.0, 20.0, 40.0, 60.0])
    """
    return [value for value in ticks(0, max(high, 1)) if value % 1 == 0]


def log_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return at most `most` round numbers on a logarithmic axis.

    >>> log_ticks(0.8, 30), log_ticks(90, 200), log_ticks(1, 1e9, 4)
    ([1.0, 2.0, 5.0, 10.0, 20.0], [100.0, 200.0], [1.0, 1000.0, 1000000.0, 1000000000.0])
    """
    known = [m * 10.0**e for e in range(-12, 16) for m in (1, 2, 5) if low <= m * 10.0**e <= high]
    if len(known) > most:
        powers = [value for value in known if f"{value:e}".startswith("1.")]
        return powers[:: math.ceil(len(powers) / most)]
    return known


def named_ends(ends: Sequence[tuple[str, float, str]], high: float, size: float) -> tuple[list[Placed], float]:
    """Place names at the right ends of curves, each (text, pixel from the top, colour); return the largest width, too.

    A SOFT text is no curve's name and is not bold.
    """
    step = size + labels.LEADING
    places = labels.spread(np.clip([place for _, place, _ in ends], 5, high - 4), step, high + step)
    parts = [Part(text, bold=colour != SOFT) for text, _, colour in ends]
    placed = [
        Placed(0.0, float(place), part, colour, size)
        for part, place, (*_, colour) in zip(parts, places, ends, strict=True)
    ]
    return placed, max((labels.width(part.text, size, part.bold) for part in parts), default=0.0)


def shifted(placed: list[Placed], by: float) -> list[Placed]:
    """Return words moved to the right by `by` pixels."""
    return [words._replace(x=words.x + by) for words in placed]


def named_along(curves: dict[str, np.ndarray], colours: dict[str, str], wide: float, high: float, size: float = SIZE):
    """Place names along rising curves, arrays of pixels (x, y), in a frame of `wide` by `high` pixels."""
    thin = {name: spots[:: max(1, len(spots) // POINTS)] for name, spots in curves.items()}
    drawn = [(tuple(a), tuple(b)) for spots in thin.values() for a, b in pairwise(spots.tolist())]
    wanted = []
    for name, spots in curves.items():
        middles = [spots[np.abs(spots[:, 1] - high * (1 - share)).argmin()] for share in SHARES]
        wanted.append(Label(labels.named(name), [(float(x), float(y)) for x, y in middles], colours[name], size))
    return labels.place(wanted, drawn, [], (0, -6, wide, high))


def words(placed: Iterable[Placed]) -> list[alt.Chart]:
    """Draw words as chart layers, outlined in the background colour to be readable over lines."""
    rows = [
        {"px": x, "py": y, "text": part.text, "bold": part.bold, "size": size, "colour": _colour(part, colour)}
        for x, y, part, colour, size in placed
    ]
    layers = []
    for bold in (True, False):
        if texts := [row for row in rows if row["bold"] == bold]:
            base = alt.Chart(pl.DataFrame(texts)).encode(
                x=alt.X("px:Q", scale=None, axis=None), y=alt.Y("py:Q", scale=None, axis=None), text=alt.Text("text:N")
            )
            look = {"align": "left", "baseline": "middle", "fontSize": texts[0]["size"]}
            look |= {"fontWeight": "bold" if bold else "normal"}
            layers.append(base.mark_text(**look, stroke=HALO, strokeWidth=3, color=HALO, opacity=0.85))
            layers.append(base.mark_text(**look).encode(color=coloured()))
    return layers


def _colour(part: Part, colour: str) -> str:
    """Return the colour of a label's part: that of its mark for a name (bold), SOFT for additional words."""
    return TEXT.get(colour, colour) if part.bold or colour in (WARM, INK) else SOFT


def coloured() -> alt.Color:
    """Return the channel that gives marks the colours of the column `colour`."""
    return alt.Color("colour:N", scale=None)


def read(name: str) -> str:
    """Read a text file of this folder."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def style(*names: str) -> Markup:
    """Read style sheets of this folder: that of figures, and others by their names."""
    return Markup("\n".join(map(read, ("figures.css", *names))))


def fill(template: str, context: dict) -> str:
    """Render a page from a template of this folder."""
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(read(template)).render(context)


def look(size: float = SIZE) -> dict:
    """Return Vega-Lite's configuration for figures of a page, with text of `size` pixels."""
    axis = {"labelFontSize": size, "titleFontSize": size, "titleFontWeight": "normal", "titlePadding": 8}
    axis |= {"labelColor": SOFT, "titleColor": SOFT, "gridColor": RULE, "domainColor": LINE, "tickColor": LINE}
    return {
        "font": FONT,
        "background": "transparent",
        "view": {"stroke": None},
        "axis": axis | {"aria": False, "tickSize": 4, "labelPadding": 5, "labelLimit": 0, "titleLimit": 0},
        "text": {"fontSize": size},
        "mark": {"aria": False},
        "point": {"aria": True},  # points have tooltips; screen readers skip other marks
    }


def specified(chart: alt.TopLevelMixin) -> dict:
    """Return a chart's specification. Raises SchemaValidationError if Vega-Lite's schema forbids it, except in jobs."""
    return chart.to_dict(validate=schemapi.DEBUG_MODE)


def svg(chart: alt.TopLevelMixin, label: str, size: float = SIZE) -> Markup:
    """Draw a chart as an SVG element of a page; `label` describes it for screen readers."""
    spec = specified(chart) | {"config": look(size)}
    text = vl_convert.vegalite_to_svg(spec, VEGA_LITE)
    mark = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:6]
    text = re.sub(r'(id="|url\(#)(\w+)', rf"\1f{mark}-\2", text)  # ids must be unique in a page
    text = re.sub(r"<svg ", f'<svg role="img" aria-label="{escape(label)}" ', text, count=1)
    text = re.sub(r' (xmlns:xlink|version|aria-roledescription)="[^"]*"', "", text)
    text = re.sub(r'<rect width="[\d.]+" height="[\d.]+" fill="transparent"[^>]*/>', "", text, count=1)
    text = PLACES.sub(lambda place: re.sub(r"(\d+\.\d{2})\d+", r"\1", place[0]), text)
    return Markup(TEXTS.sub(_fixed_width, text))


def _fixed_width(text: re.Match) -> str:
    """Fix the width of a text element to that in FONT, so that labels do not touch where only wider fonts exist."""
    attributes, size, words = text.groups()
    wide = labels.width(unescape(words), float(size), 'font-weight="bold"' in attributes)
    return f'<text {attributes} textLength="{wide:.1f}" lengthAdjust="spacingAndGlyphs">{words}</text>'
