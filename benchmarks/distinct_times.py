"""Compute the cost of distinct upload times: minimal bounds if two clients may upload at one time, and if not.

Run as `python benchmarks/distinct_times.py`: prints rows of the table in docs/explanation/age_aware.md, for the
scenarios of `config/age_aware.yaml`; takes seconds.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
import yaml
from scipy.optimize import linear_sum_assignment

from pwfl import scenario
from pwfl.systems.age_aware import age, age_search, channel, loss_difference, schedule

CONFIG = Path(__file__).parents[1] / "config/age_aware.yaml"
RULES = ("adaptive", "constant")


def distinct_separate(cost: np.ndarray) -> tuple[np.ndarray, float]:
    """Solve the problem of `age_search.best_separate` with a distinct time per client: an assignment problem.

    Raises ValueError if the clients cannot all have a time.
    """
    clients, instants = cost.shape
    if clients > instants:  # the assignment would leave some clients without a time
        raise ValueError(f"infeasible: {clients} clients cannot have different ones of {instants} times")
    times = linear_sum_assignment(cost)[1]
    return times, float(np.take_along_axis(cost, times[:, None], 1).sum())


def distinct_common(cost: np.ndarray, required: np.ndarray, common_cost: Callable) -> tuple[np.ndarray, float]:
    """Solve the problem of `age_search.best_common` with a distinct time per client: an assignment problem per floor.

    Exact, as there: with the optimum's smallest `required` as floor, the best assignment to times that require at least
    the floor costs no more than the optimum. Raises ValueError if the clients cannot all have a time.
    """
    found = [distinct_separate(cost)]  # without a floor; under a high floor there may be none
    for floor in np.unique(required[np.isfinite(cost)]):
        try:
            found.append(distinct_separate(np.where(required >= floor, cost, np.inf)))
        except ValueError:
            break
    clients = np.arange(len(cost))
    values = [value + float(common_cost(required[clients, times].min())) for times, value in found]
    best = int(np.argmin(values))
    return found[best][0], values[best]


def compared(model, bound: str) -> Iterator[dict]:
    """Yield the bound's increase and both schedules' loss differences, for each noise rule and target of a scenario."""
    tables = channel.run(model, range(1))
    profiles = schedule.Profiles.from_tables(tables["users"], tables["links"])
    clients = schedule.Profiles(*(values[0] for values in profiles))
    for rule in RULES:
        for target in model.privacy.target_epsilons:
            required = age.required_epsilon(target, clients.total_variation)
            cost, common = schedule.costs(bound, rule, clients, required)
            if common is None:
                free, distinct = age_search.best_separate(cost)[:2], distinct_separate(cost)
            else:
                free = age_search.best_common(cost, required, common)[:2]
                distinct = distinct_common(cost, required, common)
            losses = [_loss(clients, times, required, rule) for times, _ in (free, distinct)]
            names = {"rule": rule, "target": target, "bound_increase_wh2": distinct[1] - free[1]}
            yield names | dict(zip(("loss_wh2", "distinct_loss_wh2"), losses, strict=True))


def _loss(clients: schedule.Profiles, times: np.ndarray, required: np.ndarray, rule: str) -> float:
    """Return the expected loss difference of a schedule, Wh^2."""

    def at(values: np.ndarray) -> np.ndarray:
        return np.take_along_axis(values, times[:, None], 1)[:, 0]

    samples, sensitivity = clients.samples[:, 0], clients.sensitivity_wh[:, 0]
    share, asked = samples / samples.sum(), at(required)
    power = loss_difference.noise_power(
        share, age.laplace_scale(sensitivity, asked.min() if rule == "constant" else asked)
    )
    variance, bias = (at(values) - values[:, -1] for values in (clients.variance_wh2, clients.mean_wh))
    return float(loss_difference.expected(share * bias, share**2 * variance / samples, power))


def rows() -> pl.DataFrame:
    """Return the smallest and largest growth of bound and loss difference over targets, per scenario and noise rule."""
    found = []
    for name, model in scenario.load(yaml.safe_load(CONFIG.read_text()), str(CONFIG)).scenarios.items():
        for row in compared(model, model.schedule.bound):
            found.append({"scenario": name, "bound": model.schedule.bound} | row)
    increase, factor = pl.col("bound_increase_wh2"), pl.col("distinct_loss_wh2") / pl.col("loss_wh2")
    groups = pl.DataFrame(found).group_by("scenario", "bound", "rule", maintain_order=True)
    return groups.agg(
        bound_least_wh2=increase.min(),
        bound_most_wh2=increase.max(),
        loss_least_factor=factor.min(),
        loss_most_factor=factor.max(),
    )


def lines() -> list[str]:
    """Return the rows of a Markdown table."""
    return [
        f"| `{name}` | {rule} | {least:.2f} to {most:.2f} | {fewest:.2f} to {highest:.2f} |"
        for name, _, rule, least, most, fewest, highest in rows().iter_rows()
    ]


if __name__ == "__main__":
    print(*lines(), sep="\n")
