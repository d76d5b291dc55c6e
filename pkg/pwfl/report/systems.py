"""All systems of a study under common terms: accuracy, record-level guarantee, spectrum, energy."""

from importlib import import_module

import altair as alt
import polars as pl

from pwfl.report import theme

MEANS = ["accuracy", "channel_uses", "transmit_energy_j"]
COLOURS = ["#0072B2", "#009E73", "#E69F00", "#D55E00", "#CC79A7"]
TERMS = ["delta", "samples", "rounds", "unit", "neighbouring_relation", "sampling", "observer", "guarantee"]


def table(scenarios: dict[str, dict]) -> pl.DataFrame:
    """A row for each scheme of each scenario, and each of its privacy targets where it has several.

    `scenarios` is that of `report.compare`. Mean final accuracy with its 95% interval over
    realizations, the largest epsilon_exact of a realization, mean symbols on air and transmit energy,
    and the terms they hold under. What does not apply to a system, or has no unit in it, is null; the
    column `differs` says why.
    """
    frames = []
    for name, content in scenarios.items():
        system = content["parameters"]["system"]
        each = content["realizations"]
        each = each.with_columns(
            pl.lit(None, pl.Float64).alias(column) for column in MEANS if column not in each.columns
        )
        keys = ["scheme", *(["target_epsilon"] if "target_epsilon" in each.columns else [])]
        worst = each.group_by(keys, maintain_order=True).agg(
            pl.col("epsilon_exact").max(), pl.col([column for column in TERMS if column in each.columns]).first()
        )
        frames.append(
            theme.means(each, keys, MEANS)
            .join(worst, on=keys, maintain_order="left")
            .select(
                pl.lit(name).alias("scenario"),
                pl.lit(system).alias("system"),
                pl.all(),
                pl.lit(import_module(f"pwfl.report.{system}").DIFFERS).alias("differs"),
            )
        )
    return pl.concat(frames, how="diagonal_relaxed")


def tradeoff(scenarios: dict[str, dict]) -> alt.LayerChart:
    """Final accuracy over the record-level epsilon, symbols on air as size, a colour for each system."""
    frame = table(scenarios)
    drawn = frame.filter(pl.col("epsilon_exact").is_finite() & pl.col("accuracy_mean").is_not_null())
    drawn = drawn.with_row_index("place")
    left_out = frame.filter(~pl.col("epsilon_exact").is_finite() | pl.col("accuracy_mean").is_null())
    systems = frame["system"].unique(maintain_order=True).to_list()
    title = alt.TitleParams(
        "All systems under common terms",
        subtitle="not drawn, for want of an accuracy or a finite epsilon: "
        + ", ".join(left_out["system"].unique(maintain_order=True))
        if len(left_out)
        else "",
    )
    chosen = alt.selection_point(fields=["system"], bind="legend")
    base = alt.Chart(drawn, title=title, width=theme.WIDTH, height=theme.HEIGHT).encode(
        x=alt.X("epsilon_exact:Q", title="Record-level epsilon, whole training, worst record",
                scale=alt.Scale(type="log", padding=30)),
        y=alt.Y("accuracy_mean:Q", title="Final test accuracy", axis=alt.Axis(format=".0%"),
                scale=alt.Scale(zero=False, domainMax=1)),
        opacity=alt.when(chosen).then(alt.value(1.0)).otherwise(alt.value(0.08)),
    )  # fmt: skip
    points = base.mark_point(filled=True, stroke="black", strokeWidth=0.7).encode(
        color=alt.Color("system:N", title="System", scale=alt.Scale(domain=systems, range=COLOURS[: len(systems)])),
        size=alt.Size("channel_uses_mean:Q", title="Symbols on air", scale=alt.Scale(type="log", range=[40, 500]),
                      legend=alt.Legend(format="~s", symbolFillColor="#888")),
        tooltip=["system:N", "scenario:N", "scheme:N", alt.Tooltip("epsilon_exact:Q", format=".4g"),
                 alt.Tooltip("accuracy_mean:Q", format=".2%"), alt.Tooltip("channel_uses_mean:Q", format=".3s"),
                 alt.Tooltip("transmit_energy_j_mean:Q", format=".3s"), "observer:N", "differs:N"],
    )  # fmt: skip
    # Neighbours in the table are often neighbours in the figure: their names stand above and below.
    names = [
        base.mark_text(align="left", dx=10, dy=shift, fontSize=11)
        .encode(text="scheme:N")
        .transform_filter(f"datum.place % 2 == {parity}")
        for parity, shift in enumerate((-8, 9))
    ]
    return alt.layer(points, *names).add_params(chosen)


COMPARISON_FIGURES = {"tradeoff": tradeoff}
