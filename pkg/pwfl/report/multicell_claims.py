"""The paper's claims about the system `multicell`, measured on the scenarios of a study."""

import numpy as np
import polars as pl

from pwfl.report.claims import SCHEMA, bootstrap, mean_difference

RND, OPT, OPT_DP = ("random", "random"), ("optimal", "random"), ("optimal", "optimal")
SIMILAR = 0.05  # accuracies this close count as similar


def claims(scenarios: dict[str, dict]) -> pl.DataFrame:
    """Claims 1-5 as far as the scenarios and their schemes let them be measured.

    `scenarios` maps a name to `parameters` (the report's) and `realizations` (the report's table).
    Claims that compare settings take the scenarios of least and greatest gamma; those about R = 5
    the one of least gamma. Intervals are percentiles of a bootstrap over realizations, the same
    realizations for all schemes and scenarios; `holds` compares the measured value.
    """
    data = {name: _by_scheme(content) for name, content in scenarios.items()}
    gamma = {name: content["parameters"]["schedule"]["gamma"] for name, content in scenarios.items()}
    low, high = min(gamma, key=gamma.get), max(gamma, key=gamma.get)
    rows = []

    def add(claim, where, column, schemes, statistic, required, holds):
        """`schemes` are pairs (scenario, scheme); `statistic` takes their values, realization by realization."""
        if all(scheme in data[name] for name, scheme in schemes):
            values = [data[name][scheme][column] for name, scheme in schemes]
            values = np.stack([v[: min(map(len, values))] for v in values])
            values = values[:, np.isfinite(values).all(axis=0)]
            if values.shape[1]:
                measured, *interval = bootstrap(statistic, values)
                rows.append((claim, where, measured, *interval, required, bool(holds(measured)), values.shape[1]))

    for name in data:
        parameters = scenarios[name]["parameters"]
        training, privacy = parameters["training"], parameters["privacy"]
        bound = 2 * training["rounds"] * (training["clip_norm"] / privacy["min_noise"]) ** 2
        add("1. mean objective per sample: OptSched below RndSched (difference)", name, "objective_per_sample",
            [(name, OPT), (name, RND)], mean_difference, "< 0", lambda m: m < 0)  # fmt: skip
        add("1. mean objective per sample: OptSched+DP not above OptSched (difference)", name, "objective_per_sample",
            [(name, OPT_DP), (name, OPT)], mean_difference, "<= 0", lambda m: m <= 0)  # fmt: skip
        add("4. maximum rho of RndSched is about the bound of (22)", name, "rho_max", [(name, RND)],
            lambda v, bound=bound: v[0].max(-1) / bound, "0.9 to 1 times", lambda m: 0.9 <= m <= 1 + 1e-9)  # fmt: skip
        add("4. maximum rho of OptSched+DP at most an eighth of the bound of (22)", name, "rho_max", [(name, OPT_DP)],
            lambda v, bound=bound: v[0].max(-1) / bound, "<= 0.125 times", lambda m: m <= 0.125)  # fmt: skip
        add("4. maximum rho: RndSched over OptSched+DP (factor)", name, "rho_max", [(name, RND), (name, OPT_DP)],
            lambda v: v[0].max(-1) / v[1].max(-1), ">= 8", lambda m: m >= 8)  # fmt: skip
    add("3. final accuracy: OptSched above RndSched by more than 6 points (difference)", low, "accuracy",
        [(low, OPT), (low, RND)], mean_difference, "> 0.06", lambda m: m > 0.06)  # fmt: skip
    add("3. final accuracy: OptSched+DP similar to RndSched or better (difference)", low, "accuracy",
        [(low, OPT_DP), (low, RND)], mean_difference, f">= -{SIMILAR}", lambda m: m >= -SIMILAR)  # fmt: skip
    if gamma[low] < gamma[high]:
        pair = f"{high} against {low}"
        add("2. gap of mean objective from OptSched to OptSched+DP wider at larger gamma (difference)", pair,
            "objective_per_sample", [(high, OPT), (high, OPT_DP), (low, OPT), (low, OPT_DP)],
            lambda v: (v[0] - v[1] - v[2] + v[3]).mean(-1), "> 0", lambda m: m > 0)  # fmt: skip
        add("5. median rho of OptSched lower at larger gamma (difference of means over realizations)", pair,
            "rho_median", [(high, OPT), (low, OPT)], mean_difference, "< 0", lambda m: m < 0)  # fmt: skip
    return pl.DataFrame(rows, schema=SCHEMA, orient="row").sort("claim", maintain_order=True)


def _by_scheme(content: dict) -> dict[tuple[str, str], dict[str, np.ndarray]]:
    """The columns of each scheme, in the order of realizations; null is NaN."""
    columns = ["objective_per_sample", "rho_max", "rho_median", "accuracy"]
    result = {}
    for scheme in content["parameters"]["schemes"]:
        frame = content["realizations"].filter(pl.col("scheme") == scheme["name"]).sort("realization")
        result[scheme["scheduler"], scheme["noise"]] = {c: frame[c].cast(pl.Float64).to_numpy() for c in columns}
    return result
