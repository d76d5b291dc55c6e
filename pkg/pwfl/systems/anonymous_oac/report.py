"""Figures and tables of the system `anonymous_oac`."""

from functools import partial

import altair as alt
import numpy as np
import polars as pl

from pwfl.privacy.composition import Loss, Sampled
from pwfl.report import chance, results, theme, unscheduled
from pwfl.report.axes import fitted, leveled
from pwfl.report.words import plural
from pwfl.systems.anonymous_oac import batches
from pwfl.systems.anonymous_oac.schemes import NOISES, READINGS

COMPARABILITY = (
    "One cell; batches of random devices, updates add up on air and share their noise. The guarantee of "
    "the anonymous schemes rests on nobody knowing who takes part."
)
METHODS = {  # names of accountants, and dashes of their lines
    "advanced_composition": ("advanced composition", [1, 3]),
    "renyi": ("Renyi DP (the paper's)", [6, 4]),
    "tight": ("privacy loss distribution", theme.SOLID),
    "tight_read": ("privacy loss distribution, noise read", [12, 8]),
    "proved": ("at most: any replaced record", [8, 3, 2, 3]),
    "opposite_records": ("at least: opposite records", [2, 2]),
}
KNOWS = {
    "anonymous": "hidden",
    "anonymous_read": "hidden, noise's strength read",
    "identified": "known",
    "identified_read": "known, noise's strength read",
    "scheduled": "known, as it occurred",
}
OCCURRED = "its guarantee is for the participation that occurred, of which releases have no common law"
COLOURS = ["#D55E00", "#E69F00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#7F7F7F"]
COMPUTED = "computed, without realizations"
BESIDE = 1.12  # factor between schemes' places where they take as many symbols


def composition(scenario, tables: dict[str, pl.DataFrame]) -> alt.Chart:
    """Fig. 1: epsilon over the rounds for several sampling rates, by the paper's accountant and a tight one."""
    privacy = scenario.privacy
    frame = _of_first_scheme(tables, "rounds").filter(
        pl.col("reading") == "anonymous",
        pl.col("sampling_rate").is_in(privacy.curve_rates),
        pl.col("noise_multiplier") == privacy.noise_multiplier,
        ~pl.col("method").cast(pl.String).is_in(("proved", "opposite_records")),
    )
    line = pl.col("sampling_rate").map_elements("p q = {:g}".format, pl.String)
    subtitle = (
        f"{COMPUTED}; noise multiplier {privacy.noise_multiplier:g}, delta = {privacy.delta:g}, hidden participants"
    )
    title = alt.TitleParams("Privacy over the rounds", subtitle=subtitle)
    return _curves(frame.with_columns(line=line), title, "Sampling rate")


def readings(scenario, tables: dict[str, pl.DataFrame]) -> alt.Chart:
    """epsilon of the first scheme over the rounds, for all that the server may know of the sampling."""
    p, q = scenario.network.participation, scenario.data.sampling
    frame = _of_first_scheme(tables, "rounds")
    own = frame.filter(pl.col("reading") == "identified")["noise_multiplier"].unique()
    reading, method = (pl.col(name).cast(pl.String) for name in ("reading", "method"))
    noise_read = reading.is_in([name for name, known in READINGS.items() if known.noise])
    frame = frame.filter(
        pl.col("noise_multiplier").is_in(own.to_list()),
        (reading != "anonymous") | (pl.col("sampling_rate") == p * q),
        (method == "tight") | (~noise_read & method.is_in(("proved", "opposite_records"))),
    )
    subtitle = f"{COMPUTED}; {scenario.schemes[0].name}: p = {p:g}, q = {q:g}"
    subtitle += "".join(f", noise multiplier {multiplier:.4g}" for multiplier in own)
    title = alt.TitleParams("What the server may know", subtitle=subtitle)
    # What the noise's strength tells may change little: dashes let the line below be seen.
    dashed = pl.when(noise_read).then(pl.lit("tight_read")).otherwise(method)
    return _curves(frame.with_columns(line=reading.replace(KNOWS), method=dashed), title, "Participation")


def cost(scenario, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Final accuracy over the symbols on air, all schemes equally private but those without noise."""
    each = realizations(tables).drop_nulls("accuracy")
    averaged = ["accuracy", "channel_uses", "noise_multiplier", "epsilon"]
    frame = theme.means(each, ["scheme"], averaged, scenario.system)
    frame = frame.with_columns(beside=_beside(frame["channel_uses_mean"]))
    colour, chosen, opacity = theme.scheme_colour(scenario, symbol=None)
    noisy = frame.filter(pl.col("epsilon_mean").is_finite())
    epsilon = noisy["epsilon_mean"].max() if len(noisy) else np.nan
    bare = "".join(f", {name} infinite" for name in frame.filter(pl.col("epsilon_mean").is_infinite())["scheme"])
    subtitle = [
        f"record-level epsilon = {epsilon:.3g} at delta = {scenario.privacy.delta:g}{bare}; "
        f"means over {plural(each['realization'].n_unique())} and their 95% intervals",
        "schemes that take as many symbols side by side",
        *unscheduled.lines(unscheduled.counted(each)),
    ]
    title = alt.TitleParams("Accuracy over spectrum at equal privacy", subtitle=subtitle)
    ticks = [digit * 10.0**power for power in range(3, 12) for digit in (1, 2, 5)]
    scale = alt.Scale(type="log")
    axis = alt.Axis(format="~s", values=ticks, labelOverlap="greedy", labelSeparation=8)
    x = alt.X("beside:Q", title="Symbols on air, all rounds", scale=scale, axis=axis)
    base = alt.Chart(frame).encode(x=fitted(x, frame["beside"]), color=colour, opacity=opacity)
    y, levels = (
        theme.accuracy_axis("accuracy_mean:Q", "Final test accuracy"),
        chance.scenario_levels(scenario, tables["history"]),
    )
    y, levels = leveled(y, levels, *theme.ends(frame, "accuracy"), most=1)
    bars = base.mark_rule(strokeWidth=2.5).encode(y="accuracy_ci_low:Q", y2="accuracy_ci_high:Q")
    tips = [
        *theme.tips({"scheme:N": "Scheme", "channel_uses_mean:Q": ("Symbols on air", ".3s")}),
        *theme.interval_tips("accuracy", "Final test accuracy", ".2%"),
        *theme.tips({"noise_multiplier_mean:Q": ("Noise multiplier", ".3f")}),
    ]
    points = base.mark_point(size=260, filled=True, stroke="black", strokeWidth=1)
    points = points.encode(y=y, shape=theme.scheme_shape(scenario), tooltip=tips)
    return theme.sized(alt.layer(bars, points, *levels).add_params(chosen), title)


def failures(scenario, tables: dict[str, pl.DataFrame]) -> alt.Chart:
    """epsilon after all rounds over the participants that fail to transmit (Lemma 4), and where one adds all noise."""
    participants = max(1, round(scenario.network.devices * scenario.network.participation))
    names = {
        "failed_devices": "noise shared by the devices",
        "failed_devices_one_adds_all": "one device adds all, and fails",
    }
    subtitle = f"{COMPUTED}; of {participants} participants, in every round"
    title = alt.TitleParams("Devices that fail to transmit", subtitle=subtitle)
    whole = _of_first_scheme(tables, *names)["x"].unique().sort().cast(pl.Int64).to_list()  # no half devices
    ticks = alt.Axis(values=whole[:: -(-len(whole) // 12)], format="d") if whole else alt.Axis()
    chart = _robustness(tables, names, title, "Failed devices", alt.Scale(zero=True), ticks)
    lost = _of_first_scheme(tables, "failed_devices_one_adds_all").filter(pl.col("noise_multiplier") == 0)
    if lost.is_empty():
        return chart
    line = pl.lit(names["failed_devices_one_adds_all"])
    marks = alt.Chart(lost.select("x", line=line, epsilon=pl.lit("infinite")))  # which no axis has
    marks = marks.encode(x=alt.X("x:Q", title="Failed devices", axis=ticks), y=alt.value(8), color="line:N")
    arrows = marks.mark_point(shape="triangle-up", filled=True, size=110, opacity=1)
    tips = {"line:N": "Scheme", "x:Q": "Failed devices", "epsilon:N": "Record-level epsilon"}
    arrows = arrows.encode(tooltip=theme.tips(tips))
    words = marks.transform_filter(f"datum.x == {lost['x'].min()}").mark_text(align="left", dx=10)
    chart, heading = chart.copy(), chart.title
    chart.title = alt.Undefined
    return theme.sized(alt.layer(chart, arrows, words.encode(text=alt.value("infinite: no noise is left"))), heading)


def channel_estimate(scenario, tables: dict[str, pl.DataFrame]) -> alt.Chart:
    """epsilon after all rounds over the factor by which the server scales the channel estimates."""
    names = {
        "estimate_scale": "channel noise not counted (this system)",
        "estimate_scale_counting_channel_noise": "channel noise counted",
        "estimate_scale_of_one_device": "not counted, one device's estimates only",
    }
    title = alt.TitleParams("Manipulated channel estimates", subtitle=f"{COMPUTED}; the server scales what it tells")
    return _robustness(tables, names, title, "Factor k of the estimates", alt.Scale(type="log"), alt.Axis())


FIGURES = {
    "composition": composition,
    "readings": readings,
    "accuracy": results.accuracy,
    "accuracy_seconds": results.accuracy_seconds,
    "accuracy_joules": results.accuracy_joules,
    "loss": results.loss,
    "cost": cost,
    "failures": failures,
    "channel_estimate": channel_estimate,
}


def summarize(scenario, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The tables summary, realizations, history, curves and statuses of a scenario."""
    each = realizations(tables)
    summary = results.summary(
        scenario,
        each,
        [*results.FINAL, "participants", "batch_records", "channel_uses", "air_seconds", "transmit_energy_j"],
        pl.col("noise_multiplier", "reading").first(),
        pl.col("epsilon").max(),
        pl.col("^epsilon_.*$").first(),
        pl.col("empty_rounds").sum(),
        *results.trainings("trained", "diverged", "no_user_scheduled"),
    )
    return {
        "summary": summary,
        "realizations": each,
        "history": tables["history"],
        "curves": tables["curves"],
        "statuses": results.statuses(tables),
    }


def realizations(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """`results.realizations`; with no user scheduled are those in which no record is sent in any round."""
    return results.realizations(tables, pl.col("empty_rounds") == pl.col("rounds"))


def published(scenario, each: pl.DataFrame) -> list[Loss | str]:
    """What each training costs a record: rounds on batches that are the same for all schemes of a realization.

    Whose batches have as many records draw the same ones, but after a round in which none has any: there schemes of
    fixed noise draw all the same, others do not.
    """
    network, data, rounds = scenario.network, scenario.data, scenario.training.rounds
    noises = {scheme.name: scheme.noise for scheme in scenario.schemes}
    law = partial(batches.known, network.devices, data.samples, network.participation, data.sampling)
    design = repr((rounds, network.devices, network.participation, data))

    def loss(row: dict) -> Loss | str:
        if row["reading"] == "scheduled":
            return OCCURRED
        noise, mu = NOISES[noises[row["scheme"]]], np.nextafter(1 / row["noise_multiplier"], np.inf)
        variant = noise.fixed and row["empty_rounds"] > 0
        at = scenario.seed, design, row["realization"]
        return Loss(sampled=Sampled(mu, rounds, *at, noise.tells, law, variant))

    return [loss(row) for row in each.iter_rows(named=True)]


def _of_first_scheme(tables: dict[str, pl.DataFrame], *quantities: str) -> pl.DataFrame:
    """Some quantities' rows of one scheme: curves that schemes share are in each one's table."""
    return tables["curves"].filter(
        pl.col("scheme") == pl.col("scheme").first(), pl.col("quantity").cast(pl.String).is_in(quantities)
    )


def _curves(frame: pl.DataFrame, title: alt.TitleParams, legend: str) -> alt.Chart:
    """epsilon over rounds, a colour for each `line`, a dash for each accountant."""
    method = pl.col("method").cast(pl.String)
    shown = [METHODS[name] for name in frame.select(method)["method"].unique(maintain_order=True)]
    scale = alt.Scale(domain=[name for name, _ in shown], range=[dash for _, dash in shown])
    dash = alt.StrokeDash("method:N", title="Accountant", legend=theme.legend(symbolSize=1500), scale=scale)
    x = alt.X("x:Q", title="Communication rounds", scale=alt.Scale(type="log", nice=False))
    y = alt.Y("epsilon:Q", title="Record-level epsilon", scale=alt.Scale(type="log", nice=False))
    tips = {"method:N": "Accountant", "x:Q": "Rounds"}
    names = {key: name for key, (name, _) in METHODS.items()}
    frame = frame.with_columns(method.replace_strict(names, return_dtype=pl.String))
    return _lines(frame, title, COLOURS, legend, tips, {}, x=x, y=y, strokeDash=dash)


def _robustness(tables, names: dict[str, str], title: alt.TitleParams, axis: str, scale, ticks) -> alt.Chart:
    """epsilon after all rounds over an axis, a colour for each quantity, by its name."""
    frame = _of_first_scheme(tables, *names)
    frame = frame.with_columns(line=pl.col("quantity").cast(pl.String).replace_strict(names, return_dtype=pl.String))
    x = alt.X("x:Q", title=axis, axis=ticks)
    y = alt.Y("epsilon:Q", title="Record-level epsilon after all rounds", scale=scale)
    colours, tips = ["#009E73", "#D55E00", "#0072B2"], {"x:Q": (axis, ".3~g")}
    return _lines(frame, title, colours, "Scheme", tips, {"point": True}, x=x, y=y)


def _lines(frame, title, colours: list[str], legend: str, tips: dict, mark: dict, **encodings) -> alt.Chart:
    """epsilon over something, a colour for each `line`; infinity, which cannot be drawn, is null."""
    frame = frame.with_columns(epsilon=pl.when(pl.col("epsilon").is_finite()).then(pl.col("epsilon")))
    lines = dict(zip(frame["line"].unique(maintain_order=True), colours, strict=False))
    colour, chosen, opacity = theme.named_colours(lines, field="line", title=legend)
    encodings["x"] = fitted(encodings["x"], frame["x"], room=0)
    whole = encodings["y"]["scale"]["zero"] is True
    encodings["y"] = fitted(encodings["y"], frame["epsilon"], *([0.0] if whole else []))
    tooltip = theme.tips({"line:N": legend} | tips | {"epsilon:Q": ("Record-level epsilon", ".4g")})
    return (
        alt.Chart(frame, title=title, width=theme.WIDTH, height=theme.HEIGHT)
        .mark_line(**mark)
        .encode(color=colour, opacity=opacity, tooltip=tooltip, **encodings)
        .add_params(chosen)
    )


def _beside(values: pl.Series) -> pl.Series:
    """Places on a logarithmic axis, a little apart where values are equal to a tenth."""
    near = pl.DataFrame({"near": values.log10().round(1)})
    rank = near.select(pl.int_range(pl.len()).over("near") - (pl.len().over("near") - 1) / 2).to_series()
    return values * BESIDE**rank
