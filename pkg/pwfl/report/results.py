"""Make the tables and figures that the reports of several systems share: final accuracies, mean curves, audits."""

import re
import textwrap
from functools import partial

import altair as alt
import polars as pl

from pwfl.learning.partition import USER_ACCURACIES
from pwfl.privacy.composition import Loss
from pwfl.report import chance, theme, unscheduled
from pwfl.report.axes import fitted, leveled, pixels
from pwfl.report.columns import TERMS, terms
from pwfl.report.drawing import BAD, INK, RULE
from pwfl.report.words import plural
from pwfl.tables.arrays import ends_of

LABEL = 24  # characters in a line of an audit test's texts, at most
LINE = 68  # characters in a line of an audit's subtitle, at most
TWO_LINES = 38  # pixels of an audit test's row, which has room for two lines of text
FOUND = 60  # pixels: width of the column of measured values
BEYOND = 1.3  # ends of that column, where values farther off are drawn, too; the expected range is -1 to 1
DOTS = 100  # realizations with a dot each, at most
CURVE_POINTS = 80  # points of a scheme's curve, at most
PREFIXES = {"M": 1e6, "k": 1e3, "": 1.0, "m": 1e-3, "µ": 1e-6, "n": 1e-9}  # of units
FEW_LABELS = 20  # number of classes up to which their rows are high
HOLDERS_WIDTH = 720  # of a figure with a column for each user, in pixels
SQUEEZED = 0.1  # share of an axis below which a scheme requires a logarithmic axis
FINAL = ("accuracy", "loss", *USER_ACCURACIES)  # final results of a training run
LEARNT = ("accuracy", "batch_loss", "loss")  # columns with further means, without realizations with no user scheduled
KEPT = ("trained", "no_user_scheduled")  # statuses of training runs with valid accuracies


def realizations(tables: dict[str, pl.DataFrame], nobody: pl.Expr | None = None) -> pl.DataFrame:
    """Join the outcome of each realization and scheme with its FINAL numbers, if training has a result.

    A realization that diverged has none; the column `training` has the status. `no_user_scheduled` is whether it has no
    user scheduled: by the expression `nobody` of the outcome's columns, or by the status.
    """
    keys, history = ["scheme", "realization"], tables["history"]
    final = [column for column in FINAL if column in history.columns]
    last = history.group_by(keys, maintain_order=True).agg(
        pl.col(final).sort_by("round").last(),
        training=pl.col("status").cast(pl.String).first(),
        processor=pl.col("processor").first(),
    )
    rows = tables["outcome"].join(last, on=keys, how="left", maintain_order="left")
    nobody = pl.col("training").is_in(unscheduled.STATUSES) if nobody is None else nobody
    return rows.with_columns(
        pl.when(pl.col("training").is_in(KEPT)).then(pl.col(final)), nobody.alias(unscheduled.COLUMN)
    )


def summary(scenario, table: pl.DataFrame, averaged: list[str], *columns: pl.Expr) -> pl.DataFrame:
    """Make a row for each scheme: number of realizations, other columns, terms of its guarantee, means with intervals.

    `table` has a row for each realization and scheme, `averaged` are columns of it; see `theme.means`. LEARNT columns
    also have means over only the realizations with a user scheduled, `..._if_scheduled_mean`, and the number of others
    in the mean over all, `..._no_user_scheduled`.
    """
    table = unscheduled.known(table)
    schemes = table.group_by("scheme", maintain_order=True)
    processors = (
        [pl.col("processor").drop_nulls().unique().sort().str.join(", ")] if "processor" in table.columns else []
    )
    rows = schemes.agg(pl.len().alias("realizations"), *columns, *processors)
    learnt = [column for column in LEARNT if column in averaged]
    scheduled = [_if_scheduled(table, learnt, scenario.system)] if learnt else []
    lacking = [term for term in TERMS if term not in rows.columns]
    for more in (terms(table, lacking), theme.means(table, ["scheme"], averaged, scenario.system), *scheduled):
        rows = rows.join(more, on="scheme", how="left", maintain_order="left")
    return rows


def summarized(
    scenario, tables: dict[str, pl.DataFrame], averaged: list[str], table: pl.DataFrame | None = None
) -> dict[str, pl.DataFrame]:
    """Make the tables of a report with its stages' tables unchanged, and a `summary` of the columns `averaged`.

    `table` has a row for each realization and scheme; None: that of `realizations`.
    """
    table = realizations(tables) if table is None else table
    return {
        "summary": summary(scenario, table, averaged),
        "realizations": table,
        "history": tables["history"],
        "leakage": tables["leakage"],
        "statuses": statuses(tables),
    }


def gaussian_losses(_scenario, table: pl.DataFrame) -> list[Loss]:
    """Return each training run's loss of its most exposed record, if all rounds are Gaussian mechanisms."""
    return [Loss(rho=rho) for rho in table["rho_server"]]


def _if_scheduled(table: pl.DataFrame, columns: list[str], system: str) -> pl.DataFrame:
    """Compute `theme.means` by scheme over realizations with a user scheduled, and count the others with values."""
    kept = table.with_columns(pl.when(~pl.col(unscheduled.COLUMN)).then(pl.col(columns)))
    means = theme.means(kept, ["scheme"], columns, system)
    means = means.rename(lambda name: re.sub("_(mean|ci_low|ci_high)$", r"_if_scheduled_\1", name))
    others = {f"{column}_{unscheduled.COLUMN}": unscheduled.count(column) for column in columns}
    counts = table.group_by("scheme", maintain_order=True).agg(**others)
    return counts.join(means, on="scheme", maintain_order="left")


def trainings(*status: str) -> list[pl.Expr]:
    """Return an expression for each status, which counts the training runs with that status."""
    return [(pl.col("training") == name).sum().alias(name) for name in status]


def statuses(tables: dict[str, pl.DataFrame], **others: pl.DataFrame) -> pl.DataFrame:
    """Count each status by scheme in the stages schedule and noise, and in `others`, frames by stage; with shares."""
    frames = {"schedule": tables["schedule_status"], "noise": tables["noise_status"]} | others
    status = pl.col("status").cast(pl.String)
    rows = pl.concat(frame.select("scheme", pl.lit(stage).alias("stage"), status) for stage, frame in frames.items())
    counts = rows.group_by("stage", "scheme", "status", maintain_order=True).agg(count=pl.len())
    return counts.select("scheme", "stage", "status", "count").with_columns(
        share=pl.col("count") / pl.col("count").sum().over("scheme", "stage")
    )


def accuracy(scenario, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Draw the mean test accuracy over rounds, with its confidence band."""
    history = tables["history"]
    levels = chance.scenario_levels(scenario, history)
    y = theme.accuracy_axis()
    return _over_rounds(scenario, history, "accuracy", "Test accuracy", y, levels=levels)


def loss(scenario, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Draw the mean test loss over rounds, with its confidence band."""
    y = alt.Y(title="Test loss (cross-entropy, nats)")
    return _over_rounds(scenario, tables["history"], "loss", "Test loss", y)


def tradeoff(
    scenario, history: pl.DataFrame, table: pl.DataFrame, axis: str, heading: str, *subtitle: str
) -> alt.LayerChart:
    """Draw final accuracy over epsilon: dots for realizations, a large one for the mean; lines for baselines.

    `table` has a row for each realization and scheme, `axis` is the title of epsilon's axis, `subtitle` are the
    subtitle's first lines.
    """
    epsilon = pl.col("epsilon").round_sig_figs(6)  # equal targets differ in later digits
    frame = table.select(pl.col("scheme").cast(pl.String), "realization", "accuracy", epsilon).drop_nulls()
    mean = frame.group_by("scheme", maintain_order=True).agg(pl.col("accuracy", "epsilon").mean())
    private = pl.col("epsilon").is_finite()
    mean, bare = mean.filter(private), mean.filter(~private)
    count, shown = frame["realization"].n_unique(), frame.filter(private & (pl.col("realization") < DOTS))
    dots = f"dots: the first {plural(min(count, DOTS))}; large: means over {count}"
    dots += "; lines: means without noise, no privacy" if len(bare) else ""
    lost = unscheduled.lines(unscheduled.counted(unscheduled.known(table.drop_nulls("accuracy"))), unscheduled.LEFT_OUT)
    colours = theme.scenario_colours(scenario)
    x = fitted(alt.X("epsilon:Q", title=axis, axis=alt.Axis(format=".6~g")), shown["epsilon"], mean["epsilon"])
    levels = chance.scenario_levels(scenario, history)
    y = theme.accuracy_axis("accuracy:Q", "Final test accuracy")
    y = leveled(y, levels, *(part["accuracy"] for part in (shown, mean, bare)), most=1)
    rules, named = theme.level_lines(y, levels)
    shared = {"y": y, "color": theme.coloured_by(colours)}
    dot = alt.Chart(shown).mark_point(filled=True, size=45, opacity=0.55)
    large = alt.Chart(mean).mark_point(size=260, filled=True, stroke=INK, strokeWidth=1, opacity=1)
    across = alt.Chart(bare).mark_rule(strokeWidth=2.5)
    layers = [across.encode(**shared), dot.encode(x=x, **shared), large.encode(x=x, **shared)]
    places = pixels(y, bare["accuracy"], theme.HEIGHT)
    named += [(name, place, colours[name]) for name, place in zip(bare["scheme"], places, strict=True)]
    spots = zip(pixels(x, mean["epsilon"], theme.WIDTH), pixels(y, mean["accuracy"], theme.HEIGHT), strict=True)
    marks = {name: [spot] for name, spot in zip(mean["scheme"], spots, strict=True)}
    title = alt.TitleParams(heading, subtitle=[*subtitle, dots, *lost])
    return theme.sized(alt.layer(*layers, *rules, *theme.name_marks(marks, colours), *theme.name_ends(named)), title)


def audit(scenario, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Draw a row for each audit test: its name, measured values in the expected range, the detectable error."""
    frame = tables["audit"]
    off = pl.col("measured") - pl.col("stated")
    room = (
        pl.when(off > 0)
        .then(pl.col("expected_max") - pl.col("stated"))
        .otherwise(pl.col("stated") - pl.col("expected_min"))
    )
    drawn = frame.filter(pl.col("measured").is_not_null()).with_columns(
        place=pl.when(off == 0).then(0.0).otherwise(off / room).clip(-BEYOND, BEYOND),
        found=pl.format(
            "{}: {}, not {} to {}", "scheme", *(_short(name) for name in ("measured", "expected_min", "expected_max"))
        ),
    )
    left_out = frame.filter(pl.col("measured").is_null()).unique("scheme", maintain_order=True)
    heading = "Audit of the code that trains, against what is stated"
    untested = [f"{scheme} ({reason})" for scheme, reason in left_out.select("scheme", "reason").rows()]
    if drawn.is_empty():
        return theme.empty("not tested: " + ", ".join(untested) if untested else "no test is defined", heading)
    failed = pl.col("status") == "failed"
    message = pl.coalesce(pl.col("found").filter(failed).first(), pl.col("detects").sort_by("detectable").last())
    lines = drawn.group_by("test", maintain_order=True).agg(said=message, failed=failed.any())
    lines = lines.with_columns(said=pl.col("said").map_elements(_wrapped, pl.String))
    subtitle = [
        "schemes: " + ", ".join(drawn["scheme"].unique(maintain_order=True)),
        "dots: what was found, red crosses: what failed; grey: expected, what is stated in its middle",
        f"right: the smallest error that is seen with probability {frame['power'][0]:g}",
        f"{drawn['test'].n_unique()} tests; false alarms: {frame['false_alarm'][0]:g} a scheme",
    ]
    if untested:
        subtitle.append("not tested: " + ", ".join(untested))
    subtitle = theme.wrapped(subtitle, LINE)
    drawn, lines = (part.with_columns(line=pl.col("test").map_elements(_wrapped, pl.String)) for part in (drawn, lines))
    several = {"condition": {"test": "indexof(datum.label, '\\n') >= 0", "value": "bottom"}, "value": "middle"}
    labels = alt.Axis(labelExpr="split(datum.label, '\\n')", ticks=False, domain=False)
    labels.labelBaseline = several  # centred in the row, with several lines, too
    y = alt.Y("line:N", title=None, sort=lines["line"].to_list(), axis=labels)
    lines = lines.with_columns(least=-1.0, most=1.0, beside=BEYOND)
    allowed = alt.Chart(lines).mark_bar(color=RULE).encode(x=_placed("least"), x2=alt.X2("most:Q"), y=y)
    marks = [
        alt.Chart(drawn.filter(status))
        .mark_point(filled=True, size=60, opacity=1, shape=shape, color=colour)
        .encode(x=_placed("place"), y=y)
        for status, shape, colour in ((~failed, "circle", INK), (failed, "cross", BAD))
    ]
    two = pl.col("said").str.contains("\n")
    colour = alt.when("datum.failed").then(alt.value(BAD)).otherwise(alt.value(INK))
    texts = [
        alt.Chart(rows)
        .mark_text(align="left", baseline=baseline, lineBreak="\n", dx=8)
        .encode(x=_placed("beside"), y=y, text=alt.Text("said:N"), color=colour)
        for baseline, rows in (("middle", lines.filter(~two)), ("bottom", lines.filter(two)))
        if len(rows)
    ]
    title = alt.TitleParams(heading, subtitle=subtitle)
    return alt.layer(allowed, *marks, *texts).properties(title=title, width=FOUND, height=alt.Step(TWO_LINES))


def _placed(column: str) -> alt.X:
    return alt.X(f"{column}:Q", title=None, axis=None, scale=alt.Scale(domain=[-BEYOND, BEYOND]))


def _short(column: str) -> pl.Expr:
    """Return an expression that writes a column's numbers with four significant digits."""
    return pl.col(column).map_elements("{:.4g}".format, pl.String)


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.wrap(text, LABEL))


def holdings(scenario, tables: dict[str, pl.DataFrame]) -> alt.Chart:
    """Draw each class's share of each user's samples in realization 0; users are sorted by their commonest class."""
    frame = tables["holdings"].filter(pl.col("scheme") == pl.col("scheme").first(), realization=0)
    most = pl.col("label").sort_by("samples", "label").last()
    users = frame.group_by("user").agg(all=pl.col("samples").sum(), most=most)
    users = users.sort("most", "all", "user").with_row_index("place").select("user", "all", "place")
    frame = frame.join(users, on="user").with_columns(share=pl.col("samples") / pl.col("all"))
    frame = frame.select("place", "label", "samples", "share", "user", "all").sort("place", "label")
    subtitle = [
        f"realization 0: {plural(len(users), 'user')}, {users['all'].sum()} samples; all schemes alike",
        f"white: none of a user's samples; darkest: {frame['share'].max():.0%} of them",
    ]
    title = alt.TitleParams("Who holds what", subtitle=subtitle)
    shades = alt.Scale(domain=[0, frame["share"].max() or 1.0], range=["#FFFFFF", "#08306B"])
    step = alt.Step(22 if frame["label"].n_unique() <= FEW_LABELS else 11)
    chart = alt.Chart(frame, title=title, width=HOLDERS_WIDTH, height=step).mark_rect()
    return chart.encode(
        x=alt.X("place:O", title="User, by the class held most", axis=alt.Axis(labels=False, ticks=False)),
        y=alt.Y("label:O", title="Class"),
        color=alt.Color("share:Q", scale=shades, legend=None),
    )


def _over_spent(scenario, tables: dict[str, pl.DataFrame], column: str, what: str, unit: str) -> alt.LayerChart:
    """Draw mean test accuracy over a cumulative cost; a logarithmic axis if a linear one would squeeze a scheme."""
    kept, subtitle = _thinned(tables["history"])
    curves = spent(kept, column)
    if free := [name for name in kept["scheme"].unique(maintain_order=True) if name not in set(curves["scheme"])]:
        subtitle[0] += f"; not drawn, as nothing is sent or it has no unit: {', '.join(free)}"
    subtitle.insert(1, "a training that has ended keeps its accuracy; a dot: all of the scheme have ended")
    title = alt.TitleParams(f"Test accuracy over {what}", subtitle=subtitle)
    ends = curves.group_by("scheme").agg(pl.col(column).max())[column]
    least, most = ends_of(ends)
    prefix, factor = next(((p, f) for p, f in PREFIXES.items() if len(ends) and most >= f), ("", 1.0))
    scale = alt.Undefined
    if len(ends) and least < SQUEEZED * most:
        scale = alt.Scale(type="log")
        curves = curves.filter(pl.col(column) > 0)
    axis, y = alt.Axis(format=".6~g", tickCount=8), theme.accuracy_axis()
    x = alt.X(f"{column}:Q", title=f"{what.capitalize()} ({prefix}{unit})", scale=scale, axis=axis)
    frame = theme.means(curves, ["scheme", column], ["accuracy"], scenario.system)
    frame = frame.with_columns(pl.col(column) / factor)
    levels = chance.scenario_levels(scenario, tables["history"])
    return theme.band(frame, "accuracy", scenario, title, y, x, steps=True, levels=levels)


accuracy_seconds = partial(_over_spent, column="air_seconds_cumulative", what="time on air", unit="s")
JOULES = "transmit energy of all users"
accuracy_joules = partial(_over_spent, column="transmit_energy_j_cumulative", what=JOULES, unit="J")


def spent(history: pl.DataFrame, column: str) -> pl.DataFrame:
    """Evaluate each training run's accuracy at common amounts of a cumulative cost, scheme by scheme.

    Realizations differ in their cost, so a run's accuracy is a step function of `column`: that of its last evaluation,
    kept after the run has ended. Amounts are those of any run's evaluations, at most CURVE_POINTS, from where all runs
    were evaluated once to where the last run of the scheme has ended. Schemes that spend nothing, or nothing that has
    a unit, have no rows. Columns: scheme, realization, `column`, accuracy.
    """
    frames = []
    evaluated = history.select("scheme", "realization", "round", column, "accuracy").drop_nulls()
    evaluated = evaluated.filter(pl.col(column).is_finite())
    for _, frame in evaluated.group_by("scheme", maintain_order=True):
        start = frame.group_by("realization").agg(pl.col(column).min())[column].max()
        places = frame.filter(pl.col(column) >= start)[column].unique().sort()
        if places[-1] == 0:
            continue
        curve = frame.sort(column, "round")  # the last of rounds at equal cost counts
        grid = places[theme.thinned(len(places), CURVE_POINTS)].to_frame()
        grid = frame.select("realization").unique(maintain_order=True).join(grid, how="cross")
        read = grid.sort(column).join_asof(curve, on=column, by="realization", check_sortedness=False)
        frames.append(read.select("scheme", "realization", column, "accuracy"))
    return pl.concat(frames) if frames else evaluated.drop("round").clear()


def _thinned(history: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Select the rows of training runs with a valid accuracy; also return subtitle lines with their numbers."""
    is_kept = pl.col("status").cast(pl.String).is_in(KEPT)
    kept, left_out = history.filter(is_kept), history.filter(~is_kept)
    subtitle = theme.band_over(kept["realization"].n_unique())
    if len(left_out):
        subtitle += f"; left out: {left_out.select('scheme', 'realization').n_unique()} that diverged or had no noise"
    return kept, [subtitle, *unscheduled.lines(unscheduled.counted(unscheduled.find_unscheduled(kept)))]


def _over_rounds(scenario, history: pl.DataFrame, value: str, title: str, y: alt.Y, **options) -> alt.LayerChart:
    """Draw the mean and the interval of a column over realizations, round by round."""
    kept, subtitle = _thinned(history)
    frame = theme.means(kept, ["scheme", "round"], [value], scenario.system)
    title = alt.TitleParams(title, subtitle=subtitle)
    return theme.band(frame, value, scenario, title, y, **options)
