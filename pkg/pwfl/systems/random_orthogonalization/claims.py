"""Claims of ul Zuhra et al., in the paper's order, and claims of this project, measured on a study's scenarios."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import polars as pl

from pwfl.learning import datasets
from pwfl.report.claims import (
    LESS,
    MNIST,
    MORE,
    POSITIVE,
    PROJECT,
    SHARE,
    Band,
    Claim,
    Comparison,
    Interpretation,
    Quantity,
    Term,
    by_scheme,
    comparable,
    measure,
    pairs,
    scheme,
    statistic,
    value,
)
from pwfl.report.measures import Measure, accuracies, counted, difference, estimate, paired, ratio, worst
from pwfl.systems.random_orthogonalization.parameters import RandomOrthogonalization
from pwfl.tables.arrays import to_array

ROUND = 14  # "in less than 15 communication rounds"
LEVEL = 0.88  # accuracy, just below the paper's 89%, up to which rounds are counted
CHANGE = (-1.0, np.inf)  # range of a relative change of a positive quantity
PAIRS = {"Private": ("all", "fixed"), "No privacy noise": ("all", "none")}  # both have the receiver's noise

ACCURACY = Quantity("accuracy", "final test accuracy", SHARE)
EPSILON = Quantity("epsilon", "record-level ε of the most exposed user after all rounds", POSITIVE)
ROUNDS = Quantity(None, f"rounds until the test accuracy is {LEVEL:g}")
PRINTED = Quantity(None, "(6), mean over users")

PRIVATE, BARE = (scheme(*pair, name) for name, pair in PAIRS.items())
LEAKAGE = value("leakage")

# The paper's setting: one channel for the whole training, and configured noise, all of which is received.
SETTING = {
    "radio.coherence_rounds": (None,),
    "privacy.target_epsilon": (None,),
    "privacy.colluders": (0.0,),
    "privacy.dropouts": (0.0,),
}
LEARNED = MNIST | SETTING


def _sees_update(scenario: RandomOrthogonalization) -> bool:
    """Return whether epsilon is that against an observer of the server's update."""
    return scenario.privacy.observer == "update"


def _fewest_and_most(contents: dict[str, dict]) -> Iterator[tuple[str, str]]:
    """Yield the scenarios of fewest and of most antennas, among those that are otherwise equal."""
    antennas = {name: content["scenario"].network.antennas for name, content in contents.items()}
    for names in comparable(contents, "network.antennas"):
        few, many = (choose(names, key=antennas.__getitem__) for choose in (min, max))
        if antennas[few] < antennas[many] and _sees_update(contents[few]["scenario"]):
            yield few, many


MORE_ANTENNAS = Comparison(_fewest_and_most, "at larger M")
ONE_CHANNEL = pairs(  # with configured noise: with a target, epsilons would be equal
    "with one channel",
    "radio.coherence_rounds",
    matches=lambda first, other: (
        first.radio.coherence_rounds is not None is other.radio.coherence_rounds
        and _sees_update(first)
        and first.privacy.target_epsilon is None
    ),
)


def _change(means: np.ndarray) -> np.ndarray:
    return ratio(means) - 1


def _change_in_antennas(column: str, few: pl.DataFrame, many: pl.DataFrame) -> Measure | None:
    """Measure the relative change of a column of leakage, in the largest network that both have."""
    shared = set(few["users"]) & set(many["users"])
    if not shared:
        return None
    users = max(shared)
    values = paired(*(to_array(content.filter(users=users), column, "realization") for content in (many, few)))
    return estimate(_change, values)._replace(detail=f"K = {users}") if np.isfinite(values).all() else None


def _rises(column: str, words: str) -> Term:
    """Return the term for the relative change of a column of leakage from fewest to most antennas."""
    measured = partial(_change_in_antennas, column)
    return statistic(
        f"{words}, relative change at larger M", measured, LEAKAGE, LEAKAGE.at(MORE_ANTENNAS), bounds=CHANGE
    )


def _compare_channels(function: Callable) -> Callable[..., Measure | None]:
    """Return a function that compares means with one channel and with redrawn channels by `function`."""

    def measured(one: np.ndarray, redrawn: np.ndarray, rounds: int) -> Measure | None:
        values, often = paired(one, redrawn), f"{rounds} rounds" if rounds > 1 else "round"
        return estimate(function, values)._replace(detail=f"redrawn every {often}") if values.size else None

    return measured


def _change_in_users(leakage: np.ndarray) -> Measure | None:
    """Measure the largest change of the mean from one number of users to the next."""
    return worst(lambda means: np.diff(means, axis=0), leakage) if len(leakage) > 1 else None


def _deviation(ratios: np.ndarray) -> Measure:
    """Measure the largest deviation of a mean ratio from 1."""
    return worst(lambda means: np.concatenate([means - 1, 1 - means]), ratios)


def _delay(private: np.ndarray, bare: np.ndarray, rounds: int) -> Measure | None:
    """Measure by how many rounds one series is later than another, on average; infinite: not within all rounds.

    Infinite values count as one round more than all, which is too few, so the interval's end on that side is unknown.
    """
    values = paired(private, bare)
    if not values.shape[1]:
        return None
    late, never = estimate(difference, np.minimum(values, rounds + 1)), np.any(np.isinf(values), axis=1)
    if never.any():
        late = late._replace(interval=f"{late.interval}; one-sided: some do not reach the level in {rounds} rounds")
    return late._replace(low=None if never[1] else late.low, high=None if never[0] else late.high)


INTERPRETATIONS = (
    Interpretation(
        "I1",
        "K and M of Fig. 1, M and the range of K of Fig. 2, and the data of a “digit classification task”.",
        "M of 64 to 512 in both; K = 100 in Fig. 1, 10 to 100 in Fig. 2; MNIST, dealt out at random.",
    ),
    Interpretation(
        "I2",
        "How long a “communication block” is, in which channels stay.",
        "The whole training: the server estimates channels once, before it.",
    ),
    Interpretation(
        "I3",
        "How users train: the steps, batches and model between two updates.",
        "100 steps of 50 samples, softmax regression; what is sent is the change of the model.",
    ),
    Interpretation(
        "I4",
        "Without what accuracy and convergence rate would be higher, and how much is “sacrificing”.",
        f"The users' noise; more than one point of accuracy, or than one round until it is {LEVEL:g}.",
    ),
    Interpretation(
        "I5",
        "Which ε an “acceptable privacy level” is, and of what.",
        "10 or less, of the most exposed user after all rounds; that of one round by (6) is measured, too.",
    ),
)

PAPER_CLAIMS = (
    Claim(
        id="A-1",
        statement="The users' noise does not sacrifice accuracy.",
        source="Abstract",
        reported="without sacrificing the accuracy/convergence rate",
        quantity=ACCURACY,
        compare=PRIVATE - BARE,
        required=Band(least=-0.01),
        range_source=PROJECT,
        setting=LEARNED,
    ),
    Claim(
        id="A-2",
        statement="The users' noise does not sacrifice the convergence rate.",
        source="Abstract",
        reported="without sacrificing the accuracy/convergence rate",
        quantity=ROUNDS,
        compare=statistic(
            f"{PRIVATE.words} - ({BARE.words})",
            _delay,
            *(value((pair, "rounds")) for pair in PAIRS.values()),
            value("all rounds"),
        ),
        required=Band(most=1),
        range_source=PROJECT,
        setting=LEARNED,
    ),
    Claim(
        id="A-3",
        statement="The privacy level is a function of the channel gains.",
        source="Abstract",
        setting=SETTING,
        why="Follows from (6), whatever the numbers. T1-1 compares (6) with the exact ε.",
    ),
    Claim(
        id="A-4",
        statement="At that accuracy, the privacy level of the users' models is acceptable.",
        source="Abstract",
        reported="maintaining an acceptable privacy level",
        quantity=EPSILON,
        compare=PRIVATE,
        otherwise={"I5: one round by (6), mean over users": value("printed of a round", PRIVATE.words)},
        required=Band(most=10),
        range_source=PROJECT,
        setting=SETTING,
    ),
    Claim(
        id="B-1",
        statement="The server needs only the sum of the channels, which takes far fewer pilots to estimate.",
        source="Background and Objective; System Model",
        reported="a significant reduction in the channel estimation overhead",
        setting=SETTING,
        why="The sum is all that (4) uses. Pilots are not simulated, neither their airtime nor errors of the estimate.",
    ),
    Claim(
        id="E2-1",
        statement="Users who scale what they send by α keep to the power constraint P = α².",
        source="(2), the power constraint P",
        quantity=Quantity(None, "transmit energy of a user in a round / P", POSITIVE),
        compare=value("energy over limit", PRIVATE.words),
        required=Band(most=1),
        setting=LEARNED,
    ),
    Claim(
        id="E2-2",
        statement="With the same α for all users, the server's estimate of the mean update is unbiased.",
        source="(2), coherent superposition",
        reported="unbiased estimates of the model updates",
        setting=SETTING,
        why="Follows from (4), on average over channels. One channel for the whole training has weights of its own, "
        "which the figure couplings shows.",
    ),
    Claim(
        id="T1-1",
        statement="In each round, no user loses more privacy than (6) says.",
        source="Theorem 1",
        quantity=Quantity(None, "share of users and rounds in which (6) is at least the exact ε", SHARE),
        compare=statistic(PRIVATE.words, counted, value("covered"), value("realizations"), bounds=SHARE),
        required=Band(least=1),
        setting=SETTING,
    ),
    Claim(
        id="F1-1",
        statement="The accuracy is 89 % in less than 15 rounds.",
        source="Fig. 1",
        reported="89% in less than 15 iterations",
        quantity=Quantity(None, f"test accuracy after {ROUND} rounds", SHARE),
        compare=value("accuracy", PRIVATE.words),
        required=Band(least=0.885),
        setting=LEARNED,
    ),
    Claim(
        id="F2-1",
        statement="The leakage (6) of a user falls in the number of users K.",
        source="Fig. 2",
        quantity=PRINTED,
        compare=statistic("largest change from one K to the next", _change_in_users, value("printed")),
        required=LESS,
        setting=SETTING,
    ),
    Claim(
        id="F2-2",
        statement="The leakage (6) of a user rises in the number of antennas M.",
        source="Fig. 2",
        quantity=PRINTED,
        compare=_rises("epsilon_printed", PRIVATE.words),
        required=MORE,
        setting=SETTING,
    ),
)

DOCS = "docs/explanation/random_orthogonalization.md"
OWN_CLAIMS = (
    Claim(
        id="X-1",
        statement="The mean of (6) over channels agrees with its closed form within 1 %.",
        source=DOCS,
        quantity=Quantity(None, "(6) / closed form"),
        compare=statistic(
            "largest deviation of the mean from 1, over K",
            _deviation,
            value("printed over closed form"),
            bounds=POSITIVE,
        ),
        required=Band(most=0.01),
        range_source=PROJECT,
    ),
    Claim(
        id="X-2",
        statement="Leakage rises in the number of antennas M by other accounts than (6), too.",
        source=DOCS,
        quantity=Quantity(None, "ε of a user, mean over users unless stated"),
        compare=tuple(
            _rises(column, words)
            for column, words in {
                "epsilon_sensitivity": "(a) with the true sensitivity",
                "epsilon_gaussian": "(b) exact, one round",
                "epsilon": "(c) exact, all rounds",
                "epsilon_max": "(c) exact, all rounds, of the most exposed user",
                "epsilon_antennas": "(d) exact, one round, all antennas observed",
            }.items()
        ),
        required=MORE,
    ),
    Claim(
        id="X-3",
        statement="In each round, no user loses more privacy than (6) says even if all antennas are observed.",
        source=DOCS,
        quantity=Quantity(None, "exact ε of a round, all antennas observed / (6)", POSITIVE),
        compare=value("antennas over printed", "mean over users"),
        required=Band(most=1),
    ),
    Claim(
        id="X-4",
        statement="One channel for the whole training raises ε by a tenth or more, compared with redrawn channels.",
        source=DOCS,
        quantity=EPSILON,
        compare=statistic(
            f"{PRIVATE.words}, one channel / redrawn channels - 1",
            _compare_channels(_change),
            *(PRIVATE.at(ONE_CHANNEL), PRIVATE, value("coherence rounds")),
            bounds=CHANGE,
        ),
        required=Band(least=0.1),
        range_source=PROJECT,
    ),
    Claim(
        id="X-5",
        statement="With one channel for the whole training, accuracy is within a point of that with redrawn channels.",
        source=DOCS,
        quantity=ACCURACY,
        compare=statistic(
            f"{PRIVATE.words}, one channel - redrawn channels",
            _compare_channels(difference),
            *(PRIVATE.at(ONE_CHANNEL), PRIVATE, value("coherence rounds")),
            bounds=(-1.0, 1.0),
        ),
        required=Band(least=-0.01, most=0.01),
        range_source=PROJECT,
    ),
)


def claims(contents: dict[str, dict]) -> pl.DataFrame:
    """Measure the claims as far as the scenarios allow.

    `contents` has, by scenario, `scenario`, `realizations`, `leakage` and `history`. All claims are about the scheme in
    which users add noise. Claims about M compare the scenarios of fewest and most antennas, among those that are
    otherwise equal, at the largest number of users of both. Claims about the channel compare scenarios that differ only
    in `radio.coherence_rounds`. A training run that diverged has the accuracy of guessing.
    """
    return measure(PAPER_CLAIMS + OWN_CLAIMS, contents, _series, INTERPRETATIONS)


def _series(content: dict) -> dict:
    """Return the values from which claims are measured, if a scheme has noise; (6) and its ratio by number of users."""
    scenario = content["scenario"]
    names = {(scheme.scheduler, scheme.noise): scheme.name for scheme in scenario.schemes}
    if (name := names.get(PAIRS["Private"])) is None:
        return {}
    trained, leakage, history = (content[table].filter(scheme=name) for table in ("realizations", "leakage", "history"))
    printed, closed_form = (
        to_array(leakage, column, "users", "realization") for column in ("epsilon_printed", "epsilon_closed_form")
    )
    rows, classes = leakage.filter(users=trained["users"][0]), datasets.size(scenario.data).classes
    at_round = history.filter(round=ROUND).rename({"status": "training"})
    with np.errstate(invalid="ignore"):  # without any noise both are infinite
        over_closed_form = printed / closed_form
    finite = {  # without any noise they are infinite
        "printed": printed,
        "printed of a round": rows["epsilon_printed"].to_numpy(),
        "printed over closed form": over_closed_form,
        "antennas over printed": (rows["epsilon_antennas"] / rows["epsilon_printed"]).to_numpy(),
        "energy over limit": (trained["transmit_energy"] / trained["transmit_energy_limit"]).drop_nulls().to_numpy(),
    }
    return {
        **{key: values for key, values in finite.items() if np.isfinite(values).all()},
        **_outcomes(content),
        **{(pair, "rounds"): rounds_to(content["history"].filter(scheme=name), LEVEL) for pair, name in names.items()},
        "leakage": leakage,
        "accuracy": accuracies(at_round, classes),
        "covered": 1 - trained["understated"].mean(),
        "realizations": len(trained),
        "coherence rounds": scenario.radio.coherence_rounds,
        "all rounds": scenario.training.rounds,
    }


def _outcomes(content: dict) -> dict:
    """Return each scheme's final accuracies and, if it is finite, the most exposed users' epsilon after all rounds."""
    series = by_scheme(content["scenario"], content["realizations"], ("accuracy", "epsilon"))
    return {key: values for key, values in series.items() if not np.isinf(values).any()}


def rounds_to(history: pl.DataFrame, level: float) -> np.ndarray:
    """Find the first round in which each training run's test accuracy is `level` or more, shape (realization,).

    `history` is of one scheme. The result is infinite for a training run that does not reach it, or that diverged.
    """
    sound = (pl.col("accuracy") >= level) & (pl.col("status").cast(pl.String) == "trained")
    first = history.group_by("realization").agg(pl.col("round").filter(sound).min()).sort("realization")
    return first["round"].cast(pl.Float64).fill_null(np.inf).to_numpy()
