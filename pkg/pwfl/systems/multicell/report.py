"""Figures and tables of the system `multicell`."""

import altair as alt
import numpy as np
import polars as pl

from pwfl.privacy.composition import Loss
from pwfl.report import chance, results, theme, unscheduled
from pwfl.report.axes import fitted, leveled
from pwfl.report.drawing import INK, LINE
from pwfl.report.words import plural
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
GAP_LINEAR = 1e-4  # gap up to which the axis of gaps is linear
DOTS = 100  # realizations shown one by one
MARGIN = 1.08  # of a map, times the distance of who is furthest from its centre
SIDE = 460  # of a map, in pixels
CELL_COLOURS = ["#8DD3C7", "#8C564B", "#BEBADA", "#FB8072", "#1B5E20", "#B3DE69", "#FCCDE5"]  # none is a scheme's
LINKS = 7  # of one user, the strongest ones
RINGED = "rings: users whom a scheme schedules"
RING, WIDER = 420, 260  # area of the first scheme's rings, and by how much more the next one's have
KEYS = ["scheme", "realization"]
PRIVACY = ["rho_worst_user", "rho_total", "epsilon", "epsilon_tight", "epsilon_classic"]


def topology(scenario: Multicell, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Fig. 3: cells, stations, users of the first realization, and the strongest links of its first user.

    Of channels from outside, the users; and the stations, if their positions are known, without cells.
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
    by_user = scheduled.group_by("user", maintain_order=True).agg(
        scheduled_by=pl.col("scheme").unique(maintain_order=True).str.join(", ")
    )
    users = users.join(by_user, on="user", how="left", maintain_order="left")
    place = links.unique("station").sort("station").select("station_x_m", "station_y_m").to_numpy()
    grid = hexagons.stations(network.rings, network.cell_radius_m)
    located, drawn = not links["station_x_m"].null_count(), np.array_equal(place, grid)
    half = hexagons.half_side(network.rings, network.cell_radius_m) if drawn else None
    across, up = _square(np.concatenate([users.select("x_m", "y_m").to_numpy(), place]), half)
    colours = [CELL_COLOURS[k % len(CELL_COLOURS)] for k in range(count)]
    if drawn:
        colours = cell_colours(hexagons.stations(network.rings, network.cell_radius_m), network.cell_radius_m)
    place = {"x": alt.X("x_m:Q", title=axes[0], scale=across), "y": alt.Y("y_m:Q", title=axes[1], scale=up)}
    few = count <= len(CELL_COLOURS)  # of more, a legend has no room: stations have their numbers
    legend = theme.legend("circle", symbolStrokeWidth=0.5) if few else None
    colour = alt.Color("cell:N", title="Cell", scale=alt.Scale(domain=list(range(count)), range=colours), legend=legend)
    grey = theme.legend("circle", symbolStrokeWidth=0.5, symbolFillColor=LINE, symbolStrokeColor=LINE)
    size = alt.Size("samples:Q", title="Training samples", scale=alt.Scale(range=[30, 400]), legend=grey)
    picked = alt.selection_point(fields=["cell"], bind="legend" if few else alt.Undefined)
    opacity = theme.faded(picked, hidden=0.12)
    named = {"user:N": "User", "cell:N": "Cell", "samples:Q": "Training samples", "scheduled_by:N": "Scheduled by"}
    tips = theme.tips(named | {"x_m:Q": ("x (m)", ".0f"), "y_m:Q": ("y (m)", ".0f")})
    people = alt.Chart(users).mark_circle(stroke=INK, strokeWidth=0.5)
    people = people.encode(**place, color=colour, size=size, opacity=opacity, tooltip=tips)
    schemes = theme.scheme_looks(scenario)
    hues = alt.Scale(domain=list(schemes), range=[look.colour for look in schemes.values()])
    areas = {name: float(RING + WIDER * k) for k, name in enumerate(schemes)}
    ringed = scheduled.select("scheme", "user").join(users, on="user", maintain_order="left")
    ringed = ringed.with_columns(area=pl.col("scheme").replace_strict(areas, return_dtype=pl.Float64))
    rings = (
        alt.Chart(ringed)
        .mark_point(filled=False, strokeWidth=2)
        .encode(
            **place,
            stroke=alt.Stroke(
                "scheme:N", title="Scheduled by", scale=hues, legend=theme.legend("circle", symbolStrokeWidth=2)
            ),
            size=alt.Size("area:Q", scale=None),
            opacity=opacity,
        )
    )
    layers, subtitle = [people, rings], f"realization {first}; {RINGED}"
    if located:
        chosen = users.row(0, named=True)
        below, above = _stations(links.filter(user=chosen["user"]), chosen, place)
        if drawn:
            below = [_grid(network, place), *below]
        layers = [*below, *layers, *above]
        strongest = "" if few else f", the {LINKS} strongest"
        dashed = f"dashed: links of user {chosen['user']}{strongest}"
        subtitle = [f"realization {first}; triangles: stations; {RINGED}", dashed]
    title = alt.TitleParams(heading, subtitle=subtitle)
    side = SIDE if few else 1.5 * SIDE
    layered = alt.layer(*layers).add_params(picked).resolve_scale(size="independent")
    return layered.properties(width=side, height=side, title=title)


def _square(places: np.ndarray, half: float | None) -> list[alt.Scale]:
    """Scales of both axes, as long, that show all `places`, shape (place, 2), with their rings, and `half` around 0.

    Both are centred at 0, and the same, if `half` is given.
    """
    known = places[np.isfinite(places).all(axis=1)]
    low, high = known.min(axis=0), known.max(axis=0)
    if half is not None:
        high = np.full(2, max(half, abs(low).max(), abs(high).max()))
        low = -high
    centre, reach = (low + high) / 2, MARGIN * max((high - low).max() / 2, 1.0)
    return [alt.Scale(domain=[at - reach, at + reach], nice=False) for at in centre.tolist()]


def _grid(network: Network, place: dict[str, alt.X | alt.Y]) -> alt.Chart:
    """The cells' outlines."""
    station = hexagons.stations(network.rings, network.cell_radius_m)
    outline = station[:, None] + hexagons.corners(network.cell_radius_m)[[0, 1, 2, 3, 4, 5, 0]]
    cells = to_table({"cell": range(len(station)), "corner": range(7)}, x_m=outline[..., 0], y_m=outline[..., 1])
    return alt.Chart(cells).mark_line(color=LINE, strokeWidth=1).encode(**place, detail="cell:N", order="corner:Q")


def _stations(
    links: pl.DataFrame, user: dict, place: dict[str, alt.X | alt.Y]
) -> tuple[list[alt.Chart], list[alt.Chart]]:
    """What lies under the users, the strongest links of one; and above, stations with their numbers."""
    links = links.rename({"station_x_m": "x_m", "station_y_m": "y_m"})
    stations = links.select("x_m", "y_m", cell="station")
    links = links.with_columns(
        user_x_m=pl.lit(user["x_m"]), user_y_m=pl.lit(user["y_m"]), gain_db=10 * pl.col("gain").log10()
    )
    links = links.sort("gain", descending=True, maintain_order=True).head(LINKS)
    named = {"user:N": "User", "station:N": "Station"}
    tips = theme.tips(named | {"distance_m:Q": ("Distance (m)", ".0f"), "gain_db:Q": ("Gain (dB)", ".1f")})
    lines = alt.Chart(links).mark_rule(strokeDash=[6, 4], color=INK, strokeWidth=1.2)
    lines = lines.encode(**place, x2="user_x_m:Q", y2="user_y_m:Q", tooltip=tips)
    few, above = len(stations) <= len(CELL_COLOURS), alt.Chart(stations)
    masts = above.mark_point(shape="triangle-up", filled=True, size=150 if few else 60, color="black", opacity=1)
    numbers = above.mark_text(dy=14 if few else 11, fontSize=10, color="black").encode(**place, text="cell:N")
    return [lines], [masts.encode(**place, tooltip=theme.tips({"cell:N": "Station"})), numbers]


def cell_colours(station: np.ndarray, radius: float) -> list[str]:
    """A colour for each cell, of seven, so that cells which touch have different ones.

    `station` holds the stations' places in metres, shape (cell, 2).
    """
    row = np.rint(station[:, 1] / (1.5 * radius))
    column = np.rint(station[:, 0] / (np.sqrt(3) * radius) - row / 2)
    return [CELL_COLOURS[k] for k in (column + 3 * row).astype(int) % len(CELL_COLOURS)]


def objective(scenario: Multicell, tables: dict[str, pl.DataFrame]) -> alt.Chart:
    """Fig. 4: distribution of the normalized objective."""
    frame = tables["outcome"].with_columns(normalized=pl.col("objective") / pl.col("samples"))
    heading = f"Scheduler's objective, gamma = {scenario.schedule.gamma:g}"
    return theme.cdf(frame, "normalized", scenario, heading, "Objective (20) / number of samples")


def gap(scenario: Multicell, tables: dict[str, pl.DataFrame]) -> alt.Chart:
    """Distribution of the objective's gap to what no schedule goes below."""
    title = f"Gap to the bound (linear up to {GAP_LINEAR:.2%}, then logarithmic)"
    heading = f"How far schedules are from a lower bound on the objective (20), gamma = {scenario.schedule.gamma:g}"
    finite = tables["outcome"].filter(pl.col("objective_gap").is_finite())
    if finite.is_empty():
        return theme.empty("no lower bound is known: this noise is not what (20)-(22) ask for", heading)
    scale = alt.Scale(type="symlog", constant=GAP_LINEAR, nice=False)  # optimal schedules, too, whose gap is 0
    least, most = ends_of(finite["objective_gap"])
    digits = (1, 2, 5) if least > most / 100 else (1,)
    ticks = [0, *(GAP_LINEAR * digit * 10.0**k for k in range(7) for digit in digits)]
    ticks = alt.Axis(values=ticks, format=".4~%")
    x = fitted(alt.X("objective_gap:Q", title=title, scale=scale, axis=ticks), finite["objective_gap"])
    return theme.cdf(finite, "objective_gap", scenario, heading, title, x=x)


def leakage(scenario: Multicell, tables: dict[str, pl.DataFrame]) -> alt.Chart | alt.LayerChart:
    """Fig. 5 (e), (f): distribution of rho over users and realizations, with the bound of (22) where noise obeys it."""
    heading = f"Privacy leakage after {scenario.training.rounds} rounds"
    bounded = any(scheme.noise in LIMITED for scheme in scenario.schemes)
    bound = leakage_bound(scenario)
    also = [bound] * bounded
    chart = theme.cdf(tables["leakage"], "rho", scenario, heading, LEAKAGE, "scheduled users", also)
    if not bounded:
        return chart
    return theme.referenced(chart, bound, f"bound by (22): {bound:.3g}", "x", LEAKAGE)


def tradeoff(scenario: Multicell, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Final accuracy against the record-level epsilon of each trained realization; a line: a scheme without noise."""
    epsilon = pl.col("epsilon").round_sig_figs(6)  # those set for one target differ in later digits
    each = realizations(tables).drop_nulls("accuracy")
    frame = each.select("scheme", "realization", "accuracy", epsilon).drop_nulls()
    mean = frame.group_by("scheme", maintain_order=True).agg(pl.col("accuracy", "epsilon").mean())
    private = pl.col("epsilon").is_finite()
    mean, bare = mean.filter(private), mean.filter(~private)
    count, shown = frame["realization"].n_unique(), frame.filter(private & (pl.col("realization") < DOTS))
    subtitle = f"dots: the first {plural(min(count, DOTS))}; large: means over {count}"
    subtitle += "; line: mean without noise, no privacy" if len(bare) else ""
    subtitle = [subtitle, *unscheduled.lines(unscheduled.counted(each), unscheduled.LEFT_OUT)]
    colour, chosen, opacity = theme.scheme_colour(scenario, symbol=None)
    axis = f"Record-level epsilon at delta = {scenario.privacy.delta:g}"
    x = fitted(alt.X("epsilon:Q", title=axis), shown["epsilon"], mean["epsilon"])
    y = theme.accuracy_axis("accuracy:Q", "Final test accuracy")
    levels = chance.scenario_levels(scenario, tables["history"])
    y, levels = leveled(y, levels, *(part["accuracy"] for part in (shown, mean, bare)), most=1)
    shared = {"x": x, "y": y, "color": colour, "shape": theme.scheme_shape(scenario)}
    tips = {"scheme:N": "Scheme", "epsilon:Q": ("Record-level epsilon", ".3f")}
    tips |= {"accuracy:Q": ("Final test accuracy", ".1%")}
    of_dot = theme.tips({"realization:N": "Realization"} | tips)
    points = alt.Chart(shown).mark_point(filled=True, size=45)
    points = points.encode(**shared, tooltip=of_dot, opacity=theme.faded(chosen, 0.55, 0.05))
    means = alt.Chart(mean).mark_point(size=260, filled=True, stroke="black", strokeWidth=1)
    means = means.encode(**shared, tooltip=theme.tips(tips), opacity=opacity)
    title = alt.TitleParams("Accuracy against privacy", subtitle=subtitle)
    layers = [points, means, *levels]
    if len(bare):
        of_line = theme.tips({"scheme:N": "Scheme", "accuracy:Q": tips["accuracy:Q"]})
        rule = alt.Chart(bare).mark_rule(strokeWidth=2.5)
        layers.append(rule.encode(y=shared["y"], color=colour, opacity=opacity, tooltip=of_line))
    return theme.sized(alt.layer(*layers).add_params(chosen), title)


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
    """The tables summary, realizations, history and statuses of a scenario."""
    each = realizations(tables).join(
        not_lowered(scenario, tables["leakage"]), on=KEYS, how="left", maintain_order="left"
    )
    limit = scenario.privacy.max_noise_error * (1 + 1e-9)
    summary = results.summary(
        scenario,
        each,
        ["objective_per_sample", "objective_gap", "scheduled", "scheduled_samples", *results.FINAL, *PRIVACY],
        pl.col("objective_gap").max().alias("objective_gap_max"),
        pl.col("proven_optimal").sum(),
        pl.col("rho_worst_user").max().alias("rho_worst_overall"),
        pl.col("epsilon").max().alias("epsilon_max"),
        pl.col("epsilon_user").max().alias("epsilon_user_max"),
        pl.col("rho_worst_case", "epsilon_worst_case", "rho_own_noise").max(),
        pl.col([f"epsilon_observer_{seen}" for seen in ("user", "cell", "network")]).max(),
        pl.col("epsilon_dithers_known").max(),
        (pl.col("noise_error") > limit).sum().alias("noise_error_exceeded"),
        *results.trainings("trained", "diverged", "noise_infeasible"),
        pl.col("no_user_scheduled").sum(),
    )
    median = tables["leakage"].group_by("scheme", maintain_order=True).agg(rho_median=pl.col("rho").median())
    return {
        "summary": summary.join(median, on="scheme", how="left", maintain_order="left"),
        "realizations": each,
        "history": tables["history"],
        "statuses": results.statuses(tables),
    }


def realizations(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """The outcome of each realization and scheme, with its final accuracy and loss where trained."""
    each = results.realizations(tables, pl.col("scheduled") == 0)
    return each.with_columns(
        objective_per_sample=pl.col("objective") / pl.col("samples"),
        samples_per_scheduled=pl.when(pl.col("scheduled") > 0).then(pl.col("scheduled_samples") / pl.col("scheduled")),
    )


def not_lowered(scenario: Multicell, leakage: pl.DataFrame) -> pl.DataFrame:
    """The share of users who leak no less than with the noise that their scheduler starts from, `rho_not_lowered`.

    Of the scheduled users who leak anything with that noise. A row for each scheme and realization; none for schemes
    whose scheduler has no scheme with the noise `random`.
    """
    start = {each.scheduler: each.name for each in scenario.schemes if each.noise == "random"}
    others = {each.name: start[each.scheduler] for each in scenario.schemes if each.scheduler in start}
    names = [(name, before) for name, before in others.items() if name != before]
    pairs = pl.DataFrame(names, schema={"scheme": pl.String, "before": pl.String}, orient="row")
    rho = leakage.select(pl.col("scheme").cast(pl.String), "realization", "user", "rho")
    before = rho.filter(pl.col("rho") > 0).rename({"scheme": "before", "rho": "rho_before"})
    share = (pl.col("rho") >= pl.col("rho_before")).mean().alias("rho_not_lowered")
    both = rho.join(pairs, on="scheme").join(before, on=["before", "realization", "user"])
    return both.group_by(KEYS).agg(share).cast({"scheme": leakage.schema["scheme"]})


def published(_scenario: Multicell, each: pl.DataFrame) -> list[Loss]:
    """What each training costs its worst record."""
    orders = each["order_server"].fill_null(float("inf"))
    return [Loss(rho=rho, order=order) for rho, order in zip(each["rho_server"], orders, strict=True)]
