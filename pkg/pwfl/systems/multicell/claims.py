"""Claims about the system `multicell`, the paper's and this project's, measured on the scenarios of a study."""

from collections.abc import Callable
from itertools import permutations, product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from pwfl.learning import datasets
from pwfl.report import claims as common
from pwfl.report.claims import Band, Claim, difference, ratio
from pwfl.scenario.values import value_of
from pwfl.systems.multicell import hexagons
from pwfl.systems.multicell.bounds import leakage_bound

if TYPE_CHECKING:
    from pwfl.systems.multicell.parameters import Multicell

RND, OPT, OPT_DP = ("random", "random"), ("optimal", "random"), ("optimal", "optimal")
JOINT, JOINT_DP, JOINT_SNR = ("joint", "random"), ("joint_noise", "optimal"), ("joint_snr", "equal_max")
EQUAL_SUM, FILL_UP = ("optimal", "equal_sum"), ("optimal", "fill_up")
SIMILAR, SLIGHT = 0.05, 0.05  # accuracies this close are read as similar, a loss of this much as slight
SIMILAR_LOSS, SLIGHT_LOSS = 1.1, 1.1  # the same of losses, as ratios
TRAININGS = 100  # realizations over which the paper's maxima of rho go
ROUNDING = 1e-9
FIG_4, FIG_5, FIG_5_LEAKAGE = "Sec. VI-A, Fig. 4", "Sec. VI-B, Fig. 5 a-d", "Sec. VI-B, Fig. 5 e, f"
CONCLUSION = "Sec. VII"
NAMED = ((RND, "RndSched"), (OPT, "OptSched"), (OPT_DP, "OptSched+DP"))
LESS, MORE, MOST = Band(below=0), Band(above=0), Band(most=1)
OBJECTIVE, RHO_MAX, RHO_MEDIAN = "objective_per_sample", "rho_max", "rho_median"  # columns
GAP, RHO_TOTAL, SENDERS = "objective_gap", "rho_total", "scheduled"
LEAKAGES = (RHO_MAX, RHO_MEDIAN, RHO_TOTAL)
OWN = "not the paper's: docs/multicell.md"
SAME = Band(least=1 - 1e-6, most=1 + 1e-6)
FADING_KEYS = (  # by which scenarios may differ whose channels are drawn anew, or not
    "radio.coherence_rounds",
    "privacy.planned_share",
    "schemes",
    "realizations",
    "training_realizations",
)


class Comparison(NamedTuple):
    """A claim that compares schemes by means over realizations.

    Attributes
    ----------
    claim
        What is claimed.
    column
        The quantity, a column of the report's table `realizations`.
    function
        Takes the quantity's means, one of each series.
    series
        Pairs of a setting's place, 0 where the claim is about one setting, and a scheme.
    """

    claim: Claim
    column: str
    function: Callable
    series: tuple[tuple[int, tuple[str, str]], ...]


def _gap_difference(means: np.ndarray) -> np.ndarray:
    return means[0] - means[1] - (means[2] - means[3])


def _mean(means: np.ndarray) -> np.ndarray:
    return means[0]


def _of_accuracy(text: str) -> tuple[Comparison, ...]:
    """A claim that setting 1's accuracy is above setting 0's, in each of the paper's schemes."""
    return tuple(
        Comparison(Claim(f"{text}, {name} (difference)", MORE, OWN), "accuracy", difference, ((1, scheme), (0, scheme)))
        for scheme, name in NAMED
    )


def _here(*schemes: tuple[str, str]) -> tuple:
    return tuple((0, scheme) for scheme in schemes)


WITHIN = (  # one setting
    Comparison(
        Claim("1. mean objective per sample: OptSched below RndSched (difference)", LESS, FIG_4),
        OBJECTIVE,
        difference,
        _here(OPT, RND),
    ),
    Comparison(
        Claim("1. mean objective per sample: OptSched+DP below OptSched (difference)", LESS, FIG_4),
        OBJECTIVE,
        difference,
        _here(OPT_DP, OPT),
    ),
    Comparison(
        Claim("3. final accuracy: OptSched above RndSched (difference)", MORE, FIG_5),
        "accuracy",
        difference,
        _here(OPT, RND),
    ),
    Comparison(
        Claim("3. final loss: OptSched below RndSched (difference)", LESS, FIG_5),
        "loss",
        difference,
        _here(OPT, RND),
    ),
    Comparison(
        Claim(
            "3. final accuracy: OptSched+DP slightly degrades OptSched (difference)",
            Band(least=-SLIGHT, below=0),
            FIG_5,
            "slightly",
        ),
        "accuracy",
        difference,
        _here(OPT_DP, OPT),
    ),
    Comparison(
        Claim(
            "3. final loss: OptSched+DP slightly degrades OptSched (ratio)",
            Band(above=1, most=SLIGHT_LOSS),
            FIG_5,
            "slightly",
        ),
        "loss",
        ratio,
        _here(OPT_DP, OPT),
    ),
    Comparison(
        Claim(
            "5. median rho of a realization: OptSched+DP leaks less than OptSched (difference)",
            LESS,
            FIG_5_LEAKAGE,
            "substantially reduces",
        ),
        RHO_MEDIAN,
        difference,
        _here(OPT_DP, OPT),
    ),
    Comparison(
        Claim(
            "5. median rho of a realization: OptSched leaks less than RndSched (difference)",
            LESS,
            CONCLUSION,
            "if gamma is set properly",
        ),
        RHO_MEDIAN,
        difference,
        _here(OPT, RND),
    ),
)
BEYOND = (  # one setting, schemes that are not the paper's
    Comparison(
        Claim("6. mean objective per sample: all cells together below OptSched (difference)", LESS, OWN),
        OBJECTIVE,
        difference,
        _here(JOINT, OPT),
    ),
    Comparison(
        Claim("6. mean objective per sample: all cells and noise together below OptSched+DP (difference)", LESS, OWN),
        OBJECTIVE,
        difference,
        _here(JOINT_DP, OPT_DP),
    ),
    *(
        Comparison(Claim(f"6. mean gap to the bound: {which} at most 0.05 %", Band(most=5e-4), OWN), GAP, _mean, series)
        for which, series in (
            ("all cells together", _here(JOINT)),
            ("all cells and noise together", _here(JOINT_DP)),
        )
    ),
    Comparison(
        Claim("6. final accuracy: all cells and noise together above OptSched+DP (difference)", MORE, OWN),
        "accuracy",
        difference,
        _here(JOINT_DP, OPT_DP),
    ),
    Comparison(
        Claim("7. sum of rho of a realization: the same if everyone of OptSched+DP has equal rho (ratio)", SAME, OWN),
        RHO_TOTAL,
        ratio,
        _here(EQUAL_SUM, OPT_DP),
    ),
    Comparison(
        Claim(
            "7. largest rho of a realization: a fifth lower, or more, if everyone of OptSched+DP has equal rho (ratio)",
            Band(most=0.8),
            OWN,
        ),
        RHO_MAX,
        ratio,
        _here(EQUAL_SUM, OPT_DP),
    ),
    Comparison(
        Claim("7. final accuracy: higher if everyone of OptSched+DP has equal rho (difference)", MORE, OWN),
        "accuracy",
        difference,
        _here(EQUAL_SUM, OPT_DP),
    ),
    Comparison(
        Claim(
            "7. final accuracy: higher if those of most samples have OptSched+DP's largest rho (difference)", MORE, OWN
        ),
        "accuracy",
        difference,
        _here(FILL_UP, OPT_DP),
    ),
    Comparison(
        Claim("8. largest rho of a realization: scheduled by squared samples at most OptSched+DP's (ratio)", MOST, OWN),
        RHO_MAX,
        ratio,
        _here(JOINT_SNR, OPT_DP),
    ),
    Comparison(
        Claim("8. final accuracy: scheduled by squared samples above OptSched+DP (difference)", MORE, OWN),
        "accuracy",
        difference,
        _here(JOINT_SNR, OPT_DP),
    ),
)
FADING = tuple(  # setting 1 draws the channel anew, setting 0 does not
    Comparison(Claim(f"9. {text}", band, OWN), column, function, ((1, scheme), (0, scheme)))
    for scheme, name in ((OPT_DP, "OptSched+DP"), (JOINT_DP, "all cells and noise together"))
    for text, band, column, function in (
        (f"users who ever send: more if the channel is drawn anew, {name} (difference)", MORE, SENDERS, difference),
        (f"largest rho of a realization: no larger if the channel is drawn anew, {name} (ratio)", MOST, RHO_MAX, ratio),
        (f"final accuracy: higher if the channel is drawn anew, {name} (difference)", MORE, "accuracy", difference),
    )
)
LEARNING = _of_accuracy("10. final accuracy: above that of the paper's learning")  # which setting 0 has, and not 1
INGREDIENTS = {  # parameter -> its value in setting 0, and claims about a setting 1 that differs in nothing else
    "training.weights": ("samples", _of_accuracy("11. final accuracy: weights by precision above weights by samples")),
    "training.features": ("pixels", _of_accuracy("11. final accuracy: fixed features above pixels")),
    "training.test_variants": (False, _of_accuracy("11. final accuracy: variants of test images above them alone")),
}
FEW_BLOCKS = (  # one setting of small R
    Comparison(
        Claim(
            "3. final accuracy, few blocks: OptSched above RndSched by more than 6 points (difference)",
            Band(above=0.06),
            CONCLUSION,
            "over 6%",
        ),
        "accuracy",
        difference,
        _here(OPT, RND),
    ),
    Comparison(
        Claim(
            "3. final accuracy, few blocks: OptSched+DP similar to RndSched or better (difference)",
            Band(least=-SIMILAR),
            FIG_5,
            "similar or even better",
        ),
        "accuracy",
        difference,
        _here(OPT_DP, RND),
    ),
    Comparison(
        Claim(
            "3. final loss, few blocks: OptSched+DP similar to RndSched or better (ratio)",
            Band(most=SIMILAR_LOSS),
            FIG_5,
            "similar or even better",
        ),
        "loss",
        ratio,
        _here(OPT_DP, RND),
    ),
)
LARGER_GAMMA = (  # setting 1 has the larger gamma
    Comparison(
        Claim(
            "2. mean objective per sample: gap from OptSched to OptSched+DP wider at larger gamma (difference)",
            MORE,
            "Fig. 4",
        ),
        OBJECTIVE,
        _gap_difference,
        ((1, OPT), (1, OPT_DP), (0, OPT), (0, OPT_DP)),
    ),
    Comparison(
        Claim("2. mean objective per sample: OptSched+DP lower at larger gamma (difference)", LESS, FIG_4),
        OBJECTIVE,
        difference,
        ((1, OPT_DP), (0, OPT_DP)),
    ),
    Comparison(
        Claim("5. median rho of a realization: OptSched leaks less at larger gamma (difference)", LESS, FIG_5_LEAKAGE),
        RHO_MEDIAN,
        difference,
        ((1, OPT), (0, OPT)),
    ),
)
MORE_BLOCKS = (  # setting 1 has the larger R
    Comparison(
        Claim(
            "2. mean objective per sample: RndSched closer to OptSched at larger R (difference of gaps)",
            LESS,
            FIG_4,
            "slightly closer",
        ),
        OBJECTIVE,
        _gap_difference,
        ((1, RND), (1, OPT), (0, RND), (0, OPT)),
    ),
)


def claims(scenarios: dict[str, dict]) -> pl.DataFrame:
    """The claims as far as the scenarios and their schemes let them be measured.

    Claims that compare settings pair scenarios that are equal in all but R and gamma, in all but how long the channel
    stays, in all but how they train, or in all but one choice of it; those about few resource blocks (R = 5) are
    measured where the cells have blocks for at most half of the users. Differences are paired by realization. A
    training that diverged, or for which no noise was feasible, guesses (accuracy) and has an infinite loss.

    Parameters
    ----------
    scenarios
        A scenario's name -> `scenario` (all that any stage reads) and `realizations` (the report's table).
    """
    data = {name: _by_scheme(content) for name, content in scenarios.items()}
    rows = []

    def add(comparisons: tuple[Comparison, ...], *names: str) -> None:
        """Claims about settings, by their names."""
        for claim, column, function, series in comparisons:
            found = [data[names[k]].get(scheme) for k, scheme in series]
            if any(columns is None for columns in found):
                continue
            values = common.paired(*(columns[column] for columns in found))
            if not values.shape[1]:
                continue
            where = " against ".join(dict.fromkeys(names[k] for k, _ in series))
            caveat = _caveat(scenarios[names[0]]["scenario"]) if column in LEAKAGES else ""
            rows.append(common.row(_with(claim, caveat), where, common.estimate(function, values)))

    for name, content in scenarios.items():
        add(WITHIN + BEYOND, name)
        if _few_blocks(content["scenario"]):
            add(FEW_BLOCKS, name)
        rows += _maxima(name, content["scenario"], data[name])
    for names in common.alike(scenarios, "radio.resource_blocks", "schedule.gamma"):
        settings = [(name, *_setting(scenarios[name]["scenario"])) for name in names]
        for (one, blocks, gamma), (other, more, larger) in permutations(settings, 2):
            if more < blocks or larger < gamma:
                continue
            if larger > gamma:
                add(LARGER_GAMMA, one, other)
            if more > blocks:
                add(MORE_BLOCKS, one, other)
    for names in common.alike(scenarios, *FADING_KEYS):
        static = [name for name in names if scenarios[name]["scenario"].radio.coherence_rounds is None]
        for pair in product(static, (name for name in names if name not in static)):
            add(FADING, *pair)
    for names in common.alike(scenarios, "training", "privacy.bounds"):
        paper = [name for name in names if _learns_as_the_paper(scenarios[name]["scenario"])]
        for pair in product(paper, (name for name in names if name not in paper)):
            rows.append(_same_leakage(pair, *(data[name] for name in pair)))
            add(LEARNING, *pair)
    for key, (value, comparisons) in INGREDIENTS.items():
        for names in common.alike(scenarios, key):
            without = [name for name in names if value_of(scenarios[name]["scenario"], key) == value]
            for pair in product(without, (name for name in names if name not in without)):
                add(comparisons, *pair)
    return common.table(rows)


def _maxima(name: str, scenario: "Multicell", schemes: dict) -> list[tuple]:
    """The largest rho of a user in all realizations, in units of the bound that (22) sets."""
    bound = leakage_bound(scenario)
    largest = {}
    for scheme in (RND, OPT_DP):
        values = schemes.get(scheme, {}).get(RHO_MAX, np.array([]))
        if len(values := values[~np.isnan(values)] / bound):
            largest[scheme] = common.maximum(values, TRAININGS, 1 + ROUNDING)
    found = [
        (
            largest.get(RND),
            Claim(
                "4. largest rho of RndSched: about the bound of (22) (share of it)",
                Band(least=0.9, most=1 + ROUNDING),
                FIG_5_LEAKAGE,
                "around 4, the bound with Table I",
            ),
        ),
        (
            largest.get(OPT_DP),
            Claim(
                "4. largest rho of OptSched+DP: about an eighth of the bound of (22) (share of it)",
                Band(least=0.1, most=0.15),
                FIG_5_LEAKAGE,
                "around 0.5, the bound is 4",
            ),
        ),
        (
            _factor(largest),
            Claim(
                "4. largest rho: RndSched over OptSched+DP, at least (factor)",
                Band(least=8),
                CONCLUSION,
                "a factor of 8, from 4 to 0.5",
            ),
        ),
    ]
    return [
        common.row(_with(claim, _caveat(scenario)), name, measure) for measure, claim in found if measure is not None
    ]


def _same_leakage(pair: tuple[str, str], one: dict, other: dict) -> tuple:
    """How far the leakage of two settings' realizations differs, in the schemes that both have."""
    columns = [common.paired(one[s][c], other[s][c]) for s in one if s in other for c in (RHO_MAX, RHO_TOTAL)]
    both = np.concatenate(columns, axis=1)
    claim = Claim(
        "10. largest rho, and sum of rho, of a realization: the paper's learning's (largest relative difference)",
        Band(most=1e-12),
        OWN,
    )
    apart = np.abs(both[1] / both[0] - 1).max(initial=0.0)
    return common.row(claim, " against ".join(reversed(pair)), common.counted(apart, len(columns[0][0])))


def _learns_as_the_paper(scenario: "Multicell") -> bool:
    training = scenario.training
    return (training.weights, training.step, training.features) == ("samples", "constant", "pixels")


def _factor(largest: dict) -> common.Measure | None:
    """RndSched's maximum over OptSched+DP's: of fewer realizations than the paper's, either may still grow."""
    if len(largest) < 2:
        return None
    value, count = largest[RND].value / largest[OPT_DP].value, largest[RND].realizations
    if count < TRAININGS:
        return common.Measure(value, None, None, f"none: maxima of fewer realizations than {TRAININGS}", count)
    return common.counted(value, count)


def _with(claim: Claim, caveat: str) -> Claim:
    return claim._replace(source=claim.source + caveat)


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
        result[scheme.scheduler, scheme.noise] = {
            **{c: frame[c].cast(pl.Float64).to_numpy() for c in (OBJECTIVE, GAP, SENDERS, *LEAKAGES)},
            "accuracy": common.accuracies(frame, classes),
            "loss": common.losses(frame),
        }
    return result
