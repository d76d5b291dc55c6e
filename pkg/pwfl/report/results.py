"""What the reports of several systems take from the tables: final accuracies, mean curves."""

import altair as alt
import polars as pl

from pwfl.report import theme

KEPT = ("trained", "no_user_scheduled")  # trainings whose accuracy is a result


def realizations(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """The outcome of each realization and scheme, with its final accuracy and loss where trained.

    A realization that diverged has neither: its last numbers are no result. `training` says why.
    """
    keys = ["scheme", "realization"]
    last = (
        tables["history"]
        .group_by(keys)
        .agg(pl.col("accuracy", "loss").sort_by("round").last(), training=pl.col("status").cast(pl.String).first())
    )
    return (
        tables["outcome"]
        .join(last, on=keys, how="left", maintain_order="left")
        .with_columns(pl.when(pl.col("training").is_in(KEPT)).then(pl.col("accuracy", "loss")))
    )


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


def accuracy(parameters: dict, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Mean test accuracy over rounds, with its confidence band."""
    frame, title = _curves(tables["history"], "accuracy", "Test accuracy")
    y = alt.Y(title="Test accuracy", axis=alt.Axis(format=".0%"), scale=alt.Scale(zero=False))
    return theme.band(frame, "accuracy", parameters["schemes"], title, y)


def loss(parameters: dict, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Mean test loss over rounds, with its confidence band."""
    frame, title = _curves(tables["history"], "loss", "Test loss")
    return theme.band(frame, "loss", parameters["schemes"], title, alt.Y(title="Test loss (cross-entropy, nats)"))


def _curves(history: pl.DataFrame, value: str, title: str) -> tuple[pl.DataFrame, alt.TitleParams]:
    """Mean and interval of a column over realizations, round by round, and a title that says of how many."""
    kept = history.filter(pl.col("status").cast(pl.String).is_in(KEPT))
    left_out = history.filter(~pl.col("status").cast(pl.String).is_in(KEPT))
    count = kept["realization"].n_unique()
    subtitle = f"mean and 95% confidence band over {count} realization{'s' * (count != 1)}"
    if len(left_out):
        subtitle += f"; left out: {left_out.select('scheme', 'realization').n_unique()} that diverged or had no noise"
    return theme.means(kept, ["scheme", "round"], [value]), alt.TitleParams(title, subtitle=subtitle)
