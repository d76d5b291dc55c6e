"""Figures and tables of the system `anonymous_oac`."""

from functools import partial

import altair as alt
import numpy as np
import polars as pl

from pwfl.privacy.composition import Loss, Sampled
from pwfl.report import chance, results, theme, unscheduled
from pwfl.report.axes import fitted, leveled, pixels
from pwfl.report.drawing import INK
from pwfl.report.words import plural
from pwfl.systems.anonymous_oac import batches
from pwfl.systems.anonymous_oac.claims import first_curves
from pwfl.systems.anonymous_oac.schemes import NOISES, READINGS

COMPARABILITY = (
    "One cell; batches of random devices, updates add up on air and share their noise. The guarantee of "
    "the anonymous schemes rests on nobody knowing who takes part."
)
METHODS = {  # names of accountants, and dashes of their lines
    "renyi": ("", [1000, 0]),
    "tight": (", exact", [6, 4]),
    "advanced_composition": (", advanced", [2, 3]),
}
ACCOUNTANTS = (
    "solid: Rényi DP, the paper's; dashed: exact, by the privacy loss distribution; dotted: advanced composition"
)
BOUNDS = {"tight": "", "proved": ", at most", "opposite_records": ", at least"}
KNOWS = {
    "anonymous": "hidden",
    "anonymous_read": "hidden, noise read",
    "identified": "known",
    "identified_read": "known, noise read",
    "scheduled": "known, as it occurred",
}
OCCURRED = "its guarantee is for the participation that occurred, of which releases have no common law"
COMPUTED = "computed, without realizations"
BESIDE = 1.12  # factor between the positions of schemes with equal channel uses
ROOM = 0.15  # share of the axis of channel uses that is free at its ends


def composition(scenario, tables: dict[str, pl.DataFrame]) -> alt.Chart:
    """Fig. 1: epsilon over the rounds for several sampling rates, by the paper's accountants and a tight one."""
    privacy, method = scenario.privacy, pl.col("method").cast(pl.String)
    frame = first_curves(tables, "rounds").filter(
        pl.col("reading") == "anonymous",
        pl.col("sampling_rate").is_in(privacy.curve_rates),
        pl.col("noise_multiplier") == privacy.noise_multiplier,
        method.is_in(list(METHODS)),
    )
    names = {name: more for name, (more, _) in METHODS.items()}
    line = pl.format("p q = {}", pl.col("sampling_rate").map_elements("{:g}".format, pl.String))
    note = f"{COMPUTED}; noise multiplier {privacy.noise_multiplier:g}, delta = {privacy.delta:g}, hidden participants"
    title = alt.TitleParams("Privacy over the rounds", subtitle=[note, ACCOUNTANTS])
    return _curves(frame.with_columns(line=line + method.replace_strict(names, return_dtype=pl.String)), title)


def readings(scenario, tables: dict[str, pl.DataFrame]) -> alt.Chart:
    """Draw epsilon of the first scheme over the rounds, under all interpretations of the server's knowledge."""
    p, q = scenario.network.participation, scenario.data.sampling
    frame = first_curves(tables, "rounds")
    used = frame.filter(pl.col("reading") == "identified")["noise_multiplier"].unique()
    reading, method = (pl.col(name).cast(pl.String) for name in ("reading", "method"))
    noise_read = reading.is_in([name for name, known in READINGS.items() if known.noise])
    frame = frame.filter(
        pl.col("noise_multiplier").is_in(used.to_list()),
        (reading != "anonymous") | (pl.col("sampling_rate") == p * q),
        (method == "tight") | (~noise_read & method.is_in(("proved", "opposite_records"))),
    )
    subtitle = f"{COMPUTED}; {scenario.schemes[0].name}: p = {p:g}, q = {q:g}"
    subtitle += "".join(f", noise multiplier {multiplier:.4g}" for multiplier in used)
    title = alt.TitleParams("What the server may know", subtitle=subtitle)
    line = reading.replace_strict(KNOWS, return_dtype=pl.String) + method.replace_strict(BOUNDS, return_dtype=pl.String)
    return _curves(frame.with_columns(line=line, method=pl.lit("renyi")), title)


def cost(scenario, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Draw final accuracy over channel uses; all schemes except non-private baselines are equally private."""
    rows = realizations(tables).drop_nulls("accuracy")
    averaged = ["accuracy", "channel_uses", "noise_multiplier", "epsilon"]
    frame = theme.means(rows, ["scheme"], averaged, scenario.system)
    frame = frame.with_columns(beside=_spread_places(frame["channel_uses_mean"]))
    colours = theme.scenario_colours(scenario)
    noisy = frame.filter(pl.col("epsilon_mean").is_finite())
    epsilon = noisy["epsilon_mean"].max() if len(noisy) else np.nan
    bare = "".join(f", {name} infinite" for name in frame.filter(pl.col("epsilon_mean").is_infinite())["scheme"])
    subtitle = [
        f"record-level epsilon = {epsilon:.3g} at delta = {scenario.privacy.delta:g}{bare}; "
        f"means over {plural(rows['realization'].n_unique())} and their 95% intervals",
        "schemes that take as many symbols side by side",
        *unscheduled.lines(unscheduled.counted(rows)),
    ]
    title = alt.TitleParams("Accuracy over spectrum at equal privacy", subtitle=subtitle)
    ticks = [digit * 10.0**power for power in range(3, 12) for digit in (1, 2, 5)]
    axis = alt.Axis(format="~s", values=ticks, labelOverlap="greedy", labelSeparation=8)
    x = alt.X("beside:Q", title="Symbols on air, all rounds", scale=alt.Scale(type="log"), axis=axis)
    x = fitted(x, frame["beside"], room=ROOM)
    levels = chance.scenario_levels(scenario, tables["history"])
    y = theme.accuracy_axis("accuracy_mean:Q", "Final test accuracy")
    y = leveled(y, levels, *theme.ends(frame, "accuracy"), most=1)
    rules, named = theme.level_lines(y, levels)
    base = alt.Chart(frame).encode(x=x, color=theme.coloured_by(colours))
    bars = base.mark_rule(strokeWidth=2.5).encode(y="accuracy_ci_low:Q", y2="accuracy_ci_high:Q")
    points = base.mark_point(size=260, filled=True, stroke="black", strokeWidth=1, opacity=1).encode(y=y)
    across = pixels(x, frame["beside"], theme.WIDTH)
    ends = [pixels(y, part, theme.HEIGHT) for part in theme.ends(frame, "accuracy")]
    marks = {name: [spot] for name, spot in zip(frame["scheme"], zip(across, ends[0], strict=True), strict=True)}
    lines = [((at, low), (at, high)) for at, low, high in zip(across, *ends[1:], strict=True)]
    names = theme.name_marks(marks, colours, [line for line in lines if np.isfinite(line).all()])
    return theme.sized(alt.layer(bars, points, *rules, *names, *theme.name_ends(named)), title)


def failures(scenario, tables: dict[str, pl.DataFrame]) -> alt.Chart:
    """Draw epsilon after all rounds over the number of participants that fail (Lemma 4), and if one adds all noise."""
    participants = max(1, round(scenario.network.devices * scenario.network.participation))
    names = {
        "failed_devices": "noise shared by the devices",
        "failed_devices_one_adds_all": "one device adds all, and fails",
    }
    subtitle = f"{COMPUTED}; of {participants} participants, in every round"
    title = alt.TitleParams("Devices that fail to transmit", subtitle=subtitle)
    whole = first_curves(tables, *names)["x"].unique().sort().cast(pl.Int64).to_list()  # whole devices
    ticks = alt.Axis(values=whole[:: -(-len(whole) // 12)], format="d") if whole else alt.Axis()
    chart = _robustness(tables, names, title, "Failed devices", alt.Scale(zero=True), ticks)
    lost = first_curves(tables, "failed_devices_one_adds_all").filter(pl.col("noise_multiplier") == 0)
    if lost.is_empty():
        return chart
    marks = alt.Chart(lost.select("x"))  # infinite epsilons, which no axis has
    marks = marks.encode(x=alt.X("x:Q", title="Failed devices", axis=ticks), y=alt.value(8))
    arrows = marks.mark_point(shape="triangle-up", filled=True, size=110, opacity=1, color=INK)
    words = marks.transform_filter(f"datum.x == {lost['x'].min()}").mark_text(align="left", dx=10)
    chart, heading = chart.copy(), chart.title
    chart.title = alt.Undefined
    return theme.sized(alt.layer(chart, arrows, words.encode(text=alt.value("infinite: no noise is left"))), heading)


def channel_estimate(scenario, tables: dict[str, pl.DataFrame]) -> alt.Chart:
    """Draw epsilon after all rounds over the factor by which the server scales the channel estimates."""
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
    """Make the tables summary, realizations, history, curves and statuses of a scenario."""
    rows = realizations(tables)
    summary = results.summary(
        scenario,
        rows,
        [*results.FINAL, "participants", "batch_records", "channel_uses", "air_seconds", "transmit_energy_j"],
        pl.col("noise_multiplier", "reading").first(),
        pl.col("epsilon").max(),
        pl.col("^epsilon_.*$").first(),
        pl.col("empty_rounds").sum(),
        *results.trainings("trained", "diverged", "no_user_scheduled"),
    )
    return {
        "summary": summary,
        "realizations": rows,
        "history": tables["history"],
        "curves": tables["curves"],
        "statuses": results.statuses(tables),
    }


def realizations(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Return `results.realizations`; no user is scheduled in those in which no record is sent in any round."""
    return results.realizations(tables, pl.col("empty_rounds") == pl.col("rounds"))


def published(scenario, rows: pl.DataFrame) -> list[Loss | str]:
    """Return a record's loss in each training run: rounds on batches that all schemes of a realization share.

    Batches of equal sizes have equal records, except after a round in which no batch has any: in it, schemes of fixed
    noise draw nevertheless, others do not. For participation that occurred, the result is OCCURRED.
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
        return Loss(sampled=Sampled(mu, rounds, *at, batches.revealed_facts(noise), law, variant))

    return [loss(row) for row in rows.iter_rows(named=True)]


NOTHING = pl.DataFrame(schema={"x": pl.Float64, "epsilon": pl.Float64, "line": pl.String})


def _curves(frame: pl.DataFrame, title: alt.TitleParams) -> alt.LayerChart:
    """Draw epsilon over rounds, with the name of each `line` at its end, and a dash for each `method`."""
    x = alt.X("x:Q", title="Communication rounds", scale=alt.Scale(type="log", nice=False))
    y = alt.Y("epsilon:Q", title="Record-level epsilon", scale=alt.Scale(type="log", nice=False))
    method = pl.col("method").cast(pl.String)
    parts = [(dash, frame.filter(method == name)) for name, (_, dash) in METHODS.items()]
    return _lines([(dash, curve) for dash, curve in parts if len(curve)], title, {}, x, y)


def _robustness(tables, names: dict[str, str], title: alt.TitleParams, axis: str, scale, ticks) -> alt.LayerChart:
    """Draw epsilon after all rounds over an axis, with a line for each quantity, labelled by its name."""
    frame = first_curves(tables, *names)
    frame = frame.with_columns(line=pl.col("quantity").cast(pl.String).replace_strict(names, return_dtype=pl.String))
    x = alt.X("x:Q", title=axis, axis=ticks)
    y = alt.Y("epsilon:Q", title="Record-level epsilon after all rounds", scale=scale)
    return _lines([(METHODS["renyi"][1], frame)], title, {"point": alt.OverlayMarkDef(color=INK)}, x, y)


def _lines(parts: list[tuple[list[int], pl.DataFrame]], title, mark: dict, x: alt.X, y: alt.Y) -> alt.LayerChart:
    """Draw lines of epsilon, named at their right ends, with a dash for each part; infinite values are left out."""
    finite = pl.when(pl.col("epsilon").is_finite()).then(pl.col("epsilon"))
    parts = [(dash, curve.with_columns(epsilon=finite)) for dash, curve in parts]
    every = pl.concat(curve.select("x", "epsilon", "line") for _, curve in parts) if parts else NOTHING
    x = fitted(x, every["x"], room=0)
    whole = y["scale"]["zero"] is True
    y = fitted(y, every["epsilon"], *([0.0] if whole else []))
    layers = [
        alt.Chart(curve).mark_line(strokeDash=dash, color=INK, strokeWidth=2, **mark).encode(x=x, y=y, detail="line:N")
        for dash, curve in parts or [([], NOTHING)]
    ]
    last = every.drop_nulls().sort("x", maintain_order=True).group_by("line", maintain_order=True).last()
    places = pixels(y, last["epsilon"], theme.HEIGHT)
    names = theme.name_ends((name, float(at), INK) for name, at in zip(last["line"], places, strict=True))
    return theme.sized(alt.layer(*layers, *names), title)


def _spread_places(values: pl.Series) -> pl.Series:
    """Return positions on a logarithmic axis, a little apart if the values' logarithms are equal to a tenth."""
    near = pl.DataFrame({"near": values.log10().round(1)})
    rank = near.select(pl.int_range(pl.len()).over("near") - (pl.len().over("near") - 1) / 2).to_series()
    return values * BESIDE**rank
