"""Figures and tables of the system `utility_fair`."""

from collections.abc import Callable
from functools import partial

import altair as alt
import polars as pl
from polars.dataframe.group_by import GroupBy

from pwfl.learning.partition import USER_ACCURACIES
from pwfl.report import chance, results, theme, unscheduled
from pwfl.report.axes import fitted
from pwfl.report.claims import INCONCLUSIVE, REFUTED, SUPPORTED, Band, Reported
from pwfl.report.columns import total
from pwfl.report.drawing import RULE
from pwfl.report.words import plural, ranged
from pwfl.systems.utility_fair.claims import CLAIMS, SHARED_NOISE, claims
from pwfl.systems.utility_fair.parameters import UtilityFair
from pwfl.tables.contract import limits

COMPARABILITY = (
    "Noisy are the copies of the model that devices get, so not the access point's, which accuracies are of. Unless "
    "privacy.uploads is noisy, devices send updates without noise, nothing is hidden from the access point, and "
    "epsilon is against devices that pool their copies. Nothing enforces the sensitivity."
)
KEYS = ["scheme", "realization"]
CLAIM_HEIGHT, READABLE = 70, 11  # pixels of a claim's rows, if they are many, and of a row that has its name
OUTSIDE = "outside the paper's setting"
OTHERS = ("user", "server", "printed", "copy", "round", "device", "upload", "worst_case")
EPSILONS = ["epsilon", *(f"epsilon_{of}" for of in OTHERS)]
LEARNED = ["accuracy", "loss", *USER_ACCURACIES]
# Columns of `devices`, and their standard deviations over devices in `realizations`.
SPREADS = {"energy_j": "energy_std_j", "learning_gain": "learning_gain_std", "utility": "utility_std"}
ROUNDS = ["batch_loss", "batch_loss_std", "deviation", *SPREADS, *SPREADS.values()]
SPENT = ["channel_uses", "air_seconds", "transmit_energy_j"]


def loss(scenario: UtilityFair, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Fig. 1: mean over devices of the training loss of their copies, over rounds."""
    y = alt.Y(title="Mean training loss over devices (nats)")
    return _curve(scenario, tables["history"], "batch_loss", pl.Expr.mean, "Training loss", y)


def spread(scenario: UtilityFair, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Standard deviation over devices of the training loss, over rounds."""
    y = alt.Y(title="Standard deviation over devices (nats)")
    spread = partial(pl.Expr.std, ddof=0)
    return _curve(scenario, tables["history"], "batch_loss", spread, "Spread of the training loss", y)


def accuracy(scenario: UtilityFair, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Test accuracy of the access point's model, over rounds."""
    title = "Test accuracy of the access point's model"
    levels = chance.scenario_levels(scenario, tables["history"])
    return _curve(scenario, tables["history"], "accuracy", pl.Expr.first, title, theme.accuracy_axis(), levels)


def accuracy_seconds(scenario: UtilityFair, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Test accuracy of the access point's model, over the seconds on air."""
    return results.accuracy_seconds(scenario, {"history": _of_rounds(tables["history"])})


def accuracy_joules(scenario: UtilityFair, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Test accuracy of the access point's model, over the energy that all devices have radiated."""
    return results.accuracy_joules(scenario, {"history": _of_rounds(tables["history"])})


def energy(scenario: UtilityFair, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Fig. 2: each device's mean energy of a round over its path loss, with regression lines."""
    frame = devices(tables).with_columns(energy_mj=1000 * pl.col("energy_j"))
    title, y = "Energy of a device's round", "Mean energy of a round (mJ)"
    return _over_path_loss(scenario, frame, "energy_mj", title, y, regression=True)


def utility(scenario: UtilityFair, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Each device's mean utility of a round over its path loss, with regression lines."""
    title, y = "Utility of a device's round", "Mean utility (18) of a round"
    return _over_path_loss(scenario, devices(tables), "utility", title, y, regression=True)


def power(scenario: UtilityFair, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Each device's mean transmit power over its path loss."""
    frame = devices(tables).with_columns(power_mw=1000 * pl.col("power_w")).filter(pl.col("power_mw") > 0)
    title, y = "Transmit power of a device", "Mean transmit power (mW)"
    return _over_path_loss(scenario, frame, "power_mw", title, y, regression=False)


def deviation(scenario: UtilityFair, tables: dict[str, pl.DataFrame]) -> alt.Chart:
    """Distribution of the deviation factors over rounds, devices and realizations."""
    title, axis = "How far devices' updates deviate", "Deviation factor E (15)"
    return theme.cdf(_sound(tables["history"]), "deviation", scenario, title, axis, "rounds and devices")


def robustness(scenarios: dict[str, dict]) -> alt.VConcatChart:
    """Every claim as measured in each scenario, with its 95% interval and the band it must lie in."""
    shared = pl.col("interpretation").fill_null("").str.starts_with(SHARED_NOISE)
    case = pl.when(shared).then(pl.format("{}, shared noise", "scenario")).otherwise("scenario")
    verdict = pl.col("verdict").fill_null(OUTSIDE)
    measured = claims(scenarios).drop(unscheduled.COLUMN).with_columns(case=case, verdict=verdict)  # the title has it
    colours = {SUPPORTED: "#0072B2", INCONCLUSIVE: "#7F7F7F", REFUTED: "#D55E00", OUTSIDE: "#000000"}
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    colour = alt.Color("verdict:N", title="Claim", legend=theme.legend("circle"), scale=scale)
    zero = alt.Scale(zero=False, padding=12)
    interval = {
        "measured:Q": ("Measured", ".4g"),
        "measured_ci_low:Q": ("95% from", ".4g"),
        "measured_ci_high:Q": ("95% to", ".4g"),
    }
    tips = theme.tips({"case:N": "Scenario", "quantity:N": "Quantity", "required_range:N": "Required"} | interval)
    panels, step = [], min(24.0, max(1.5, CLAIM_HEIGHT / len(scenarios)))
    labels = alt.Axis() if step >= READABLE else alt.Axis(labels=False, ticks=False)
    for claim in CLAIMS:
        frame = measured.filter(claim=claim.id)
        base = alt.Chart(frame).encode(y=alt.Y("case:N", title=None, sort=frame["case"].to_list(), axis=labels))
        assert isinstance(claim.required, Band | Reported)  # the same in all scenarios
        required = base.mark_bar(color=RULE, height=alt.RelativeBandSize(1)).encode(**_ends(claim.required))
        x = alt.X("measured_ci_low:Q", scale=zero, title=None, axis=alt.Axis(grid=True))
        line = base.mark_rule(strokeWidth=min(2, step / 2)).encode(x=x, x2="measured_ci_high:Q", color=colour)
        point = base.mark_circle(size=min(80.0, step**2), opacity=1).encode(
            x=alt.X("measured:Q", title=None), color=colour, tooltip=tips
        )
        number = f"{claim.quantity.words}: {claim.declared[0].words}"
        title = alt.TitleParams(f"{claim.id}: {claim.statement}", subtitle=number, fontSize=13, offset=6)
        panels.append((required + line + point).properties(width=theme.WIDTH, height=alt.Step(step), title=title))
    over = ranged(pl.Series([c["realizations"]["realization"].n_unique() for c in scenarios.values()]))
    subtitle = [
        f"dots and lines: measured, with 95% intervals; grey: required range, or the reported number; over {over}"
    ]
    several = pl.concat([unscheduled.counted(unscheduled.known(c["realizations"])) for c in scenarios.values()])
    subtitle += unscheduled.lines(several, width=110)
    title = alt.TitleParams("The paper's claims in each scenario", subtitle=subtitle)
    return alt.vconcat(*panels, spacing=14, title=title).resolve_scale(color="shared")


def _ends(required: Band | Reported) -> dict[str, alt.XDatum | alt.X2Datum | alt.X2Value]:
    """The ends of a claim's range on an axis; from its only end, it extends to the panel's edge."""
    if isinstance(required, Reported):
        return {"x": alt.XDatum(required.least), "x2": alt.X2Datum(required.most)}
    least, most = (next((end for end in ends if end is not None), None) for ends in (required[:2], required[2:]))
    if least is None:
        return {"x": alt.XDatum(most), "x2": alt.X2Value(0)}
    return {"x": alt.XDatum(least), "x2": alt.X2Value(theme.WIDTH) if most is None else alt.X2Datum(most)}


DRAWN = (loss, spread, energy, utility, power, accuracy, accuracy_seconds, accuracy_joules, deviation)
FIGURES = {figure.__name__: figure for figure in DRAWN}
COMPARISON_FIGURES = {"robustness": robustness}


def summarize(scenario: UtilityFair, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The report's tables of a scenario, as `catalog` names them."""
    each, history = realizations(scenario, tables), tables["history"]
    counts = (*results.trainings("trained", "diverged", "nobody_took_part"), pl.col("rounds_out").sum())
    rounds = history.unique([*KEYS, "round"], keep="first", maintain_order=True)
    return {
        "summary": results.summary(scenario, each, [*ROUNDS, *LEARNED, *SPENT], *counts, pl.col(EPSILONS).max()),
        "realizations": each,
        "devices": devices(tables),
        "leakage": tables["leakage"].drop("realization", "device").unique(maintain_order=True),
        "history": history,
        "statuses": results.statuses(tables, train=rounds),
    }


def realizations(scenario: UtilityFair, tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """The outcome of each realization and scheme, with what its training came to.

    `batch_loss` is the mean over devices and rounds from the second on, `batch_loss_std` the mean over these rounds of
    the standard deviation over devices. `energy_j`, `learning_gain` and `utility` are means over devices and rounds,
    and those of SPREADS the standard deviations over devices of their means over rounds. A realization that diverged
    has none of them. Where training decides on powers, symbols and seconds on air, radiated energy and local steps are
    those it came to.
    """
    diverged, nobody = (pl.col("status") == "diverged").any(), (pl.col("status") == "nobody_took_part").all()
    failed = pl.when(diverged).then(pl.lit("diverged")).when(nobody).then(pl.lit("nobody_took_part"))
    last = _grouped(tables["history"]).agg(
        pl.col(LEARNED).sort_by("round").last(),
        training=failed.otherwise(pl.lit("trained")),
        transmit_s=total(pl.col("transmit_s")),
        radiated_j=total(pl.col("transmit_s") * pl.col("power_w")),
        air_s=pl.col("air_seconds_cumulative").max(),
        deviation=pl.col("deviation").mean(),
        iterations=pl.col("iterations").filter(pl.col("iterations") > 0).mean(),
    )
    later = _grouped(tables["history"].filter(pl.col("round") > 1), "round")
    rounds = later.agg(pl.col("batch_loss").mean(), batch_loss_std=pl.col("batch_loss").std(ddof=0))
    losses = _grouped(rounds).agg(pl.col("batch_loss", "batch_loss_std").mean())
    spreads = {spread: pl.col(name).std(ddof=0) for name, spread in SPREADS.items()}
    of_devices = _grouped(devices(tables)).agg(pl.col(*SPREADS).mean(), **spreads)
    frame = tables["outcome"]
    for part in (last, losses, of_devices):
        frame = frame.join(part, on=KEYS, how="left", maintain_order="left")

    def unless_diverged(value: pl.Expr) -> pl.Expr:
        return pl.when(pl.col("training") != "diverged").then(value)

    uses = unless_diverged(pl.col("transmit_s") * scenario.radio.bandwidth_hz)
    return frame.with_columns(
        unless_diverged(pl.col(*LEARNED, *ROUNDS)),
        channel_uses=pl.coalesce("channel_uses", uses),
        air_seconds=pl.coalesce("air_seconds", unless_diverged(pl.col("air_s"))),
        transmit_energy_j=pl.coalesce("transmit_energy_j", unless_diverged(pl.col("radiated_j"))),
        local_steps=pl.coalesce("local_steps", unless_diverged(pl.col("iterations"))),
        **{unscheduled.COLUMN: pl.col("training") == "nobody_took_part"},
    ).drop("transmit_s", "radiated_j", "air_s", "iterations")


def devices(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Each device's path loss, and means over its rounds; trainings that diverged are left out."""
    columns = ("power_w", "iterations", "batch_loss", "deviation", "noise_multiplier")
    means = _grouped(_sound(tables["history"]), "device").agg(pl.col(*SPREADS, *columns).mean())
    place = tables["schedule_status"].select(*KEYS, "device", "path_loss_db", "rounds_out")
    return place.join(means, on=[*KEYS, "device"], how="inner", maintain_order="left")


def _grouped(frame: pl.DataFrame, *by: str) -> GroupBy:
    """The rows of each scheme and realization, and of each value of other columns."""
    return frame.group_by(*KEYS, *by, maintain_order=True)


def _sound(history: pl.DataFrame) -> pl.DataFrame:
    """The rows of trainings that did not diverge."""
    return history.filter((pl.col("status") != "diverged").all().over(KEYS))


def _of_rounds(history: pl.DataFrame) -> pl.DataFrame:
    """The evaluated rounds, a row each, with the status of their training, as `results` takes them."""
    diverged, nobody = (pl.col("status") == "diverged").any(), (pl.col("status") == "nobody_took_part").all()
    status = (
        pl.when(diverged.over(KEYS)).then(pl.lit("diverged")).when(nobody.over(KEYS)).then(pl.lit(unscheduled.COLUMN))
    )
    rounds = history.with_columns(status=status.otherwise(pl.lit("trained"))).drop_nulls("accuracy")
    return rounds.unique([*KEYS, "round"], keep="first", maintain_order=True)


def _curve(
    scenario: UtilityFair,
    history: pl.DataFrame,
    column: str,
    over_devices: Callable[[pl.Expr], pl.Expr],
    title: str,
    y: alt.Y,
    levels: pl.DataFrame | None = None,
) -> alt.LayerChart:
    """Mean over realizations of what a column of each round comes to over devices, with its confidence band.

    That has the column's bounds: a mean or standard deviation of losses is not negative, as they are.
    """
    kept = _sound(history)
    left_out = history.select(KEYS).n_unique() - kept.select(KEYS).n_unique()
    subtitle = theme.band_over(kept["realization"].n_unique())
    subtitle += f"; left out: {left_out} that diverged" if left_out else ""
    subtitle = [subtitle, *unscheduled.lines(unscheduled.counted(unscheduled.find_unscheduled(kept)))]
    rounds = _grouped(kept.drop_nulls(column), "round").agg(value=over_devices(pl.col(column)))
    frame = theme.means(rounds, ["scheme", "round"], ["value"], scenario.system)
    frame = theme.within(frame, "value", *limits(scenario.system, column))
    title = alt.TitleParams(title, subtitle=subtitle)
    return theme.band(frame, "value", scenario, title, y, column=column, levels=levels)


def _over_path_loss(
    scenario: UtilityFair, frame: pl.DataFrame, column: str, title: str, y: str, regression: bool
) -> alt.LayerChart:
    """A dot for each device, scheme by scheme."""
    colour, chosen, opacity = theme.scheme_colour(scenario)
    colour["legend"] = alt.Legend(symbolOpacity=1, symbolDash=theme.SOLID, symbolStrokeWidth=1.2)  # of marks, not lines
    count = frame.select(["realization", "device"]).n_unique()
    subtitle = f"{plural(count, 'device')} of {plural(frame['realization'].n_unique())}"
    subtitle += "; lines: least squares" if regression else ""
    looks = theme.scheme_looks(scenario)
    names = list(looks)
    shape = theme.shapes_of(looks)
    shape["legend"] = colour["legend"]
    # Schemes with equal powers lie on each other: hollow marks of different shapes and sizes let all be seen.
    sizes = [30 + 110 * k for k in range(max(len(names), 2))]  # of a range of one size Vega makes NaN
    x = fitted(alt.X("path_loss_db:Q", title="Path loss (dB)"), frame["path_loss_db"])
    encoded = fitted(alt.Y(f"{column}:Q", title=y), frame[column])
    tips = {"scheme:N": "Scheme", "realization:N": "Realization", "device:N": "Device"}
    tips = {**tips, "path_loss_db:Q": ("Path loss (dB)", ".4g"), f"{column}:Q": (y, ".4g")}
    tips = {**tips, "iterations:Q": ("Mean local iterations", ".4g")}
    base = alt.Chart(frame)
    chart = base.mark_point(filled=False, strokeWidth=1.2).encode(
        x=x,
        y=encoded,
        color=colour,
        shape=shape,
        size=alt.Size("scheme:N", legend=None, scale=alt.Scale(domain=names, range=sizes)),
        tooltip=theme.tips(tips),
        opacity=theme.faded(chosen, 0.8, 0.05),
    )
    layers = [chart]
    if regression:
        several = alt.Chart(frame.filter(pl.col("path_loss_db").n_unique().over("scheme") > 1))
        line = several.transform_regression("path_loss_db", column, groupby=["scheme"])
        line = line.mark_line(strokeWidth=2, clip=True)
        dash = theme.scheme_dash(scenario)
        dash["legend"] = None
        layers.append(line.encode(x=x, y=encoded, color=colour, opacity=opacity, strokeDash=dash))
    return theme.sized(alt.layer(*layers).add_params(chosen), alt.TitleParams(title, subtitle=subtitle))


published = results.gaussian_losses
