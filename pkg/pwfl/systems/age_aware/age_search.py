"""Searches for the best collection times: fast ones for sums over clients, and an enumeration of all schedules.

Arrays have shape (user, time), with time = 0..T. A cost is infinite at a time when a client may not collect. `required`
is the epsilon_C that each time requires of a mechanism shared by all clients; `common_cost` is a non-increasing
function of it. Each search returns the times, the minimum and the number of terms that it evaluated. Among equal
optima, searches for sums over clients choose the freshest data.
"""

from collections.abc import Callable
from functools import reduce

import numpy as np

Best = tuple[np.ndarray, float, int]


def best_separate(cost: np.ndarray) -> Best:
    """Find the times that minimize the sum of each client's `cost`.

    Each term belongs to one client, so the clients' separate minima are the optimum: N (T + 1) evaluations, not (T +
    1)^N.
    """
    times = _last_argmin(cost)
    return times, float(np.take_along_axis(cost, times[:, None], 1).sum()), cost.size


def best_common(cost: np.ndarray, required: np.ndarray, common_cost: Callable) -> Best:
    """Find the times that minimize the sum of each client's `cost` plus `common_cost` of the smallest `required`.

    Exact, in at most N^2 (T + 1) evaluations: the optimum's smallest `required` is one of N (T + 1) values. With each
    value as a floor, every client collects at its cheapest time that requires at least the floor. That schedule costs
    at most the floor's total, which at the optimum's floor is at most the optimum.
    """
    order = np.argsort(-required, axis=1, kind="stable")
    asked = np.take_along_axis(required, order, 1)
    cheapest = np.minimum.accumulate(np.take_along_axis(cost, order, 1), axis=1)
    floors = np.unique(required[np.isfinite(cost)])
    floors = floors[floors <= required.max(axis=1).min()]
    # The number of a client's times that require at least the floor.
    count = np.stack([row.size - np.searchsorted(row[::-1], floors, side="left") for row in asked])
    total = np.take_along_axis(cheapest, count - 1, 1).sum(axis=0) + common_cost(floors)
    best = int(total.argmin())
    times = _last_argmin(np.where(required >= floors[best], cost, np.inf))
    return times, float(total[best]), count.size


def enumerate_all(costs: np.ndarray, shared: np.ndarray, required: np.ndarray, common_cost: Callable | None) -> Best:
    """Minimize sum of `costs` + (sum of `shared`)^2 + common cost, if any, over all (T + 1)^N schedules."""
    total = _over_grid(np.add, costs) + _over_grid(np.add, shared) ** 2
    if common_cost is not None:
        total += common_cost(_over_grid(np.minimum, required))
    best = int(total.argmin())
    return np.array(np.unravel_index(best, total.shape)), float(total.ravel()[best]), total.size


def _over_grid(operation: np.ufunc, values: np.ndarray) -> np.ndarray:
    """Reduce `values` over clients by `operation`, for all schedules: (time of client 0, ..., time of client N - 1)."""
    return reduce(operation, np.ix_(*values))


def _last_argmin(values: np.ndarray) -> np.ndarray:
    return values.shape[1] - 1 - values[:, ::-1].argmin(axis=1)
