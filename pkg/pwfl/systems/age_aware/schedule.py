"""Schedulers of the system `age_aware`: when each client collects (Sec. III-B of Lin et al.)."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from pwfl import streams
from pwfl.systems.age_aware import age, age_search, loss_difference
from pwfl.tables.arrays import to_array

if TYPE_CHECKING:
    from pwfl.systems.age_aware.parameters import AgeAware

KEYS = ("realization", "user")
PENALTIES = {"paired": loss_difference.paired_penalty, "separate": loss_difference.separate_penalty}


class Search(NamedTuple):
    """What the times found minimize: the loss difference's bound or its exact expectation, under a noise rule."""

    bounded: bool
    adaptive: bool


SEARCHES = {
    "bound_constant": Search(bounded=True, adaptive=False),
    "bound_adaptive": Search(bounded=True, adaptive=True),
    "simulated_constant": Search(bounded=False, adaptive=False),
    "simulated_adaptive": Search(bounded=False, adaptive=True),
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
        of_user = {name: to_array(users, name, *KEYS)[..., None] for name in ("samples", "sensitivity_wh")}
        rest = [name for name in cls._fields if name not in of_user]
        over_time = {name: to_array(links, name, *KEYS, "collection_time") for name in rest}
        return cls(**of_user, **over_time)

    def at(self, realization: int) -> "Profiles":
        """Those of one realization, by its place on the first axis."""
        return Profiles(*(values[realization] for values in self))


def run(scenario: "AgeAware", scheduler: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Collection times of all clients, one case for each privacy target (or for each step of a sweep).

    `scheduler` is `random`, `fixed`, `sweep` (each of the first clients in turn at all times, the others
    fresh), or bound_RULE and simulated_RULE: the minimum of the loss difference's bound or of its exact
    expectation, where RULE is the noise rule, `constant` or `adaptive`, that the schedule is found for.
    """
    users = tables["users"]
    realizations = users["realization"].unique(maintain_order=True).to_list()
    profiles = Profiles.of(users, tables["links"])
    clients, times = profiles.mean_wh.shape[1:]
    if scheduler == "sweep":
        swept = steps(min(scenario.schedule.sweep_clients, clients), times)
        targets = np.full(len(swept), scenario.schedule.sweep_epsilon)
    else:
        swept, targets = None, np.array(scenario.privacy.target_epsilons)
    required = age.required_epsilon(targets[:, None, None], profiles.total_variation[:, None])

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
            wanted = SEARCHES[scheduler]
            bound = scenario.schedule.bound if wanted.bounded else None
            status = "optimal"
            schedules, objective, evaluations = optimal_times(wanted, bound, profiles, required, allowed)

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
    """Client and time of each case of a sweep over the first `swept` clients, shape (case, 2).

    Examples
    --------
    >>> steps(2, times=2).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    return np.stack([np.repeat(np.arange(swept), times), np.tile(np.arange(times), swept)], axis=1)


def random_times(draws: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Times uniform among the allowed ones, by the same draw in all cases.

    Parameters
    ----------
    draws
        Uniform numbers, shape (realization, user).
    allowed
        Whether a client may collect then, shape (realization, case, user, time).

    Returns
    -------
    Shape (realization, case, user).

    Examples
    --------
    >>> random_times(np.array([[0.4, 0.6]]), np.array([[[[True, False, True], [True, False, True]]]])).tolist()
    [[[0, 2]]]
    """
    rank = (draws[:, None] * allowed.sum(axis=3)).astype(int)
    return (allowed.cumsum(axis=3) > rank[..., None]).argmax(axis=3)


def optimal_times(
    wanted: Search, bound: str | None, profiles: Profiles, required: np.ndarray, allowed: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The best schedules for each target; realizations whose clients are alike are searched once.

    Parameters
    ----------
    wanted, bound
        See `search`.
    profiles
        With realizations on the first axis.
    required, allowed
        What each time asks of the mechanism, and whether that is allowed, shape (realization, case, user, time).

    Returns
    -------
    Times, shape (realization, case, user); the objective there, and how many terms were evaluated, shape
    (realization, case).
    """
    flat = np.concatenate([values.reshape(len(required), -1) for values in profiles], axis=1)
    _, first, which = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    found = [
        [search(wanted, bound, profiles.at(r), *case) for case in zip(required[r], allowed[r], strict=True)]
        for r in first
    ]
    columns = (np.array([[case[part] for case in cases] for cases in found]) for part in range(3))
    return tuple(column[which.ravel()] for column in columns)


def search(
    wanted: Search, bound: str | None, clients: Profiles, required: np.ndarray, allowed: np.ndarray
) -> age_search.Found:
    """Best times of one realization's clients for one target, the objective there, how many terms were evaluated.

    Parameters
    ----------
    wanted
        What is minimized.
    bound
        The bound's form, `paired` or `separate`; None where the expectation is minimized.
    required, allowed
        What each time asks of the mechanism, and whether that is allowed, shape (user, time).
    """
    samples, sensitivity = clients.samples, clients.sensitivity_wh
    share, value_range = samples / samples.sum(), samples * sensitivity
    final_variance = clients.variance_wh2[:, -1:]
    adaptive = wanted.adaptive
    power = loss_difference.noise_power(share, age.laplace_scale(sensitivity, required)) if adaptive else 0.0

    def common_power(classical):
        scale = age.laplace_scale(sensitivity[:, 0], classical[..., None])
        return loss_difference.noise_power(share[:, 0], scale).sum(axis=-1)

    if wanted.bounded:
        penalty = PENALTIES[bound](share, value_range, clients.information_nats, clients.divergence_nats)
        cost = np.where(allowed, penalty + power, np.inf)
        times, value, evaluations = (
            age_search.best_separate(cost) if adaptive else age_search.best_common(cost, required, common_power)
        )
        offset = loss_difference.paired_offset(share, samples, final_variance).sum() if bound == "paired" else 0.0
        return times, value - offset, evaluations
    excess = loss_difference.sampling_excess(share, samples, clients.variance_wh2, final_variance)
    bias = share * (clients.mean_wh - clients.mean_wh[:, -1:])
    own = np.where(allowed, excess + power, np.inf)
    return age_search.enumerate_all(own, bias, required, None if adaptive else common_power)
