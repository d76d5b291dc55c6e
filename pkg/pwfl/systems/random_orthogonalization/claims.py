"""The paper's claims about the system `random_orthogonalization`, measured on the scenarios of a study."""

from collections.abc import Iterator
from itertools import product

import numpy as np
import polars as pl

from pwfl.learning import datasets
from pwfl.report import claims as engine
from pwfl.report.claims import Band, Claim, Measure, by, estimate, worst
from pwfl.tables.arrays import to_array

ROUND, ACCURACY = 14, 0.885  # "89% in less than 15 communication rounds"
MONTE_CARLO = 0.01  # relative; (6)'s mean over channels against its closed form
HIGHER, SIMILAR = 0.1, 0.01  # an epsilon this share higher is read as higher, accuracies this close as similar
LATER = 1  # round, by which a level of accuracy is reached later, is read as no slower
LEVEL = 0.88  # of accuracy, just below the paper's 89%, to which rounds are counted
PRIVATE, BARE = ("all", "fixed"), ("all", "none")  # users add noise, or none; the receiver's is there in both
ABSTRACT, WITHOUT_SACRIFICING = "abstract", "without sacrificing the accuracy/convergence rate"
BEYOND = "not in the paper"
# The paper's: with one channel for the whole training, and the noise that is given, all of which is received.
SETTING = {
    "radio.coherence_rounds": (None,),
    "privacy.target_epsilon": (None,),
    "privacy.colluders": (0.0,),
    "privacy.dropouts": (0.0,),
}
LEARNT = engine.MNIST | SETTING
IN_ANTENNAS = {
    "epsilon_printed": "(6) as printed",
    "epsilon_sensitivity": "(a) true sensitivity",
    "epsilon_gaussian": "(b) exact, one round",
    "epsilon": "(c) exact, all rounds",
    "epsilon_maximum": "(c) exact, all rounds, worst user",
    "epsilon_antennas": "(d) all antennas, one round",
}


def _mean(values: np.ndarray) -> Measure | None:
    return estimate(engine.first, values[None]) if len(values) else None


def _if_finite(statistic):
    """The statistic of a series of finite values; others are not measured."""
    return lambda series: statistic(series) if np.isfinite(series).all() else None


def _change_in_users(leakage: np.ndarray) -> Measure | None:
    """The largest change of the mean from one number of users to the next."""
    return worst(lambda means: np.diff(means, axis=0), leakage) if len(leakage) > 1 else None


def _change(many: np.ndarray, few: np.ndarray) -> Measure | None:
    values = engine.paired(many, few)
    return estimate(lambda means: engine.ratio(means) - 1, values) if np.isfinite(values).all() else None


def _delay(private: np.ndarray, bare: np.ndarray, rounds: int) -> Measure | None:
    """By how many rounds one series is later than another, on average; infinite: not within all rounds.

    Those count as one round more than all, which is too few: then the difference's end on that side is unknown.
    """
    values = engine.paired(private, bare)
    if not values.shape[1]:
        return None
    late, never = engine.estimate(engine.difference, np.minimum(values, rounds + 1)), np.isinf(values).any(axis=1)
    if never.any():
        late = late._replace(interval=f"{late.interval}; one-sided: some do not reach the level in {rounds} rounds")
    return late._replace(low=None if never[1] else late.low, high=None if never[0] else late.high)


def _deviation(ratios: np.ndarray) -> Measure:
    """The largest deviation of a mean ratio from 1."""
    return worst(lambda means: np.concatenate([means - 1, 1 - means]), ratios)


CLAIMS = (
    Claim(
        f"1. mean accuracy after {ROUND} rounds: 89% (88.5% or more)",
        Band(least=ACCURACY),
        "Fig. 1",
        "89% in less than 15 iterations",
        by(_mean, "accuracy"),
        LEARNT,
        engine.SHARE,
    ),
    Claim(
        "2. leakage (6) falls in K (largest change of the mean from one K to the next)",
        Band(below=0),
        "Fig. 2",
        measured=by(_if_finite(_change_in_users), "printed"),
        setting=SETTING,
    ),
    Claim(
        "2. leakage (6), mean over channels, against its closed form (largest relative deviation)",
        Band(most=MONTE_CARLO),
        BEYOND,
        measured=by(_if_finite(_deviation), "printed over closed form"),
        bounds=engine.POSITIVE,
    ),
    Claim(
        "4. Theorem 1: (6) is no less than the exact epsilon of the round (share of users and rounds)",
        Band(least=1),
        "Theorem 1",
        measured=by(engine.counted, "covered", "realizations"),
        setting=SETTING,
        bounds=engine.SHARE,
    ),
    *(
        Claim(f"{text} (factor)", Band(most=1), source, None, by(_if_finite(_mean), name), setting, engine.POSITIVE)
        for name, source, setting, text in (
            (
                "antennas over printed",
                BEYOND,
                None,
                "4. Theorem 1, if all antennas are observed: exact epsilon of a round over (6)",
            ),
            (
                "energy over limit",
                "the power constraint P",
                LEARNT,
                "5. transmit energy of a user in a round over its limit P = alpha^2",
            ),
        )
    ),
    Claim(
        "7. final accuracy at most one point below that without the users' noise (difference)",
        Band(least=-SIMILAR),
        ABSTRACT,
        WITHOUT_SACRIFICING,
        engine.by_means(engine.difference, (PRIVATE, "accuracy"), (BARE, "accuracy")),
        LEARNT,
        engine.OF_SHARES,
    ),
    Claim(
        "7. rounds to a level of accuracy: at most one more than without the users' noise (difference)",
        Band(most=LATER),
        f"{ABSTRACT}; the level is {LEVEL:g}",
        WITHOUT_SACRIFICING,
        by(_delay, "rounds, fixed", "rounds, none", "all rounds"),
        LEARNT,
    ),
)
MORE_ANTENNAS = tuple(  # from the scenario of fewest antennas to that of most
    Claim(
        f"3. leakage rises in M: {reading} (relative change)",
        Band(above=0),
        ("Fig. 2" if column == "epsilon_printed" else BEYOND) + "; K = {users}",
        measured=by(_change, (1, column), (0, column)),
        setting=SETTING if column == "epsilon_printed" else None,
        bounds=engine.CHANGE,
    )
    for column, reading in IN_ANTENNAS.items()
)

ONE_CHANNEL = (  # scenario 0 has one channel for the whole training, in scenario 1 it is redrawn
    Claim(
        "6. epsilon after all rounds, most exposed user: with one channel for the whole training a tenth above that "
        "with redrawn ones, or more (relative change)",
        Band(least=HIGHER),
        f"{BEYOND}; redrawn every {{rounds}} round(s)",
        measured=by(_change, (0, "epsilon"), (1, "epsilon")),
        bounds=engine.CHANGE,
    ),
    Claim(
        "6. final accuracy: with one channel for the whole training within a point of that with redrawn ones "
        "(difference)",
        Band(least=-SIMILAR, most=SIMILAR),
        f"{BEYOND}; redrawn every {{rounds}} round(s)",
        measured=engine.by_means(engine.difference, (0, "accuracy"), (1, "accuracy")),
        bounds=engine.OF_SHARES,
    ),
)


def claims(scenarios: dict[str, dict]) -> pl.DataFrame:
    """The claims as far as the scenarios let them be measured, with the readings that decide them.

    All claims are about schemes with noise. Those about M compare the scenarios of least and most antennas, among those
    that are equal in all else, at the largest number of users of both. Those about the channel compare scenarios that
    differ in `radio.coherence_rounds` alone. A training that diverged guesses.
    """
    ordered = sorted(scenarios, key=lambda name: _antennas(scenarios[name]))
    noisy = {name: scenarios[name] for name in ordered if _scheme(scenarios[name])}
    rows = []
    for name, content in noisy.items():
        rows += engine.measure(CLAIMS, {name: content["scenario"]}, _series(content))
    read = {name: each for name, each in noisy.items() if each["scenario"].privacy.observer == "update"}  # as (c) is
    return engine.table([*rows, *_more_antennas(read), *_one_channel(read)])


def _more_antennas(ordered: dict[str, dict]) -> Iterator[tuple]:
    """Rows of MORE_ANTENNAS, of scenarios by number of antennas."""
    for few, *_, many in (names for names in engine.comparable(ordered, "network.antennas") if len(names) > 1):
        tables = [_of_scheme(ordered[name], "leakage") for name in (few, many)]
        shared = set(tables[0]["users"]) & set(tables[1]["users"])
        if shared and _antennas(ordered[few]) != _antennas(ordered[many]):
            users = max(shared)
            series = {
                (k, column): to_array(leakage.filter(users=users), column, "realization")
                for k, leakage in enumerate(tables)
                for column in IN_ANTENNAS
            }
            pair = {name: ordered[name]["scenario"] for name in (many, few)}
            yield from engine.measure(MORE_ANTENNAS, pair, series, users=users)


def _one_channel(scenarios: dict[str, dict]) -> Iterator[tuple]:
    """Rows of ONE_CHANNEL, of scenarios whose noise is given: a target leaves no difference of epsilons."""
    given = {name: each for name, each in scenarios.items() if each["scenario"].privacy.target_epsilon is None}
    for names in engine.comparable(given, "radio.coherence_rounds"):
        coherence = {name: given[name]["scenario"].radio.coherence_rounds for name in names}
        kept = [name for name in names if coherence[name] is None]
        for pair in product(kept, (name for name in names if name not in kept)):
            series = {(k, key): values for k, name in enumerate(pair) for key, values in _ends(given[name]).items()}
            of = {name: given[name]["scenario"] for name in pair}
            yield from engine.measure(ONE_CHANNEL, of, series, rounds=coherence[pair[1]])


def _series(content: dict) -> dict:
    """What the claims about one scenario are measured from; `printed` and its ratio by number of users."""
    classes = datasets.size(content["scenario"].data).classes
    each, leakage, history = (_of_scheme(content, name) for name in ("realizations", "leakage", "history"))
    printed, closed_form = (
        to_array(leakage, column, "users", "realization") for column in ("epsilon_printed", "epsilon_closed_form")
    )
    own = leakage.filter(users=each["users"][0])
    finite = np.isfinite(printed).all()  # without any noise it is infinite
    return {
        "accuracy": engine.accuracies(history.filter(round=ROUND).rename({"status": "training"}), classes),
        "printed": printed,
        "printed over closed form": printed / closed_form if finite else None,
        "covered": 1 - each["understated"].mean(),
        "realizations": len(each),
        "antennas over printed": (own["epsilon_antennas"] / own["epsilon_printed"]).to_numpy(),
        "energy over limit": (each["transmit_energy"] / each["transmit_energy_limit"]).drop_nulls().to_numpy(),
        "all rounds": content["scenario"].training.rounds,
    } | _learnt(content)


def _learnt(content: dict) -> dict:
    """Of each scheme, final accuracies, and in which round each realization first has LEVEL of it."""
    scenario, history = content["scenario"], content["history"]
    series = engine.by_scheme(scenario, content["realizations"], ("accuracy",))
    for scheme in scenario.schemes:
        own = history.filter(scheme=scheme.name)
        series[f"rounds, {scheme.noise}"] = rounds_to(own, LEVEL)
    return series


def rounds_to(history: pl.DataFrame, level: float) -> np.ndarray:
    """The first round in which each training run's test accuracy is `level` or more, shape (realization,).

    `history` is a scheme's; infinite of a run that has it in no round, or that diverged.
    """
    sound = (pl.col("accuracy") >= level) & (pl.col("status").cast(pl.String) == "trained")
    first = history.group_by("realization").agg(pl.col("round").filter(sound).min()).sort("realization")
    return first["round"].cast(pl.Float64).fill_null(np.inf).to_numpy()


def _ends(content: dict) -> dict[str, np.ndarray]:
    """What each realization comes to: the most exposed user's epsilon after all rounds, and the final accuracy."""
    each, classes = _of_scheme(content, "realizations"), datasets.size(content["scenario"].data).classes
    return {"epsilon": each["epsilon"].to_numpy(), "accuracy": engine.accuracies(each, classes)}


def _antennas(content: dict) -> int:
    return content["scenario"].network.antennas


def _scheme(content: dict) -> str | None:
    """The name of the scheme in which users, all of whom send as the statements have it, add noise."""
    schemes = content["scenario"].schemes
    return next((s.name for s in schemes if (s.scheduler, s.noise) == PRIVATE), None)


def _of_scheme(content: dict, table: str) -> pl.DataFrame:
    return content[table].filter(scheme=_scheme(content))
