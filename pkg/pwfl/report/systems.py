"""All systems of a study under common terms: accuracy, record-level guarantee, spectrum, energy."""

from collections import Counter
from itertools import cycle
from math import ceil, floor

import altair as alt
import numpy as np
import polars as pl
from scipy.optimize import isotonic_regression

from pwfl import registry
from pwfl.privacy.accountant import guarantee
from pwfl.privacy.labels import PROVED
from pwfl.report import chance, columns, theme, unscheduled
from pwfl.report.axes import fitted, leveled
from pwfl.report.catalog import without_noise
from pwfl.report.sweeps import not_swept, outcomes, point_of, points, with_bare
from pwfl.scenario.sweep import in_words

MEANS = ["accuracy", "local_steps", "channel_uses", "air_seconds", "transmit_energy_j"]
TERMS = [*("evaluated_model", "delta", "samples", "rounds", "energy_scope"), *columns.TERMS[1:]]
BELOW = {"orient": "bottom", "direction": "horizontal"}  # of legends
LABEL_STEP = 17  # pixels from one label to the next
NEGLIGIBLE = 1e-3  # relative difference of two epsilons that are drawn as one
WITHOUT_NOISE = "without noise"  # why a scheme is a line
EPSILONS = ["epsilon", *(f"epsilon_{of}" for of in ("least", "server", "server_least"))]
CURVE = ["system", "sweep_of", "scheme"]  # what a curve, of one point or of a sweep's, is of
LINE_LENGTH = 135  # characters of the title's lines
OBSERVER = "privacy.observer"  # the parameter, of which each value has a panel where it is swept
PRICE = "What accuracy costs in privacy, in each system"
NARROW = 330  # pixels of a panel


def table(scenarios: dict[str, dict]) -> pl.DataFrame:
    """A row for each scheme of each scenario, and each of its privacy targets where it has several.

    `scenarios` is that of `report.compare`. Mean final accuracy with its 95% interval over realizations, how many
    trainings it is of, how many of these have no user scheduled, and how many diverged; the largest and the least
    epsilon of a realization, for the system's own server and for the scheme's observer; the largest attack rate; means
    of symbols and seconds on air, transmit energy and local steps; their terms. What does not apply to a system, or has
    no unit in it, is null; the column `differs` says why.
    """
    frames, keys = [], ["scheme", "target_epsilon"]
    missing = dict.fromkeys(("accuracy", "target_epsilon", "attack_rate"), pl.Float64) | {"training": pl.String}
    for name, content in scenarios.items():
        system, each = content["scenario"].system, content["realizations"]
        each = unscheduled.known(each).with_columns(guarantee_server=guarantee("epsilon_server"))
        each = each.with_columns(pl.lit(None, kind).alias(c) for c, kind in missing.items() if c not in each.columns)
        schemes = each.group_by(keys, maintain_order=True)
        counts = schemes.agg(
            trainings=pl.col("accuracy").count(),
            **{unscheduled.COLUMN: unscheduled.count("accuracy")},
            diverged=(pl.col("training") == "diverged").sum(),
            epsilon_server=pl.col("epsilon_server").max(),
            epsilon_server_least=pl.col("epsilon_server").min(),
            epsilon=pl.col("epsilon").max(),
            epsilon_least=pl.col("epsilon").min(),
            epsilon_user=pl.col("epsilon_user").max(),
            attack_rate=pl.col("attack_rate").max(),
            guarantee=columns.weakest(),
            guarantee_server=columns.weakest("guarantee_server"),
        )
        differs = pl.lit(registry.system(system).load_report().differs).alias("differs")
        means, terms = theme.means(each, keys, MEANS, system), schemes.agg(columns.said(TERMS)).with_columns(differs)
        first, others = means.columns[: len(keys) + 3], means.columns[len(keys) + 3 :]  # the accuracy stands first
        for part in (counts, terms):
            means = means.join(part, on=keys, maintain_order="left", nulls_equal=True)
        frame = means.select(*first, *counts.columns[len(keys) :], *others, *terms.columns[len(keys) :])
        frames.append(frame.select(pl.lit(name).alias("scenario"), pl.lit(system).alias("system"), pl.all()))
    return pl.concat(frames)


def tradeoff(scenarios: dict[str, dict]) -> alt.LayerChart:
    """Final accuracy over the record-level epsilon against each system's own server, of all scenarios and points.

    The points of a sweep are joined by a line, with one label; a scheme without noise is a level. The subtitle says
    what marks and lines mean, and names what has no place in the figure, with the reason.
    """
    of = {name: point_of(scenarios, name).of for name in scenarios}
    frame = table(scenarios).with_columns(sweep_of=pl.col("scenario").replace(of))
    names = {name: without_noise(content["scenario"]) for name, content in scenarios.items()}
    frame = with_bare(frame, names).with_columns(why=_why_not_drawn())
    lines = frame.filter(why=WITHOUT_NOISE)
    colours = dict(zip(frame["system"].unique(maintain_order=True), cycle(theme.PALETTE), strict=False))
    drawn = frame.filter(pl.col("why").is_null()).drop(unscheduled.COLUMN)  # which the title has
    drawn = drawn.with_columns(
        pl.col("channel_uses_mean").clip(lower_bound=1),  # of a logarithm
        fill=pl.when(guarantee_server=PROVED).then(pl.col("system").replace(colours)).otherwise(pl.lit("white")),
    )
    y = alt.Y("accuracy_mean:Q", title="Final test accuracy", axis=alt.Axis(format="~%"), scale=alt.Scale(nice=False))
    values = [*theme.ends(drawn, "accuracy"), lines["accuracy_mean"]]
    y, beside = leveled(y, chance.levels(scenarios), *values, most=1)
    accuracies = y["scale"]["domain"]
    across = f"Record-level epsilon against the system's own server, whole training{columns.at_delta(frame)}"
    x = alt.X("epsilon_server:Q", title=across, axis=alt.Axis(format="~g"), scale=alt.Scale(type="log"))
    x = fitted(x, drawn["epsilon_server"], *drawn.select(EPSILONS))
    drawn = drawn.with_columns(pl.col("epsilon_server_least").clip(*x["scale"]["domain"]))
    labelled = drawn.with_columns(label=_label(scenarios))
    labelled = labelled.filter(pl.col("epsilon_server").arg_max().over(CURVE) == pl.int_range(pl.len()).over(CURVE))
    levels = lines.group_by(CURVE, maintain_order=True).agg(pl.col("accuracy_mean").mean())
    levels = levels.with_columns(label=pl.format("{} ({}), {}: without noise", *CURVE))
    labelled = pl.concat([labelled, levels], how="diagonal")
    height = max(theme.HEIGHT, LABEL_STEP * len(labelled))
    pixel = (accuracies[1] - accuracies[0]) / height
    places = spread((accuracies[1] - labelled["accuracy_mean"].to_numpy()) / pixel, LABEL_STEP, height)
    labelled = labelled.with_columns(label_accuracy=pl.Series(accuracies[1] - places * pixel))

    chosen = alt.selection_point(fields=["system"], bind="legend")
    base = alt.Chart(drawn).encode(x=x, y=y, opacity=theme.faded(chosen))
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    legend = theme.legend("circle", **BELOW, columns=3)
    coloured = base.encode(color=alt.Color("system:N", title="System", scale=scale, legend=legend))
    level = coloured.properties(data=levels).mark_rule(strokeDash=[2, 3], strokeWidth=1.5)
    level = level.encode(x=alt.value(0), x2=alt.value("width"), tooltip=theme.tips({"label:N": "Line"}))
    layers = alt.layer(*_lines(base, coloured, drawn, labelled), level, _marks(base, scale), *beside)
    layers = layers.add_params(chosen)
    title = alt.TitleParams("All systems under common terms", subtitle=_subtitle(frame, scenarios))
    layers = layers.properties(title=title, width=theme.WIDTH, height=height)
    return layers.configure_legend(orient="bottom")


def _lines(base: alt.Chart, coloured: alt.Chart, drawn: pl.DataFrame, labelled: pl.DataFrame) -> list[alt.Chart]:
    """Lines through sweeps, to the names beside the figure, and to the other observer's epsilon; bars."""
    edge = alt.value("width")
    texts = base.properties(data=labelled).mark_text(align="left", dx=6, color="#333")
    apart = (pl.col("epsilon") / pl.col("epsilon_server")).log().abs() > NEGLIGIBLE
    other = coloured.properties(data=drawn.filter(apart & pl.col("epsilon").is_between(0, np.inf, closed="none")))
    several = coloured.properties(data=drawn.drop_nulls("accuracy_low"))  # a single training has no interval
    swept = coloured.properties(data=drawn.filter(pl.len().over(CURVE) > 1))
    leaders = coloured.properties(data=labelled.drop_nulls("epsilon_server"))
    return [
        swept.mark_line(strokeWidth=1.2).encode(detail=["sweep_of:N", "scheme:N"], order="epsilon_server:Q"),
        leaders.mark_rule(strokeWidth=0.6).encode(x2=edge, y2="label_accuracy:Q"),
        texts.encode(x=edge, y="label_accuracy:Q", text="label:N"),
        other.mark_rule(strokeDash=[3, 3], strokeWidth=1.3).encode(x2="epsilon:Q"),
        other.mark_tick(orient="vertical", size=14, thickness=2).encode(x="epsilon:Q"),
        coloured.mark_rule(strokeWidth=2.5).encode(x2="epsilon_server_least:Q"),
        several.mark_rule(strokeWidth=2.5).encode(y="accuracy_low:Q", y2="accuracy_high:Q"),
    ]


def _marks(base: alt.Chart, scale: alt.Scale) -> alt.Chart:
    """A mark for each scheme; what the axes do not say stands in its tooltip."""
    columns = {"system:N": "System", "scenario:N": "Scenario", "scheme:N": "Scheme"} | {
        "epsilon_server:Q": ("Record-level epsilon against the server, largest", ".4g"),
        "epsilon_server_least:Q": ("Record-level epsilon against the server, least", ".4g"),
        "epsilon:Q": ("Record-level epsilon against the scheme's observer", ".4g"),
        "epsilon_user:Q": ("User-level epsilon against the scheme's observer, largest", ".4g"),
        "accuracy_mean:Q": ("Final test accuracy, mean", ".2%"),
        "trainings:Q": "Trainings",
        "channel_uses_mean:Q": ("Symbols on air", ".3s"),
        "air_seconds_mean:Q": ("Seconds on air", ".3s"),
        "local_steps_mean:Q": ("Local steps", ".3g"),
        "transmit_energy_j_mean:Q": ("Radiated energy (J)", ".3s"),
    }
    columns |= {"energy_scope:N": "Link budget", "evaluated_model:N": "Accuracy of", "guarantee:N": "Guarantee"}
    columns |= {"observer:N": "Observer", "differs:N": "Differs in"}
    legend = theme.legend("circle", **BELOW, format="~s", symbolFillColor="#888", symbolStrokeColor="#888")
    sizes = alt.Scale(type="log", range=[40, 400])
    return base.mark_point(strokeWidth=2).encode(
        stroke=alt.Stroke("system:N", scale=scale, legend=None),
        fill=alt.Fill("fill:N", scale=None),
        size=alt.Size("channel_uses_mean:Q", title="Symbols on air", scale=sizes, legend=legend),
        tooltip=theme.tips(columns),
    )


def _why_not_drawn() -> pl.Expr:
    """Why a row of the table has no place in the figure; null: it has one."""
    epsilon, untrained = pl.col("epsilon_server"), pl.col("accuracy_mean").is_null()
    reasons = {
        "every training diverged": untrained & (pl.col("diverged") > 0),
        "no accuracy": untrained,
        WITHOUT_NOISE: pl.col("bare") & ~epsilon.is_finite().fill_null(value=False),
        "nobody sends": epsilon.is_null(),
        "infinite epsilon against its own server": epsilon.is_infinite(),
        "epsilon 0, off a logarithmic axis": epsilon <= 0,
    }
    return pl.coalesce(pl.when(holds).then(pl.lit(why)) for why, holds in reasons.items())


def _label(scenarios: dict[str, dict]) -> pl.Expr:
    """Names a curve: system, scheme, the scenario where the system has several, how many points, and trainings lost."""
    of = [(content["scenario"].system, point_of(scenarios, name).of) for name, content in scenarios.items()]
    several = [system for system, count in Counter(system for system, _ in set(of)).items() if count > 1]
    none, lost, trained = pl.lit(""), pl.col("diverged").sum().over(CURVE), pl.col("trainings").sum().over(CURVE)
    scenario = pl.when(pl.col("system").is_in(several)).then(pl.format(" ({})", "sweep_of")).otherwise(none)
    points = pl.len().over(CURVE)
    points = pl.when(points > 1).then(pl.format(", {} points", points)).otherwise(none)
    diverged = pl.when(lost > 0).then(pl.format(", {} of {} diverged", lost, lost + trained)).otherwise(none)
    return pl.format("{}{}, {}{}{}", "system", scenario, "scheme", points, diverged)


def _subtitle(frame: pl.DataFrame, scenarios: dict[str, dict]) -> list[str]:
    """What the marks mean, what is swept, and what is not drawn, for which reason."""
    lines = [
        f"{theme.ranged(frame['trainings'], 'trainings')} of each scheme",
        "mark: largest epsilon of a realization, mean accuracy; bars: to the least epsilon, 95% interval of the mean",
        "dashed: to the epsilon against the observer that the scheme itself reckons with",
        "hollow: not proved against the server: it assumes something, such as a channel or a receiver's noise, or is "
        "that of a usual pair of records",
    ]
    counts = frame.with_columns(scheme=pl.format("{}, {}", "system", "scheme"), realizations="trainings")
    lines += unscheduled.lines(counts, width=LINE_LENGTH)
    swept: dict[str, list[str]] = {}
    for name in frame["sweep_of"].unique(maintain_order=True):
        if name not in scenarios:
            swept.setdefault(_ranges(scenarios, name), []).append(name)
    lines += [f"line: the points of a sweep of {ranges}: {', '.join(names)}" for ranges, names in swept.items()]
    left_out = frame.filter(pl.col("why") != WITHOUT_NOISE).group_by("system", "sweep_of", "why", maintain_order=True)
    for (system, name, why), rows in left_out:
        schemes = "; ".join(rows["scheme"].unique(maintain_order=True))
        count, total = (part["scenario"].n_unique() for part in (rows, frame.filter(sweep_of=name)))
        points = "" if name in scenarios else f", {count} of {total} points"
        lines.append(f"not drawn, {why}: {system} ({name}{points}), {schemes}")
    return theme.wrapped(lines, LINE_LENGTH)


def _ranges(scenarios: dict[str, dict], name: str) -> str:
    """What a sweep is of: each parameter that it changes, with its values, or their ends if they are many."""
    points = [point.values for each in scenarios if (point := point_of(scenarios, each)).of == name]
    parts = []
    for key in points[0]:
        values = list(dict.fromkeys(str(point[key]) for point in points))
        if len(values) > 1:
            several = ", ".join(values) if len(values) < 4 else f"{values[0]} to {values[-1]}"
            parts.append(f"{in_words(key)} ({several})")
    return ", ".join(parts)


def spread(places: np.ndarray, step: float, limit: float) -> np.ndarray:
    """Places of labels in [0, limit], in the given order, at least `step` apart, moved as little as squares sum to."""
    order, offset = np.argsort(places, kind="stable"), step * np.arange(len(places))
    moved = np.empty(len(places))
    if len(places):
        moved[order] = isotonic_regression(places[order] - offset).x.clip(0, limit - offset[-1]) + offset
    return moved


def epsilon(study: dict[str, dict]) -> alt.TopLevelMixin:
    """Final accuracy over epsilon of all systems' points, a curve for a sweep of a scheme; the title names observers.

    Where observers are swept, each has a panel.
    """
    left, study = not_swept(study), points(study)
    each = outcomes(study)
    by_observer = OBSERVER in each.columns
    panel = pl.col(OBSERVER).fill_null("scheme's own") if by_observer else pl.lit("")
    each = each.with_columns(panel=panel)
    index = ["system", "sweep_of", "scenario", "scheme", "target_epsilon", "panel", "guarantee", "observer"]
    wide = each.pivot("outcome", index=index, values=["mean", "low", "high"], maintain_order=True)
    if {"mean_epsilon", "mean_accuracy"} <= set(wide.columns):
        known = pl.col("mean_epsilon", "mean_accuracy").is_finite()
        drawn = wide.filter(pl.all_horizontal(known) & (pl.col("mean_epsilon") > 0))
    else:
        drawn = wide.clear()
    if drawn.is_empty():
        return theme.empty("no scheme has a finite epsilon above 0 and an accuracy", PRICE)
    drawn = drawn.sort("mean_epsilon", maintain_order=True)
    drawn = drawn.with_columns(line=pl.format("{}, {}", "system", "scheme"))
    lines = drawn.select("system", "line").unique(maintain_order=True)
    looks = _family_looks(each["system"].unique(maintain_order=True).to_list(), lines.rows())
    rows = drawn.group_by("line").agg(columns.weakest())
    label = {line: line + ("" if of == PROVED else f" ({columns.SAID[of]})") for line, of in rows.iter_rows()}
    domain = [label[line] for line in looks]
    legend = theme.legend(symbolSize=500, orient="bottom", columns=2)
    shared = {"title": None, "sort": domain, "legend": legend}  # so that the two are one legend
    colours, patterns = ([look[k] for look in looks.values()] for k in (0, 1))
    chosen = alt.selection_point(fields=["line"], bind="legend")
    exponents = np.log2(drawn["mean_epsilon"].to_numpy())  # ticks at powers of 2 that span all
    ticks = [2.0**k for k in range(floor(exponents.min()), ceil(exponents.max()) + 1)]
    axis = alt.Axis(format="~g", values=ticks)
    tips = {"system:N": "system", "scheme:N": "scheme", "scenario:N": "scenario"}
    tips = {
        **tips,
        "observer:N": "observer",
        "mean_epsilon:Q": ("Record-level epsilon", ".4g"),
        "mean_accuracy:Q": ("accuracy", ".2%"),
    }
    across = f"Record-level epsilon, whole training{columns.at_delta(each)}"
    x = alt.X("mean_epsilon:Q", title=across, scale=alt.Scale(type="log"), axis=axis)
    base = alt.Chart().encode(
        x=fitted(x, drawn["mean_epsilon"]),
        color=alt.Color("line:N", scale=alt.Scale(domain=domain, range=colours), **shared),
        opacity=theme.faded(chosen),
        tooltip=theme.tips(tips),
    )
    y = theme.accuracy_axis("mean_accuracy:Q", "Final test accuracy")
    values = [drawn[f"{part}_accuracy"] for part in ("mean", "low", "high")]
    y, levels = leveled(y, chance.levels(study), *values, most=1)
    whiskers = base.mark_rule(strokeWidth=1.5).encode(y="low_accuracy:Q", y2="high_accuracy:Q")
    dash = alt.StrokeDash("line:N", scale=alt.Scale(domain=domain, range=patterns), **shared)
    dots = base.mark_point(filled=True, size=50).encode(y=y)
    shown = drawn.with_columns(pl.col("line").replace(label))
    curves = base.mark_line().encode(y=y, strokeDash=dash, detail="sweep_of:N")
    layers = alt.layer(curves, whiskers, dots, *levels, data=shown)
    accuracies = each.filter(outcome="accuracy")
    lines = [f"mean and 95% interval over {theme.ranged(accuracies['realizations'])}"]
    counts = accuracies.with_columns(scheme=pl.format("{}, {}", "system", "scheme"))
    lines += unscheduled.lines(counts, width=LINE_LENGTH)
    seen = drawn.group_by("system", "observer", maintain_order=True).agg(
        pl.col("scheme", "panel").unique(maintain_order=True)
    )
    several = seen["system"].is_duplicated().to_list()
    for (system, observer, schemes, whom), named in zip(seen.iter_rows(), several, strict=True):
        which = f" ({'; '.join(schemes)})" if named else ""
        lines.append(
            f"observer {' and '.join(sorted(whom)) + ' ' if by_observer else ''}of {system}{which}: {observer}"
        )
    lost = wide.join(drawn, on=["scenario", "scheme"], how="anti").group_by("sweep_of", maintain_order=True)
    lines += [
        f"not drawn, no finite epsilon or no accuracy: {name}, {'; '.join(rows['scheme'].unique(maintain_order=True))}"
        for (name,), rows in lost
    ]
    subtitle = theme.wrapped([*lines, *left], LINE_LENGTH)
    title = alt.TitleParams(PRICE, subtitle=subtitle)
    if not by_observer:
        layers = layers.add_params(chosen).properties(title=title, width=theme.WIDTH, height=1.3 * theme.HEIGHT)
        return layers.configure_legend(orient="bottom")
    panels = each["panel"].unique(maintain_order=True).to_list()  # as they are swept
    layers = layers.add_params(chosen).properties(width=NARROW, height=theme.HEIGHT)
    layers = layers.facet(column=alt.Column("panel:N", sort=panels, title="observer")).properties(title=title)
    return layers.configure_legend(orient="bottom")


def _family_looks(systems: list[str], lines: list[tuple[str, str]]) -> dict[str, tuple[str, list[int]]]:
    """A colour and a dash pattern for each line of a system: shades of the system's own, as lines may coincide.

    A colour of its own where there are few lines.
    """
    looks = {}
    if len(systems) < len(lines) <= len(theme.PALETTE):
        return {line: (colour, dash) for (_, line), colour, dash in zip(lines, theme.PALETTE, cycle(theme.DASHES))}
    for base, system in zip(theme.PALETTE, systems, strict=False):
        members = [line for of, line in lines if of == system]
        red, green, blue = (int(base[k : k + 2], 16) for k in (1, 3, 5))
        for place, line in enumerate(members):
            light = 0.65 * place / max(len(members) - 1, 1)  # towards white
            colour = "#" + "".join(f"{round(c + (255 - c) * light):02x}" for c in (red, green, blue))
            looks[line] = (colour, theme.DASHES[min(place, len(theme.DASHES) - 1)])
    return looks


COMPARISON_FIGURES = {"tradeoff": tradeoff, "epsilon": epsilon}
