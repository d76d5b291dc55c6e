"""Define the appearance of all figures: theme, colours, and the marks that several figures share."""

import json
import math
import re
import textwrap
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import cycle
from pathlib import Path

import altair as alt
import numpy as np
import polars as pl
import vl_convert
from scipy.special import stdtrit

from pwfl import registry
from pwfl.report import labels
from pwfl.report.axes import fitted, leveled, pixels
from pwfl.report.catalog import BARE
from pwfl.report.drawing import (
    HALO,
    INK,
    LINE,
    SOFT,
    VEGA_LITE,
    look,
    named_along,
    named_ends,
    shifted,
    specified,
    style,
    whole_ticks,
    words,
)
from pwfl.report.labels import Label, Spot
from pwfl.report.words import plural
from pwfl.store.files import appearing_whole
from pwfl.tables.arrays import ends_of
from pwfl.tables.contract import limits

CONFIDENCE = 0.95
CDF_POINTS = 400
DIGITS = 6  # significant digits of numbers in a specification
SQUEEZED = 0.05  # share of an axis that is too small for a scheme
DECADE = 10  # smallest ratio of values for a logarithmic axis
WIDTH, HEIGHT = 520, 340
COLUMN = 252  # points, 3.5 in: width of figures for print, one IEEE column
PRINT_SIZE = 19  # pixels of text in print: 8 points if a view of WIDTH is scaled to a column
END = 8  # pixels from a curve's end to its name
MARK = 8  # pixels: half the size of a mark that has a name
# Okabe and Ito's colours, distinct with any colour vision, and an olive. Grey (BARE) is for non-private baselines.
PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#B8A800", "#000000"]

vl_convert.register_font_directory(str(Path(__file__).parent / "fonts"))  # Tinos, as wide as Times New Roman
alt.data_transformers.disable_max_rows()  # tables are thinned for charts, except in a map of all users


@alt.theme.register("pwfl", enable=True)
def _theme() -> alt.theme.ThemeConfig:
    config = look(13)
    axis = {"titleFontSize": 14, "titlePadding": 10, "labelFlush": False}  # labels are at their ticks, also at the ends
    title = {"fontSize": 16, "subtitleFontSize": 12, "anchor": "start", "offset": 12}
    return {
        "config": config
        | {
            "background": "white",
            "view": {"continuousWidth": WIDTH, "continuousHeight": HEIGHT, "stroke": None},
            "axis": config["axis"] | axis,
            "header": {"labelFontSize": 13, "titleFontSize": 13, "labelColor": SOFT, "titleColor": SOFT},
            "text": {"fontSize": 12},
            "title": title | {"color": INK, "subtitleColor": SOFT},
            "line": {"strokeWidth": 2.5},
        }
    }


@alt.theme.register("pwfl_print", enable=False)
def _print_theme() -> alt.theme.ThemeConfig:
    """Return the theme of figures for print: serifs, and text of PRINT_SIZE."""
    config: dict = _theme()["config"]
    for part in ("axis", "header"):
        config[part] |= {"labelFontSize": PRINT_SIZE, "titleFontSize": PRINT_SIZE}
    config["title"] |= {"fontSize": PRINT_SIZE, "fontWeight": "normal"}
    return {"config": config | {"text": {"fontSize": PRINT_SIZE}, "font": "Tinos, serif"}}


def scheme_colours(system: str, schemes: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """Return the colour of each of a study's schemes, by name: that of its scheduler and noise in the catalog.

    Schemes that are not in the system's catalog, or with the colour of another scheme of the study, get free colours in
    the order of their names; those without noise are grey. `schemes` are (name, scheduler, noise), of one or several
    scenarios; the first scheduler and noise of a name count.
    """
    pairs: dict[str, tuple[str, str]] = {}
    for name, scheduler, noise in schemes:
        pairs.setdefault(name, (scheduler, noise))
    colours = {name: BARE for name, (_, noise) in pairs.items() if noise == "none"}
    for pair, colour in registry.system(system).catalog.colours.items():
        same = sorted(name for name in pairs if pairs[name] == pair and name not in colours)
        if same and colour not in colours.values():
            colours[same[0]] = colour
    free = cycle([colour for colour in PALETTE if colour not in colours.values()] or PALETTE)
    colours |= {name: next(free) for name in sorted(pairs.keys() - colours)}
    return {name: colours[name] for name in pairs}


def study_colours(system: str, scenarios: Iterable) -> dict[str, str]:
    """Return `scheme_colours` of the schemes of some scenarios of a system."""
    return scheme_colours(system, ((s.name, s.scheduler, s.noise) for scenario in scenarios for s in scenario.schemes))


_study: dict[str, str] = {}  # colours of the study that is being drawn; empty: those of the scenario alone


@contextmanager
def use_colours(system: str, schemes: Iterable[tuple[str, str, str]]) -> Generator[None]:
    """Use, within this context, the colours that schemes have in all figures of a study; see `scheme_colours`."""
    _study.update(scheme_colours(system, schemes))
    yield
    _study.clear()


def scenario_colours(scenario, schemes=None) -> dict[str, str]:
    """Return the colours of a scenario's schemes, or of some of them, by name."""
    known = _study or study_colours(scenario.system, [scenario])
    return {scheme.name: known[scheme.name] for scheme in (schemes or scenario.schemes)}


def coloured_by(colours: Mapping[str, str], field: str = "scheme") -> alt.Color:
    """Return the colour channel of a field's names, without a legend, as names are at the marks."""
    return alt.Color(f"{field}:N", scale=alt.Scale(domain=list(colours), range=list(colours.values())), legend=None)


def name_ends(ends: Iterable[tuple[str, float, str]], across: float = WIDTH, high: float = HEIGHT) -> list[alt.Chart]:
    """Write names at the right of a frame; `ends`: text, end in pixels from the top, and colour of each curve."""
    placed, _ = named_ends(list(ends), high, PRINT_SIZE)
    return _resized(words(shifted(placed, across + END)))


def name_marks(
    spots: Mapping[str, Sequence[Spot]],
    colours: Mapping[str, str],
    lines: Sequence[tuple[Spot, Spot]] = (),
    size: tuple[float, float] = (WIDTH, HEIGHT),
) -> list[alt.Chart]:
    """Write names next to marks, each at the best of its spots, in pixels, clear of lines and other marks."""
    wanted = [
        Label(labels.named(name), list(places), colours[name], PRINT_SIZE, (MARK, MARK))
        for name, places in spots.items()
        if places
    ]
    dots = [spot for places in spots.values() for spot in places]
    return _resized(words(labels.place(wanted, list(lines), dots, (0, -6, *size))))


def _resized(names: list[alt.Chart]) -> list[alt.Chart]:
    """Return layers of words with the theme's text size, which is at most PRINT_SIZE, for which there is room."""
    for layer in names:
        layer.mark.fontSize = alt.Undefined
    return names


def distribution(frame: pl.DataFrame, value: str, by: str = "scheme") -> pl.DataFrame:
    """Compute empirical distribution functions: CDF_POINTS values per group, at most, and the `share` up to each."""
    groups = [pl.DataFrame(schema={by: pl.String, value: pl.Float64, "share": pl.Float64})]
    for (name,), group in frame.drop_nulls(value).group_by(by, maintain_order=True):
        values = group[value].sort().to_numpy()
        rank = thinned(len(values), CDF_POINTS)
        groups.append(pl.DataFrame({by: name, value: values[rank], "share": (rank + 1) / len(values)}))
    return pl.concat(groups, how="vertical_relaxed")


def thinned(count: int, most: int) -> np.ndarray:
    """Return the indices of at most `most` of `count` rows, evenly from the first to the last."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))


def cdf(
    frame: pl.DataFrame, value: str, scenario, title: str, axis: str, unit: str = "", also=(), x: alt.X | None = None
) -> alt.LayerChart:
    """Draw empirical distribution functions, a step line for each scheme, over realizations, or `unit` of them.

    Without an axis `x`, one with the title `axis` is fitted to the values and to `also`. Names are at the curves.
    """
    present = frame.drop_nulls(value)
    having = set(present["scheme"])
    colours = scenario_colours(scenario, [s for s in scenario.schemes if s.name in having])
    if x is None:
        scale = alt.Scale(type="log" if is_squeezed(frame, value) else "linear")
        x = alt.X(f"{value}:Q", title=axis, scale=scale, axis=alt.Axis(tickCount=8, format=".6~g"))
        x = fitted(x, present[value], *also, most=limits(scenario.system, value)[1])
    subtitle = f"distribution over {unit + ' of ' if unit else ''}{plural(present['realization'].n_unique())}"
    layers = steps(distribution(present, value), value, x, colours, "scheme")
    return sized(alt.layer(*layers), alt.TitleParams(title, subtitle=subtitle))


def steps(shares: pl.DataFrame, value: str, x: alt.X, colours: dict[str, str], by: str) -> list[alt.Chart]:
    """Draw the step lines of a table of `distribution`, by groups `by`, with their names."""
    y = alt.Y("share:Q", title="Empirical CDF", scale=alt.Scale(domain=[0, 1]))
    spots = {}  # corners of the steps
    for (name,), group in shares.group_by(by, maintain_order=True):
        across, up = pixels(x, group[value], WIDTH), HEIGHT * (1 - group["share"].to_numpy())
        spots[name] = np.stack([np.repeat(across, 2)[1:], np.repeat(up, 2)[:-1]], axis=1)
    lines = alt.Chart(shares).mark_line(interpolate="step-after").encode(x=x, y=y, color=coloured_by(colours, by))
    return [lines, *_resized(words(named_along(spots, colours, WIDTH, HEIGHT, PRINT_SIZE)))]


def is_squeezed(frame: pl.DataFrame, value: str) -> bool:
    """Return whether 90% of a scheme's values would be in SQUEEZED of a linear axis, and a logarithmic one suits all.

    It suits positive values, of which the largest is at least DECADE times the smallest.
    """
    finite = frame.filter(pl.col(value).is_finite())
    least, most = ends_of(finite[value])
    if finite.is_empty() or least <= 0 or most < DECADE * least:
        return False
    spread = finite.group_by("scheme").agg(pl.col(value).quantile(0.95) - pl.col(value).quantile(0.05))
    return ends_of(spread[value])[0] < SQUEEZED * (most - least)


def means(frame: pl.DataFrame, by: list[str], columns: list[str], system: str = "") -> pl.DataFrame:
    """Compute means of columns within groups, and the ends of their 95% intervals (Student's t).

    Column c becomes c_mean, c_ci_low and c_ci_high; nulls do not count. A single value has no interval. If a system is
    given, intervals are clipped to the limits that its tables declare for the column (`contract.limits`).
    """
    parts = {"mean": pl.Expr.mean, "std": pl.Expr.std, "count": pl.Expr.count}
    groups = frame.group_by(by, maintain_order=True).agg(
        statistic(pl.col(c)).alias(f"{c}_{part}") for c in columns for part, statistic in parts.items()
    )
    for c in columns:
        mean, count = groups[f"{c}_mean"], groups[f"{c}_count"].to_numpy()
        quantile = stdtrit(np.maximum(count - 1, 1), (1 + CONFIDENCE) / 2)
        half = groups[f"{c}_std"] * pl.Series(quantile / np.sqrt(np.maximum(count, 1)))
        groups = groups.with_columns((mean - half).alias(f"{c}_ci_low"), (mean + half).alias(f"{c}_ci_high"))
        groups = within(groups, c, *limits(system, c)) if system else groups
    return groups.select(*by, *(f"{c}_{part}" for c in columns for part in ("mean", "ci_low", "ci_high")))


ROUNDS = alt.X("round:Q", title="Communication round", axis=alt.Axis(format="d"))


def accuracy_axis(field: str = "", title: str = "Test accuracy") -> alt.Y:
    """Return an axis of accuracies in percent, to be `fitted`."""
    return alt.Y(field or alt.Undefined, title=title, axis=alt.Axis(format="~%"))


def sized(chart: alt.TopLevelMixin, title: str | alt.TitleParams) -> alt.TopLevelMixin:
    """Give a chart its title, and the size of most figures."""
    return chart.properties(title=title, width=WIDTH, height=HEIGHT)


def ends(frame: pl.DataFrame, value: str) -> list[pl.Series]:
    """Return the columns *_mean, *_ci_low and *_ci_high of a value."""
    return [frame[f"{value}_{part}"] for part in ("mean", "ci_low", "ci_high")]


def band_over(count: int) -> str:
    """Describe curves and bands, for a subtitle."""
    return f"mean and 95% confidence band over {plural(count)}"


def band(
    frame: pl.DataFrame,
    value: str,
    scenario,
    title: str | alt.TitleParams,
    y: alt.Y,
    x: alt.X = ROUNDS,
    steps: bool = False,
    column: str = "",
    also: Iterable[float] = (),
    levels: pl.DataFrame | None = None,
) -> alt.LayerChart:
    """Draw means with confidence bands, from columns scheme, *_mean, *_ci_low, *_ci_high and that of `x`.

    `y` is the axis, without its field. It includes the values `also`, and is at most the limit of `column`, or else of
    `value`. `levels` are horizontal lines (`chance.scenario_levels`). With `steps`, a value holds until the next row,
    and each scheme's line ends in a dot. Names of schemes and levels are at the right ends.
    """
    interpolate, colours = "step-after" if steps else "linear", scenario_colours(scenario)
    at = frame[x.shorthand.removesuffix(":Q")]
    x = fitted(x, at, *([0.0] if x["scale"] is alt.Undefined else []), room=0)
    if at.dtype.is_integer():
        x.axis = alt.Axis(format="d", values=whole_ticks(at.max() or 1))
    _, most = limits(scenario.system, column or value)
    y = leveled(y, levels, *ends(frame, value), *also, most=most)
    frame = within(frame, value, *y["scale"]["domain"])
    base = alt.Chart(frame).encode(x=x, color=coloured_by(colours))
    low, mean = y.copy(), y.copy()
    low.shorthand, mean.shorthand = f"{value}_ci_low:Q", f"{value}_mean:Q"
    area = base.mark_area(interpolate=interpolate, opacity=0.18).encode(y=low, y2=alt.Y2(f"{value}_ci_high:Q"))
    layers = [area, base.mark_line(interpolate=interpolate).encode(y=mean)]
    final = frame.drop_nulls(f"{value}_mean").sort(at.name, maintain_order=True)
    final = final.group_by("scheme", maintain_order=True).last()
    if steps:
        layers.append(base.mark_circle(size=60).encode(y=mean).properties(data=final))
    rules, named = level_lines(y, levels)
    places = pixels(y, final[f"{value}_mean"], HEIGHT)
    named += [(name, place, colours[name]) for name, place in zip(final["scheme"], places, strict=True)]
    return sized(alt.layer(*layers, *rules, *name_ends(named)), title)


def level_lines(y: alt.Y, levels: pl.DataFrame | None) -> tuple[list[alt.Chart], list[tuple[str, float, str]]]:
    """Draw lines across at those `chance.scenario_levels` within an axis; also return names of all for `name_ends`."""
    if levels is None or levels.is_empty():
        return [], []
    (low, high), along = y["scale"]["domain"], y.copy()
    along.shorthand = "level:Q"
    named = []
    for (level, text), place in zip(levels.rows(), pixels(y, levels["level"], HEIGHT), strict=True):
        beyond = " (below)" if level < low else " (above)" if level > high else ""
        named.append((text + beyond, float(place), SOFT))
    shown = levels.filter(pl.col("level").is_between(low, high))
    return [alt.Chart(shown.select("level")).mark_rule(color=LINE).encode(y=along)], named


def within(frame: pl.DataFrame, value: str, least: float | None = None, most: float | None = None) -> pl.DataFrame:
    """Clip the intervals of a value in a table of means to the range from `least` to `most`."""
    return frame.with_columns(pl.col(f"{value}_ci_low", f"{value}_ci_high").clip(least, most))


def referenced(chart: alt.TopLevelMixin, value: float, text: str, axis: str, title: str) -> alt.LayerChart:
    """Add a dashed line with its text to a chart, at a value of the axis `x` or `y` with this title."""
    data = alt.Chart(pl.DataFrame({"value": [value], "text": [text]}))
    place = (alt.X if axis == "x" else alt.Y)("value:Q", title=title)
    rule = data.mark_rule(strokeDash=[4, 4], color=SOFT).encode(**{axis: place})
    at_end = {"y": alt.value("height")} if axis == "x" else {"x": alt.value("width")}
    words = data.mark_text(align="right", dx=-6, dy=-10 if axis == "x" else -8, color=SOFT)
    words = words.encode(**{axis: place}, **at_end, text=alt.Text("text:N"))
    outline = words.copy()
    outline.mark.stroke, outline.mark.strokeWidth = HALO, 3
    heading, chart = chart.title, chart.copy()
    chart.title = alt.Undefined
    return sized(alt.layer(chart, rule, outline, words), heading)


def wrapped(lines: Iterable[str], length: int) -> list[str]:
    """Wrap lines of a subtitle at `length` characters."""
    return [part for line in lines for part in textwrap.wrap(line, length)]


def empty(why: str, title: str) -> alt.Chart:
    """Return a figure without data: a line with the reason."""
    chart = alt.Chart(pl.DataFrame({"why": [why]})).mark_text(color=SOFT, align="left", x=0)
    title = alt.TitleParams(title, subtitle="nothing drawn")
    return chart.encode(text=alt.Text("why:N")).properties(title=title, width=WIDTH, height=30)


def named(chart: alt.TopLevelMixin, scenario: str) -> alt.TopLevelMixin:
    """Add the scenario's name to a chart's subtitle, and both titles as its description for screen readers."""
    original = "" if chart.title is alt.Undefined else chart.title
    title = original.copy() if isinstance(original, alt.TitleParams) else alt.TitleParams(original)
    lines = title.subtitle if isinstance(title.subtitle, list) else [title.subtitle]
    title.subtitle = [scenario, *(line for line in lines if line is not alt.Undefined)]
    text = " ".join(title.text) if isinstance(title.text, list) else title.text
    return chart.properties(title=title, description="; ".join([text, *title.subtitle]))


def save(chart: alt.TopLevelMixin, paths: dict[str, str], for_print: alt.TopLevelMixin | None = None) -> None:
    """Write a chart to files: `json` (its Vega-Lite specification), `png`, `svg`, and `pdf`, for print.

    `for_print` is the chart for `pdf`; None: the same chart.
    """
    drawn = specified(chart)
    spec, svg = _rounded(drawn), cache(lambda: _svg(drawn))
    write = {
        "json": lambda path: Path(path).write_text(
            json.dumps(spec, ensure_ascii=False, allow_nan=False), encoding="utf-8"
        ),
        "png": lambda path: Path(path).write_bytes(vl_convert.svg_to_png(svg(), scale=2)),
        "svg": lambda path: Path(path).write_text(_styled(svg()), encoding="utf-8"),
        "pdf": lambda path: Path(path).write_bytes(vl_convert.svg_to_pdf(printed(for_print or chart))),
    }
    for kind, path in paths.items():
        with appearing_whole(path) as unfinished:
            write[kind](unfinished)


def printed(chart: alt.TopLevelMixin) -> str:
    """Draw a figure for print as SVG, COLUMN points wide: theme for print, without title, panels in a column."""
    with alt.theme.enable("pwfl_print"):
        spec = specified(chart)
    spec.pop("title", None)
    if "hconcat" in spec:
        spec["vconcat"] = spec.pop("hconcat")
    svg = vl_convert.vegalite_to_svg(spec, VEGA_LITE)
    size = r'width="([\d.]+)" height="([\d.]+)"'  # the view box, after it, keeps the coordinates
    match = re.search(size, svg)
    assert match is not None  # all SVGs of Vega have it
    width, height = map(float, match.groups())
    return re.sub(size, f'width="{COLUMN}" height="{height * COLUMN / width:.2f}"', svg, count=1)


def _svg(spec: dict) -> str:
    """Draw a specification as SVG, its gradients numbered from 1: Vega counts on through all charts of a process."""
    text, numbers = vl_convert.vegalite_to_svg(spec, VEGA_LITE), {}
    return re.sub(r"\bgradient_(\d+)", lambda match: f"gradient_{numbers.setdefault(match[1], len(numbers) + 1)}", text)


def _styled(text: str) -> str:
    """Add the style sheet to an SVG that is a separate file; it has dark colours if the reader prefers them."""
    return re.sub(r"(<svg [^>]*>)", rf"\1<style>{style()}</style>", text, count=1)


def _rounded(spec: dict) -> dict:
    """Round a specification's data to DIGITS: an eye distinguishes no more, and files contain many numbers.

    Numbers that are not finite become null: JSON has no other form of them, and browsers reject Python's.
    """

    def short(value):
        if not isinstance(value, float):
            return value
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None

    data = spec.get("datasets", {})
    datasets = {
        name: [{key: short(value) for key, value in row.items()} for row in rows] for name, rows in data.items()
    }
    return spec | ({"datasets": datasets} if datasets else {})
