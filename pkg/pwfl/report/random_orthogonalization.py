"""Figures and tables of the system `random_orthogonalization`."""

import altair as alt
import polars as pl

from pwfl.report import theme
from pwfl.report.orthogonalization_claims import claims

# Okabe and Ito's colours, in an order that keeps neighbours apart.
PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#B8A800"]
DOTS = 100  # realizations shown one by one
READINGS = {
    "epsilon_printed": "(6) as printed, one round",
    "epsilon_modulus": "(6), noise given the channels, one round",
    "epsilon_sensitivity": "(a) true sensitivity, one round",
    "epsilon_gaussian": "(b) exact, one round",
    "epsilon_exact": "(c) exact, all rounds",
    "epsilon_antennas": "(d) all antennas, exact, one round",
    "epsilon_antennas_rounds": "(d) all antennas, exact, all rounds",
}
OBSERVERS = {"epsilon_exact": "Observer of the server's updates", "epsilon_antennas_rounds": "Observer of all antennas"}
LEGEND = alt.Legend(symbolOpacity=1)
HEADER = alt.Header(labelFontSize=13)
WORST = ["epsilon_printed", "epsilon_gaussian", "epsilon_exact", "epsilon_antennas", "epsilon_antennas_rounds"]


# Figures of one scenario.


def accuracy(parameters: dict, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Mean test accuracy over rounds."""
    kept = trained(tables["history"])
    title = alt.TitleParams(f"Test accuracy, M = {parameters['network']['antennas']}", subtitle=_of(kept))
    y = alt.Y(title="Test accuracy", axis=alt.Axis(format=".0%"), scale=alt.Scale(zero=False))
    frame = theme.means(kept, ["scheme", "round"], ["accuracy"])
    return theme.band(frame, "accuracy", parameters["schemes"], title, y)


def leakage(parameters: dict, tables: dict[str, pl.DataFrame]) -> alt.FacetChart:
    """Fig. 2 for one number of antennas, in all readings but one, beside the closed form of (6).

    (6) with the noise given the channels cannot be told from (6) as printed at this scale.
    """
    table = leakages(tables)
    shown = {name: label for name, label in READINGS.items() if name != "epsilon_modulus"}
    frame = _readings(table, ["scheme"]).filter(pl.col("reading").is_in(list(shown.values())))
    formula = table.group_by("scheme", "users", maintain_order=True).agg(pl.col("epsilon_closed_form").first())
    formula = formula.filter(pl.col("epsilon_closed_form").is_finite()).with_columns(part=pl.lit("formula"))
    frame = pl.concat([frame.with_columns(part=pl.lit("reading")), formula], how="diagonal")
    chosen = alt.selection_point(fields=["reading"], bind="legend")
    colour = alt.Color(
        "reading:N", title="Mean over users", legend=LEGEND,
        scale=alt.Scale(domain=list(shown.values()), range=PALETTE[: len(shown)]),
    )  # fmt: skip
    curves = _curves("users:Q", "Users K", "mean", _epsilon_axis(parameters, type="log"), colour, chosen, ["reading:N"])
    dashes = (
        alt.Chart()
        .transform_filter("datum.part == 'formula'")
        .mark_line(strokeDash=[5, 4], color="black", strokeWidth=1.5)
        .encode(x="users:Q", y="epsilon_closed_form:Q")
    )
    title = alt.TitleParams(
        f"Leakage of a user, M = {parameters['network']['antennas']}",
        subtitle=[f"{_of(table)}; {parameters['training']['rounds']} rounds", "dashed: closed form of (6)"],
    )
    return (
        alt.layer(curves.transform_filter("datum.part == 'reading'"), dashes, data=frame)
        .properties(width=330, height=theme.HEIGHT)
        .facet(column=_scheme_panels(parameters["schemes"]))
        .properties(title=title)
    )


def tradeoff(parameters: dict, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """Final accuracy against epsilon after all rounds, of the server's updates, realization by realization."""
    frame = realizations(tables).drop_nulls("accuracy").filter(pl.col("epsilon_exact").is_finite())
    title = alt.TitleParams(
        f"Accuracy against privacy, M = {parameters['network']['antennas']}",
        subtitle=f"after {parameters['training']['rounds']} rounds, worst user; {_dots(frame)}",
    )
    colour, chosen, _ = theme.scheme_colour(parameters["schemes"])
    x = _epsilon_axis(parameters, alt.X)
    return _scatter(frame, "epsilon_exact", ["scheme"], x, colour, chosen).properties(
        title=title, width=theme.WIDTH, height=theme.HEIGHT
    )


def energy(parameters: dict, tables: dict[str, pl.DataFrame]) -> alt.LayerChart:
    """(e) Energy of a user's signal in a round over the paper's limit P = alpha^2."""
    limit = tables["outcome"]["transmit_energy_limit"][0]
    kept = trained(tables["history"]).drop_nulls("transmit_energy")
    kept = kept.with_columns(share=pl.col("transmit_energy") / limit)
    title = alt.TitleParams("Transmit energy", subtitle=f"{_of(kept)}; dashed: the paper's limit")
    y = alt.Y(title="Energy of a round's signal / P", scale=alt.Scale(type="log"), axis=alt.Axis(format=".6~g"))
    frame = theme.means(kept, ["scheme", "round"], ["share"])
    rule = (
        alt.Chart(pl.DataFrame({"share_mean": [1.0]}))
        .mark_rule(strokeDash=[4, 4], color="#555")
        .encode(y=alt.Y("share_mean:Q", title="Energy of a round's signal / P"))
    )
    return theme.band(frame, "share", parameters["schemes"], title, y) + rule


def couplings(parameters: dict, tables: dict[str, pl.DataFrame]) -> alt.Chart:
    """Distribution of the weights that users' updates get, and of what Theorem 1 takes for them."""
    labels = {"coupling_real": "Re(h_s^H h_k): true weight", "energy": "||h_k||^2: in Theorem 1"}
    if parameters["radio"]["normalization"] == "I":
        labels = {name: f"{label}, over M" for name, label in labels.items()}
    long = tables["links"].unpivot(list(labels), variable_name="what", value_name="weight")
    frame = theme.distribution(long.with_columns(pl.col("what").replace(labels)), "weight", by="what")
    chosen = alt.selection_point(fields=["what"], bind="legend")
    title = alt.TitleParams(
        f"Weights of the users' updates, times K; M = {parameters['network']['antennas']}",
        subtitle=f"all rounds and users of {tables['links']['realization'].n_unique()} realizations",
    )
    return (
        alt.Chart(frame, title=title, width=theme.WIDTH, height=theme.HEIGHT)
        .mark_line(interpolate="step-after")
        .encode(
            x=alt.X("weight:Q", title="K times the weight of a user's update", scale=alt.Scale(zero=False)),
            y=alt.Y("share:Q", title="Empirical CDF", scale=alt.Scale(domain=[0, 1])),
            color=alt.Color("what:N", title=None, scale=alt.Scale(domain=list(labels.values()), range=PALETTE[:2])),
            opacity=alt.when(chosen).then(alt.value(1.0)).otherwise(alt.value(0.08)),
            tooltip=["what:N", alt.Tooltip("weight:Q", format=".3f"), alt.Tooltip("share:Q", format=".1%")],
        )
        .add_params(chosen)
    )


# Figures that compare scenarios, mostly numbers of antennas.


def compared_accuracy(scenarios: dict[str, dict]) -> alt.FacetChart:
    """Fig. 1: mean test accuracy over rounds."""
    names, history = _stack(scenarios, "history")
    kept = trained(history)
    frame = theme.means(kept, ["scenario", "scheme", "round"], ["accuracy"])
    y = alt.Y(title="Test accuracy", axis=alt.Axis(format=".0%"), scale=alt.Scale(zero=False))
    return _panels(
        frame, "round:Q", "Communication round", "accuracy", y, names, _scheme_panels(_schemes(scenarios)),
        alt.TitleParams("Test accuracy", subtitle=_of(kept)),
    )  # fmt: skip


def compared_leakage(scenarios: dict[str, dict]) -> alt.FacetChart:
    """Fig. 2: epsilon of one round as printed (6) over the number of users."""
    names, table = _stack(scenarios, "leakage")
    frame = _readings(table, ["scenario", "scheme"]).filter(reading=READINGS["epsilon_printed"])
    return _panels(
        frame, "users:Q", "Users K", "mean", _epsilon_axis(_parameters(scenarios)), names,
        _scheme_panels(_schemes(scenarios)),
        alt.TitleParams("Leakage of a user in one round, (6) as printed", subtitle=_of(table)),
    )  # fmt: skip


def compared_readings(scenarios: dict[str, dict]) -> alt.FacetChart:
    """Fig. 2 in the other readings, of the schemes with noise."""
    names, table = _stack(scenarios, "leakage")
    noisy = [s["name"] for s in _schemes(scenarios) if s["noise"] == "fixed"] or table["scheme"].unique().to_list()
    frame = _readings(table.filter(pl.col("scheme").is_in(noisy)), ["scenario"])
    shown = [label for label in READINGS.values() if label != READINGS["epsilon_printed"]]
    panels = alt.Facet("reading:N", title=None, header=HEADER, sort=shown)
    return _panels(
        frame.filter(pl.col("reading").is_in(shown)), "users:Q", "Users K", "mean",
        _epsilon_axis(_parameters(scenarios)), names, panels,
        alt.TitleParams("Leakage of a user, read otherwise", subtitle=f"{', '.join(noisy)}; {_of(table)}"),
    ).resolve_scale(y="independent")  # fmt: skip


def compared_tradeoff(scenarios: dict[str, dict]) -> alt.FacetChart:
    """Final accuracy against the epsilon of all rounds, for an observer of the updates and of all antennas."""
    names, table = _stack(scenarios, "realizations")
    index = ["scenario", "scheme", "realization", "accuracy"]
    table = table.select(*index, *OBSERVERS).drop_nulls("accuracy")
    long = table.unpivot(list(OBSERVERS), index=index, variable_name="observer", value_name="epsilon")
    frame = long.filter(pl.col("epsilon").is_finite()).with_columns(pl.col("observer").replace(OBSERVERS))
    colour, chosen = _scenario_colour(names)
    x = _epsilon_axis(_parameters(scenarios), alt.X)
    shape = alt.Shape(
        "scheme:N", title="Scheme", legend=LEGEND,
        scale=alt.Scale(domain=[scheme["name"] for scheme in _schemes(scenarios)], range=["circle", "diamond"]),
    )  # fmt: skip
    chart = _scatter(frame, "epsilon", ["scenario", "scheme", "observer"], x, colour, chosen).encode(shape=shape)
    title = alt.TitleParams("Accuracy against privacy after all rounds", subtitle=f"worst user; {_dots(frame)}")
    return (
        chart.properties(width=330, height=theme.HEIGHT)
        .facet(column=alt.Column("observer:N", title=None, header=HEADER, sort=list(OBSERVERS.values())))
        .resolve_scale(x="independent")
        .properties(title=title)
    )


__all__ = ["COMPARISON_FIGURES", "FIGURES", "claims", "summarize"]
FIGURES = {
    "accuracy": accuracy,
    "leakage": leakage,
    "tradeoff": tradeoff,
    "energy": energy,
    "couplings": couplings,
}
COMPARISON_FIGURES = {
    "accuracy": compared_accuracy,
    "leakage": compared_leakage,
    "readings": compared_readings,
    "tradeoff": compared_tradeoff,
}


# Tables.


def summarize(parameters: dict, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The tables summary, realizations, history, leakage and statuses of a scenario."""
    each = realizations(tables)
    summary = each.group_by("scheme", maintain_order=True).agg(
        pl.len().alias("realizations"),
        pl.col("users").first(),
        pl.lit(parameters["network"]["antennas"]).alias("antennas"),
        pl.col("epsilon_exact").max().alias("epsilon_maximum"),
        pl.col("epsilon_antennas_rounds").max().alias("epsilon_antennas_maximum"),
        *((pl.col("training") == status).sum().alias(status) for status in ("trained", "diverged")),
        pl.col(
            "channel_uses", "transmit_energy_limit", "transmit_energy_bound", "delta", "unit",
            "neighbouring_relation", "sampling", "observer",
        ).first(),
    )  # fmt: skip
    means = theme.means(each, ["scheme"], ["accuracy", "loss", *WORST, "understated", "transmit_energy"])
    return {
        "summary": summary.join(means, on="scheme", how="left", maintain_order="left"),
        "realizations": each,
        "history": tables["history"],
        "leakage": leakages(tables),
        "statuses": statuses(tables),
    }


def realizations(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """The outcome of each realization and scheme, with its final accuracy and loss where trained.

    A realization that diverged has neither; `training` says so. `transmit_energy` is that of a
    user's signal in a round, mean over users and rounds.
    """
    keys = ["scheme", "realization"]
    last = (
        tables["history"]
        .group_by(keys)
        .agg(
            pl.col("accuracy", "loss").sort_by("round").last(),
            pl.col("transmit_energy").mean(),
            training=pl.col("status").cast(pl.String).first(),
        )
    )
    return (
        tables["outcome"]
        .join(last, on=keys, how="left", maintain_order="left")
        .with_columns(pl.when(training="trained").then(pl.col("accuracy", "loss", "transmit_energy")))
    )


def leakages(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Means over users of the table `leakage`, and the largest epsilons of all rounds."""
    return (
        tables["leakage"]
        .group_by("scheme", "realization", "users", maintain_order=True)
        .agg(
            pl.exclude("user").mean(),
            pl.col(list(OBSERVERS)).max().name.suffix("_maximum"),
        )
    )


def statuses(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """How many realizations have each status, by stage."""
    counts = [
        tables[table]
        .with_columns(pl.col("status").cast(pl.String))
        .group_by("scheme", "status", maintain_order=True)
        .agg(count=pl.len())
        .select("scheme", pl.lit(stage).alias("stage"), "status", "count")
        for stage, table in (("schedule", "schedule_status"), ("noise", "noise_status"))
    ]
    return pl.concat(counts)


def trained(history: pl.DataFrame) -> pl.DataFrame:
    """The history of trainings that did not diverge."""
    return history.filter(pl.col("status").cast(pl.String) == "trained")


# What figures share.


def _of(frame: pl.DataFrame) -> str:
    count = frame["realization"].n_unique()
    return f"mean and 95% confidence band over {count} realization{'s' * (count != 1)}"


def _dots(frame: pl.DataFrame) -> str:
    count = frame["realization"].n_unique()
    return f"dots: the first {min(count, DOTS)} realizations; large marks: means over {count}"


def _epsilon_axis(parameters: dict, channel=alt.Y, **scale):
    """An axis of epsilon, without its field; on a logarithmic scale ticks are round numbers."""
    # With room for labels beside each y axis, panels are equally wide.
    axis = alt.Axis(format=".6~g", minExtent=36) if channel is alt.Y else alt.Axis(format=".6~g", tickCount=7)
    if scale.get("type") == "log":
        axis.values = [digit * 10.0**power for power in range(-3, 7) for digit in (1, 2, 5)]
    title = f"Epsilon at delta = {parameters['privacy']['delta']:g}"
    return channel(title=title, axis=axis, scale=alt.Scale(**(scale or {"zero": False})))


def _readings(table: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """Means over realizations of each reading, long: reading, users, mean_mean, mean_low, mean_high.

    Means that are infinite are left out.
    """
    long = table.unpivot(
        list(READINGS), index=["scheme", "realization", "users", *({"scenario"} & set(by))],
        variable_name="reading", value_name="mean",
    )  # fmt: skip
    frame = theme.means(long.with_columns(pl.col("reading").replace(READINGS)), [*by, "reading", "users"], ["mean"])
    return frame.filter(pl.col("mean_mean").is_finite())


def _curves(x: str, title: str, value: str, y: alt.Y, colour: alt.Color, chosen, tips: list[str]) -> alt.LayerChart:
    """Mean lines with confidence bands over `x`, from columns *_mean, *_low, *_high; data come later."""
    base = alt.Chart().encode(x=alt.X(x, title=title), color=colour)
    low, mean = y.copy(), y.copy()
    low.shorthand, mean.shorthand = f"{value}_low:Q", f"{value}_mean:Q"
    area = base.mark_area().encode(
        y=low, y2=f"{value}_high:Q", opacity=alt.when(chosen).then(alt.value(0.18)).otherwise(alt.value(0.02))
    )
    line = base.mark_line(point=alt.OverlayMarkDef(size=30)).encode(
        y=mean,
        opacity=alt.when(chosen).then(alt.value(1.0)).otherwise(alt.value(0.08)),
        tooltip=[*tips, x, *(alt.Tooltip(f"{value}_{part}:Q", format=".4g") for part in ("mean", "low", "high"))],
    )
    return (area + line).add_params(chosen)


def _panels(frame, x, x_title, value, y, names, panels, title) -> alt.FacetChart:
    """Curves coloured by scenario, in panels."""
    colour, chosen = _scenario_colour(names)
    curves = _curves(x, x_title, value, y, colour, chosen, ["scenario:N"])
    width = 330 if isinstance(panels, alt.Column) else 250
    chart = alt.layer(curves, data=frame).properties(width=width, height=theme.HEIGHT * width // 380)
    faceted = chart.facet(column=panels) if isinstance(panels, alt.Column) else chart.facet(panels, columns=3)
    return faceted.properties(title=title)


def _scatter(frame, epsilon: str, by: list[str], x: alt.X, colour: alt.Color, chosen) -> alt.LayerChart:
    """Final accuracy against epsilon: a dot for each realization, a large mark for the means."""
    mean = frame.group_by(by, maintain_order=True).agg(pl.col("accuracy", epsilon).mean())
    data = pl.concat(
        [
            frame.filter(pl.col("realization") < DOTS).select(*by, "realization", "accuracy", epsilon),
            mean.with_columns(realization=pl.lit(None, pl.Int64)),
        ],
        how="diagonal",
    )
    x = x.copy()
    x.shorthand = f"{epsilon}:Q"
    y = alt.Y("accuracy:Q", title="Final test accuracy", axis=alt.Axis(format=".1%"), scale=alt.Scale(zero=False))
    tips = [*(f"{name}:N" for name in by), alt.Tooltip(f"{epsilon}:Q", format=".2f"),
            alt.Tooltip("accuracy:Q", format=".2%")]  # fmt: skip
    base = alt.Chart().encode(x=x, y=y, color=colour)
    dots = (
        base.transform_filter("isValid(datum.realization)")
        .mark_point(filled=True, size=40)
        .encode(opacity=alt.when(chosen).then(alt.value(0.45)).otherwise(alt.value(0.04)),
                tooltip=["realization:N", *tips])
    )  # fmt: skip
    large = (
        base.transform_filter("!isValid(datum.realization)")
        .mark_point(filled=True, size=200, stroke="black", strokeWidth=1)
        .encode(opacity=alt.when(chosen).then(alt.value(1.0)).otherwise(alt.value(0.08)), tooltip=tips)
    )
    return alt.layer(dots, large, data=data).add_params(chosen)


def _scheme_panels(schemes: list[dict]) -> alt.Column:
    return alt.Column("scheme:N", title=None, header=HEADER, sort=[scheme["name"] for scheme in schemes])


def _scenario_colour(names: list[str]) -> tuple[alt.Color, alt.Parameter]:
    chosen = alt.selection_point(fields=["scenario"], bind="legend")
    colours = [PALETTE[k % len(PALETTE)] for k in range(len(names))]
    colour = alt.Color("scenario:N", title="Scenario", legend=LEGEND, scale=alt.Scale(domain=names, range=colours))
    return colour, chosen


def _stack(scenarios: dict[str, dict], table: str) -> tuple[list[str], pl.DataFrame]:
    """Names of the scenarios by number of antennas, which they say, and a table of all of them."""
    ordered = sorted(scenarios, key=lambda name: scenarios[name]["parameters"]["network"]["antennas"])
    names = {name: f"{name}, M = {scenarios[name]['parameters']['network']['antennas']}" for name in ordered}
    frames = [scenarios[name][table].with_columns(scenario=pl.lit(label)) for name, label in names.items()]
    return list(names.values()), pl.concat(frames, how="diagonal_relaxed")


def _parameters(scenarios: dict[str, dict]) -> dict:
    return next(iter(scenarios.values()))["parameters"]


def _schemes(scenarios: dict[str, dict]) -> list[dict]:
    """The schemes of all scenarios, each name once."""
    found = [scheme for content in scenarios.values() for scheme in content["parameters"]["schemes"]]
    return list({scheme["name"]: scheme for scheme in found}.values())
