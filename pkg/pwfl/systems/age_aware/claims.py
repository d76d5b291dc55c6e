"""The paper's claims about the system `age_aware`, measured on the scenarios of a study."""

from collections.abc import Iterator

import numpy as np
import polars as pl
from scipy.stats import t as student

from pwfl.report.claims import (
    POSITIVE,
    Band,
    Claim,
    Measure,
    by,
    by_means,
    counted,
    difference,
    fixed,
    known,
    measure,
    ratio,
    table,
    worst,
)
from pwfl.tables.arrays import to_array

RANDOM = (("random", "constant"), ("random", "adaptive"))
PROPOSED = (("bound_constant", "constant"), ("bound_adaptive", "adaptive"))
SIMULATED = (("simulated_constant", "constant"), ("simulated_adaptive", "adaptive"))
NOISE_FIRST, CLASSIC = ("noise_first", "constant"), ("fresh", "constant")
TITLES = {
    pair: f"{kind}, {pair[1]} noise"
    for pairs, kind in ((RANDOM, "random"), (PROPOSED, "proposed"), (SIMULATED, "simulated optimum"))
    for pair in pairs
} | {NOISE_FIRST: "proposed, noise fixed first", CLASSIC: "classic DP, fresh data"}
FALSE_ALARM = 1e-6  # of the comparison of simulation and closed form
ENOUGH = 30  # realizations for the mean error to be about normal
ROUNDING = 1e-9
EXPECTED, SIMULATION, NOISE = "expected_loss_difference_wh2", "loss_difference_wh2", "noise_power_wh2"
FORMS = {"paired": "this project's bound", "separate": "the paper's bound"}
MINIMIZED = {"schedule.bound": ("separate",)}  # the paper's setting of what is said of proposed schedules
BEYOND = "not in the paper"


def _worst_difference(*series: np.ndarray) -> Measure:
    """The largest difference of two means, at the target where it is; series have shape (target, realization)."""
    return worst(difference, np.stack(series))


def _worst_ratio(*series: np.ndarray) -> Measure | None:
    """The largest ratio of two means, of which the second must be positive."""
    return worst(ratio, np.stack(series)) if (series[1] > 0).all() else None


def _least_ratio(constant: list[np.ndarray], adaptive: list[np.ndarray]) -> Measure | None:
    """The least ratio of a mean of some series to one of others."""

    def ratios(means):
        pairs = means[: len(constant), None] / means[None, len(constant) :]
        return pairs.reshape(-1, *pairs.shape[3:])

    return worst(ratios, np.stack([*constant, *adaptive]), largest=False) if constant and adaptive else None


LARGER = {
    "random, constant noise over random, adaptive noise (ratio, worst": (RANDOM, {}),
    "proposed, constant noise over proposed, adaptive noise (ratio, worst": (PROPOSED, MINIMIZED),
    "simulated optimum, constant noise over simulated optimum, adaptive noise (ratio, worst": (SIMULATED, {}),
    "every constant over every adaptive noise, across schedules (ratio, worst pair and": (
        ("constant", "adaptive"),
        MINIMIZED,
    ),
}
UNSAFE = "4. (1) by the exact Delta over (1) by (1 - gap)^age without its constant: this bounds nothing (largest)"
THEOREM = "5. Theorem 1, {form} ({whose}): bound less expected loss difference (least, Wh²)"
COUNTED = {
    "epsilon over decay": (UNSAFE, Band(above=1), BEYOND, None),
    "paired slack": (THEOREM.format(form="paired", whose=FORMS["paired"]), Band(least=0), BEYOND, None),
    "separate slack": (THEOREM.format(form="separate", whose=FORMS["separate"]), Band(least=0), "Theorem 1", {}),
}
CLAIMS = (
    *(
        Claim(
            f"1. expected loss difference: proposed, adaptive noise less {TITLES[other]} (Wh², worst target)",
            Band(most=ROUNDING),
            "Sec. IV, Fig. 3 a; proposed by {bound}",
            "it achieves the lowest",
            by(_worst_difference, (PROPOSED[1], EXPECTED), (other, EXPECTED)),
            MINIMIZED,
        )
        for other in (*RANDOM, PROPOSED[0], NOISE_FIRST)
    ),
    *(
        Claim(
            f"2. expected loss difference: {TITLES[proposed]} over {TITLES[simulated]} (ratio, worst target)",
            Band(least=1 - ROUNDING, most=2),
            "Sec. IV, Fig. 3 a; proposed by {bound}",
            "Theorem 1 accurately captures the trade-off",
            by(_worst_ratio, (proposed, EXPECTED), (simulated, EXPECTED)),
            MINIMIZED,
            POSITIVE,
        )
        for proposed, simulated in zip(PROPOSED, SIMULATED, strict=True)
    ),
    *(
        Claim(
            f"3. noise power: {text} target)",
            Band(above=1),
            f"Sec. IV, Fig. 3 b{'; proposed by {bound}' if setting else ''}",
            "constant noise is always larger",
            by(_least_ratio, *names),
            setting,
            POSITIVE,
        )
        for text, (names, setting) in LARGER.items()
    ),
    *(
        Claim(text, band, source, measured=by(counted, name, "realizations"), setting=setting)
        for name, (text, band, source, setting) in COUNTED.items()
    ),
    *(
        Claim(
            f"7. Fig. 2: clients {text} (number)",
            Band(least=1),
            f"Sec. I, {figure}; chains are this project's",
            measured=by(fixed, name),
            setting={},
        )
        for name, text, figure in (
            ("at the horizon", "that had better collect fresh data", "Fig. 2 a"),
            ("inside", "with an optimum inside 0 to T", "Fig. 2 b, c"),
        )
    ),
    *(
        Claim(
            f"8. Fig. 2: best time by the bound, {form} ({whose}), off the best one (largest, share of T)",
            Band(most=0.25),
            "Sec. IV" if form == "separate" else BEYOND,
            "Theorem 1 guides us towards proper scheduling",
            by(fixed, f"{form} off"),
            {} if form == "separate" else None,
        )
        for form, whose in FORMS.items()
    ),
    Claim(
        "9. expected loss difference: proposed, noise fixed first (scheme 3 to the letter) less classic DP, fresh data "
        "(Wh², worst target)",
        Band(below=0),
        f"{BEYOND}; proposed by {{bound}}",
        measured=by(_worst_difference, (NOISE_FIRST, EXPECTED), (CLASSIC, EXPECTED)),
    ),
)

OVER_CLASSIC = tuple(
    Claim(
        "10. loss difference at target epsilon {target}: proposed, adaptive noise less classic DP, fresh data "
        f"({how}, Wh²)",
        Band(below=0),
        "Abstract and Sec. V; proposed by {bound}",
        "superior performance compared to FL with classic DP",
        setting=MINIMIZED,
    )
    for how in ("closed form", "simulated, paired")
)


def claims(scenarios: dict[str, dict]) -> pl.DataFrame:
    """What the paper says of Fig. 2 and 3 and what this project says of the bounds, as far as it can be measured.

    `scenarios` maps a name to `scenario` (all that any stage reads) and the report's tables. A claim about all
    privacy targets measures the target where it fares worst. Proposed schedules minimize one of two bounds, the
    scenario's `schedule.bound`; their claims name it.
    """
    rows = []
    for name, content in scenarios.items():
        each, sweep, bound = content["realizations"], content["sweep"], FORMS[content["scenario"].schedule.bound]
        declared = (*CLAIMS, *_of_simulation(each), *_over_classic(content))
        series = _by_scheme(content) | _extremes(each) | _of_sweep(sweep)
        rows += measure(declared, {name: content["scenario"]}, series, bound=bound)
    return table(rows)


def _by_scheme(content: dict) -> dict:
    """Expected loss differences, and noise powers in lists, of each scheme and of all that are alike.

    Loss differences of each target, expected and simulated (NaN where not trained), have its number in their names.
    """
    series = {}
    for scheme in content["scenario"].schemes:
        frame, pair = content["realizations"].filter(pl.col("scheme") == scheme.name), (scheme.scheduler, scheme.noise)
        if len(frame):
            columns = (to_array(frame, column, "case", "realization") for column in (EXPECTED, SIMULATION, NOISE))
            expected, simulated, noise = columns
            series |= {(pair, EXPECTED): expected, pair: [noise]}
            for column, values in ((EXPECTED, expected), (SIMULATION, simulated)):
                series |= {(pair, column, case): of_target for case, of_target in enumerate(values)}
    alike = {}
    for name, pairs in zip(("constant", "adaptive"), zip(RANDOM, PROPOSED, SIMULATED, strict=True), strict=True):
        alike[name] = [noise for pair in pairs for noise in series.get(pair, ())]
    # One constant and one adaptive noise are a pair, not a comparison across schedules.
    return series | (alike if max(map(len, alike.values())) > 1 else {})


def _extremes(each: pl.DataFrame) -> dict:
    """Guarantees and Theorem 1, over all schemes, realizations and targets."""
    if each.is_empty():
        return {}
    slacks = {f"{form} slack": float((each[f"{form}_bound_wh2"] - each[EXPECTED]).min()) for form in FORMS}
    return slacks | {
        "realizations": each["realization"].n_unique(),
        "epsilon over decay": float(each["epsilon_understated"].max()),
    }


def _of_simulation(each: pl.DataFrame) -> Iterator[Claim]:
    """The claim that simulated losses are those of the closed form, where there are enough of them."""
    trained = each.drop_nulls(SIMULATION)
    count, error = trained["realization"].n_unique(), pl.col(SIMULATION) - pl.col(EXPECTED)
    groups = trained.group_by("scheme", "target_epsilon", maintain_order=True)
    errors = groups.agg(mean=error.mean(), deviation=error.std() / pl.len().sqrt()).filter(pl.col("deviation") > 0)
    if len(errors) and count >= ENOUGH:
        score = float((errors["mean"] / errors["deviation"]).abs().max())
        # Bonferroni over all schemes and targets.
        limit = float(student.isf(FALSE_ALARM / 2 / len(errors), count - 1))
        text = f"6. simulation against closed form (largest deviation, standard errors; false alarm {FALSE_ALARM:g})"
        yield Claim(text, Band(most=limit), BEYOND, measured=known(counted(score, count)))


def _over_classic(content: dict) -> Iterator[Claim]:
    """The headline target by target.

    Both schedules follow from the chains alone, so the closed form of the loss difference is not random, and decides by
    itself; in simulation, realizations share their data and are compared pair by pair.
    """
    for case, target in enumerate(content["scenario"].privacy.target_epsilons):
        pairs = [[(pair, column, case) for pair in (PROPOSED[1], CLASSIC)] for column in (EXPECTED, SIMULATION)]
        in_closed_form = by(lambda *series: fixed(float(difference([values[0] for values in series]))), *pairs[0])
        for claim, measured in zip(OVER_CLASSIC, (in_closed_form, by_means(difference, *pairs[1])), strict=True):
            yield claim._replace(text=claim.text.format(target=f"{target:g}"), measured=measured)


def _of_sweep(sweep: pl.DataFrame) -> dict:
    """Fig. 2, in closed form: how many clients have their best time at the horizon, or between 0 and it, and how far
    off the times are that the bounds choose, at most.
    """
    if sweep.is_empty():
        return {}
    time, of_bound = pl.col("swept_time"), {form: f"{form}_bound_wh2" for form in FORMS}
    best = (
        sweep.filter(pl.col("scheme") == pl.col("scheme").first())
        .group_by("swept_user", maintain_order=True)
        .agg(time.sort_by(f"{column}_mean").first().alias(column) for column in (EXPECTED, *of_bound.values()))
    )
    times, last = best[EXPECTED], sweep["swept_time"].max()
    off = {f"{form} off": float((times - best[column]).abs().max() / last) for form, column in of_bound.items()}
    return off | {"at the horizon": float((times == last).sum()), "inside": float(((times > 0) & (times < last)).sum())}
