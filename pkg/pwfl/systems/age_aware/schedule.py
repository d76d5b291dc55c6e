"""Schedulers of the system `age_aware`: when each client collects (Sec. III-B of Lin et al.)."""

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from pwfl import streams
from pwfl.systems.age_aware import age, age_search, loss_difference
from pwfl.tables import to_array

if TYPE_CHECKING:
    from pwfl.systems.age_aware.scenario import AgeAware

PROFILE = ("total_variation", "divergence_nats", "information_nats", "mean_wh", "variance_wh2")
PENALTIES = {"paired": loss_difference.paired_penalty, "separate": loss_difference.separate_penalty}


def run(scenario: "AgeAware", scheduler: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Collection times of all clients, one case for each privacy target (or for each step of a sweep).

    `scheduler` is `random`, `fixed`, `sweep` (each of the first clients in turn at all times, the others
    fresh), or bound_RULE and simulated_RULE: the minimum of the loss difference's bound or of its exact
    expectation, where RULE is the noise rule, `constant` or `adaptive`, that the schedule is found for.
    """
    users = tables["users"]
    realizations = users["realization"].unique(maintain_order=True).to_list()
    profile = {name: to_array(tables["links"], name, "realization", "user", "collection_time") for name in PROFILE} | {
        name: to_array(users, name, "realization", "user")[..., None] for name in ("samples", "sensitivity_wh")
    }
    clients, times = profile["mean_wh"].shape[1:]
    if scheduler == "sweep":
        swept = steps(min(scenario.schedule.sweep_clients, clients), times)
        targets = np.full(len(swept), scenario.schedule.sweep_epsilon)
    else:
        swept, targets = None, np.array(scenario.privacy.target_epsilons)
    required = age.required_epsilon(targets[:, None, None], profile["total_variation"][:, None])

    status, objective, evaluations = scheduler, np.nan, 0.0
    if scheduler == "sweep":
        schedules = np.full((len(realizations), len(swept), clients), times - 1)
        schedules[:, np.arange(len(swept)), swept[:, 0]] = swept[:, 1]
    elif scheduler == "fixed":
        schedules = np.broadcast_to(scenario.schedule.times, (len(realizations), len(targets), clients))
    else:
        allowed = required >= scenario.privacy.min_classical_epsilon
        if scheduler == "random":
            block = range(realizations[0], realizations[-1] + 1)
            schedules = random_times(streams.uniforms(scenario.seed, "schedule", block, (clients,)), allowed)
        else:
            status, bound = "optimal", scenario.schedule.bound if scheduler.startswith("bound_") else None
            schedules, objective, evaluations = optimal_times(scheduler, bound, profile, required, allowed)

    asked = np.take_along_axis(required, schedules[..., None], 3)
    cases = pl.DataFrame({"case": np.arange(len(targets)), "target_epsilon": targets})
    by_case = (
        users.select("realization").unique(maintain_order=True).join(cases, how="cross", maintain_order="left_right")
    )
    moved = [None, None] if swept is None else np.tile(swept, (len(realizations), 1)).T
    return {
        "schedule": by_case.join(
            users.select("realization", "user"), on="realization", maintain_order="left_right"
        ).with_columns(collection_time=schedules.ravel(), required_epsilon=asked.ravel()),
        "schedule_status": by_case.with_columns(
            swept_user=moved[0],
            swept_time=moved[1],
            status=pl.lit(status),
            objective_wh2=pl.Series(np.broadcast_to(objective, required.shape[:2]).ravel(), nan_to_null=True),
            evaluations=np.broadcast_to(evaluations, required.shape[:2]).ravel(),
            log10_schedules=pl.lit(clients * np.log10(times)),
        ),
    }


def steps(swept: int, times: int) -> np.ndarray:
    """Client and time of each case of a sweep over the first `swept` clients, shape (case, 2)."""
    return np.stack([np.repeat(np.arange(swept), times), np.tile(np.arange(times), swept)], axis=1)


def random_times(draws: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Times uniform among the allowed ones, shape (realization, case, user); the same draw in all cases.

    `draws` are uniform, of shape (realization, user), `allowed` has shape (realization, case, user, time).
    """
    rank = (draws[:, None] * allowed.sum(axis=3)).astype(int)
    return (allowed.cumsum(axis=3) > rank[..., None]).argmax(axis=3)


def optimal_times(scheduler: str, bound: str, profile: dict, required: np.ndarray, allowed: np.ndarray):
    """Schedules of the searches, shape (realization, case, user), their objectives and numbers of evaluations.

    Realizations whose clients are alike are searched once. `profile` holds arrays of shape (realization,
    user, 1) or (realization, user, time), `required` and `allowed` (realization, case, user, time).
    """
    flat = np.concatenate([profile[name].reshape(len(required), -1) for name in profile], axis=1)
    _, first, which = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    found = [
        [
            search(scheduler, bound, {n: v[r] for n, v in profile.items()}, need, may)
            for need, may in zip(required[r], allowed[r], strict=True)
        ]
        for r in first
    ]
    columns = (np.array([[case[part] for case in cases] for cases in found]) for part in range(3))
    return tuple(column[which.ravel()] for column in columns)


def search(scheduler: str, bound: str, profile: dict, required: np.ndarray, allowed: np.ndarray):
    """Best times of the clients for one target, the objective there, and how many terms were evaluated.

    Arrays have shape (user, time); see `optimal_times`.
    """
    samples, sensitivity = profile["samples"], profile["sensitivity_wh"]
    share, value_range = samples / samples.sum(), samples * sensitivity
    final_variance = profile["variance_wh2"][:, -1:]
    objective, rule = scheduler.split("_")
    adaptive = rule == "adaptive"
    power = loss_difference.noise_power(share, age.laplace_scale(sensitivity, required)) if adaptive else 0.0

    def common_power(classical):
        scale = age.laplace_scale(sensitivity[:, 0], classical[..., None])
        return loss_difference.noise_power(share[:, 0], scale).sum(axis=-1)

    if objective == "bound":
        penalty = PENALTIES[bound](share, value_range, profile["information_nats"], profile["divergence_nats"])
        cost = np.where(allowed, penalty + power, np.inf)
        times, value, evaluations = (
            age_search.best_separate(cost) if adaptive else age_search.best_common(cost, required, common_power)
        )
        offset = loss_difference.paired_offset(share, samples, final_variance).sum() if bound == "paired" else 0.0
        return times, value - offset, evaluations
    excess = loss_difference.sampling_excess(share, samples, profile["variance_wh2"], final_variance)
    bias = share * (profile["mean_wh"] - profile["mean_wh"][:, -1:])
    own = np.where(allowed, excess + power, np.inf)
    return age_search.enumerate_all(own, bias, required, None if adaptive else common_power)
