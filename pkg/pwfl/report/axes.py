"""What axes show: domains that hold values, the ends of their intervals, and levels."""

from collections.abc import Callable

import altair as alt
import numpy as np
import polars as pl

ROOM = 0.05  # share of what an axis must show that is free at each of its ends
WIDE = 0.2  # relative room around a single value
ALIKE = 1e-6  # relative difference of values that are one
LEVELED = 0.25  # the least share of an axis for values, beside levels
SMALL = 0.1  # of accuracies, what an axis may show in any case


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
    transform, back = _transform(kind, 1.0 if scale["constant"] is alt.Undefined else scale["constant"])
    every = np.concatenate([_floats(part) for part in (points, *ends)])
    every = every[np.isfinite(every) & ((every > 0) | (kind != "log"))]
    places = transform(every) if every.size else np.array([0.0, 1.0])
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


def pixels(axis, values, length: float) -> np.ndarray:
    """How far values are from the left, or the top, on an axis of a length, as it is `fitted`; it is no longer `nice`.

    >>> pixels(fitted(alt.Y("y:Q"), [0.0, 10.0], room=0), [0.0, 2.5, 99.0], 100).tolist()
    [100.0, 75.0, 0.0]
    """
    scale = axis["scale"]
    scale.nice = False
    kind = "linear" if scale["type"] is alt.Undefined else scale["type"]
    transform, _ = _transform(kind, 1.0 if scale["constant"] is alt.Undefined else scale["constant"])
    low, high = scale["domain"]
    share = (transform(np.clip(_floats(values), low, high)) - transform(low)) / (transform(high) - transform(low))
    return length * (share if isinstance(axis, alt.X) else 1 - share)


def leveled(axis, levels: pl.DataFrame | None, *values, **bounds):
    """The axis `fitted` to values, points first, and to the column `level` of `levels`, within `bounds`.

    Where an axis that reaches to the levels would leave less than LEVELED of it to the values, it does not.
    """
    fitted_axis = fitted(axis, *values, **bounds)
    if levels is None or levels.is_empty():
        return fitted_axis
    whole = fitted(axis, *values, levels["level"], **bounds)
    (low, high), (start, end) = fitted_axis["scale"]["domain"], whole["scale"]["domain"]
    return whole if end - start <= max(SMALL, (high - low) / LEVELED) else fitted_axis
