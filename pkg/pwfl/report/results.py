"""What the reports of several systems take from the tables: final accuracies, mean curves."""

import textwrap

import altair as alt
import numpy as np
import polars as pl

from pwfl.learning.partition import USER_ACCURACIES
from pwfl.report import theme

LABEL = 32  # letters of a label's lines
CURVE_POINTS = 80  # of a scheme, at most
PREFIXES = {"M": 1e6, "k": 1e3, "": 1.0, "m": 1e-3, "µ": 1e-6, "n": 1e-9}  # of units
HOLDERS_WIDTH = 720  # of a figure with a column for each user, in pixels
SQUEEZED = 0.1  # share of an axis below which a scheme asks for a logarithmic one
FINAL = ("accuracy", "loss", *USER_ACCURACIES)  # what a training ends with
TERMS = ("delta", "unit", "neighbouring_relation", "sampling", "observer", "guarantee")
KEPT = ("trained", "no_user_scheduled")  # trainings whose accuracy is a result


def realizations(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """The outcome of each realization and scheme, with its final accuracy, loss and accuracies of users where trained.

    A realization that diverged has none: its last numbers are no result. `training` says why.
    """
    keys, history = ["scheme", "realization"], tables["history"]
    final = [column for column in FINAL if column in history.columns]
    last = history.group_by(keys, maintain_order=True).agg(
        pl.col(final).sort_by("round").last(), training=pl.col("status").cast(pl.String).first()
    )
    return (
        tables["outcome"]
        .join(last, on=keys, how="left", maintain_order="left")
        .with_columns(pl.when(pl.col("training").is_in(KEPT)).then(pl.col(final)))
    )


def summary(each: pl.DataFrame, averaged: list[str], *columns: pl.Expr) -> pl.DataFrame:
    """A row for each scheme: its realizations, other columns, the terms of its guarantee, and means with intervals.

    Parameters
    ----------
    each
        A row for each realization and scheme.
    averaged
        Columns of it whose means are shown.
    columns
        What else is made of the rows of a scheme.
    """
    rows = each.group_by("scheme", maintain_order=True).agg(
        pl.len().alias("realizations"), *columns, pl.col(TERMS).first()
    )
    return rows.join(theme.means(each, ["scheme"], averaged), on="scheme", how="left", maintain_order="left")


def trainings(*status: str) -> list[pl.Expr]:
    """How many trainings ended with each status, by column."""
    return [(pl.col("training") == name).sum().alias(name) for name in status]


def statuses(tables: dict[str, pl.DataFrame], **others: pl.DataFrame) -> pl.DataFrame:
    """How often each status occurs in the stages schedule and noise, and in other frames by their stage."""
    frames = {"schedule": tables["schedule_status"], "noise": tables["noise_status"]} | others
    counts = [
        frame.with_columns(pl.col("status").cast(pl.String))
        .group_by("scheme", "status", maintain_order=True)
        .agg(count=pl.len())
        .select("scheme", pl.lit(stage).alias("stage"), "status", "count")
        for stage, frame in frames.items()
    ]
    return pl.concat(counts).with_columns(share=pl.col("count") / pl.col("count").sum().over("scheme", "stage"))


def accuracy(scenario, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Mean test accuracy over rounds, with its confidence band."""
    frame, title = _curves(tables["history"], "accuracy", "Test accuracy")
    return theme.band(frame, "accuracy", scenario, title, theme.accuracy_axis(), most=1.0, form=".2%")


def accuracy_seconds(scenario, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Mean test accuracy over the seconds on air, with its confidence band; see `spent`."""
    return _over_spent(scenario, tables["history"], "air_seconds_so_far", "time on air", "s")


def accuracy_joules(scenario, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Mean test accuracy over the transmit energy of all users, with its confidence band; see `spent`."""
    return _over_spent(scenario, tables["history"], "transmit_energy_j_so_far", "transmit energy of all users", "J")


def loss(scenario, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Mean test loss over rounds, with its confidence band."""
    frame, title = _curves(tables["history"], "loss", "Test loss")
    return theme.band(frame, "loss", scenario, title, alt.Y(title="Test loss (cross-entropy, nats)"))


def audit(scenario, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Each test of a scheme's code, whether it passed, and the smallest fault that it would have seen."""
    frame = tables["audit"]
    drawn = frame.filter(pl.col("measured").is_not_null()).with_columns(
        subject=pl.format("{}: {}", "scheme", "observer").map_elements(_wrapped, pl.String),
        seen=pl.col("detectable").map_elements("{:.2g}".format, pl.String),
    )
    left_out = frame.join(drawn, on=["scheme", "observer"], how="anti")["scheme"].unique(maintain_order=True)
    heading, axis = "Audit of the code that trains, against what is stated", "Test"
    if drawn.is_empty():
        why = "no test is defined" if frame.is_empty() else "nothing is sent, or nothing is hidden"
        return theme.empty(why, axis, "Scheme and observer", heading)
    subtitle = [
        f"{theme.ranged(drawn['draws'], 'numbers')} a test; false alarms: {frame['false_alarm'][0]:g} a test",
        f"below each mark: the smallest fault that is seen with probability {frame['power'][0]:g}",
    ]
    if len(left_out):
        subtitle.append("not drawn, since nothing is sent or nothing is hidden: " + ", ".join(left_out))
    lines = max(label.count("\n") + 1 for label in drawn["subject"])
    y = alt.Y(
        "subject:N",
        title=None,
        sort=drawn["subject"].unique(maintain_order=True).to_list(),
        axis=alt.Axis(labelLimit=400, labelExpr="split(datum.label, '\\n')", labelOffset=-7.5 * (lines - 1)),
    )
    tests = drawn["test"].unique(maintain_order=True).to_list()
    x = alt.X("test:N", title=None, sort=tests, axis=alt.Axis(labelAngle=-90, labelLimit=300, orient="top"))
    status = {"consistent": ("#0072B2", "circle"), "violated": ("#D55E00", "cross")}
    colours, shapes = zip(*status.values(), strict=True)
    marks = (
        alt.Chart(drawn)
        .mark_point(filled=True, size=110, opacity=1, yOffset=-6)
        .encode(
            x=x,
            y=y,
            color=alt.Color("status:N", title=None, scale=alt.Scale(domain=list(status), range=list(colours))),
            shape=alt.Shape("status:N", title=None, scale=alt.Scale(domain=list(status), range=list(shapes))),
            tooltip=theme.tips(
                {
                    "scheme:N": "Scheme",
                    "observer:N": "Observer",
                    "test:N": axis,
                    "draws:Q": ("Numbers", "~s"),
                    "stated:Q": ("Stated", ".4g"),
                    "measured:Q": ("Measured", ".4g"),
                    "low:Q": ("At least", ".4g"),
                    "high:Q": ("At most", ".4g"),
                    "detectable:Q": ("Fault that is seen", ".2g"),
                }
            ),
        )
    )
    text = alt.Chart(drawn).mark_text(dy=9).encode(x=x, y=y, text="seen:N")
    title = alt.TitleParams(heading, subtitle=subtitle)
    return alt.layer(marks, text).properties(title=title, width=theme.WIDTH, height=alt.Step(max(14 * lines + 10, 36)))


def _wrapped(label: str) -> str:
    return "\n".join(textwrap.wrap(label, LABEL))


def holdings(scenario, tables: dict[str, pl.DataFrame]) -> alt.Chart:
    """How many samples of each class each user of the first realization holds, users by the class they hold most of."""
    frame = tables["holdings"].filter(pl.col("scheme") == pl.col("scheme").first(), realization=0)
    users = frame.group_by("user").agg(
        pl.col("samples").sum().alias("all"), pl.col("label").sort_by("samples", "label").last().alias("most")
    )
    users = users.sort("most", "all", "user").with_row_index("place").select("user", "all", "place")
    frame = frame.join(users, on="user").with_columns(share=pl.col("samples") / pl.col("all"))
    frame = frame.select("place", "label", "samples", "share", "user", "all").sort("place", "label")
    title = alt.TitleParams(
        "Who holds what",
        subtitle=f"realization 0: {theme.counted(len(users), 'user')}, {users['all'].sum()} samples; all schemes alike",
    )
    return (
        alt.Chart(frame)
        .mark_rect()
        .encode(
            x=alt.X("place:O", title="User, by the class held most", axis=alt.Axis(labels=False, ticks=False)),
            y=alt.Y("label:O", title="Class"),
            color=alt.Color(
                "share:Q",
                title="Share of a user's samples",
                scale=alt.Scale(domain=[0, 1], scheme="blues"),
                legend=alt.Legend(format="~%"),
            ),
            tooltip=theme.tips(
                {
                    "user:N": "User",
                    "label:N": "Class",
                    "samples:Q": "Training samples of the class",
                    "share:Q": ("Share of the user's", ".1%"),
                    "all:Q": "Training samples of the user",
                }
            ),
        )
        .properties(title=title, width=HOLDERS_WIDTH, height=alt.Step(22))
    )


def _over_spent(scenario, history: pl.DataFrame, column: str, what: str, unit: str) -> alt.LayerChart:
    """Mean test accuracy over what has been spent, logarithmic where a linear axis would squeeze a scheme."""
    kept, subtitle = _kept(history)
    curves = spent(kept, column)
    if free := [name for name in kept["scheme"].unique(maintain_order=True) if name not in set(curves["scheme"])]:
        subtitle += f"; not drawn, as nothing is sent or it has no unit: {', '.join(free)}"
    title = alt.TitleParams(
        f"Test accuracy over {what}",
        subtitle=[
            subtitle,
            "a training that has ended keeps its accuracy; a dot: all of the scheme have ended",
        ],
    )
    ends = curves.group_by("scheme").agg(pl.col(column).max())[column]
    prefix, factor = next(((p, f) for p, f in PREFIXES.items() if len(ends) and ends.max() >= f), ("", 1.0))
    scale = alt.Scale(zero=True, nice=False)
    if len(ends) and ends.min() < SQUEEZED * ends.max():
        scale = alt.Scale(type="log", nice=False)
        curves = curves.filter(pl.col(column) > 0)
    x = alt.X(
        f"{column}:Q",
        title=f"{what.capitalize()} ({prefix}{unit})",
        scale=scale,
        axis=alt.Axis(format=".6~g", tickCount=8),
    )
    y = theme.accuracy_axis()
    frame = theme.means(curves, ["scheme", column], ["accuracy"]).with_columns(pl.col(column) / factor)
    return theme.band(frame, "accuracy", scenario, title, y, x, steps=True, most=1.0, form=".2%")


def spent(history: pl.DataFrame, column: str) -> pl.DataFrame:
    """The accuracy that each training has come to when a common amount is spent, scheme by scheme.

    Realizations spend differently, so each one's accuracy is a step function of `column`: that of its last
    evaluation, which it also keeps when its training has ended. They are read where one of them was evaluated
    (at CURVE_POINTS of these places, where there are more), from where all were evaluated once, up to where
    the last one of the scheme has ended; nothing is said of what lies beyond. Schemes that spend nothing, or
    nothing that has a unit, have no rows. Columns: scheme, realization, `column`, accuracy.
    """
    frames = []
    evaluated = history.select("scheme", "realization", "round", column, "accuracy").drop_nulls()
    evaluated = evaluated.filter(pl.col(column).is_finite())
    for _, frame in evaluated.group_by("scheme", maintain_order=True):
        start = frame.group_by("realization").agg(pl.col(column).min())[column].max()
        places = frame.filter(pl.col(column) >= start)[column].unique().sort()
        if places[-1] == 0:
            continue
        curve = frame.sort(column, "round")  # of rounds that cost nothing the last one counts
        chosen = np.unique(np.linspace(0, len(places) - 1, min(len(places), CURVE_POINTS)).round().astype(int))
        asked = frame.select("realization").unique(maintain_order=True).join(places[chosen].to_frame(), how="cross")
        read = asked.sort(column).join_asof(curve, on=column, by="realization", check_sortedness=False)
        frames.append(read.select("scheme", "realization", column, "accuracy"))
    return pl.concat(frames) if frames else evaluated.drop("round").clear()


def _kept(history: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """The rows of trainings whose accuracy is a result, and a subtitle that says of how many."""
    is_kept = pl.col("status").cast(pl.String).is_in(KEPT)
    kept, left_out = history.filter(is_kept), history.filter(~is_kept)
    subtitle = theme.band_over(kept["realization"].n_unique())
    if len(left_out):
        subtitle += f"; left out: {left_out.select('scheme', 'realization').n_unique()} that diverged or had no noise"
    return kept, subtitle


def _curves(history: pl.DataFrame, value: str, title: str) -> tuple[pl.DataFrame, alt.TitleParams]:
    """Mean and interval of a column over realizations, round by round, and a title that says of how many."""
    kept, subtitle = _kept(history)
    return theme.means(kept, ["scheme", "round"], [value]), alt.TitleParams(title, subtitle=subtitle)
