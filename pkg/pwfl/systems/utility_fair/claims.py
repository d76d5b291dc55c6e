"""The paper's claims about the system `utility_fair`, measured on the scenarios of a study."""

import polars as pl

from pwfl.report.claims import Band, Claim, by_means, by_scheme, first, measure, ratio, table

PROPOSED, INDEPENDENT, SHARED = ("utility", "fair"), ("benchmark", "independent"), ("benchmark", "shared")
UPLOADS = {"clean": "uploads clean, this project's reading", "noisy": "uploads noisy, as the paper says"}
SUMS = ("ones", "path_loss_db", "energy_mj", "path_loss_squared", "path_loss_energy")
COLUMNS = ("loss", "loss_std", "energy_j", "energy_std_j", *SUMS)


def _excess(means):
    """By how much the first series' mean exceeds the second's, as a share."""
    return ratio(means) - 1


def _saving(means):
    return 1 - ratio(means)


def _slope(means):
    """Slope of the regression of energy on path loss over all devices, from means of realizations' sums."""
    count, x, y, xx, xy = means
    return (count * xy - x * y) / (count * xx - x * x)


CLAIMS = (
    Claim(
        "1. mean training loss, rounds 2 to last: Proposed above Benchmark with independent noise (share)",
        Band(least=0.04, most=0.10),
        "Sec. IV, Fig. 1; independent noise is this project's reading; {uploads}",
        "6.26%",
        by_means(_excess, (PROPOSED, "loss"), (INDEPENDENT, "loss")),
    ),
    Claim(
        "1. mean training loss, rounds 2 to last: Proposed above Benchmark with shared noise (share)",
        Band(least=0.04, most=0.10),
        "Sec. IV, Fig. 1; shared noise is what the paper says; {uploads}",
        "6.26%",
        by_means(_excess, (PROPOSED, "loss"), (SHARED, "loss")),
    ),
    Claim(
        "1. standard deviation over devices of the training loss, Proposed",
        Band(least=0.09, most=0.16),
        "Sec. IV, Fig. 1; {uploads}",
        "around 0.103",
        by_means(first, (PROPOSED, "loss_std")),
    ),
    Claim(
        "2. mean energy of a round over path loss, Proposed (slope, mJ/dB)",
        Band(least=-0.02, most=0.02),
        "Sec. IV, Fig. 2; {uploads}",
        "almost flat",
        by_means(_slope, *((PROPOSED, column) for column in SUMS)),
    ),
    Claim(
        "2. mean energy of a round over path loss, Benchmark (slope, mJ/dB)",
        Band(least=1.6, most=2.2),
        "Sec. IV, Fig. 2; the size is this project's; {uploads}",
        "significantly increases",
        by_means(_slope, *((INDEPENDENT, column) for column in SUMS)),
    ),
    Claim(
        "3. mean energy of a round: Proposed below Benchmark (share)",
        Band(least=0.10, most=0.145),
        "Sec. IV; {uploads}",
        "about 12.17%",
        by_means(_saving, (PROPOSED, "energy_j"), (INDEPENDENT, "energy_j")),
    ),
    Claim(
        "3. standard deviation over devices of the mean energy: Proposed below Benchmark (share)",
        Band(least=0.99, most=1),
        "Sec. IV; {uploads}",
        "99%",
        by_means(_saving, (PROPOSED, "energy_std_j"), (INDEPENDENT, "energy_std_j")),
    ),
)


def claims(scenarios: dict[str, dict]) -> pl.DataFrame:
    """The claims of each scenario, as far as its schemes let them be measured.

    `scenarios` maps a name to `scenario` and the report's tables `realizations` and `devices`. Both schemes of a
    claim are compared on the same realizations. A training that diverged has an infinite loss, and no energy.
    """
    rows = []
    for name, content in scenarios.items():
        series = by_scheme(content["scenario"], _realizations(content), COLUMNS)
        rows += measure(CLAIMS, name, series, uploads=UPLOADS[content["scenario"].privacy.uploads])
    return table(rows)


def _realizations(content: dict) -> pl.DataFrame:
    """The realizations with the sums that the regression on path loss needs."""
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
    return content["realizations"].join(sums, on=["scheme", "realization"], how="left")
