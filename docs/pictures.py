"""Draw explanation/attack_rate.svg, the success rate of an attack over epsilon: `python docs/pictures.py`."""

from pathlib import Path

import altair as alt
import numpy as np
import polars as pl

from pwfl.privacy.gaussian import attack_rate, exact_epsilon

DELTA = 1e-5
FALSE_POSITIVES = (0.001, 0.01, 0.1)
PICTURE = Path(__file__).parent / "explanation" / "attack_rate.svg"


def rates() -> pl.DataFrame:
    """Compute the largest true-positive rates of an attack on a Gaussian mechanism, over its exact epsilon at DELTA."""
    rho = np.geomspace(1e-4, 60, 90)
    epsilon = exact_epsilon(rho, DELTA)
    frames = [
        pl.DataFrame({"epsilon": epsilon, "rate": attack_rate(rho, share)}).with_columns(limit=pl.lit(f"{share:g}"))
        for share in FALSE_POSITIVES
    ]
    return pl.concat(frames).filter(pl.col("epsilon").is_between(0.1, 30))


def chart(frame: pl.DataFrame) -> alt.Chart:
    """Draw attack rates over epsilon, with a line per false-positive rate."""
    x = alt.X("epsilon:Q", title="Record-level ε (δ = 1e-5)", scale=alt.Scale(type="log"))
    y = alt.Y("rate:Q", title="Records identified (true positives)", axis=alt.Axis(format="~%"))
    line = alt.Chart(frame, width=420, height=260).mark_line()
    return line.encode(x=x, y=y, color=alt.Color("limit:N", title="False positives"))


if __name__ == "__main__":
    chart(rates()).save(PICTURE)
