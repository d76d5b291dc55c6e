"""The paper's claims about the system `multicell`, measured on the scenarios of a study."""

from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from pwfl.learning import datasets
from pwfl.report import claims as common
from pwfl.report.claims import Band, Claim, difference, ratio
from pwfl.systems.multicell import hexagons

if TYPE_CHECKING:
    from pwfl.systems.multicell.scenario import Multicell

RND, OPT, OPT_DP = ("random", "random"), ("optimal", "random"), ("optimal", "optimal")
SIMILAR, SLIGHT = 0.05, 0.05  # accuracies this close are read as similar, a loss of this much as slight
SIMILAR_LOSS, SLIGHT_LOSS = 1.1, 1.1  # the same of losses, as ratios
TRAININGS = 100  # realizations over which the paper's maxima of rho go
ROUNDING = 1e-9
OBJECTIVE, PERFORMANCE, LEAKAGE = "Sec. VI-A, Fig. 4", "Sec. VI-B, Fig. 5 a-d", "Sec. VI-B, Fig. 5 e, f"
LESS = Band(below=0)


def claims(scenarios: dict[str, dict]) -> pl.DataFrame:
    """The claims as far as the scenarios and their schemes let them be measured.

    `scenarios` maps a name to `scenario` (all that any stage reads) and `realizations` (the report's table). Claims
    that compare settings pair scenarios that are equal in all but R and gamma; those about few resource blocks (R = 5)
    are measured where the cells have blocks for at most half of the users. Differences are paired by realization. A
    training that diverged, or for which no noise was feasible, guesses (accuracy) and has an infinite loss.
    """
    data = {name: _by_scheme(content) for name, content in scenarios.items()}
    rows = []

    def add(text, band, source, printed, column, function, *series):
        """`series` are pairs (scenario, scheme); `function` takes the means of their values."""
        if column.startswith("rho"):
            source += _caveat(scenarios[series[0][0]]["scenario"])
        if all(scheme in data[name] for name, scheme in series):
            values = common.paired(*(data[name][scheme][column] for name, scheme in series))
            if values.shape[1]:
                where = " against ".join(dict.fromkeys(name for name, _ in series))
                rows.append(common.row(Claim(text, band, source, printed), where, common.estimate(function, values)))

    for name in scenarios:
        _within(add, name)
        if _few_blocks(scenarios[name]["scenario"]):
            _with_few_blocks(add, name)
        rows += _maxima(name, scenarios[name]["scenario"], data[name])
    for names in common.alike(scenarios, "radio.resource_blocks", "schedule.gamma"):
        settings = [(name, *_setting(scenarios[name]["scenario"])) for name in names]
        for one, other in permutations(settings, 2):
            _between(add, one, other)
    return common.table(rows)


def _within(add, name: str) -> None:
    """Claims about each setting by itself."""
    opt, opt_dp, rnd = (name, OPT), (name, OPT_DP), (name, RND)
    add(
        "1. mean objective per sample: OptSched below RndSched (difference)",
        LESS,
        OBJECTIVE,
        None,
        "objective_per_sample",
        difference,
        opt,
        rnd,
    )
    add(
        "1. mean objective per sample: OptSched+DP below OptSched (difference)",
        LESS,
        OBJECTIVE,
        None,
        "objective_per_sample",
        difference,
        opt_dp,
        opt,
    )
    add(
        "3. final accuracy: OptSched above RndSched (difference)",
        Band(above=0),
        PERFORMANCE,
        None,
        "accuracy",
        difference,
        opt,
        rnd,
    )
    add("3. final loss: OptSched below RndSched (difference)", LESS, PERFORMANCE, None, "loss", difference, opt, rnd)
    add(
        "3. final accuracy: OptSched+DP slightly degrades OptSched (difference)",
        Band(least=-SLIGHT, below=0),
        PERFORMANCE,
        "slightly",
        "accuracy",
        difference,
        opt_dp,
        opt,
    )
    add(
        "3. final loss: OptSched+DP slightly degrades OptSched (ratio)",
        Band(above=1, most=SLIGHT_LOSS),
        PERFORMANCE,
        "slightly",
        "loss",
        ratio,
        opt_dp,
        opt,
    )
    add(
        "5. median rho of a realization: OptSched+DP leaks less than OptSched (difference)",
        LESS,
        LEAKAGE,
        "substantially reduces",
        "rho_median",
        difference,
        opt_dp,
        opt,
    )
    add(
        "5. median rho of a realization: OptSched leaks less than RndSched (difference)",
        LESS,
        "Sec. VII",
        "if gamma is set properly",
        "rho_median",
        difference,
        opt,
        rnd,
    )


def _with_few_blocks(add, name: str) -> None:
    """Claims about small R."""
    opt, opt_dp, rnd = (name, OPT), (name, OPT_DP), (name, RND)
    add(
        "3. final accuracy, few blocks: OptSched above RndSched by more than 6 points (difference)",
        Band(above=0.06),
        "Sec. VII",
        "over 6%",
        "accuracy",
        difference,
        opt,
        rnd,
    )
    add(
        "3. final accuracy, few blocks: OptSched+DP similar to RndSched or better (difference)",
        Band(least=-SIMILAR),
        PERFORMANCE,
        "similar or even better",
        "accuracy",
        difference,
        opt_dp,
        rnd,
    )
    add(
        "3. final loss, few blocks: OptSched+DP similar to RndSched or better (ratio)",
        Band(most=SIMILAR_LOSS),
        PERFORMANCE,
        "similar or even better",
        "loss",
        ratio,
        opt_dp,
        rnd,
    )


def _between(add, one: tuple[str, int, float], other: tuple[str, int, float]) -> None:
    """Claims about the step from one setting (name, R, gamma) to another, where it leads upwards."""
    (first, blocks, gamma), (second, more, larger) = one, other
    if more < blocks or larger < gamma:
        return
    if larger > gamma:
        add(
            "2. mean objective per sample: gap from OptSched to OptSched+DP wider at larger gamma (difference)",
            Band(above=0),
            "Fig. 4",
            None,
            "objective_per_sample",
            _gap_difference,
            (second, OPT),
            (second, OPT_DP),
            (first, OPT),
            (first, OPT_DP),
        )
        add(
            "2. mean objective per sample: OptSched+DP lower at larger gamma (difference)",
            LESS,
            OBJECTIVE,
            None,
            "objective_per_sample",
            difference,
            (second, OPT_DP),
            (first, OPT_DP),
        )
        add(
            "5. median rho of a realization: OptSched leaks less at larger gamma (difference)",
            LESS,
            LEAKAGE,
            None,
            "rho_median",
            difference,
            (second, OPT),
            (first, OPT),
        )
    if more > blocks:
        add(
            "2. mean objective per sample: RndSched closer to OptSched at larger R (difference of gaps)",
            LESS,
            OBJECTIVE,
            "slightly closer",
            "objective_per_sample",
            _gap_difference,
            (second, RND),
            (second, OPT),
            (first, RND),
            (first, OPT),
        )


def _gap_difference(means: np.ndarray) -> np.ndarray:
    return means[0] - means[1] - (means[2] - means[3])


def _maxima(name: str, scenario: "Multicell", schemes: dict) -> list[tuple]:
    """The largest rho of a user in all realizations, in units of the bound that (22) sets."""
    training, privacy = scenario.training, scenario.privacy
    bound = 2 * training.rounds * (training.clip_norm / privacy.min_noise) ** 2
    largest = {}
    for scheme in (RND, OPT_DP):
        values = schemes.get(scheme, {}).get("rho_max", np.array([]))
        if len(values := values[~np.isnan(values)] / bound):
            largest[scheme] = common.maximum(values, TRAININGS, 1 + ROUNDING)
    found = [
        (
            largest.get(RND),
            Band(least=0.9, most=1 + ROUNDING),
            LEAKAGE,
            "around 4, the bound with Table I",
            "4. largest rho of RndSched: about the bound of (22) (share of it)",
        ),
        (
            largest.get(OPT_DP),
            Band(least=0.1, most=0.15),
            LEAKAGE,
            "around 0.5, the bound is 4",
            "4. largest rho of OptSched+DP: about an eighth of the bound of (22) (share of it)",
        ),
        (
            _factor(largest),
            Band(least=8),
            "Sec. VII",
            "a factor of 8, from 4 to 0.5",
            "4. largest rho: RndSched over OptSched+DP, at least (factor)",
        ),
    ]
    return [
        common.row(Claim(text, band, source + _caveat(scenario), printed), name, measure)
        for measure, band, source, printed, text in found
        if measure is not None
    ]


def _factor(largest: dict) -> common.Measure | None:
    """RndSched's maximum over OptSched+DP's: of fewer realizations than the paper's, either may still grow."""
    if len(largest) < 2:
        return None
    value, count = largest[RND].value / largest[OPT_DP].value, largest[RND].realizations
    if count < TRAININGS:
        return common.Measure(value, None, None, f"none: maxima of fewer realizations than {TRAININGS}", count)
    return common.counted(value, count)


def _caveat(scenario: "Multicell") -> str:
    """What must be said beside a leakage."""
    return "; (11) is not guaranteed: clipping per_user" if scenario.training.clipping == "per_user" else ""


def _few_blocks(scenario: "Multicell") -> bool:
    """Whether at most half of the users can have a block at once: R = 5 of Table I, not R = 8."""
    network = scenario.network
    cells = len(hexagons.stations(network.rings, 1.0))
    return 2 * cells * scenario.radio.resource_blocks <= network.users


def _setting(scenario: "Multicell") -> tuple[int, float]:
    """R and gamma."""
    return scenario.radio.resource_blocks, scenario.schedule.gamma


def _by_scheme(content: dict) -> dict[tuple[str, str], dict[str, np.ndarray]]:
    """The columns of each scheme, in the order of realizations; null is NaN."""
    classes = datasets.SIZES[content["scenario"].data.dataset].classes
    result = {}
    for scheme in content["scenario"].schemes:
        frame = content["realizations"].filter(pl.col("scheme") == scheme.name).sort("realization")
        plain = ("objective_per_sample", "rho_max", "rho_median")
        result[scheme.scheduler, scheme.noise] = {
            **{c: frame[c].cast(pl.Float64).to_numpy() for c in plain},
            "accuracy": common.accuracies(frame, classes),
            "loss": common.losses(frame),
        }
    return result
