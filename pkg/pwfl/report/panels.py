"""Draw the panels of a paper's figures: curves with bands, reported values as rules, and names at the curves."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import NamedTuple

import altair as alt
import numpy as np
import polars as pl

from pwfl.report import labels
from pwfl.report.drawing import WARM, Scale, coloured, log_ticks, named_along, named_ends, shifted, words
from pwfl.report.labels import Part, Placed
from pwfl.report.paper import Mark, Panel
from pwfl.tables.arrays import ends_of

WIDE, NARROW, HEIGHT = 596, 350, 210  # pixels of a panel with its axes, on wide and narrow screens; of its frame
LEFT, GAP = 48, 6  # pixels of the vertical axis; between a curve's end and its name
TOP, LINE = 9, 15  # pixels from a frame up to the first line of text above it; between lines
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#B8A800", "#7F4FC9")
EXACT = ", exact"  # suffix of series by exact accounting, not by the paper's accountant; their curves are dashed
MOST_TICKS = 11  # of a logarithmic axis
STRETCH = 1.2  # factor by which a logarithmic axis extends beyond its values


class Frame(NamedTuple):
    """The axes that panels of a row share."""

    x: Scale
    y: Scale

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Convert values on both axes, clipped to them, to pixels from the left and from the top."""
        return self.x.inside(x), self.y.inside(y)


def fit_frame(panels: Sequence[Panel], curves: Sequence[pl.DataFrame], width: int) -> Frame:
    """Fit the frame of a row's panels to their curves, of those panels that have any; `width` is of a panel."""
    first, every = panels[0], pl.concat(curves)
    marks = [mark for panel in panels for mark in panel.marks if not mark.series]
    marked_x, marked_y = ([mark.at for mark in marks if mark.axis == axis] for axis in "xy")
    names = 0 if all(map(_is_distribution, curves)) else _room(every["series"].unique().to_list())
    rising = every.filter(pl.col("y").is_finite())
    ends_x = _ends([*rising["x"], *marked_x], first.log_x, from_zero=False)
    if first.percent:
        ends_y = 0.0, _next_fifth(ends_of(rising["y_ci_high"])[1])
    else:
        ends_y = _ends([*rising["y"], *marked_y], first.log_y, from_zero=True)
    return Frame(Scale(*ends_x, width - LEFT - names, first.log_x), Scale(*ends_y, HEIGHT, first.log_y, upright=True))


def _room(names: Sequence[str]) -> int:
    return int(max((labels.width(name, bold=True) for name in names), default=0)) + 2 * GAP


def _is_distribution(curves: pl.DataFrame) -> bool:
    """Return whether all curves end at a share of 1, where names would overlap."""
    ends = curves.group_by("series").agg(pl.col("y").last())["y"]
    return len(ends) > 0 and bool(((ends - 1).abs() < 1e-9).all())


def _ends(values: Sequence[float], log: bool, *, from_zero: bool) -> tuple[float, float]:
    low, high = min(values), max(values)
    if log:
        positive = min(value for value in values if value > 0)
        return positive / STRETCH, high * STRETCH
    return (0.0, 1.05 * high) if from_zero and low >= 0 else (low, high)


def _next_fifth(share: float) -> float:
    """Round a share up to the next multiple of 20 %, at most 100 %."""
    return float(min(1.0, np.ceil(5 * share - 1e-9) / 5))


def choose_colours(curves: Sequence[pl.DataFrame], known: Mapping[str, str]) -> dict[str, str]:
    """Choose a colour for each series, by name without EXACT; the colours of schemes are `known`."""
    names = dict.fromkeys(name.removesuffix(EXACT) for frame in curves for name in frame["series"])
    used = {known[name] for name in names if name in known}
    free = cycle(colour for colour in COLOURS if colour not in used)
    return {name: known[name] if name in known else next(free) for name in names}


def draw(panel: Panel, curves: pl.DataFrame, frame: Frame, colours: dict[str, str]) -> alt.LayerChart:
    """Draw a panel: bands, curves, reported values, and names."""
    base = pl.col("series").str.strip_suffix(EXACT)
    shown = curves.with_columns(
        pl.col("y", "y_ci_low", "y_ci_high").clip(frame.y.low, frame.y.high),
        colour=base.replace_strict(colours, return_dtype=pl.String),
        tip=pl.format("{}: {} at {}", "series", pl.col("y").round_sig_figs(3), pl.col("x").round_sig_figs(3)),
    ).filter(pl.col("x").is_between(frame.x.low, frame.x.high))
    x = frame.x.axis("x", title=panel.x + " (logarithmic)" * panel.log_x, **_ticks(frame.x))
    y = frame.y.axis("y", **({"format": "~%"} if panel.percent else {}), **_ticks(frame.y))
    layers = [
        alt.Chart(shown)
        .mark_area(opacity=0.18)
        .encode(x=x, y=alt.Y("y_ci_low:Q"), y2=alt.Y2("y_ci_high:Q"), color=coloured(), detail=alt.Detail("series:N"))
    ]
    is_exact = pl.col("series").str.ends_with(EXACT)
    for dashes, kind in (([1, 0], ~is_exact), ([4, 3], is_exact)):
        line = alt.Chart(shown.filter(kind)).mark_line(strokeWidth=2.25, strokeDash=dashes)
        layers.append(line.encode(x=x, y=y, color=coloured(), detail=alt.Detail("series:N")))
    some = shown.gather_every(max(1, len(shown) // 60))
    layers.append(
        alt.Chart(some)
        .mark_point(size=60, filled=True, opacity=0)
        .encode(x=x, y=y, description=alt.Description("tip:N"))
    )
    return alt.layer(*layers, *_rules(panel, curves, frame), *_names(curves, frame, colours)).properties(
        width=frame.x.length, height=HEIGHT
    )


def _ticks(scale: Scale) -> dict:
    return {"values": log_ticks(scale.low, scale.high, MOST_TICKS), "format": "~g"} if scale.log else {"tickCount": 5}


def _text(text: str, spot: tuple[float, float]) -> list[alt.Chart]:
    """Write the text of a reported value; `spot` is its left end."""
    return words([Placed(*spot, Part(text), WARM, labels.SIZE)])


def _rules(panel: Panel, curves: pl.DataFrame, frame: Frame) -> list[alt.Chart]:
    """Draw the values that the paper reports: rules, with text above the frame or at a rule's right end."""
    layers, taken = [], []
    for mark in panel.marks:
        at = _height(mark, curves)
        if at is None:
            continue
        across, down = frame.place(at if mark.axis == "x" else frame.x.high, at)
        wide = labels.width(mark.words)
        if mark.axis == "y":
            begin = frame.x.length - wide - 2 * GAP
            layers += [_rule((begin, down), (frame.x.length, down)), *_text(mark.words, (begin, down - 9))]
            continue
        left = min(max(across - wide + 4, 0.0), frame.x.length - wide)
        row = next(
            k
            for k in range(len(taken) + 1)
            if all(k != r or left > b + 10 or left + wide < a - 10 for a, b, r in taken)
        )
        taken.append((left, left + wide, row))
        above = -TOP - LINE * row
        layers += [_rule((across, above + TOP / 2), (across, HEIGHT)), *_text(mark.words, (left, above))]
    return layers


def _height(mark: Mark, curves: pl.DataFrame) -> float | None:
    """Return a mark's value, counted from the last value of its series, if it has one; None: no such series."""
    if not mark.series:
        return mark.at
    curve = curves.filter(series=mark.series).sort("x")
    return float(curve["y"][-1]) + mark.at if len(curve) else None


def _rule(begin: tuple[float, float], end: tuple[float, float]) -> alt.Chart:
    rule = alt.Chart(pl.DataFrame({"one": [1]})).mark_rule(color=WARM, strokeDash=[5, 4], strokeWidth=1.5)
    (x, y), (x2, y2) = begin, end
    return rule.encode(x=alt.value(x), y=alt.value(y), x2=alt.value(x2), y2=alt.value(y2))


def _names(curves: pl.DataFrame, frame: Frame, colours: dict[str, str]) -> list[alt.Chart]:
    """Draw the names of series, except those of exact accounting, along their curves or at their right ends."""
    shown = {
        name: curve for (name,), curve in curves.group_by("series", maintain_order=True) if not name.endswith(EXACT)
    }
    spots = {
        name: np.array([frame.place(x, y) for x, y in curve.select("x", "y").rows()]) for name, curve in shown.items()
    }
    if _is_distribution(curves):
        return words(named_along(spots, colours, frame.x.length, HEIGHT))
    ends = [(name, float(places[-1, 1]), colours[name]) for name, places in spots.items()]
    return words(shifted(named_ends(ends, HEIGHT, labels.SIZE)[0], frame.x.length + GAP))
