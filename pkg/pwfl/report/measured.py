"""Measurements of one's own over a study's outcomes: marks with a legend, and where they come from."""

from itertools import cycle

import altair as alt
import polars as pl

from pwfl.report import theme

STAR, INK, FILLS = theme.SHAPES[8], "#222", ("#222", "#FFF", "#999", "#CCC", "#666")


def of(study: dict[str, dict]) -> list[dict]:
    """The rows of a study's measurements (`workflow.measured`), which each of its scenarios holds."""
    return next(iter(study.values())).get("measured", [])


def frame(rows: list[dict], x: str, y: str, panels: dict[str, pl.Series] | None = None) -> pl.DataFrame:
    """The rows that have both x and y, outcomes or swept parameters: label, source, measured_x ... measured_y_high.

    `panels` are the parameters that panels are of, with their values, by the names of columns for them; a row without
    one of them is there for all of its values.
    """
    kept, panels = [row for row in rows if x in row and y in row], panels or {}
    for values in panels.values():
        key, every = values.name, values.unique(maintain_order=True).to_list()
        kept = [row | {key: value} for row in kept for value in ([row[key]] if key in row else every)]
    columns = {name: pl.Series([row[name] for row in kept], dtype=pl.String) for name in ("label", "source")}
    for axis, key in (("x", x), ("y", y)):
        columns |= {f"measured_{axis}{end}": [row.get(key + end) for row in kept] for end in ("", "_low", "_high")}
    return pl.DataFrame(columns | {name: [row[values.name] for row in kept] for name, values in panels.items()})


def marks(data: alt.Chart, drawn: pl.DataFrame, x: alt.X, y: alt.Y) -> list[alt.Chart]:
    """A star for each measurement, with the bars of its intervals; `x` and `y` are the axes that they are drawn on.

    `data` is a chart of the rows of `frame`, which are `drawn`.
    """
    labels = drawn["label"].unique(maintain_order=True).to_list()
    fills = alt.Scale(domain=labels, range=[fill for fill, _ in zip(cycle(FILLS), labels, strict=False)])
    legend = theme.legend(STAR, symbolStrokeColor=INK, symbolStrokeWidth=1, symbolSize=150)
    x, y = x.copy(), y.copy()
    x.shorthand, y.shorthand = (f"measured_{axis}:{kind.shorthand[-1]}" for axis, kind in (("x", x), ("y", y)))
    titles = {
        f"measured_{axis}:N": kind["title"] if isinstance(kind["title"], str) else " ".join(kind["title"])  # its lines
        for axis, kind in (("x", x), ("y", y))
    }
    tips = {"label:N": "measured", "source:N": "source"} | titles
    base = data.encode(x=x, y=y, tooltip=theme.tips(tips))
    bars = base.mark_rule(strokeWidth=1, color=INK)
    points = base.mark_point(shape=STAR, size=220, stroke=INK, strokeWidth=1, opacity=1)
    return [
        bars.encode(x="measured_x_low:Q", x2="measured_x_high:Q"),
        bars.encode(y="measured_y_low:Q", y2="measured_y_high:Q"),
        points.encode(fill=alt.Fill("label:N", title="Measured", scale=fills, legend=legend)),
    ]


def sentences(drawn: pl.DataFrame) -> list[str]:
    """A line on what is drawn and where it comes from, for a subtitle; none where nothing is."""
    each = "; ".join(
        f"{label}: {source}" for label, source in drawn.select("label", "source").unique(maintain_order=True).rows()
    )
    return [f"stars: measured, not simulated: {each}"] if len(drawn) else []
