"""Draw the study's first figure: the outcome of every sweep point over epsilon, with names at marks, not in a legend.

Colours show schemes (grey: non-private baselines), dashes observers (solid: the one who sees least), shapes scenarios
of single points, and a ring the leading point. If all points have the same epsilon, or none, each point has a row.
"""

import math
from itertools import cycle, pairwise

import altair as alt
import numpy as np
import polars as pl

from pwfl.report import labels, unscheduled
from pwfl.report.catalog import Outcome
from pwfl.report.drawing import (
    DOTS,
    INK,
    LINE,
    OPAQUE,
    SOFT,
    WARM,
    WEAK,
    Scale,
    coloured,
    fitted,
    log_ticks,
    upright,
    words,
)
from pwfl.report.headline import GOOD, STRANGERS, Lead
from pwfl.report.headline import WEAK as WEAK_RATE
from pwfl.report.labels import Label, Part, named
from pwfl.report.points import called, find_chance, find_outcome, finite, lines, shorten_titles
from pwfl.report.sweeps import INDEX
from pwfl.report.words import estimated, is_share, lower, number, ranged, rate, upper

WIDE, HIGH = 530, 452  # pixels of the plot on the page and in files, and on a phone
PHONE_WIDE, PHONE_HIGH = 286, 330
DASHES = [[], [6, 4], [2, 3], [10, 3, 2, 3]]  # of observers, from the one who sees least
KINDS = ("Solid", "dashed", "dotted", "dash-dotted")
SHAPES = ["circle", "triangle-up", "square", "diamond", "cross", "triangle-down"]
ROW, MOST_ROWS = 48, 14
APART = 1.05  # ratio of the largest to the smallest epsilon above which points are drawn over epsilon
TICK_ROOM, CLOSE = 14, 34  # pixels: between the text of ticks; between points that share one scenario's name
MANY, MOST_CURVES, FEW = 15, 8, 4  # single points, curves, and curves on a phone, up to which all are named
NEAR = 0.6  # distance of the chance level from an axis's middle, in ranges of the axis, up to which it is drawn
NO_NOISE = "no noise, so no privacy"


def is_plane(rows: pl.DataFrame) -> bool:
    """Return whether to draw the outcome over epsilon: it is not an epsilon itself, and epsilons differ."""
    epsilon = pl.col("epsilon")
    differ = finite(rows).select(epsilon.max() > APART * epsilon.min()).item()  # null without points
    return not rows["outcome"][0].startswith("epsilon") and bool(differ)


def overview(
    rows: pl.DataFrame,
    lead: Lead,
    size: float = labels.SIZE,
    narrow: bool = False,
    every: pl.DataFrame | None = None,
) -> alt.LayerChart:
    """Draw the points of one system, rows of `points.points`; `size` is the size of text in pixels.

    `every` contains the points of all systems that have a figure with the same axes; None: only `rows`.
    """
    on_axes = rows if every is None else every
    if not is_plane(on_axes) or finite(rows).is_empty():
        return _in_rows(rows, PHONE_WIDE if narrow else WIDE, size)
    return _Plane(rows, lead, size, narrow, on_axes).chart()


def heading(rows: pl.DataFrame) -> str:
    """Return the figure's title."""
    title = "Accuracy" if rows["outcome"][0] == "accuracy" else find_outcome(rows.row(0, named=True)).title
    if is_plane(rows):
        return f"{title} over ε"
    shown = rows.filter(pl.col("mean").is_finite())
    cut = f"the best {MOST_ROWS} of {len(shown)} points" if len(shown) > MOST_ROWS else "every scheme"
    return f"{title} of {cut}"


def caption(rows: pl.DataFrame, lead: Lead) -> str:
    """Return the caption: realizations, meaning of marks, chance level, and unscheduled or diverged realizations."""
    sentences = [f"Means of {ranged(rows['realizations'])} with 95% intervals."]
    if is_plane(rows):
        sentences += ["Ring: the result in the first sentence."] * (lead.kind == GOOD)
        sentences += observed(rows)
    chance = find_chance(rows)
    sentences += [f"Chance: {chance:.1%}."] if chance is not None else []
    for lines_ in (unscheduled.lines(rows), unscheduled.diverged(rows)):
        sentences += [f"{upper(' '.join(lines_))}."] * bool(lines_)
    return " ".join(sentences)


def observers(rows: pl.DataFrame) -> dict[int, str]:
    """Return what the observers of a system's curves see, by their rank: the one who sees least first."""
    curves = [curve for curve, _ in lines(rows.filter(~pl.col("open")))]
    return dict(sorted({curve["rank"][0]: curve["seen"][0] for curve in curves}.items(), reverse=True))


def dashes(rows: pl.DataFrame) -> dict[int, list[int]]:
    """Return the dashes of a system's curves, by their observer's rank: solid for the one who sees least."""
    return dict(zip(observers(rows), cycle(DASHES), strict=False))


def observed(rows: pl.DataFrame) -> list[str]:
    """Return a sentence that explains `dashes`, in a list; empty if all curves have the same observer."""
    seen = list(observers(rows).values())
    if len(seen) < 2:
        return []
    parts = [f"{kind}: {what}" for kind, what in zip(KINDS, seen, strict=False)]
    return [f"{'; '.join(parts)} is seen."]


def draw_curves(
    curves: list[pl.DataFrame], dashed: dict[int, list[int]], x: alt.X, y: alt.Y, width: float
) -> list[alt.Chart]:
    """Draw the lines of curves: a layer for each observer; `dashed` is as from `dashes`."""
    layers, columns = [], [axis.shorthand.removesuffix(":Q") for axis in (x, y)]
    for rank in sorted({curve["rank"][0] for curve in curves}, reverse=True):
        rows = pl.concat(
            curve.select(*columns, "colour", curve=pl.lit(str(k)), place=pl.int_range(pl.len()))
            for k, curve in enumerate(curves)
            if curve["rank"][0] == rank
        )
        line = alt.Chart(rows).mark_line(strokeWidth=width, strokeDash=dashed.get(rank, []))
        shared = {"detail": alt.Detail("curve:N"), "order": alt.Order("place:Q")}
        layers.append(line.encode(x=x, y=y, color=coloured(), **shared))
    return layers


class _Plane:
    """The figure of points over their epsilons, with the positions that its marks and names share."""

    def __init__(self, rows: pl.DataFrame, lead: Lead, size: float, narrow: bool, on_axes: pl.DataFrame) -> None:
        self.lead, self.size, self.narrow = lead, labels.NARROW_SIZE if narrow and size == labels.SIZE else size, narrow
        self.outcome = find_outcome(rows.row(0, named=True))
        self.noisy, self.dashes = finite(rows), dashes(rows)
        self.bare = rows.filter("open", pl.col("mean").is_finite())
        self.wide, self.high = (PHONE_WIDE, PHONE_HIGH) if narrow else (WIDE, HIGH)
        self.x, self.infinite = self._across(on_axes)
        self.y, self.chance = self._up(on_axes)
        every = pl.concat([self.noisy.with_columns(at="epsilon"), self.bare.with_columns(at=pl.lit(self.infinite))])
        every = every.with_columns(pl.col("at").cast(pl.Float64))
        self.rows = every.with_columns(
            tip=pl.Series([self._tip(row) for row in every.iter_rows(named=True)], dtype=pl.String),
            px=self.x.places(every["at"]),
            py=self.y.places(every["mean"]),
            x1=pl.when("open").then("at").otherwise(self.x.cut("epsilon_ci_low", "at")),
            x2=pl.when("open").then("at").otherwise(self.x.cut("epsilon_ci_high", "at")),
            y1=self.y.cut("ci_low", "mean"),
            y2=self.y.cut("ci_high", "mean"),
        )
        self.curves = lines(self.rows.filter(~pl.col("open")))
        joined = {key for curve, _ in self.curves for key in curve.select(INDEX).rows()}
        single = pl.Series("single", [key not in joined for key in self.rows.select(INDEX).rows()])
        several = list(dict.fromkeys(self.rows.filter(single)["sweep_of"]))
        shapes = dict(zip(several, SHAPES * len(several), strict=False)) if len(several) > 1 else {}  # of scenarios
        shape = pl.col("sweep_of").replace_strict(shapes, default="circle", return_dtype=pl.String)
        self.rows = self.rows.with_columns(single, shape=pl.when(single).then(shape).otherwise(pl.lit("circle")))

    def _across(self, rows: pl.DataFrame) -> tuple[Scale, float | None]:
        """Return the axis of epsilon, and the position of non-private baselines on it; None: there are none."""
        ends, noisy = ("epsilon", "epsilon_ci_low", "epsilon_ci_high"), finite(rows)
        known = [value for name in ends for value in noisy[name].drop_nulls()]
        known = [value for value in known if math.isfinite(value) and value > 0]
        low, high = min(known), max(known)
        room = 1.28 if high > 3 * low else 1.9
        low, high = low / room, high * (1.12 if room < 1.5 else room)
        if rows.filter("open", pl.col("mean").is_finite()).is_empty():
            return Scale(low, high, self.wide, log=True), None
        infinite = high * (high / low) ** (0.16 if self.narrow else 0.2)
        return Scale(low, infinite * (high / low) ** 0.06, self.wide, log=True), infinite

    def _up(self, rows: pl.DataFrame) -> tuple[Scale, float | None]:
        """Return the axis of the outcome, and the chance level; None: unknown, or far from the points."""
        drawn = rows.filter(pl.col("mean").is_finite())
        means, ends, chance = drawn["mean"].to_list(), [*drawn["ci_low"], *drawn["ci_high"]], find_chance(rows)
        axis = upright(means, ends, self.high, is_share(self.outcome))
        if chance is None or abs(chance - (axis.low + axis.high) / 2) > NEAR * (axis.high - axis.low):
            return axis, None
        return upright(means, [*ends, chance], self.high, is_share(self.outcome)), chance

    def _tip(self, row: dict) -> str:
        value = f"{called(row)}: {estimated(row['mean'], row['ci_low'], row['ci_high'], self.outcome)}"
        if row["open"]:
            return f"{value}; {NO_NOISE}"
        epsilon, attacked = f"{value}; ε {number(row['epsilon'])}", row["attack_rate"]
        return epsilon if attacked is None else f"{epsilon}: an attacker finds at most {rate(attacked)} of members"

    def _ticks(self) -> dict[float, list[str]]:
        """Return ticks' lines of text: the points' epsilons and attack rates; round epsilons without rates."""
        rated = self.noisy.filter(pl.col("attack_rate").is_not_null()).group_by(pl.col("epsilon").round_sig_figs(3))
        rates = dict(rated.agg(pl.col("attack_rate").max()).sort("epsilon").rows())
        tick_lines: dict[float, list[str]] = {}
        beyond = self.x.high if self.infinite is None else self.infinite
        room = max((labels.width(rate(value), self.size) for value in rates.values()), default=0.0) + TICK_ROOM
        for value in rates or log_ticks(self.x.low, self.x.high, 5 if self.narrow else 6):
            is_apart = all(abs(self.x.at(value) - self.x.at(other)) > room for other in tick_lines)
            if self.x.low <= value < beyond and is_apart:
                tick_lines[value] = [number(value), rate(rates[value])] if rates else [number(value)]
        if self.infinite is not None:
            tick_lines[self.infinite] = ["∞", "all"] if rates else ["∞"]
        return tick_lines

    def _weak(self) -> float | None:
        """Return the pixel from which an attacker finds over half of members, by the points; None: there is none."""
        known = self.noisy.drop_nulls("attack_rate").sort("epsilon")
        weak, strong = known.filter(pl.col("attack_rate") >= WEAK_RATE), known.filter(pl.col("attack_rate") < WEAK_RATE)
        if weak.is_empty():
            return None
        first, last = weak["epsilon"][0], strong["epsilon"][-1] if len(strong) else 0.0
        if last >= first:
            return None
        return (self.x.at(last) + self.x.at(first)) / 2 if last else 0.0

    def chart(self) -> alt.LayerChart:
        """Draw the figure."""
        tick_lines = self._ticks()
        cases = [f"abs(datum.value/{value:.6g}-1)<0.01 ? {texts!r} : " for value, texts in tick_lines.items()]
        label = "".join(cases) + "''"
        rates = any(len(texts) > 1 for texts in tick_lines.values())
        delta = next(iter(self.noisy["delta"].drop_nulls()), 0.0)
        title = [f"Record-level ε (δ = {number(delta)})"]
        if rates and self.narrow:
            title = ["Record-level ε, and below it: members an attacker", "finds who wrongly accuses 1% of non-members"]
        elif rates:
            title = [f"{title[0]}, and below it the most members that an attacker finds"]
            title.append("who wrongly accuses 1% of non-members")
        lined = {"labelLineHeight": self.size + 3, "titleLineHeight": self.size + 3, "labelOverlap": False}
        x = self.x.axis("at", values=list(tick_lines), labelExpr=label, title=title, **lined)
        up = {"values": log_ticks(self.y.low, self.y.high, 8)} if self.y.log else {"tickCount": 8}
        y = self.y.axis("mean", format=self.outcome.format, **up)
        base = alt.Chart(self.rows).encode(x=x, y=y)
        layers, weak = [], self._weak()
        if weak is not None:
            band = alt.Chart(pl.DataFrame({"a": [weak], "b": [float(self.wide)]})).mark_rect(color=WEAK, opacity=1)
            layers.append(band.encode(x=alt.X("a:Q", scale=None, axis=None), x2=alt.X2("b:Q")))
        if self.chance is not None:
            level = alt.Chart(pl.DataFrame({"mean": [self.chance]})).mark_rule(color=LINE, strokeWidth=1)
            layers.append(level.encode(y=y))
        whiskers = base.mark_rule(strokeWidth=1.2, opacity=OPAQUE).encode(color=coloured())
        layers.append(whiskers.encode(y=self.y.axis("y1"), y2=alt.Y2("y2:Q")))
        layers.append(whiskers.encode(x=self.x.axis("x1"), x2=alt.X2("x2:Q")))
        layers += draw_curves([curve for curve, _ in self.curves], self.dashes, x, y, 2.25)
        dots = base.mark_point(**DOTS).encode(color=coloured(), shape=alt.Shape("shape:N", scale=None))
        layers.append(dots.encode(description=alt.Description("tip:N")))
        if len(best := self._leading()):
            ring = alt.Chart(best).mark_point(size=230, strokeWidth=1.8, color=INK, filled=False, aria=False)
            layers.append(ring.encode(x=x, y=y))
        layers += words(self._labels(weak))
        return alt.layer(*layers).properties(width=self.wide, height=self.high)

    def _leading(self) -> pl.DataFrame:
        """Return the leading point's row; empty if none leads, or it is not drawn (epsilon 0 has no logarithm)."""
        point = self.lead.point
        if self.lead.kind != GOOD or point is None:
            return self.rows.clear()
        return self.rows.filter(
            pl.col("target_epsilon").eq_missing(point["target_epsilon"]),
            scenario=point["scenario"],
            scheme=point["scheme"],
        )

    def _labels(self, weak: float | None) -> list[labels.Placed]:
        wanted, size = [], self.size
        for point in self._leading().iter_rows(named=True):
            text = f"{number(point['mean'], self.outcome)} at ε {number(point['epsilon'])}"
            sides = [("center", 0, -21), ("right", -14, -14), ("center", 0, 22), ("left", 14, 12)]
            wanted.append(Label([[[Part(text, bold=True)]]], [(point["px"], point["py"])], INK, size, sides=sides))
        titles = dict(self.rows.select("sweep_of", "title").rows())
        curve_scenarios = dict.fromkeys(curve["sweep_of"][0] for curve, _ in self.curves)
        single_scenarios = dict.fromkeys(self.rows.filter("single")["sweep_of"])
        short = [
            shorten_titles({name: titles[name] for name in group}) for group in (curve_scenarios, single_scenarios)
        ]
        many = len(self.curves) > (FEW if self.narrow else MOST_CURVES)
        for curve, more in self.curves:
            place = [short[0][curve["sweep_of"][0]]] * (len(curve_scenarios) > 1) + [more] * bool(more)
            spots = curve.select("px", "py").rows()
            forms = named(curve["scheme"][0], lower(", ".join(place)))
            forms = named(curve["scheme"][0]) if many and self.narrow else forms[::-1] if self.narrow else forms
            wanted.append(Label(forms, [spots[-1], *spots[:-1]], curve["colour"][0], size, optional=many))
        wanted += self._singles(short[1] if len(single_scenarios) > 1 else {})
        if self.chance is not None:
            spot = (0.0, self.y.at(self.chance))
            text = f"chance {number(self.chance, self.outcome)}"
            sides = [("left", 4, -9), ("left", 4, 10), ("right", self.wide - 4, -9), ("right", self.wide - 4, 10)]
            wanted.append(Label([[[Part(text)]]], [spot], SOFT, size, sides=sides))
        if weak is not None and weak < 0.9 * self.wide:
            short, long = ("attacker finds", "over half"), ("weak privacy: an attacker", "finds over half of members")
            forms = [[[Part(text)] for text in (short if self.narrow else long)]]
            sides = [("left", 8, -20), ("left", 8, 20 - self.high)]
            wanted.append(Label(forms, [(weak, float(self.high))], WARM, size, sides=sides))
        spots, drawn = self.rows.select("px", "py").rows(), []
        for (px, py), row in zip(spots, self.rows.iter_rows(named=True), strict=True):
            drawn.append(((px, self.y.at(row["y1"])), (px, self.y.at(row["y2"]))))
            drawn.append(((self.x.at(row["x1"]), py), (self.x.at(row["x2"]), py)))
        for curve, _ in self.curves:
            drawn += pairwise(curve.select("px", "py").rows())
        beyond = 18 if self.narrow else 52
        return labels.place(wanted, drawn, spots, (-2, -24, self.wide + beyond, self.high))

    def _singles(self, short: dict[str, str]) -> list[Label]:
        """Make names of single points, the scenario's at the highest of neighbours; beyond MANY, one per scheme."""
        wanted, singles = [], self.rows.filter("single")
        if len(singles) > MANY:
            for (scheme,), rows in singles.sort("mean", descending=True).group_by("scheme", maintain_order=True):
                spots = rows.select("px", "py").rows()
                wanted.append(Label(named(scheme), spots, rows["colour"][0], self.size, optional=True))
            return wanted
        for (scenario,), rows in singles.sort("mean", descending=True).group_by("sweep_of", maintain_order=True):
            named_marks, places = set(), []
            for row in rows.iter_rows(named=True):
                if (same := (row["scheme"], round(row["px"] / 60))) in named_marks:
                    continue
                named_marks.add(same)
                again = any(abs(row["px"] - other) < CLOSE for other in places)
                places.append(row["px"])
                forms = named(row["scheme"], "" if self.narrow or again else lower(short.get(scenario, "")))[::-1]
                across = self.x.at(row["x2"]) - self.x.at(row["x1"])
                reach, spot = (across / 2, (self.y.at(row["y1"]) - self.y.at(row["y2"])) / 2), (row["px"], row["py"])
                wanted.append(Label(forms, [spot], row["colour"], self.size, reach, optional=True))
        return wanted


def _in_rows(rows: pl.DataFrame, wide: float, size: float) -> alt.LayerChart:
    """Draw points of equal epsilon, or of none: a row for each, the best first, with its name above its interval."""
    outcome: Outcome = find_outcome(rows.row(0, named=True))
    shown = rows.filter(pl.col("mean").is_finite())
    shown = shown.sort("mean", descending=outcome.better == "more", maintain_order=True).head(MOST_ROWS)
    chance = find_chance(rows)
    values = [*shown["mean"], *shown["ci_low"], *shown["ci_high"], chance]
    x = Scale(*fitted(values, 1 if is_share(outcome) else None), wide)
    names, tips = [], []
    for row in shown.iter_rows(named=True):
        place = f"{row['place']}, " * bool(row["place"])
        names.append(named(row["scheme"], place + number(row["mean"], outcome)))
        tips.append(f"{row['scheme']}: {estimated(row['mean'], row['ci_low'], row['ci_high'], outcome)}")
    long = any(labels.line_width(forms[0][0], size) > wide for forms in names)  # then all have two lines
    count = max(len(shown), 1)
    y = Scale(0, count, (ROW + long * size) * size / labels.SIZE * count)
    low, high = (x.places(shown.select(x.cut(end, "mean")).to_series()) for end in ("ci_low", "ci_high"))
    px, py = x.places(shown["mean"]), y.places(pl.Series(np.arange(len(shown)) + 0.72))
    drawn = shown.select(px=px, py=py, low=low, high=high, tip=pl.Series(tips, dtype=pl.String), colour="colour")
    placed, above = [], -size - 2 - long * size / 2
    for forms, (across, down, colour) in zip(names, drawn.select("px", "py", "colour").rows(), strict=True):
        ends = [("left", -across, above), ("right", wide - across, above)]
        sides = [("center", 0, above), *(ends if across < wide / 2 else reversed(ends))]
        wanted = Label([forms[long]], [(across, down)], colour, size, sides=sides)
        placed += labels.place([wanted], [], [(across, down)], (-5, -99, wide + 5, 1e9))
    base = alt.Chart(drawn).encode(y=alt.Y("py:Q", scale=None, axis=None), color=coloured())
    title = "Test accuracy" if rows["outcome"][0] == "accuracy" else outcome.title
    axis = x.axis("mean", format=outcome.format, tickCount=5, title=title, grid=True)
    layers = [alt.Chart(shown.select("mean")).mark_point(opacity=0, aria=False).encode(x=axis)]
    if chance is not None:
        layers.append(alt.Chart(pl.DataFrame({"mean": [chance]})).mark_rule(color=LINE, strokeWidth=1).encode(x=axis))
        forms, sides = [[[Part(f"chance {chance:.1%}")]]], [("left", 4, -8), ("right", -4, -8)]
        wanted = Label(forms, [(x.at(chance), 0)], SOFT, size, sides=sides)
        placed += labels.place([wanted], [], [], (-2, -99, wide + 2, 99))
    layers.append(base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", scale=None, axis=None), x2=alt.X2("high:Q")))
    dots = base.mark_point(**DOTS).encode(x=alt.X("px:Q", scale=None, axis=None), description=alt.Description("tip:N"))
    return alt.layer(*layers, dots, *words(placed)).properties(width=wide, height=y.length)


def label(rows: pl.DataFrame) -> str:
    """Describe the figure for screen readers."""
    return f"{heading(rows)}: {len(rows)} points. {upper(STRANGERS)}: see the table below."
