"""Figures and tables of the system `utility_fair`."""

import textwrap
from typing import TYPE_CHECKING

import altair as alt
import polars as pl

from pwfl.learning.partition import USER_ACCURACIES
from pwfl.report import results, theme
from pwfl.report.printed import SOLID
from pwfl.systems.utility_fair.claims import CLAIMS, claims

if TYPE_CHECKING:
    from pwfl.systems.utility_fair.parameters import UtilityFair

DIFFERS = (
    "Noisy are the copies of the model that devices get, so not the access point's, which accuracies are of. Unless "
    "privacy.uploads is noisy, devices send updates without noise, nothing is hidden from the access point, and "
    "epsilon_exact is against devices that pool their copies. Nothing enforces the sensitivity."
)
KEYS = ["scheme", "realization"]
DASHES = [*theme.DASHES, [9, 3], [3, 3], [6, 2, 1, 2]]
SHAPES = ["circle", "square", "diamond", "triangle-up", "triangle-down", "cross"]
EPSILONS = [
    "epsilon_exact",
    "epsilon_server",
    "epsilon_printed",
    "epsilon_copy",
    "epsilon_round",
    "epsilon_device",
    "epsilon_upload",
    "epsilon_worst_case",
]
AVERAGED = [
    "loss",
    "loss_std",
    "energy_j",
    "energy_std_j",
    "deviation",
    "accuracy",
    "test_loss",
    *USER_ACCURACIES,
    "channel_uses",
    "air_seconds",
    "transmit_energy_j",
]


def loss(scenario: "UtilityFair", tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Fig. 1: mean over devices of the training loss of their copies, over rounds."""
    return _curve(
        scenario, tables["history"], pl.col("loss").mean(), "Training loss", "Mean training loss over devices (nats)"
    )


def spread(scenario: "UtilityFair", tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Standard deviation over devices of the training loss, over rounds."""
    return _curve(
        scenario,
        tables["history"],
        pl.col("loss").std(ddof=0),
        "Spread of the training loss",
        "Standard deviation over devices (nats)",
    )


def accuracy(scenario: "UtilityFair", tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Test accuracy of the access point's model, over rounds."""
    return _curve(
        scenario,
        tables["history"].drop_nulls("accuracy"),
        pl.col("accuracy").first(),
        "Test accuracy of the access point's model",
        "Test accuracy",
        alt.Axis(format="~%"),
        most=1.0,
    )


def accuracy_seconds(scenario: "UtilityFair", tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Test accuracy of the access point's model, over the seconds on air."""
    return results.accuracy_seconds(scenario, {"history": _of_rounds(tables["history"])})


def accuracy_joules(scenario: "UtilityFair", tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Test accuracy of the access point's model, over the energy that all devices have radiated."""
    return results.accuracy_joules(scenario, {"history": _of_rounds(tables["history"])})


def energy(scenario: "UtilityFair", tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Fig. 2: each device's mean energy of a round over its path loss, with regression lines."""
    frame = devices(tables).with_columns(energy_mj=1000 * pl.col("energy_j"))
    title, y = "Energy of a device's round", "Mean energy of a round (mJ)"
    return _over_path_loss(scenario, frame, "energy_mj", title, y, regression=True)


def power(scenario: "UtilityFair", tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Each device's mean transmit power over its path loss."""
    frame = devices(tables).with_columns(power_mw=1000 * pl.col("power_w")).filter(pl.col("power_mw") > 0)
    title, y = "Transmit power of a device", "Mean transmit power (mW)"
    return _over_path_loss(scenario, frame, "power_mw", title, y, regression=False)


def deviation(scenario: "UtilityFair", tables: dict[str, pl.DataFrame]) -> alt.Chart:
    """Distribution of the deviation factors over rounds, devices and realizations."""
    return theme.cdf(
        _sound(tables["history"]),
        "deviation",
        scenario,
        "How far devices' updates deviate",
        "Deviation factor E (15)",
        "rounds and devices",
    )


def robustness(scenarios: dict[str, dict]) -> alt.VConcatChart:
    """Every claim as measured in each scenario, with its 95% interval and the band it must lie in."""
    measured = claims(scenarios)
    verdicts = {"yes": "holds", "open": "open", "no": "does not hold"}
    colour = alt.Color(
        "verdict:N",
        title="Claim",
        legend=theme.legend("circle"),
        scale=alt.Scale(domain=list(verdicts.values()), range=["#0072B2", "#7F7F7F", "#D55E00"]),
    )
    panels = []
    for claim in CLAIMS:
        frame = measured.filter(pl.col("claim") == claim.text).with_columns(
            verdict=pl.col("holds").replace_strict(verdicts),
            least=pl.lit(claim.band.least),
            most=pl.lit(claim.band.most),
        )
        base = alt.Chart(frame).encode(y=alt.Y("scenario:N", title=None, sort=list(scenarios)))
        tips = theme.tips(
            {
                "scenario:N": "Scenario",
                "required:N": "Required",
                "measured:Q": ("Measured", ".4g"),
                "low:Q": ("95% from", ".4g"),
                "high:Q": ("95% to", ".4g"),
            }
        )
        zero = alt.Scale(zero=False, padding=12)
        required = base.mark_bar(color="#e3e3e3", height=alt.RelativeBandSize(1)).encode(
            x=alt.X("least:Q", scale=zero, title=None), x2="most:Q"
        )
        interval = base.mark_rule(strokeWidth=2).encode(x="low:Q", x2="high:Q", color=colour)
        point = base.mark_circle(size=80, opacity=1).encode(x="measured:Q", color=colour, tooltip=tips)
        title = alt.TitleParams(claim.text, fontSize=13, offset=6)
        panels.append((required + interval + point).properties(width=theme.WIDTH, height=alt.Step(24), title=title))
    counts = {name: content["realizations"]["realization"].n_unique() for name, content in scenarios.items()}
    over = ", ".join(f"{name}: {theme.counted(count)}" for name, count in counts.items())
    subtitle = ["dots and lines: measured, with 95% intervals; grey: where it must lie", *textwrap.wrap(over, 110)]
    title = alt.TitleParams("The paper's claims in each scenario", subtitle=subtitle)
    return alt.vconcat(*panels, spacing=14, title=title).resolve_scale(color="shared")


FIGURES = {
    "loss": loss,
    "spread": spread,
    "energy": energy,
    "power": power,
    "accuracy": accuracy,
    "accuracy_seconds": accuracy_seconds,
    "accuracy_joules": accuracy_joules,
    "deviation": deviation,
}
COMPARISON_FIGURES = {"robustness": robustness}


def summarize(scenario: "UtilityFair", tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The report's tables of a scenario, as `catalog` names them."""
    each = realizations(scenario, tables)
    summary = results.summary(
        each,
        AVERAGED,
        *results.trainings("trained", "diverged", "nobody_took_part"),
        pl.col("rounds_out").sum(),
        pl.col(EPSILONS).max(),
    )
    return {
        "summary": summary,
        "realizations": each,
        "devices": devices(tables),
        "leakage": tables["leakage"].drop("realization", "device").unique(maintain_order=True),
        "history": tables["history"],
        "statuses": results.statuses(
            tables, train=tables["history"].unique([*KEYS, "round"], keep="first", maintain_order=True)
        ),
    }


def realizations(scenario: "UtilityFair", tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """The outcome of each realization and scheme, with what its training came to.

    `loss` is the mean over devices and rounds from the second on, `loss_std` the mean over these rounds of the
    standard deviation over devices, `energy_j` a device's mean energy of a round, and `energy_std_j` the standard
    deviation over devices of their mean energies. A realization that diverged has none of them. Where training
    decides on powers, symbols and seconds on air, radiated energy and local steps are those it came to.
    """
    history = tables["history"]
    last = history.group_by(KEYS, maintain_order=True).agg(
        pl.col("accuracy", "test_loss", *USER_ACCURACIES).sort_by("round").last(),
        training=pl.when((pl.col("status") == "diverged").any())
        .then(pl.lit("diverged"))
        .when((pl.col("status") == "nobody_took_part").all())
        .then(pl.lit("nobody_took_part"))
        .otherwise(pl.lit("trained")),
        transmit_s=pl.col("transmit_s").sum(),
        radiated_j=(pl.col("transmit_s") * pl.col("power_w")).sum(),
        air_s=pl.col("air_seconds_so_far").max(),
        deviation=pl.col("deviation").mean(),
        iterations=pl.col("iterations").filter(pl.col("iterations") > 0).mean(),
    )
    rounds = (
        history.filter(pl.col("round") > 1)
        .group_by(*KEYS, "round", maintain_order=True)
        .agg(pl.col("loss").mean(), loss_std=pl.col("loss").std(ddof=0))
    )
    losses = rounds.group_by(KEYS, maintain_order=True).agg(pl.col("loss", "loss_std").mean())
    energies = (
        devices(tables)
        .group_by(KEYS, maintain_order=True)
        .agg(pl.col("energy_j").mean(), energy_std_j=pl.col("energy_j").std(ddof=0))
    )
    frame = tables["outcome"]
    for part in (last, losses, energies):
        frame = frame.join(part, on=KEYS, how="left", maintain_order="left")
    sound = pl.col("training") != "diverged"
    measured = ("accuracy", "test_loss", *USER_ACCURACIES, "loss", "loss_std", "energy_j", "energy_std_j", "deviation")
    on_air = pl.col("transmit_s") * scenario.radio.bandwidth_hz
    return frame.with_columns(
        *(pl.when(sound).then(pl.col(name)) for name in measured),
        channel_uses=pl.coalesce("channel_uses", pl.when(sound).then(on_air)),
        air_seconds=pl.coalesce("air_seconds", pl.when(sound).then(pl.col("air_s"))),
        transmit_energy_j=pl.coalesce("transmit_energy_j", pl.when(sound).then(pl.col("radiated_j"))),
        local_steps=pl.coalesce("local_steps", pl.when(sound).then(pl.col("iterations"))),
    ).drop("transmit_s", "radiated_j", "air_s", "iterations")


def devices(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Each device's path loss, and means over its rounds; trainings that diverged are left out."""
    means = (
        _sound(tables["history"])
        .group_by(*KEYS, "device", maintain_order=True)
        .agg(pl.col("energy_j", "power_w", "iterations", "loss", "deviation", "noise_multiplier").mean())
    )
    place = tables["schedule_status"].select(*KEYS, "device", "path_loss_db", "rounds_out")
    return place.join(means, on=[*KEYS, "device"], how="inner", maintain_order="left")


def _sound(history: pl.DataFrame) -> pl.DataFrame:
    """The rows of trainings that did not diverge."""
    return history.filter((pl.col("status") != "diverged").all().over(KEYS))


def _of_rounds(history: pl.DataFrame) -> pl.DataFrame:
    """The evaluated rounds, a row each, with the status of their training, as `results` takes them."""
    diverged = (pl.col("status") == "diverged").any().over(KEYS)
    status = pl.when(diverged).then(pl.lit("diverged")).otherwise(pl.lit("trained"))
    rounds = history.with_columns(status=status).drop_nulls("accuracy")
    return rounds.unique([*KEYS, "round"], keep="first", maintain_order=True)


def _curve(
    scenario: "UtilityFair", history: pl.DataFrame, value: pl.Expr, title: str, y: str, axis=alt.Undefined, most=None
):
    """Mean over realizations of a value of each round, with its confidence band."""
    kept = _sound(history)
    rounds = kept.group_by(*KEYS, "round", maintain_order=True).agg(value=value)
    left_out = history.select(KEYS).n_unique() - kept.select(KEYS).n_unique()
    subtitle = theme.band_over(kept["realization"].n_unique())
    subtitle += f"; left out: {left_out} that diverged" if left_out else ""
    frame = theme.means(rounds, ["scheme", "round"], ["value"])
    encoded = alt.Y(title=y, axis=axis, scale=alt.Scale(zero=False))
    return theme.band(frame, "value", scenario, alt.TitleParams(title, subtitle=subtitle), encoded, most=most)


def _over_path_loss(
    scenario: "UtilityFair", frame: pl.DataFrame, column: str, title: str, y: str, regression: bool
) -> alt.LayerChart:
    """A dot for each device, scheme by scheme."""
    colour, chosen, opacity = theme.scheme_colour(scenario)
    colour["legend"] = alt.Legend(symbolOpacity=1, symbolDash=SOLID, symbolStrokeWidth=1.2)  # of marks, not lines
    count = frame.select(["realization", "device"]).n_unique()
    subtitle = f"{theme.counted(count, 'device')} of {theme.counted(frame['realization'].n_unique())}"
    subtitle += "; lines: least squares" if regression else ""
    names = [scheme.name for scheme in scenario.schemes]
    # Schemes with equal powers lie on each other: hollow marks of different shapes and sizes let all be seen.
    shape = alt.Shape("scheme:N", title="Scheme", scale=alt.Scale(domain=names, range=SHAPES))
    size = alt.Size(
        "scheme:N", legend=None, scale=alt.Scale(domain=names, range=[30 + 110 * k for k in range(len(names))])
    )
    x = alt.X("path_loss_db:Q", title="Path loss (dB)", scale=alt.Scale(zero=False))
    encoded = alt.Y(f"{column}:Q", title=y, scale=alt.Scale(zero=False))
    tips = {
        "scheme:N": "Scheme",
        "realization:N": "Realization",
        "device:N": "Device",
        "path_loss_db:Q": ("Path loss (dB)", ".4g"),
        f"{column}:Q": (y, ".4g"),
        "iterations:Q": ("Mean local iterations", ".4g"),
    }
    base = alt.Chart(frame)
    layers = [
        base.mark_point(filled=False, strokeWidth=1.2).encode(
            x=x,
            y=encoded,
            color=colour,
            shape=shape,
            size=size,
            tooltip=theme.tips(tips),
            opacity=theme.faded(chosen, 0.8, 0.05),
        )
    ]
    if regression:
        line = base.transform_regression("path_loss_db", column, groupby=["scheme"])
        line = line.mark_line(strokeWidth=2).encode(x=x, y=encoded, color=colour, opacity=opacity)
        dash = alt.StrokeDash("scheme:N", legend=None, scale=alt.Scale(domain=names, range=DASHES))
        layers.append(line.encode(strokeDash=dash))
    return theme.sized(alt.layer(*layers).add_params(chosen), alt.TitleParams(title, subtitle=subtitle))
