"""What the figures of the system `random_orthogonalization` share: readings, axes, curves, dots."""

from collections.abc import Iterable

import altair as alt
import polars as pl

from pwfl.report import theme
from pwfl.report.axes import fitted, leveled
from pwfl.report.words import plural
from pwfl.systems.random_orthogonalization.tables import ANTENNAS, UPDATE, USER
from pwfl.tables.contract import limits

SYSTEM = "random_orthogonalization"
DOTS = 100  # realizations shown one by one
READINGS = {
    "epsilon_printed": "(6) as printed, one round",
    "epsilon_modulus": "(6), noise given the channels, one round",
    "epsilon_sensitivity": "(a) true sensitivity, one round",
    "epsilon_gaussian": "(b) exact, one round",
    "epsilon": "(c) exact, all rounds",
    "epsilon_antennas": "(d) all antennas, exact, one round",
    "epsilon_antennas_rounds": "(d) all antennas, exact, all rounds",
}
OBSERVERS = ("epsilon", "epsilon_antennas_rounds")  # epsilons of the scenario's observer, and of all antennas
OBSERVED = {UPDATE: "the server's updates", ANTENNAS: "all antennas", USER: "every user's updates"}


def observers_of(scenarios: Iterable) -> dict[str, str]:
    """Who observes, by the column of its epsilon, in some scenarios."""
    kinds = sorted({scenario.privacy.observer for scenario in scenarios})
    own, antennas = " or ".join(OBSERVED[kind] for kind in kinds), OBSERVED[ANTENNAS]
    found = {} if own == antennas else {OBSERVERS[0]: f"Observer of {own}"}
    return found | {OBSERVERS[1]: f"Observer of {antennas}"}


def trained(history: pl.DataFrame) -> pl.DataFrame:
    """The history of trainings that did not diverge."""
    return history.filter(pl.col("status").cast(pl.String) == "trained")


def accuracies(history: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """Means of the test accuracy and their intervals from round 1 on; the start would stretch the axis."""
    return theme.means(history.filter(pl.col("round") > 0), [*by, "round"], ["accuracy"], SYSTEM)


def interval_of(frame: pl.DataFrame) -> str:
    """What curves and bands are, for a subtitle."""
    return theme.band_over(frame["realization"].n_unique())


def dots_of(frame: pl.DataFrame) -> str:
    """What dots and large marks are, for a subtitle."""
    count = frame["realization"].n_unique()
    return f"dots: the first {plural(min(count, DOTS))}; large marks: means over {count}"


def rounds_of(scenario) -> str:
    """How many rounds there are, and for how long channels stay, for a subtitle."""
    coherence = scenario.radio.coherence_rounds
    every = {None: "one channel", 1: "channels redrawn each round"}
    return f"{scenario.training.rounds} rounds, {every.get(coherence, f'channels redrawn every {coherence} rounds')}"


def epsilon_axis(scenario, channel=alt.Y, **scale):
    """An axis of epsilon, without its field; on a logarithmic scale ticks are round numbers."""
    # With room for labels beside each y axis, panels are equally wide.
    axis = alt.Axis(format=".6~g", minExtent=36) if channel is alt.Y else alt.Axis(format=".6~g", tickCount=7)
    if scale.get("type") == "log":
        axis.values = [digit * 10.0**power for power in range(-3, 7) for digit in (1, 2, 5)]
    title = f"Epsilon of a record or a user at delta = {scenario.privacy.delta:g}"
    return channel(title=title, axis=axis, scale=alt.Scale(**scale))


def reading_means(table: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """Finite means of each reading over realizations: reading, users, mean_mean, mean_ci_low, mean_ci_high."""
    index = ["scheme", "realization", "users", *({"scenario"} & set(by))]
    long = table.unpivot(list(READINGS), index=index, variable_name="reading", value_name="mean")
    long = long.with_columns(pl.col("reading").replace(READINGS))
    frame = theme.means(long, [*by, "reading", "users"], ["mean"], SYSTEM)
    return theme.within(frame.filter(pl.col("mean_mean").is_finite()), "mean", *limits(SYSTEM, "epsilon"))


def curves(x: str, title: str, value: str, y: alt.Y, colour: alt.Color, chosen, tips: dict[str, str]) -> alt.LayerChart:
    """Mean lines with confidence bands over `x`, from columns *_mean, *_ci_low, *_ci_high; data come later."""
    base = alt.Chart().encode(x=alt.X(x, title=title), color=colour)
    area, mean = theme.mean_and_band(base, value, y, chosen)
    tooltip = [*theme.tips(tips | {x: title}), *theme.interval_tips(value, y["title"])]
    line = base.mark_line(point=alt.OverlayMarkDef(size=30))
    line = line.encode(y=mean, opacity=theme.faded(chosen), tooltip=tooltip)
    return (area + line).add_params(chosen)


def scatter(frame, epsilon: str, by: list[str], x: alt.X, colour: alt.Color, chosen, levels) -> alt.LayerChart:
    """Final accuracy against epsilon: a dot for each realization, a large mark for the means; `chance.levels`."""
    mean = frame.group_by(by, maintain_order=True).agg(pl.col("accuracy", epsilon).mean())
    each = frame.filter(pl.col("realization") < DOTS).select(*by, "realization", "accuracy", epsilon)
    data = pl.concat([each, mean.with_columns(realization=pl.lit(None, pl.Int64))], how="diagonal")
    x = fitted(x, data[epsilon])
    x.shorthand = f"{epsilon}:Q"
    y = alt.Y("accuracy:Q", title="Final test accuracy", axis=alt.Axis(format=".1%"))
    y, lines = leveled(y, levels, data["accuracy"], most=1)
    tips = {f"{name}:N": name.capitalize() for name in by}
    tips = {**tips, f"{epsilon}:Q": ("Epsilon", ".2f"), "accuracy:Q": ("Final test accuracy", ".2%")}
    base = alt.Chart().encode(x=x, y=y, color=colour)
    dots = base.transform_filter("isValid(datum.realization)").mark_point(filled=True, size=40)
    dots = dots.encode(
        opacity=theme.faded(chosen, 0.45, 0.04), tooltip=theme.tips({"realization:N": "Realization"} | tips)
    )
    large = base.transform_filter("!isValid(datum.realization)")
    large = large.mark_point(filled=True, size=200, stroke="black", strokeWidth=1)
    large = large.encode(opacity=theme.faded(chosen), tooltip=theme.tips(tips))
    return alt.layer(*lines, dots, large, data=data).add_params(chosen)


def scheme_panels(schemes: list) -> alt.Column:
    """A panel for each scheme, in the schemes' order."""
    return alt.Column("scheme:N", title=None, sort=[scheme.name for scheme in schemes])
