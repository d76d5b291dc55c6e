"""The paper's claims about the system `random_orthogonalization`, measured on the scenarios of a study."""

import numpy as np
import polars as pl

from pwfl.report.claims import SCHEMA, bootstrap

ROUND, ACCURACY = 14, 0.885  # "89% in less than 15 communication rounds"
MONTE_CARLO = 0.01  # relative; (6)'s mean over channels against its closed form
IN_ANTENNAS = {
    "epsilon_printed": "(6) as printed",
    "epsilon_sensitivity": "(a) true sensitivity",
    "epsilon_gaussian": "(b) exact, one round",
    "epsilon_exact": "(c) exact, all rounds",
    "epsilon_exact_maximum": "(c) exact, all rounds, worst user",
    "epsilon_antennas": "(d) all antennas, one round",
}


def claims(scenarios: dict[str, dict]) -> pl.DataFrame:
    """Claims 1-4 as far as the scenarios let them be measured, with the readings that decide them.

    `scenarios` maps a name to `parameters` (the report's) and the report's tables. All claims are
    about schemes with noise. Those about M compare the scenarios of least and most antennas at the
    largest number of users of both. Intervals are percentiles of a bootstrap over realizations.
    """
    rows = []

    def add(claim, where, values, statistic, required, holds):
        """`values` has shape (series, realization); `statistic` leaves out both axes."""
        values = np.atleast_2d(values)
        values = values[:, np.isfinite(values).all(axis=0)]
        if values.shape[1]:
            measured, *interval = bootstrap(statistic, values)
            rows.append((claim, where, measured, *interval, required, bool(holds(measured)), values.shape[1]))

    noisy = {name: content for name, content in scenarios.items() if _scheme(content)}
    ordered = sorted(noisy, key=lambda name: noisy[name]["parameters"]["network"]["antennas"])
    for name in ordered:
        content = noisy[name]
        history = _of_scheme(content, "history").filter(pl.col("status").cast(pl.String) == "trained")
        accuracy = history.filter(round=ROUND)["accuracy"].to_numpy()
        add(f"1. mean accuracy after {ROUND} rounds: 89% (88.5% or more)", name,
            accuracy, _mean, f">= {ACCURACY}", lambda m: m >= ACCURACY)  # fmt: skip
        printed, formula = (_by_users(content, column) for column in ("epsilon_printed", "epsilon_closed_form"))
        if len(printed) > 1:
            add("2. leakage (6) falls in K (largest change of the mean from one K to the next)", name,
                printed, lambda v: np.diff(v.mean(-1), axis=0).max(0), "< 0", lambda m: m < 0)  # fmt: skip
        with np.errstate(invalid="ignore"):  # without noise both are infinite
            ratio = printed / formula
        add("2. leakage (6), mean over channels, against its closed form (largest relative deviation)", name,
            ratio, lambda v: np.abs(v.mean(-1) - 1).max(0), f"<= {MONTE_CARLO}",
            lambda m: m <= MONTE_CARLO)  # fmt: skip
        each = _of_scheme(content, "realizations")
        add("4. Theorem 1: (6) is no less than the exact epsilon of the round (share of users and rounds)", name,
            1 - each["understated"].to_numpy(), _mean, "= 1", lambda m: m == 1)  # fmt: skip
        own = _of_scheme(content, "leakage").filter(users=each["users"][0])
        add("4. Theorem 1, if all antennas are observed: exact epsilon of a round over (6) (factor)", name,
            (own["epsilon_antennas"] / own["epsilon_printed"]).to_numpy(), _mean, "<= 1", lambda m: m <= 1)  # fmt: skip
        add("5. transmit energy of a user in a round over its limit P = alpha^2 (factor)", name,
            (each["transmit_energy"] / each["transmit_energy_limit"]).drop_nulls().to_numpy(), _mean, "<= 1",
            lambda m: m <= 1)  # fmt: skip
    if ordered and _antennas(noisy[ordered[0]]) < _antennas(noisy[ordered[-1]]):
        few, many = noisy[ordered[0]], noisy[ordered[-1]]
        shared = set(_of_scheme(few, "leakage")["users"]) & set(_of_scheme(many, "leakage")["users"])
        for column, reading in IN_ANTENNAS.items() if shared else ():
            pair = [
                _of_scheme(content, "leakage").filter(users=max(shared)).sort("realization")[column].to_numpy()
                for content in (many, few)
            ]
            values = np.stack([v[: min(map(len, pair))] for v in pair])
            add(f"3. leakage rises in M, at K = {max(shared)}: {reading} (relative change)",
                f"{ordered[-1]} against {ordered[0]}", values, lambda v: v[0].mean(-1) / v[1].mean(-1) - 1, "> 0",
                lambda m: m > 0)  # fmt: skip
    return pl.DataFrame(rows, schema=SCHEMA, orient="row").sort("claim", maintain_order=True)


def _mean(values: np.ndarray) -> np.ndarray:
    return values[0].mean(-1)


def _antennas(content: dict) -> int:
    return content["parameters"]["network"]["antennas"]


def _scheme(content: dict) -> str | None:
    """The name of the scheme in which users add noise."""
    return next((s["name"] for s in content["parameters"]["schemes"] if s["noise"] == "fixed"), None)


def _of_scheme(content: dict, table: str) -> pl.DataFrame:
    return content[table].filter(scheme=_scheme(content))


def _by_users(content: dict, column: str) -> np.ndarray:
    """A column of the table `leakage`, shape (number of users, realization)."""
    frame = _of_scheme(content, "leakage").sort("users", "realization")
    return frame[column].to_numpy().reshape(frame["users"].n_unique(), -1)
