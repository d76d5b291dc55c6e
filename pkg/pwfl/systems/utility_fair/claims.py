"""The paper's claims about the system `utility_fair`, measured on the scenarios of a study."""

import polars as pl

from pwfl.report.claims import (
    AT_MOST_ALL,
    CHANGE,
    MNIST,
    OF_SHARES,
    POSITIVE,
    UNBOUNDED,
    Band,
    Claim,
    by_means,
    by_scheme,
    difference,
    first,
    measure,
    ratio,
    table,
)

PROPOSED, INDEPENDENT, SHARED = ("utility", "fair"), ("benchmark", "independent"), ("benchmark", "shared")
BENCHMARK = "benchmark"  # the scenario's: with independent noise or, if it has none, with shared noise
UPLOADS = {"clean": "uploads clean, this project's reading", "noisy": "uploads noisy, as the paper says"}
# The paper's setting: its noise, and no clipping. All readings of its words are in it.
SETTING = MNIST | {"privacy.target_epsilon": (None,), "training.clip_norm": (None,)}
SIZE = "; the size is this project's"
SUMS = ("ones", "path_loss_db", "energy_mj", "path_loss_squared", "path_loss_energy")
LEARNED = ("batch_loss", "batch_loss_std", "accuracy")
OF_DEVICES = ("energy_j", "energy_std_j", "learning_gain", "learning_gain_std", "utility", "utility_std")
COLUMNS = (*LEARNED, *OF_DEVICES, *SUMS)


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
            f"1. {quantity}: Proposed above Benchmark with {noise} noise ({unit})",
            band,
            f"Sec. IV, Fig. 1{remark}; {noise} noise is {whose}; {{uploads}}",
            printed,
            by_means(function, (PROPOSED, column), (benchmark, column)),
            SETTING,
            bounds,
            rounds_to,
        )
        for quantity, column, function, unit, band, bounds, remark, printed, rounds_to in (
            (
                "mean training loss, rounds 2 to last",
                "batch_loss",
                _excess,
                "share",
                Band(least=0.04, most=0.10),
                CHANGE,
                "",
                "6.26%",
                (0.06255, 0.06265),
            ),
            (  # similar as losses are: within the largest share by which Proposed's may be above
                "standard deviation over devices of the training loss",
                "batch_loss_std",
                _excess,
                "share",
                Band(least=-0.10, most=0.10),
                CHANGE,
                SIZE,
                "very similar",
                None,
            ),
            (
                "final accuracy",
                "accuracy",
                difference,
                "difference",
                Band(least=-0.01),
                OF_SHARES,
                SIZE,
                "does not suffer",
                None,
            ),
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
        (0.1025, 0.1035),
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
            ("Benchmark", BENCHMARK, Band(least=1.6, most=2.2), SIZE, "significantly increases"),
        )
    ),
    *(
        Claim(
            f"3. {quantity}: Proposed below Benchmark (share)",
            band,
            "Sec. IV; {uploads}",
            printed,
            by_means(_saving, (PROPOSED, column), (BENCHMARK, column)),
            SETTING,
            AT_MOST_ALL,
            rounds_to,
        )
        for quantity, column, band, printed, rounds_to in (
            ("mean energy of a round", "energy_j", Band(least=0.10, most=0.145), "about 12.17%", (0.12165, 0.12175)),
            (
                "standard deviation over devices of the mean energy",
                "energy_std_j",
                Band(least=0.99, most=1),
                "99%",
                (0.985, 0.995),
            ),
        )
    ),
    *(
        Claim(
            f"4. standard deviation over devices of {quantity} (share{of})",
            band,
            f"Sec. I{SIZE}; {{benchmark}}; {{uploads}}",
            printed,
            by_means(function, *series),
            SETTING,
            bounds,
        )
        for quantity, of, band, printed, function, series, bounds in (
            (
                "the mean utility (18), Benchmark",
                " of their mean",
                Band(above=0.1),
                "severe utility unfairness",
                ratio,
                ((BENCHMARK, "utility_std"), (BENCHMARK, "utility")),
                UNBOUNDED,
            ),
            (
                "the mean utility (18): Proposed below Benchmark",
                "",
                Band(least=0.5),
                "addresses this problem",
                _saving,
                ((PROPOSED, "utility_std"), (BENCHMARK, "utility_std")),
                AT_MOST_ALL,
            ),
            (
                "the mean learning gain in (18), Proposed",
                " of their mean",
                Band(most=0.1),
                "similar learning gain",
                ratio,
                ((PROPOSED, "learning_gain_std"), (PROPOSED, "learning_gain")),
                POSITIVE,
            ),
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
        scenario = content["scenario"]
        series = by_scheme(scenario, _realizations(content), COLUMNS)
        independent = any((scheme.scheduler, scheme.noise) == INDEPENDENT for scheme in scenario.schemes)
        benchmark = INDEPENDENT if independent else SHARED
        series |= {(BENCHMARK, column): values for (scheme, column), values in series.items() if scheme == benchmark}
        fields = {"uploads": UPLOADS[scenario.privacy.uploads], "benchmark": f"{benchmark[1]} noise"}
        rows += measure(CLAIMS, {name: scenario}, series, **fields)
    return table(rows)


def _realizations(content: dict) -> pl.DataFrame:
    """The realizations with the sums that the regression on path loss needs."""
    x, y = pl.col("path_loss_db"), 1000 * pl.col("energy_j")
    sums = dict(zip(SUMS, (pl.len(), x.sum(), y.sum(), (x * x).sum(), (x * y).sum()), strict=True))
    of_devices = content["devices"].group_by("scheme", "realization", maintain_order=True).agg(**sums)
    return content["realizations"].join(of_devices, on=["scheme", "realization"], how="left")
