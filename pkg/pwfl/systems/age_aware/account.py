"""Privacy accounting and expected losses of the system `age_aware`: (1), Theorem 1 and (2a) of Lin et al."""

from typing import NamedTuple

import numpy as np
import polars as pl

from pwfl.airs import air
from pwfl.airs.air import Observer
from pwfl.privacy import accountant
from pwfl.privacy.accountant import FALSE_POSITIVES, RECORD, USER, Account, Claim
from pwfl.privacy.labels import MARKOV, Kind, labeled
from pwfl.systems.age_aware import age, loss_difference
from pwfl.systems.age_aware.parameters import AgeAware
from pwfl.systems.age_aware.tables import FORMULAS
from pwfl.tables.arrays import joined, to_array

TERMS = {
    "unit": "one training record of one client",
    "neighbouring_relation": accountant.REPLACE_ONE,
    "energy_scope": "none: no radio model",
    "rounds": 1,
    "delta": 0.0,
    "local_steps": 0.0,
    "evaluated_model": "none: a mean is learned, no classifier",
    "taken_as_public": "chains, start laws and states of the data, numbers of records, and all constants of the config",
}
TOLERANCE = 1e-9  # relative excess over a target that still counts as met
EPSILONS = {"amplified": "total_variation", "bound": "total_variation_bound", "unsafe": "spectral_decay"}
KEYS = ("realization", "case")
# Observers of all uploads, who infer a record's state at T, or its state when it was collected.
NOW, COLLECTED = "record at T", "record as collected"
OBSERVED_BY = {
    NOW: Observer(
        "every client's noisy model; knows all chains and all other records as collected; asks about a record at T",
        COLLECTED,
        assumes=(MARKOV,),
    ),
    COLLECTED: Observer("every client's noisy model; asks about a record as it was collected", COLLECTED),
}


class Laplace(NamedTuple):
    """One upload with Laplace noise, so delta is 0; nothing but epsilon is known of it."""

    sampling: str = "none: every client uploads once, from all its records"

    def attack_rate(self, account: Account, worst: np.ndarray) -> np.ndarray:
        """Compute the bound min(exp(epsilon) a, 1 - exp(-epsilon) (1 - a)), where a is the false-positive rate."""
        epsilon, rate = account.epsilon[np.arange(len(worst)), worst], FALSE_POSITIVES
        with np.errstate(over="ignore"):
            return np.minimum(np.exp(epsilon) * rate, 1 - np.exp(-epsilon) * (1 - rate))


def run(scenario: AgeAware, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Compute each client's privacy loss, and each case's guarantee, noise, loss difference and bounds.

    Returns the tables `leakage` (by client), `outcome` (by case), `guarantees` and `observers`. A case's guarantee is
    that of its most exposed client. Reverse kernels of the chains are recomputed from `users`. Each client adds Laplace
    noise once, so delta is 0.
    """
    chains = age.profiles(tables["users"], scenario.schedule.horizon)
    final = {"final_mean_wh": "mean_wh", "final_variance_wh2": "variance_wh2"}
    frame = (
        tables["schedule"]
        .pipe(joined, tables["noise"], *KEYS, "user")
        .pipe(joined, tables["users"], "realization", "user")
        .pipe(joined, chains, "chain", "collection_time")
        .pipe(joined, chains.filter(pl.col("age") == 0).select("chain", **final), "chain")
    )
    exact, kind = labeled(age.exact_epsilons, frame, tables["users"], scenario.schedule.horizon)
    frame = joined(frame, exact, "chain", "collection_time", "classical_epsilon")
    classical = frame["classical_epsilon"].to_numpy()
    leakage = frame.select(*KEYS, "user", "target_epsilon", "collection_time", "age", "epsilon").with_columns(
        epsilon_classical=classical,
        **{
            f"epsilon_{name}": age.age_epsilon(classical, frame[column].to_numpy()) for name, column in EPSILONS.items()
        },
    )
    leakage = leakage.with_columns(pl.min_horizontal("epsilon", "epsilon_amplified"))
    of_user, user_kind = labeled(age.epsilon_in_turn, pl.col("epsilon"), frame["samples"])
    together, together_kind = labeled(age.epsilon_together, pl.col("epsilon_classical"), frame["samples"])
    leakage = leakage.with_columns(epsilon_user=of_user, epsilon_user_classical=together)
    classical_kind = age.laplace_scale.kind
    kinds = {"epsilon": kind, "epsilon_user": kind | user_kind}
    kinds |= {"epsilon_classical": classical_kind, "epsilon_user_classical": classical_kind | together_kind}
    outcome = leakage.group_by(KEYS, maintain_order=True).agg(
        pl.col("target_epsilon").first(),
        pl.col("epsilon_user_classical", *FORMULAS).max(),
        # Without noise, both are infinite.
        epsilon_understated=(pl.col("epsilon_amplified") / pl.col("epsilon_unsafe")).fill_nan(1.0).max(),
        channel_uses=pl.len().cast(pl.Float64),
    )
    samples = tables["users"].group_by("realization").agg(pl.col("samples").sum())
    observers = air.table(OBSERVED_BY, outcome["realization"].unique(maintain_order=True))
    guarantees = guaranteed(leakage, observers, kinds)
    stated = accountant.stated(guarantees, observers, NOW, keys=KEYS).drop("rho_server")
    outcome = (
        outcome.pipe(joined, samples, "realization").pipe(joined, losses(frame), *KEYS).pipe(joined, stated, *KEYS)
    )
    outcome = outcome.with_columns(
        target_met=pl.col("epsilon_amplified") <= pl.col("target_epsilon") * (1 + TOLERANCE),
        air_seconds=pl.lit(None, pl.Float64),
        transmit_energy_j=pl.lit(None, pl.Float64),
        **{name: pl.lit(term) for name, term in TERMS.items()},
    )
    return {"leakage": leakage, "outcome": outcome, "guarantees": guarantees, "observers": observers}


def guaranteed(leakage: pl.DataFrame, observers: pl.DataFrame, kinds: dict[str, Kind]) -> pl.DataFrame:
    """Make the table `guarantees` by realization and case; `kinds` are the kinds of the epsilon columns."""
    cases, accounts = leakage.select(KEYS).unique().sort(KEYS), {}
    for observer, unit, column in (
        *((NOW, RECORD, "epsilon"), (NOW, USER, "epsilon_user")),
        *((COLLECTED, RECORD, "epsilon_classical"), (COLLECTED, USER, "epsilon_user_classical")),
    ):
        epsilon = to_array(leakage, column, *KEYS, "user").reshape(len(cases), -1)
        kind = np.where(np.isinf(epsilon), Kind.EXACT, kinds[column])
        claim, unknown = Claim(observer, unit), np.full(epsilon.shape, np.nan)
        view = cases.join(accountant.view_of(observers, observer), on="realization", maintain_order="left")
        accounts[claim.key] = Account(claim, 0.0, view, np.full(epsilon.shape, True), unknown, epsilon, kind)
    table = accountant.guarantees(accounts, Laplace())
    return table.with_columns(case=pl.concat([cases["case"]] * len(accounts)))


def losses(frame: pl.DataFrame) -> pl.DataFrame:
    """Compute noise power, expected loss difference and its two bounds by realization and case, in Wh^2.

    `frame` has one row per realization, case and client: schedule, noise, samples, and the profiles at collection time
    and T.
    """

    def array(name: str) -> np.ndarray:
        return to_array(frame, name, *KEYS, "user")

    samples, variance, final_variance = array("samples"), array("variance_wh2"), array("final_variance_wh2")
    share, value_range = samples / samples.sum(axis=-1, keepdims=True), samples * array("sensitivity_wh")
    information = array("information_nats"), array("divergence_nats")
    power = loss_difference.noise_power(share, array("noise_scale_wh"))
    excess = loss_difference.sampling_excess(share, samples, variance, final_variance)
    bias = share * (array("mean_wh") - array("final_mean_wh"))
    paired = loss_difference.paired_penalty(share, value_range, *information)
    separate = loss_difference.separate_penalty(share, value_range, *information)
    offset = loss_difference.paired_offset(share, samples, final_variance)
    return (
        frame.select(KEYS)
        .unique()
        .sort(KEYS)
        .with_columns(
            noise_power_wh2=power.sum(axis=-1).ravel(),
            expected_loss_difference_wh2=loss_difference.expected(bias, excess, power).ravel(),
            paired_bound_wh2=(paired + power - offset).sum(axis=-1).ravel(),
            separate_bound_wh2=(separate + power).sum(axis=-1).ravel(),
        )
    )
