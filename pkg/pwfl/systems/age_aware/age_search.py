"""Searches for the best collection times: fast ones for sums over clients, and the enumeration of all.

Arrays have shape (user, time), time = 0..T; a cost is infinite where a client may not collect. `required` is what each
time asks of a mechanism that all clients share, `common_cost` a function of values of it that must not increase in
them. Each search returns the times, the minimum and how many terms it evaluated. Among equal optima those of sums over
clients take the freshest data.
"""

from collections.abc import Callable
from functools import reduce

import numpy as np

Best = tuple[np.ndarray, float, int]


def best_separate(cost: np.ndarray) -> Best:
    """Times that minimize the sum of each client's `cost`.

    No term belongs to two clients, so the clients' own minima are the optimum: N (T + 1) evaluations, not (T + 1)^N.
    """
    times = _last_argmin(cost)
    return times, float(np.take_along_axis(cost, times[:, None], 1).sum()), cost.size


def best_common(cost: np.ndarray, required: np.ndarray, common_cost: Callable) -> Best:
    """Times that minimize the sum of each client's `cost` plus `common_cost` of the least `required` among them.

    Exact, in at most N^2 (T + 1) evaluations: the optimum's least `required` is one of N (T + 1) values. With
    each as a floor, every client takes its cheapest time that asks for no less. That schedule costs no more than
    its floor says, and at the optimum's floor no more than the optimum.
    """
    order = np.argsort(-required, axis=1, kind="stable")
    asked = np.take_along_axis(required, order, 1)
    cheapest = np.minimum.accumulate(np.take_along_axis(cost, order, 1), axis=1)
    floors = np.unique(required[np.isfinite(cost)])
    floors = floors[floors <= required.max(axis=1).min()]
    # How many of a client's times ask for at least the floor.
    count = np.stack([row.size - np.searchsorted(row[::-1], floors, side="left") for row in asked])
    total = np.take_along_axis(cheapest, count - 1, 1).sum(axis=0) + common_cost(floors)
    best = int(total.argmin())
    times = _last_argmin(np.where(required >= floors[best], cost, np.inf))
    return times, float(total[best]), count.size


def enumerate_all(costs: np.ndarray, shared: np.ndarray, required: np.ndarray, common_cost: Callable | None) -> Best:
    """Times that minimize sum of `costs` + (sum of `shared`)^2 + common cost, if any, over all (T + 1)^N schedules."""
    total = _over_grid(np.add, costs) + _over_grid(np.add, shared) ** 2
    if common_cost is not None:
        total += common_cost(_over_grid(np.minimum, required))
    best = int(total.argmin())
    return np.array(np.unravel_index(best, total.shape)), float(total.ravel()[best]), total.size


def _over_grid(operation: np.ufunc, values: np.ndarray) -> np.ndarray:
    """`operation` over clients for every schedule, shape (time of client 0, ..., time of client N - 1)."""
    return reduce(operation, np.ix_(*values))


def _last_argmin(values: np.ndarray) -> np.ndarray:
    return values.shape[1] - 1 - values[:, ::-1].argmin(axis=1)
