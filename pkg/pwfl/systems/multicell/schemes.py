"""Declarations of all schedulers and noise schemes of the system `multicell`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pwfl.system import Scheme, deferred, list_statuses

if TYPE_CHECKING:
    import numpy as np

    from pwfl.systems.multicell import noise, schedule
    from pwfl.systems.multicell.beyond import allocation, joint
    from pwfl.systems.multicell.interference import Uplink
    from pwfl.systems.multicell.noise import Computed, Given
    from pwfl.systems.multicell.parameters import Multicell
    from pwfl.systems.multicell.start_values import StartValues
else:
    allocation, joint, noise, schedule = deferred(__package__, "beyond.allocation beyond.joint noise schedule")


@dataclass(frozen=True, kw_only=True)
class Scheduler(Scheme):
    """A method that assigns resource blocks to users in a coherence interval.

    Attributes
    ----------
    load
        Returns the function of the scenario, the interval's number, the uplink, samples (realization, user) and start
        values. The function returns each user's block, -1 for none, shape (realization, user), and the status of each
        cell's program, shape (realization, cell).
    uses_start_noise
        Whether it uses the noise of the start values, for which (21) must hold.
    made_for
        Noise scheme for which it schedules, by the least noise of (22); with more noise, (21) may be violated.
    on_air
        Whether all active users send at once, over the air, without individual resource blocks, powers and rates.
    """

    load: "Callable[[], Callable[[Multicell, int, Uplink, np.ndarray, StartValues], tuple[np.ndarray, np.ndarray]]]"
    uses_start_noise: bool = False
    made_for: str | None = None
    on_air: bool = False


@dataclass(frozen=True, kw_only=True)
class NoiseScheme(Scheme):
    """A method that determines the noise of scheduled users.

    Attributes
    ----------
    load
        Returns the function of the scenario and the inputs (`noise.Given`).
    is_limited
        Whether (21) or (22) limits it; it then assumes uploads of all records' gradients.
    bound
        Problem that gives a lower bound on the objective: schedules and powers are free; the noise is `given`, or
        `chosen` as well. None: the noise does not follow from (20)-(22), and there is no bound.
    calibrated
        Whether it is calibrated to a target epsilon; other noise is in the units of `privacy.bounds`.
    """

    load: "Callable[[], Callable[[Multicell, Given], Computed]]"
    is_limited: bool = False
    bound: Literal["given", "chosen"] | None = None
    calibrated: bool = False


SCHEDULERS = {
    "random": Scheduler(description="Algorithm 2: shuffled round-robin", load=lambda: schedule.take_start_blocks),
    "optimal": Scheduler(
        description="Algorithm 3: cell by cell",
        load=lambda: schedule.optimal_blocks,
        statuses=("assignment", "integer_program", "infeasible_kept"),
        uses_start_noise=True,
    ),
    "joint": Scheduler(
        description="all cells together, for the noise of the start values",
        load=lambda: joint.maximize_value,
        statuses=("proven", "searched"),
        uses_start_noise=True,
    ),
    "joint_noise": Scheduler(
        description="all cells together with the noise that (36) will add",
        load=lambda: joint.maximize_value_with_noise,
        statuses=("proven", "searched"),
        made_for="optimal",
    ),
    "joint_snr": Scheduler(
        description="all cells together, for the largest sum of K_i^2",
        load=lambda: joint.maximize_snr,
        statuses=("proven", "searched"),
        made_for="equal_max",
    ),
    "inversion": Scheduler(
        description="over the air: all users whose gain permits channel inversion",
        load=lambda: schedule.invert_channels,
        on_air=True,
    ),
}
NOISES = {
    "random": NoiseScheme(
        description="noise of the start values", load=lambda: noise.take_start_noise, is_limited=True, bound="given"
    ),
    "optimal": NoiseScheme(
        description="optimal noise (36)", load=lambda: noise.minimize_noise, is_limited=True, bound="chosen"
    ),
    "equal_sum": NoiseScheme(
        description="the sum of leakages of (36), divided equally among users",
        load=lambda: noise.reallocate(allocation.share_sum),
        is_limited=True,
    ),
    "equal_max": NoiseScheme(
        description="the maximum leakage of (36) for every user",
        load=lambda: noise.reallocate(allocation.share_maximum),
        is_limited=True,
    ),
    "fill_up": NoiseScheme(
        description="the maximum leakage of (36) for as many users with most records as its sum permits",
        load=lambda: noise.reallocate(allocation.fill_up),
        is_limited=True,
    ),
    "target": NoiseScheme(
        description="noise calibrated to `privacy.target_epsilon` for every scheduled user; (21) and (22) may be "
        "violated",
        load=lambda: noise.equalize_epsilon,
        calibrated=True,
    ),
    "none": NoiseScheme(description="no noise: a non-private baseline", load=lambda: noise.add_none),
}
PROGRAM_STATUSES = list_statuses(SCHEDULERS, "own")
NOISE_STATUSES = list_statuses(NOISES, "own", "infeasible", "no_user_scheduled")
LIMITED = tuple(name for name, scheme in NOISES.items() if scheme.is_limited)
CALIBRATED = tuple(name for name, scheme in NOISES.items() if scheme.calibrated)
BY_START_NOISE = tuple(name for name, scheduler in SCHEDULERS.items() if scheduler.uses_start_noise)
BY_LEAST_NOISE = tuple(name for name, scheduler in SCHEDULERS.items() if scheduler.made_for)
