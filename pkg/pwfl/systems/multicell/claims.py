"""Claims about the system `multicell`, the paper's and this project's, measured on the scenarios of a study."""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import permutations, product
from typing import NamedTuple

import numpy as np
import polars as pl

from pwfl.privacy.gaussian import tight_epsilon
from pwfl.report.claims import (
    MNIST,
    OF_SHARES,
    POSITIVE,
    UNBOUNDED,
    Band,
    Claim,
    Measure,
    by,
    by_means,
    by_scheme,
    comparable,
    counted,
    difference,
    estimate,
    first,
    maximum,
    measure,
    paired,
    ratio,
    table,
    without_users,
)
from pwfl.scenario.values import value_of
from pwfl.systems.multicell import hexagons
from pwfl.systems.multicell.bounds import leakage_bound
from pwfl.systems.multicell.parameters import RECIPES, Multicell

RND, OPT, OPT_DP = ("random", "random"), ("optimal", "random"), ("optimal", "optimal")
JOINT, JOINT_DP, JOINT_SNR = ("joint", "random"), ("joint_noise", "optimal"), ("joint_snr", "equal_max")
EQUAL_SUM, FILL_UP = ("optimal", "equal_sum"), ("optimal", "fill_up")
AT_TARGET = {name: (name, "target") for name in ("random", "optimal", "joint_snr")}
NAMED = {"random": "RndSched", "optimal": "OptSched", "joint_snr": "JointSNR"}
SIMILAR, SLIGHT = 0.05, 0.05  # accuracies this close are read as similar, a loss of this much as slight
SIMILAR_LOSS, SLIGHT_LOSS = 1.1, 1.1  # the same of losses, as ratios
TRAININGS = 100  # realizations over which the paper's maxima of rho go
ROUNDING = 1e-9
FIG_4, FIG_5, FIG_5_EF = "Sec. VI-A, Fig. 4", "Sec. VI-B, Fig. 5 a-d", "Sec. VI-B, Fig. 5 e, f"
SCHEDULED, CONCLUSION = "Sec. VI-B", "Sec. VII"
EVEN_BETTER, EQUAL_RHO = "similar or even better", "everyone of OptSched+DP has equal rho"
OWN = "not the paper's: docs/multicell.md"
# The paper's setting, for what is said of learning with the paper's learning: both readings of clipping are in it.
SETTING = {
    "radio.coherence_rounds": (None,),
    "radio.path_loss": ("power_law",),
    "radio.air": ("digital",),
    "training.learner": ("gradients",),
    "data.sampling": (None,),
    "channel.links": (None,),
    "channel.users": (None,),
}
LEARNT = MNIST | {
    "training.model": ("dense",),
    "training.recipe": ("paper",),
    "training.step": ("constant",),
}
PER_USER = "; (11) is not guaranteed: clipping per_user"  # the caveat of claims about leakage
LESS, MORE, MOST = Band(below=0), Band(above=0), Band(most=1)
SLIGHTLY_LESS, SLIGHTLY_MORE = Band(least=-SLIGHT, below=0), Band(above=1, most=SLIGHT_LOSS)
NOT_WORSE, NOT_WORSE_LOSS = Band(least=-SIMILAR), Band(most=SIMILAR_LOSS)
SIX_POINTS = Band(above=0.06)
SAME = Band(most=1.1)  # of an objective over another
# By which scenarios may differ whose channels are drawn anew, or not.
FADING_KEYS = ("radio.coherence_rounds", "privacy.planned_share", "schemes", "realizations", "training_realizations")
SHARE = "share of the bound"  # of the largest rho of a realization
LEAKAGES = ("rho_max", "rho_median", "rho_total")
EPSILON, OF_NOISE = "epsilon", "epsilon of the same noise by Renyi divergences, of real numbers"
SELECTION = ("samples_per_scheduled", "gain_db_median", "noise_variance_median", "lost_share")
COLUMNS = ("objective_per_sample", "objective_gap", "scheduled", *SELECTION, *LEAKAGES, EPSILON, "accuracy", "loss")
# By which settings may differ that others observe; and the bits that do, for the sums that they see.
OBSERVED = ("privacy.observer", "privacy.colluders", "privacy.dropouts")
# The bound for private dithers costs less than 1 % of epsilon then, on MNIST (docs/sums.md).
ENOUGH_BITS = {"user": 8, "cell": 10, "network": 12}


def _gap_difference(means: np.ndarray) -> np.ndarray:
    return means[0] - means[1] - (means[2] - means[3])


class Quantity(NamedTuple):
    """A number of each realization."""

    column: str
    words: str
    function: Callable = difference  # of its means, that a claim is about, or of its values
    measured: Callable = by_means


OBJECTIVE = Quantity("objective_per_sample", "mean objective per sample")
OBJECTIVES, GAPS = (OBJECTIVE._replace(function=function) for function in (ratio, _gap_difference))
GAP = Quantity("objective_gap", "mean gap to the bound", first)
ACCURACY, FEW_ACCURACY = (Quantity("accuracy", f"final accuracy{where}") for where in ("", ", few blocks"))
LOSS, LOSS_RATIO = (Quantity("loss", "final loss", function) for function in (difference, ratio))
FEW_LOSS = Quantity("loss", "final loss, few blocks", ratio)
RHO_MEDIAN = Quantity("rho_median", "median rho of a realization")
RHO_MAX = Quantity("rho_max", "largest rho of a realization", ratio)
SENDERS = Quantity("scheduled", "users who ever send")
SAMPLES = Quantity("samples_per_scheduled", "mean number of samples of a scheduled user")
GAIN = Quantity("gain_db_median", "median gain of a scheduled user, dB")
NOISE = Quantity("noise_variance_median", "median noise variance of a scheduled user")
LOST = Quantity("lost_share", "share of users with a resource block who lose it after power control")


def _declared(places: tuple[int, ...], *rows: tuple) -> tuple[Claim, ...]:
    """Claims of rows (number, quantity, words, band, source, what is printed, schemes).

    They compare the schemes in one setting or, with places (1, 0), those of setting 1 with those of setting 0.
    """
    claims = []
    for number, quantity, words, band, source, printed, *schemes in rows:
        kind = {difference: " (difference)", ratio: " (ratio)"}.get(quantity.function, "")
        caveat = "{caveat}" if quantity.column in (SHARE, *LEAKAGES) else ""
        series = [(place, scheme, quantity.column) for place, scheme in product(places, schemes)]
        text, measured = f"{number}. {quantity.words}: {words}{kind}", quantity.measured(quantity.function, *series)
        within = SETTING | (LEARNT if quantity.column in ("accuracy", "loss") else {})
        setting = None if source == OWN else within
        positive = POSITIVE if quantity.function in (ratio, first) else UNBOUNDED
        bounds = OF_SHARES if quantity.column in ("accuracy", "lost_share") else positive
        claims.append(Claim(text, band, source + caveat, printed, measured, setting, bounds))
    return tuple(claims)


def _more_accurate(number: int, words: str) -> tuple[Claim, ...]:
    """Claims that setting 1's accuracy is above setting 0's, in each of the paper's schemes."""
    named = ((RND, "RndSched"), (OPT, "OptSched"), (OPT_DP, "OptSched+DP"))
    rows = ((number, ACCURACY, f"{words}, {name}", MORE, OWN, None, scheme) for scheme, name in named)
    return _declared((1, 0), *rows)


def _maximum(shares: np.ndarray) -> Measure | None:
    """The largest rho of a user in all realizations, in units of the bound that (22) sets."""
    known = shares[~np.isnan(shares)]
    return maximum(known, TRAININGS, 1 + ROUNDING) if len(known) else None


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
    changed = np.abs(both[1] - both[0])
    share = np.divide(changed, both[0], out=np.where(changed > 0, np.inf, 0.0), where=both[0] != 0)
    return counted(share.max(initial=0.0), len(columns[0][0]))


def _epsilon_ratio(scheme: tuple[str, str], series: dict) -> Measure | None:
    """The least epsilon at which settings from 1 on have setting 0's accuracy, over setting 0's.

    Between settings, accuracy is linear in the logarithm of epsilon. Where it is higher even at the least of their
    epsilons, the ratio is no more than that.
    """
    places = sorted(place for place, of, column in series if of == scheme and column == "accuracy")
    if len(places) < 3 or places[0] != 0:
        return None
    accuracy = paired(*(series[place, scheme, "accuracy"] for place in places))
    epsilon = np.log([np.nanmax(series[place, scheme, EPSILON]) for place in places])

    def ratio_of(means: np.ndarray) -> np.ndarray:
        def of_one(means: np.ndarray) -> float:
            curve = np.maximum.accumulate(means[1:])
            return float(np.exp(np.interp(means[0], curve, epsilon[1:], right=np.inf) - epsilon[0]))

        return np.apply_along_axis(of_one, 0, means)

    names = [(place, scheme, "accuracy") for place in places]
    return estimate(ratio_of, accuracy)._replace(no_user_scheduled=without_users(series, names))


def _lead_ratio(means: np.ndarray) -> np.ndarray:
    return (means[0] - means[1]) / (means[2] - means[3])


def _largest_ratio(values: np.ndarray, others: np.ndarray) -> Measure | None:
    both = paired(values, others)
    return counted(float((both[0] / both[1]).max()), both.shape[1]) if both.shape[1] else None


RND_MAX, OPT_DP_MAX = (Quantity(SHARE, f"largest rho of {name}", _maximum, by) for name in ("RndSched", "OptSched+DP"))
FACTOR = Quantity(SHARE, "largest rho", _factor, by)
OF_BOUND, EIGHTH = "about the bound of (22) (share of it)", "about an eighth of the bound of (22) (share of it)"
OVER = "RndSched over OptSched+DP, at least (factor)"
WITHIN = _declared(  # one setting
    (0,),
    (1, OBJECTIVE, "OptSched below RndSched", LESS, FIG_4, None, OPT, RND),
    (1, OBJECTIVE, "OptSched+DP below OptSched", LESS, FIG_4, None, OPT_DP, OPT),
    (3, ACCURACY, "OptSched above RndSched", MORE, FIG_5, None, OPT, RND),
    (3, LOSS, "OptSched below RndSched", LESS, FIG_5, None, OPT, RND),
    (3, ACCURACY, "OptSched+DP slightly degrades OptSched", SLIGHTLY_LESS, FIG_5, "slightly", OPT_DP, OPT),
    (3, LOSS_RATIO, "OptSched+DP slightly degrades OptSched", SLIGHTLY_MORE, FIG_5, "slightly", OPT_DP, OPT),
    (5, RHO_MEDIAN, "OptSched+DP leaks less than OptSched", LESS, FIG_5_EF, "substantially reduces", OPT_DP, OPT),
    (5, RHO_MEDIAN, "OptSched+DP leaks less than RndSched", LESS, CONCLUSION, "substantially reduces", OPT_DP, RND),
    (5, RHO_MEDIAN, "OptSched leaks less than RndSched", LESS, CONCLUSION, "if gamma is set properly", OPT, RND),
    (4, RND_MAX, OF_BOUND, Band(least=0.9, most=1 + ROUNDING), FIG_5_EF, "around 4, the bound with Table I", RND),
    (4, OPT_DP_MAX, EIGHTH, Band(least=0.1, most=0.15), FIG_5_EF, "around 0.5, the bound is 4", OPT_DP),
    (4, FACTOR, OVER, Band(least=8), CONCLUSION, "a factor of 8, from 4 to 0.5", RND, OPT_DP),
    (17, SAMPLES, "OptSched above RndSched", MORE, SCHEDULED, "large chunks of data", OPT, RND),
    (17, GAIN, "OptSched above RndSched", MORE, SCHEDULED, "a better channel", OPT, RND),
    (17, LOST, "OptSched below RndSched", LESS, SCHEDULED, "suffer less from the inter-cell interference", OPT, RND),
)
BEYOND = _declared(  # one setting, schemes that are not the paper's
    (0,),
    (6, OBJECTIVE, "all cells together below OptSched", LESS, OWN, None, JOINT, OPT),
    (6, OBJECTIVE, "all cells and noise together below OptSched+DP", LESS, OWN, None, JOINT_DP, OPT_DP),
    (6, GAP, "all cells together at most 0.05 %", Band(most=5e-4), OWN, None, JOINT),
    (6, GAP, "all cells and noise together at most 0.05 %", Band(most=5e-4), OWN, None, JOINT_DP),
    (6, ACCURACY, "all cells and noise together above OptSched+DP", MORE, OWN, None, JOINT_DP, OPT_DP),
    (7, RHO_MAX, f"a fifth lower, or more, if {EQUAL_RHO}", Band(most=0.8), OWN, None, EQUAL_SUM, OPT_DP),
    (7, ACCURACY, f"higher if {EQUAL_RHO}", MORE, OWN, None, EQUAL_SUM, OPT_DP),
    (7, ACCURACY, "higher if those of most samples have OptSched+DP's largest rho", MORE, OWN, None, FILL_UP, OPT_DP),
    (8, RHO_MAX, "scheduled by squared samples at most OptSched+DP's", MOST, OWN, None, JOINT_SNR, OPT_DP),
    (8, ACCURACY, "scheduled by squared samples above OptSched+DP", MORE, OWN, None, JOINT_SNR, OPT_DP),
)
FEW_BLOCKS = _declared(  # one setting of small R
    (0,),
    (3, FEW_ACCURACY, "OptSched above RndSched by more than 6 points", SIX_POINTS, CONCLUSION, "over 6%", OPT, RND),
    (3, FEW_ACCURACY, "OptSched+DP similar to RndSched or better", NOT_WORSE, FIG_5, EVEN_BETTER, OPT_DP, RND),
    (3, FEW_LOSS, "OptSched+DP similar to RndSched or better", NOT_WORSE_LOSS, FIG_5, EVEN_BETTER, OPT_DP, RND),
)
LARGE_R = _declared(  # one setting with as many blocks as users, or more
    (0,),
    (2, OBJECTIVES, "RndSched the same as OptSched for large R", SAME, "Sec. VI-A", "might eventually", RND, OPT),
)
LARGER_GAMMA = _declared(  # setting 1 has the larger gamma, at the same R
    (1, 0),
    (2, GAPS, "gap from OptSched to OptSched+DP wider at larger gamma (difference)", MORE, "Fig. 4", None, OPT, OPT_DP),
    (2, OBJECTIVE, "OptSched+DP lower at larger gamma", LESS, FIG_4, None, OPT_DP),
    (5, RHO_MEDIAN, "OptSched leaks less at larger gamma", LESS, FIG_5_EF, None, OPT),
    (17, NOISE, "OptSched's higher at larger gamma", MORE, FIG_5_EF, "users with higher DP noise power", OPT),
)
MORE_BLOCKS = _declared(  # setting 1 has the larger R, at the same gamma
    (1, 0),
    (2, GAPS, "RndSched closer to OptSched at larger R (difference of gaps)", LESS, FIG_4, "slightly closer", RND, OPT),
)
FADING = _declared(  # setting 1 draws the channel anew, setting 0 does not
    (1, 0),
    *(
        (9, quantity, f"{words} if the channel is drawn anew, {name}", band, OWN, None, scheme)
        for scheme, name in ((OPT_DP, "OptSched+DP"), (JOINT_DP, "all cells and noise together"))
        for quantity, words, band in ((SENDERS, "more", MORE), (RHO_MAX, "no larger", MOST), (ACCURACY, "higher", MORE))
    ),
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
SUMS = {"cell": "only cells' sums are seen", "network": "only the network's sum is seen"}
SAME_EPSILON = {  # setting 1's observer sees these sums, setting 0's each upload
    observer: _declared(
        (1, 0),
        *(
            (12, ACCURACY, f"at the same epsilon higher if {words}, {NAMED[name]}", MORE, OWN, None, scheme)
            for name, scheme in AT_TARGET.items()
        ),
    )
    for observer, words in SUMS.items()
}
EQUAL_ACCURACY = {  # settings from 1 on have such an observer, each at another epsilon
    observer: tuple(
        Claim(
            f"13. epsilon at the same accuracy: at most {share:g} of it if {SUMS[observer]}, {NAMED[name]} (ratio)",
            Band(most=share),
            OWN,
            measured=partial(_epsilon_ratio, scheme),
            bounds=POSITIVE,
        )
        for name, scheme in AT_TARGET.items()
    )
    for observer, share in (("cell", 0.5), ("network", 0.25))
}
LEAD = (
    Claim(
        f"14. final accuracy: OptSched's lead over RndSched at the same epsilon halves if {SUMS['network']} (ratio)",
        Band(most=0.5),
        OWN,
        measured=by_means(_lead_ratio, *((k, AT_TARGET[n], "accuracy") for k in (1, 0) for n in ("optimal", "random"))),
    ),
)
OVER_CELLS = _declared(  # setting 1's observer sees the network's sum, setting 0's those of cells
    (1, 0),
    *(
        (
            15,
            ACCURACY,
            f"at the scheme's own epsilon higher if the network's sum is seen than if cells' are, {name}",
            MORE,
            OWN,
            None,
            scheme,
        )
        for scheme, name in ((RND, "RndSched"), (OPT, "OptSched"), (OPT_DP, "OptSched+DP"), (JOINT_SNR, "JointSNR"))
    ),
)
INTEGERS = tuple(  # setting 1 sends integers, setting 0 does not
    claim
    for name, scheme in AT_TARGET.items()
    for claim in (
        Claim(
            f"16. final accuracy: at most 0.001 lower with integers of enough bits at the same target, {NAMED[name]} "
            "(difference)",
            Band(above=-0.001),
            OWN,
            measured=by_means(difference, (1, scheme, "accuracy"), (0, scheme, "accuracy")),
            bounds=OF_SHARES,
        ),
        Claim(
            f"16. epsilon by Renyi divergences: less than 5 % above that of the same noise of real numbers with "
            f"integers of enough bits, {NAMED[name]} (ratio)",
            Band(below=1.05),
            OWN,
            measured=by(_largest_ratio, (1, scheme, EPSILON), (1, scheme, OF_NOISE)),
            bounds=POSITIVE,
        ),
    )
)
INGREDIENTS = {  # parameter -> its values in settings 0 and 1, which differ in nothing else, and claims about these
    "training.recipe": (
        {("zero_start", "inverse_variance"), ("falling_steps", "inverse_variance_falling")},
        _more_accurate(11, "weights by inverse variance above weights by samples"),
    ),
    "training.features": (
        {("pixels", "scattering"), ("pixels", "strokes"), ("pixels", "shapes")},
        _more_accurate(11, "fixed features above pixels"),
    ),
}


def claims(scenarios: dict[str, dict]) -> pl.DataFrame:
    """The claims as far as the scenarios and their schemes let them be measured.

    `scenarios` has by name `scenario` (all that any stage reads) and `realizations` (the report's table). Settings are
    compared that are equal in all but what a claim is about, paired by realization. A training that diverged, or for
    which no noise was feasible, guesses (accuracy) and has an infinite loss.
    """
    data = {name: _series(content) for name, content in scenarios.items()}
    settings = {name: content["scenario"] for name, content in scenarios.items()}
    rows = []

    def add(claims: tuple[Claim, ...], *names: str) -> None:
        """Claims about settings, by their names."""
        series = {(place, *key): values for place, name in enumerate(names) for key, values in data[name].items()}
        caveat = PER_USER if settings[names[0]].training.clipping == "per_user" else ""
        rows.extend(measure(claims, {name: settings[name] for name in reversed(names)}, series, caveat=caveat))

    for name, setting in settings.items():
        add(WITHIN + BEYOND, name)
        if _few_blocks(setting):
            add(FEW_BLOCKS, name)
        if setting.radio.resource_blocks >= setting.network.users:
            add(LARGE_R, name)
    for key, steps in (("schedule.gamma", LARGER_GAMMA), ("radio.resource_blocks", MORE_BLOCKS)):
        for names in comparable(scenarios, key, "training_realizations"):  # nothing trained is compared
            for one, other in permutations(names, 2):
                if value_of(settings[other], key) > value_of(settings[one], key):
                    add(steps, one, other)

    def add_pairs(claims: tuple[Claim, ...], keys: Iterable[str], is_first: Callable[[Multicell], bool]) -> None:
        """Claims about pairs of settings that are equal in all but some keys, of which the first are told by them."""
        for names in comparable(scenarios, *keys):
            first = [name for name in names if is_first(settings[name])]
            for pair in product(first, (name for name in names if name not in first)):
                add(claims, *pair)

    add_pairs(FADING, FADING_KEYS, lambda setting: setting.radio.coherence_rounds is None)
    add_pairs(LEARNING, ("training", "privacy.bounds"), _learns_as_the_paper)
    for names in comparable(scenarios, *OBSERVED):
        for one, other in permutations(names, 2):
            seen, sums = settings[one].privacy, settings[other].privacy
            if seen.observer != "user" or sums.observer == "user":
                continue
            if sums.colluders and sums.dropouts:
                add(SAME_EPSILON[sums.observer], one, other)
            elif not sums.colluders and not sums.dropouts and sums.observer == "network":
                add(LEAD, one, other)
    for names in comparable(scenarios, "privacy.observer", "privacy.target_epsilon"):
        alone = [name for name in names if settings[name].privacy.observer == "user"]
        for one, observer in product(alone, SUMS):
            others = [name for name in names if settings[name].privacy.observer == observer]
            others.sort(key=lambda name: settings[name].privacy.target_epsilon or 0.0)
            add(EQUAL_ACCURACY[observer], one, *others)
    for names in comparable(scenarios, "privacy.observer"):
        of_cells, of_all = ([name for name in names if settings[name].privacy.observer == seen] for seen in SUMS)
        for pair in product(of_cells, of_all):
            add(OVER_CELLS, *pair)
    for names in comparable(scenarios, "training.bits"):
        for one, other in permutations(names, 2):
            bits, observer = settings[other].training.bits, settings[other].privacy.observer
            if settings[one].training.bits is None and bits is not None and bits >= ENOUGH_BITS[observer]:
                add(INTEGERS, one, other)
    for key, (values, comparisons) in INGREDIENTS.items():
        for names in comparable(scenarios, key):
            for pair in permutations(names, 2):
                if tuple(value_of(settings[name], key) for name in pair) in values:
                    add(comparisons, *pair)
    return table(rows)


def _series(content: dict) -> dict:
    """Each scheme's columns, and its largest rhos as shares of the bound that (22) sets."""
    series = by_scheme(content["scenario"], content["realizations"], COLUMNS)
    bound, delta = leakage_bound(content["scenario"]), content["scenario"].privacy.delta
    rho = {scheme: values for (scheme, column), values in series.items() if column == "rho_max"}
    shares = {(scheme, SHARE): values / bound for scheme, values in rho.items()}
    of_noise = {(scheme, OF_NOISE): tight_epsilon(values, delta) for scheme, values in rho.items()}
    return series | shares | of_noise


def _learns_as_the_paper(scenario: Multicell) -> bool:
    training = scenario.training
    by_samples = not RECIPES[training.recipe].inverse_variance
    return by_samples and (training.step, training.features) == ("constant", "pixels")


def _few_blocks(scenario: Multicell) -> bool:
    """Whether at most half of the users can have a block at once: R = 5 of Table I, not R = 8."""
    network = scenario.network
    cells = len(hexagons.stations(network.rings, 1.0))
    return 2 * cells * scenario.radio.resource_blocks <= network.users
