"""The paper's claims about the system `random_orthogonalization`, measured on the scenarios of a study."""

import numpy as np
import polars as pl

from pwfl.learning import datasets
from pwfl.report import claims as common
from pwfl.report.claims import Band, Claim, ratio
from pwfl.tables.arrays import to_array

ROUND, ACCURACY = 14, 0.885  # "89% in less than 15 communication rounds"
MONTE_CARLO = 0.01  # relative; (6)'s mean over channels against its closed form
BEYOND = "not in the paper"
IN_ANTENNAS = {
    "epsilon_printed": "(6) as printed",
    "epsilon_sensitivity": "(a) true sensitivity",
    "epsilon_gaussian": "(b) exact, one round",
    "epsilon_exact": "(c) exact, all rounds",
    "epsilon_exact_maximum": "(c) exact, all rounds, worst user",
    "epsilon_antennas": "(d) all antennas, one round",
}


def claims(scenarios: dict[str, dict]) -> pl.DataFrame:
    """The claims as far as the scenarios let them be measured, with the readings that decide them.

    `scenarios` maps a name to `scenario` (all that any stage reads) and the report's tables. All claims are about
    schemes with noise. Those about M compare the scenarios of least and most antennas, among those that are equal in
    all else, at the largest number of users of both. A training that diverged guesses.
    """
    noisy = {name: content for name, content in scenarios.items() if _scheme(content)}
    ordered = sorted(noisy, key=lambda name: noisy[name]["scenario"].network.antennas)
    rows = []
    for name in ordered:
        for claim, measure in _of_one(noisy[name]):
            rows.append(common.row(claim, name, measure))
    for names in common.alike({name: noisy[name] for name in ordered}, "network.antennas"):
        few, many = names[0], names[-1]
        for claim, measure in _in_antennas(noisy[few], noisy[many]):
            rows.append(common.row(claim, f"{many} against {few}", measure))
    return common.table(rows)


def _of_one(content: dict):
    """Claims about one scenario, and their measures."""
    classes = datasets.SIZES[content["scenario"].data.dataset].classes
    at_round = _of_scheme(content, "history").filter(round=ROUND).rename({"status": "training"})
    accuracy = common.accuracies(at_round, classes)
    if len(accuracy):
        yield (
            Claim(
                f"1. mean accuracy after {ROUND} rounds: 89% (88.5% or more)",
                Band(least=ACCURACY),
                "Fig. 1",
                "89% in less than 15 iterations",
            ),
            common.estimate(_first, accuracy[None]),
        )
    printed, formula = (_by_users(content, column) for column in ("epsilon_printed", "epsilon_closed_form"))
    if np.isfinite(printed).all():  # without any noise it is infinite
        if len(printed) > 1:
            yield (
                Claim(
                    "2. leakage (6) falls in K (largest change of the mean from one K to the next)",
                    Band(below=0),
                    "Fig. 2",
                ),
                common.worst(lambda means: np.diff(means, axis=0), printed),
            )
        yield (
            Claim(
                "2. leakage (6), mean over channels, against its closed form (largest relative deviation)",
                Band(most=MONTE_CARLO),
                BEYOND,
            ),
            common.worst(lambda means: np.concatenate([means - 1, 1 - means]), printed / formula),
        )
    each = _of_scheme(content, "realizations")
    yield (
        Claim(
            "4. Theorem 1: (6) is no less than the exact epsilon of the round (share of users and rounds)",
            Band(least=1),
            "Theorem 1",
        ),
        common.counted(1 - each["understated"].mean(), len(each)),
    )
    own = _of_scheme(content, "leakage").filter(users=each["users"][0])
    yield from _finite_mean(
        Claim(
            "4. Theorem 1, if all antennas are observed: exact epsilon of a round over (6) (factor)",
            Band(most=1),
            BEYOND,
        ),
        (own["epsilon_antennas"] / own["epsilon_printed"]).to_numpy(),
    )
    yield from _finite_mean(
        Claim(
            "5. transmit energy of a user in a round over its limit P = alpha^2 (factor)",
            Band(most=1),
            "the power constraint P",
        ),
        (each["transmit_energy"] / each["transmit_energy_limit"]).drop_nulls().to_numpy(),
    )


def _in_antennas(few: dict, many: dict):
    """How leakage changes from few antennas to many, in each reading."""
    shared = set(_of_scheme(few, "leakage")["users"]) & set(_of_scheme(many, "leakage")["users"])
    if _antennas(few) == _antennas(many) or not shared:
        return
    users = max(shared)
    for column, reading in IN_ANTENNAS.items():
        pair = [
            to_array(_of_scheme(content, "leakage").filter(users=users), column, "realization")
            for content in (many, few)
        ]
        values = common.paired(*pair)
        if np.isfinite(values).all():
            yield (
                Claim(
                    f"3. leakage rises in M, at K = {users}: {reading} (relative change)",
                    Band(above=0),
                    "Fig. 2" if column == "epsilon_printed" else BEYOND,
                ),
                common.estimate(lambda means: ratio(means) - 1, values),
            )


def _finite_mean(claim: Claim, values: np.ndarray):
    if len(values) and np.isfinite(values).all():
        yield claim, common.estimate(_first, values[None])


def _first(means: np.ndarray) -> np.ndarray:
    return means[0]


def _antennas(content: dict) -> int:
    return content["scenario"].network.antennas


def _scheme(content: dict) -> str | None:
    """The name of the scheme in which users add noise."""
    return next((s.name for s in content["scenario"].schemes if s.noise == "fixed"), None)


def _of_scheme(content: dict, table: str) -> pl.DataFrame:
    return content[table].filter(scheme=_scheme(content))


def _by_users(content: dict, column: str) -> np.ndarray:
    """A column of the table `leakage`, shape (number of users, realization)."""
    return to_array(_of_scheme(content, "leakage"), column, "users", "realization")
