"""Schedulers and noise rules of the system `age_aware`, declared only here."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from pwfl.system import Scheme, deferred, list_statuses

if TYPE_CHECKING:
    import polars as pl

    from pwfl.systems.age_aware import noise, schedule
    from pwfl.systems.age_aware.parameters import AgeAware
    from pwfl.systems.age_aware.schedule import Cases, Times
else:
    noise, schedule = deferred(__package__, "noise schedule")

SWEPT_CLIENTS, SWEPT_EPSILON = 3, 0.3  # of the scheduler `sweep`: number of clients swept in turn, and target (Fig. 2)


@dataclass(frozen=True, kw_only=True)
class Scheduler(Scheme):
    """A way to choose collection times.

    Attributes
    ----------
    load
        Returns the function of the scenario, its cases and the scheduler itself.
    sweeps
        Whether its cases are the steps of a sweep, not the privacy targets.
    minimizes
        The objective: a `bound` on the loss difference, or its exact `expectation`; None: there is no search.
    rule
        The noise rule that the search assumes; None: the noise was fixed before, and is no part of the objective.
    """

    load: "Callable[[], Callable[[AgeAware, Cases, Scheduler], Times]]"
    sweeps: bool = False
    minimizes: Literal["bound", "expectation"] | None = None
    rule: str | None = None


@dataclass(frozen=True, kw_only=True)
class NoiseRule(Scheme):
    """A rule for each client's classical epsilon; `load` returns the function of the required epsilon."""

    load: "Callable[[], Callable[[pl.Expr], pl.Expr]]"


# Makes the schedulers that minimize the loss difference or a bound on it.
_search = partial(Scheduler, load=lambda: schedule.search_times, statuses=("optimal",))
SCHEDULERS = {
    "random": Scheduler(description="random times", load=lambda: schedule.draw_times),
    "fixed": Scheduler(description="fixed times", load=lambda: schedule.take_times),
    "fresh": Scheduler(description="all data collected at T", load=lambda: schedule.collect_last),
    "sweep": Scheduler(description="the sweep of Fig. 2", load=lambda: schedule.sweep_times, sweeps=True),
    "bound_constant": _search(
        description="minimum of the bound under constant noise", minimizes="bound", rule="constant"
    ),
    "bound_adaptive": _search(
        description="minimum of the bound under adaptive noise", minimizes="bound", rule="adaptive"
    ),
    "noise_first": _search(
        description="minimum of the bound with the noise fixed first (the paper's scheme 3, literally)",
        minimizes="bound",
    ),
    "simulated_constant": _search(
        description="minimum of the expected loss difference under constant noise",
        minimizes="expectation",
        rule="constant",
    ),
    "simulated_adaptive": _search(
        description="minimum of the expected loss difference under adaptive noise",
        minimizes="expectation",
        rule="adaptive",
    ),
}
NOISES = {
    "constant": NoiseRule(description="one epsilon_C for all clients", load=lambda: noise.require_same),
    "adaptive": NoiseRule(
        description="for each client the epsilon_C that its age requires (4)", load=lambda: noise.require_own
    ),
    "none": NoiseRule(description="no noise: a non-private baseline", load=lambda: noise.add_none),
}
SCHEDULE_STATUSES = list_statuses(SCHEDULERS, "own")
NOISE_STATUSES = list_statuses(NOISES, "own")
