"""The paper's claims about the system `utility_fair`, measured on the scenarios of a study."""

from itertools import product

import numpy as np
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
    comparable,
    difference,
    first,
    measure,
    ratio,
    table,
)
from pwfl.report.columns import total

PROPOSED, INDEPENDENT, SHARED = ("utility", "fair"), ("benchmark", "independent"), ("benchmark", "shared")
BENCHMARK = "benchmark"  # the scenario's: with independent noise or, if it has none, with shared noise
UPLOADS = {"clean": "uploads clean, this project's reading", "noisy": "uploads noisy, as the paper says"}
SAVERS = "network.savers"
# The paper's setting: its noise, and no clipping. All readings of its words are in it.
SETTING = MNIST | {"privacy.target_epsilon": (None,), "training.clip_norm": (None,)}
SIZE = "; the size is this project's"
SUMS = ("ones", "path_loss_db", "energy_mj", "path_loss_squared", "path_loss_energy")
LEARNED = ("batch_loss", "batch_loss_std", "accuracy")
OF_DEVICES = ("energy_j", "energy_std_j", "learning_gain", "learning_gain_std", "utility", "utility_std")
COLUMNS = (*LEARNED, *OF_DEVICES, *SUMS)
OF_SAVING = ("utility_of_savers", "noise_multiplier_of_savers", "noise_multiplier_of_others", "batch_loss_of_others")


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


OF_SAVERS = tuple(  # of a scenario in which devices save effort (True), and of one in which the same devices do not
    Claim(f"5. {text}", band, f"Sec. {where}; {{uploads}}", printed, measured, SETTING, bounds)
    for text, where, printed, band, bounds, measured in (
        (
            "mean utility (18) of devices that save effort, Benchmark: above what it is where none does (difference)",
            "I",
            "enhance its utility",
            Band(above=0),
            UNBOUNDED,
            by_means(difference, *((saving, BENCHMARK, "utility_of_savers") for saving in (True, False))),
        ),
        (
            "mean utility (18) of devices that save effort, Proposed: above what it is where none does (difference)",
            "I",
            "addresses this problem",
            Band(most=0),
            UNBOUNDED,
            by_means(difference, *((saving, PROPOSED, "utility_of_savers") for saving in (True, False))),
        ),
        (
            "mean noise of the copies of devices that save effort, Proposed: above the other devices' (share)",
            "I, III-B",
            "based on their contribution",
            Band(above=0),
            CHANGE,
            by_means(_excess, *((True, PROPOSED, f"noise_multiplier_of_{who}") for who in ("savers", "others"))),
        ),
        (
            "mean training loss of the other devices, Benchmark: above what it is where none saves effort (share)",
            "I",
            "damages training efficiency",
            Band(above=0),
            CHANGE,
            by_means(_excess, *((saving, BENCHMARK, "batch_loss_of_others") for saving in (True, False))),
        ),
    )
)


def claims(scenarios: dict[str, dict]) -> pl.DataFrame:
    """The claims of each scenario, as far as its schemes let them be measured; 1 to 4 where no device saves effort.

    `scenarios` maps a name to `scenario` and the report's tables `realizations` and `devices`. Both schemes of a
    claim are compared on the same realizations. A training that diverged has an infinite loss, and no energy.
    """
    rows = []
    for name, content in scenarios.items():
        if not content["scenario"].network.savers:
            rows += measure(CLAIMS, {name: content["scenario"]}, _series(content, COLUMNS), **_fields(content))
    for names in comparable(scenarios, SAVERS):
        saving = [name for name in names if scenarios[name]["scenario"].network.savers]
        for pair in product(saving, (name for name in names if name not in saving)):
            rows += _of_savers({name: scenarios[name] for name in pair})
    return table(rows)


def _of_savers(pair: dict[str, dict]) -> list[tuple]:
    """The rows about a scenario in which devices save effort, by name, and one in which the same devices do not."""
    saving, none = pair.values()
    series = {}
    for content in (saving, none):
        found = _series(content, OF_SAVING, saving["scenario"].network.savers)
        series |= {(content is saving, *key): values for key, values in found.items()}
    compared = {name: content["scenario"] for name, content in pair.items()}
    return measure(OF_SAVERS, compared, series, **_fields(saving))


def _benchmark(content: dict) -> tuple[str, str]:
    """Scheduler and noise of the scenario's benchmark."""
    schemes = content["scenario"].schemes
    return INDEPENDENT if INDEPENDENT in {(scheme.scheduler, scheme.noise) for scheme in schemes} else SHARED


def _fields(content: dict) -> dict[str, str]:
    """The fields in sources of a scenario's claims."""
    uploads = content["scenario"].privacy.uploads
    return {"uploads": UPLOADS[uploads], "benchmark": f"{_benchmark(content)[1]} noise"}


def _series(content: dict, columns: tuple[str, ...], savers: int = 0) -> dict[tuple, np.ndarray]:
    """Series of the scenario's schemes, and of its benchmark, by realization."""
    series, benchmark = by_scheme(content["scenario"], _realizations(content, savers), columns), _benchmark(content)
    return series | {(BENCHMARK, name): values for (scheme, name), values in series.items() if scheme == benchmark}


def _realizations(content: dict, savers: int) -> pl.DataFrame:
    """The realizations with the sums that the regression on path loss needs, and means of savers and of others."""
    x, y = pl.col("path_loss_db"), 1000 * pl.col("energy_j")
    sums = dict(zip(SUMS, (pl.len(), *map(total, (x, y, x * x, x * y))), strict=True))
    saves = pl.col("device") < savers
    means = {
        "utility_of_savers": pl.col("utility").filter(saves).mean(),
        "noise_multiplier_of_savers": pl.col("noise_multiplier").filter(saves).mean(),
        "noise_multiplier_of_others": pl.col("noise_multiplier").filter(~saves).mean(),
        "batch_loss_of_others": pl.col("batch_loss").filter(~saves).mean(),
    }
    of_devices = content["devices"].group_by("scheme", "realization", maintain_order=True).agg(**sums, **means)
    return content["realizations"].join(of_devices, on=["scheme", "realization"], how="left")
