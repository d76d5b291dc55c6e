"""Compare searches for the best collection times with an enumeration of all schedules: one thread, equal optima."""

from measure import pin_threads, row, seconds

pin_threads(1)

import numpy as np  # noqa: E402

from pwfl.systems.age_aware import age_search  # noqa: E402

REPEATS = 50  # searches per measurement: a single one is too short to be timed


def program(clients: int, times: int):
    """Draw costs and required epsilons, shape (client, time): older data require less noise and cost more."""
    generator = np.random.default_rng(clients)
    penalty = np.sort(generator.exponential(1, (clients, times)), axis=1)[:, ::-1]
    required = np.sort(generator.uniform(0.1, 5, (clients, times)), axis=1)[:, ::-1]
    return penalty, required


def common_cost(required):
    """Return the noise power of a mechanism that all clients share, up to a factor."""
    return 1 / required**2


def constant(clients: int, times: int, target: float) -> dict:
    """Measure the search for one mechanism that all clients share."""
    penalty, required = program(clients, times)
    nothing = np.zeros_like(penalty)
    found, all_ = (
        age_search.best_common(penalty, required, common_cost)[1],
        age_search.enumerate_all(penalty, nothing, required, common_cost)[1],
    )
    np.testing.assert_allclose(found, all_)
    fast, slow = seconds(
        lambda: [age_search.best_common(penalty, required, common_cost) for _ in range(REPEATS)],
        lambda: age_search.enumerate_all(penalty, nothing, required, common_cost),
    )
    name = f"best schedule, constant noise, {clients} clients, {times} times"
    return row(name, "all schedules at once", fast / REPEATS, slow, target)


def adaptive(clients: int, times: int, target: float) -> dict:
    """Measure the search for a separate mechanism per client."""
    penalty, required = program(clients, times)
    cost, nothing = penalty + common_cost(required), np.zeros_like(penalty)
    np.testing.assert_allclose(
        age_search.best_separate(cost)[1], age_search.enumerate_all(cost, nothing, required, None)[1]
    )
    fast, slow = seconds(
        lambda: [age_search.best_separate(cost) for _ in range(REPEATS)],
        lambda: age_search.enumerate_all(cost, nothing, required, None),
    )
    name = f"best schedule, adaptive noise, {clients} clients, {times} times"
    return row(name, "all schedules at once", fast / REPEATS, slow, target)


def growth(search: str, target: float) -> dict:
    """Measure how much longer a search lasts for 100 clients and times than for 10 of each."""
    times = []
    for size in (100, 10):
        penalty, required = program(size, size)
        times.append(
            {
                "constant": lambda p=penalty, r=required: age_search.best_common(p, r, common_cost),
                "adaptive": lambda p=penalty, r=required: age_search.best_separate(p + common_cost(r)),
            }[search]
        )
    large, small = seconds(*(lambda f=f: [f() for _ in range(5)] for f in times))
    name = f"best schedule, {search} noise, 100 clients, 100 times"
    return row(name, "10 clients, 10 times", large / 5, small / 5, target, better="lower")


def rows() -> list[dict]:
    """Measure all rows of this module."""
    return [
        adaptive(4, 40, 100),
        constant(4, 40, 50),
        growth("adaptive", 100),
        # N^2 (T + 1) evaluations at most: about a thousand times as many.
        growth("constant", 2000),
    ]
