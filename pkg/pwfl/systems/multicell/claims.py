"""Claims of Tavangaran et al., in their order, and of this project beyond: measured on a study's scenarios."""

import numpy as np
import polars as pl

from pwfl.privacy.gaussian import tight_epsilon
from pwfl.report.claims import (
    LESS,
    MNIST,
    MORE,
    POSITIVE,
    PROJECT,
    SHARE,
    Band,
    Claim,
    Interpretation,
    Quantity,
    Reported,
    by_scheme,
    larger,
    measure,
    only,
    pairs,
    scheme,
    statistic,
    value,
)
from pwfl.report.measures import ONE_SIDED, Measure, counted, estimate, maximum, paired
from pwfl.scenario.values import value_of
from pwfl.systems.multicell import hexagons
from pwfl.systems.multicell.bounds import leakage_bound
from pwfl.systems.multicell.parameters import Multicell
from pwfl.systems.multicell.recipes import RECIPES

TRAININGS = 100  # number of realizations in the paper's maxima of rho
ROUNDING = 1e-9
LEAKAGES = ("rho_worst_user", "rho_total")
SELECTION = ("samples_per_scheduled", "gain_db_median", "noise_variance_median", "lost_share")
OUTCOMES = ("objective_per_sample", "objective_gap", "scheduled", "rho_median", "epsilon", "accuracy", "loss")
COLUMNS = (*OUTCOMES, *SELECTION, *LEAKAGES, "rho_not_lowered")
OF_NOISE = "epsilon of the same noise"  # real-valued noise, by Renyi divergences

OBJECTIVE = Quantity("objective_per_sample", "mean objective (20) per sample", POSITIVE)
GAP = Quantity("objective_gap", "mean gap of objective (20) to its bound", POSITIVE)
ACCURACY = Quantity("accuracy", "final test accuracy", SHARE)
LOSS = Quantity("loss", "final test loss", POSITIVE)
RHO = Quantity("rho_median", "median ρ of a realization's scheduled users", POSITIVE)
RHO_WORST_USER = Quantity("rho_worst_user", "largest ρ of a realization", POSITIVE)
LOWERED = Quantity("rho_not_lowered", "share of scheduled users who leak no less than with OptSched", SHARE)
LARGEST = Quantity("rho_worst_user", "largest ρ in all realizations", POSITIVE)
EPSILON = Quantity("epsilon", "record-level ε", POSITIVE)
SENDERS = Quantity("scheduled", "users who ever send", POSITIVE)
SAMPLES = Quantity("samples_per_scheduled", "mean number of samples of a scheduled user", POSITIVE)
GAIN = Quantity("gain_db_median", "median gain of a scheduled user, dB")
NOISE = Quantity("noise_variance_median", "median noise variance of a scheduled user", POSITIVE)
LOST = Quantity("lost_share", "share of users with a resource block who lose it to interference", SHARE)

RND = scheme("random", "random", "RndSched")
OPT = scheme("optimal", "random", "OptSched")
OPT_DP = scheme("optimal", "optimal", "OptSched+DP")
EQUAL = scheme("optimal", "equal_sum", "OptSched+equal")
FILL = scheme("optimal", "fill_up", "OptSched+fill")
JOINT = scheme("joint", "random", "Joint")
JOINT_DP = scheme("joint_noise", "optimal", "Joint+DP")
JOINT_SNR = scheme("joint_snr", "equal_max", "JointSNR")
AT_TARGET = tuple(
    scheme(scheduler, "target", name)
    for scheduler, name in (("random", "RndSched"), ("optimal", "OptSched"), ("joint_snr", "JointSNR"))
)
AT_RND, AT_OPT, _ = AT_TARGET
LEAKS = value("leakages", "leakages of all schemes")

BOUND = value("bound", "bound of (22)")

# The paper's setting, and that of claims on learning, with the paper's learning. In Table I, (a) and (b) of a figure
# have a pair of R and gamma each. Claims on an increase of one of the two may be measured from the value of either.
TABLE_I = {
    "radio.coherence_rounds": (None,),
    "radio.path_loss": ("power_law",),
    "radio.air": ("digital",),
    "training.learner": ("gradients",),
    "data.sampling": (None,),
    "channel.links": (None,),
    "channel.users": (None,),
}
BLOCKS, GAMMA = "radio.resource_blocks", "schedule.gamma"
IN_A, IN_B = (5, 1e6), (8, 1e7)
SETTING = TABLE_I | {(BLOCKS, GAMMA): (IN_A, IN_B)}
STEPS = TABLE_I | {BLOCKS: (IN_A[0], IN_B[0]), GAMMA: (IN_A[1], IN_B[1])}
LEARNED = SETTING | MNIST
LEARNED |= {"training.model": ("dense",), "training.recipe": ("paper",), "training.step": ("constant",)}


def _is_b_after_a(first: Multicell, other: Multicell) -> bool:
    return tuple(tuple(value_of(setting, key) for key in (BLOCKS, GAMMA)) for setting in (first, other)) == (IN_A, IN_B)


AT_B = pairs("in (b)", BLOCKS, GAMMA, "training_realizations", matches=_is_b_after_a)
LARGER_GAMMA, GAMMA_ALONE = larger(GAMMA, "at larger γ"), "I2: γ alone"
MORE_BLOCKS, BLOCKS_ALONE = larger(BLOCKS, "at larger R"), "I2: R alone"


def _has_few_blocks(scenario: Multicell) -> bool:
    """Return whether at most half of the users can have a block at once: R = 5 of Table I, not R = 8."""
    return 2 * hexagons.cells(scenario.network.rings) * scenario.radio.resource_blocks <= scenario.network.users


FEW_BLOCKS = only(_has_few_blocks)
A_BLOCK_EACH = only(lambda scenario: scenario.radio.resource_blocks >= scenario.network.users)


def _largest(rho: np.ndarray, bound: float) -> Measure | None:
    """Measure the largest rho of a user in all realizations, which the bound of (22) limits."""
    known = rho[~np.isnan(rho)]
    return maximum(known, TRAININGS, bound * (1 + ROUNDING)) if len(known) else None


def _largest_over(random: np.ndarray, optimal: np.ndarray, bound: float) -> Measure | None:
    """Divide one maximum by another; with fewer realizations than the paper's, either may still grow."""
    one, other = _largest(random, bound), _largest(optimal, bound)
    if one is None or other is None:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        value, count = float(np.divide(one.value, other.value)), int((~np.isnan(random)).sum())
    if count < TRAININGS:
        return Measure(value, None, None, f"none: maxima of fewer realizations than {TRAININGS}", count)
    return counted(value, count)


INTERPRETATIONS = (
    Interpretation(
        "I1",
        "How many samples a user has: “lognormal”, without parameters or a total.",
        "50 + LN(4, 1), about 14,000 of the 60,000 training images in all.",
        {"data.samples_total": (None,), "data.samples_offset": (50,), "data.samples_log_mean": (4.0,)}
        | {"data.samples_log_sd": (1.0,)},
    ),
    Interpretation(
        "I2",
        "What “increasing” R or γ leaves fixed: (a) and (b) of a figure differ in both.",
        "Both change, as the paper compares; one at a time is measured, too.",
    ),
    Interpretation(
        "I3",
        "How much is “slightly”, “similar”, “the same”.",
        "5 points of accuracy; 10 % of a loss or an objective.",
    ),
    Interpretation(
        "I4",
        "What is clipped: “the gradient of all weights … their global norm”.",
        "Each record's gradient, which (11) needs; with `per_user`, (11) is not guaranteed.",
        {"training.clipping": ("per_sample",)},
        concerns=(*(f"F5-{k}" for k in range(1, 7)), "S6B-2", "S6B-3", "S7-1"),  # accuracies and losses
    ),
    Interpretation(
        "I5",
        "What “reduces the leakage at each user” means, and of whom the distribution is.",
        "Of every scheduled user; the median is measured, too. Users who are not scheduled send nothing.",
    ),
    Interpretation("I6", "Whom OptSched “selects”: before or after power control removes users.", "Whom it leaves."),
)

PAPER_CLAIMS = (
    Claim(
        id="F4-1",
        statement="OptSched reaches a lower objective than RndSched.",
        source="Sec. VI-A, Fig. 4",
        quantity=OBJECTIVE,
        compare=OPT - RND,
        required=LESS,
        setting=SETTING,
    ),
    Claim(
        id="F4-2",
        statement="Optimizing the noise lowers the objective further: OptSched+DP is below OptSched.",
        source="Sec. VI-A, Fig. 4",
        quantity=OBJECTIVE,
        compare=OPT_DP - OPT,
        required=LESS,
        setting=SETTING,
    ),
    Claim(
        id="F4-3",
        statement="OptSched+DP reaches lower objectives at larger γ.",
        source="Sec. VI-A, Fig. 4",
        quantity=OBJECTIVE,
        compare=OPT_DP.at(AT_B) - OPT_DP,
        otherwise={GAMMA_ALONE: OPT_DP.at(LARGER_GAMMA) - OPT_DP},  # (20) grows with gamma: a remark, in no setting
        required=LESS,
        setting=SETTING,
    ),
    Claim(
        id="F4-4",
        statement="A larger γ gives more weight to the noise: what OptSched+DP gains on OptSched grows with γ.",
        source="Sec. VI-A, Fig. 4",
        quantity=OBJECTIVE,
        compare=(OPT - OPT_DP).at(AT_B) - (OPT - OPT_DP),
        otherwise={GAMMA_ALONE: (OPT - OPT_DP).at(LARGER_GAMMA) - (OPT - OPT_DP)},
        required=MORE,
        setting=STEPS,
    ),
    Claim(
        id="F4-5",
        statement="At larger R, RndSched gets slightly closer to OptSched.",
        source="Sec. VI-A, Fig. 4",
        reported="slightly closer",
        quantity=OBJECTIVE,
        compare=(RND - OPT).at(AT_B) - (RND - OPT),
        otherwise={BLOCKS_ALONE: (RND - OPT).at(MORE_BLOCKS) - (RND - OPT)},
        required=LESS,
        setting=STEPS,
    ),
    Claim(
        id="S6A-1",
        statement="For large R, RndSched might eventually perform like OptSched.",
        source="Sec. VI-A",
        reported="might eventually",
        quantity=OBJECTIVE,
        compare=RND / OPT,
        required=Band(most=1.1),
        range_source=PROJECT,
        setting=TABLE_I,
        among=A_BLOCK_EACH,
    ),
    Claim(
        id="F5-1",
        statement="OptSched is more accurate than RndSched.",
        source="Sec. VI-B, Fig. 5 (a), (b)",
        quantity=ACCURACY,
        compare=OPT - RND,
        required=MORE,
        setting=LEARNED,
    ),
    Claim(
        id="F5-2",
        statement="OptSched has a lower loss than RndSched.",
        source="Sec. VI-B, Fig. 5 (c), (d)",
        quantity=LOSS,
        compare=OPT - RND,
        required=LESS,
        setting=LEARNED,
    ),
    Claim(
        id="S6B-1",
        statement="OptSched selects users with large chunks of data.",
        source="Sec. VI-B",
        reported="large chunks of data",
        quantity=SAMPLES,
        compare=OPT - RND,
        required=MORE,
        setting=SETTING,
    ),
    Claim(
        id="S6B-2",
        statement="OptSched selects users with a better channel.",
        source="Sec. VI-B",
        reported="a better channel",
        quantity=GAIN,
        compare=OPT - RND,
        required=MORE,
        setting=SETTING,
    ),
    Claim(
        id="S6B-3",
        statement="OptSched selects users who suffer less from interference between cells.",
        source="Sec. VI-B",
        reported="suffer less from the inter-cell interference",
        quantity=LOST,
        compare=OPT - RND,
        required=LESS,
        setting=SETTING,
    ),
    Claim(
        id="F5-3",
        statement="OptSched+DP is only slightly less accurate than OptSched.",
        source="Sec. VI-B, Fig. 5 (a), (b)",
        reported="slightly",
        quantity=ACCURACY,
        compare=OPT_DP - OPT,
        required=Band(least=-0.05, below=0),
        range_source=PROJECT,
        setting=LEARNED,
    ),
    Claim(
        id="F5-4",
        statement="OptSched+DP has only a slightly higher loss than OptSched.",
        source="Sec. VI-B, Fig. 5 (c), (d)",
        reported="slightly",
        quantity=LOSS,
        compare=OPT_DP / OPT,
        required=Band(above=1, most=1.1),
        range_source=PROJECT,
        setting=LEARNED,
    ),
    Claim(
        id="F5-5",
        statement="With few resource blocks, OptSched+DP is about as accurate as RndSched, or more.",
        source="Sec. VI-B, Fig. 5 (a)",
        reported="similar or even better",
        quantity=ACCURACY,
        compare=OPT_DP - RND,
        required=Band(least=-0.05),
        range_source=PROJECT,
        setting=LEARNED,
        among=FEW_BLOCKS,
    ),
    Claim(
        id="F5-6",
        statement="With few resource blocks, OptSched+DP has about the loss of RndSched, or less.",
        source="Sec. VI-B, Fig. 5 (c)",
        reported="similar or even better",
        quantity=LOSS,
        compare=OPT_DP / RND,
        required=Band(most=1.1),
        range_source=PROJECT,
        setting=LEARNED,
        among=FEW_BLOCKS,
    ),
    Claim(
        id="F5-7",
        statement="The largest leakage of RndSched is about 4, the bound of (22) at Table I.",
        source="Sec. VI-B, Fig. 5 (e), (f)",
        reported="around 4, the bound with Table I",
        quantity=LARGEST,
        compare=statistic("RndSched", _largest, RND, BOUND, bounds=POSITIVE),
        required=Reported(4, 3.5, 4.5),
        setting=SETTING,
    ),
    Claim(
        id="F5-8",
        statement="The largest leakage of OptSched+DP is about 0.5, an eighth of the bound of (22).",
        source="Sec. VI-B, Fig. 5 (e), (f)",
        reported="around 0.5, the bound is 4",
        quantity=LARGEST,
        compare=statistic("OptSched+DP", _largest, OPT_DP, BOUND, bounds=POSITIVE),
        required=Reported(0.5, 0.45, 0.55),
        setting=SETTING,
    ),
    Claim(
        id="F5-9",
        statement="OptSched+DP substantially reduces the leakage of each user, compared with OptSched.",
        source="Sec. VI-B, Fig. 5 (e), (f)",
        reported="substantially reduces",
        quantity=LOWERED,
        compare=OPT_DP,
        otherwise={"I5: the median": OPT_DP["rho_median"] - OPT["rho_median"]},
        required=Band(most=0),
        setting=SETTING,
    ),
    Claim(
        id="F5-10",
        statement="OptSched leaks less at larger γ.",
        source="Sec. VI-B, Fig. 5 (e), (f)",
        quantity=RHO,
        compare=OPT.at(AT_B) - OPT,
        otherwise={GAMMA_ALONE: OPT.at(LARGER_GAMMA) - OPT},
        required=LESS,
        setting=STEPS,
    ),
    Claim(
        id="F5-11",
        statement="It does so because a larger γ prefers users with more noise.",
        source="Sec. VI-B, Fig. 5 (e), (f)",
        reported="users with higher DP noise power",
        quantity=NOISE,
        compare=OPT.at(AT_B) - OPT,
        otherwise={GAMMA_ALONE: OPT.at(LARGER_GAMMA) - OPT},
        required=MORE,
        setting=STEPS,
    ),
    Claim(
        id="S7-1",
        statement="With few resource blocks, OptSched is more accurate than RndSched by over 6 points.",
        source="Sec. VII",
        reported="over 6%",
        quantity=ACCURACY,
        compare=OPT - RND,
        required=Band(above=0.06),
        setting=LEARNED,
        among=FEW_BLOCKS,
    ),
    Claim(
        id="S7-2",
        statement="OptSched can leak less than RndSched, if γ is set properly.",
        source="Sec. VII",
        reported="if gamma is set properly",
        quantity=RHO,
        compare=OPT - RND,
        required=LESS,
        setting=SETTING,
    ),
    Claim(
        id="S7-3",
        statement="OptSched+DP divides the largest leakage of RndSched by 8.",
        source="Sec. VII",
        reported="a factor of 8, from 4 to 0.5",
        quantity=LARGEST,
        compare=statistic("RndSched / OptSched+DP", _largest_over, RND, OPT_DP, BOUND, bounds=POSITIVE),
        required=Reported(8, 7.5, 8.5),
        setting=SETTING,
    ),
    Claim(
        id="S7-4",
        statement="OptSched+DP substantially reduces the leakage, compared with RndSched.",
        source="Sec. VII",
        reported="substantially reduces",
        quantity=RHO,
        compare=OPT_DP - RND,
        required=LESS,
        setting=SETTING,
    ),
)


# What goes beyond the paper.

# Keys in which scenarios with and without channels that are drawn again may also differ.
FADING_KEYS = ("radio.coherence_rounds", "privacy.planned_share", "schemes", "realizations", "training_realizations")
REDRAWN = pairs(
    "with channels drawn anew",
    *FADING_KEYS,
    matches=lambda first, other: first.radio.coherence_rounds is None is not other.radio.coherence_rounds,
)


def _learns_as_the_paper(scenario: Multicell) -> bool:
    training = scenario.training
    by_samples = not RECIPES[training.recipe].inverse_variance
    return by_samples and (training.step, training.features) == ("constant", "pixels")


BETTER_LEARNING = pairs(
    "with other learning",
    *("training", "privacy.bounds"),
    matches=lambda first, other: _learns_as_the_paper(first) and not _learns_as_the_paper(other),
)


def _changed(key: str, words: str, *values: tuple[str, str]):
    """Compare scenarios that are equal except for a key, which has one of these pairs of values."""
    return pairs(words, key, matches=lambda first, other: (value_of(first, key), value_of(other, key)) in values)


INVERSE_VARIANCE = _changed(
    "training.recipe",
    "with weights by inverse variance",
    ("zero_start", "inverse_variance"),
    ("falling_steps", "inverse_variance_falling"),
)
FEATURES = _changed(
    "training.features",
    "with fixed features",
    ("pixels", "scattering"),
    ("pixels", "strokes"),
    ("pixels", "shapes"),
)
# Keys in which scenarios with different observers may differ.
OBSERVED = ("privacy.observer", "privacy.colluders", "privacy.dropouts")


def _sums_hide(observer: str):
    """Return a test whether the first scenario shows uploads, and the other sums with colluders and dropouts."""

    def matches(first: Multicell, other: Multicell) -> bool:
        seen = other.privacy
        return (first.privacy.observer, seen.observer) == ("user", observer) and bool(seen.colluders and seen.dropouts)

    return matches


def _nobody_colludes(first: Multicell, other: Multicell) -> bool:
    seen = other.privacy
    return (first.privacy.observer, seen.observer, seen.colluders, seen.dropouts) == ("user", "network", 0.0, 0.0)


CELLS_SUMS = pairs("if only cells' sums are seen", *OBSERVED, matches=_sums_hide("cell"))
NETWORKS_SUM = pairs("if only the network's sum is seen", *OBSERVED, matches=_sums_hide("network"))
ALL_HONEST = pairs("if only the network's sum is seen", *OBSERVED, matches=_nobody_colludes)
OVER_CELLS = _changed("privacy.observer", "if the network's sum is seen", ("cell", "network"))


def _at_targets(observer: str):
    """Compare a scenario in which each upload is seen with all in which sums are, at several target epsilons."""
    return pairs(
        f"if only the {observer}'s sum is seen",
        *("privacy.observer", "privacy.target_epsilon"),
        matches=lambda first, other: (first.privacy.observer, other.privacy.observer) == ("user", observer),
        together=True,
    )


# Sufficient bits of integers, by observer: the bound for private dithers then costs less than 1 % of epsilon, on MNIST
# (docs/explanation/sums.md).
ENOUGH_BITS = {"user": 8, "cell": 10, "network": 12}


def _sends_enough_bits(first: Multicell, other: Multicell) -> bool:
    bits = other.training.bits
    return first.training.bits is None and bits is not None and bits >= ENOUGH_BITS[other.privacy.observer]


INTEGERS = pairs("with integers of enough bits", "training.bits", matches=_sends_enough_bits)


def _largest_change(first: dict, other: dict) -> Measure | None:
    """Measure the largest relative difference in leakage of two scenarios' realizations, in the schemes of both.

    Schemes without noise, with infinite leakage in both, are left out; None: there are no others.
    """
    columns = [paired(values, other[name]) for name, values in first.items() if name in other]
    columns = [column for column in columns if np.isfinite(column).any()]
    if not columns:
        return None
    both = np.concatenate(columns, axis=1)
    both = both[:, np.isfinite(both).any(axis=0)]
    changed = np.abs(both[1] - both[0])
    known = np.isfinite(both).all(axis=0) & (both[0] != 0)
    share = np.divide(changed, both[0], out=np.where(changed > 0, np.inf, 0.0), where=known)
    return counted(share.max(initial=0.0), columns[0].shape[1])


def _epsilon_ratio(
    accuracy: np.ndarray, epsilon: np.ndarray, accuracies: list[np.ndarray], epsilons: list[np.ndarray]
) -> Measure | None:
    """Measure the least epsilon at which other scenarios have the first one's accuracy, over the first one's epsilon.

    Between scenarios, accuracy is interpolated linearly in the logarithm of epsilon. If the first one's accuracy is
    outside the simulated range, only one end is known: the ratio of their least or largest epsilon.
    """
    if len(epsilons) < 2:
        return None
    order = np.argsort([np.nanmax(values) for values in epsilons])
    means = paired(accuracy, *(accuracies[k] for k in order))
    logs = np.log([np.nanmax(values) for values in (epsilon, *(epsilons[k] for k in order))])

    def ratio_of(means: np.ndarray) -> np.ndarray:
        def ratio_at(means: np.ndarray) -> float:
            return float(np.exp(np.interp(means[0], np.maximum.accumulate(means[1:]), logs[1:]) - logs[0]))

        return np.apply_along_axis(ratio_at, 0, means)

    ratio, (one, *others) = estimate(ratio_of, means), means.mean(axis=1)
    if one < others[0]:
        return ratio._replace(low=None, interval=f"{ONE_SIDED}: more accurate even at the least epsilon simulated")
    if one > max(others):
        return ratio._replace(high=None, interval=f"{ONE_SIDED}: less accurate even at the largest epsilon simulated")
    return ratio


def _largest_ratio(values: np.ndarray, others: np.ndarray) -> Measure | None:
    both = paired(values, others)
    return counted(float((both[0] / both[1]).max()), both.shape[1]) if both.shape[1] else None


def _epsilon_at_equal_accuracy(observer: str):
    comparison = _at_targets(observer)
    return tuple(
        statistic(
            f"{target.words} {comparison.words} / {target.words}",
            _epsilon_ratio,
            *(one[name] for one in (target, target.at(comparison)) for name in ("accuracy", "epsilon")),
            bounds=POSITIVE,
        )
        for target in AT_TARGET
    )


DOCS, SUMS = "docs/explanation/multicell.md", "docs/explanation/sums.md"
OWN_CLAIMS = (
    Claim(
        id="X-1",
        statement="Scheduling all cells together lowers the objective.",
        source=DOCS,
        quantity=OBJECTIVE,
        compare=JOINT - OPT,
        required=LESS,
    ),
    Claim(
        id="X-2",
        statement="Scheduling all cells and the noise together lowers the objective.",
        source=DOCS,
        quantity=OBJECTIVE,
        compare=JOINT_DP - OPT_DP,
        required=LESS,
    ),
    Claim(
        id="X-3",
        statement="Scheduling all cells together leaves at most 0.05 % to the bound, and with the noise, too.",
        source=DOCS,
        quantity=GAP,
        compare=(JOINT, JOINT_DP),
        required=Band(most=5e-4),
        range_source=PROJECT,
    ),
    Claim(
        id="X-4",
        statement="Scheduling all cells and the noise together is more accurate than OptSched+DP.",
        source=DOCS,
        quantity=ACCURACY,
        compare=JOINT_DP - OPT_DP,
        required=MORE,
    ),
    Claim(
        id="X-5",
        statement="If all users of OptSched+DP have equal ρ, the largest is a fifth lower, or more.",
        source=DOCS,
        quantity=RHO_WORST_USER,
        compare=EQUAL / OPT_DP,
        required=Band(most=0.8),
        range_source=PROJECT,
    ),
    Claim(
        id="X-6",
        statement="If all users of OptSched+DP have equal ρ, it is more accurate.",
        source=DOCS,
        quantity=ACCURACY,
        compare=EQUAL - OPT_DP,
        required=MORE,
    ),
    Claim(
        id="X-7",
        statement="If the users of most samples have OptSched+DP's largest ρ, it is more accurate.",
        source=DOCS,
        quantity=ACCURACY,
        compare=FILL - OPT_DP,
        required=MORE,
    ),
    Claim(
        id="X-8",
        statement="Scheduling by squared samples leaves the largest ρ at most OptSched+DP's.",
        source=DOCS,
        quantity=RHO_WORST_USER,
        compare=JOINT_SNR / OPT_DP,
        required=Band(most=1),
    ),
    Claim(
        id="X-9",
        statement="Scheduling by squared samples is more accurate than OptSched+DP.",
        source=DOCS,
        quantity=ACCURACY,
        compare=JOINT_SNR - OPT_DP,
        required=MORE,
    ),
    Claim(
        id="X-10",
        statement="If channels are drawn anew, more users ever send.",
        source=DOCS,
        quantity=SENDERS,
        compare=tuple(term.at(REDRAWN) - term for term in (OPT_DP, JOINT_DP)),
        required=MORE,
    ),
    Claim(
        id="X-11",
        statement="If channels are drawn anew, the largest ρ is no larger.",
        source=DOCS,
        quantity=RHO_WORST_USER,
        compare=tuple(term.at(REDRAWN) / term for term in (OPT_DP, JOINT_DP)),
        required=Band(most=1),
    ),
    Claim(
        id="X-12",
        statement="If channels are drawn anew, accuracy is higher.",
        source=DOCS,
        quantity=ACCURACY,
        compare=tuple(term.at(REDRAWN) - term for term in (OPT_DP, JOINT_DP)),
        required=MORE,
    ),
    Claim(
        id="X-13",
        statement="This project's learning is more accurate than the paper's.",
        source=DOCS,
        quantity=ACCURACY,
        compare=tuple(term.at(BETTER_LEARNING) - term for term in (RND, OPT, OPT_DP)),
        required=MORE,
    ),
    Claim(
        id="X-14",
        statement="This project's learning changes no user's leakage.",
        source=DOCS,
        quantity=Quantity(None, "maximum and total ρ of a realization"),
        compare=statistic(
            "largest relative change with other learning", _largest_change, LEAKS, LEAKS.at(BETTER_LEARNING)
        ),
        required=Band(most=1e-12),
    ),
    Claim(
        id="X-15",
        statement="Aggregation weights by inverse variance are more accurate than weights by samples.",
        source=DOCS,
        quantity=ACCURACY,
        compare=tuple(term.at(INVERSE_VARIANCE) - term for term in (RND, OPT, OPT_DP)),
        required=MORE,
    ),
    Claim(
        id="X-16",
        statement="Fixed features are more accurate than pixels.",
        source="docs/explanation/features.md",
        quantity=ACCURACY,
        compare=tuple(term.at(FEATURES) - term for term in (RND, OPT, OPT_DP)),
        required=MORE,
    ),
    Claim(
        id="X-17",
        statement="At the same ε, accuracy is higher if only cells' sums are seen than if each upload is.",
        source=SUMS,
        quantity=ACCURACY,
        compare=tuple(term.at(CELLS_SUMS) - term for term in AT_TARGET),
        required=MORE,
    ),
    Claim(
        id="X-18",
        statement="At the same ε, accuracy is higher if only the network's sum is seen than if each upload is.",
        source=SUMS,
        quantity=ACCURACY,
        compare=tuple(term.at(NETWORKS_SUM) - term for term in AT_TARGET),
        required=MORE,
    ),
    Claim(
        id="X-19",
        statement="At the same accuracy, ε is at most half if only cells' sums are seen.",
        source=SUMS,
        quantity=EPSILON,
        compare=_epsilon_at_equal_accuracy("cell"),
        required=Band(most=0.5),
        range_source=PROJECT,
    ),
    Claim(
        id="X-20",
        statement="At the same accuracy, ε is at most a quarter if only the network's sum is seen.",
        source=SUMS,
        quantity=EPSILON,
        compare=_epsilon_at_equal_accuracy("network"),
        required=Band(most=0.25),
        range_source=PROJECT,
    ),
    Claim(
        id="X-21",
        statement="At the same ε, OptSched's lead over RndSched halves if only the network's sum is seen.",
        source=SUMS,
        quantity=ACCURACY,
        compare=(AT_OPT - AT_RND).at(ALL_HONEST) / (AT_OPT - AT_RND),
        required=Band(most=0.5),
        range_source=PROJECT,
    ),
    Claim(
        id="X-22",
        statement="At the scheme's own ε, accuracy is higher if the network's sum is seen than if cells' sums are.",
        source=SUMS,
        quantity=ACCURACY,
        compare=tuple(term.at(OVER_CELLS) - term for term in (RND, OPT, OPT_DP, JOINT_SNR)),
        required=MORE,
    ),
    Claim(
        id="X-23",
        statement="At the same target, integers of enough bits cost at most 0.1 point of accuracy.",
        source=SUMS,
        quantity=ACCURACY,
        compare=tuple(term.at(INTEGERS) - term for term in AT_TARGET),
        required=Band(above=-0.001),
        range_source=PROJECT,
    ),
    Claim(
        id="X-24",
        statement="Integers of enough bits cost less than 5 % of the ε by Rényi divergences.",
        source=SUMS,
        quantity=EPSILON,
        compare=tuple(
            statistic(
                f"{term.words}, integers / real numbers, largest",
                _largest_ratio,
                *(term["epsilon"].at(INTEGERS), term[OF_NOISE].at(INTEGERS)),
                bounds=POSITIVE,
            )
            for term in AT_TARGET
        ),
        required=Band(below=1.05),
        range_source=PROJECT,
    ),
)


def claims(contents: dict[str, dict]) -> pl.DataFrame:
    """Measure the claims, as far as the scenarios and their schemes permit.

    `contents` has by name `scenario` (all that any stage reads) and `realizations` (the report's table). A claim
    compares scenarios that are equal in everything else, paired by realization. A training run that diverged, or
    without feasible noise, has the accuracy of a guess and an infinite loss.
    """
    return measure(PAPER_CLAIMS + OWN_CLAIMS, contents, _series, INTERPRETATIONS)


def _series(content: dict) -> dict:
    """Return each scheme's columns and OF_NOISE, all schemes' leakages, and the bound of (22)."""
    scenario = content["scenario"]
    series = by_scheme(scenario, content["realizations"], COLUMNS)
    rho = {pair: values for (pair, column), values in series.items() if column == "rho_worst_user"}
    series |= {(pair, OF_NOISE): tight_epsilon(values, scenario.privacy.delta) for pair, values in rho.items()}
    leakages = {name: values for name, values in series.items() if name[1] in LEAKAGES}
    return series | {"leakages": leakages, "bound": leakage_bound(scenario)}
