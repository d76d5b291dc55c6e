"""Schedulers of the system `age_aware`: each client's collection time (Sec. III-B of Lin et al.)."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import polars as pl

from pwfl import streams
from pwfl.process import user_code
from pwfl.system import list_statuses
from pwfl.systems.age_aware import age, age_search, loss_difference
from pwfl.systems.age_aware.parameters import AgeAware
from pwfl.systems.age_aware.schemes import SCHEDULERS, SWEPT_CLIENTS, SWEPT_EPSILON, Scheduler
from pwfl.tables.arrays import to_array

KEYS = ("realization", "user")
VARIATIONS = {"exact": "total_variation", "spectral_gap": "total_variation_bound"}  # Delta(T - t) of (4)
PENALTIES = {"paired": loss_difference.paired_penalty, "separate": loss_difference.separate_penalty}


class Profiles(NamedTuple):
    """Clients and their profiles (`age.profiles`): shape (..., user, 1) or, by collection time, (..., user, time)."""

    samples: np.ndarray  # n_k, shape (..., user, 1)
    sensitivity_wh: np.ndarray  # of the samples' mean, shape (..., user, 1)
    total_variation: np.ndarray
    divergence_nats: np.ndarray
    information_nats: np.ndarray
    mean_wh: np.ndarray
    variance_wh2: np.ndarray

    @classmethod
    def from_tables(cls, users: pl.DataFrame, links: pl.DataFrame) -> "Profiles":
        """Return the profiles of the tables `users` and `links`, with realizations on the first axis."""
        per_user, over_time = cls._fields[:2], cls._fields[2:]
        columns = [to_array(users, name, *KEYS)[..., None] for name in per_user]
        return cls(*columns, *(to_array(links, name, *KEYS, "collection_time") for name in over_time))


def run(scenario: AgeAware, scheduler: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Compute collection times of all clients, one case per privacy target (or per step of a sweep).

    `scheduler` is one of `schemes.SCHEDULERS`, or the name of a user-defined function (`user_times`).
    """
    users = tables["users"]
    realizations = users.select(pl.col("realization").unique(maintain_order=True))
    profiles = Profiles.from_tables(users, tables["links"])
    clients, times = profiles.mean_wh.shape[1:]
    swept_user = swept_time = None
    kind = None if user_code.is_reference(scheduler) else SCHEDULERS[scheduler]
    if kind and kind.sweeps:
        swept_user, swept_time = np.indices((min(SWEPT_CLIENTS, clients), times)).reshape(2, -1)
        targets = np.full(len(swept_time), SWEPT_EPSILON)
    else:
        targets = np.array(scenario.privacy.target_epsilons)
    variation = to_array(tables["links"], VARIATIONS[scenario.privacy.total_variation], *KEYS, "collection_time")
    required = age.required_epsilon(targets[:, None, None], variation[:, None])

    size = required.shape[:3]
    if kind:
        cases = Cases(profiles, required, realizations["realization"], swept_user, swept_time)
        status, best = list_statuses({scheduler: kind})[0], kind.load()(scenario, cases, kind)
    else:
        now = user_code.Drawn(user_code.generators(scenario.seed, "schedule", realizations["realization"]))
        status, best = "own", Times(user_times(scenario, scheduler, profiles, required, now))
    objective, evaluations = (np.broadcast_to(values, size[:2]) for values in (best.objective, best.evaluations))

    targeted = pl.DataFrame({"case": np.arange(len(targets)), "target_epsilon": targets})
    swept = targeted.with_columns(swept_user=swept_user, swept_time=swept_time)
    cases = realizations.join(swept, how="cross", maintain_order="left_right")
    rows = cases.join(users.select("realization", "user"), on="realization", maintain_order="left_right")
    asked = np.take_along_axis(required, best.times[..., None], 3)
    return {
        "schedule": rows.with_columns(collection_time=best.times.ravel(), required_epsilon=asked.ravel()),
        "schedule_status": cases.with_columns(
            status=pl.lit(status),
            objective_wh2=pl.Series(objective.ravel(), nan_to_null=True),
            evaluations=evaluations.ravel(),
            log10_schedules=pl.lit(clients * np.log10(times)),
        ),
    }


class Cases(NamedTuple):
    """The cases for which realizations are scheduled: privacy targets, or the steps of a sweep."""

    profiles: Profiles
    required: np.ndarray  # required epsilon_C, shape (realization, case, user, time)
    realizations: pl.Series
    swept_user: np.ndarray | None  # (case,)
    swept_time: np.ndarray | None


class Times(NamedTuple):
    """Collection times, (realization, case, user), and a search's objective and evaluations, (realization, case)."""

    times: np.ndarray
    objective: np.ndarray | float = np.nan
    evaluations: np.ndarray | float = 0.0


def draw_times(scenario: AgeAware, cases: Cases, scheduler: Scheduler) -> Times:
    """Draw random times, the same in all cases."""
    _, _, clients, times = cases.required.shape
    block = range(cases.realizations[0], cases.realizations[-1] + 1)
    drawn = (streams.uniforms(scenario.seed, "schedule", block, (clients,)) * times).astype(int)
    return Times(np.broadcast_to(drawn[:, None], cases.required.shape[:3]))


def take_times(scenario: AgeAware, cases: Cases, scheduler: Scheduler) -> Times:
    """Return the configured times."""
    return Times(np.broadcast_to(scenario.schedule.times, cases.required.shape[:3]))


def collect_last(scenario: AgeAware, cases: Cases, scheduler: Scheduler) -> Times:
    """Return the time T for all clients."""
    return Times(np.full(cases.required.shape[:3], cases.required.shape[3] - 1))


def sweep_times(scenario: AgeAware, cases: Cases, scheduler: Scheduler) -> Times:
    """Vary the time of each of the first clients in turn; the other clients collect at T."""
    times = collect_last(scenario, cases, scheduler).times
    times[:, np.arange(times.shape[1]), cases.swept_user] = cases.swept_time
    return Times(times)


def search_times(scenario: AgeAware, cases: Cases, scheduler: Scheduler) -> Times:
    """Find the times that minimize the loss difference or its bound, as the scheduler requires.

    `noise_first` minimizes the bound at a noise level fixed before: scheme 3 of Sec. IV-B, literally.
    """
    bound = scenario.schedule.bound if scheduler.minimizes == "bound" else None
    return Times(*optimal_times(bound, scheduler.rule, cases.profiles, cases.required))


def user_times(
    scenario: AgeAware, scheduler: str, profiles: Profiles, required: np.ndarray, now: user_code.Drawn
) -> np.ndarray:
    """Compute collection times by a user-defined function.

    The function gets the scenario, the clients' `Profiles`, and the epsilon_C that each target requires of each client
    at each time, shape (realization, case, user, time). It returns times, shape (realization, case, user). It decides
    only once, so `now`, if it has this parameter, contains generators only. Raises user_code.UserCodeError for an
    invalid schedule.
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
    """Find the best schedules for each target; realizations with equal clients are searched once.

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
    """Find the best times of one realization's clients for one target, their objective, and the number of evaluations.

    `bound` is the bound to minimize, `paired` or `separate`; None: the expectation is minimized. `rule` is the noise
    rule; None: the noise was fixed before, and is no part of the objective. `required` is the epsilon_C that each time
    requires of the mechanism, shape (user, time).
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
    """Return the terms of the objective, except constants and the square of summed biases; arguments as in `search`.

    The first is each client's part at each time in Wh^2, shape (user, time). The second is a function from the
    epsilon_C of a shared mechanism to its noise power; None unless `rule` is `constant`.
    """
    samples, sensitivity = clients.samples, clients.sensitivity_wh
    share, value_range = samples / samples.sum(), samples * sensitivity
    power = loss_difference.noise_power(share, age.laplace_scale(sensitivity, required)) if rule == "adaptive" else 0.0

    def common_power(classical):
        scale = age.laplace_scale(sensitivity[:, 0], classical[..., None])
        return loss_difference.noise_power(share[:, 0], scale).sum(axis=-1)

    if bound is None:
        sampling = loss_difference.sampling_excess(share, samples, clients.variance_wh2, clients.variance_wh2[:, -1:])
    else:
        sampling = PENALTIES[bound](share, value_range, clients.information_nats, clients.divergence_nats)
    return sampling + power, common_power if rule == "constant" else None
