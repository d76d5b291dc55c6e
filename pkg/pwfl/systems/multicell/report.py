"""Figures and tables of the system `multicell`."""

import altair as alt
import numpy as np
import polars as pl

from pwfl.privacy.composition import Loss
from pwfl.report import results, theme
from pwfl.report.axes import fitted, pixels
from pwfl.report.drawing import INK, LINE
from pwfl.systems.multicell import hexagons
from pwfl.systems.multicell.bounds import leakage_bound
from pwfl.systems.multicell.parameters import Multicell, Network
from pwfl.systems.multicell.schemes import LIMITED
from pwfl.tables.arrays import ends_of, to_table

COMPARABILITY = (
    "Several cells interfere; each scheduled user sends its own noisy gradient of all its records, "
    "digitally, to its station, which sees it. Unscheduled users' records are not learned from."
)
LEAKAGE = "Leakage rho of a user (zCDP)"
GAP_LINEAR = 1e-4  # optimality gap up to which its axis is linear
MARGIN = 1.08  # of a map: half its side over the largest distance from its centre
SIDE = 460  # side of a map, in pixels
LINKS = 7  # largest number drawn, the strongest of one user; with more base stations, the map is larger
RINGED = "rings: users whom a scheme schedules"
AREAS = (30, 400)  # smallest and largest area of users' dots
NAMED = 12  # number of a scheme's rings that are tried as the place of its name
RING, WIDER = 420, 260  # area of the first scheme's rings, and its increase for each next scheme
KEYS = ["scheme", "realization"]
PRIVACY = ["rho_worst_user", "rho_total", "epsilon", "epsilon_tight", "epsilon_classic"]


def topology(scenario: Multicell, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Fig. 3: cells, stations, users of the first realization, and the strongest links of its first user.

    For imported channels: users, and base stations if their positions are known, without outlines of cells.
    """
    network = scenario.network
    first = tables["users"]["realization"].min()
    users = tables["users"].filter(realization=first)
    links = tables["links"].filter(realization=first, interval=0)
    count = links["station"].n_unique()
    heading, axes = f"{len(users)} users, {count} stations", ("x (m)", "y (m)")
    if users["x_m"].null_count():
        return theme.empty("positions of the users are not known", heading)
    scheduled = tables["schedule"].filter(realization=first).drop_nulls("resource_block")
    place = links.unique("station").sort("station").select("station_x_m", "station_y_m").to_numpy()
    grid = hexagons.stations(network.rings, network.cell_radius_m)
    located, drawn = not links["station_x_m"].null_count(), np.array_equal(place, grid)
    half = hexagons.half_side(network.rings, network.cell_radius_m) if drawn else None
    across, up = _square(np.concatenate([users.select("x_m", "y_m").to_numpy(), place]), half)
    place = {"x": alt.X("x_m:Q", title=axes[0], scale=across), "y": alt.Y("y_m:Q", title=axes[1], scale=up)}
    side = SIDE if count <= LINKS else 1.5 * SIDE
    dots = alt.Chart(users).mark_circle(color=LINE, stroke=INK, strokeWidth=0.5, opacity=1)
    dots = dots.encode(**place, size=alt.Size("samples:Q", scale=alt.Scale(range=AREAS), legend=None))
    colours = theme.scenario_colours(scenario)
    areas = {name: float(RING + WIDER * k) for k, name in enumerate(colours)}
    ringed = scheduled.select(pl.col("scheme").cast(pl.String), "user").join(users, on="user", maintain_order="left")
    ringed = ringed.with_columns(
        area=pl.col("scheme").replace_strict(areas, return_dtype=pl.Float64),
        px=pl.Series(pixels(place["x"], ringed["x_m"], side)),
        py=pl.Series(pixels(place["y"], ringed["y_m"], side)),
    ).sort(pl.len().over("user"), maintain_order=True)  # names are placed where few schemes have rings
    rings = alt.Chart(ringed).mark_point(filled=False, strokeWidth=2)
    rings = rings.encode(**place, color=theme.coloured_by(colours), size=alt.Size("area:Q", scale=None))
    spots = {name: ringed.filter(scheme=name).select("px", "py").head(NAMED).rows() for name in colours}
    names = theme.name_marks(spots, colours, size=(side, side))
    layers = [dots, rings]
    note = f"areas of dots: {users['samples'].min()} to {users['samples'].max()} training samples"
    subtitle = [f"realization {first}; {RINGED}", note]
    if located:
        chosen = users.row(0, named=True)
        below, above = _stations(links.filter(user=chosen["user"]), chosen, place)
        below = [_grid(network, place) if drawn else _spokes(users, links, place), *below]
        layers = [*below, *layers, *above]
        strongest = "" if count <= LINKS else f", the {LINKS} strongest"
        cells = "" if drawn else "; grey lines: users' cells"
        subtitle = [f"realization {first}; triangles: stations; {RINGED}", note]
        subtitle.append(f"dashed: links of user {chosen['user']}{strongest}{cells}")
    layered = alt.layer(*layers, *names).resolve_scale(size="independent")
    return layered.properties(width=side, height=side, title=alt.TitleParams(heading, subtitle=subtitle))


def _square(places: np.ndarray, half: float | None) -> list[alt.Scale]:
    """Return scales of both axes, equally long, that show all `places`, shape (place, 2), with their rings.

    If `half` is given, both are the same: centred at 0, at least from -`half` to `half`.
    """
    known = places[np.isfinite(places).all(axis=1)]
    low, high = known.min(axis=0), known.max(axis=0)
    if half is not None:
        high = np.full(2, max(half, abs(low).max(), abs(high).max()))
        low = -high
    centre, reach = (low + high) / 2, MARGIN * max((high - low).max() / 2, 1.0)
    return [alt.Scale(domain=[at - reach, at + reach], nice=False) for at in centre.tolist()]


def _grid(network: Network, place: dict[str, alt.X | alt.Y]) -> alt.Chart:
    """Draw the outlines of cells."""
    station = hexagons.stations(network.rings, network.cell_radius_m)
    outline = station[:, None] + hexagons.corners(network.cell_radius_m)[[0, 1, 2, 3, 4, 5, 0]]
    cells = to_table({"cell": range(len(station)), "corner": range(7)}, x_m=outline[..., 0], y_m=outline[..., 1])
    return alt.Chart(cells).mark_line(color=LINE, strokeWidth=1).encode(**place, detail="cell:N", order="corner:Q")


def _spokes(users: pl.DataFrame, links: pl.DataFrame, place: dict[str, alt.X | alt.Y]) -> alt.Chart:
    """Draw a line from each user to the base station of its cell."""
    masts = links.select("station", "station_x_m", "station_y_m").unique(maintain_order=True)
    lines = users.join(masts, left_on="cell", right_on="station", maintain_order="left")
    return alt.Chart(lines).mark_rule(color=LINE).encode(**place, x2="station_x_m:Q", y2="station_y_m:Q")


def _stations(
    links: pl.DataFrame, user: dict, place: dict[str, alt.X | alt.Y]
) -> tuple[list[alt.Chart], list[alt.Chart]]:
    """Draw the layer below users, the strongest links of one, and the layer above, base stations with numbers."""
    links = links.rename({"station_x_m": "x_m", "station_y_m": "y_m"})
    stations = links.select("x_m", "y_m", cell="station")
    links = links.with_columns(user_x_m=pl.lit(user["x_m"]), user_y_m=pl.lit(user["y_m"]))
    links = links.sort("gain", descending=True, maintain_order=True).head(LINKS)
    lines = alt.Chart(links).mark_rule(strokeDash=[6, 4], color=INK, strokeWidth=1.2)
    lines = lines.encode(**place, x2="user_x_m:Q", y2="user_y_m:Q")
    few, above = len(stations) <= LINKS, alt.Chart(stations)
    masts = above.mark_point(shape="triangle-up", filled=True, size=150 if few else 60, color="black", opacity=1)
    numbers = above.mark_text(dy=14 if few else 11, fontSize=10, color="black").encode(**place, text="cell:N")
    return [lines], [masts.encode(**place), numbers]


def objective(scenario: Multicell, tables: dict[str, pl.DataFrame]) -> alt.Chart:
    """Fig. 4: distribution of the normalized objective."""
    frame = tables["outcome"].with_columns(normalized=pl.col("objective") / pl.col("samples"))
    heading = f"Scheduler's objective, gamma = {scenario.schedule.gamma:g}"
    return theme.cdf(frame, "normalized", scenario, heading, "Objective (20) / number of samples")


def gap(scenario: Multicell, tables: dict[str, pl.DataFrame]) -> alt.Chart:
    """Draw the distribution of the objective's optimality gap, to its lower bound."""
    title = f"Gap to the bound (linear up to {GAP_LINEAR:.2%}, then logarithmic)"
    heading = f"How far schedules are from a lower bound on the objective (20), gamma = {scenario.schedule.gamma:g}"
    finite = tables["outcome"].filter(pl.col("objective_gap").is_finite())
    if finite.is_empty():
        return theme.empty("no lower bound is known: this noise is not what (20)-(22) ask for", heading)
    scale = alt.Scale(type="symlog", constant=GAP_LINEAR, nice=False)  # also shows optimal schedules, with gap 0
    least, most = ends_of(finite["objective_gap"])
    digits = (1, 2, 5) if least > most / 100 else (1,)
    ticks = [0, *(GAP_LINEAR * digit * 10.0**k for k in range(7) for digit in digits)]
    ticks = alt.Axis(values=ticks, format=".4~%")
    x = fitted(alt.X("objective_gap:Q", title=title, scale=scale, axis=ticks), finite["objective_gap"])
    return theme.cdf(finite, "objective_gap", scenario, heading, title, x=x)


def leakage(scenario: Multicell, tables: dict[str, pl.DataFrame]) -> alt.Chart | alt.LayerChart:
    """Fig. 5 (e), (f): distribution of rho over users and realizations, with the bound of (22) if it limits noise."""
    heading = f"Privacy leakage after {scenario.training.rounds} rounds"
    bounded = any(scheme.noise in LIMITED for scheme in scenario.schemes)
    bound = leakage_bound(scenario)
    also = [bound] * bounded
    chart = theme.cdf(tables["leakage"], "rho", scenario, heading, LEAKAGE, "scheduled users", also)
    if not bounded:
        return chart
    return theme.referenced(chart, bound, f"bound by (22): {bound:.3g}", "x", LEAKAGE)


def tradeoff(scenario: Multicell, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Draw final accuracy against the record-level epsilon of each trained realization."""
    axis = f"Record-level epsilon at delta = {scenario.privacy.delta:g}"
    return results.tradeoff(scenario, tables["history"], realizations(tables), axis, "Accuracy against privacy")


FIGURES = {
    "topology": topology,
    "objective": objective,
    "gap": gap,
    "accuracy": results.accuracy,
    "accuracy_seconds": results.accuracy_seconds,
    "accuracy_joules": results.accuracy_joules,
    "loss": results.loss,
    "leakage": leakage,
    "tradeoff": tradeoff,
}


def summarize(scenario: Multicell, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Make the tables summary, realizations, history and statuses of a scenario."""
    rows = realizations(tables).join(
        not_lowered(scenario, tables["leakage"]), on=KEYS, how="left", maintain_order="left"
    )
    limit = scenario.privacy.max_noise_error * (1 + 1e-9)
    summary = results.summary(
        scenario,
        rows,
        ["objective_per_sample", "objective_gap", "scheduled", "scheduled_samples", *results.FINAL, *PRIVACY],
        pl.col("objective_gap").max().alias("objective_gap_max"),
        pl.col("proven_optimal").sum(),
        pl.col("rho_worst_user").max().alias("rho_worst_overall"),
        pl.col("epsilon").max().alias("epsilon_max"),
        pl.col("epsilon_user").max().alias("epsilon_user_max"),
        pl.col("rho_worst_case", "epsilon_worst_case", "rho_own_noise").max(),
        pl.col("epsilon_dithers_known").max(),
        (pl.col("noise_error") > limit).sum().alias("noise_error_exceeded"),
        *results.trainings("trained", "diverged", "noise_infeasible"),
        pl.col("no_user_scheduled").sum(),
    )
    median = tables["leakage"].group_by("scheme", maintain_order=True).agg(rho_median=pl.col("rho").median())
    return {
        "summary": summary.join(median, on="scheme", how="left", maintain_order="left"),
        "realizations": rows,
        "history": tables["history"],
        "statuses": results.statuses(tables),
    }


def realizations(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Return the outcome of each realization and scheme, with final accuracy and loss if trained."""
    rows = results.realizations(tables, pl.col("scheduled") == 0)
    return rows.with_columns(
        objective_per_sample=pl.col("objective") / pl.col("samples"),
        samples_per_scheduled=pl.when(pl.col("scheduled") > 0).then(pl.col("scheduled_samples") / pl.col("scheduled")),
    )


def not_lowered(scenario: Multicell, leakage: pl.DataFrame) -> pl.DataFrame:
    """Compute `rho_not_lowered`, the share of users who leak no less than with `random` noise, same scheduler.

    It is a share of the scheduled users who leak anything with that noise. There is a row for each scheme and
    realization, but none for a scheme if its scheduler has no scheme with the noise `random`.
    """
    start = {scheme.scheduler: scheme.name for scheme in scenario.schemes if scheme.noise == "random"}
    others = {scheme.name: start[scheme.scheduler] for scheme in scenario.schemes if scheme.scheduler in start}
    names = [(name, before) for name, before in others.items() if name != before]
    pairs = pl.DataFrame(names, schema={"scheme": pl.String, "before": pl.String}, orient="row")
    rho = leakage.select(pl.col("scheme").cast(pl.String), "realization", "user", "rho")
    before = rho.filter(pl.col("rho") > 0).rename({"scheme": "before", "rho": "rho_before"})
    share = (pl.col("rho") >= pl.col("rho_before")).mean().alias("rho_not_lowered")
    both = rho.join(pairs, on="scheme").join(before, on=["before", "realization", "user"])
    return both.group_by(KEYS).agg(share).cast({"scheme": leakage.schema["scheme"]})


def published(_scenario: Multicell, rows: pl.DataFrame) -> list[Loss]:
    """Return the privacy loss of each training run, for its most exposed record."""
    orders = rows["order_server"].fill_null(float("inf"))
    return [Loss(rho=rho, order=order) for rho, order in zip(rows["rho_server"], orders, strict=True)]
