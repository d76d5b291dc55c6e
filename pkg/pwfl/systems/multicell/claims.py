"""Claims about the system `multicell`, the paper's and this project's, measured on the scenarios of a study."""

from collections.abc import Callable, Iterable
from itertools import permutations, product
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from pwfl.report.claims import (
    Band,
    Claim,
    Measure,
    alike,
    by,
    by_means,
    by_scheme,
    counted,
    difference,
    first,
    maximum,
    measure,
    paired,
    ratio,
    table,
)
from pwfl.scenario.values import value_of
from pwfl.systems.multicell import hexagons
from pwfl.systems.multicell.bounds import leakage_bound

if TYPE_CHECKING:
    from pwfl.systems.multicell.scenario import Multicell

RND, OPT, OPT_DP = ("random", "random"), ("optimal", "random"), ("optimal", "optimal")
JOINT, JOINT_DP, JOINT_SNR = ("joint", "random"), ("joint_noise", "optimal"), ("joint_snr", "equal_max")
EQUAL_SUM, FILL_UP = ("optimal", "equal_sum"), ("optimal", "fill_up")
NAMED = ((RND, "RndSched"), (OPT, "OptSched"), (OPT_DP, "OptSched+DP"))
SIMILAR, SLIGHT = 0.05, 0.05  # accuracies this close are read as similar, a loss of this much as slight
SIMILAR_LOSS, SLIGHT_LOSS = 1.1, 1.1  # the same of losses, as ratios
TRAININGS = 100  # realizations over which the paper's maxima of rho go
ROUNDING = 1e-9
FIG_4, FIG_5, FIG_5_LEAKAGE = "Sec. VI-A, Fig. 4", "Sec. VI-B, Fig. 5 a-d", "Sec. VI-B, Fig. 5 e, f"
CONCLUSION = "Sec. VII"
OWN = "not the paper's: docs/multicell.md"
PER_USER = "; (11) is not guaranteed: clipping per_user"  # what must be said beside a leakage then
LESS, MORE, MOST = Band(below=0), Band(above=0), Band(most=1)
SAME = Band(least=1 - 1e-6, most=1 + 1e-6)
FADING_KEYS = (  # by which scenarios may differ whose channels are drawn anew, or not
    "radio.coherence_rounds",
    "privacy.planned_share",
    "schemes",
    "realizations",
    "training_realizations",
)
# Quantities of a realization: in words, and the column of the report's table `realizations`.
OBJECTIVE = ("mean objective per sample", "objective_per_sample")
GAP = ("mean gap to the bound", "objective_gap")
ACCURACY, LOSS = ("final accuracy", "accuracy"), ("final loss", "loss")
FEW_ACCURACY, FEW_LOSS = ("final accuracy, few blocks", "accuracy"), ("final loss, few blocks", "loss")
RHO_MAX, RHO_MEDIAN = ("largest rho of a realization", "rho_max"), ("median rho of a realization", "rho_median")
RHO_TOTAL = ("sum of rho of a realization", "rho_total")
SENDERS = ("users who ever send", "scheduled")
SHARE = "share of the bound"  # of the largest rho of a realization
LEAKAGES = ("rho_max", "rho_median", "rho_total")
COLUMNS = ("objective_per_sample", "objective_gap", "scheduled", *LEAKAGES, "accuracy", "loss")


def _gap_difference(means: np.ndarray) -> np.ndarray:
    return means[0] - means[1] - (means[2] - means[3])


def _compared(
    number: int,
    quantity: tuple[str, str],
    function: Callable,
    text: str,
    band: Band,
    source: str,
    series: Iterable[tuple[int, tuple[str, str]]],
    printed: str | None = None,
) -> Claim:
    """A claim about a function of a quantity's means in some series.

    A series is a setting's place, 0 where the claim is about one setting, and a scheme.
    """
    words, column = quantity
    kind = {difference: " (difference)", ratio: " (ratio)"}.get(function, "")
    source += "{caveat}" if column in LEAKAGES else ""
    measured = by_means(function, *((place, scheme, column) for place, scheme in series))
    return Claim(f"{number}. {words}: {text}{kind}", band, source, printed, measured)


def _here(*schemes: tuple[str, str]) -> tuple:
    """Series of schemes in one setting."""
    return tuple((0, scheme) for scheme in schemes)


def _step(*schemes: tuple[str, str]) -> tuple:
    """Series of schemes from setting 1 to setting 0."""
    return tuple((place, scheme) for place in (1, 0) for scheme in schemes)


def _more_accurate(number: int, text: str) -> tuple[Claim, ...]:
    """Claims that setting 1's accuracy is above setting 0's, in each of the paper's schemes."""
    return tuple(
        _compared(number, ACCURACY, difference, f"{text}, {name}", MORE, OWN, _step(scheme)) for scheme, name in NAMED
    )


def _maximum(shares: np.ndarray) -> Measure | None:
    """The largest rho of a user in all realizations, in units of the bound that (22) sets."""
    shares = shares[~np.isnan(shares)]
    return maximum(shares, TRAININGS, 1 + ROUNDING) if len(shares) else None


def _factor(of_random: np.ndarray, of_optimal: np.ndarray) -> Measure | None:
    """RndSched's maximum over OptSched+DP's: of fewer realizations than the paper's, either may still grow."""
    one, other = _maximum(of_random), _maximum(of_optimal)
    if one is None or other is None:
        return None
    value, count = one.value / other.value, one.realizations
    if count < TRAININGS:
        return Measure(value, None, None, f"none: maxima of fewer realizations than {TRAININGS}", count)
    return counted(value, count)


def _apart(series: dict) -> Measure | None:
    """How far the leakage of two settings' realizations differs, in the schemes that both have."""
    columns = [
        paired(values, series[1, scheme, column])
        for (place, scheme, column), values in series.items()
        if place == 0 and column in ("rho_max", "rho_total") and (1, scheme, column) in series
    ]
    if not columns:
        return None
    both = np.concatenate(columns, axis=1)
    return counted(np.abs(both[1] / both[0] - 1).max(initial=0.0), len(columns[0][0]))


SLIGHTLY_LESS, SLIGHTLY_MORE = Band(least=-SLIGHT, below=0), Band(above=1, most=SLIGHT_LOSS)
NOT_WORSE = "OptSched+DP similar to RndSched or better"
WITHIN = (  # one setting
    _compared(1, OBJECTIVE, difference, "OptSched below RndSched", LESS, FIG_4, _here(OPT, RND)),
    _compared(1, OBJECTIVE, difference, "OptSched+DP below OptSched", LESS, FIG_4, _here(OPT_DP, OPT)),
    _compared(3, ACCURACY, difference, "OptSched above RndSched", MORE, FIG_5, _here(OPT, RND)),
    _compared(3, LOSS, difference, "OptSched below RndSched", LESS, FIG_5, _here(OPT, RND)),
    _compared(
        3,
        ACCURACY,
        difference,
        "OptSched+DP slightly degrades OptSched",
        SLIGHTLY_LESS,
        FIG_5,
        _here(OPT_DP, OPT),
        "slightly",
    ),
    _compared(
        3, LOSS, ratio, "OptSched+DP slightly degrades OptSched", SLIGHTLY_MORE, FIG_5, _here(OPT_DP, OPT), "slightly"
    ),
    _compared(
        5,
        RHO_MEDIAN,
        difference,
        "OptSched+DP leaks less than OptSched",
        LESS,
        FIG_5_LEAKAGE,
        _here(OPT_DP, OPT),
        "substantially reduces",
    ),
    _compared(
        5,
        RHO_MEDIAN,
        difference,
        "OptSched leaks less than RndSched",
        LESS,
        CONCLUSION,
        _here(OPT, RND),
        "if gamma is set properly",
    ),
    Claim(
        "4. largest rho of RndSched: about the bound of (22) (share of it)",
        Band(least=0.9, most=1 + ROUNDING),
        FIG_5_LEAKAGE + "{caveat}",
        "around 4, the bound with Table I",
        by(_maximum, (0, RND, SHARE)),
    ),
    Claim(
        "4. largest rho of OptSched+DP: about an eighth of the bound of (22) (share of it)",
        Band(least=0.1, most=0.15),
        FIG_5_LEAKAGE + "{caveat}",
        "around 0.5, the bound is 4",
        by(_maximum, (0, OPT_DP, SHARE)),
    ),
    Claim(
        "4. largest rho: RndSched over OptSched+DP, at least (factor)",
        Band(least=8),
        CONCLUSION + "{caveat}",
        "a factor of 8, from 4 to 0.5",
        by(_factor, (0, RND, SHARE), (0, OPT_DP, SHARE)),
    ),
)
BEYOND = (  # one setting, schemes that are not the paper's
    _compared(6, OBJECTIVE, difference, "all cells together below OptSched", LESS, OWN, _here(JOINT, OPT)),
    _compared(
        6, OBJECTIVE, difference, "all cells and noise together below OptSched+DP", LESS, OWN, _here(JOINT_DP, OPT_DP)
    ),
    _compared(6, GAP, first, "all cells together at most 0.05 %", Band(most=5e-4), OWN, _here(JOINT)),
    _compared(6, GAP, first, "all cells and noise together at most 0.05 %", Band(most=5e-4), OWN, _here(JOINT_DP)),
    _compared(
        6, ACCURACY, difference, "all cells and noise together above OptSched+DP", MORE, OWN, _here(JOINT_DP, OPT_DP)
    ),
    _compared(
        7, RHO_TOTAL, ratio, "the same if everyone of OptSched+DP has equal rho", SAME, OWN, _here(EQUAL_SUM, OPT_DP)
    ),
    _compared(
        7,
        RHO_MAX,
        ratio,
        "a fifth lower, or more, if everyone of OptSched+DP has equal rho",
        Band(most=0.8),
        OWN,
        _here(EQUAL_SUM, OPT_DP),
    ),
    _compared(
        7, ACCURACY, difference, "higher if everyone of OptSched+DP has equal rho", MORE, OWN, _here(EQUAL_SUM, OPT_DP)
    ),
    _compared(
        7,
        ACCURACY,
        difference,
        "higher if those of most samples have OptSched+DP's largest rho",
        MORE,
        OWN,
        _here(FILL_UP, OPT_DP),
    ),
    _compared(
        8, RHO_MAX, ratio, "scheduled by squared samples at most OptSched+DP's", MOST, OWN, _here(JOINT_SNR, OPT_DP)
    ),
    _compared(
        8, ACCURACY, difference, "scheduled by squared samples above OptSched+DP", MORE, OWN, _here(JOINT_SNR, OPT_DP)
    ),
)
FEW_BLOCKS = (  # one setting of small R
    _compared(
        3,
        FEW_ACCURACY,
        difference,
        "OptSched above RndSched by more than 6 points",
        Band(above=0.06),
        CONCLUSION,
        _here(OPT, RND),
        "over 6%",
    ),
    _compared(
        3,
        FEW_ACCURACY,
        difference,
        NOT_WORSE,
        Band(least=-SIMILAR),
        FIG_5,
        _here(OPT_DP, RND),
        "similar or even better",
    ),
    _compared(
        3, FEW_LOSS, ratio, NOT_WORSE, Band(most=SIMILAR_LOSS), FIG_5, _here(OPT_DP, RND), "similar or even better"
    ),
)
LARGER_GAMMA = (  # setting 1 has the larger gamma
    _compared(
        2,
        OBJECTIVE,
        _gap_difference,
        "gap from OptSched to OptSched+DP wider at larger gamma (difference)",
        MORE,
        "Fig. 4",
        _step(OPT, OPT_DP),
    ),
    _compared(2, OBJECTIVE, difference, "OptSched+DP lower at larger gamma", LESS, FIG_4, _step(OPT_DP)),
    _compared(5, RHO_MEDIAN, difference, "OptSched leaks less at larger gamma", LESS, FIG_5_LEAKAGE, _step(OPT)),
)
MORE_BLOCKS = (  # setting 1 has the larger R
    _compared(
        2,
        OBJECTIVE,
        _gap_difference,
        "RndSched closer to OptSched at larger R (difference of gaps)",
        LESS,
        FIG_4,
        _step(RND, OPT),
        "slightly closer",
    ),
)
FADING = tuple(  # setting 1 draws the channel anew, setting 0 does not
    _compared(9, quantity, function, f"{text} if the channel is drawn anew, {name}", band, OWN, _step(scheme))
    for scheme, name in ((OPT_DP, "OptSched+DP"), (JOINT_DP, "all cells and noise together"))
    for quantity, function, text, band in (
        (SENDERS, difference, "more", MORE),
        (RHO_MAX, ratio, "no larger", MOST),
        (ACCURACY, difference, "higher", MORE),
    )
)
LEARNING = (  # setting 0 learns as the paper does, setting 1 does not
    *_more_accurate(10, "above that of the paper's learning"),
    Claim(
        "10. largest rho, and sum of rho, of a realization: the paper's learning's (largest relative difference)",
        Band(most=1e-12),
        OWN,
        measured=_apart,
    ),
)
INGREDIENTS = {  # parameter -> its value in setting 0, and claims about a setting 1 that differs in nothing else
    "training.weights": ("samples", _more_accurate(11, "weights by precision above weights by samples")),
    "training.features": ("pixels", _more_accurate(11, "fixed features above pixels")),
    "training.test_variants": (False, _more_accurate(11, "variants of test images above them alone")),
}


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
    data = {name: _series(content) for name, content in scenarios.items()}
    settings = {name: content["scenario"] for name, content in scenarios.items()}
    rows = []

    def add(claims: tuple[Claim, ...], *names: str) -> None:
        """Claims about settings, by their names."""
        series = {(place, *key): values for place, name in enumerate(names) for key, values in data[name].items()}
        caveat = PER_USER if settings[names[0]].training.clipping == "per_user" else ""
        rows.extend(measure(claims, " against ".join(reversed(names)), series, caveat=caveat))

    for name, setting in settings.items():
        add(WITHIN + BEYOND, name)
        if _few_blocks(setting):
            add(FEW_BLOCKS, name)
    for names in alike(scenarios, "radio.resource_blocks", "schedule.gamma"):
        for one, other in permutations(names, 2):
            blocks, gamma = _blocks_and_gamma(settings[one])
            more, larger = _blocks_and_gamma(settings[other])
            if more >= blocks and larger > gamma:
                add(LARGER_GAMMA, one, other)
            if more > blocks and larger >= gamma:
                add(MORE_BLOCKS, one, other)

    def add_pairs(claims: tuple[Claim, ...], keys: Iterable[str], is_first: Callable[["Multicell"], bool]) -> None:
        """Claims about pairs of settings that are equal in all but some keys, of which the first are told by them."""
        for names in alike(scenarios, *keys):
            first = [name for name in names if is_first(settings[name])]
            for pair in product(first, (name for name in names if name not in first)):
                add(claims, *pair)

    add_pairs(FADING, FADING_KEYS, lambda setting: setting.radio.coherence_rounds is None)
    add_pairs(LEARNING, ("training", "privacy.bounds"), _learns_as_the_paper)
    for key, (value, comparisons) in INGREDIENTS.items():
        add_pairs(comparisons, (key,), lambda setting, key=key, value=value: value_of(setting, key) == value)
    return table(rows)


def _series(content: dict) -> dict:
    """Each scheme's columns, and its largest rhos as shares of the bound that (22) sets."""
    series = by_scheme(content["scenario"], content["realizations"], COLUMNS)
    bound = leakage_bound(content["scenario"])
    shares = {(scheme, SHARE): values / bound for (scheme, column), values in series.items() if column == "rho_max"}
    return series | shares


def _learns_as_the_paper(scenario: "Multicell") -> bool:
    training = scenario.training
    return (training.weights, training.step, training.features) == ("samples", "constant", "pixels")


def _few_blocks(scenario: "Multicell") -> bool:
    """Whether at most half of the users can have a block at once: R = 5 of Table I, not R = 8."""
    network = scenario.network
    cells = len(hexagons.stations(network.rings, 1.0))
    return 2 * cells * scenario.radio.resource_blocks <= network.users


def _blocks_and_gamma(scenario: "Multicell") -> tuple[int, float]:
    return scenario.radio.resource_blocks, scenario.schedule.gamma
