"""The paper's claims about the system `utility_fair`, measured on the scenarios of a study."""

import polars as pl

from pwfl.report.claims import Band, Claim, first, losses, measure, of_means, ratio, table

PROPOSED, INDEPENDENT, SHARED = ("utility", "fair"), ("benchmark", "independent"), ("benchmark", "shared")
UPLOADS = {"clean": "uploads clean, this project's reading", "noisy": "uploads noisy, as the paper says"}
LOSSES = ("loss", "loss_std")  # infinite where training diverged
SUMS = ("ones", "path_loss_db", "energy_mj", "path_loss_squared", "path_loss_energy")


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
        ((PROPOSED, "loss"), (INDEPENDENT, "loss")),
        of_means(_excess),
    ),
    Claim(
        "1. mean training loss, rounds 2 to last: Proposed above Benchmark with shared noise (share)",
        Band(least=0.04, most=0.10),
        "Sec. IV, Fig. 1; shared noise is what the paper says; {uploads}",
        "6.26%",
        ((PROPOSED, "loss"), (SHARED, "loss")),
        of_means(_excess),
    ),
    Claim(
        "1. standard deviation over devices of the training loss, Proposed",
        Band(least=0.09, most=0.16),
        "Sec. IV, Fig. 1; {uploads}",
        "around 0.103",
        ((PROPOSED, "loss_std"),),
        of_means(first),
    ),
    Claim(
        "2. mean energy of a round over path loss, Proposed (slope, mJ/dB)",
        Band(least=-0.02, most=0.02),
        "Sec. IV, Fig. 2; {uploads}",
        "almost flat",
        tuple((PROPOSED, column) for column in SUMS),
        of_means(_slope),
    ),
    Claim(
        "2. mean energy of a round over path loss, Benchmark (slope, mJ/dB)",
        Band(least=1.6, most=2.2),
        "Sec. IV, Fig. 2; the size is this project's; {uploads}",
        "significantly increases",
        tuple((INDEPENDENT, column) for column in SUMS),
        of_means(_slope),
    ),
    Claim(
        "3. mean energy of a round: Proposed below Benchmark (share)",
        Band(least=0.10, most=0.145),
        "Sec. IV; {uploads}",
        "about 12.17%",
        ((PROPOSED, "energy_j"), (INDEPENDENT, "energy_j")),
        of_means(_saving),
    ),
    Claim(
        "3. standard deviation over devices of the mean energy: Proposed below Benchmark (share)",
        Band(least=0.99, most=1),
        "Sec. IV; {uploads}",
        "99%",
        ((PROPOSED, "energy_std_j"), (INDEPENDENT, "energy_std_j")),
        of_means(_saving),
    ),
)


def claims(scenarios: dict[str, dict]) -> pl.DataFrame:
    """The claims of each scenario, as far as its schemes let them be measured.

    `scenarios` maps a name to `scenario` and the report's tables `realizations` and `devices`. Both schemes of a
    claim are compared on the same realizations. A training that diverged has an infinite loss, and no energy.
    """
    rows = []
    for name, content in scenarios.items():
        rows += measure(CLAIMS, name, _series(content), uploads=UPLOADS[content["scenario"].privacy.uploads])
    return table(rows)


def _series(content: dict) -> dict:
    """(Scheme, column) -> its realizations, in order, with the sums that the regression on path loss needs."""
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
    series = {}
    for scheme in content["scenario"].schemes:
        own, pair = frame.filter(pl.col("scheme") == scheme.name), (scheme.scheduler, scheme.noise)
        series |= {(pair, column): losses(own, column) for column in LOSSES}
        series |= {(pair, c): own[c].cast(pl.Float64).to_numpy() for c in (*SUMS, "energy_j", "energy_std_j")}
    return series
