"""The paper's claims about the system `age_aware`, measured on the scenarios of a study."""

from collections.abc import Iterator

import numpy as np
import polars as pl
from scipy.stats import t as student

from pwfl.report import claims as common
from pwfl.report.claims import Band, Claim, Measure, counted, difference, fixed, ratio, worst
from pwfl.tables.arrays import to_array

RANDOM = (("random", "constant"), ("random", "adaptive"))
PROPOSED = (("bound_constant", "constant"), ("bound_adaptive", "adaptive"))
SIMULATED = (("simulated_constant", "constant"), ("simulated_adaptive", "adaptive"))
KINDS = {
    **dict.fromkeys(RANDOM, "random"),
    **dict.fromkeys(PROPOSED, "proposed"),
    **dict.fromkeys(SIMULATED, "simulated optimum"),
}
FALSE_ALARM = 1e-6  # of the comparison of simulation and closed form
ENOUGH = 30  # realizations for the mean error to be about normal
ROUNDING = 1e-9
EXPECTED, SIMULATION, NOISE = "expected_loss_difference_wh2", "loss_difference_wh2", "noise_power_wh2"
FORMS = {"paired": "this project's bound", "separate": "the paper's bound"}
BEYOND = "not in the paper"

Measured = Iterator[tuple[Claim, Measure]]


def claims(scenarios: dict[str, dict]) -> pl.DataFrame:
    """What the paper says of Fig. 2 and 3 and what this project says of the bounds, as far as it can be measured.

    `scenarios` maps a name to `scenario` (all that any stage reads) and the report's tables. A claim about all
    privacy targets measures the target where it fares worst. Proposed schedules minimize one of two bounds, the
    scenario's `schedule.bound`; their claims name it.
    """
    rows = []
    for name, content in scenarios.items():
        data, form = _by_scheme(content), FORMS[content["scenario"].schedule.bound]
        parts = (_losses(data, form), _noise(data, form), _bounds(content), _sweep(content))
        rows += [common.row(claim, name, measure) for part in parts for claim, measure in part]
    return common.table(rows)


def _losses(data: dict, form: str) -> Measured:
    """Fig. 3 (a)."""
    best = data.get(PROPOSED[1])
    for other in (*RANDOM, PROPOSED[0]):
        if best and other in data:
            claim = Claim(
                f"1. expected loss difference: proposed ({form}), adaptive noise less {_title(other)} "
                "(Wh², worst target)",
                Band(most=ROUNDING),
                "Sec. IV, Fig. 3 a",
                "it achieves the lowest",
            )
            yield claim, worst(difference, np.stack([best[EXPECTED], data[other][EXPECTED]]))
    for proposed, simulated in zip(PROPOSED, SIMULATED, strict=True):
        if proposed in data and simulated in data and (data[simulated][EXPECTED] > 0).all():
            claim = Claim(
                f"2. expected loss difference: {_title(proposed)} ({form}) over {_title(simulated)} "
                "(ratio, worst target)",
                Band(least=1 - ROUNDING, most=2),
                "Sec. IV, Fig. 3 a",
                "Theorem 1 accurately captures the trade-off",
            )
            yield claim, worst(ratio, np.stack([data[proposed][EXPECTED], data[simulated][EXPECTED]]))


def _noise(data: dict, form: str) -> Measured:
    """Fig. 3 (b)."""
    source, printed = "Sec. IV, Fig. 3 b", "constant noise is always larger"
    for constant, adaptive in (RANDOM, PROPOSED, SIMULATED):
        if constant in data and adaptive in data:
            bound = f" ({form})" if constant == PROPOSED[0] else ""
            claim = Claim(
                f"3. noise power: {_title(constant)} over {_title(adaptive)}{bound} (ratio, worst target)",
                Band(least=1 - ROUNDING),
                source,
                printed,
            )
            yield claim, worst(ratio, np.stack([data[constant][NOISE], data[adaptive][NOISE]]), largest=False)
    constant, adaptive = (
        [data[pair][NOISE] for pair in pairs if pair in data] for pairs in zip(RANDOM, PROPOSED, SIMULATED, strict=True)
    )
    if constant and adaptive:
        claim = Claim(
            "3. noise power: every constant over every adaptive noise, across schedules "
            f"({form}; ratio, worst pair and target)",
            Band(least=1 - ROUNDING),
            source,
            printed,
        )

        def ratios(means):
            pairs = means[: len(constant), None] / means[None, len(constant) :]
            return pairs.reshape(-1, *pairs.shape[3:])

        yield claim, worst(ratios, np.stack([*constant, *adaptive]), largest=False)


def _bounds(content: dict) -> Measured:
    """Guarantees and Theorem 1, over all schemes, realizations and targets."""
    each = content["realizations"]
    if each.is_empty():
        return
    count = each["realization"].n_unique()
    ratio_to_target = float((each["epsilon_exact"] / each["target_epsilon"]).max())
    yield (
        Claim("4. epsilon at T over its target (largest)", Band(most=1 + ROUNDING), "(4)"),
        counted(ratio_to_target, count),
    )
    yield (
        Claim(
            "5. exact epsilon over the one by (1 - gap)^age without its constant: this bounds nothing (largest)",
            Band(above=1),
            BEYOND,
        ),
        counted(float(each["epsilon_understated"].max()), count),
    )
    for form, whose in FORMS.items():
        slack = float((each[f"{form}_bound_wh2"] - each[EXPECTED]).min())
        yield (
            Claim(
                f"6. Theorem 1, {form} ({whose}): bound less expected loss difference (least, Wh²)",
                Band(least=0),
                "Theorem 1" if form == "separate" else BEYOND,
            ),
            counted(slack, count),
        )
    trained = each.drop_nulls(SIMULATION)
    count = trained["realization"].n_unique()
    error = (
        trained.with_columns(error=pl.col(SIMULATION) - pl.col(EXPECTED))
        .group_by("scheme", "target_epsilon", maintain_order=True)
        .agg(pl.col("error").mean().alias("mean"), (pl.col("error").std() / pl.len().sqrt()).alias("deviation"))
        .filter(pl.col("deviation") > 0)
    )
    if len(error) and count >= ENOUGH:
        score = float((error["mean"] / error["deviation"]).abs().max())
        # Bonferroni over all schemes and targets.
        limit = float(student.isf(FALSE_ALARM / 2 / len(error), count - 1))
        yield (
            Claim(
                f"7. simulation against closed form (largest deviation, standard errors; false alarm {FALSE_ALARM:g})",
                Band(most=limit),
                BEYOND,
            ),
            counted(score, count),
        )


def _sweep(content: dict) -> Measured:
    """Fig. 2, in closed form."""
    sweep = content["sweep"]
    if sweep.is_empty():
        return
    columns = (EXPECTED, *(f"{form}_bound_wh2" for form in FORMS))
    best = (
        sweep.filter(pl.col("scheme") == pl.col("scheme").first())
        .group_by("swept_user", maintain_order=True)
        .agg(*(pl.col("swept_time").sort_by(f"{c}_mean").first().alias(c) for c in columns))
    )
    last = sweep["swept_time"].max()
    for text, figure, cases in (
        ("clients that had better collect fresh data", "Fig. 2 a", best[EXPECTED] == last),
        ("clients with an optimum inside 0..T", "Fig. 2 b, c", (best[EXPECTED] > 0) & (best[EXPECTED] < last)),
    ):
        claim = Claim(f"8. Fig. 2: {text} (number)", Band(least=1), f"Sec. I, {figure}; chains are this project's")
        yield claim, fixed(float(cases.sum()))
    for form, whose in FORMS.items():
        off = float((best[EXPECTED] - best[f"{form}_bound_wh2"]).abs().max())
        claim = Claim(
            f"9. Fig. 2: best time by the bound, {form} ({whose}), off the best one (largest, steps)",
            Band(most=last / 4),
            "Sec. IV",
            "Theorem 1 guides us towards proper scheduling",
        )
        yield claim, fixed(off)


def _by_scheme(content: dict) -> dict[tuple[str, str], dict[str, np.ndarray]]:
    """Columns of each scheme, shape (target, realization)."""
    found = {}
    for scheme in content["scenario"].schemes:
        frame = content["realizations"].filter(pl.col("scheme") == scheme.name)
        if len(frame):
            found[scheme.scheduler, scheme.noise] = {
                column: to_array(frame, column, "case", "realization") for column in (EXPECTED, NOISE)
            }
    return found


def _title(pair: tuple[str, str]) -> str:
    return f"{KINDS[pair]}, {pair[1]} noise"
