"""The paper's claims about the system `age_aware`, measured on the scenarios of a study."""

import numpy as np
import polars as pl
from scipy.stats import t as student

from pwfl.report.claims import SCHEMA, bootstrap

RANDOM = (("random", "constant"), ("random", "adaptive"))
PROPOSED = (("bound_constant", "constant"), ("bound_adaptive", "adaptive"))
SIMULATED = (("simulated_constant", "constant"), ("simulated_adaptive", "adaptive"))
FALSE_ALARM = 1e-6  # of the comparison of simulation and closed form
ENOUGH = 30  # realizations for the mean error to be about normal
ROUNDING = 1e-9
EXPECTED, SIMULATION, NOISE = "expected_loss_difference_wh2", "loss_difference_wh2", "noise_power_wh2"


def claims(scenarios: dict[str, dict]) -> pl.DataFrame:
    """What the paper says of Fig. 2 and 3 and what this project says of the bounds, as far as it can be measured.

    `scenarios` maps a name to `parameters` and the report's tables. A claim about all privacy targets
    measures the target where it fares worst. Intervals are percentiles of a bootstrap over realizations;
    schedules that are the same in each have none.
    """
    rows = []
    for name, content in scenarios.items():
        data = _by_scheme(content)
        rows += [
            (claim, name, *row) for claim, *row in [*_losses(data), *_noise(data), *_bounds(content), *_sweep(content)]
        ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row").sort("claim", maintain_order=True)


def _losses(data: dict):
    """Fig. 3 (a)."""
    best = data.get(PROPOSED[1])
    for other in (*RANDOM, PROPOSED[0]):
        if best and other in data:
            yield _row(
                f"1. expected loss difference: proposed, adaptive noise less {_title(other)} (Wh², worst target)",
                [best[EXPECTED], data[other][EXPECTED]],
                lambda v: (v[0] - v[1]).mean(-1).max(0),
                "<= 0", lambda m: m <= ROUNDING,
            )  # fmt: skip
    for proposed, simulated in zip(PROPOSED, SIMULATED, strict=True):
        if proposed in data and simulated in data and (data[simulated][EXPECTED] > 0).all():
            yield _row(
                f"2. expected loss difference: {_title(proposed)} over {_title(simulated)} (ratio, worst target)",
                [data[proposed][EXPECTED], data[simulated][EXPECTED]],
                lambda v: (v[0].mean(-1) / v[1].mean(-1)).max(0),
                "1 to 2", lambda m: 1 - ROUNDING <= m <= 2,
            )  # fmt: skip


def _noise(data: dict):
    """Fig. 3 (b)."""
    for constant, adaptive in (RANDOM, PROPOSED, SIMULATED):
        if constant in data and adaptive in data:
            yield _row(
                f"3. noise power: {_title(constant)} over {_title(adaptive)} (ratio, worst target)",
                [data[constant][NOISE], data[adaptive][NOISE]],
                lambda v: (v[0].mean(-1) / v[1].mean(-1)).min(0),
                ">= 1", lambda m: m >= 1 - ROUNDING,
            )  # fmt: skip
    constant, adaptive = (
        [data[pair] for pair in pairs if pair in data] for pairs in zip(RANDOM, PROPOSED, SIMULATED, strict=True)
    )
    if constant and adaptive:
        yield _row(
            "3. noise power: every constant over every adaptive noise, across schedules (ratio, worst pair and target)",
            [scheme[NOISE] for scheme in (*constant, *adaptive)],
            lambda v: (v[: len(constant)].mean(-1).min(0) / v[len(constant) :].mean(-1).max(0)).min(0),
            ">= 1", lambda m: m >= 1 - ROUNDING,
        )  # fmt: skip


def _bounds(content: dict):
    """Guarantees and Theorem 1, over all schemes, realizations and targets."""
    each = content["realizations"]
    if each.is_empty():
        return
    count = each["realization"].n_unique()

    def fixed(claim, value, required, holds):
        value = float(value)
        return claim, value, value, value, required, bool(holds), count

    worst = (each["epsilon_exact"] / each["target_epsilon"]).max()
    yield fixed("4. epsilon at T over its target (largest)", worst, "<= 1", worst <= 1 + ROUNDING)
    ratio = each["epsilon_understated"].max()
    yield fixed("5. exact epsilon over the one by (1 - gap)^age without its constant (largest)", ratio,
                "> 1: it bounds nothing", ratio > 1)  # fmt: skip
    for form in ("paired", "separate"):
        slack = (each[f"{form}_bound_wh2"] - each[EXPECTED]).min()
        yield fixed(
            f"6. Theorem 1, {form}: bound less expected loss difference (least, Wh²)", slack, ">= 0", slack >= 0
        )
    trained = each.drop_nulls(SIMULATION)
    count = trained["realization"].n_unique()
    error = (
        trained.with_columns(error=pl.col(SIMULATION) - pl.col(EXPECTED))
        .group_by("scheme", "target_epsilon")
        .agg(pl.col("error").mean().alias("mean"), (pl.col("error").std() / pl.len().sqrt()).alias("deviation"))
        .filter(pl.col("deviation") > 0)
    )
    if len(error) and count >= ENOUGH:
        score = (error["mean"] / error["deviation"]).abs().max()
        # Bonferroni over all schemes and targets.
        limit = student.isf(FALSE_ALARM / 2 / len(error), count - 1)
        yield fixed("7. simulation against closed form (largest deviation, standard errors)", score,
                    f"<= {limit:.2f}, false alarm {FALSE_ALARM:g}", score <= limit)  # fmt: skip


def _sweep(content: dict):
    """Fig. 2."""
    sweep = content["sweep"]
    if sweep.is_empty():
        return
    best = (
        sweep.filter(pl.col("scheme") == pl.col("scheme").first())
        .group_by("swept_user")
        .agg(*(pl.col("swept_time").sort_by(f"{c}_mean").first().alias(c) for c in (EXPECTED, "paired_bound_wh2")))
    )
    last, count = sweep["swept_time"].max(), content["history"]["realization"].n_unique()
    for claim, cases in (
        ("clients that had better collect fresh data", best[EXPECTED] == last),
        ("clients with an optimum inside 0..T", (best[EXPECTED] > 0) & (best[EXPECTED] < last)),
    ):
        value = float(cases.sum())
        yield f"8. Fig. 2: {claim} (number)", value, value, value, ">= 1", value >= 1, count
    value = float((best[EXPECTED] - best["paired_bound_wh2"]).abs().max())
    yield (
        "9. Fig. 2: best time by the bound off the best one (largest, steps)",
        value,
        value,
        value,
        f"<= {last / 4:g}",
        value <= last / 4,
        count,
    )


def _by_scheme(content: dict) -> dict[tuple[str, str], dict[str, np.ndarray]]:
    """Columns of each scheme, shape (target, realization)."""
    found = {}
    for scheme in content["parameters"]["schemes"]:
        frame = content["realizations"].filter(pl.col("scheme") == scheme["name"]).sort("case", "realization")
        if len(frame):
            cases = frame["case"].n_unique()
            found[scheme["scheduler"], scheme["noise"]] = {
                c: frame[c].to_numpy().reshape(cases, -1) for c in (EXPECTED, NOISE)
            }
    return found


def _row(claim: str, values: list[np.ndarray], statistic, required: str, holds) -> tuple:
    """A row of the table; `statistic` takes an array of shape (series, target, ..., realization)."""
    stacked = np.stack(values)
    series, targets, count = stacked.shape

    def of_flat(flat):
        return statistic(flat.reshape(series, targets, *flat.shape[1:]))

    measured, low, high = bootstrap(of_flat, stacked.reshape(series * targets, count))
    return claim, measured, low, high, required, bool(holds(measured)), count


def _title(pair: tuple[str, str]) -> str:
    kind = {"random": "random", "bound": "proposed", "simulated": "simulated optimum"}[pair[0].split("_")[0]]
    return f"{kind}, {pair[1]} noise"
