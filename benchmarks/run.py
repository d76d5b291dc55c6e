"""Run all benchmarks: print tables, write benchmarks/results/speed.parquet and scale.parquet, and draw a figure.

Run as `python benchmarks/run.py [optimization] [age_search] [training] [workflow] [sweep] [scale]`; default: all.
"""

import json
import subprocess
import sys
from pathlib import Path

import altair as alt
import polars as pl

from pwfl.report import theme

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results"
PARTS = ("optimization", "age_search", "training", "workflow", "sweep", "scale")


def rows_of(part: str) -> list[dict]:
    """Measure the rows of a part, in new processes: thread numbers must be set before libraries load."""
    if part == "training":
        commands = [[FOLDER / "training.py", "1"], [FOLDER / "training.py", "2"]]
    else:
        code = f"import json, {part}; print(json.dumps({part}.rows(), default=lambda v: v.item()))"
        commands = [["-c", code]]
    found = []
    for command in commands:
        done = subprocess.run([sys.executable, *command], cwd=FOLDER, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{done.stderr}{part} ended with {done.returncode}")
        found += json.loads(done.stdout.splitlines()[-1])
    return found


def growth(frame: pl.DataFrame) -> alt.VConcatChart:
    """Draw seconds per realization and a job's peak memory over each kind of size; dashed: linear growth."""
    share = pl.when(pl.col("what") == "realizations").then(1.0).otherwise(pl.col("size") / pl.col("size").last())
    linear = pl.col("seconds_per_realization").last() * share
    base = alt.Chart(frame.with_columns(linear=linear.over("what")), width=180, height=180)
    size = alt.X("size:Q", scale=alt.Scale(type="log"), title=None)

    def panel(column: str, title: str, dash: tuple[int, int] = (1, 0), **scale) -> alt.Chart:
        y = alt.Y(f"{column}:Q", title=title, scale=alt.Scale(**scale))
        return base.mark_line(point=dash == (1, 0), strokeDash=dash).encode(x=size, y=y)

    def panels(*layers: alt.Chart) -> alt.FacetChart:
        return alt.layer(*layers).facet(alt.Column("what:N", title=None)).resolve_scale(x="independent")

    title = "Seconds a realization"
    seconds = [panel("seconds_per_realization", title, type="log"), panel("linear", title, dash=(4, 4), type="log")]
    return panels(*seconds) & panels(panel("peak_mib", "Peak memory (MiB)"))


def main(parts: list[str]) -> None:
    """Run the named parts; print and write what they measure."""
    RESULTS.mkdir(exist_ok=True)
    pl.Config.set_tbl_rows(-1).set_tbl_cols(-1).set_fmt_str_lengths(60).set_tbl_width_chars(200)
    speed = [row for part in parts if part != "scale" for row in rows_of(part)]
    if speed:
        table = pl.DataFrame(speed)
        table.write_parquet(RESULTS / "speed.parquet")
        print(table)
    if "scale" in parts:
        table = pl.DataFrame(rows_of("scale"))
        table.write_parquet(RESULTS / "scale.parquet")
        print(table)
        theme.save(growth(table), {kind: str(RESULTS / f"scale.{kind}") for kind in ("json", "png", "svg")})


if __name__ == "__main__":
    main(sys.argv[1:] or list(PARTS))
