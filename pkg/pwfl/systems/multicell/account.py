"""Accounting of the system `multicell`: (11), (19), (20), (21) and Theorem 1 of Tavangaran et al."""

from collections.abc import Iterator
from math import isclose, log
from typing import NamedTuple

import numpy as np
import polars as pl

from pwfl.airs import linear
from pwfl.learning import datasets, features
from pwfl.privacy import accountant
from pwfl.privacy.accountant import ALL, RECORD, USER, USERS, Account, Claim, Mechanism
from pwfl.privacy.gaussian import classic_epsilon, tight_epsilon
from pwfl.process import user_code
from pwfl.systems.multicell import objective
from pwfl.systems.multicell.assigned import KEYS, assigned
from pwfl.systems.multicell.beyond import integers
from pwfl.systems.multicell.beyond.bound import least_proven, upper_bound
from pwfl.systems.multicell.beyond.intervals import planned
from pwfl.systems.multicell.beyond.mechanism import mechanism
from pwfl.systems.multicell.beyond.on_air import is_digital
from pwfl.systems.multicell.beyond.problem import ChosenNoise, GivenNoise
from pwfl.systems.multicell.bounds import noise_scale
from pwfl.systems.multicell.interference import Uplink
from pwfl.systems.multicell.parameters import Multicell, Training
from pwfl.systems.multicell.recipes import RECIPES
from pwfl.systems.multicell.schemes import NOISES
from pwfl.systems.multicell.sending import ENFORCED, moves, sums_records
from pwfl.tables.arrays import joined, to_array
from pwfl.tables.contract import ALWAYS_PUBLIC
from pwfl.training.models import is_softmax, network, parameter_count

TERMS = {
    "unit": "one training record of one user",
    "evaluated_model": "the server's global model",
    "taken_as_public": f"{ALWAYS_PUBLIC}; schedule, noise and the server's weights follow numbers of records",
}
ENERGY_SCOPES = {
    "digital": "radiated at the scheduler's powers, in cells that interfere, over the paper's path loss",
    "on air": "radiated on air, in cells that interfere, by messages of the largest norm and their noise",
}
ERROR_TOLERANCE = 1e-9  # relative excess over (21) that counts as rounding


class Constants(NamedTuple):
    """The constants of Theorem 1, which are assumed; `premise` describes which premises of the theorem hold."""

    xi1: float  # of Assumption 6, as is xi2
    xi2: float = 1.0
    smoothness: float = 20.0  # Lipschitz constant of the global loss's gradient (Assumption 3); 1 / Table I's step size
    strong_convexity: float = 1.0  # mu of the global loss (Assumption 4)


def run(scenario: Multicell, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Make the tables `leakage` of users, `outcome` of realizations, and `guarantees`.

    `tables` contains `users`, `links`, `schedule`, `start_values`, `noise`, `noise_status`, `reception_noise`,
    `visibility` and `observers`.
    """
    frame, training, privacy = assigned(tables), scenario.training, scenario.privacy
    seen = tables["visibility"].filter(observer=privacy.observer).select(*KEYS, "visibility")
    unit = pl.col("samples") if sums_records(training) else pl.lit(1)
    expected = 1 / (unit * pl.col("visibility") * (scenario.data.sampling or 1))
    frame = frame.join(seen, on=KEYS, how="left", maintain_order="left").with_columns(
        hiding_std=pl.when("scheduled").then(expected).otherwise(0.0)
    )
    observers, rounds = tables["observers"], mechanism(scenario, frame)
    asked = claims(scenario, observers, to_array(tables["users"], "samples", "realization", "user"))
    accounts = accountant.accounts(tables, asked, rounds, privacy.delta)
    guarantees = accountant.guarantees(accounts, rounds)
    leakage = leakages(scenario, accounts, rounds, frame)
    parts = (
        *(participation(frame), selection(frame, tables), objectives(scenario, tables, frame)),
        *(convergence(scenario, frame), linear.spent(tables), totals(leakage)),
        accountant.stated(guarantees, observers, privacy.observer),
    )
    terms = TERMS | {
        "energy_scope": ENERGY_SCOPES["digital" if is_digital(scenario) else "on air"],
        "local_steps": float(training.local_steps) if training.learner == "local_steps" else 1.0,
        "delta": privacy.delta,
        "rounds": training.rounds,
    }
    users = leakage.drop("epsilon_worst_case", "rho_server", "order_server")  # these are in `outcome` only
    return {"leakage": users, "outcome": linear.outcome(parts, terms), "guarantees": guarantees}


def claims(scenario: Multicell, observers: pl.DataFrame, samples: np.ndarray) -> Iterator[Claim]:
    """Yield the claims: a record against each observer, and all of a user's records against the declared observer.

    On air, also a record against the declared observer if the receivers' noise counts as well.
    """
    moved = moves(scenario, samples)
    declared = scenario.privacy.observer
    for observer in observers["observer"].unique().sort():
        for unit in (RECORD, ENFORCED):
            if unit in moved:
                yield moved[unit]._replace(observer=observer)
        if observer == declared:
            yield moved[USER]._replace(observer=observer)
            if not is_digital(scenario):
                yield moved[RECORD]._replace(observer=observer, noise=ALL)


def leakages(scenario: Multicell, costs: dict[tuple, Account], rounds: Mechanism, frame: pl.DataFrame) -> pl.DataFrame:
    """Compute the leakage (11) of each user who ever sends, and its epsilons; `frame` is as from `assigned`.

    A user leaks in the rounds in which it sends, and rho (zCDP) adds up over them. `costs` are the accounts by claim.
    `rho_own_noise` is rho if only the user's noise hides its records. `rho_worst_case`, only with `per_user` clipping,
    is the leakage if one record can reverse the clipped mean. `rho_server` is the rho for the composition of releases;
    with integers, it holds only up to the order `order_server`.
    """
    observer, delta = scenario.privacy.observer, scenario.privacy.delta
    account = costs[observer, RECORD, USERS]
    rho, epsilon, none = account.rho, account.epsilon, np.full(account.rho.shape, np.nan)
    enforced = costs.get((observer, ENFORCED, USERS))
    tight, classic = tight_epsilon(rho, delta), classic_epsilon(rho, delta)
    columns = {
        "rho": rho,
        "mu": np.sqrt(2 * rho),
        "rho_worst_case": enforced.rho if enforced else none,
        "epsilon_worst_case": enforced.epsilon if enforced else none,
        "rho_own_noise": costs["user", RECORD, USERS].rho,
        "rho_server": (enforced or account).rho,
        "order_server": none,
        "epsilon": epsilon,
        "epsilon_user": costs[observer, USER, USERS].epsilon,
        "epsilon_tight": tight,
        "epsilon_classic": classic,
        "epsilon_dithers_known": none,
    }
    if isinstance(rounds, integers.Integers):
        known, _ = rounds.epsilon(account.claim, delta, dithers_known=True)
        sums, order = integers.concentrated(scenario, frame)
        columns |= {name: np.fmax(columns[name], epsilon) for name in ("epsilon_tight", "epsilon_classic")}
        columns |= {"epsilon_dithers_known": known, "rho_server": np.fmax(columns["rho_server"], sums)}
        columns |= {"order_server": order}
    keys = frame.select("realization", "user").unique(maintain_order=True).filter(pl.Series(account.there.ravel()))
    return keys.with_columns(**{name: pl.Series(v[account.there], nan_to_null=True) for name, v in columns.items()})


def totals(leakage: pl.DataFrame) -> pl.DataFrame:
    """Compute each realization's sum, maximum and median of rho, and the worst value of the other columns."""
    rest = [name for name in leakage.columns if name not in ("realization", "user", "rho", "mu", "order_server")]
    return leakage.group_by("realization", maintain_order=True).agg(
        rho_total=pl.col("rho").sum(),
        rho_worst_user=pl.col("rho").max(),
        rho_median=pl.col("rho").median(),
        **{name: pl.col(name).max() for name in rest},
        order_server=pl.col("order_server").min(),
    )


def convergence(scenario: Multicell, frame: pl.DataFrame) -> pl.DataFrame:
    """Compute Theorem 1's constants and bound for each realization, also in words; `frame` is as from `assigned`."""
    training = scenario.training
    constants = Constants(xi1=training.clip_norm**2)  # with which Assumption 6 holds
    columns = (to_array(frame, name, *KEYS) for name in ("samples", "scheduled", "noise_std"))
    bound = convergence_bound(*columns, parameter_count(network(training, features.size(scenario))), constants)
    columns = {name: pl.Series(values, nan_to_null=True) for name, values in bound.items()}
    guess = log(datasets.size(scenario.data).classes)  # loss of equal class probabilities, without learning
    words = (
        pl.when(pl.col("c3").is_null())
        .then(pl.lit("undefined: nobody is scheduled, or no noise is feasible"))
        .when(pl.col("c1") >= 1)
        .then(pl.lit("vacuous: C1 >= 1, it grows from round to round"))
        .when(pl.col("bound_limit") >= guess)
        .then(pl.lit(f"vacuous: it tends to {guess:.3g} nats or more, the loss of a guess"))
        .otherwise(pl.lit(f"tends to less than {guess:.3g} nats, the loss of a guess, if its premises hold"))
    )
    frame = pl.DataFrame({"realization": frame["realization"].unique().sort()} | columns)
    return frame.with_columns(bound=words, bound_premise=pl.lit(premise(training, constants.smoothness)))


def participation(frame: pl.DataFrame) -> pl.DataFrame:
    """Count users who ever send, users per round, and samples of each realization; `frame` is as from `assigned`."""
    weighted = pl.col("samples") * pl.col("scheduled")
    users = frame.group_by("realization", "user", maintain_order=True).agg(
        pl.col("samples").first(), pl.col("scheduled").any(), rounds=pl.col("scheduled").mean()
    )
    return users.group_by("realization", maintain_order=True).agg(
        scheduled=pl.col("scheduled").sum(),
        scheduled_samples=weighted.sum(),
        senders=pl.col("rounds").sum(),
        samples=pl.col("samples").sum(),
    )


def selection(frame: pl.DataFrame, tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Describe the users whom each realization selects (Sec. VI-B), over all intervals; `frame` is as from `assigned`.

    Columns: `gain_db_median`, the median gain (17) of scheduled users to their base stations, in dB;
    `noise_variance_median`, that of sigma_i squared; `lost_share`, the share of users with a block who lose it, as the
    rate is below Rmin with powers (35). Null if nobody is scheduled, no noise is feasible, or nobody has a block.
    """
    gains = tables["links"].select(*KEYS, cell="station", gain_db=10 * pl.col("gain").log10())
    chosen = joined(frame, gains, *KEYS, "cell").group_by("realization", maintain_order=True)
    medians = chosen.agg(
        gain_db_median=pl.col("gain_db").filter("scheduled").median(),
        noise_variance_median=(pl.col("noise_std") ** 2).filter("scheduled").median(),
    )
    has = pl.col("assigned_block").is_not_null()
    lost = (has & pl.col("resource_block").is_null()).sum() / has.sum()
    shares = tables["schedule"].group_by("realization", maintain_order=True).agg(lost_share=lost.fill_nan(None))
    return joined(medians, shares, "realization")


def objectives(scenario: Multicell, tables: dict[str, pl.DataFrame], frame: pl.DataFrame) -> pl.DataFrame:
    """Compute objective (20) of each realization, its bound, and the left side of (21), null if no noise is feasible.

    They are of the noise that each user would add if it sent in all rounds with the same privacy budget, in the units
    of the constraints (`noise.run`). (20) uses the noise that hides the user's records. Over intervals, (20) and its
    bound are means; the left side of (21), over its sum of samples, is the maximum.
    """
    count = frame["interval"].n_unique()
    often = planned(scenario.privacy, count)
    if scenario.privacy.observer != "user":  # as often as the user who sends most often
        sends = pl.col("scheduled") & pl.col("noise_std").is_not_null()
        often = frame.select(sends.sum().over("realization", "user").max().over("realization")).to_series().to_numpy()
    scale = noise_scale(scenario) * np.sqrt(np.maximum(often, 1) / count)  # if nobody sends, there is no noise
    # Noise as in (20), (21). By NumPy: Polars divides columns of several rows differently from those of one row.
    columns = {name: frame[name].to_numpy() / scale for name in ("noise_std", "hiding_std")}
    frame = frame.with_columns(pl.Series(name, values, nan_to_null=True) for name, values in columns.items())
    sums = frame.group_by("realization", "interval", maintain_order=True).agg(
        known=pl.col("noise_std").is_not_null().all(),
        samples=pl.col("samples").sum(),
        objective=objective.total(pl.col("hiding_std"), scenario.schedule.gamma),
        noise_error=objective.noise_error(pl.col("noise_std")),
    )
    most = values_bound(scenario, tables).ravel()
    proven = pl.col("samples") - pl.col("objective") >= pl.Series(least_proven(most))
    sums = sums.with_columns(
        objective_bound=(pl.col("samples") - pl.Series(most, nan_to_null=True)).clip(0.0), proven_optimal=proven
    )
    exceeded = pl.col("noise_error") > scenario.privacy.max_noise_error * (1 + ERROR_TOLERANCE)
    below = pl.col("objective") <= pl.col("objective_bound")  # by rounding; or both are 0
    gap = pl.when(below).then(0.0).otherwise(pl.col("objective") / pl.col("objective_bound") - 1)
    return (
        sums.group_by("realization", maintain_order=True)
        .agg(
            objective=pl.when(pl.col("known").all() & pl.col("objective").is_finite().all()).then(
                pl.col("objective").mean()
            ),
            noise_error=pl.when(pl.col("known").all()).then(pl.col("noise_error").max()),
            objective_bound=pl.col("objective_bound").mean(),
            proven_optimal=pl.col("proven_optimal").all(),
        )
        .with_columns(objective_gap=pl.when(exceeded).then(None).otherwise(gap))
        .with_columns(proven_optimal=pl.when(pl.col("objective_gap").is_not_null()).then("proven_optimal"))
    )


def values_bound(scenario: Multicell, tables: dict[str, pl.DataFrame]) -> np.ndarray:
    """Bound by how much any schedule lowers the objective (20) in each interval, shape (realization, interval).

    In the bound's problem, schedules and powers are free with noise `random`; with `optimal`, which follows the
    schedule, the noise is free as well. NaN for other noise, which does not follow from (20)-(22), for sums, and on
    air. Privacy budgets are no part of the problem, so bounds also hold if users stop sending.
    """
    users, gamma, privacy = tables["users"], scenario.schedule.gamma, scenario.privacy
    samples = to_array(users, "samples", "realization", "user")
    noise_std = to_array(tables["start_values"], "noise_std", "realization", "user")
    channels = tables["links"].partition_by("interval", maintain_order=True)
    (noise,) = tables["noise_status"]["noise"].unique()
    bound = None if user_code.is_reference(noise) else NOISES[noise].bound
    if privacy.observer != "user" or not is_digital(scenario):
        bound = None  # others' noise also hides a record, or no blocks limit
    if bound is None:
        return np.full((len(samples), len(channels)), np.nan)
    if bound == "given":
        problem = GivenNoise.build(samples, noise_std, gamma, privacy.max_noise_error)
    else:
        problem = ChosenNoise(samples, gamma, privacy.max_noise_error, privacy.min_noise)
    uplinks = (Uplink.from_tables(scenario.radio, users, links) for links in channels)
    return np.stack([upper_bound(uplink, problem)[0] for uplink in uplinks], axis=1)


def convergence_bound(
    samples: np.ndarray, scheduled: np.ndarray, noise_std: np.ndarray, dimension: int, constants: Constants
) -> dict[str, np.ndarray]:
    """Compute `c1`, `c2`, `c3` of Theorem 1 and `bound_limit`, the limit of its bound, each of shape (realization,).

    `samples` K_i, `scheduled` a_i and `noise_std` sigma_i have shape (realization, interval, user); over several
    intervals, C1, C2 and C3 are maxima. C3 is NaN if nobody is scheduled or the noise is NaN. The limit is
    (C2 + C3) / (1 - C1), infinite for C1 >= 1. `dimension` is the number d of trained parameters.
    """
    smoothness = constants.smoothness
    left_out = np.where(scheduled, 0, samples).sum(axis=-1) / samples.sum(axis=-1)
    weighted = np.where(scheduled, samples, 0)
    with np.errstate(invalid="ignore"):
        share = weighted / weighted.sum(axis=-1, keepdims=True)
    noise = np.where(scheduled, (share * noise_std) ** 2, 0.0).sum(axis=-1)
    left_out = left_out.max(axis=1)
    c1 = 1 - constants.strong_convexity / smoothness + 4 * constants.xi2 * left_out**2
    c2 = 2 * constants.xi1 / smoothness * left_out**2
    c3 = np.where(scheduled.any(axis=(1, 2)), dimension / (2 * smoothness) * noise.max(axis=1), np.nan)
    with np.errstate(divide="ignore"):
        limit = np.where(c1 < 1, (c2 + c3) / (1 - c1), np.where(np.isnan(c3), np.nan, np.inf))
    return {"c1": c1, "c2": c2, "c3": c3, "bound_limit": limit}


def premise(training: Training, smoothness: float) -> str:
    """Describe which premises of Theorem 1 hold: step size 1 / L, averages (8), (9), a strongly convex loss."""
    if training.step == "snr":
        step = "not met (set by noise)"
    elif RECIPES[training.recipe].falling:
        step = "not met (falling)"
    else:
        rate = training.learning_rate
        met = isclose(rate * smoothness, 1, rel_tol=1e-9)
        step = "met" if met else f"not met ({rate:g}, not {1 / smoothness:g})"
    loss = "softmax regression has no L2 term" if is_softmax(training) else "hidden layers"
    premises = f"step size 1 / smoothness: {step}; strongly convex loss: not met ({loss})"
    premises += "" if training.learner == "gradients" else "; gradients: not met (local steps)"
    return f"{premises}; averages by samples: not met" if RECIPES[training.recipe].inverse_variance else premises
