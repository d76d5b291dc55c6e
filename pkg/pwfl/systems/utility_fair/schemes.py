"""Schedulers and noise schemes of the system `utility_fair`, declared only here."""

from dataclasses import dataclass

from pwfl.system import Scheme, list_statuses


@dataclass(frozen=True, kw_only=True)
class Scheduler(Scheme):
    """A policy that sets a device's power: in training, round by round, or in the schedule, at full power."""

    decides_in_training: bool


@dataclass(frozen=True, kw_only=True)
class NoiseScheme(Scheme):
    """The noise of the devices' copies of the model.

    Attributes
    ----------
    follows_deviation
        Whether a device that deviates more gets more noise (14).
    one_vector
        Whether all devices share one draw of noise.
    is_silent
        Whether there is no noise, in uploads neither.
    """

    follows_deviation: bool = False
    one_vector: bool = False
    is_silent: bool = False


SCHEDULERS = {
    "utility": Scheduler(
        description="maximum utility (Theorem 2)", decides_in_training=True, statuses=("chosen_in_training",)
    ),
    "benchmark": Scheduler(
        description="full power, and as many iterations as fit", decides_in_training=False, statuses=("full_power",)
    ),
}
NOISES = {
    "fair": NoiseScheme(description="by their deviation (14)", follows_deviation=True),
    "independent": NoiseScheme(description="equal for all devices, drawn independently"),
    "shared": NoiseScheme(
        description="equal for all devices, one draw for all, as the paper words its benchmark", one_vector=True
    ),
    "none": NoiseScheme(description="no noise, also in uploads: a non-private baseline", is_silent=True),
}
OWN = NoiseScheme(description="")  # of a user-defined function
SCHEDULE_STATUSES = list_statuses(SCHEDULERS, "least_effort", "always_out", "own")
NOISE_STATUSES = list_statuses(NOISES, "own")
