"""Claims of Lin, Lin, Hsu and Huang, in their order, and of this project about the bounds, measured on a study."""

from functools import partial
from itertools import product

import numpy as np
import polars as pl
from scipy.stats import t as student

from pwfl.report.claims import (
    LESS,
    POSITIVE,
    PROJECT,
    Band,
    Claim,
    Interpretation,
    Quantity,
    Term,
    measure,
    scheme,
    statistic,
    value,
)
from pwfl.report.measures import Measure, counted, difference, estimate, fixed, paired, ratio, worst
from pwfl.scenario.values import Values
from pwfl.tables.arrays import to_array

PROPOSED = (("bound_constant", "constant"), ("bound_adaptive", "adaptive"))
NOISE_FIRST = ("noise_first", "constant")
FALSE_ALARM = 1e-6  # probability of a false alarm in the comparison of simulation and closed form
ROUNDING = 1e-9
EXPECTED, SIMULATION, NOISE = "expected_loss_difference_wh2", "loss_difference_wh2", "noise_power_wh2"
FORMS = {"paired": "this project's bound", "separate": "the paper's bound"}

LOSS = Quantity(EXPECTED, "expected loss difference (2a), Wh²")
LOSSES = Quantity(None, "loss difference (2a), Wh²")
POWER = Quantity(NOISE, "noise power in the aggregated model, Wh²", POSITIVE)
SLACK = Quantity(None, "bound less expected loss difference, Wh²")
CLIENTS = Quantity(None, "clients of Fig. 2, number")
MISSED = Quantity(None, "distance of the time with the least bound from the best time, share of T")

RANDOM_CONSTANT = scheme("random", "constant", "random, constant noise")
RANDOM_ADAPTIVE = scheme("random", "adaptive", "random, adaptive noise")
PROPOSED_CONSTANT, PROPOSED_ADAPTIVE = (scheme(*pair, f"proposed, {pair[1]} noise") for pair in PROPOSED)
FIXED_FIRST = scheme(*NOISE_FIRST, "proposed, noise fixed first")
OPTIMUM_CONSTANT = scheme("simulated_constant", "constant", "simulated optimum, constant noise")
OPTIMUM_ADAPTIVE = scheme("simulated_adaptive", "adaptive", "simulated optimum, adaptive noise")
CLASSIC = scheme("fresh", "constant", "classic DP, fresh data")
EVERY_CONSTANT, EVERY_ADAPTIVE = value("every constant noise"), value("every adaptive noise")

# The paper's setting, for claims about schedules that minimize its bound.
MINIMIZED = {"schedule.bound": ("separate",)}


def _find_largest_difference(one: np.ndarray, other: np.ndarray) -> Measure:
    """Return the largest difference of two means over targets; series have shape (target, realization)."""
    return worst(difference, np.stack([one, other]))


def _find_largest_ratio(one: np.ndarray, other: np.ndarray) -> Measure | None:
    """Return the largest ratio of two means over targets; None unless all values of the second are positive."""
    return worst(ratio, np.stack([one, other])) if (other > 0).all() else None


def _find_least_ratio(one: np.ndarray, other: np.ndarray) -> Measure:
    return worst(ratio, np.stack([one, other]), largest=False)


def _compare_closed_forms(case: int, one: np.ndarray, other: np.ndarray) -> Measure:
    """Return the difference at a target. It is not random: schedules follow from the chains only."""
    return fixed(float(one[case, 0] - other[case, 0]))


def _compare_simulations(case: int, one: np.ndarray, other: np.ndarray) -> Measure | None:
    """Estimate the difference of means at a target over realizations trained in both; None if there are none."""
    both = paired(one[case], other[case])
    return estimate(difference, both) if both.shape[1] else None


def _difference(one: Term, other: Term) -> Term:
    return statistic(f"({one.words}) - ({other.words}), largest over targets", _find_largest_difference, one, other)


def _ratio(one: Term, other: Term) -> Term:
    words = f"({one.words}) / ({other.words}), largest over targets"
    return statistic(words, _find_largest_ratio, one, other, bounds=POSITIVE)


def _least_ratio(one: Term, other: Term, over: str = "targets") -> Term:
    words = f"({one.words}) / ({other.words}), least over {over}"
    return statistic(words, _find_least_ratio, one, other, bounds=POSITIVE)


def _over_classic(scenario: Values) -> dict[str, Term]:
    """Return the terms of claim A-1 by target, in closed form and in simulation."""
    words = f"({PROPOSED_ADAPTIVE.words}) - ({CLASSIC.words})"
    ways = (("closed form", EXPECTED, _compare_closed_forms), ("simulated, paired", SIMULATION, _compare_simulations))
    return {
        f"{way}, target ε {target:g}": statistic(
            words, partial(compare, case), PROPOSED_ADAPTIVE[column], CLASSIC[column]
        )
        for way, column, compare in ways
        for case, target in enumerate(scenario.privacy.target_epsilons)
    }


INTERPRETATIONS = (
    Interpretation(
        "I1",
        "The bound of Theorem 1, which schedules minimize: the text lost its formulas.",
        "What the appendix's steps give term by term (`separate`). This project's is tighter (`paired`): not judged.",
    ),
    Interpretation(
        "I2",
        "The deployment time T, which the text lost.",
        "20; with 100, clients whose data change fast let them age by the paper's bound, too.",
        {"schedule.horizon": (20,)},
    ),
    Interpretation(
        "I3",
        "The clients' chains and start laws, which the text lost.",
        "A slow, a medium and a fast chain that start low, so that Fig. 2 shows both of its cases.",
    ),
    Interpretation(
        "I4",
        "Scheme 3: constant noise is fixed first, then times minimize the bound.",
        "The best of the schedules whose noise meets the target for all clients; noise fixed first is measured, too.",
    ),
    Interpretation(
        "I5",
        "What constant noise is “always larger” than: adaptive noise of the same schedule, or of any.",
        "Of the same schedule; any is measured, too.",
    ),
    Interpretation("I6", "Noise power, whose definition the text lost.", "Its variance in the aggregated model."),
    Interpretation(
        "I7",
        "Δ(T - t) in (1) and (4): the paper takes an upper bound whose constant the text lost.",
        "The exact Δ of the chain; a provable bound by its spectral gap is measured, too.",
        {"privacy.total_variation": ("exact",)},
    ),
    Interpretation(
        "I8",
        "What “superior to classic DP” is about.",
        "The expected loss difference at each target, in closed form and in simulation.",
    ),
    Interpretation(
        "I9",
        "How close “accurately captures” and “guides towards proper scheduling” are.",
        "At most twice the optimum's loss difference; at most a quarter of T from the best time.",
    ),
    Interpretation(
        "I10",
        "Whether clients may collect at the same time: only one can upload at a time.",
        "They may; a step of half an hour has room for several uploads.",
    ),
    Interpretation(
        "I11",
        "The privacy targets of Fig. 2 and 3, which the text lost.",
        "0.3 in Fig. 2, 0.1 to 1.5 in Fig. 3.",
    ),
)

PAPER_CLAIMS = (
    Claim(
        id="A-1",
        statement="The proposed scheme has a lower loss difference than FL with classic DP.",
        source="Abstract and Sec. V",
        reported="superior performance compared to FL with classic DP",
        quantity=LOSSES,
        compare=_over_classic,
        required=LESS,
        setting=MINIMIZED,
    ),
    Claim(
        id="F2-1",
        statement="There are clients who had better collect fresh data.",
        source="Sec. I, Fig. 2 (a)",
        quantity=CLIENTS,
        compare=statistic("best time at T", fixed, value("at the horizon")),
        required=Band(least=1),
        setting={},
    ),
    Claim(
        id="F2-2",
        statement="There are clients who had better collect neither the freshest data nor the stalest.",
        source="Sec. I, Fig. 2 (b), (c)",
        quantity=CLIENTS,
        compare=statistic("best time between 0 and T", fixed, value("inside")),
        required=Band(least=1),
        setting={},
    ),
    Claim(
        id="P1-1",
        statement="A mechanism that is (ε_C, δ_C)-DP on data as collected has the age-dependent DP of (1).",
        source="Proposition 1",
        setting={},
        why="Does not depend on a run. Table realizations has (1), epsilon_amplified, beside the exact ε of Laplace "
        "noise, which is no larger.",
    ),
    Claim(
        id="T1-1",
        statement="The expected loss difference is at most the bound of Theorem 1.",
        source="Theorem 1",
        quantity=SLACK,
        compare=statistic("least, the paper's bound", counted, value("separate slack"), value("realizations")),
        required=Band(least=0),
        setting={},
    ),
    Claim(
        id="T1-2",
        statement="Under a condition on the loss functions, the risk term of the bound can be bounded further.",
        source="Theorem 1",
        setting={},
        why="The text lost the condition and the bound.",
    ),
    Claim(
        id="S3B-1",
        statement="The time to try every schedule becomes unacceptable with more clients and older data.",
        source="Sec. III-B",
        reported="the computational complexity becomes unacceptable",
        setting={},
        why="Follows from their number, (T + 1)^N, which the figure search has beside what a search evaluates that "
        "finds the same minimum.",
    ),
    Claim(
        id="S4A-1",
        statement="(1) and (4) hold with an upper bound on Δ by the chain's spectral gap.",
        source="Sec. IV-A",
        setting={},
        why="The text lost the bound's constant. X-1 shows that without one it is no bound.",
    ),
    Claim(
        id="F3-1",
        statement="The proposed scheme, with adaptive noise, has the lowest loss difference.",
        source="Sec. IV-B, Fig. 3 (a)",
        reported="it achieves the lowest",
        quantity=LOSS,
        compare=tuple(
            _difference(PROPOSED_ADAPTIVE, other) for other in (RANDOM_CONSTANT, RANDOM_ADAPTIVE, PROPOSED_CONSTANT)
        ),
        otherwise={"I4: scheme 3 to the letter": _difference(PROPOSED_ADAPTIVE, FIXED_FIRST)},
        required=Band(below=-ROUNDING),
        setting=MINIMIZED,
    ),
    Claim(
        id="F3-2",
        statement="Theorem 1 captures the trade-off: schedules by it do nearly as well as the simulated optimum.",
        source="Sec. IV-B, Fig. 3 (a)",
        reported="Theorem 1 accurately captures the trade-off",
        quantity=LOSS,
        compare=(_ratio(PROPOSED_CONSTANT, OPTIMUM_CONSTANT), _ratio(PROPOSED_ADAPTIVE, OPTIMUM_ADAPTIVE)),
        required=Band(least=1 - ROUNDING, most=2),
        range_source=PROJECT,
        setting=MINIMIZED,
    ),
    Claim(
        id="S4B-1",
        statement="Theorem 1 guides towards proper scheduling: its bound is least near the best time.",
        source="Sec. IV-B",
        reported="Theorem 1 guides us towards proper scheduling",
        quantity=MISSED,
        compare=statistic("the paper's bound, largest over clients", fixed, value("separate off")),
        required=Band(most=0.25),
        range_source=PROJECT,
        setting={},
    ),
    Claim(
        id="S4B-2",
        statement="The proposed scheme, with adaptive noise, is best in terms of the bound of Theorem 1.",
        source="Sec. IV-B",
        reported="will perform the best in terms of the upper bound",
        setting={},
        why="Follows from the scheme, which finds the least bound of all schedules. Tests try every schedule.",
    ),
    Claim(
        id="F3-3",
        statement="Constant noise is always larger than adaptive noise, for random and for simulated optimal times.",
        source="Sec. IV-B, Fig. 3 (b)",
        reported="constant noise is always larger",
        quantity=POWER,
        compare=(_least_ratio(RANDOM_CONSTANT, RANDOM_ADAPTIVE), _least_ratio(OPTIMUM_CONSTANT, OPTIMUM_ADAPTIVE)),
        required=Band(above=1),
        setting={},
    ),
    Claim(
        id="F3-4",
        statement="Constant noise is always larger than adaptive noise, for the proposed times.",
        source="Sec. IV-B, Fig. 3 (b)",
        reported="constant noise is always larger",
        quantity=POWER,
        compare=_least_ratio(PROPOSED_CONSTANT, PROPOSED_ADAPTIVE),
        otherwise={
            "I5: across schedules": _least_ratio(EVERY_CONSTANT, EVERY_ADAPTIVE, "pairs of schedules and targets")
        },
        required=Band(above=1),
        setting=MINIMIZED,
    ),
)

DOCS = "docs/explanation/age_aware.md"
OWN_CLAIMS = (
    Claim(
        id="X-1",
        statement="By the spectral gap without its constant, (1) understates ε, so it bounds nothing.",
        source=DOCS,
        quantity=Quantity(None, "ε by (1) with the exact Δ / ε by (1) with (1 - gap)^age"),
        compare=statistic("largest", counted, value("epsilon over decay"), value("realizations")),
        required=Band(above=1),
    ),
    Claim(
        id="X-2",
        statement="The expected loss difference is at most this project's bound.",
        source=DOCS,
        quantity=SLACK,
        compare=statistic("least, this project's bound", counted, value("paired slack"), value("realizations")),
        required=Band(least=0),
    ),
    Claim(
        id="X-3",
        statement="Simulated loss differences agree with the closed form.",
        source=DOCS,
        quantity=Quantity(None, "mean of simulated less expected loss difference, standard errors"),
        compare=statistic(f"largest; false alarm {FALSE_ALARM:g}", counted, value("deviation"), value("simulated")),
        required=lambda series: Band(most=series["largest by chance"]),
        range_source=PROJECT,
    ),
    Claim(
        id="X-4",
        statement="This project's bound guides towards proper scheduling: it is least near the best time.",
        source=DOCS,
        reported="Theorem 1 guides us towards proper scheduling",
        quantity=MISSED,
        compare=statistic("this project's bound, largest over clients", fixed, value("paired off")),
        required=Band(most=0.25),
        range_source=PROJECT,
    ),
    Claim(
        id="X-5",
        statement="With the noise fixed first, the proposed scheme has a lower loss difference than classic DP.",
        source=DOCS,
        quantity=LOSS,
        compare=_difference(FIXED_FIRST, CLASSIC),
        required=LESS,
    ),
)


def claims(contents: dict[str, dict]) -> pl.DataFrame:
    """Measure the paper's claims, and this project's about the bounds, as far as scenarios and schemes permit.

    `contents` has by name `scenario` (all parameters that any stage reads) and the report's tables. A claim about all
    privacy targets is measured at the target with the worst value. Proposed schedules minimize the scenario's
    `schedule.bound`.
    """
    return measure(PAPER_CLAIMS + OWN_CLAIMS, contents, _series, INTERPRETATIONS)


def _series(content: dict) -> dict:
    rows = content["realizations"]
    series = _scheme_series(content["scenario"], rows) | _sweep_series(content["sweep"])
    return series if rows.is_empty() else series | _extremes(rows) | _errors(rows)


def _scheme_series(scenario: Values, rows: pl.DataFrame) -> dict:
    """Return each scheme's columns, (target, realization), NaN if not trained, and noise power across schedules."""
    series = {}
    for one in scenario.schemes:
        frame = rows.filter(scheme=one.name)
        for column in (EXPECTED, SIMULATION, NOISE) if len(frame) else ():
            series[(one.scheduler, one.noise), column] = to_array(frame, column, "case", "realization")
    noises = (
        (RANDOM_CONSTANT, PROPOSED_CONSTANT, OPTIMUM_CONSTANT),
        (RANDOM_ADAPTIVE, PROPOSED_ADAPTIVE, OPTIMUM_ADAPTIVE),
    )
    keys = ([curve.key(NOISE) for term in terms for curve in term.series] for terms in noises)
    constant, adaptive = ([series[key] for key in one if key in series] for one in keys)
    # One constant and one adaptive noise are a pair, not a comparison across schedules.
    if constant and adaptive and len(constant) + len(adaptive) > 2:
        crossed = zip(*product(constant, adaptive), strict=True)
        series |= dict(zip((EVERY_CONSTANT.words, EVERY_ADAPTIVE.words), map(np.concatenate, crossed), strict=True))
    return series


def _extremes(rows: pl.DataFrame) -> dict:
    """Return the least slack of each bound and the largest understatement of epsilon, over all rows."""
    slacks = {
        f"{form} slack": rows.select((pl.col(f"{form}_bound_wh2") - pl.col(EXPECTED)).min()).item() for form in FORMS
    }
    return slacks | {
        "realizations": rows["realization"].n_unique(),
        "epsilon over decay": rows.select(pl.col("epsilon_understated").max()).item(),
    }


def _errors(rows: pl.DataFrame) -> dict:
    """Return the largest deviation of simulations from the closed form, in standard errors, and its limit by chance."""
    trained = rows.drop_nulls(SIMULATION)
    count, error = trained["realization"].n_unique(), pl.col(SIMULATION) - pl.col(EXPECTED)
    groups = trained.group_by("scheme", "target_epsilon", maintain_order=True)
    errors = groups.agg(mean=error.mean(), deviation=error.std() / pl.len().sqrt()).filter(pl.col("deviation") > 0)
    if errors.is_empty() or count < 30:  # with fewer, the mean error is not about normal
        return {}
    # Bonferroni over all schemes and targets.
    limit = float(student.isf(FALSE_ALARM / 2 / len(errors), count - 1))
    deviation = errors.select((pl.col("mean") / pl.col("deviation")).abs().max()).item()
    return {"deviation": deviation, "simulated": count, "largest by chance": limit}


def _sweep_series(sweep: pl.DataFrame) -> dict:
    """Fig. 2, in closed form: count the clients with their best time at the horizon, and between 0 and the horizon.

    Also returns the largest distance of the times that each bound chooses from the best times, as a share of T.
    """
    if sweep.is_empty():
        return {}
    time, bounds = pl.col("swept_time"), {form: f"{form}_bound_wh2" for form in FORMS}
    best = (
        sweep.filter(pl.col("scheme") == pl.col("scheme").first())
        .group_by("swept_user", maintain_order=True)
        .agg(time.sort_by(f"{column}_mean").first().alias(column) for column in (EXPECTED, *bounds.values()))
    )
    times, last = best[EXPECTED], sweep.select(time.max()).item()
    off = {
        f"{form} off": best.select((pl.col(EXPECTED) - pl.col(column)).abs().max()).item() / last
        for form, column in bounds.items()
    }
    return off | {"at the horizon": float((times == last).sum()), "inside": float(((times > 0) & (times < last)).sum())}
