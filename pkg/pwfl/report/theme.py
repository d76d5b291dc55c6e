"""One look for all figures: theme, colours, and the marks that several figures share."""

import json
from itertools import cycle
from pathlib import Path

import altair as alt
import numpy as np
import polars as pl
from scipy.stats import t as student

from pwfl.runtime.files import whole
from pwfl.systems import registry

CONFIDENCE = 0.95
CDF_POINTS = 400
WIDTH, HEIGHT = 520, 340
HEADER = alt.Header(labelFontSize=13, titleFontSize=13)  # of panels
# Okabe and Ito's colours, told apart with any colour vision, a grey and an olive.
PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#B8A800"]

alt.data_transformers.disable_max_rows()  # charts get thinned tables; a map shows all users


@alt.theme.register("pwfl", enable=True)
def _theme() -> alt.theme.ThemeConfig:
    axis = {
        "labelFontSize": 13,
        "titleFontSize": 14,
        "titleFontWeight": "normal",
        "titlePadding": 10,
        "gridColor": "#e6e6e6",
        "domainColor": "#888",
        "tickColor": "#888",
    }
    return {
        "config": {
            "font": "Liberation Sans, Arial, Helvetica, sans-serif",
            "background": "white",
            "view": {"continuousWidth": WIDTH, "continuousHeight": HEIGHT, "stroke": None},
            "axis": axis,
            "legend": {"labelFontSize": 13, "titleFontSize": 13, "symbolStrokeWidth": 3, "labelLimit": 300},
            "title": {"fontSize": 16, "subtitleFontSize": 12, "subtitleColor": "#555", "anchor": "start", "offset": 12},
            "line": {"strokeWidth": 2.5},
        }
    }


def scheme_colours(scenario) -> dict[str, str]:
    """The colour of each scheme of a scenario, by its name: the system's own, or one that is free."""
    own = registry.system(scenario.system).catalog.colours
    free = cycle([colour for colour in PALETTE if colour not in own.values()] or PALETTE)
    return {s.name: own.get((s.scheduler, s.noise)) or next(free) for s in scenario.schemes}


def scheme_colour(scenario, schemes=None) -> tuple[alt.Color, alt.Parameter, dict]:
    """Colour by scheme, the selection that a click on the legend makes, and the opacity it sets.

    `schemes` are those of the scenario that are drawn; None: all.
    """
    shown = [scheme.name for scheme in (scenario.schemes if schemes is None else schemes)]
    return named_colours({name: colour for name, colour in scheme_colours(scenario).items() if name in shown})


def named_colours(colours: dict[str, str]) -> tuple[alt.Color, alt.Parameter, dict]:
    """Colour by the names of schemes, the selection that a click on the legend makes, and the opacity it sets."""
    chosen = alt.selection_point(fields=["scheme"], bind="legend")
    colour = alt.Color(
        "scheme:N",
        title="Scheme",
        scale=alt.Scale(domain=list(colours), range=list(colours.values())),
        legend=alt.Legend(symbolOpacity=1),
    )
    return colour, chosen, alt.when(chosen).then(alt.value(1.0)).otherwise(alt.value(0.08))


def distribution(frame: pl.DataFrame, value: str, by: str = "scheme") -> pl.DataFrame:
    """Points of the empirical distribution function of a column, at most CDF_POINTS a group.

    Columns: `by`, the value, and `share`, the fraction of values up to it.
    """
    groups = []
    for (name,), group in frame.drop_nulls(value).group_by(by, maintain_order=True):
        values = group[value].sort().to_numpy()
        rank = np.unique(np.linspace(0, len(values) - 1, min(len(values), CDF_POINTS)).round().astype(int))
        share = (rank + 1) / len(values)
        groups.append(pl.DataFrame({by: name, value: values[rank], "share": share}))
    if not groups:
        return pl.DataFrame(schema={by: pl.String, value: pl.Float64, "share": pl.Float64})
    return pl.concat(groups)


def cdf(frame: pl.DataFrame, value: str, scenario, title: str, axis: str) -> alt.Chart:
    """A chart of empirical distribution functions, one step line for each scheme."""
    colour, chosen, opacity = scheme_colour(scenario)
    return (
        alt.Chart(distribution(frame, value), title=title, width=WIDTH, height=HEIGHT)
        .mark_line(interpolate="step-after")
        .encode(
            x=alt.X(f"{value}:Q", title=axis, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=8)),
            y=alt.Y("share:Q", title="Empirical CDF", scale=alt.Scale(domain=[0, 1])),
            color=colour,
            opacity=opacity,
            tooltip=["scheme:N", alt.Tooltip(f"{value}:Q", format=".4g"), alt.Tooltip("share:Q", format=".1%")],
        )
        .add_params(chosen)
    )


def means(frame: pl.DataFrame, by: list[str], columns: list[str]) -> pl.DataFrame:
    """Means of columns within groups and the ends of their 95% intervals (Student's t).

    Column c becomes c_mean, c_low and c_high; nulls do not count. A single value has no interval.
    """
    groups = frame.group_by(by, maintain_order=True).agg(
        *(pl.col(c).mean().alias(f"{c}_mean") for c in columns),
        *(pl.col(c).std().alias(f"{c}_std") for c in columns),
        *(pl.col(c).count().alias(f"{c}_count") for c in columns),
    )
    for c in columns:
        count = groups[f"{c}_count"].to_numpy()
        quantile = student.ppf((1 + CONFIDENCE) / 2, np.maximum(count - 1, 1))
        half = groups[f"{c}_std"] * pl.Series(quantile / np.sqrt(np.maximum(count, 1)))
        groups = groups.with_columns(
            (groups[f"{c}_mean"] - half).alias(f"{c}_low"), (groups[f"{c}_mean"] + half).alias(f"{c}_high")
        )
    return groups.select(*by, *(f"{c}_{part}" for c in columns for part in ("mean", "low", "high")))


ROUNDS = alt.X("round:Q", title="Communication round")


def band(
    frame: pl.DataFrame,
    value: str,
    scenario,
    title: str | alt.TitleParams,
    y: alt.Y,
    x: alt.X = ROUNDS,
    steps: bool = False,
) -> alt.LayerChart:
    """A chart of means with confidence bands, from columns scheme, *_mean, *_low, *_high and that of `x`.

    `y` is the axis, without its field. With `steps` a value holds until the next row, and a dot ends a scheme's line.
    """
    interpolate = "step-after" if steps else "linear"
    colour, chosen, opacity = scheme_colour(scenario)
    base = alt.Chart(frame, title=title, width=WIDTH, height=HEIGHT).encode(x=x, color=colour)
    low, mean = y.copy(), y.copy()
    low.shorthand, mean.shorthand = f"{value}_low:Q", f"{value}_mean:Q"
    area = base.mark_area(interpolate=interpolate).encode(
        y=low,
        y2=f"{value}_high:Q",
        opacity=alt.when(chosen).then(alt.value(0.18)).otherwise(alt.value(0.02)),
    )
    line = base.mark_line(interpolate=interpolate).encode(y=mean, opacity=opacity)
    tips = [alt.Tooltip(f"{value}_{part}:Q", format=".4f") for part in ("mean", "low", "high")]
    points = base.mark_circle(size=60).encode(y=mean, opacity=alt.value(0.0), tooltip=["scheme:N", x.shorthand, *tips])
    layers = [area, line, points]
    if steps:
        column = x.shorthand.removesuffix(":Q")
        last = frame.filter(pl.col(column) == pl.col(column).max().over("scheme"))
        layers.append(base.mark_circle(size=60).encode(y=mean, opacity=opacity).properties(data=last))
    return alt.layer(*layers).add_params(chosen)


def named(chart: alt.TopLevelMixin, scenario: str) -> alt.TopLevelMixin:
    """The chart with the scenario's name in its subtitle, and its title as a description for who cannot see it."""
    title = chart.title if isinstance(chart.title, alt.TitleParams) else alt.TitleParams(_text(chart.title))
    given = title.subtitle if isinstance(title.subtitle, list) else [title.subtitle]
    lines = [scenario, *(line for line in given if line is not alt.Undefined)]
    title = title.copy()
    title.subtitle = lines
    return chart.properties(title=title, description=f"{_text(title.text)}; {'; '.join(lines)}")


def save(chart: alt.TopLevelMixin, paths: dict[str, str], choices: dict[str, alt.TopLevelMixin] | None = None) -> None:
    """Write a chart to the files `json` (its Vega-Lite specification), `png` and `svg`.

    `choices` are other charts that a reader may choose instead, by label; they stand in the specification's metadata.
    """
    spec = chart.to_dict()
    if choices:
        spec["usermeta"] = {"choices": {label: other.to_dict() for label, other in choices.items()}}
    with whole(paths["json"]) as partial:
        Path(partial).write_text(json.dumps(spec, ensure_ascii=False), encoding="utf-8")
    with whole(paths["png"]) as partial:
        chart.save(partial, scale_factor=2)
    with whole(paths["svg"]) as partial:
        chart.save(partial)


def _text(title) -> str:
    if title is alt.Undefined:
        return ""
    return " ".join(title) if isinstance(title, list) else str(title)
