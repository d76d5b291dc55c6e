"""Scheduler and noise schemes of the system `random_orthogonalization`, which are declared only here."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pwfl.system import Scheme, Tables, deferred, list_statuses

if TYPE_CHECKING:
    from pwfl.systems.random_orthogonalization import noise, schedule
    from pwfl.systems.random_orthogonalization.noise import Deviations
    from pwfl.systems.random_orthogonalization.parameters import RandomOrthogonalization
else:
    noise, schedule = deferred(__package__, "noise schedule")


@dataclass(frozen=True, kw_only=True)
class Scheduler(Scheme):
    """A choice of active users: `load` returns the function of scenario and tables that makes the stage's tables."""

    load: "Callable[[], Callable[[RandomOrthogonalization, Tables], Tables]]"


@dataclass(frozen=True, kw_only=True)
class NoiseScheme(Scheme):
    """A choice of users' noise: `load` returns the function of scenario and tables that returns `Deviations`."""

    load: "Callable[[], Callable[[RandomOrthogonalization, Tables], Deviations]]"


SCHEDULERS = {
    "all": Scheduler(description="all users transmit in every round", load=lambda: schedule.schedule_all),
}
NOISES = {
    "fixed": NoiseScheme(
        description="every user adds noise of `privacy.noise_variance`, or calibrated to `privacy.target_epsilon`",
        load=lambda: noise.add_fixed,
        statuses=("fixed", "target", "receiver_noise_suffices"),
    ),
    "none": NoiseScheme(description="no noise: a non-private baseline", load=lambda: noise.add_none),
}
SCHEDULE_STATUSES = list_statuses(SCHEDULERS, "own")
NOISE_STATUSES = list_statuses(NOISES, "own")
