"""The paper's claims about the system `utility_fair`, measured on the scenarios of a study."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import polars as pl

from pwfl.report.claims import SCHEMA, bootstrap

PROPOSED, INDEPENDENT, SHARED = ("utility", "fair"), ("benchmark", "independent"), ("benchmark", "shared")
SUMS = ("ones", "path_loss_db", "energy_mj", "path_loss_squared", "path_loss_energy")


class Claim(NamedTuple):
    """What is measured of which columns of which schemes, and the interval it must lie in."""

    text: str
    series: list[tuple[tuple[str, str], str]]  # (scheme, column)
    statistic: Callable[[np.ndarray], np.ndarray]
    least: float
    most: float
    required: str


def _excess(v):
    """By how much the first series' mean exceeds the second's, as a share."""
    return v[0].mean(-1) / v[1].mean(-1) - 1


def _saving(v):
    return -_excess(v)


def _slope(v):
    """Slope of the regression of energy on path loss over all devices, from realizations' sums."""
    count, x, y, xx, xy = v.sum(-1)
    return (count * xy - x * y) / (count * xx - x * x)


CLAIMS = [
    Claim("1. mean training loss, rounds 2 to last: Proposed above Benchmark with independent noise (share)",
          [(PROPOSED, "loss"), (INDEPENDENT, "loss")], _excess, 0.04, 0.10, "0.04 to 0.10"),
    Claim("1. mean training loss, rounds 2 to last: Proposed above Benchmark with shared noise (share)",
          [(PROPOSED, "loss"), (SHARED, "loss")], _excess, 0.04, 0.10, "0.04 to 0.10"),
    Claim("1. standard deviation over devices of the training loss, Proposed",
          [(PROPOSED, "loss_std")], lambda v: v[0].mean(-1), 0.09, 0.16, "0.09 to 0.16"),
    Claim("2. mean energy of a round over path loss, Proposed (slope, mJ/dB)",
          [(PROPOSED, column) for column in SUMS], _slope, -0.02, 0.02, "-0.02 to 0.02"),
    Claim("2. mean energy of a round over path loss, Benchmark (slope, mJ/dB)",
          [(INDEPENDENT, column) for column in SUMS], _slope, 1.6, 2.2, "1.6 to 2.2"),
    Claim("3. mean energy of a round: Proposed below Benchmark (share)",
          [(PROPOSED, "energy_j"), (INDEPENDENT, "energy_j")], _saving, 0.10, 0.145, "0.10 to 0.145"),
    Claim("3. standard deviation over devices of the mean energy: Proposed below Benchmark (share)",
          [(PROPOSED, "energy_std_j"), (INDEPENDENT, "energy_std_j")], _saving, 0.99, 1.0, ">= 0.99"),
]  # fmt: skip


def claims(scenarios: dict[str, dict]) -> pl.DataFrame:
    """The claims of each scenario, as far as its schemes let them be measured, columns SCHEMA.

    `scenarios` maps a name to `parameters` and the report's tables `realizations` and `devices`. Intervals are
    percentiles of a bootstrap over realizations, the same for both schemes; `holds` compares the measured value.
    """
    rows = []
    for name, content in scenarios.items():
        data = _by_scheme(content)
        for claim in CLAIMS:
            if not all(scheme in data for scheme, _ in claim.series):
                continue
            series = [data[scheme].get_column(column) for scheme, column in claim.series]
            values = np.stack([s.cast(pl.Float64).to_numpy() for s in series])
            values = values[:, np.isfinite(values).all(axis=0)]
            with np.errstate(divide="ignore", invalid="ignore"):
                if values.shape[1] and np.isfinite(claim.statistic(values)):
                    measured, *interval = bootstrap(claim.statistic, values)
                    holds = claim.least <= measured <= claim.most
                    rows.append((claim.text, name, measured, *interval, claim.required, holds, values.shape[1]))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row").sort("claim", maintain_order=True)


def _by_scheme(content: dict) -> dict[tuple[str, str], pl.DataFrame]:
    """Each scheme's realizations, in order, with the sums that the regression on path loss needs."""
    x, y = pl.col("path_loss_db"), 1000 * pl.col("energy_j")
    sums = (
        content["devices"]
        .group_by("scheme", "realization")
        .agg(
            ones=pl.len(),
            path_loss_db=x.sum(),
            energy_mj=y.sum(),
            path_loss_squared=(x * x).sum(),
            path_loss_energy=(x * y).sum(),
        )
    )
    frame = content["realizations"].join(sums, on=["scheme", "realization"], how="left").sort("realization")
    return {
        (scheme["scheduler"], scheme["noise"]): frame.filter(pl.col("scheme") == scheme["name"])
        for scheme in content["parameters"]["schemes"]
    }
