"""Figures of a sweep: outcomes over the swept parameter, the plane of two outcomes, curves over rounds.

`study` is that of `report.build.compare`, of the scenarios of one system.
"""

import textwrap
from collections.abc import Callable
from functools import partial

import altair as alt
import numpy as np
import polars as pl
from scipy.sparse.csgraph import connected_components

from pwfl.privacy.labels import PROVED
from pwfl.report import chance, parameters, theme, unscheduled
from pwfl.report.axes import fitted, leveled
from pwfl.report.catalog import Outcome, without_noise
from pwfl.report.columns import at_delta, lower
from pwfl.report.measures import FAILED
from pwfl.report.sweeps import (
    KIND,
    above_chance,
    different,
    drawn_once,
    index_of,
    losses,
    main_outcomes,
    not_swept,
    outcomes,
    outcomes_of,
    point_columns,
    point_of,
    points,
    swept_keys,
    undominated,
    unswept,
    with_bare,
)
from pwfl.scenario import sweep
from pwfl.scenario.sweep import in_words
from pwfl.tables.arrays import ends_of
from pwfl.tables.contract import limits

PANEL, SMALL_PANEL = 240, 140  # pixels of a panel's side, and of one of more than ROOMY side by side
ROOMY, ACROSS = 4, 6  # panels side by side
LINE_LENGTH = 110  # characters of a title's lines
LETTER, LEGEND_LENGTH = 7.5, 28  # pixels of a letter of an axis' title; characters of a legend's
PATTERNS = alt.Scale(range=[theme.SOLID, [8, 4], [3, 3], [10, 3, 3, 3], [14, 4], [2, 7]])
SHAPES = alt.Scale(range=theme.SHAPES)
TOUCH = np.array([0.07, 0.05])  # shares of the axes within which labels of points would lie on each other
HIDDEN = np.array([0.015, 0.02])  # shares of the axes within which marks hide each other
MARK, SMALLER = 70, 0.5  # area of marks, and of the next scheme's, where marks of several schemes hide each other
LINES_APART = 0.05  # share of the axis by which lines without noise must differ for labels of their own
ALIKE = 1e-3  # relative difference of values that are one on an axis
JAVASCRIPT = 2**53  # up to which JavaScript has every whole number
LABELS = 3  # texts in a label, at most
MANY, ROWS = 1, 90  # points at one value of the other outcome: of so many each has a row
ROW = 18  # pixels of a row
TOLD_APART = 8  # scenarios that have shapes of their own; of more, names stand at the best points alone
ORDERED = alt.SchemeParams("viridis", extent=[0, 0.85])  # whose end is too light on white
TARGET = "privacy.target_epsilon"  # swept, its values are those of an axis of epsilon
RINGS = "ringed: Pareto-optimal, by the means"
OF_KINDS = "rings are among points of the same guarantee, trust and observer; dashed: not proved"
LABELED = 0.08  # share of an axis that is free at each end, for labels of points
UNGUARANTEED = [3, 2]  # dashes of rings


def over_parameter(study: dict[str, dict], outcome: str | None = None) -> alt.TopLevelMixin:
    """An outcome over the swept parameter with its interval, a line a scheme; panels for other swept parameters.

    Without a name, the first outcome of the system that there is.
    """
    whole, left_out, study = study, not_swept(study), points(study)
    table = _with_digits(outcomes(study))
    if table.is_empty() or not swept_keys(table):
        return _no_outcome(study, "swept parameter", "outcome")
    outcome = outcome or table["outcome"][0]
    table = table.filter(pl.col("outcome") == outcome)
    counts, table = table, table.drop(unscheduled.COLUMN)
    x, *others = _varied(table, swept_keys(table)) or swept_keys(table)[:1]
    known = _at_delta(outcome, _known(study)[outcome], table)
    frame, names = _plottable(_side_by_side(table, x), [x, *others])
    paneled, side = _paneled(table, others[:2])
    width, height = (side, side) if paneled else (theme.WIDTH, theme.HEIGHT)
    looks = looks_of(whole, table)
    colour, chosen, opacity = theme.colours_of(looks)
    across = _parameter_axis(
        table[x],
        "beside" if table[x].dtype.is_numeric() else names[x],
        _titled(study, [x], int(width / LETTER)),
    )
    up = _outcome_axis(alt.Y, "mean", known, table["mean"])
    if table[x].dtype.is_numeric():
        across = fitted(across, table[x], frame["beside"])
    up, levels = _leveled(up, study, outcome, [table["mean"], table["low"], table["high"]])
    frame = theme.with_shapes(_cut(frame, up, ""), looks)
    base = alt.Chart(width=width, height=height).encode(
        x=across,
        y=up,
        color=colour,
        opacity=opacity,
        detail=["sweep_of:N", *(f"{names[key]}:N" for key in others[len(paneled) :])],
        tooltip=_tips(names, {"": known}, {"realizations:Q": "realizations"}),
    )
    dots = base.mark_point(filled=True, size=55)
    if len(scenarios := table["sweep_of"].unique(maintain_order=True).to_list()) > 1:
        dots = dots.encode(shape=_of_scenarios(whole, scenarios))
    else:
        dots = dots.encode(shape=theme.ON_LINES)
    whiskers = base.mark_rule(strokeWidth=1.5).encode(y="low:Q", y2="high:Q")
    lines = base.mark_line().encode(strokeDash=_dashes(looks, table))
    layers = alt.layer(lines, whiskers, dots, *levels, data=frame).add_params(chosen)
    subtitle = [f"mean and 95% interval over {theme.ranged(table['realizations'])}; schemes side by side"]
    subtitle += unscheduled.lines(counts, width=LINE_LENGTH)
    subtitle += unscheduled.diverged(counts, width=LINE_LENGTH)
    subtitle += [f"a line for each {', '.join(map(in_words, others))}"] if others and not paneled else []
    subtitle += theme.wrapped(left_out, LINE_LENGTH)
    title = alt.TitleParams(f"{_system(study)}: {lower(known.title)} over {in_words(x)}", subtitle=subtitle)
    if not paneled:
        return layers.properties(title=title)
    if max(table[key].n_unique() for key in paneled) <= ACROSS:
        facets = zip(("column", "row"), paneled, strict=False)
        panels = {where: alt.Facet(f"{names[key]}:O", title=_titled(study, [key])) for where, key in facets}
        return layers.facet(**panels).properties(title=title)
    values = [f"datum['{names[key]}']" for key in paneled]
    layers = layers.transform_calculate(panel=" + ', ' + ".join(values))
    panels = alt.Facet("panel:N", title=_titled(study, paneled), sort=None)
    return layers.facet(facet=panels, columns=ACROSS).properties(title=title)


def _paneled(table: pl.DataFrame, keys: list[str]) -> tuple[list[str], int]:
    """The parameters of those given that have panels, none where these were too many, and a panel's side in pixels."""
    count = table.select(keys).n_unique() if keys else 0
    if not count or count > ACROSS**2:
        return [], 0
    across = max(table[key].n_unique() for key in keys)
    return keys, PANEL if across <= ROOMY else SMALL_PANEL


def plane(study: dict[str, dict], x: str | None = None, y: str | None = None) -> alt.TopLevelMixin:
    """Two outcomes of every scenario and point, a curve a scheme through a sweep; rings: what nothing dominates.

    Without names, accuracy (or the first outcome of the system's own) over epsilon. A scheme without noise, whose
    epsilon is not finite, is a horizontal line. Where all have one epsilon, each has a row.
    """
    once, whole, study = drawn_once(study), study, different(study)
    table = _with_digits(outcomes(study))
    if table.is_empty():
        return _no_outcome(study, "outcome", "other outcome")
    main, known = main_outcomes(table, _system(study)), _known(study)
    x, y = x or main[0], y or main[1]
    heading = f"{_system(study)}: {lower(known[y].title)} over {lower(known[x].title)}"
    known |= {name: _at_delta(name, known[name], table) for name in (x, y)}
    both, bare = _of_two(study, table, x, y)
    finite = pl.col("x_mean").is_finite() & pl.col("y_mean").is_finite()
    drawn, left_out = both.filter(finite), both.filter(~finite)["scheme"].unique(maintain_order=True)
    if drawn.is_empty():
        return theme.empty(f"no scheme has a finite {lower(known[x].title)}", heading)
    best = undominated(drawn, losses(drawn["x_mean"], known[x]), losses(drawn["y_mean"], known[y]))
    drawn = drawn.with_columns(best=pl.Series(best) & ~pl.col("bare") & above_chance(drawn, table))
    of_sweeps = drawn.filter(pl.col("sweep_of") != pl.col("scenario"))
    swept = _varied(of_sweeps, swept_keys(drawn))
    scenarios = drawn["sweep_of"].unique(maintain_order=True).to_list()
    shaped = "sweep_of" if 1 < len(scenarios) <= TOLD_APART else swept[1] if len(scenarios) == 1 < len(swept) else None
    several = len(scenarios) > TOLD_APART
    frame, names = _plottable(drawn, swept)
    labelled = swept[0] if swept and (swept[0], x) != (TARGET, "epsilon") else ""
    frame = frame.with_columns(_labels(frame, names.get(labelled), labelled, several))
    shown = table.filter(pl.col("outcome").is_in([x, y]))
    counts = theme.ranged(shown["realizations"])
    subtitle = [f"means and 95% intervals over {counts}; {RINGS}"]
    point = shown.group_by("scenario", "scheme", "target_epsilon", maintain_order=True)
    most = point.agg(pl.col("realizations", unscheduled.COLUMN).sort_by(unscheduled.COLUMN).last())
    subtitle += unscheduled.lines(most, width=LINE_LENGTH)
    subtitle += unscheduled.diverged(shown.filter(outcome=y), width=LINE_LENGTH)
    if set(drawn["guarantee"]) != {PROVED} or len(drawn.unique(KIND)) > 1:
        subtitle.append(OF_KINDS)
    if len(left_out):
        subtitle.append(f"not drawn, since infinite or undefined: {', '.join(left_out)}")
    subtitle += once
    looks = looks_of(whole, drawn)
    if MANY < len(both) <= ROWS and theme.alike(drawn["x_mean"], ALIKE):
        return _in_rows(both, known[x], known[y], looks, heading, subtitle, partial(_leveled, study=study, outcome=y))
    of_curve = ["sweep_of", "scheme", *(names[key] for key in swept[1:])]
    joined = frame.select(of_curve).is_duplicated().any()
    colour, chosen, opacity = theme.colours_of(looks, "stroke" if joined else "circle" if shaped else None)
    frame = frame.with_columns(rank=pl.col("scheme").replace_strict(list(looks), range(len(looks))))
    across = _outcome_axis(alt.X, "x_mean", known[x], drawn["x_mean"])
    across, beside = _leveled(across, study, x, theme.ends(drawn, "x"), room=LABELED)
    up = _outcome_axis(alt.Y, "y_mean", known[y], drawn["y_mean"])
    up, levels = _leveled(up, study, y, [*theme.ends(drawn, "y"), bare["y_mean"]])
    frame = theme.with_shapes(_cut(_cut(frame, across, "x_"), up, "y_"), looks)
    base = alt.Chart(frame).encode(
        x=across,
        y=up,
        color=colour,
        opacity=opacity,
        tooltip=_tips(names, {"x_": known[x], "y_": known[y]}),
    )
    curves = base.mark_line(strokeWidth=1.5).encode(
        detail=["sweep_of:N", *(f"{names[key]}:N" for key in swept[1:])],
        order="place:Q",
        strokeDash=_dashes(looks, drawn),
    )
    dots = base.mark_point(filled=True, size=MARK)
    if _hide(frame):  # so later schemes are drawn smaller, upon the others
        areas = alt.Scale(domain=list(looks), range=[MARK * 2 * SMALLER**k for k in range(len(looks))])
        dots = dots.encode(size=alt.Size("scheme:N", scale=areas, legend=None), order=alt.Order("rank:Q"))
    if shaped == "sweep_of":
        dots = dots.encode(shape=_of_scenarios(whole, scenarios))
    elif shaped:
        dots = dots.encode(shape=alt.Shape(f"{names[shaped]}:O", title=_titled(study, [shaped]), scale=SHAPES))
    else:
        dots = dots.encode(shape=theme.ON_LINES if joined else theme.shapes_of(looks))
    rules = base.mark_rule(strokeWidth=1)
    ringed = base.transform_filter("datum.best")
    intervals = [rules.encode(x="x_low:Q", x2="x_high:Q"), rules.encode(y="y_low:Q", y2="y_high:Q")]
    dashes = alt.condition(f"datum.guarantee === '{PROVED}'", alt.value(theme.SOLID), alt.value(UNGUARANTEED))
    rings = ringed.mark_point(size=220, strokeWidth=1.5).encode(color=alt.value("#222"), strokeDash=dashes)
    layers = [*([curves] if joined else []), *intervals, dots, rings]
    if len(bare):
        layers += _without_noise(bare, known[y], np.ptp(up["scale"]["domain"]))
    for side, dy in enumerate((17, -15) if frame["label"].count() else ()):  # neighbours' on two sides
        texts = base.transform_filter(f"datum.side === {side}").mark_text(dy=dy)
        layers += theme.legible(texts.encode(text="label:N", color=alt.value("#222")))
    layers += [*beside, *levels]
    title = alt.TitleParams(heading, subtitle=theme.wrapped(subtitle, LINE_LENGTH))
    chart = theme.sized(alt.layer(*layers).add_params(chosen), title)
    return chart.configure_legend(orient="bottom", direction="horizontal", columns=3)


def _in_rows(
    both: pl.DataFrame,
    x: Outcome,
    y: Outcome,
    looks: dict[str, theme.Look],
    heading: str,
    subtitle: list[str],
    on: Callable,
) -> alt.TopLevelMixin:
    """Points that have one value of `x`, a row each, the largest `y` first; `on` fits the axis to values."""
    keys = ["scenario", "scheme"] if both["scenario"].is_duplicated().any() else ["scenario"]
    names = pl.concat_str([key for key in keys if both[key].n_unique() > 1] or keys, separator=", ")
    kept = both.filter(pl.col("y_mean").is_finite()).sort("y_mean", descending=True)
    kept = kept.with_columns(point=names.str.replace_all(", ?", ", "))
    value = both["x_mean"].filter(both["x_mean"].is_finite())[0]
    lines = [f"{x.title}: {value:.3g}", *(line for line in subtitle if line != OF_KINDS)]
    wrapped = theme.wrapped([line.replace(f"; {RINGS}", "") for line in lines], LINE_LENGTH)
    colour, chosen, opacity = theme.colours_of(looks, None)
    rows = alt.Y("point:N", title=None, sort=None)
    base = alt.Chart(kept).encode(y=rows, color=colour, opacity=opacity, tooltip=_tips({}, {"y_": y}))
    across, levels = on(_outcome_axis(alt.X, "y_mean", y, kept["y_mean"]), values=theme.ends(kept, "y"))
    base = base.properties(data=_cut(kept, across, "y_"))
    dots = base.mark_point(filled=True, size=MARK).encode(x=across, shape=theme.shapes_of(looks))
    chart = alt.layer(base.mark_rule().encode(x="y_low:Q", x2="y_high:Q"), dots, *levels).add_params(chosen)
    title = alt.TitleParams(heading, subtitle=wrapped)
    chart = chart.properties(title=title, width=theme.WIDTH, height=alt.Step(ROW))
    return chart.configure_legend(orient="bottom", direction="horizontal", columns=3)


def _of_two(study: dict[str, dict], table: pl.DataFrame, x: str, y: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Points of two outcomes with their intervals, and those that have no finite `x` since no noise is added."""
    index = index_of(table)

    def of(name: str, axis: str) -> pl.DataFrame:
        parts = table.filter(outcome=name)
        return parts.select(*index, *(pl.col(part).alias(f"{axis}_{part}") for part in ("mean", "low", "high")))

    both = of(y, "y").join(of(x, "x"), on=index, nulls_equal=True, how="left", maintain_order="left")
    names = {name: without_noise(content["scenario"]) for name, content in study.items()}
    both = with_bare(both, names)
    line = pl.col("bare") & ~pl.col("x_mean").is_finite().fill_null(value=False)
    return both.filter(~line), both.filter(line)


def _without_noise(bare: pl.DataFrame, outcome: Outcome, span: float) -> list[alt.Chart]:
    """A line for each scenario (or sweep, its mean) and scheme without noise, on an axis that spans so much."""
    rows = bare.group_by("sweep_of", "scheme", maintain_order=True).agg(pl.col("y_mean").mean()).sort("y_mean")
    apart = np.diff(rows["y_mean"], prepend=-np.inf) > LINES_APART * span
    group = pl.Series(apart.cumsum())  # lines so close that they have one label, at the highest
    names = pl.col("sweep_of").unique(maintain_order=True).str.join("; ")
    labelled = rows.group_by(group, maintain_order=True).agg(pl.col("y_mean").last(), text=names)
    what = pl.lit("without noise") if rows["sweep_of"].n_unique() == 1 else pl.format("{}, without noise", "text")
    is_highest = pl.int_range(pl.len()) == pl.len() - 1
    labelled = labelled.with_columns(text=pl.when(is_highest).then(what).otherwise(pl.col("text")))
    base = alt.Chart(rows).encode(y="y_mean:Q")
    tips = theme.tips({"sweep_of:N": "Scenario", "scheme:N": "Scheme", "y_mean:Q": (outcome.title, ".4g")})
    layers = [base.mark_rule(strokeDash=[2, 3], color="#555").encode(tooltip=tips)]
    for rank, row in enumerate(reversed(labelled.select("y_mean", "text").rows(named=True))):  # others below the line
        words = base.properties(data=pl.DataFrame([row]))
        words = words.mark_text(align="right", dx=-4, dy=12 if rank else -7, color="#555")
        layers += theme.legible(words.encode(x=alt.value("width"), text="text:N"))
    return layers


def rounds(study: dict[str, dict]) -> alt.FacetChart:
    """Mean test accuracy over rounds on shared axes, of the scenarios that are no points of a sweep, or of its points.

    Scenarios: a panel for each, a line a scheme. Points: a panel a scheme of a sweep, a line a point, its colour in the
    order of the swept parameter.
    """
    plain = unswept(study)
    swept_ones = dict.fromkeys(point_of(study, name).of for name in study if plain and name not in plain)
    whole, study, by_point = study, plain or study, not plain
    table = _with_digits(_curves(study))
    if table.is_empty():
        return theme.empty("nothing was trained", f"{_system(study)}: test accuracy")
    legend = theme.legend()
    if by_point:
        keys = table.columns[2 : table.columns.index("scheme")]
        swept = _varied(table, keys) or keys[:1]  # of which one point is left
        names = {key: f"swept_{number}" for number, key in enumerate(swept)}
        table = table.rename(names)
        shades = alt.Scale(scheme=ORDERED) if table["swept_0"].dtype.is_numeric() else alt.Scale(range=theme.PALETTE)
        colour = alt.Color("swept_0:O", title=_titled(study, [swept[0]]), scale=shades, legend=legend)
        several = table["sweep_of"].n_unique() > 1
        table = table.with_columns(panel=pl.format("{}, {}", "sweep_of", "scheme") if several else pl.col("scheme"))
        schemes = ((point_of(study, name).of, s.name) for name in study for s in study[name]["scenario"].schemes)
        order = dict.fromkeys(f"{of}, {scheme}" if several else scheme for of, scheme in schemes)
        panels = alt.Facet("panel:N", title=None, sort=list(order))
    else:
        swept, looks = [], looks_of(whole, table)
        (colour, _, _), dash = theme.colours_of(looks), theme.dashes_of(looks)
        panels = alt.Facet("scenario:N", title=None, sort=list(study))
    y, levels = _leveled(theme.accuracy_axis("accuracy_mean:Q"), study, "accuracy", theme.ends(table, "accuracy"))
    base = alt.Chart().encode(
        x=fitted(theme.ROUNDS, table["round"], 0.0, room=0),
        color=colour,
        detail=["scenario:N"],
        tooltip=_tips({}, {}, {"round:Q": "round", "accuracy_mean:Q": ("mean accuracy", ".2%")}),
    )
    lines = base.mark_line().encode(y=y)
    if not by_point:
        lines = lines.encode(strokeDash=dash)
    elif len(swept) > 1:
        title = _titled(study, [swept[1]])
        lines = lines.encode(strokeDash=alt.StrokeDash("swept_1:N", title=title, legend=legend, scale=PATTERNS))
    band = base.mark_area(opacity=0.15).encode(y=alt.Y("accuracy_low:Q"), y2="accuracy_high:Q")
    count = max(content["history"]["realization"].n_unique() for content in study.values())
    subtitle = [f"mean and 95% confidence band over up to {count} realizations"]
    ended = (unscheduled.known(content["realizations"]).drop_nulls("accuracy") for content in study.values())
    subtitle += unscheduled.lines(pl.concat(map(unscheduled.counted, ended)), width=LINE_LENGTH)
    subtitle += unscheduled.diverged(outcomes(study).filter(outcome="accuracy"), width=LINE_LENGTH)
    if swept_ones:
        subtitle += textwrap.wrap(f"not here, as they are swept: {'; '.join(swept_ones)}", LINE_LENGTH)
    title = alt.TitleParams(f"{_system(study)}: test accuracy", subtitle=subtitle)
    shown = table.select(column for column in table.columns if "." not in column)
    few = shown["panel" if by_point else "scenario"].n_unique() <= ROOMY**2
    layers = alt.layer(band, lines, *levels, data=shown).properties(
        **dict.fromkeys(("width", "height"), PANEL if few else SMALL_PANEL)
    )
    return layers.facet(facet=panels, columns=3 if few else ACROSS).properties(title=title)


def _curves(study: dict[str, dict]) -> pl.DataFrame:
    """Mean accuracies over rounds with their intervals, by scenario, its place in a sweep, and scheme."""
    frames = []
    for name, content in study.items():
        kept = content["history"].drop_nulls("accuracy").filter(~pl.col("status").cast(pl.String).is_in(FAILED))
        kept = kept.unique(["scheme", "realization", "round"], keep="first", maintain_order=True)
        columns = [pl.lit(name).alias("scenario"), *point_columns(study, name)]
        means = theme.means(kept, ["scheme", "round"], ["accuracy"], _system(study))
        frames.append(means.select(*columns, pl.all()))
    return pl.concat(frames, how="diagonal_relaxed")


def _with_digits(table: pl.DataFrame) -> pl.DataFrame:
    """Columns of whole numbers of which JavaScript, which draws, rounds any, as text."""
    whole = [name for name, kind in table.schema.items() if kind.is_integer()]
    return table.with_columns(
        pl.col(name).cast(pl.String) for name in whole if (ends_of(table[name])[1] or 0) > JAVASCRIPT
    )


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


def _of_scenarios(study: dict[str, dict], shown: list[str]) -> alt.Shape:
    """Shapes of scenarios, the same in all figures of a study."""
    every = list(dict.fromkeys(point_of(study, name).of for name in study))
    own = [theme.SHAPES[every.index(name) % len(theme.SHAPES)] for name in shown]
    scale = alt.Scale(domain=shown, range=own)
    return alt.Shape("sweep_of:N", title="Scenario", sort=shown, scale=scale)


def _labels(frame: pl.DataFrame, value: str | None, key: str, several: bool) -> list[pl.Series]:
    """What stands at the ringed points, `label`, and on which `side` of them; a label for points close to each other.

    The values of the swept parameter in column `value`, the leftmost with its name; where scenarios are `several`,
    their names. Sides alternate from left to right.
    """
    rows = frame.to_dicts()
    for row in rows:
        swept_value = row.get(value) if value else None
        text = None if swept_value is None else sweep.text(swept_value)
        swept = [str(text)] if row["scenario"] != row["sweep_of"] and text is not None else []
        row["text"] = ", ".join([row["sweep_of"], *swept] if several else swept)
    best = np.array([k for k, row in enumerate(rows) if row["best"] and row["text"]], int)
    labels, sides = [None] * len(rows), [None] * len(rows)
    shares = _shares(frame)[best]
    _, groups = connected_components((abs(shares[:, None] - shares) < TOUCH).all(axis=-1))
    found = [best[groups == group] for group in np.unique(groups)]
    for rank, together in enumerate(sorted(found, key=lambda members: frame["x_mean"][int(members[0])])):
        texts = list(dict.fromkeys(rows[k]["text"] for k in together))
        name = f"{in_words(key)} = " if key and not several and rank == 0 else ""
        first = min(together, key=lambda k: rows[k]["x_mean"])
        labels[first], sides[first] = name + "; ".join(texts[:LABELS]) + " ..." * (len(texts) > LABELS), (rank + 1) % 2
    return [pl.Series("label", labels, dtype=pl.String), pl.Series("side", sides, dtype=pl.Int64)]


def _shares(frame: pl.DataFrame) -> np.ndarray:
    """Where points lie, as shares of the axes, shape (point, axis)."""
    axes = (frame["x_mean"], frame["y_mean"])
    places = [np.log10(values.to_numpy()) if theme.spans_decades(values) else values.to_numpy() for values in axes]
    return np.stack([place / max(np.ptp(place), ALIKE * abs(place).max(), 1e-300) for place in places], axis=1)


def _hide(frame: pl.DataFrame) -> bool:
    """Whether marks of different schemes lie on each other."""
    shares, schemes = _shares(frame), frame["scheme"].to_numpy()
    near = (abs(shares[:, None] - shares) < HIDDEN).all(axis=-1)
    return bool((near & (schemes[:, None] != schemes)).any())


def _side_by_side(table: pl.DataFrame, x: str) -> pl.DataFrame:
    """Adds places `beside` the values of a numeric parameter, each scheme's its own, a few pixels apart."""
    if not table[x].dtype.is_numeric():
        return table
    schemes = table["scheme"].unique(maintain_order=True).to_list()
    shift = table["scheme"].replace_strict({name: k - (len(schemes) - 1) / 2 for k, name in enumerate(schemes)})
    values, step = table[x].cast(pl.Float64), 0.012
    least, most = ends_of(values)
    if theme.spans_decades(values):
        return table.with_columns(beside=values * (most / least) ** (step * shift))
    return table.with_columns(beside=values + (most - least) * step * shift)


def _titled(study: dict[str, dict], keys: list[str], length: int = LEGEND_LENGTH) -> list[str]:
    """The titles of parameters in lines of so many characters."""
    text = ", ".join(parameters.title(_system(study), key) for key in keys)
    return textwrap.wrap(text, length, break_long_words=False, break_on_hyphens=False)


def _parameter_axis(values: pl.Series, name: str, title: str | list[str]) -> alt.X:
    if not values.dtype.is_numeric():
        words = values.cast(pl.Float64, strict=False).null_count() > values.null_count()
        return alt.X(f"{name}:O", title=title, axis=alt.Axis() if words else alt.Axis(format="~g"))
    ticks = sorted(values.unique().drop_nulls()) if values.n_unique() <= 12 else alt.Undefined
    scale = alt.Scale(type="log") if theme.spans_decades(values) else alt.Scale(zero=False)
    return alt.X(f"{name}:Q", title=title, scale=scale, axis=alt.Axis(values=ticks, format="~g"))


def _outcome_axis(channel, field: str, outcome: Outcome, values: pl.Series) -> alt.X | alt.Y:
    scale = alt.Scale(type="log" if theme.spans_decades(values) else "linear")
    return channel(f"{field}:Q", title=outcome.title, scale=scale, axis=alt.Axis(format=outcome.format))


def _leveled(axis, study: dict[str, dict], outcome: str, values: list, **options) -> tuple:
    """The axis `fitted` to values of an outcome, and the lines of an accuracy's levels; see `axes.leveled`."""
    _, most = limits(_system(study), outcome)
    levels = chance.levels(study) if outcome == "accuracy" else None
    return leveled(axis, levels, *values, most=most, **options)


def _cut(frame: pl.DataFrame, axis, prefix: str) -> pl.DataFrame:
    """The rows with the intervals of the columns `low` and `high` cut where the axis ends, as a logarithmic one may."""
    return frame.with_columns(pl.col(f"{prefix}low", f"{prefix}high").clip(*axis["scale"]["domain"]))


def _at_delta(name: str, outcome: Outcome, table: pl.DataFrame) -> Outcome:
    """The outcome; of an epsilon its title says the delta of the points."""
    return outcome._replace(title=outcome.title + at_delta(table)) if name.startswith("epsilon") else outcome


def looks_of(study: dict[str, dict], drawn: pl.DataFrame) -> dict[str, theme.Look]:
    """The `theme.looks` of the schemes that are drawn, as in all figures of the study."""
    schemes = ((s.name, s.scheduler, s.noise) for content in study.values() for s in content["scenario"].schemes)
    present = set(drawn["scheme"])
    return {name: look for name, look in theme.looks(_system(study), schemes).items() if name in present}


def _dashes(looks: dict[str, theme.Look], drawn: pl.DataFrame) -> alt.StrokeDash:
    """Dashes of curves: by observer, with a legend, where points that are drawn have several; else by scheme."""
    seen = drawn["observer"].drop_nulls().unique(maintain_order=True).to_list()
    if len(seen) < 2:
        return theme.dashes_of(looks)
    scale = alt.Scale(domain=seen, range=theme.DASHES)
    legend = theme.legend(symbolSize=500, columns=1)
    return alt.StrokeDash("observer:N", title="Observer sees", scale=scale, legend=legend)


def _tips(names: dict[str, str], known: dict[str, Outcome], others: dict | None = None) -> list[alt.Tooltip]:
    """Tooltips: what a mark is of, with the names of swept parameters; outcomes by prefixes of columns; others."""
    swept = {f"{name}:N": in_words(key) for key, name in names.items()}
    means = {}
    for prefix, outcome in known.items():
        means |= {f"{prefix}{part}:Q": (f"{outcome.title}, {part}", ".4g") for part in ("mean", "low", "high")}
    return theme.tips({"scenario:N": "scenario", "scheme:N": "scheme"} | swept | means | (others or {}))


def _system(study: dict[str, dict]) -> str:
    return next(iter(study.values()))["scenario"].system


def _known(study: dict[str, dict]) -> dict[str, Outcome]:
    return outcomes_of(_system(study))


def _no_outcome(study: dict[str, dict], x: str, y: str) -> alt.Chart:
    return theme.empty("no scheme has an outcome", f"{_system(study)}: {y} over {x}")


def other_outcomes(study: dict[str, dict]) -> dict[str, alt.TopLevelMixin]:
    """The charts of all outcomes over the swept parameter, by the outcomes' names."""
    table = outcomes(points(study))
    known = _known(study)
    return {known[name].title: over_parameter(study, name) for name in table["outcome"].unique(maintain_order=True)}


def other_planes(study: dict[str, dict]) -> dict[str, alt.TopLevelMixin]:
    """The charts of the main outcome over every other one, by the others' names; none where it is one alone."""
    table, known = outcomes(different(study)), _known(study)
    if table.is_empty():
        return {}
    x, y = main_outcomes(table, _system(study))
    others = [x, *(name for name in table["outcome"].unique(maintain_order=True) if name not in (x, y))]
    charts = {f"{known[y].title} over {lower(known[name].title)}": plane(study, name, y) for name in others}
    return charts if len(charts) > 1 else {}


CHOICES = {"outcomes": other_outcomes, "plane": other_planes}
FIGURES = {"outcomes": over_parameter, "plane": plane, "rounds": rounds}
