"""Searches for the best collection times: fast ones for sums over clients, and the enumeration of all.

Arrays have shape (user, time), time = 0..T; a cost is infinite where a client may not collect. Each search
returns the times, the minimum and how many terms it evaluated. Among equal optima those of sums over clients
take the freshest data.
"""

from collections.abc import Callable
from functools import reduce

import numpy as np

Found = tuple[np.ndarray, float, int]


def best_separate(cost: np.ndarray) -> Found:
    """Times that minimize the sum of each client's `cost`.

    No term belongs to two clients, so the clients' own minima are the optimum: N (T + 1) evaluations, not
    (T + 1)^N.

    Examples
    --------
    >>> times, value, evaluations = best_separate(np.array([[3.0, 1.0, 2.0], [0.0, 4.0, np.inf]]))
    >>> times.tolist(), value, evaluations
    ([1, 0], 1.0, 6)
    """
    times = _last_argmin(cost)
    return times, float(np.take_along_axis(cost, times[:, None], 1).sum()), cost.size


def best_common(cost: np.ndarray, required: np.ndarray, common_cost: Callable) -> Found:
    """Times that minimize the sum of each client's `cost` plus `common_cost` of the least `required` among them.

    Exact, in at most N^2 (T + 1) evaluations: the optimum's least `required` is one of N (T + 1) values. With
    each as a floor, every client takes its cheapest time that asks for no less. That schedule costs no more than
    its floor says, and at the optimum's floor no more than the optimum.

    Parameters
    ----------
    cost
        Each client's own, shape (user, time).
    required
        What its age asks of a mechanism that all share, shape (user, time).
    common_cost
        A function of an array of values of `required`, which must not increase in them.
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


def enumerate_all(own: np.ndarray, shared: np.ndarray, required: np.ndarray, common_cost: Callable | None) -> Found:
    """Times that minimize sum of `own` + (sum of `shared`)^2 + common cost over all (T + 1)^N schedules.

    Parameters
    ----------
    own, shared
        Each client's terms, shape (user, time).
    required, common_cost
        As in `best_common`; None: there is no common cost.
    """
    total = _over_grid(np.add, own) + _over_grid(np.add, shared) ** 2
    if common_cost is not None:
        total += common_cost(_over_grid(np.minimum, required))
    best = int(total.argmin())
    return np.array(np.unravel_index(best, total.shape)), float(total.ravel()[best]), total.size


def _over_grid(operation: np.ufunc, values: np.ndarray) -> np.ndarray:
    """`operation` over clients for every schedule, shape (time of client 0, ..., time of client N - 1)."""
    clients = len(values)
    along_axes = [np.expand_dims(row, [k for k in range(clients) if k != user]) for user, row in enumerate(values)]
    return reduce(operation, along_axes)


def _last_argmin(values: np.ndarray) -> np.ndarray:
    return values.shape[1] - 1 - values[:, ::-1].argmin(axis=1)
