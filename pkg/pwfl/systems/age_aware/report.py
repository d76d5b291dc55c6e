"""Figures and tables of the system `age_aware`."""

import textwrap
from math import isfinite, log10

import altair as alt
import polars as pl

from pwfl.privacy.composition import Loss
from pwfl.report import results, theme
from pwfl.report.axes import fitted, pixels
from pwfl.report.columns import TERMS
from pwfl.report.drawing import INK
from pwfl.report.words import plural
from pwfl.systems.age_aware.catalog import CATALOG
from pwfl.systems.age_aware.claims import FORMS, NOISE_FIRST, PROPOSED
from pwfl.systems.age_aware.parameters import AgeAware
from pwfl.systems.age_aware.tables import FORMULAS
from pwfl.tables.arrays import size_of

COMPARABILITY = (
    "One upload of a mean of a few numbers that change in time, no classifier, so no accuracy. epsilon is about the "
    "data as they are when the model is used, older data were collected. No radio model, so no "
    "seconds and no energy."
)
KEYS = ["scheme", "realization", "case"]
LOSSES = ["loss_difference_wh2", "expected_loss_difference_wh2", "paired_bound_wh2", "separate_bound_wh2"]
AVERAGED = [*LOSSES, "noise_power_wh2", "epsilon", *FORMULAS]
VARIATIONS = {
    "total_variation": "exact",
    "total_variation_bound": "provable bound",
    "spectral_decay": "decay without its constant",
}
DASHES = [[1000, 0], [6, 4], [2, 3]]  # of curves: solid if exact or simulated, then others
EVERY = "all (T + 1)^N schedules"
SEARCH = "Cost of finding the best schedule"
TIMES = "When clients collect their data"
NEGLIGIBLE = 1e-9  # total variation distance up to which nothing is drawn on the logarithmic axis
SHOWN, PANEL = 3, 250  # largest number of chains or clients in a figure; width of a panel
LOG = alt.Scale(type="log")
TARGET = alt.X("target_epsilon:Q", title="Target: record-level epsilon at T, delta = 0", scale=LOG)


def aging(scenario: AgeAware, tables: dict[str, pl.DataFrame]) -> alt.HConcatChart:
    """Draw the total variation distance of each chain's reverse kernel, and its bounds, over the data's age."""
    first = tables["users"].filter(pl.col("realization") == pl.col("realization").min())
    one_each = first.unique("chain", keep="first", maintain_order=True).head(SHOWN)
    frame = (
        tables["links"]
        .join(one_each.select("realization", "user", "chain"), on=["realization", "user"])
        .unpivot(list(VARIATIONS), index=["chain", "age"], variable_name="curve", value_name="distance")
        .with_columns(pl.col("curve").replace(VARIATIONS))
        .filter(pl.col("distance") > NEGLIGIBLE)
    )
    x = fitted(alt.X("age:Q", title="Age T - t (steps)"), 0.0, frame["age"], room=0)
    y = fitted(alt.Y("distance:Q", title="Total variation distance", scale=LOG), frame["distance"])
    panels = []
    for chain in one_each["chain"]:
        lines = []
        for name, dash in zip(VARIATIONS.values(), DASHES, strict=True):
            line = alt.Chart(frame.filter(chain=chain, curve=name))
            lines.append(line.mark_line(color=INK, strokeDash=dash).encode(x=x, y=y))
        panels.append(alt.layer(*lines).properties(width=PANEL, height=PANEL, title=f"Chain {chain}"))
    last = frame.filter(chain=one_each["chain"][-1]).sort("age", maintain_order=True)
    last = last.group_by("curve", maintain_order=True).last()
    places = pixels(y, last["distance"], PANEL)
    ends = ((name, float(at), INK) for name, at in zip(last["curve"], places, strict=True))
    panels[-1] = alt.layer(panels[-1], *theme.name_ends(ends, PANEL, PANEL))
    chains = plural(first["chain"].n_unique(), "chain")
    subtitle = f"computed, without realizations; {len(panels)} of {chains}"
    return alt.hconcat(*panels, title=alt.TitleParams("How fast a chain forgets", subtitle=subtitle))


def sweep(scenario: AgeAware, tables: dict[str, pl.DataFrame]) -> alt.HConcatChart | alt.LayerChart:
    """Fig. 2: draw loss difference and bound over one client's collection time; the other clients collect at T."""
    frame = swept(scenario, tables)
    if frame.is_empty():
        why = "no scheme sweeps a client's collection time"
        return theme.empty(why, "One client's collection time")
    # One scheme is enough for the figure; the table contains all.
    frame = frame.filter(pl.col("scheme") == pl.col("scheme").first())
    trained = tables["history"].filter(pl.col("scheme") == frame["scheme"][0])["realization"].n_unique()
    fresh = frame.filter(pl.col("swept_time") == pl.col("swept_time").max()).row(0, named=True)
    expected = "expected_loss_difference_wh2_mean"
    # One scale for all panels, from the largest gain by age.
    room = max(fresh[expected] - frame[expected].min(), abs(fresh[expected]) / 10, 1e-9)
    columns = []
    for (user,), part in frame.group_by("swept_user", maintain_order=True):
        losses = _near(part, LOSSES[:2], "Loss difference (Wh²)", room)
        bound = _near(part, LOSSES[2:3], "This project's bound, paired (Wh²)", room)
        columns.append(alt.vconcat(losses, bound, title=f"Client {user}"))
    title = alt.TitleParams(
        f"One client's collection time, the others fresh, record-level epsilon = {fresh['target_epsilon']:g} at T",
        subtitle=[
            f"solid: simulated, mean and 95% band over {plural(trained)}; dashed: expected, closed form",
            "diamonds: minima; what old data cost beyond the axis is cut off",
        ],
    )
    return alt.hconcat(*columns, title=title)


def _near(frame: pl.DataFrame, columns: list[str], title: str, room: float) -> alt.LayerChart:
    """Draw curves of one swept client; the axis extends 2 `room` below and 3 `room` above the value of fresh data."""
    closed = f"{columns[-1]}_mean"
    frame = frame.sort("swept_time")
    fresh = frame[closed][-1]
    times = alt.Scale(domain=[0, frame["swept_time"].max()], nice=False)
    x = alt.X("swept_time:Q", title="Collection time t (steps)", scale=times)
    y = alt.Y(f"{closed}:Q", title=title, scale=alt.Scale(nice=False))
    y = fitted(y, [fresh - 2 * room, fresh + 3 * room, frame[closed].min()], room=0)
    y["scale"].zero = False  # otherwise the band's axis would include zero
    base, layers = alt.Chart(frame, width=PANEL, height=190).encode(x=x), []
    for column, dash in zip(columns, DASHES, strict=False):
        along = y.copy()
        along.shorthand = f"{column}_mean:Q"
        band = base.mark_area(clip=True, opacity=0.2, color=INK)
        layers += [band.encode(y=f"{column}_ci_low:Q", y2=f"{column}_ci_high:Q")] * (column == LOSSES[0])
        layers.append(base.mark_line(clip=True, color=INK, strokeDash=dash).encode(y=along))
    best = alt.Chart(frame.sort(closed).head(1)).mark_point(
        size=110, filled=True, shape="diamond", clip=True, color=INK
    )
    return alt.layer(*layers, best.encode(x=x, y=y))


def loss(scenario: AgeAware, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Fig. 3 (a): draw the simulated loss difference over the privacy target."""
    value = "loss_difference_wh2"
    frame = realizations(tables).drop_nulls(value)
    means = theme.means(frame, ["scheme", "target_epsilon"], [value], scenario.system)
    shown = [end for part in theme.ends(means, value) for end in part.drop_nulls() if isfinite(end)]
    ticks = _ticks(min(shown), max(shown)) if shown else []
    y = alt.Y(
        title="Simulated loss difference (Wh², symmetric log)",
        scale=alt.Scale(type="symlog", constant=1),
        axis=alt.Axis(values=ticks or alt.Undefined, format=".6~g", labelOverlap="greedy"),
    )
    return _over_target(frame, value, scenario, "Loss difference", y)


def _ticks(least: float, most: float) -> list[float]:
    """Return round tick values of both signs for a symmetric logarithmic axis, linear up to about 1."""
    sizes = [digit * 10.0**power for power in range(-1, 9) for digit in (1, 2, 5)]
    small = 0.5 if max(abs(least), abs(most)) > 3 else 0.1
    signed = sorted([0.0, *sizes, *(-size for size in sizes)])
    return [x for x in signed if x == 0 or (least <= x <= most and abs(x) >= small)]


def noise(scenario: AgeAware, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Fig. 3 (b): draw the variance of the model's noise over the privacy target, for schemes that add any."""
    value, rows = "noise_power_wh2", realizations(tables)
    frame = rows.filter(pl.col(value) > 0)
    heading = "Noise power" if len(frame) == len(rows) else "Noise power, of schemes with noise"
    return _over_target(frame, value, scenario, heading, alt.Y(title="Noise power (Wh²)", scale=LOG))


def _over_target(frame: pl.DataFrame, value: str, scenario: AgeAware, title: str, y: alt.Y) -> alt.LayerChart:
    """Draw means over realizations, with confidence bands, over the privacy target."""
    means = theme.means(frame, ["scheme", "target_epsilon"], [value], scenario.system)
    if means.is_empty():
        return theme.empty("nothing was trained for a privacy target", title)
    over = theme.band_over(frame["realization"].n_unique())
    schemes, target = _target_schemes(scenario, means)
    if not target:
        title = alt.TitleParams(title, subtitle=[over, *_minimized(scenario, schemes)])
        return theme.band(means, value, scenario, title, y, TARGET)
    y = fitted(y, *theme.ends(means, value))
    means = theme.within(means, value, *y["scale"]["domain"])
    rows = alt.Chart(means, width=theme.WIDTH, height=alt.Step(28)).encode(**_rows(scenario, schemes))
    x = alt.X(f"{value}_mean:Q", title=y["title"], scale=y["scale"], axis=y["axis"])
    bars = rows.mark_rule(strokeWidth=2.5).encode(x=f"{value}_ci_low:Q", x2=f"{value}_ci_high:Q")
    dots = rows.mark_point(filled=True, size=90).encode(x=x)
    subtitle = [over.replace("band", "interval"), target, *_minimized(scenario, schemes)]
    return (bars + dots).properties(title=alt.TitleParams(title, subtitle=subtitle))


def _target_schemes(scenario: AgeAware, frame: pl.DataFrame) -> tuple[list, str]:
    """Return the schemes that meet privacy targets (no sweeps), and a phrase for the target if there is only one."""
    targets = frame["target_epsilon"].unique()
    single = f"privacy target, record-level epsilon = {targets[0]:g} at T" if len(targets) == 1 else ""
    return [scheme for scheme in scenario.schemes if scheme.scheduler != "sweep"], single


def _minimized(scenario: AgeAware, schemes: list) -> list[str]:
    """Return a subtitle line on the bound that proposed schemes minimize, in a list; empty without such schemes."""
    proposed = any((scheme.scheduler, scheme.noise) in (*PROPOSED, NOISE_FIRST) for scheme in schemes)
    return [f"proposed: minimizes {FORMS[scenario.schedule.bound]}"] * proposed


def _rows(scenario: AgeAware, schemes: list) -> dict:
    """Encode one coloured row per scheme, for a single target, over which no curve can be drawn."""
    colours = theme.scenario_colours(scenario, schemes)
    return {"y": alt.Y("scheme:N", title=None, sort=list(colours)), "color": theme.coloured_by(colours)}


def times(scenario: AgeAware, tables: dict[str, pl.DataFrame]) -> alt.HConcatChart | alt.Chart:
    """Draw collection times of the first clients over the privacy target, means over realizations."""
    leakage = tables["leakage"]
    frame = (
        not_swept(leakage, tables)
        .filter(pl.col("user") < SHOWN)
        .group_by("scheme", "user", "target_epsilon", maintain_order=True)
        .agg(time=pl.col("collection_time").mean())
    )
    if frame.is_empty():
        return theme.empty("no scheme meets privacy targets", TIMES)
    schemes, target = _target_schemes(scenario, frame)
    highest = (leakage["collection_time"] + leakage["age"]).max()
    time = {"title": "Collection time t (steps)", "scale": alt.Scale(domain=[0, highest], nice=False)}
    colours, x = theme.scenario_colours(scenario, schemes), fitted(TARGET, frame["target_epsilon"])
    panels = []
    for (user,), part in frame.group_by("user", maintain_order=True):
        panel = alt.Chart(part, width=PANEL, title=f"Client {user}")
        if target:
            rows = _rows(scenario, schemes)
            rows["y"].axis.labels = not panels  # only in the first panel
            panel = panel.mark_point(filled=True, size=90).encode(x=alt.X("time:Q", **time), **rows)
            panels.append(panel.properties(height=alt.Step(28)))
        else:
            line = panel.mark_line(point=True).properties(height=PANEL)
            panels.append(line.encode(x=x, y=alt.Y("time:Q", **time), color=theme.coloured_by(colours)))
    if not target:
        last = part.sort("target_epsilon", maintain_order=True).group_by("scheme", maintain_order=True).last()
        ends = [(name, PANEL * (1 - at / highest), colours[name]) for name, at in last.select("scheme", "time").rows()]
        panels[-1] = alt.layer(panels[-1], *theme.name_ends(ends, PANEL, PANEL))
    clients = plural(leakage["user"].n_unique(), "client")
    over = f"{len(panels)} of {clients}; means over {plural(leakage['realization'].n_unique())}"
    subtitle = [over, *filter(None, [target]), *_minimized(scenario, schemes)]
    return alt.hconcat(*panels, title=alt.TitleParams(TIMES, subtitle=subtitle))


def search(scenarios: dict[str, dict]) -> alt.Chart:
    """Draw the number of terms that searches for the bound's minimum evaluate, and of all schedules, over clients."""
    rows = []
    for name, content in scenarios.items():
        for scheme in content["scenario"].schemes:
            summary = content["summary"].filter(pl.col("scheme") == scheme.name)
            if (scheme.scheduler, scheme.noise) in PROPOSED and len(summary):
                row = summary.row(0, named=True)
                size = (name, row["clients"], row["horizon"])
                rows.append((*size, f"search, {scheme.noise} noise", log10(max(row["evaluations"], 1))))
                rows.append((*size, EVERY, row["log10_schedules"]))
    schema = {"scenario": pl.String, "clients": pl.Int64, "horizon": pl.Int64, "search": pl.String, "cost": pl.Float64}
    frame = pl.DataFrame(rows, schema=schema, orient="row").unique(maintain_order=True)
    if frame.is_empty():
        return theme.empty("no scheme searches for a schedule", SEARCH)
    colours = {f"search, {rule} noise": CATALOG.colours[scheduler, rule] for scheduler, rule in PROPOSED} | {EVERY: INK}
    areas = dict(
        zip(colours, (60.0, 260.0, 90.0), strict=True)
    )  # of hollow marks, different as nearly equal costs overlap
    frame = frame.with_columns(area=pl.col("search").replace_strict(areas, return_dtype=pl.Float64))
    powers = [d * 10**p for p in range(3) for d in (1, 2, 5) if d * 10**p <= frame["cost"].max()]
    clients = alt.Axis(values=sorted(set(frame["clients"])))
    exponents = alt.Axis(values=powers, labelExpr="'1e' + datum.value")
    title = "Evaluations (their exponents on a logarithmic axis)"
    x = fitted(alt.X("clients:Q", title="Clients N", scale=LOG, axis=clients), frame["clients"], room=0.1)
    y = fitted(alt.Y("cost:Q", title=title, scale=LOG, axis=exponents), frame["cost"])
    chart = alt.Chart(frame).mark_point(strokeWidth=2, filled=False)
    chart = chart.encode(x=x, y=y, color=theme.coloured_by(colours, "search"), size=alt.Size("area:Q", scale=None))
    last = frame.sort("clients", maintain_order=True).group_by("search", maintain_order=True).last()
    places = pixels(y, last["cost"], theme.HEIGHT)
    ends = [(name, float(at), colours[name]) for name, at in zip(last["search"], places, strict=True)]
    sizes = frame.unique("scenario", maintain_order=True).iter_rows(named=True)
    subtitle = "; ".join(f"{row['scenario']}: N = {row['clients']}, T = {row['horizon']}" for row in sizes)
    heading = alt.TitleParams(SEARCH, subtitle=[*textwrap.wrap(subtitle, 90), "means over realizations"])
    return theme.sized(alt.layer(chart, *theme.name_ends(ends)), heading)


FIGURES = {"aging": aging, "sweep": sweep, "loss": loss, "noise": noise, "times": times}
COMPARISON_FIGURES = {"search": search}


def summarize(scenario: AgeAware, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Make the tables summary, realizations, history, statuses and sweep of a scenario."""
    rows = realizations(tables)
    keys = ["scheme", "target_epsilon"]
    counts = rows.group_by(keys, maintain_order=True).agg(
        realizations=pl.len(),
        trained=pl.col("loss_difference_wh2").count(),
        epsilon_max=pl.col("epsilon").max(),
        epsilon_understated=pl.col("epsilon_understated").max(),
        target_missed=(~pl.col("target_met")).sum(),
        channel_uses=pl.col("channel_uses").mean(),
        epsilon_user_max=pl.col("epsilon_user").max(),
        epsilon_user_classical_max=pl.col("epsilon_user_classical").max(),
        **{term: pl.col(term).first() for term in TERMS},
    )
    searched = tables["schedule_status"].filter(pl.col("swept_user").is_null()).group_by(keys, maintain_order=True)
    leakage, summary = tables["leakage"], theme.means(rows, keys, AVERAGED, scenario.system)
    for other in (counts, searched.agg(pl.col("evaluations", "log10_schedules").mean())):
        summary = summary.join(other, on=keys, maintain_order="left")
    summary = summary.with_columns(
        clients=pl.lit(size_of(leakage, "user")), horizon=pl.lit((leakage["collection_time"] + leakage["age"]).max())
    )
    parts = {"summary": summary, "realizations": rows, "history": tables["history"]}
    return parts | {"statuses": results.statuses(tables), "sweep": swept(scenario, tables)}


def realizations(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Return the outcome by scheme, realization and privacy target, with the simulated loss difference if trained."""
    simulated = tables["history"].select(*KEYS, "loss_difference_wh2")
    return not_swept(tables["outcome"], tables).join(simulated, on=KEYS, how="left", maintain_order="left")


def published(_scenario: AgeAware, rows: pl.DataFrame) -> list[Loss]:
    """Return each training run's privacy loss of a record, for all its values over time and any distribution.

    A release at any time is a Laplace mechanism on the record's value at that time, so epsilons about data as collected
    add up. Amplified epsilons, about the value at T only, do not: several releases reveal information about one chain.
    Each case of a scheme has independent noise, and is a release.
    """
    return [Loss(pure=epsilon, own_records=True) for epsilon in rows["epsilon_server"]]


def not_swept(frame: pl.DataFrame, tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Select the rows of schemes that meet targets, without those of a sweep."""
    sweeps = tables["schedule_status"].filter(pl.col("swept_user").is_not_null())["scheme"].unique()
    return frame.filter(~pl.col("scheme").is_in(sweeps.implode()))


def swept(scenario: "AgeAware", tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Compute means and 95% intervals over trained realizations for each step of each sweep."""
    step = ["target_epsilon", "swept_user", "swept_time"]
    frame = tables["schedule_status"].filter(pl.col("swept_user").is_not_null()).select(*KEYS, *step)
    for table in ("outcome", "history"):
        frame = frame.join(tables[table].drop("target_epsilon"), on=KEYS, maintain_order="left")
    return theme.means(frame, ["scheme", *step], AVERAGED, scenario.system)
