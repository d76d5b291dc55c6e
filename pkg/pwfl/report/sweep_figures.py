"""Figures of a sweep: outcomes over the swept parameter, the plane of two outcomes, curves over rounds.

`study` is that of `report.build.compare`, of the scenarios of one system.
"""

import textwrap

import altair as alt
import numpy as np
import polars as pl
from scipy.sparse.csgraph import connected_components

from pwfl.report import measured, printed, theme
from pwfl.report.catalog import Outcome
from pwfl.report.claims import FAILED
from pwfl.report.sweeps import (
    KIND,
    front,
    index_of,
    losses,
    not_swept,
    outcomes,
    outcomes_of,
    place,
    point_of,
    points,
    swept_keys,
    undominated,
    unswept,
)

PANEL = 260
LINE_LENGTH = 110  # characters of a title's lines
PATTERNS = alt.Scale(range=[printed.SOLID, [8, 4], [3, 3], [10, 3, 3, 3], [14, 4], [2, 7]])
SHAPES = alt.Scale(range=printed.SHAPES)
TOUCH = np.array([0.03, 0.04])  # shares of the axes within which points lie on each other
ORDERED = alt.SchemeParams("viridis", extent=[0, 0.85])  # whose end is too light on white
RINGS = "ringed: Pareto-optimal, by the means"
OF_KINDS = "rings are among points of the same guarantee and observer; dashed: without a guarantee"
UNGUARANTEED = [3, 2]  # dashes of rings


def over_parameter(study: dict[str, dict], outcome: str | None = None) -> alt.TopLevelMixin:
    """An outcome over the swept parameter with its interval, a line a scheme; panels for other swept parameters.

    Without a name, the first outcome of the system that there is.
    """
    rows, left_out, study = measured.of(study), not_swept(study), points(study)
    table = outcomes(study)
    if table.is_empty():
        return _no_outcome(study, "swept parameter", "outcome")
    outcome = outcome or table["outcome"][0]
    table = table.filter(pl.col("outcome") == outcome)
    x, *others = _varied(table, swept_keys(table))
    known = _known(study)[outcome]
    frame, names = _plottable(_side_by_side(table, x), [x, *others])
    own = measured.frame(rows, x, outcome, {names[key]: table[key] for key in others[:2]})
    width, height = (PANEL, PANEL) if others else (theme.WIDTH, theme.HEIGHT)
    colour, chosen, opacity = _scheme_colour(study)
    across = _parameter_axis(
        _also(table[x], own["measured_x"]), "beside" if table[x].dtype.is_numeric() else names[x], x
    )
    up = _outcome_axis(alt.Y, "mean", known, _also(table["mean"], own["measured_y"]))
    data = alt.Chart(pl.concat([frame, own], how="diagonal_relaxed") if len(own) else frame, width=width, height=height)
    base = data.transform_filter("isValid(datum.scheme)") if len(own) else data
    base = base.encode(
        x=across,
        y=up,
        color=colour,
        opacity=opacity,
        detail=["sweep_of:N", *(f"{names[key]}:N" for key in others[2:])],
        tooltip=_tips(names, {"": known}, {"realizations:Q": "realizations"}),
    )
    if len(scenarios := table["sweep_of"].unique(maintain_order=True).to_list()) > 1:
        legend = theme.legend(symbolSize=500)
        dash = alt.StrokeDash("sweep_of:N", title="Scenario", sort=scenarios, scale=PATTERNS, legend=legend)
        base = base.encode(strokeDash=dash)
    whiskers = base.mark_rule(strokeWidth=1.5).encode(y="low:Q", y2="high:Q", strokeDash=alt.value([]))
    stars = measured.marks(data.transform_filter("isValid(datum.label)"), own, across, up) if len(own) else []
    layers = alt.layer(base.mark_line(), whiskers, base.mark_point(filled=True, size=55), *stars).add_params(chosen)
    subtitle = [f"mean and 95% interval over {theme.ranged(table['realizations'])}; schemes side by side"]
    subtitle += [part for line in (*left_out, *measured.said(own)) for part in textwrap.wrap(line, LINE_LENGTH)]
    title = alt.TitleParams(f"{_system(study)}: {_small(known.title)} over {x}", subtitle=subtitle)
    facets = dict(zip(("column", "row"), others, strict=False))
    if not facets:
        return layers.properties(title=title)
    panels = {side: alt.Facet(f"{names[key]}:O", title=key, header=theme.HEADER) for side, key in facets.items()}
    return layers.facet(**panels).properties(title=title)


def plane(study: dict[str, dict], x: str | None = None, y: str | None = None) -> alt.LayerChart:
    """Two outcomes of every point, a curve a scheme through the points of its sweep; rings: what nothing dominates.

    Without names, the first two outcomes of the system that there are: accuracy over epsilon where it has both.
    """
    rows, unshown, study = measured.of(study), not_swept(study), points(study)
    table = outcomes(study)
    if table.is_empty():
        return _no_outcome(study, "outcome", "other outcome")
    first = table["outcome"].unique(maintain_order=True).to_list()
    x, y = x or first[min(1, len(first) - 1)], y or first[0]
    known, swept = _known(study), [] if unswept(study) else _varied(table, swept_keys(table))
    index = index_of(table)
    means = {axis: [pl.col(part).alias(f"{axis}_{part}") for part in ("mean", "low", "high")] for axis in "xy"}
    of_x, of_y = (table.filter(outcome=name).select(*index, *means[axis]) for axis, name in (("x", x), ("y", y)))
    both = of_x.join(of_y, on=index, nulls_equal=True, maintain_order="left")
    finite = pl.col("x_mean").is_finite() & pl.col("y_mean").is_finite()
    drawn, left_out = both.filter(finite), both.filter(~finite)["scheme"].unique(maintain_order=True)
    best = undominated(drawn, losses(drawn["x_mean"], known[x]), losses(drawn["y_mean"], known[y]))
    frame, names = _plottable(drawn.with_columns(best=pl.Series(best, dtype=pl.Boolean)), swept)
    if swept:
        frame = frame.with_columns(_numbers(frame, names[swept[0]]))
    counts = theme.ranged(table.filter(pl.col("outcome").is_in([x, y]))["realizations"])
    own = measured.frame(rows, x, y)
    subtitle = [f"means and 95% intervals over {counts}; {RINGS}{' of what is simulated' if len(own) else ''}"]
    if not drawn["guaranteed"].all() or len(drawn.unique(KIND)) > 1:
        subtitle.append(OF_KINDS)
    if len(left_out):
        subtitle.append(f"not drawn, since infinite: {', '.join(left_out)}")
    subtitle += [part for line in (*unshown, *measured.said(own)) for part in textwrap.wrap(line, LINE_LENGTH)]
    colour, chosen, opacity = _scheme_colour(study)
    across = _outcome_axis(alt.X, "x_mean", known[x], _also(drawn["x_mean"], own["measured_x"]))
    across["scale"].padding = 40  # room for numbers
    up = _outcome_axis(alt.Y, "y_mean", known[y], _also(drawn["y_mean"], own["measured_y"]))
    base = alt.Chart(frame).encode(
        x=across,
        y=up,
        color=colour,
        opacity=opacity,
        tooltip=_tips(names, {"x_": known[x], "y_": known[y]}),
    )
    curves = base.mark_line(strokeWidth=1.5).encode(
        detail=["sweep_of:N", *(f"{names[key]}:N" for key in swept[1:])], order="place:Q"
    )
    dots = base.mark_point(filled=True, size=70)
    if len(scenarios := drawn["sweep_of"].unique(maintain_order=True).to_list()) > 1:
        curves = curves.encode(strokeDash=alt.StrokeDash("sweep_of:N", sort=scenarios, scale=PATTERNS, legend=None))
        dots = dots.encode(shape=alt.Shape("sweep_of:N", title="Scenario", sort=scenarios, scale=SHAPES))
    elif len(swept) > 1:
        dots = dots.encode(shape=alt.Shape(f"{names[swept[1]]}:O", title=swept[1]))
    rules = base.mark_rule(strokeWidth=1)
    ringed = base.transform_filter("datum.best")
    intervals = [rules.encode(x="x_low:Q", x2="x_high:Q"), rules.encode(y="y_low:Q", y2="y_high:Q")]
    dashes = alt.condition("datum.guaranteed", alt.value(printed.SOLID), alt.value(UNGUARANTEED))
    rings = ringed.mark_point(size=220, strokeWidth=1.5).encode(color=alt.value("#222"), strokeDash=dashes)
    layers = [curves, *intervals, dots, rings]
    if swept:
        subtitle.append(f"numbers above or below them: {swept[0]}")
        for odd, dy in enumerate((17, -15)):  # neighbours' on two sides
            side = ringed.transform_filter(f"datum.numbers != null && datum.place % 2 == {odd}")
            layers.append(side.mark_text(dy=dy, fontSize=11).encode(text="numbers:N", color=alt.value("#222")))
    layers += measured.marks(alt.Chart(own), own, across, up) if len(own) else []
    heading = f"{_system(study)}: {_small(known[y].title)} over {_small(known[x].title)}"
    title = alt.TitleParams(heading, subtitle=subtitle)
    return theme.sized(alt.layer(*layers).add_params(chosen), title)


def rounds(study: dict[str, dict]) -> alt.FacetChart:
    """Mean test accuracy over rounds on shared axes, of the scenarios that are no points of a sweep, or of its points.

    Scenarios: a panel for each, a line a scheme. Points: a panel a scheme, a line a point, its colour in the order of
    the swept parameter.
    """
    plain = unswept(study)
    swept_ones = dict.fromkeys(point_of(study, name).of for name in study if plain and name not in plain)
    study, by_point = (plain, False) if plain else (study, True)
    table = _curves(study)
    if table.is_empty():
        return theme.empty("nothing was trained", "Communication round", "Test accuracy", f"{_system(study)}: accuracy")
    legend = theme.legend()
    if by_point:
        keys = table.columns[2 : table.columns.index("scheme")]
        swept = _varied(table, keys) or keys[:1]  # of which one point is left
        names = {key: f"swept_{number}" for number, key in enumerate(swept)}
        table = table.rename(names)
        shades = alt.Scale(scheme=ORDERED) if table["swept_0"].dtype.is_numeric() else alt.Scale(range=theme.PALETTE)
        colour = alt.Color("swept_0:O", title=swept[0], scale=shades, legend=legend)
        schemes = list(dict.fromkeys(s.name for content in study.values() for s in content["scenario"].schemes))
        panels = alt.Facet("scheme:N", title=None, sort=schemes, header=theme.HEADER)
    else:
        swept, (colour, _, _) = [], _scheme_colour(study)
        panels = alt.Facet("scenario:N", title=None, sort=list(study), header=theme.HEADER)
    base = alt.Chart(table.select(column for column in table.columns if "." not in column)).encode(
        x=alt.X("round:Q", title="Communication round"),
        color=colour,
        detail=["scenario:N"],
        tooltip=_tips({}, {}, {"round:Q": "round", "accuracy_mean:Q": ("mean accuracy", ".2%")}),
    )
    y = theme.accuracy_axis("accuracy_mean:Q")
    lines = base.mark_line().encode(y=y)
    if len(swept) > 1:
        lines = lines.encode(strokeDash=alt.StrokeDash("swept_1:N", title=swept[1], legend=legend, scale=PATTERNS))
    band = base.mark_area(opacity=0.15).encode(y=alt.Y("accuracy_low:Q"), y2="accuracy_high:Q")
    count = max(content["history"]["realization"].n_unique() for content in study.values())
    subtitle = [f"mean and 95% confidence band over up to {count} realizations"]
    if swept_ones:
        subtitle += textwrap.wrap(f"not here, as they are swept: {', '.join(swept_ones)}", LINE_LENGTH)
    title = alt.TitleParams(f"{_system(study)}: test accuracy", subtitle=subtitle)
    layers = alt.layer(band, lines).properties(width=PANEL, height=PANEL)
    return layers.facet(facet=panels, columns=3).properties(title=title)


def _curves(study: dict[str, dict]) -> pl.DataFrame:
    """Mean accuracies over rounds with their intervals, by scenario, its place in a sweep, and scheme."""
    frames = []
    for name, content in study.items():
        kept = content["history"].drop_nulls("accuracy").filter(~pl.col("status").cast(pl.String).is_in(FAILED))
        kept = kept.unique(["scheme", "realization", "round"], keep="first", maintain_order=True)
        columns = [pl.lit(name).alias("scenario"), *place(study, name)]
        frames.append(theme.means(kept, ["scheme", "round"], ["accuracy"]).select(*columns, pl.all()))
    return pl.concat(frames, how="diagonal_relaxed")


def _varied(table: pl.DataFrame, keys: list[str]) -> list[str]:
    """The keys of swept parameters that vary in a table: numbers first, those of most values first."""
    several = [key for key in keys if table[key].n_unique() > 1]
    return sorted(several, key=lambda key: (not table[key].dtype.is_numeric(), -table[key].n_unique()))


def _plottable(table: pl.DataFrame, swept: list[str]) -> tuple[pl.DataFrame, dict[str, str]]:
    """The rows in the order of the swept values, and names without dots, which Vega-Lite takes for paths."""
    names = {key: f"swept_{number}" for number, key in enumerate(swept)}
    others = {key: name for key in swept_keys(table) if (name := names.get(key))}
    frame = table.sort(swept, maintain_order=True).rename(others)
    return frame.drop([key for key in swept_keys(frame) if "." in key]).with_row_index("place"), names


def _numbers(frame: pl.DataFrame, value: str) -> pl.Series:
    """What stands above or below the ringed points: their values; of points on each other, at the first, all values."""
    texts = [f"{v:g}" if isinstance(v, int | float) else v for v in frame[value]]
    best = np.flatnonzero(frame["best"].to_numpy())
    axes = (frame["x_mean"], frame["y_mean"])
    places = [np.log10(values.to_numpy()) if theme.spans_decades(values) else values.to_numpy() for values in axes]
    shares = np.stack([place / (np.ptp(place) or 1.0) for place in places], axis=1)[best]
    touch = (abs(shares[:, None] - shares) < TOUCH).all(axis=-1)
    numbers: list[str | None] = [None] * len(frame)
    _, groups = connected_components(touch)
    for group in np.unique(groups):
        together = best[groups == group]
        numbers[together[0]] = ", ".join(dict.fromkeys(t for k in together if (t := texts[k]) is not None)) or None
    return pl.Series("numbers", numbers, dtype=pl.String)


def _side_by_side(table: pl.DataFrame, x: str) -> pl.DataFrame:
    """Adds places `beside` the values of a numeric parameter, each scheme's its own, a few pixels apart."""
    if not table[x].dtype.is_numeric():
        return table
    schemes = table["scheme"].unique(maintain_order=True).to_list()
    shift = table["scheme"].replace_strict({name: k - (len(schemes) - 1) / 2 for k, name in enumerate(schemes)})
    values, step = table[x].cast(pl.Float64), 0.012
    if theme.spans_decades(values):
        return table.with_columns(beside=values * (values.max() / values.min()) ** (step * shift))
    return table.with_columns(beside=values + (values.max() - values.min()) * step * shift)


def _also(values: pl.Series, own: pl.Series) -> pl.Series:
    """Simulated values and measured ones, for what an axis must show."""
    return pl.Series([*values, *own], strict=False) if len(own) else values


def _parameter_axis(values: pl.Series, name: str, title: str) -> alt.X:
    if not values.dtype.is_numeric():
        return alt.X(f"{name}:O", title=title, axis=alt.Axis(format="~g"))
    ticks = sorted(values.unique().drop_nulls()) if values.n_unique() <= 12 else alt.Undefined
    scale = alt.Scale(type="log") if theme.spans_decades(values) else alt.Scale(zero=False)
    return alt.X(f"{name}:Q", title=title, scale=scale, axis=alt.Axis(values=ticks, format="~g"))


def _outcome_axis(channel, field: str, outcome: Outcome, values: pl.Series) -> alt.X | alt.Y:
    scale = alt.Scale(type="log", nice=False) if theme.spans_decades(values) else alt.Scale(zero=False)
    return channel(f"{field}:Q", title=outcome.title, scale=scale, axis=alt.Axis(format=outcome.format))


def _scheme_colour(study: dict[str, dict]) -> tuple[alt.Color, alt.Parameter, dict]:
    colours: dict[str, str] = {}
    for content in study.values():
        colours = theme.scheme_colours(content["scenario"]) | colours
    return theme.named_colours(colours)


def _tips(names: dict[str, str], known: dict[str, Outcome], others: dict | None = None) -> list[alt.Tooltip]:
    """Tooltips: what a mark is of, with the names of swept parameters; outcomes by prefixes of columns; others."""
    swept = {f"{name}:N": key for key, name in names.items()}
    means = {}
    for prefix, outcome in known.items():
        means |= {f"{prefix}{part}:Q": (f"{outcome.title}, {part}", ".4g") for part in ("mean", "low", "high")}
    return theme.tips({"scenario:N": "scenario", "scheme:N": "scheme"} | swept | means | (others or {}))


def _system(study: dict[str, dict]) -> str:
    return next(iter(study.values()))["scenario"].system


def _known(study: dict[str, dict]) -> dict[str, Outcome]:
    return outcomes_of(_system(study))


def _no_outcome(study: dict[str, dict], x: str, y: str) -> alt.LayerChart:
    return theme.empty("no scheme has an outcome", x, y, f"{_system(study)}: {y} over {x}")


def _small(title: str) -> str:
    return title[0].lower() + title[1:]


def other_outcomes(study: dict[str, dict]) -> dict[str, alt.TopLevelMixin]:
    """The charts of all outcomes over the swept parameter, by the outcomes' names."""
    table = outcomes(points(study))
    known = _known(study)
    return {known[name].title: over_parameter(study, name) for name in table["outcome"].unique(maintain_order=True)}


def other_planes(study: dict[str, dict]) -> dict[str, alt.LayerChart]:
    """The charts of every two outcomes that vary, by their names: of a sweep's points, and of what is not swept."""
    known, swept, charts = _known(study), points(study), {}
    plain = {name: content for name, content in study.items() if name not in swept}
    for some, note in ((swept, ""), (plain, " (scenarios that are not swept)")):
        compared = front(outcomes(some)).select("x", "y").unique(maintain_order=True).rows() if some else []
        for x, y in compared:
            charts[f"{known[y].title} over {_small(known[x].title)}{note}"] = plane(some, x, y)
    return charts


CHOICES = {"outcomes": other_outcomes, "plane": other_planes}
FIGURES = {"outcomes": over_parameter, "plane": plane, "rounds": rounds}
