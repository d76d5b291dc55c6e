"""The paper's claims about the system `utility_fair`, measured on the scenarios of a study."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import polars as pl

from pwfl.report import claims as common
from pwfl.report.claims import Band, Claim, ratio

PROPOSED, INDEPENDENT, SHARED = ("utility", "fair"), ("benchmark", "independent"), ("benchmark", "shared")
UPLOADS = {"clean": "uploads clean, this project's reading", "noisy": "uploads noisy, as the paper says"}
LOSSES = ("loss", "loss_std")  # infinite where training diverged
SUMS = ("ones", "path_loss_db", "energy_mj", "path_loss_squared", "path_loss_energy")


class Measured(NamedTuple):
    """A claim, and what is measured for it: a function of the means of columns of schemes."""

    claim: Claim
    series: list[tuple[tuple[str, str], str]]  # (scheme, column)
    function: Callable[[np.ndarray], np.ndarray]


def _excess(means):
    """By how much the first series' mean exceeds the second's, as a share."""
    return ratio(means) - 1


def _saving(means):
    return 1 - ratio(means)


def _mean(means):
    return means[0]


def _slope(means):
    """Slope of the regression of energy on path loss over all devices, from means of realizations' sums."""
    count, x, y, xx, xy = means
    return (count * xy - x * y) / (count * xx - x * x)


CLAIMS = [
    Measured(
        Claim(
            "1. mean training loss, rounds 2 to last: Proposed above Benchmark with independent noise (share)",
            Band(least=0.04, most=0.10),
            "Sec. IV, Fig. 1; independent noise is this project's reading",
            "6.26%",
        ),
        [(PROPOSED, "loss"), (INDEPENDENT, "loss")],
        _excess,
    ),
    Measured(
        Claim(
            "1. mean training loss, rounds 2 to last: Proposed above Benchmark with shared noise (share)",
            Band(least=0.04, most=0.10),
            "Sec. IV, Fig. 1; shared noise is what the paper says",
            "6.26%",
        ),
        [(PROPOSED, "loss"), (SHARED, "loss")],
        _excess,
    ),
    Measured(
        Claim(
            "1. standard deviation over devices of the training loss, Proposed",
            Band(least=0.09, most=0.16),
            "Sec. IV, Fig. 1",
            "around 0.103",
        ),
        [(PROPOSED, "loss_std")],
        _mean,
    ),
    Measured(
        Claim(
            "2. mean energy of a round over path loss, Proposed (slope, mJ/dB)",
            Band(least=-0.02, most=0.02),
            "Sec. IV, Fig. 2",
            "almost flat",
        ),
        [(PROPOSED, column) for column in SUMS],
        _slope,
    ),
    Measured(
        Claim(
            "2. mean energy of a round over path loss, Benchmark (slope, mJ/dB)",
            Band(least=1.6, most=2.2),
            "Sec. IV, Fig. 2; the size is this project's",
            "significantly increases",
        ),
        [(INDEPENDENT, column) for column in SUMS],
        _slope,
    ),
    Measured(
        Claim(
            "3. mean energy of a round: Proposed below Benchmark (share)",
            Band(least=0.10, most=0.145),
            "Sec. IV",
            "about 12.17%",
        ),
        [(PROPOSED, "energy_j"), (INDEPENDENT, "energy_j")],
        _saving,
    ),
    Measured(
        Claim(
            "3. standard deviation over devices of the mean energy: Proposed below Benchmark (share)",
            Band(least=0.99, most=1),
            "Sec. IV",
            "99%",
        ),
        [(PROPOSED, "energy_std_j"), (INDEPENDENT, "energy_std_j")],
        _saving,
    ),
]


def claims(scenarios: dict[str, dict]) -> pl.DataFrame:
    """The claims of each scenario, as far as its schemes let them be measured.

    `scenarios` maps a name to `scenario` and the report's tables `realizations` and `devices`. Both schemes of a
    claim are compared on the same realizations. A training that diverged has an infinite loss, and no energy.
    """
    rows = []
    for name, content in scenarios.items():
        data = _by_scheme(content)
        for claim, series, function in CLAIMS:
            if not all(scheme in data for scheme, _ in series):
                continue
            values = common.paired(*(_values(data[scheme], column) for scheme, column in series))
            if values.shape[1]:
                source = f"{claim.source}; {UPLOADS[content['scenario'].privacy.uploads]}"
                rows.append(common.row(claim._replace(source=source), name, common.estimate(function, values)))
    return common.table(rows)


def _values(frame: pl.DataFrame, column: str) -> np.ndarray:
    if column in LOSSES:
        return common.losses(frame, column)
    return frame.get_column(column).cast(pl.Float64).to_numpy()


def _by_scheme(content: dict) -> dict[tuple[str, str], pl.DataFrame]:
    """Each scheme's realizations, in order, with the sums that the regression on path loss needs."""
    x, y = pl.col("path_loss_db"), 1000 * pl.col("energy_j")
    sums = (
        content["devices"]
        .group_by("scheme", "realization", maintain_order=True)
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
        (scheme.scheduler, scheme.noise): frame.filter(pl.col("scheme") == scheme.name)
        for scheme in content["scenario"].schemes
    }
