"""Figures, tables and claims of the system `anonymous_oac`."""

import altair as alt
import numpy as np
import polars as pl

from pwfl.report import results, theme
from pwfl.report.claims import SCHEMA, bootstrap, mean_difference

DIFFERS = (
    "One cell; batches of random devices, updates add up on air and share their noise. The guarantee of "
    "the anonymous schemes rests on nobody knowing who takes part."
)
METHODS = {
    "advanced_composition": "advanced composition",
    "renyi": "Renyi DP (the paper's)",
    "tight": "privacy loss distribution",
    "proved": "at most: any replaced record",
    "opposite_records": "at least: opposite records",
}
DASHES = {"advanced composition": [1, 3], "Renyi DP (the paper's)": [6, 4], "privacy loss distribution": [1, 0],
          "at most: any replaced record": [8, 3, 2, 3], "at least: opposite records": [2, 2]}  # fmt: skip
KNOWS = {
    "anonymous": "hidden",
    "anonymous_read": "hidden, noise's strength read",
    "identified": "known",
    "identified_read": "known, noise's strength read",
}
COLOURS = ["#D55E00", "#E69F00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#7F7F7F"]
ANONYMOUS, IDENTIFIED, ORTHOGONAL = (
    ("over_the_air", "anonymous"), ("over_the_air", "identified"), ("orthogonal", "local"))  # fmt: skip
ACCEPTABLE = 10.0  # epsilon that many still call a guarantee
CLOSE = 1e-6
PAPER_ROUNDS = 1000
FAILED = "Failed devices"


def composition(parameters: dict, tables: dict[str, pl.DataFrame]) -> alt.Chart:
    """Fig. 1: epsilon over the rounds for several sampling rates, by the paper's accountant and a tight one."""
    privacy = parameters["privacy"]
    frame = _first_scheme(tables["leakage"]).filter(
        pl.col("quantity") == "rounds",
        pl.col("reading") == "anonymous",
        pl.col("sampling_rate").is_in(privacy["curve_rates"]),
        pl.col("noise_multiplier") == privacy["noise_multiplier"],
        ~pl.col("method").cast(pl.String).is_in(("proved", "opposite_records")),
    )
    title = alt.TitleParams(
        "Privacy over the rounds",
        subtitle=f"noise multiplier {privacy['noise_multiplier']:g}, delta = {privacy['delta']:g}, hidden participants",
    )
    return _curves(frame.with_columns(line=_text("p q = ", "sampling_rate")), title, "Sampling rate", COLOURS)


def readings(parameters: dict, tables: dict[str, pl.DataFrame]) -> alt.Chart:
    """epsilon of the first scheme over the rounds, for all that the server may know of the sampling."""
    p, q = parameters["network"]["participation"], parameters["data"]["sampling"]
    frame = _first_scheme(tables["leakage"]).filter(pl.col("quantity") == "rounds")
    own = frame.filter(pl.col("reading") == "identified")["noise_multiplier"].unique()
    reading, method = (pl.col(name).cast(pl.String) for name in ("reading", "method"))
    frame = frame.filter(
        pl.col("noise_multiplier").is_in(own),
        (reading != "anonymous") | (pl.col("sampling_rate") == p * q),
        (method == "tight") | (~reading.str.ends_with("_read") & method.is_in(("proved", "opposite_records"))),
    )
    subtitle = f"{parameters['schemes'][0]['name']}: p = {p:g}, q = {q:g}"
    subtitle += "".join(f", noise multiplier {multiplier:.4g}" for multiplier in own)
    title = alt.TitleParams("What the server may know", subtitle=subtitle)
    return _curves(frame.with_columns(line=reading.replace(KNOWS)), title, "Participation", COLOURS)


def cost(parameters: dict, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Final accuracy over the symbols on air, all schemes equally private."""
    each = results.realizations(tables).drop_nulls("accuracy")
    frame = theme.means(each, ["scheme"], ["accuracy", "channel_uses", "noise_multiplier", "epsilon_exact"])
    colour, chosen, opacity = theme.scheme_colour(parameters["schemes"])
    delta = parameters["privacy"]["delta"]
    epsilon = frame["epsilon_exact_mean"].max() if len(frame) else np.nan
    title = alt.TitleParams(
        "Accuracy over spectrum at equal privacy",
        subtitle=f"epsilon = {epsilon:.3g} at delta = {delta:g}; bars: 95% intervals of the mean",
    )
    base = alt.Chart(frame, title=title, width=theme.WIDTH, height=theme.HEIGHT).encode(
        x=alt.X(
            "channel_uses_mean:Q",
            title="Symbols on air, all rounds",
            scale=alt.Scale(type="log", padding=30),
            axis=alt.Axis(format="~s"),
        ),
        color=colour,
        opacity=opacity,
    )
    y = alt.Y("accuracy_mean:Q", title="Final test accuracy", axis=alt.Axis(format=".0%"), scale=alt.Scale(zero=False))
    low = y.copy()
    low.shorthand = "accuracy_low:Q"
    bars = base.mark_rule(strokeWidth=2.5).encode(y=low, y2="accuracy_high:Q")
    points = base.mark_point(shape="diamond", size=260, filled=True, stroke="black", strokeWidth=1).encode(
        y=y,
        tooltip=[
            "scheme:N",
            alt.Tooltip("accuracy_mean:Q", format=".2%"),
            alt.Tooltip("channel_uses_mean:Q", format=".3s"),
            alt.Tooltip("noise_multiplier_mean:Q", format=".3f"),
        ],
    )
    return (bars + points).add_params(chosen)


def failures(parameters: dict, tables: dict[str, pl.DataFrame]) -> alt.Chart:
    """epsilon after all rounds over the participants that fail to transmit (Lemma 4)."""
    frame = _first_scheme(tables["leakage"]).filter(pl.col("quantity") == "failed_devices")
    network = parameters["network"]
    devices = max(1, round(network["devices"] * network["participation"]))
    return _robustness(
        frame.with_columns(line=pl.lit("noise shared by the devices")),
        alt.TitleParams("Devices that fail to transmit", subtitle=f"of {devices} participants, in every round"),
        FAILED,
        alt.Scale(zero=True),
    )


def channel_estimate(parameters: dict, tables: dict[str, pl.DataFrame]) -> alt.Chart:
    """epsilon after all rounds over the factor by which the server scales the channel estimates."""
    names = {
        "estimate_scale": "channel noise not counted (this system)",
        "estimate_scale_counting_channel_noise": "channel noise counted",
        "estimate_scale_of_one_device": "not counted, one device's estimates only",
    }
    frame = _first_scheme(tables["leakage"]).filter(pl.col("quantity").cast(pl.String).is_in(names))
    line = pl.col("quantity").cast(pl.String).replace_strict(names)
    frame = frame.with_columns(line=line)
    return _robustness(frame, "Manipulated channel estimates", "Factor k of the estimates", alt.Scale(type="log"))


FIGURES = {
    "composition": composition,
    "readings": readings,
    "accuracy": results.accuracy,
    "loss": results.loss,
    "cost": cost,
    "failures": failures,
    "channel_estimate": channel_estimate,
}


def summarize(parameters: dict, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The tables summary, realizations, history, leakage and statuses of a scenario."""
    each = results.realizations(tables)
    averaged = ["accuracy", "loss", "participants", "records", "channel_uses", "transmit_energy_j"]
    same = [name for name in each.columns if name.startswith("epsilon_")]
    summary = each.group_by("scheme", maintain_order=True).agg(
        pl.len().alias("realizations"),
        pl.col("noise_multiplier", "reading", *same).first(),
        pl.col("empty_rounds").sum(),
        *((pl.col("training") == status).sum().alias(status) for status in ("trained", "diverged")),
        pl.col("delta", "unit", "neighbouring_relation", "sampling", "observer", "guarantee").first(),
    )
    summary = summary.join(theme.means(each, ["scheme"], averaged), on="scheme", how="left", maintain_order="left")
    return {
        "summary": summary,
        "realizations": each,
        "history": tables["history"],
        "leakage": tables["leakage"],
        "statuses": results.statuses(tables),
    }


def claims(scenarios: dict[str, dict]) -> pl.DataFrame:
    """The paper's claims, and those that its comparison would make, on each scenario.

    `scenarios` maps a name to `parameters` and the report's tables. Guarantees are numbers without an
    interval; accuracies have percentiles of a bootstrap over realizations, the same for all schemes.
    """
    rows = []
    for name, content in scenarios.items():
        rows += _privacy_claims(name, content) + _accuracy_claims(name, content)
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _privacy_claims(name: str, content: dict) -> list[tuple]:
    rows, rounds = [], content["parameters"]["training"]["rounds"]
    network, data = content["parameters"]["network"], content["parameters"]["data"]
    p, q = network["participation"], data["sampling"]
    leakage = content["leakage"]
    leakage = leakage.filter(pl.col("scheme") == leakage["scheme"][0]) if len(leakage) else leakage
    last = leakage.filter(pl.col("quantity") == "rounds", pl.col("x") == rounds)

    def epsilon(method, participation, rate):
        found = last.filter(
            pl.col("method") == method, pl.col("participation") == participation, pl.col("sampling_rate") == rate
        )
        return found["epsilon"][0] if len(found) else None

    def add(claim, measured, required, holds):
        if measured is not None:
            rows.append((claim, name, measured, None, None, required, bool(holds), 1))

    act, unsampled = epsilon("advanced_composition", 1, 1), epsilon("renyi", 1, 1)
    if act is not None and unsampled is not None:
        ratio = act / unsampled
        add("1. Renyi DP accounts better than advanced composition at p q = 1 (ratio)", ratio, "> 1", ratio > 1)
    for rate in (1.0, 0.5) if rounds >= PAPER_ROUNDS else ():
        for method, words in (("renyi", "the paper's accountant"), ("tight", "exact accounting")):
            value = epsilon(method, 1, rate)
            add(f"2. epsilon after all rounds is more than 100 at p q = {rate:g} ({words})", value, "> 100",
                value is not None and value > 100)  # fmt: skip
    for known, rate, words in ((1, p * q, "hidden"), (p, q, "known to the server")):
        value = epsilon("tight", known, rate)
        add(f"3. epsilon after all rounds is acceptable at this p and q (tight, participation {words})", value,
            f"<= {ACCEPTABLE:g}", value is not None and value <= ACCEPTABLE)  # fmt: skip
    if p < 1:
        ratio = _ratio(epsilon("tight", p, q), epsilon("tight", 1, p * q))
        add("4. device sampling amplifies like record sampling, Lemma 3, even where participation can be inferred "
            "(ratio of epsilons)", ratio, "<= 1", ratio <= 1 + CLOSE)  # fmt: skip
    failed = leakage.filter(pl.col("quantity") == "failed_devices").sort("x")["epsilon"]
    if len(failed) > 1:
        ratio = _ratio(failed[1], failed[0])
        lost = leakage.filter(pl.col("quantity") == "failed_devices").sort("x")["x"][1]
        add(f"5. failing devices degrade epsilon gracefully ({lost:g} of "
            f"{max(1, round(network['devices'] * p))} participants, ratio)", ratio, "<= 1.5", ratio <= 1.5)  # fmt: skip
    flat = leakage.filter(pl.col("quantity") == "estimate_scale")["epsilon"]
    if len(flat):
        ratio = _ratio(flat.max(), flat.min())
        add("6. epsilon does not depend on the server's channel estimates (ratio of extremes)", ratio, "1",
            abs(ratio - 1) < CLOSE)  # fmt: skip
    counting = leakage.filter(pl.col("quantity") == "estimate_scale_counting_channel_noise").sort("x")
    # Where there is channel noise to count, and a guarantee to lose.
    if counting["noise_multiplier"].n_unique() > 1 and counting["epsilon"].is_finite().all():
        ratio = _ratio(counting["epsilon"][0], counting["epsilon"][-1])
        add("6. it does where channel noise is counted (ratio of extremes)", ratio, "> 1", ratio > 1)
    return rows


def _accuracy_claims(name: str, content: dict) -> list[tuple]:
    accuracy = {}
    for scheme in content["parameters"]["schemes"]:
        frame = content["realizations"].filter(pl.col("scheme") == scheme["name"]).sort("realization")
        accuracy[scheme["scheduler"], scheme["noise"]] = frame["accuracy"].cast(pl.Float64).to_numpy()
    rows = []
    for words, first, second in (
        ("anonymous OAC above OAC with known participation", ANONYMOUS, IDENTIFIED),
        ("OAC with known participation above orthogonal transmission", IDENTIFIED, ORTHOGONAL),
    ):
        if first in accuracy and second in accuracy:
            values = np.stack([accuracy[first], accuracy[second]])
            values = values[:, np.isfinite(values).all(axis=0)]
            if values.shape[1]:
                measured, low, high = bootstrap(mean_difference, values)
                claim = f"7. final accuracy at equal privacy: {words} (difference)"
                rows.append((claim, name, measured, low, high, "> 0", measured > 0, values.shape[1]))
    return rows


def _ratio(one: float, other: float) -> float:
    """Ratio of epsilons, which may both be zero or infinite."""
    if one == other:
        return 1.0
    return one / other if other else np.inf


def _first_scheme(leakage: pl.DataFrame) -> pl.DataFrame:
    """The rows of one scheme: curves that schemes share are in each one's table."""
    return leakage.filter(pl.col("scheme") == pl.col("scheme").first())


def _text(prefix: str, column: str) -> pl.Expr:
    return pl.col(column).map_elements(lambda value: f"{prefix}{value:g}", pl.String)


def _curves(frame: pl.DataFrame, title: alt.TitleParams, legend: str, colours: list[str]) -> alt.Chart:
    """epsilon over rounds, a colour for each `line`, a dash for each accountant."""
    frame = frame.with_columns(
        method=pl.col("method").cast(pl.String).replace_strict(METHODS), epsilon=_finite("epsilon")
    )
    lines, methods = (frame[name].unique(maintain_order=True).to_list() for name in ("line", "method"))
    chosen = alt.selection_point(fields=["line"], bind="legend")
    return (
        alt.Chart(frame, title=title, width=theme.WIDTH, height=theme.HEIGHT)
        .mark_line()
        .encode(
            x=alt.X("x:Q", title="Communication rounds", scale=alt.Scale(type="log")),
            y=alt.Y("epsilon:Q", title="epsilon", scale=alt.Scale(type="log")),
            color=alt.Color("line:N", title=legend, scale=alt.Scale(domain=lines, range=colours[: len(lines)])),
            strokeDash=alt.StrokeDash("method:N", title="Accountant", scale=alt.Scale(
                domain=methods, range=[DASHES[method] for method in methods])),
            opacity=alt.when(chosen).then(alt.value(1.0)).otherwise(alt.value(0.08)),
            tooltip=["line:N", "method:N", alt.Tooltip("x:Q", title="rounds"), alt.Tooltip("epsilon:Q", format=".4g")],
        )
        .add_params(chosen)
    )  # fmt: skip


def _robustness(frame: pl.DataFrame, title: str | alt.TitleParams, axis: str, scale: alt.Scale) -> alt.Chart:
    frame = frame.with_columns(epsilon=_finite("epsilon"))
    lines = frame["line"].unique(maintain_order=True).to_list()
    chosen = alt.selection_point(fields=["line"], bind="legend")
    return (
        alt.Chart(frame, title=title, width=theme.WIDTH, height=theme.HEIGHT)
        .mark_line(point=True)
        .encode(
            x=alt.X("x:Q", title=axis, axis=alt.Axis(tickMinStep=1 if axis == FAILED else 0)),
            y=alt.Y("epsilon:Q", title="epsilon after all rounds", scale=scale),
            color=alt.Color(
                "line:N",
                title="Scheme",
                scale=alt.Scale(domain=lines, range=["#009E73", "#D55E00", "#0072B2"][: len(lines)]),
            ),
            opacity=alt.when(chosen).then(alt.value(1.0)).otherwise(alt.value(0.08)),
            tooltip=["line:N", alt.Tooltip("x:Q", title=axis), alt.Tooltip("epsilon:Q", format=".4g")],
        )
        .add_params(chosen)
    )


def _finite(column: str) -> pl.Expr:
    """Infinity cannot be drawn: null."""
    return pl.when(pl.col(column).is_finite()).then(pl.col(column))
