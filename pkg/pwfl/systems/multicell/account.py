"""Accounting of the system `multicell`: (11), (19), (20), (21) and Theorem 1 of Tavangaran et al."""

from math import isclose, log
from typing import NamedTuple

import numpy as np
import polars as pl

from pwfl.learning import datasets, features
from pwfl.privacy import accountant, coalition
from pwfl.privacy.gaussian import classic_epsilon, exact_epsilon, tight_epsilon
from pwfl.systems.multicell import objective
from pwfl.systems.multicell.assigned import KEYS, assigned
from pwfl.systems.multicell.beyond import batches, integers, sums
from pwfl.systems.multicell.beyond.bound import least_proven, upper_bound
from pwfl.systems.multicell.beyond.intervals import planned
from pwfl.systems.multicell.beyond.problem import ChosenNoise, GivenNoise
from pwfl.systems.multicell.bounds import noise_scale
from pwfl.systems.multicell.interference import Uplink
from pwfl.systems.multicell.parameters import RECIPES, Multicell, Privacy, Training
from pwfl.systems.multicell.sending import sums_records
from pwfl.tables.arrays import joined, to_array
from pwfl.tables.contract import A_USERS, ASSUMED, BOUND, EXACT, NO_PRIVACY, PUBLIC
from pwfl.training.models import is_softmax, network, parameter_count

TERMS = {
    "unit": "one training record of one user",
    "neighbouring_relation": "replace-one",
    "accuracy_of": "the server's global model",
    "taken_as_public": f"{PUBLIC}; schedule, noise and the server's weights follow numbers of records",
}
SEEN = {
    "user": "sees each scheduled user's noisy gradient of every round, as the server does",
    "cell": "sees the sum of each cell's noisy gradients of every round, as the server does",
    "network": "sees the sum of all noisy gradients of every round, as the server does",
}
ON_AIR = {
    "user": "is taken to see each sender's noisy message of every round",
    "cell": "sees what all stations receive in every round, and knows all channels; their noise is not counted",
    "network": "sees the server's update of every round, and knows all channels; the receivers' noise is not counted",
}
SEES = {
    "majority": "sees signs of noisy messages, or votes of these, and is taken to see each sender's noisy message of "
    "every round"
}
EPSILONS = ("epsilon", "epsilon_user", "epsilon_tight", "epsilon_classic", "epsilon_dithers_known")
READ_AS = [f"epsilon_observer_{observer}" for observer in sums.OBSERVERS]
ERROR_TOLERANCE = 1e-9  # by which rounding may exceed (21), relative
GUARANTEES = {
    "per_sample": "guaranteed: every sample's gradient is clipped",
    "per_user": "leakage (11) not guaranteed: only a user's mean gradient is clipped, and (11) assumes that no record "
    f"moves it by more than 2 L / K_i; epsilon_user, which is epsilon_worst_case, is {A_USERS}",
}


class Constants(NamedTuple):
    """The constants of Theorem 1, taken as given: no premise is checked but that on the step size."""

    smoothness: float  # Lipschitz constant of the global loss's gradient (Assumption 3); the proof takes 1 / step size
    strong_convexity: float  # mu of the global loss (Assumption 4)
    xi1: float  # of Assumption 6, as xi2
    xi2: float


CONSTANTS = Constants(20.0, 1.0, np.nan, 1.0)  # Table I's step size is 1 / 20; xi1 follows from the clipping norm


def run(scenario: Multicell, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The tables `leakage` of users and `outcome` of realizations.

    `tables` are `users`, `links`, `schedule`, `start_values`, `noise`, `noise_status`, `reception_noise` and
    `visibility`.
    """
    frame, training = assigned(tables), scenario.training
    seen = tables["visibility"].filter(observer=scenario.privacy.observer).select(*KEYS, "visibility")
    unit = pl.col("samples") if sums_records(training) else pl.lit(1)
    expected = 1 / (unit * pl.col("visibility") * (scenario.data.sampling or 1))
    frame = frame.join(seen, on=KEYS, how="left", maintain_order="left").with_columns(
        hiding_std=pl.when("scheduled").then(expected).otherwise(0.0)
    )
    leakage, outcome = leakages(scenario, frame, tables), participation(frame)
    own = (selection(frame, tables), objectives(scenario, tables, frame), convergence(scenario, frame))
    for part in (*own, accountant.spent(tables)):
        outcome = joined(outcome, part, "realization")
    outcome = outcome.join(guarantees(scenario, leakage), on="realization", how="left", maintain_order="left")
    unprotected = tables["noise_status"].filter(noise="none")["realization"]
    none = pl.col("epsilon").is_infinite().fill_null(False) | pl.col("realization").is_in(unprotected.implode())
    sends, (of_record, of_user) = pl.col("epsilon").is_not_null(), kinds(scenario, frame["interval"].n_unique())
    said = {
        **{
            column: pl.when(sends).then(pl.when(none).then(pl.lit(EXACT)).otherwise(pl.lit(kind)))
            for column, kind in (("epsilon_is", of_record), ("epsilon_user_is", of_user))
        },
        "guaranteed": ~none & (training.clipping == "per_sample"),
        "guarantee": pl.when(none).then(pl.lit(NO_PRIVACY)).otherwise(pl.lit(guarantee(scenario))),
    }
    terms = TERMS | conditions(scenario) | {"delta": scenario.privacy.delta, "rounds": training.rounds}
    outcome = outcome.with_columns(**said, **{name: pl.lit(term) for name, term in terms.items()})
    return {
        "leakage": leakage.drop("rho_server", "order_server"),
        "outcome": outcome.with_columns(epsilon_server=pl.col("epsilon")),
    }


def kinds(scenario: Multicell, intervals: int) -> tuple[str, str]:
    """What epsilon and epsilon_user are, where there is noise.

    Exact of Gaussian noise, colluders being the worst ones; not where these would be others in each interval, nor where
    users may drop out, which can only hide more, nor of sampled records.
    """
    privacy, training = scenario.privacy, scenario.training
    others = privacy.observer != "user" and privacy.colluders and intervals > 1
    # Who stands for those who see less than single messages.
    unseen = scenario.radio.air == "majority" or (scenario.radio.air, privacy.observer) == ("antennas", "cell")
    bounded = training.bits or privacy.dropouts or others or unseen or scenario.data.sampling
    kind = BOUND if bounded else EXACT
    return (ASSUMED if training.clipping == "per_user" else kind), kind


def conditions(scenario: Multicell) -> dict:
    """What sampling, link budget, local steps and observer are, columns of `outcome`."""
    rate, training, air = scenario.data.sampling, scenario.training, scenario.radio.air
    sampling = "none: every round uses all records of every scheduled user"
    if rate:
        sampling = f"Poisson: a record of a sender is in a round with probability {rate:g}, whoever sends is known"
    budget = "radiated at the scheduler's powers, in cells that interfere, over the paper's path loss"
    if air != "digital":
        budget = "radiated on air, in cells that interfere, by messages of the largest norm and their noise"
    return {
        "sampling": sampling,
        "link_budget": budget,
        "local_steps": float(training.local_steps) if training.learner == "local_steps" else 1.0,
        "observer": observer(scenario.privacy)
        if air == "digital"
        else SEES.get(air, ON_AIR[scenario.privacy.observer]),
    }


def observer(privacy: Privacy) -> str:
    """What who observes digital uploads sees, in words."""
    if privacy.observer == "user":
        return SEEN["user"]
    share = f"up to {coalition.percent(privacy.colluders)}" if privacy.colluders else "none"
    return f"{SEEN[privacy.observer]}; {share} of a sum's senders collude with it"


def guarantee(scenario: Multicell) -> str:
    """What the leakage rests on, in words."""
    words = GUARANTEES[scenario.training.clipping]
    if scenario.training.learner == "local_steps":
        words = f"guaranteed: every user's update is clipped, which is {A_USERS}"
    if scenario.data.sampling:
        words += "; proved for every replaced record, with senders known"
    if scenario.privacy.observer != "user" and scenario.radio.air == "digital":
        words += "; secure aggregation is taken for granted"
    if bits := scenario.training.bits:
        words += f"; sums of integers modulo 2^{bits}, whose epsilons are upper bounds by Renyi divergences"
    return words


def leakages(scenario: Multicell, frame: pl.DataFrame, tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Leakage (11) of each user who ever sends, and the guarantees that follow from it; `frame` is that of `assigned`.

    A user leaks in the rounds in which it sends, and zCDP adds up over them. The noise that hides it is what the
    observer sees of its own and others' (the table `visibility`); of its own alone, `rho_alone` is left.
    `rho_worst_case`, with `per_user` clipping only, is the leakage where one record can turn the clipped mean around:
    sensitivity 2 L, not 2 L / K_i: as far as all of a user's records move it. These move a sum by 2 L K_i. The epsilons
    of other observers are what they would read off the same messages.
    Where these are integers, rho and mu are those of the noise, and no epsilon is less than that of `integers.bounds`.
    """
    delta, clip = scenario.privacy.delta, scenario.training.clip_norm
    samples, scheduled, hiding_std = (to_array(frame, name, *KEYS) for name in ("samples", "scheduled", "hiding_std"))
    ever = (scheduled & ~np.isnan(hiding_std)).any(axis=1)
    law = batches.law(scenario)
    per_user = scenario.training.clipping == "per_user"  # (11) takes a record to move a clipped mean by 2 L / K_i

    losses = {each: accountant.losses(tables, each, 2 * clip, users_only=True) for each in sums.OBSERVERS}
    share = samples[:, 0] ** 2 if per_user else 1
    read = {observer: (found.rho / share)[ever] for observer, found in losses.items()}
    rho, own = read[scenario.privacy.observer], losses[scenario.privacy.observer]
    worst_case = own.rho[ever]  # a record can turn a mean around
    whole = per_user or scenario.training.learner == "local_steps"  # a record is worth its user
    of_user = worst_case if whole else accountant.of_users(own, samples[:, 0]).rho[ever]
    rho_server, order = worst_case, np.full(len(rho), np.nan)
    if law:
        exact = {observer: batches.epsilons(found, delta, law)[ever] for observer, found in losses.items()}
        users_epsilon = batches.users_epsilons(own, samples[:, 0], scenario)[ever]
    else:
        exact = {observer: exact_epsilon(each, delta) for observer, each in read.items()}
        users_epsilon = exact_epsilon(of_user, delta)
    epsilons = {
        "epsilon": exact[scenario.privacy.observer],
        "epsilon_user": users_epsilon,
        "epsilon_tight": tight_epsilon(rho, delta),
        "epsilon_classic": classic_epsilon(rho, delta),
        "epsilon_dithers_known": np.full(len(rho), np.nan),
        **{f"epsilon_observer_{observer}": each for observer, each in exact.items()},
    }
    if scenario.training.bits:
        bounds = integers.bounds(scenario, frame)
        of_users = integers.bounds(scenario, frame, (scenario.privacy.observer,), of_users=True)
        bounds["epsilon_user"] = of_users["epsilon"]
        for name, each in epsilons.items():
            epsilons[name] = np.fmax(each, bounds.get(name, bounds["epsilon"])[ever])
        of_integers, order = (each[ever] for each in integers.concentrated(scenario, frame))
        rho_server = np.fmax(rho_server, of_integers)
    if not per_user:
        worst_case = np.full(len(rho), np.nan)
    keys = frame.select("realization", "user").unique(maintain_order=True)
    return keys.filter(pl.Series(ever.ravel())).with_columns(
        rho=pl.Series(rho),
        mu=pl.Series(np.sqrt(2 * rho)),
        rho_worst_case=pl.Series(worst_case, nan_to_null=True),
        rho_alone=pl.Series(read["user"]),
        rho_server=pl.Series(rho_server),
        order_server=pl.Series(order, nan_to_null=True),
        **{name: pl.Series(each, nan_to_null=True) for name, each in epsilons.items()},
    )


def guarantees(scenario: Multicell, leakage: pl.DataFrame) -> pl.DataFrame:
    """Each realization's guarantee: that of the user who leaks most. Realizations in which nobody sends have no row.

    A record's guarantee is its user's, so `rho_max` and the epsilons are maxima over users.
    """
    worst = leakage.group_by("realization", maintain_order=True).agg(
        rho_total=pl.col("rho").sum(),
        rho_max=pl.col("rho").max(),
        rho_median=pl.col("rho").median(),
        **{name: pl.col(name).max() for name in ("rho_worst_case", "rho_alone", "rho_server", *EPSILONS, *READ_AS)},
        order_server=pl.col("order_server").min(),
    )
    delta, rho_worst_case = scenario.privacy.delta, pl.col("rho_worst_case")
    epsilon = rho_worst_case.map_batches(lambda rho: pl.Series(exact_epsilon(rho, delta)), pl.Float64)
    return worst.with_columns(epsilon_worst_case=pl.when(rho_worst_case.is_not_null()).then(epsilon))


def convergence(scenario: Multicell, frame: pl.DataFrame) -> pl.DataFrame:
    """Theorem 1's constants and bound for each realization, and what they say; `frame` is that of `assigned`."""
    training = scenario.training
    constants = CONSTANTS._replace(xi1=training.clip_norm**2)  # which makes Assumption 6 true
    columns = (to_array(frame, name, *KEYS) for name in ("samples", "scheduled", "noise_std"))
    bound = convergence_bound(*columns, parameter_count(network(training, features.size(scenario))), constants)
    columns = {name: pl.Series(values, nan_to_null=True) for name, values in bound.items()}
    guess = log(datasets.size(scenario.data).classes)  # the loss of equal probabilities, nothing learned
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
    """How many users of each realization send, of how many samples; `frame` is that of `assigned`."""
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
    """Whom each realization's schedule chooses (Sec. VI-B), over all intervals; `frame` is that of `assigned`.

    Columns: `gain_db_median`, of scheduled users' gains (17) to their own stations, in dB; `noise_variance_median`, of
    their sigma_i squared; `lost_share`, the share of users with a resource block whose rate stays below Rmin with the
    powers (35), so that they lose it. Null where nobody is scheduled, no noise is feasible, or nobody has a block.
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
    """Objective (20) of each realization, its bound, and the left side of (21), null where no noise is feasible.

    They are those of the noise that each user would add if it sent in all rounds at the same budget, in the units of
    the bounds (`noise.run`); in (20), of the noise that hides its records. Of several intervals, (20) and its bound are
    means, the left side of (21) is the largest.
    """
    count = frame["interval"].n_unique()
    often = planned(scenario.privacy, count)
    if scenario.privacy.observer != "user":  # as often as who sends most often
        sends = pl.col("scheduled") & pl.col("noise_std").is_not_null()
        often = frame.select(sends.sum().over("realization", "user").max().over("realization")).to_series().to_numpy()
    scale = noise_scale(scenario) * np.sqrt(np.maximum(often, 1) / count)  # where nobody sends, there is no noise
    # As (20), (21) have it. Polars divides columns of several rows by one number otherwise than those of one row.
    columns = {name: frame[name].to_numpy() / scale for name in ("noise_std", "hiding_std")}
    frame = frame.with_columns(pl.Series(name, values, nan_to_null=True) for name, values in columns.items())
    each = frame.group_by("realization", "interval", maintain_order=True).agg(
        known=pl.col("noise_std").is_not_null().all(),
        samples=pl.col("samples").sum(),
        objective=objective.total(pl.col("hiding_std"), scenario.schedule.gamma),
        noise_error=objective.noise_error(pl.col("noise_std")),
    )
    most = values_bound(scenario, tables).ravel()
    proven = pl.col("samples") - pl.col("objective") >= pl.Series(least_proven(most))
    each = each.with_columns(
        objective_bound=(pl.col("samples") - pl.Series(most, nan_to_null=True)).clip(0.0), proven_optimal=proven
    )
    exceeded = pl.col("noise_error") > scenario.privacy.max_noise_error * (1 + ERROR_TOLERANCE)
    below = pl.col("objective") <= pl.col("objective_bound")  # by rounding; or both are 0
    gap = pl.when(below).then(0.0).otherwise(pl.col("objective") / pl.col("objective_bound") - 1)
    return (
        each.group_by("realization", maintain_order=True)
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
    """What no schedule takes off the objective (20) in each interval, shape (realization, interval).

    The bound is of the problem that leaves open what the scheme's noise leaves open: with `random`, schedules and
    powers; with `optimal`, which follows the schedule, noise as well. Other noise is not what (20)-(22) ask for: NaN.
    Budgets are no part of the problem, so bounds hold for users who stop, too.
    """
    users, gamma, privacy = tables["users"], scenario.schedule.gamma, scenario.privacy
    samples = to_array(users, "samples", "realization", "user")
    noise_std = to_array(tables["start_values"], "noise_std", "realization", "user")
    channels = tables["links"].partition_by("interval", maintain_order=True)
    (noise,) = tables["noise_status"]["noise"].unique()
    if privacy.observer != "user" or scenario.radio.air != "digital":
        return np.full((len(samples), len(channels)), np.nan)  # others' noise hides a record, too, or no blocks limit
    if noise == "random":
        problem = GivenNoise.of(samples, noise_std, gamma, privacy.max_noise_error)
    elif noise == "optimal":
        problem = ChosenNoise(samples, gamma, privacy.max_noise_error, privacy.min_noise)
    else:
        return np.full((len(samples), len(channels)), np.nan)
    uplinks = (Uplink.of(scenario.radio, users, links) for links in channels)
    return np.stack([upper_bound(uplink, problem)[0] for uplink in uplinks], axis=1)


def convergence_bound(
    samples: np.ndarray, scheduled: np.ndarray, noise_std: np.ndarray, dimension: int, constants: Constants
) -> dict[str, np.ndarray]:
    """`c1`, `c2`, `c3` of Theorem 1 and `bound_limit`, what its bound tends to, each of shape (realization,).

    `samples` K_i, `scheduled` a_i and `noise_std` sigma_i have shape (realization, interval, user); of several
    intervals, each of C1, C2 and C3 is the largest. C3 is NaN where nobody is scheduled or the noise is. The limit is
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
    """Which premises of Theorem 1 hold: its proof takes step size 1 / L, averages (8), (9), a strongly convex loss."""
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
