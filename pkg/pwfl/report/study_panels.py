"""Draw the panels of a study: outcomes over a swept parameter, accuracy over rounds, and attack rate over epsilon.

Names are at the curves' right ends. Colours and dashes are those of `overview`.
"""

from typing import NamedTuple

import altair as alt
import numpy as np
import polars as pl

from pwfl.privacy.accountant import FALSE_POSITIVES
from pwfl.privacy.gaussian import attack_rate, exact_epsilon
from pwfl.report import labels, parameters, theme
from pwfl.report.catalog import Outcome
from pwfl.report.drawing import (
    INK,
    LINE,
    OPAQUE,
    SOFT,
    Scale,
    coloured,
    log_ticks,
    named_ends,
    shifted,
    upright,
    whole_ticks,
    words,
)
from pwfl.report.labels import Label, Part
from pwfl.report.measures import FAILED
from pwfl.report.overview import dashes, draw_curves
from pwfl.report.points import called, find_chance, finite, lines, place_of_sweep, ranked
from pwfl.report.sweeps import AXIS, INDEX, list_outcomes
from pwfl.report.words import estimated, is_share, number, rate, upper

PANEL, WIDER = 286, 356  # pixels of a panel with its labels: four, or three, in a row; one on a phone
HIGH, LEFT = 180, 46  # pixels of a panel's plot, and of the labels of its axis
LEAST_WIDE = 110
ACROSS = 3  # panels in a row of a file; number of panels over rounds up to which they are WIDER
MOVED = 0.01  # relative change of an outcome above which a parameter has a panel of it
LOG = 3.0  # ratio of values from which an axis is logarithmic
CURVE_POINTS = 20  # points of a curve that have tooltips, at most
MOST_PANELS = 15  # five rows; further panels are counted, not drawn
MERGED = 1.12  # ratio of epsilons up to which they have one dot
COLUMNS = ("accuracy", "epsilon", "epsilon_user", "transmit_energy_j")  # outcomes with panels, beside the main one


class Panel(NamedTuple):
    """A panel: its title, the swept value that it is for, or "", and its chart."""

    title: str
    value: str
    chart: alt.LayerChart


def over_parameter(
    rows: pl.DataFrame, table: pl.DataFrame, wide: float = WIDER, size: float = labels.SIZE
) -> tuple[list[Panel], int]:
    """Draw a panel for each outcome that a system's swept parameter changes, and for each value of a second parameter.

    `rows` are points of one system, `table` is the study's table `outcomes`. Also return the number of panels beyond
    MOST_PANELS, which are not drawn.
    """
    keys = [key for key in ranked(rows) if rows[key].dtype.is_numeric()]
    if not keys:
        return [], 0
    system, key = rows["system"][0], keys[0]
    first = rows["outcome"][0]
    known = list_outcomes(system)
    swept = rows.filter(pl.col(key).is_not_null(), pl.col("scenario") != pl.col("sweep_of"), ~pl.col("bare"))
    dashed, panels, more = dashes(rows), [], 0
    for column in dict.fromkeys((first, *COLUMNS)):
        values = table.filter(outcome=column).select(*INDEX, at="mean", at_low="ci_low", at_high="ci_high")
        drawn = swept.join(values, on=INDEX, how="inner", nulls_equal=True, maintain_order="left")
        drawn = drawn.filter(pl.col("at").is_finite())
        if not (column == "epsilon" and key == AXIS) and _is_moved(drawn, key):
            other = keys[1] if len(keys) > 1 else pl.lit("").alias("all")
            for (second,), part in drawn.group_by(other, maintain_order=True):
                if len(panels) == MOST_PANELS:
                    more += 1
                    continue
                value = f"{upper(parameters.title(system, keys[1]))} = {second:g}" if len(keys) > 1 else ""
                chart = _panel(part, key, known[column], dashed, wide, size)
                panels.append(Panel(known[column].title, value, chart))
    return panels, more


def _is_moved(rows: pl.DataFrame, key: str) -> bool:
    """Return whether the values of any curve differ by more than MOVED, relative to their maximum."""
    if rows.is_empty() or rows[key].n_unique() < 2:
        return False
    ends = rows.group_by("sweep_of", "scheme").agg(low=pl.col("at").min(), high=pl.col("at").max())
    return bool(((ends["high"] - ends["low"]) > MOVED * ends["high"].abs()).any())


def _panel(
    rows: pl.DataFrame, key: str, outcome: Outcome, dashed: dict[int, list[int]], wide: float, size: float
) -> alt.LayerChart:
    rows = rows.with_columns(v=pl.col(key).cast(pl.Float64))
    share, curves = is_share(outcome), [curve for curve, _ in lines(rows)] or [rows]
    y = upright(rows["at"].to_list(), [*rows["at_low"], *rows["at_high"]], HIGH, share)
    last: dict[tuple[str, str], dict] = {}  # a scheme's curves of equal ends have one name
    for curve in curves:
        row = curve.row(-1, named=True)
        last.setdefault((row["scheme"], f"{row['at']:.3g}"), row)
    alike = len({scheme for scheme, _ in last}) == len(last)
    several = len({row["sweep_of"] for row in last.values()}) > 1

    def ends(with_places: bool) -> list[tuple[str, float, str]]:
        names = []
        for row in last.values():
            place = f", {row['place'].split(', ')[0]}" if with_places else ""
            names.append((row["scheme"] + place, y.at(row["at"]), row["colour"]))
        return list(dict.fromkeys(names))

    placed, names = named_ends(ends(several and not alike), HIGH, size)
    if names > wide - LEFT - LEAST_WIDE - 16:  # too long to leave room for curves
        placed, names = named_ends(ends(False), HIGH, size)
    plot = max(wide - LEFT - names - 16, LEAST_WIDE)
    at = sorted(rows["v"].unique())
    log_x = at[0] > 0 and at[-1] >= LOG * at[0]
    room = 0.06 * (at[-1] - at[0])
    x = Scale(at[0] / 1.15, at[-1] * 1.15, plot, log=True) if log_x else Scale(at[0] - room, at[-1] + room, plot)
    shown = rows.with_columns(
        low=y.cut("at_low", "at"),
        high=y.cut("at_high", "at"),
        tip=pl.Series([_tip(row, outcome) for row in rows.iter_rows(named=True)], dtype=pl.String),
    ).select("v", "at", "low", "high", "tip", "colour", "sweep_of", "scheme")
    values = at if len(at) <= 6 else log_ticks(x.low, x.high, 5) if log_x else None
    ticks = {"values": values} if values else {"tickCount": 5}
    across = x.axis("v", format="~g", title=parameters.title(rows["system"][0], key), **ticks)
    up = {"values": log_ticks(y.low, y.high)} if y.log else {"tickCount": 5}
    least = y.low if y.log else y.high / 10
    form = outcome.format if share else "~g" if least >= 0.001 and y.high < 1e4 else "~s"  # as wide as LEFT at most
    up_axis = y.axis("at", format=form, **up)
    base, layers = alt.Chart(shown).encode(x=across), draw_curves(curves, dashed, across, up_axis, 2)
    layers.append(
        base.mark_rule(strokeWidth=1.2, opacity=OPAQUE).encode(y=y.axis("low"), y2=alt.Y2("high:Q"), color=coloured())
    )
    dots = base.mark_point(filled=True, opacity=1, size=45)
    layers.append(dots.encode(y=up_axis, color=coloured(), description=alt.Description("tip:N")))
    return alt.layer(*layers, *words(shifted(placed, plot + 10))).properties(width=plot, height=HIGH)


def _tip(row: dict, outcome: Outcome) -> str:
    return f"{called(row)}: {estimated(row['at'], row['at_low'], row['at_high'], outcome)}"


def over_rounds(
    study: dict[str, dict], rows: pl.DataFrame, lead: dict | None, wide: float = PANEL, size: float = labels.SIZE
) -> tuple[list[Panel], int]:
    """Draw a panel of accuracy over rounds for each scenario that has any, with shared axes.

    A sweep has one panel: that of the leading point's value, or else of the middle scenario. Also return the number of
    panels beyond MOST_PANELS, which are not drawn.
    """
    candidates = {}
    for (scenario,), points in rows.group_by("sweep_of", maintain_order=True):
        names = list(dict.fromkeys(points["scenario"]))
        same = [name for name in names if lead and points.filter(scenario=name)["value"][0] == lead["value"]]
        name = (same or names[len(names) // 2 :])[0]
        if (curves := _curves(study[name], rows["system"][0])) is not None:
            candidates[scenario] = (name, curves)
    shown = dict(list(candidates.items())[:MOST_PANELS])
    if not shown:
        return [], 0
    colours = dict(rows.select("scheme", "colour").rows())
    chance = find_chance(rows)
    every = pl.concat(curves.drop("scheme") for _, curves in shown.values())
    top = every.select(pl.max_horizontal("accuracy_ci_high", "accuracy_mean", pl.lit(chance or 0.0)).max()).item()
    top = next((limit for limit in (0.1, 0.2, 0.4, 0.6, 0.8) if top <= limit), 1.0)
    y = Scale(0, top, HIGH, upright=True)
    texts, panels = {}, []
    for scenario, (_, curves) in shown.items():
        final = curves.sort("round").group_by("scheme", maintain_order=True).last()
        texts[scenario] = named_ends(
            [(s, y.at(m), colours.get(s, INK)) for s, m in final.select("scheme", "accuracy_mean").rows()],
            y.length,
            size,
        )
    names = max(names for _, names in texts.values())
    wide = max(wide, WIDER) if len(shown) <= ACROSS else wide
    plot = max(wide - LEFT - names - 12, LEAST_WIDE)
    x = Scale(0, max(every.select(pl.col("round").max()).item(), 1), plot)
    for scenario, (name, curves) in shown.items():
        points = rows.filter(sweep_of=scenario, scenario=name)
        part = _rounds(curves, colours, x, y, chance)
        chart = alt.layer(*part, *words(shifted(texts[scenario][0], plot + 6))).properties(width=plot, height=HIGH)
        first = points.row(0, named=True)
        panels.append(Panel(upper(place_of_sweep(first) or first["title"]), first["value"], chart))
    return panels, len(candidates) - len(shown)


def _curves(content: dict, system: str) -> pl.DataFrame | None:
    """Compute mean accuracies over rounds of a scenario's schemes; None if there are none."""
    history = content.get("history")
    if history is None or "accuracy" not in history.columns:
        return None
    kept = history.drop_nulls("accuracy").filter(~pl.col("status").cast(pl.String).is_in(FAILED))
    kept = kept.unique(["scheme", "realization", "round"], keep="first", maintain_order=True)
    return theme.means(kept, ["scheme", "round"], ["accuracy"], system) if len(kept) else None


def _rounds(curves: pl.DataFrame, colours: dict[str, str], x: Scale, y: Scale, chance: float | None) -> list[alt.Chart]:
    frame = curves.with_columns(
        pl.col("accuracy_ci_low", "accuracy_ci_high").clip(y.low, y.high),
        colour=pl.col("scheme").replace_strict(colours, default=INK, return_dtype=pl.String),
        tip=pl.Series(
            [f"{s}, round {k}: {m:.1%}" for s, k, m in curves.select("scheme", "round", "accuracy_mean").rows()],
            dtype=pl.String,
        ),
    )
    across = x.axis("round", values=whole_ticks(x.high), title="round", format="d")
    up = y.axis("accuracy_mean", values=[k * y.high / 4 for k in range(5)], format="~%")
    base = alt.Chart(frame).encode(x=across, color=coloured(), detail=alt.Detail("scheme:N"))
    layers = []
    if chance is not None:
        level = alt.Chart(pl.DataFrame({"accuracy_mean": [chance]})).mark_rule(color=LINE)
        layers.append(level.encode(y=up))
    layers.append(base.mark_area(opacity=0.16).encode(y=y.axis("accuracy_ci_low"), y2=alt.Y2("accuracy_ci_high:Q")))
    layers.append(base.mark_line(strokeWidth=2).encode(y=up))
    rounds = frame["round"].unique().sort()
    kept = rounds[theme.thinned(len(rounds), CURVE_POINTS)]
    dots = alt.Chart(frame.filter(pl.col("round").is_in(kept.to_list()))).mark_point(filled=True, size=60, opacity=0)
    return [*layers, dots.encode(x=across, y=up, description=alt.Description("tip:N"))]


def attack(rows: pl.DataFrame) -> alt.LayerChart | None:
    """Draw attack rates of points over epsilon, and those of Gaussian mechanisms at their delta; None if unknown."""
    known = finite(rows).drop_nulls("attack_rate").sort("epsilon")
    if known.is_empty():
        return None
    kept, rates = [], known.select("epsilon", "attack_rate").rows()
    for epsilon, attacked in rates:
        if not kept or epsilon > MERGED * kept[-1][0] or abs(attacked - kept[-1][1]) > 0.1:
            kept.append((epsilon, attacked))
    x = Scale(min(0.25, kept[0][0] / 1.5), max(32, kept[-1][0] * 1.3), 290, log=True)
    y = Scale(0, 1, HIGH, upright=True)
    across = x.axis("epsilon", values=log_ticks(x.low, x.high), format="~g", title="record-level ε")
    up = y.axis("rate", values=[0, 0.25, 0.5, 0.75, 1], format="~%")
    layers = []
    delta = known["delta"].drop_nulls().max()
    if delta:
        rho = np.geomspace(1e-4, 400, 200)
        curve = pl.DataFrame({"epsilon": exact_epsilon(rho, delta), "rate": attack_rate(rho, FALSE_POSITIVES)})
        curve = curve.filter(pl.col("epsilon").is_between(x.low, x.high))
        layers.append(alt.Chart(curve).mark_line(color=LINE, strokeWidth=2).encode(x=across, y=up))
    tips = [f"ε {number(e)}: an attacker finds at most {rate(r)} of members" for e, r in kept]
    dots = pl.DataFrame(kept, schema=("epsilon", "rate"), orient="row").with_columns(tip=pl.Series(tips))
    layers.append(
        alt.Chart(dots)
        .mark_point(filled=True, size=60, opacity=1, color=INK)
        .encode(x=across, y=up, description=alt.Description("tip:N"))
    )
    spots = [(x.at(e), y.at(r)) for e, r in kept]
    wanted = [Label([[[Part(rate(r))]]], [spot], SOFT, optional=True) for spot, (_, r) in zip(spots, kept, strict=True)]
    placed = labels.place(wanted, [], spots, (0, -10, 305, HIGH))
    return alt.layer(*layers, *words(placed)).properties(width=290, height=HIGH)
