"""One look for all figures: theme, colours, and the marks that several figures share."""

import altair as alt
import numpy as np
import polars as pl
from scipy.stats import t as student

from pwfl.files import whole

CONFIDENCE = 0.95
CDF_POINTS = 400
WIDTH, HEIGHT = 520, 340
# Okabe and Ito's colours, told apart with any colour vision; of schemes by scheduler and noise.
COLOURS = {
    ("random", "random"): "#D55E00",
    ("optimal", "random"): "#0072B2",
    ("optimal", "optimal"): "#009E73",
    ("random", "optimal"): "#CC79A7",
    ("over_the_air", "anonymous"): "#009E73",
    ("over_the_air", "identified"): "#0072B2",
    ("orthogonal", "local"): "#D55E00",
    ("over_the_air", "anonymous_fixed"): "#CC79A7",
    ("over_the_air", "identified_fixed"): "#56B4E9",
    ("orthogonal", "local_fixed"): "#E69F00",
    ("all", "fixed"): "#0072B2",
    ("all", "none"): "#E69F00",
    ("utility", "fair"): "#0072B2",
    ("benchmark", "independent"): "#D55E00",
    ("benchmark", "shared"): "#E69F00",
    ("benchmark", "fair"): "#CC79A7",
    ("utility", "independent"): "#009E73",
    ("utility", "shared"): "#56B4E9",
    ("random", "constant"): "#D55E00",
    ("random", "adaptive"): "#E69F00",
    ("bound_constant", "constant"): "#0072B2",
    ("bound_adaptive", "adaptive"): "#009E73",
    ("simulated_constant", "constant"): "#56B4E9",
    ("simulated_adaptive", "adaptive"): "#CC79A7",
    ("fixed", "constant"): "#7F7F7F",
    ("fixed", "adaptive"): "#000000",
    ("sweep", "constant"): "#7F7F7F",
    ("sweep", "adaptive"): "#000000",
}

alt.data_transformers.disable_max_rows()  # charts get thinned tables; a map shows all users


@alt.theme.register("pwfl", enable=True)
def _theme() -> alt.theme.ThemeConfig:
    axis = {"labelFontSize": 13, "titleFontSize": 14, "titleFontWeight": "normal", "titlePadding": 10,
            "gridColor": "#e6e6e6", "domainColor": "#888", "tickColor": "#888"}  # fmt: skip
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


def scheme_colour(schemes: list[dict]) -> tuple[alt.Color, alt.Parameter, dict]:
    """Colour by scheme, the selection that a click on the legend makes, and the opacity it sets."""
    names = [scheme["name"] for scheme in schemes]
    colours = [COLOURS[scheme["scheduler"], scheme["noise"]] for scheme in schemes]
    chosen = alt.selection_point(fields=["scheme"], bind="legend")
    colour = alt.Color(
        "scheme:N", title="Scheme", scale=alt.Scale(domain=names, range=colours), legend=alt.Legend(symbolOpacity=1)
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


def cdf(frame: pl.DataFrame, value: str, schemes: list[dict], title: str, axis: str) -> alt.Chart:
    """A chart of empirical distribution functions, one step line for each scheme."""
    colour, chosen, opacity = scheme_colour(schemes)
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


def band(
    frame: pl.DataFrame, value: str, schemes: list[dict], title: str | alt.TitleParams, y: alt.Y
) -> alt.LayerChart:
    """A chart of means over rounds with confidence bands, from columns round, scheme, *_mean, *_low, *_high.

    `y` is the axis, without its field.
    """
    colour, chosen, opacity = scheme_colour(schemes)
    base = alt.Chart(frame, title=title, width=WIDTH, height=HEIGHT).encode(
        x=alt.X("round:Q", title="Communication round"), color=colour
    )
    low, mean = y.copy(), y.copy()
    low.shorthand, mean.shorthand = f"{value}_low:Q", f"{value}_mean:Q"
    area = base.mark_area().encode(
        y=low,
        y2=f"{value}_high:Q",
        opacity=alt.when(chosen).then(alt.value(0.18)).otherwise(alt.value(0.02)),
    )
    line = base.mark_line().encode(y=mean, opacity=opacity)
    tips = [alt.Tooltip(f"{value}_{part}:Q", format=".4f") for part in ("mean", "low", "high")]
    points = base.mark_circle(size=60).encode(y=mean, opacity=alt.value(0.0), tooltip=["scheme:N", "round:Q", *tips])
    return (area + line + points).add_params(chosen)


def save(chart: alt.TopLevelMixin, paths: dict[str, str]) -> None:
    """Write a chart to the files `html` (self-contained, interactive), `png` and `svg`."""
    with whole(paths["html"]) as partial:
        chart.save(partial, inline=True)
    with whole(paths["png"]) as partial:
        chart.save(partial, scale_factor=2)
    with whole(paths["svg"]) as partial:
        chart.save(partial)
