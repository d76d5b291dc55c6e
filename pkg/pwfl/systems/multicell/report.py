"""Figures and tables of the system `multicell`."""

from typing import TYPE_CHECKING

import altair as alt
import numpy as np
import polars as pl

from pwfl.report import results, theme
from pwfl.systems.multicell import hexagons
from pwfl.tables.arrays import beside

if TYPE_CHECKING:
    from pwfl.systems.multicell.scenario import Multicell

DIFFERS = (
    "Several cells interfere; each scheduled user sends its own noisy gradient of all its records, "
    "digitally, to its station, which sees it. Unscheduled users' records are not learned from."
)
DOTS = 100  # realizations shown one by one


def topology(scenario: "Multicell", tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Fig. 3: cells, stations, users of the first realization, and the links of its first user."""
    network = scenario.network
    rings, radius = network.rings, network.cell_radius_m
    station = hexagons.stations(rings, radius)
    first = tables["users"]["realization"].min()
    users = tables["users"].filter(pl.col("realization") == first)
    outline = station[:, None] + hexagons.corners(radius)[[0, 1, 2, 3, 4, 5, 0]]
    cells = pl.DataFrame(
        {
            "cell": np.repeat(np.arange(len(station)), 7),
            "corner": np.tile(np.arange(7), len(station)),
            "x_m": outline[..., 0].ravel(),
            "y_m": outline[..., 1].ravel(),
        }
    )
    stations = pl.DataFrame({"cell": np.arange(len(station)), "x_m": station[:, 0], "y_m": station[:, 1]})
    chosen = users.row(0, named=True)
    links = (
        tables["links"]
        .filter(pl.col("realization") == first, pl.col("user") == chosen["user"])
        .pipe(beside, stations.rename({"cell": "station"}), "station")
        .with_columns(
            user_x_m=pl.lit(chosen["x_m"]), user_y_m=pl.lit(chosen["y_m"]), gain_db=10 * pl.col("gain").log10()
        )
    )
    half = hexagons.half_side(rings, radius)
    limits = alt.Scale(domain=[-half, half], nice=False)
    x, y = alt.X("x_m:Q", title="x (m)", scale=limits), alt.Y("y_m:Q", title="y (m)", scale=limits)
    colour = alt.Color("cell:N", title="Cell", scale=alt.Scale(domain=stations["cell"].to_list(), range=theme.PALETTE))
    picked = alt.selection_point(fields=["cell"], bind="legend")
    grid = alt.Chart(cells).mark_line(color="#999", strokeWidth=1).encode(x=x, y=y, detail="cell:N", order="corner:Q")
    lines = (
        alt.Chart(links)
        .mark_rule(strokeDash=[6, 4], color="#333", strokeWidth=1.2)
        .encode(
            x=x,
            y=y,
            x2="user_x_m:Q",
            y2="user_y_m:Q",
            tooltip=[
                "user:N",
                "station:N",
                alt.Tooltip("distance_m:Q", format=".0f"),
                alt.Tooltip("gain_db:Q", format=".1f"),
            ],
        )
    )
    people = (
        alt.Chart(users)
        .mark_circle(stroke="white", strokeWidth=0.5)
        .encode(
            x=x,
            y=y,
            color=colour,
            size=alt.Size(
                "samples:Q",
                title="Training samples",
                scale=alt.Scale(range=[30, 400]),
                legend=alt.Legend(symbolFillColor="#888", symbolStrokeColor="#888"),
            ),
            opacity=alt.when(picked).then(alt.value(0.9)).otherwise(alt.value(0.12)),
            tooltip=[
                "user:N",
                "cell:N",
                "samples:Q",
                alt.Tooltip("x_m:Q", format=".0f"),
                alt.Tooltip("y_m:Q", format=".0f"),
            ],
        )
    )
    masts = (
        alt.Chart(stations)
        .mark_point(shape="triangle-up", filled=True, size=150, color="black", opacity=1)
        .encode(x=x, y=y, tooltip=[alt.Tooltip("cell:N", title="station")])
    )
    title = f"{len(users)} users, {len(station)} stations, links of user {chosen['user']}"
    return (grid + lines + people + masts).add_params(picked).properties(width=460, height=460, title=title)


def objective(scenario: "Multicell", tables: dict[str, pl.DataFrame]) -> alt.Chart:
    """Fig. 4: distribution of the normalized objective."""
    frame = tables["outcome"].with_columns(normalized=pl.col("objective") / pl.col("samples"))
    return theme.cdf(
        frame,
        "normalized",
        scenario,
        f"Objective, gamma = {scenario.schedule.gamma:g}",
        "Objective (20) / number of samples",
    )


def leakage(scenario: "Multicell", tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Fig. 5 (e), (f): distribution of rho over users and realizations, with the bound of (22)."""
    training, privacy = scenario.training, scenario.privacy
    bound = 2 * training.rounds * (training.clip_norm / privacy.min_noise) ** 2
    rule = (
        alt.Chart(pl.DataFrame({"rho": [bound], "bound": [f"bound by (22): {bound:.3g}"]}))
        .mark_rule(strokeDash=[4, 4], color="#555")
        .encode(x="rho:Q", tooltip="bound:N")
    )
    chart = theme.cdf(
        tables["leakage"],
        "rho",
        scenario,
        f"Privacy leakage after {training.rounds} rounds",
        "Leakage rho of a user (zCDP)",
    )
    return rule + chart


def tradeoff(scenario: "Multicell", tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Final accuracy against the record-level epsilon of each trained realization."""
    frame = realizations(tables).drop_nulls(["accuracy", "epsilon_exact"])
    mean = frame.group_by("scheme", maintain_order=True).agg(pl.col("accuracy", "epsilon_exact").mean())
    count, shown = frame["realization"].n_unique(), frame.filter(pl.col("realization") < DOTS)
    title = alt.TitleParams(
        "Accuracy against privacy",
        subtitle=f"dots: the first {min(count, DOTS)} realizations; diamonds: means over {count}",
    )
    colour, chosen, opacity = theme.scheme_colour(scenario)
    x = alt.X(
        "epsilon_exact:Q",
        title=f"Record-level epsilon at delta = {scenario.privacy.delta:g}",
        scale=alt.Scale(zero=False),
    )
    y = alt.Y("accuracy:Q", title="Final test accuracy", axis=alt.Axis(format=".0%"), scale=alt.Scale(zero=False))
    tips = ["scheme:N", alt.Tooltip("epsilon_exact:Q", format=".3f"), alt.Tooltip("accuracy:Q", format=".1%")]
    points = (
        alt.Chart(shown, width=theme.WIDTH, height=theme.HEIGHT, title=title)
        .mark_circle(size=45)
        .encode(
            x=x,
            y=y,
            color=colour,
            tooltip=["realization:N", *tips],
            opacity=alt.when(chosen).then(alt.value(0.55)).otherwise(alt.value(0.05)),
        )
    )
    means = (
        alt.Chart(mean)
        .mark_point(shape="diamond", size=260, filled=True, stroke="black", strokeWidth=1)
        .encode(x=x, y=y, color=colour, tooltip=tips, opacity=opacity)
    )
    return (points + means).add_params(chosen)


FIGURES = {
    "topology": topology,
    "objective": objective,
    "accuracy": results.accuracy,
    "accuracy_seconds": results.accuracy_seconds,
    "accuracy_joules": results.accuracy_joules,
    "loss": results.loss,
    "leakage": leakage,
    "tradeoff": tradeoff,
}


def summarize(scenario: "Multicell", tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The tables summary, realizations, history and statuses of a scenario."""
    each = realizations(tables)
    limit = scenario.privacy.max_noise_error * (1 + 1e-9)
    averaged = [
        "objective_per_sample",
        "scheduled",
        "scheduled_samples",
        "accuracy",
        "loss",
        "rho_max",
        "epsilon_exact",
        "epsilon_tight",
        "epsilon_classic",
    ]
    summary = each.group_by("scheme", maintain_order=True).agg(
        pl.len().alias("realizations"),
        pl.col("rho_max").max().alias("rho_maximum"),
        pl.col("epsilon_exact").max().alias("epsilon_maximum"),
        pl.col("rho_worst_case", "epsilon_worst_case").max(),
        (pl.col("noise_error") > limit).sum().alias("noise_error_exceeded"),
        *((pl.col("training") == status).sum().alias(status) for status in ("trained", "diverged", "noise_infeasible")),
        (pl.col("scheduled") == 0).sum().alias("no_user_scheduled"),
        pl.col("delta", "unit", "neighbouring_relation", "sampling", "observer", "guarantee").first(),
    )
    median = tables["leakage"].group_by("scheme", maintain_order=True).agg(rho_median=pl.col("rho").median())
    parts = [theme.means(each, ["scheme"], averaged), median]
    for part in parts:
        summary = summary.join(part, on="scheme", how="left", maintain_order="left")
    return {
        "summary": summary,
        "realizations": each,
        "history": tables["history"],
        "statuses": results.statuses(tables),
    }


def realizations(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """The outcome of each realization and scheme, with its final accuracy and loss where trained."""
    return results.realizations(tables).with_columns(objective_per_sample=pl.col("objective") / pl.col("samples"))
