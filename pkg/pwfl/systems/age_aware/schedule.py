"""Schedulers of the system `age_aware`: when each client collects (Sec. III-B of Lin et al.)."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import polars as pl

from pwfl import streams
from pwfl.process import user_code
from pwfl.systems.age_aware import age, age_search, loss_difference
from pwfl.systems.age_aware.parameters import AgeAware
from pwfl.systems.age_aware.schemes import SWEPT_CLIENTS, SWEPT_EPSILON
from pwfl.tables.arrays import to_array

KEYS = ("realization", "user")
VARIATIONS = {"exact": "total_variation", "spectral_gap": "total_variation_bound"}  # Delta(T - t) of (4)
PENALTIES = {"paired": loss_difference.paired_penalty, "separate": loss_difference.separate_penalty}


# Whether a bound on the loss difference is minimized, else its exact expectation; the rule by which the noise follows
# from the times, None where it was fixed before and so has no say.
SEARCHES = {
    "bound_constant": (True, "constant"),
    "bound_adaptive": (True, "adaptive"),
    "noise_first": (True, None),
    "simulated_constant": (False, "constant"),
    "simulated_adaptive": (False, "adaptive"),
}


class Profiles(NamedTuple):
    """Clients, and what their data tell at T for each collection time: shape (..., user, 1) or (..., user, time)."""

    samples: np.ndarray  # n_k, of one time
    sensitivity_wh: np.ndarray  # of the samples' mean, of one time
    total_variation: np.ndarray
    divergence_nats: np.ndarray
    information_nats: np.ndarray
    mean_wh: np.ndarray
    variance_wh2: np.ndarray

    @classmethod
    def of(cls, users: pl.DataFrame, links: pl.DataFrame) -> "Profiles":
        """Those of the tables `users` and `links`, with realizations on the first axis."""
        of_user, over_time = cls._fields[:2], cls._fields[2:]
        columns = [to_array(users, name, *KEYS)[..., None] for name in of_user]
        return cls(*columns, *(to_array(links, name, *KEYS, "collection_time") for name in over_time))


def run(scenario: AgeAware, scheduler: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Collection times of all clients, one case for each privacy target (or for each step of a sweep).

    `scheduler` is `random`, `fixed`, `fresh` (all at T), `sweep` (each of the first clients in turn at all times, the
    others fresh), or bound_RULE and simulated_RULE: the minimum of the loss difference's bound or of its exact
    expectation, where RULE is the noise rule, `constant` or `adaptive`, that the schedule is made for; `noise_first`:
    the minimum of the bound at a level of noise fixed before (scheme 3 of Sec. IV-B to the letter); or the name of a
    function of the user's own (`user_times`).
    """
    users = tables["users"]
    realizations = users.select(pl.col("realization").unique(maintain_order=True))
    profiles = Profiles.of(users, tables["links"])
    clients, times = profiles.mean_wh.shape[1:]
    swept_user = swept_time = None
    if scheduler == "sweep":
        swept_user, swept_time = np.indices((min(SWEPT_CLIENTS, clients), times)).reshape(2, -1)
        targets = np.full(len(swept_time), SWEPT_EPSILON)
    else:
        targets = np.array(scenario.privacy.target_epsilons)
    variation = to_array(tables["links"], VARIATIONS[scenario.privacy.total_variation], *KEYS, "collection_time")
    required = age.required_epsilon(targets[:, None, None], variation[:, None])

    size = required.shape[:3]
    status, objective, evaluations = scheduler, np.full(size[:2], np.nan), np.zeros(size[:2])
    if scheduler == "sweep":
        schedules = np.full(size, times - 1)
        schedules[:, np.arange(len(targets)), swept_user] = swept_time
    elif scheduler == "fixed":
        schedules = np.broadcast_to(scenario.schedule.times, size)
    elif scheduler == "fresh":
        schedules = np.full(size, times - 1)
    elif scheduler == "random":
        block = range(realizations["realization"][0], realizations["realization"][-1] + 1)
        drawn = (streams.uniforms(scenario.seed, "schedule", block, (clients,)) * times).astype(int)
        schedules = np.broadcast_to(drawn[:, None], size)  # the same in all cases
    elif user_code.is_reference(scheduler):
        now = user_code.Drawn(user_code.generators(scenario.seed, "schedule", realizations["realization"]))
        schedules, status = user_times(scenario, scheduler, profiles, required, now), "own"
    else:
        bounded, rule = SEARCHES[scheduler]
        bound, status = scenario.schedule.bound if bounded else None, "optimal"
        schedules, objective, evaluations = optimal_times(bound, rule, profiles, required)

    targeted = pl.DataFrame({"case": np.arange(len(targets)), "target_epsilon": targets})
    swept = targeted.with_columns(swept_user=swept_user, swept_time=swept_time)
    cases = realizations.join(swept, how="cross", maintain_order="left_right")
    rows = cases.join(users.select("realization", "user"), on="realization", maintain_order="left_right")
    asked = np.take_along_axis(required, schedules[..., None], 3)
    return {
        "schedule": rows.with_columns(collection_time=schedules.ravel(), required_epsilon=asked.ravel()),
        "schedule_status": cases.with_columns(
            status=pl.lit(status),
            objective_wh2=pl.Series(objective.ravel(), nan_to_null=True),
            evaluations=evaluations.ravel(),
            log10_schedules=pl.lit(clients * np.log10(times)),
        ),
    }


def user_times(
    scenario: AgeAware,
    scheduler: str,
    profiles: Profiles,
    required: np.ndarray,
    now: user_code.Drawn | None = None,
) -> np.ndarray:
    """Collection times by a function of the user's own.

    It gets the scenario, the clients' `Profiles`, and what epsilon_C each target requires of each client at each time,
    shape (realization, case, user, time). It returns times, shape (realization, case, user). All is decided at once, so
    `now`, if it has this parameter, holds generators alone. Raises user_code.UserCodeError where that is no schedule.
    """
    times = user_code.call(scheduler, scenario, profiles, required, reads=scenario.own.reads, now=now)
    shape, last = required.shape[:3], required.shape[3] - 1
    what = f"collection times, integers from 0 to {last}, realizations by cases by clients"
    times = user_code.array_of(scheduler, times, shape, what, "iu")
    if (wrong := (times < 0) | (times > last)).any():
        raise user_code.UserCodeError(f"{scheduler}: returns the time {times[wrong][0]}; must return {what}")
    return times


def optimal_times(
    bound: str | None, rule: str | None, profiles: Profiles, required: np.ndarray
) -> tuple[np.ndarray, ...]:
    """The best schedules for each target; realizations whose clients are alike are searched once.

    Arguments are as in `search`, but with a first axis of realizations, and `required` with a second one of cases.
    Returns times, shape (realization, case, user), and objectives and evaluations, shape (realization, case).
    """
    flat = np.concatenate([values.reshape(len(required), -1) for values in profiles], axis=1)
    _, first, which = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    best = []
    for r in first:
        clients = Profiles(*(values[r] for values in profiles))
        best.append([search(bound, rule, clients, case) for case in required[r]])
    columns = (np.array([[case[part] for case in cases] for cases in best]) for part in range(3))
    return tuple(column[which.ravel()] for column in columns)


def search(bound: str | None, rule: str | None, clients: Profiles, required: np.ndarray) -> age_search.Best:
    """Best times of one realization's clients for one target, the objective there, how many terms were evaluated.

    `bound` is that to be minimized, `paired` or `separate`; None where the expectation is. `rule` is that of the noise;
    None where it was fixed before, and is no part of the objective. What each time asks of the mechanism has shape
    (user, time).
    """
    samples = clients.samples
    share = samples / samples.sum()
    cost, common_cost = costs(bound, rule, clients, required)
    if bound is None:
        bias = share * (clients.mean_wh - clients.mean_wh[:, -1:])
        return age_search.enumerate_all(cost, bias, required, common_cost)
    shared = common_cost is not None
    best = age_search.best_common(cost, required, common_cost) if shared else age_search.best_separate(cost)
    times, value, evaluations = best
    offset = loss_difference.paired_offset(share, samples, clients.variance_wh2[:, -1:]).sum()
    return times, value - (offset if bound == "paired" else 0.0), evaluations


def costs(
    bound: str | None, rule: str | None, clients: Profiles, required: np.ndarray
) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray] | None]:
    """What is minimized, but for constants and the square of summed biases; arguments as of `search`.

    Each client's part at each time in Wh^2, shape (user, time), and the noise power
    of a mechanism that all share, of its epsilon_C; None where `rule` is not `constant`.
    """
    samples, sensitivity = clients.samples, clients.sensitivity_wh
    share, value_range = samples / samples.sum(), samples * sensitivity
    power = loss_difference.noise_power(share, age.laplace_scale(sensitivity, required)) if rule == "adaptive" else 0.0

    def common_power(classical):
        scale = age.laplace_scale(sensitivity[:, 0], classical[..., None])
        return loss_difference.noise_power(share[:, 0], scale).sum(axis=-1)

    if bound is None:
        own = loss_difference.sampling_excess(share, samples, clients.variance_wh2, clients.variance_wh2[:, -1:])
    else:
        own = PENALTIES[bound](share, value_range, clients.information_nats, clients.divergence_nats)
    return own + power, common_power if rule == "constant" else None
