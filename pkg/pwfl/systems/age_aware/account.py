"""Accounting of the system `age_aware`: (1), Theorem 1 and (2a) of Lin et al."""

import numpy as np
import polars as pl

from pwfl.systems.age_aware import age, loss_difference
from pwfl.systems.age_aware.parameters import AgeAware
from pwfl.systems.age_aware.tables import FORMULAS
from pwfl.tables.arrays import joined, to_array
from pwfl.tables.contract import ASSUMED, EXACT, NO_PRIVACY

TERMS = {
    "unit": "one training record of one client",
    "neighbouring_relation": "replace-one",
    "sampling": "none: every client uploads once, from all its records",
    "observer": "sees every client's noisy model, knows all chains and all other records as collected, asks about a "
    "record at T",
    "guarantee": "guaranteed whatever the data, of a record as collected: epsilon_classical, which is epsilon_server, "
    "and epsilon_user_classical of all of a client's. epsilon and epsilon_user, of data as they are at T, assume "
    "that each record is a Markov chain of its own, of the known start law and transition matrix",
    "guaranteed": True,
    "link_budget": "none: no radio model",
    "rounds": 1,
    "delta": 0.0,
    "local_steps": 0.0,
    "accuracy_of": "none: a mean is learned, no classifier",
    "taken_as_public": "chains, start laws and states of the data, numbers of records, and all constants of the config",
}
TOLERANCE = 1e-9  # by which a target may be missed, relative
EPSILONS = {"amplified": "total_variation", "bound": "total_variation_bound", "unsafe": "spectral_decay"}
KEYS = ("realization", "case")


def run(scenario: AgeAware, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Each client's guarantee (`leakage`), and each case's with its noise, loss difference and bounds (`outcome`).

    The chains' reverse kernels are computed anew from `users`. A case's guarantee is its worst client's.
    Each client adds Laplace noise once, so delta is 0 and epsilon_C is exact. All records of a client move its mean by
    the range of the states, n_k times as far as one: epsilon_C of them is n_k times a record's. At T it is at most n_k
    times a record's, too, as records are independent: each replaced in turn, the others averaged over.
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
    exact = age.exact_epsilons(frame, tables["users"], scenario.schedule.horizon)
    frame = joined(frame, exact, "chain", "collection_time", "classical_epsilon")
    classical = frame["classical_epsilon"].to_numpy()
    leakage = frame.select(*KEYS, "user", "target_epsilon", "collection_time", "age", "epsilon").with_columns(
        epsilon_classical=classical,
        **{f"epsilon_{name}": age.age_epsilon(classical, frame[of].to_numpy()) for name, of in EPSILONS.items()},
    )
    leakage = leakage.with_columns(pl.min_horizontal("epsilon", "epsilon_amplified")).with_columns(
        epsilon_user=frame["samples"] * pl.col("epsilon"),
        epsilon_user_classical=frame["samples"] * pl.col("epsilon_classical"),
    )
    outcome = leakage.group_by(KEYS, maintain_order=True).agg(
        pl.col("target_epsilon").first(),
        pl.col("epsilon", "epsilon_user", "epsilon_user_classical", *FORMULAS).max(),
        epsilon_server=pl.col("epsilon_classical").max(),
        # Without noise both are infinite.
        epsilon_understated=(pl.col("epsilon_amplified") / pl.col("epsilon_unsafe")).fill_nan(1.0).max(),
        channel_uses=pl.len().cast(pl.Float64),
    )
    none = not tables["noise"]["noise_scale_wh"].to_numpy().any()
    terms = TERMS | ({"guaranteed": False, "guarantee": NO_PRIVACY} if none else {})
    kind = EXACT if none else ASSUMED
    samples = tables["users"].group_by("realization").agg(pl.col("samples").sum())
    outcome = outcome.pipe(joined, samples, "realization").pipe(joined, losses(frame), *KEYS)
    outcome = outcome.with_columns(
        target_met=pl.col("epsilon_amplified") <= pl.col("target_epsilon") * (1 + TOLERANCE),
        air_seconds=pl.lit(None, pl.Float64),
        transmit_energy_j=pl.lit(None, pl.Float64),
        epsilon_is=pl.lit(kind),
        epsilon_user_is=pl.lit(kind),
        **{name: pl.lit(term) for name, term in terms.items()},
    )
    return {"leakage": leakage, "outcome": outcome}


def losses(frame: pl.DataFrame) -> pl.DataFrame:
    """Noise power, expected loss difference and its two bounds of each realization and case, squares of Wh.

    `frame` has a row for each of their users: its schedule, noise, samples, and profile at its collection time and T.
    """

    def array(name: str) -> np.ndarray:
        return to_array(frame, name, *KEYS, "user")

    samples, variance, final_variance = array("samples"), array("variance_wh2"), array("final_variance_wh2")
    share, value_range = samples / samples.sum(axis=-1, keepdims=True), samples * array("sensitivity_wh")
    told = array("information_nats"), array("divergence_nats")
    power = loss_difference.noise_power(share, array("noise_scale_wh"))
    excess = loss_difference.sampling_excess(share, samples, variance, final_variance)
    bias = share * (array("mean_wh") - array("final_mean_wh"))
    paired = loss_difference.paired_penalty(share, value_range, *told)
    separate = loss_difference.separate_penalty(share, value_range, *told)
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
