"""The paper's claims about the system `utility_fair`, measured on the scenarios of a study."""

import polars as pl

from pwfl.report.claims import (
    AT_MOST_ALL,
    CHANGE,
    MNIST,
    POSITIVE,
    Band,
    Claim,
    by_means,
    by_scheme,
    first,
    measure,
    ratio,
    table,
)

PROPOSED, INDEPENDENT, SHARED = ("utility", "fair"), ("benchmark", "independent"), ("benchmark", "shared")
UPLOADS = {"clean": "uploads clean, this project's reading", "noisy": "uploads noisy, as the paper says"}
# The paper's setting: its noise, and no clipping. All readings of its words are in it.
SETTING = MNIST | {"privacy.target_epsilon": (None,), "training.clip_norm": (None,)}
SIZE = "; the size is this project's"
SUMS = ("ones", "path_loss_db", "energy_mj", "path_loss_squared", "path_loss_energy")
COLUMNS = ("batch_loss", "batch_loss_std", "energy_j", "energy_std_j", *SUMS)


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
    *(
        Claim(
            f"1. mean training loss, rounds 2 to last: Proposed above Benchmark with {noise} noise (share)",
            Band(least=0.04, most=0.10),
            f"Sec. IV, Fig. 1; {noise} noise is {whose}; {{uploads}}",
            "6.26%",
            by_means(_excess, (PROPOSED, "batch_loss"), (benchmark, "batch_loss")),
            SETTING,
            CHANGE,
        )
        for noise, benchmark, whose in (
            ("independent", INDEPENDENT, "this project's reading"),
            ("shared", SHARED, "what the paper says"),
        )
    ),
    Claim(
        "1. standard deviation over devices of the training loss, Proposed",
        Band(least=0.09, most=0.16),
        "Sec. IV, Fig. 1; {uploads}",
        "around 0.103",
        by_means(first, (PROPOSED, "batch_loss_std")),
        SETTING,
        POSITIVE,
    ),
    *(
        Claim(
            f"2. mean energy of a round over path loss, {title} (slope, mJ/dB)",
            band,
            f"Sec. IV, Fig. 2{remark}; {{uploads}}",
            printed,
            by_means(_slope, *((scheme, column) for column in SUMS)),
            SETTING,
        )
        for title, scheme, band, remark, printed in (
            ("Proposed", PROPOSED, Band(least=-0.02, most=0.02), "", "almost flat"),
            ("Benchmark", INDEPENDENT, Band(least=1.6, most=2.2), SIZE, "significantly increases"),
        )
    ),
    *(
        Claim(
            f"3. {quantity}: Proposed below Benchmark (share)",
            band,
            "Sec. IV; {uploads}",
            printed,
            by_means(_saving, (PROPOSED, column), (INDEPENDENT, column)),
            SETTING,
            AT_MOST_ALL,
        )
        for quantity, column, band, printed in (
            ("mean energy of a round", "energy_j", Band(least=0.10, most=0.145), "about 12.17%"),
            ("standard deviation over devices of the mean energy", "energy_std_j", Band(least=0.99, most=1), "99%"),
        )
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
        rows += measure(
            CLAIMS, {name: content["scenario"]}, series, uploads=UPLOADS[content["scenario"].privacy.uploads]
        )
    return table(rows)


def _realizations(content: dict) -> pl.DataFrame:
    """The realizations with the sums that the regression on path loss needs."""
    x, y = pl.col("path_loss_db"), 1000 * pl.col("energy_j")
    sums = dict(zip(SUMS, (pl.len(), x.sum(), y.sum(), (x * x).sum(), (x * y).sum()), strict=True))
    of_devices = content["devices"].group_by("scheme", "realization", maintain_order=True).agg(**sums)
    return content["realizations"].join(of_devices, on=["scheme", "realization"], how="left")
