"""Domains of figures' axes, which contain values, the ends of their intervals, and levels."""

from collections.abc import Callable

import altair as alt
import numpy as np
import polars as pl

ROOM = 0.05  # free share at each end of an axis, relative to the range of what it must contain
WIDE = 0.2  # relative room around a single value
ALIKE = 1e-6  # relative difference up to which values are treated as equal
LEVELED = 0.25  # minimum share of an axis for its values, if it also contains levels
SMALL = 0.1  # length, as a difference of accuracies, up to which an axis always contains its levels


def fitted(axis, points, *ends, most: float | None = None, room: float = ROOM):
    """Return the axis `alt.X` or `alt.Y` with a domain that contains all finite `points` and `ends`.

    Both are numbers or series of them: points are drawn, ends are those of their intervals, or levels. The domain
    leaves a share `room` free at both ends, but goes below 0 only if a value does, and not beyond `most`. Equal values
    (ALIKE) get a wider domain. A logarithmic axis contains the positive values; it becomes linear if a point is not
    positive.
    """
    scale = alt.Scale() if axis["scale"] is alt.Undefined else axis["scale"].copy()
    if scale["type"] == "log" and (_floats(points) <= 0).any():
        scale.type = "linear"
    is_log, (transform, back) = scale["type"] == "log", _transform(scale)
    every = np.concatenate([_floats(part) for part in (points, *ends)])
    every = every[np.isfinite(every) & ((every > 0) | (not is_log))]
    places = transform(every) if every.size else np.array([0.0, 1.0])
    low, high = places.min(), places.max()
    free = room * (high - low)
    if high - low <= ALIKE * max(abs(low), abs(high)):
        free = np.log10(1 + WIDE) if is_log else WIDE * abs(low) or 1.0
    start, end = float(back(low - free)), float(back(high + free))
    start = start if every.size and every.min() < 0 else max(start, 0.0)
    scale.domain = [start, end if most is None else min(end, most)]
    is_linear = scale["type"] in ("linear", alt.Undefined)
    scale.zero, scale.nice = alt.Undefined, is_linear and scale["nice"] is alt.Undefined
    axis = axis.copy()
    axis["scale"] = scale
    return axis


def _floats(part) -> np.ndarray:
    return part.cast(pl.Float64).to_numpy() if isinstance(part, pl.Series) else np.atleast_1d(np.array(part, float))


def _transform(scale: alt.Scale) -> tuple[Callable, Callable]:
    """Return the function from a scale's values to positions on a linear scale, and its inverse."""
    if scale["type"] == "log":
        return np.log10, lambda place: 10.0**place
    if scale["type"] == "symlog":
        constant = 1.0 if scale["constant"] is alt.Undefined else scale["constant"]
        return (
            lambda value: np.sign(value) * np.log1p(abs(value) / constant),
            lambda place: np.sign(place) * constant * np.expm1(abs(place)),
        )
    return np.asarray, float


def pixels(axis, values, length: float) -> np.ndarray:
    """Compute the pixels of values, from the left or the top, on a `fitted` axis, and set its `nice` to false.

    >>> pixels(fitted(alt.Y("y:Q"), [0.0, 10.0], room=0), [0.0, 2.5, 99.0], 100).tolist()
    [100.0, 75.0, 0.0]
    """
    scale = axis["scale"]
    scale.nice = False
    transform, _ = _transform(scale)
    low, high = scale["domain"]
    share = (transform(np.clip(_floats(values), low, high)) - transform(low)) / (transform(high) - transform(low))
    return length * (share if isinstance(axis, alt.X) else 1 - share)


def leveled(axis, levels: pl.DataFrame | None, *values, **bounds):
    """Return the axis `fitted` to values, points first, and to the column `level` of `levels`, within `bounds`.

    Levels that would leave the values less than LEVELED of an axis longer than SMALL do not extend it.
    """
    fitted_axis = fitted(axis, *values, **bounds)
    if levels is None or levels.is_empty():
        return fitted_axis
    whole = fitted(axis, *values, levels["level"], **bounds)
    (low, high), (start, end) = fitted_axis["scale"]["domain"], whole["scale"]["domain"]
    return whole if end - start <= max(SMALL, (high - low) / LEVELED) else fitted_axis
