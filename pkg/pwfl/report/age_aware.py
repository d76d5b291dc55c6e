"""Figures and tables of the system `age_aware`."""

import altair as alt
import numpy as np
import polars as pl

from pwfl.report import theme
from pwfl.report.age_aware_claims import claims

KEYS = ["scheme", "realization", "case"]
AVERAGED = [
    "loss_difference_wh2",
    "expected_loss_difference_wh2",
    "paired_bound_wh2",
    "separate_bound_wh2",
    "noise_power_wh2",
    "epsilon_exact",
    "epsilon_bound",
    "epsilon_classical",
    "epsilon_unsafe",
]
VARIATIONS = {
    "total_variation": "exact",
    "total_variation_bound": "provable bound",
    "spectral_decay": "decay without its constant",
}
CURVES = {
    "loss_difference_wh2": "simulated (mean, 95% band)",
    "expected_loss_difference_wh2": "expected, closed form",
    "paired_bound_wh2": "bound (paired)",
}
LINE_COLOURS = ["#0072B2", "#009E73", "#D55E00"]
ROWS, PANEL = 3, 250  # rows of chains in a figure; width of a panel


def aging(parameters: dict, tables: dict[str, pl.DataFrame]) -> alt.HConcatChart:
    """Total variation distance between rows of each chain's reverse kernel over the data's age, and its bounds."""
    first = tables["users"].filter(pl.col("realization") == pl.col("realization").min())
    one_each = first.unique("chain", keep="first", maintain_order=True).head(ROWS)
    frame = (
        tables["links"]
        .join(one_each.select("realization", "user", "chain"), on=["realization", "user"])
        .unpivot(list(VARIATIONS), index=["chain", "age"], variable_name="curve", value_name="distance")
        .with_columns(pl.col("curve").replace(VARIATIONS))
    )
    picked = alt.selection_point(fields=["curve"], bind="legend")
    colour = alt.Color(
        "curve:N", title="Delta(age)", scale=alt.Scale(domain=list(VARIATIONS.values()), range=LINE_COLOURS)
    )
    panels = [
        alt.Chart(frame.filter(pl.col("chain") == chain), width=PANEL, height=PANEL, title=f"Chain {chain}")
        .mark_line(point=alt.OverlayMarkDef(size=18))
        .encode(
            x=alt.X("age:Q", title="Age T - t (steps)"),
            y=alt.Y("distance:Q", title="Total variation distance", scale=alt.Scale(type="log")),
            color=colour,
            opacity=alt.when(picked).then(alt.value(1.0)).otherwise(alt.value(0.1)),
            tooltip=["chain:N", "age:Q", "curve:N", alt.Tooltip("distance:Q", format=".4g")],
        )
        for chain in one_each["chain"]
    ]
    return alt.hconcat(*panels).resolve_scale(y="shared").add_params(picked)


def sweep(parameters: dict, tables: dict[str, pl.DataFrame]) -> alt.HConcatChart | alt.Chart:
    """Fig. 2: loss difference over one client's collection time, the others fresh, and its bound."""
    frame = swept(tables)
    if frame.is_empty():
        return (
            alt.Chart(pl.DataFrame({"text": ["No scheme sweeps a client's collection time"]}))
            .mark_text()
            .encode(text="text:N")
        )
    # One scheme is enough for a figure; the table holds all.
    frame = frame.filter(pl.col("scheme") == pl.col("scheme").first())
    target = frame["target_epsilon"][0]
    panels = [_sweep_panel(part, user == 0) for (user,), part in frame.group_by("swept_user", maintain_order=True)]
    title = alt.TitleParams(
        f"One client's collection time, the others fresh, epsilon = {target:g} at T",
        subtitle="marks: minima; steep parts for old data are cut off",
    )
    return alt.hconcat(*panels, title=title)


def _sweep_panel(frame: pl.DataFrame, labelled: bool) -> alt.VConcatChart:
    """Loss difference above, bound below, of one swept client; both near the minimum, where schedules differ."""
    legend = alt.Legend(orient="bottom", title=None, columns=1) if labelled else None
    rows = []
    for columns, title in (
        (["loss_difference_wh2", "expected_loss_difference_wh2"], "Loss difference (Wh²)"),
        (["paired_bound_wh2"], "Bound on it (Wh²)"),
    ):
        closed = columns[-1]
        least, fresh = frame[f"{closed}_mean"].min(), frame[f"{closed}_mean"][-1]
        room = max(fresh - least, 0.02 * abs(fresh), 1e-9)
        limits = [least - room, fresh + 2 * room]
        long = pl.concat(
            frame.select(
                "swept_time", pl.lit(CURVES[c]).alias("curve"),
                mean=pl.col(f"{c}_mean"), low=pl.col(f"{c}_low"), high=pl.col(f"{c}_high"),
            )
            for c in columns
        )  # fmt: skip
        best = long.filter(pl.col("curve") == CURVES[closed]).sort("mean").head(1)
        x = alt.X("swept_time:Q", title="Collection time t (steps)" if columns == ["paired_bound_wh2"] else None,
                  scale=alt.Scale(domain=[0, frame["swept_time"].max()], nice=False))  # fmt: skip
        scale = alt.Scale(domain=limits, nice=False)
        colour = alt.Color("curve:N", scale=alt.Scale(domain=list(CURVES.values()), range=LINE_COLOURS), legend=legend)
        tips = ["curve:N", "swept_time:Q", alt.Tooltip("mean:Q", format=".4g"), alt.Tooltip("low:Q", format=".4g"),
                alt.Tooltip("high:Q", format=".4g")]  # fmt: skip
        base = alt.Chart(long, width=PANEL, height=190).encode(x=x, color=colour)
        y = alt.Y("mean:Q", title=title if labelled else None, scale=scale)
        band = base.transform_filter("isValid(datum.low)").mark_area(clip=True, opacity=0.2).encode(
            y=alt.Y("low:Q", scale=scale), y2="high:Q"
        )  # fmt: skip
        line = base.mark_line(clip=True).encode(y=y, tooltip=tips)
        mark = (
            alt.Chart(best)
            .mark_point(size=110, filled=True, shape="diamond")
            .encode(x=x, y=y, color=colour, tooltip=tips)
        )
        rows.append(band + line + mark)
    return alt.vconcat(*rows, title=f"Client {frame['swept_user'][0]}")


def loss(parameters: dict, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Fig. 3 (a): simulated loss difference over the privacy target."""
    scale = alt.Scale(type="symlog", constant=1)
    frame = realizations(tables).drop_nulls("loss_difference_wh2")
    return _over_target(frame, "loss_difference_wh2", parameters["schemes"], "Loss difference", alt.Y(
        title="Simulated loss difference (Wh², symmetric log)", scale=scale))  # fmt: skip


def noise(parameters: dict, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Fig. 3 (b): variance of the model's noise over the privacy target."""
    y = alt.Y(title="Noise power (Wh²)", scale=alt.Scale(type="log"))
    return _over_target(realizations(tables), "noise_power_wh2", parameters["schemes"], "Noise power", y)


def _over_target(frame: pl.DataFrame, value: str, schemes: list[dict], title: str, y: alt.Y) -> alt.LayerChart:
    """Means over realizations with confidence bands, over the privacy target."""
    count = frame["realization"].n_unique()
    means = theme.means(frame, ["scheme", "target_epsilon"], [value])
    colour, chosen, opacity = theme.scheme_colour([s for s in schemes if s["scheduler"] != "sweep"])
    heading = alt.TitleParams(title, subtitle=f"mean and 95% confidence band over {count} realizations")
    base = alt.Chart(means, title=heading, width=theme.WIDTH, height=theme.HEIGHT).encode(
        x=alt.X("target_epsilon:Q", title="Privacy target epsilon at T", scale=alt.Scale(type="log")), color=colour
    )
    low, mean = y.copy(), y.copy()
    low.shorthand, mean.shorthand = f"{value}_low:Q", f"{value}_mean:Q"
    area = base.mark_area().encode(
        y=low, y2=f"{value}_high:Q", opacity=alt.when(chosen).then(alt.value(0.18)).otherwise(alt.value(0.02))
    )
    line = base.mark_line(point=True).encode(
        y=mean, opacity=opacity,
        tooltip=["scheme:N", "target_epsilon:Q",
                 *(alt.Tooltip(f"{value}_{part}:Q", format=".4g") for part in ("mean", "low", "high"))],
    )  # fmt: skip
    return (area + line).add_params(chosen)


def times(parameters: dict, tables: dict[str, pl.DataFrame]) -> alt.HConcatChart | alt.Chart:
    """Collection time of the first clients over the privacy target; of random schedules the mean."""
    frame = (
        not_swept(tables["leakage"], tables)
        .filter(pl.col("user") < ROWS)
        .group_by("scheme", "user", "target_epsilon", maintain_order=True)
        .agg(time=pl.col("collection_time").mean())
    )
    horizon = (tables["leakage"]["collection_time"] + tables["leakage"]["age"]).max()
    colour, chosen, opacity = theme.scheme_colour([s for s in parameters["schemes"] if s["scheduler"] != "sweep"])
    panels = [
        alt.Chart(part, width=PANEL, height=PANEL, title=f"Client {user}")
        .mark_line(point=True)
        .encode(
            x=alt.X("target_epsilon:Q", title="Privacy target epsilon at T", scale=alt.Scale(type="log")),
            y=alt.Y("time:Q", title="Collection time t (steps)", scale=alt.Scale(domain=[0, horizon])),
            color=colour,
            opacity=opacity,
            tooltip=["scheme:N", "target_epsilon:Q", alt.Tooltip("time:Q", format=".4g")],
        )
        for (user,), part in frame.group_by("user", maintain_order=True)
    ]
    return alt.hconcat(*panels).resolve_scale(y="shared").add_params(chosen)


def search(scenarios: dict[str, dict]) -> alt.LayerChart:
    """Terms that the searches evaluate over the number of clients, beside the number of all schedules."""
    cost = pl.concat(
        content["summary"].select(
            "scheme", "clients", "horizon",
            pl.lit(name).alias("scenario"),
            pl.col("evaluations").log10().alias("log10_evaluations"),
            "log10_schedules",
        )
        for name, content in scenarios.items()
    ).filter(pl.col("log10_evaluations").is_finite(), ~pl.col("scheme").str.starts_with("simulated"))  # fmt: skip
    every = cost.unique(["clients", "horizon"]).with_columns(
        scheme=pl.lit("all schedules (T + 1)^N"), log10_evaluations=pl.col("log10_schedules")
    )
    frame = pl.concat([cost, every]).unique(["scheme", "clients", "horizon"], maintain_order=True)
    picked = alt.selection_point(fields=["scheme"], bind="legend")
    return (
        alt.Chart(frame, width=theme.WIDTH, height=theme.HEIGHT, title="Cost of the search")
        .mark_line(point=alt.OverlayMarkDef(size=60))
        .encode(
            x=alt.X("clients:Q", title="Clients N", scale=alt.Scale(type="log")),
            y=alt.Y(
                "log10_evaluations:Q", title="Evaluations of terms or schedules (log10)", scale=alt.Scale(type="symlog")
            ),
            color=alt.Color("scheme:N", title="Search"),
            strokeDash=alt.StrokeDash("horizon:N", title="Horizon T"),
            opacity=alt.when(picked).then(alt.value(1.0)).otherwise(alt.value(0.1)),
            tooltip=[
                "scenario:N",
                "scheme:N",
                "clients:Q",
                "horizon:Q",
                alt.Tooltip("log10_evaluations:Q", format=".2f"),
            ],
        )
        .add_params(picked)
    )


__all__ = ["COMPARISON_FIGURES", "FIGURES", "claims", "summarize"]
FIGURES = {"aging": aging, "sweep": sweep, "loss": loss, "noise": noise, "times": times}
COMPARISON_FIGURES = {"search": search}


def summarize(parameters: dict, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The tables summary, realizations, history, statuses and sweep of a scenario."""
    each = realizations(tables)
    keys = ["scheme", "target_epsilon"]
    status = tables["schedule_status"].filter(pl.col("swept_user").is_null())
    leakage = tables["leakage"]
    summary = (
        theme.means(each, keys, AVERAGED)
        .join(
            each.group_by(keys, maintain_order=True).agg(
                pl.len().alias("realizations"),
                pl.col("loss_difference_wh2").count().alias("trained"),
                pl.col("epsilon_exact").max().alias("epsilon_maximum"),
                pl.col("epsilon_understated").max(),
                (~pl.col("target_met")).sum().alias("target_missed"),
                pl.col("channel_uses").mean(),
                pl.col("delta", "unit", "neighbouring_relation", "sampling", "observer", "guarantee").first(),
            ),
            on=keys,
            maintain_order="left",
        )
        .join(
            status.group_by(keys).agg(pl.col("evaluations", "log10_schedules").mean()), on=keys, maintain_order="left"
        )
        .with_columns(
            clients=pl.lit(leakage["user"].max() + 1),
            horizon=pl.lit((leakage["collection_time"] + leakage["age"]).max()),
        )
    )
    return {
        "summary": summary,
        "realizations": each,
        "history": tables["history"],
        "statuses": statuses(tables),
        "sweep": swept(tables),
    }


def realizations(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """The outcome of each scheme, realization and privacy target, with the simulated loss difference where trained."""
    return not_swept(tables["outcome"], tables).join(
        tables["history"].select(*KEYS, "loss_difference_wh2"), on=KEYS, how="left", maintain_order="left"
    )


def not_swept(frame: pl.DataFrame, tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """The rows of schemes that meet targets, without those of a sweep."""
    sweeps = tables["schedule_status"].filter(pl.col("swept_user").is_not_null())["scheme"].unique()
    return frame.filter(~pl.col("scheme").is_in(sweeps.implode()))


def swept(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Means and 95% intervals over trained realizations of each step of each sweep."""
    frame = (
        tables["schedule_status"]
        .filter(pl.col("swept_user").is_not_null())
        .select(*KEYS, "target_epsilon", "swept_user", "swept_time")
        .join(tables["outcome"].drop("target_epsilon"), on=KEYS, maintain_order="left")
        .join(tables["history"].drop("target_epsilon"), on=KEYS, maintain_order="left")
    )
    return theme.means(frame, ["scheme", "target_epsilon", "swept_user", "swept_time"], AVERAGED)


def statuses(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """How often each status of schedules and noise occurs."""
    counts = [
        tables[table]
        .with_columns(pl.col("status").cast(pl.String))
        .group_by("scheme", "status", maintain_order=True)
        .agg(count=pl.len())
        .select("scheme", pl.lit(stage).alias("stage"), "status", "count")
        for stage, table in (("schedule", "schedule_status"), ("noise", "noise_status"))
    ]
    return pl.concat(counts).with_columns(share=pl.col("count") / pl.col("count").sum().over("scheme", "stage"))
