"""What axes show: domains that hold values, the ends of their intervals and levels, with lines for the levels."""

from collections.abc import Callable

import altair as alt
import numpy as np
import polars as pl

ROOM = 0.05  # share of what an axis must show that is free at each of its ends
WIDE = 0.2  # relative room around a single value
ALIKE = 1e-6  # relative difference of values that are one
LEVELED = 0.25  # the least share of an axis for values, beside levels
SMALL = 0.1  # of accuracies, what an axis may show in any case
CLOSE = 0.05  # share of an axis within which levels have one label
CLOSE_ACROSS = 0.3  # likewise of an axis along which words run
GREY, INK = "#8A8A8A", "#666"


def fitted(axis, points, *ends, most: float | None = None, room: float = ROOM):
    """The axis `alt.X` or `alt.Y` with a domain that holds all finite `points` and `ends`, numbers or series of them.

    Points are drawn, ends are of their intervals, or levels. The domain leaves a share `room` free at both ends, but
    goes below 0 only where values do, and not beyond `most`. It does not show the last digits of values that are one.
    A logarithmic axis holds the positive values, and is linear where a point is not positive.
    """
    scale = alt.Scale() if axis["scale"] is alt.Undefined else axis["scale"].copy()
    kind = "linear" if scale["type"] is alt.Undefined else scale["type"]
    if kind == "log" and (_floats(points) <= 0).any():
        scale.type = kind = "linear"
    there, back = _transform(kind, 1.0 if scale["constant"] is alt.Undefined else scale["constant"])
    every = np.concatenate([_floats(part) for part in (points, *ends)])
    every = every[np.isfinite(every) & ((every > 0) | (kind != "log"))]
    places = there(every) if every.size else np.array([0.0, 1.0])
    low, high = places.min(), places.max()
    free = room * (high - low)
    if high - low <= ALIKE * max(abs(low), abs(high)):
        free = np.log10(1 + WIDE) if kind == "log" else WIDE * abs(low) or 1.0
    start, end = float(back(low - free)), float(back(high + free))
    start = start if every.size and every.min() < 0 else max(start, 0.0)
    scale.domain = [start, end if most is None else min(end, most)]
    scale.zero, scale.nice = alt.Undefined, kind == "linear" and scale["nice"] is alt.Undefined
    axis = axis.copy()
    axis["scale"] = scale
    return axis


def _floats(part) -> np.ndarray:
    return part.cast(pl.Float64).to_numpy() if isinstance(part, pl.Series) else np.atleast_1d(np.array(part, float))


def _transform(kind: str, constant: float) -> tuple[Callable, Callable]:
    """From values to places on an axis, and back."""
    if kind == "log":
        return np.log10, lambda place: 10.0**place
    if kind == "symlog":
        return (
            lambda value: np.sign(value) * np.log1p(abs(value) / constant),
            lambda place: np.sign(place) * constant * np.expm1(abs(place)),
        )
    return np.asarray, float


def leveled(axis, levels: pl.DataFrame | None, *values, **bounds):
    """The axis `fitted` to values, points first, and to `levels`, within `bounds`, and the layers of lines for these.

    `levels` has the columns `level` and `text`. Where an axis that reaches to them would leave less than LEVELED of it
    to the values, those beyond the values are named at its end.
    """
    own = fitted(axis, *values, **bounds)
    if levels is None or levels.is_empty():
        return own, []
    whole = fitted(axis, *values, levels["level"], **bounds)
    (low, high), (start, end) = own["scale"]["domain"], whole["scale"]["domain"]
    if end - start <= max(SMALL, (high - low) / LEVELED):
        return whole, _lines(whole, levels)
    inside, below = pl.col("level").is_between(low, high), pl.col("level") < low
    away = [("below", levels.filter(below)), ("above", levels.filter(~inside & ~below))]
    return own, _lines(own, levels.filter(inside)) + [_named(own, side, rows) for side, rows in away if len(rows)]


def _lines(axis, levels: pl.DataFrame) -> list[alt.Chart]:
    """A line across for each level, and its words; levels close to each other have their words together."""
    if levels.is_empty():
        return []
    (low, high), levels = axis["scale"]["domain"], levels.sort("level", maintain_order=True)
    close = CLOSE_ACROSS if isinstance(axis, alt.X) else CLOSE
    group = (levels["level"].diff().fill_null(0.0) > close * (high - low)).cum_sum().alias("group")
    named = levels.group_by(group, maintain_order=True).agg(pl.col("level").last(), pl.col("text").str.join("; "))
    along, channel = axis.copy(), "x" if isinstance(axis, alt.X) else "y"
    along.shorthand = "level:Q"
    tooltip = [alt.Tooltip("text:N", title="Line")]
    rule = alt.Chart(levels.select("level", "text")).mark_rule(strokeDash=[6, 4], color=GREY)
    highest = low + 0.93 * (high - low)
    layers = [rule.encode(**{channel: along}, tooltip=tooltip)]
    for at_top, rows in (
        (False, named.filter(pl.col("level") <= highest)),
        (True, named.filter(pl.col("level") > highest)),
    ):
        if len(rows):
            layers.append(_words(rows.select("level", "text"), at_top, channel).encode(**{channel: along}))
    return layers


def _words(rows: pl.DataFrame, at_top: bool, channel: str) -> alt.Chart:
    if channel == "x":
        texts = alt.Chart(rows).mark_text(
            align="right" if at_top else "left", dx=-4 if at_top else 4, dy=-7, fontSize=11, color=INK
        )
        return texts.encode(y=alt.value(0), text="text:N")
    texts = alt.Chart(rows).mark_text(align="right", dx=-4, dy=11 if at_top else -6, fontSize=11, color=INK)
    return texts.encode(x=alt.value("width"), text="text:N")


def _named(axis, side: str, levels: pl.DataFrame) -> alt.Chart:
    """Words at the end of an axis for levels that are beyond it."""
    words = pl.DataFrame({"text": [f"{side} this axis: {'; '.join(levels['text'])}"]})
    if isinstance(axis, alt.X):
        at, align, dy = (
            {"x": alt.value(0 if side == "below" else "width"), "y": alt.value(0)},
            "left" if side == "below" else "right",
            -7,
        )
    else:
        at, align, dy = (
            {"x": alt.value("width"), "y": alt.value("height" if side == "below" else 0)},
            "right",
            -6 if side == "below" else 9,
        )
    return (
        alt.Chart(words)
        .mark_text(align=align, dx=4 if align == "left" else -4, dy=dy, fontSize=11, color=INK)
        .encode(**at, text="text:N")
    )
