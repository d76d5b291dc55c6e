"""Keep the results of config/systems.yaml at equal epsilon in systems.csv, and draw explanation/epsilon.svg.

python docs/systems.py results/systems      # keep the table of a study that has run, and draw it
python docs/systems.py                      # draw the table that is kept
"""

import sys
from pathlib import Path

import altair as alt
import polars as pl

DOCS = Path(__file__).parent
KEPT, PICTURE = DOCS / "systems.csv", DOCS / "explanation/epsilon.svg"
COLUMNS = ("scenario", "scheme", "privacy.observer", "privacy.target_epsilon", "guarantee", "trainings")
MEANS = ("accuracy_mean", "accuracy_ci_low", "accuracy_ci_high", "channel_uses_mean", "transmit_energy_j_mean")
OBSERVERS = {"user": "The observer sees each message", "network": "The observer sees only the update"}
COLOURS = {
    "uploads, OptSched": "#0072b2",
    "uploads, RndSched": "#56b4e9",
    "128 antennas": "#009e73",
    "sums over the air": "#d55e00",
    "truncated subchannels": "#e69f00",
    "majority votes": "#cc79a7",
    "local steps, 128 antennas": "#777777",
}


def keep(folder: Path) -> None:
    """Write the rows of all schemes with a target epsilon to systems.csv."""
    rows = pl.read_parquet(folder / "systems.parquet").drop_nulls("privacy.target_epsilon")
    rows = rows.with_columns(pl.col("scenario").str.split(",").list.first())
    rows.select(*COLUMNS, pl.col(MEANS).round_sig_figs(6)).write_csv(KEPT)


def chart(rows: pl.DataFrame) -> alt.VConcatChart:
    """Draw accuracy over epsilon, with a panel per observer and a line per scheme of COLOURS, all over one channel."""
    rows = rows.filter(pl.col("scheme").is_in(list(COLOURS)), pl.col("privacy.observer").is_in(list(OBSERVERS)))
    panels = [panel(rows.filter(pl.col("privacy.observer") == name), title) for name, title in OBSERVERS.items()]
    return alt.hconcat(*panels).configure_view(stroke=None).configure_axis(gridColor="#e6e6e6")


def panel(rows: pl.DataFrame, title: str) -> alt.LayerChart:
    """Draw the schemes against one observer: means, and 95% intervals as bars."""
    rows = rows.rename({"privacy.target_epsilon": "target_epsilon"}).drop("privacy.observer")
    epsilon = alt.Axis(values=sorted(set(rows["target_epsilon"])), format="~g")
    colours = {name: colour for name, colour in COLOURS.items() if name in set(rows["scheme"])}
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    base = alt.Chart(rows, width=360, height=280, title=title).encode(
        x=alt.X(
            "target_epsilon:Q",
            title="Record-level ε (δ = 1e-5)",
            scale=alt.Scale(type="log", domain=[0.4, 20], nice=False),
            axis=epsilon,
        ),
        color=alt.Color("scheme:N", title=None, scale=scale, legend=alt.Legend(labelLimit=300, symbolType="circle")),
    )
    accuracy = alt.Y(
        "accuracy_mean:Q", title="Final test accuracy", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])
    )
    bars = base.mark_rule().encode(y=alt.Y("accuracy_ci_low:Q"), y2="accuracy_ci_high:Q")
    return alt.layer(bars, base.mark_line(point=True).encode(y=accuracy))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        keep(Path(sys.argv[1]))
    chart(pl.read_csv(KEPT)).save(PICTURE)
