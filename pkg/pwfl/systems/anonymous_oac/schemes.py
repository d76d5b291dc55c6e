"""Schedulers and noise schemes of the system `anonymous_oac`, and interpretations of the observer's knowledge.

Schemes are declared only here.
"""

from dataclasses import dataclass
from typing import NamedTuple

from pwfl.system import Scheme, list_statuses


class Reading(NamedTuple):
    """An interpretation: whether an observer knows who takes part, and all that the strength of the noise reveals."""

    participation: bool
    noise: bool


SUM, UPLOAD, READ = "sum", "upload", "noise read"  # observers of the sum of uploads, of each; see `receive.observed_by`
READINGS = {
    "anonymous": Reading(participation=False, noise=False),
    "identified": Reading(participation=True, noise=False),
    "anonymous_read": Reading(participation=False, noise=True),
    "identified_read": Reading(participation=True, noise=True),
    "scheduled": Reading(participation=True, noise=True),  # the participation that occurred, not its distribution
}


@dataclass(frozen=True, kw_only=True)
class Scheduler(Scheme):
    """How participants transmit: all at once, or one after the other."""

    in_turn: bool = False


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """How devices add noise.

    Attributes
    ----------
    reading
        Key in READINGS of the observer's assumed knowledge, for which the noise suffices.
    local
        Whether each device adds enough noise to its own update; if not, all devices together add enough to their sum.
    fixed
        Whether the noise's strength does not follow the batch's size.
    occurred
        Whether accounting uses the participation that occurred, which has no known distribution: for user-defined
        functions.
    """

    reading: str
    local: bool = False
    fixed: bool = False
    occurred: bool = False


@dataclass(frozen=True, kw_only=True)
class NoiseScheme(Mechanism, Scheme):
    """A noise scheme of a config.

    Attributes
    ----------
    sampling
        Description of the sampling that its epsilons account for.
    is_given
        Whether the configured multiplier is for this scheme; others use the multiplier that gives the same epsilon.
    is_silent
        Whether devices add no noise.
    goes_with_functions
        Whether it goes with a user-defined scheduler: its accounting does not require network.participation.
    """

    sampling: str
    is_given: bool = False
    is_silent: bool = False
    goes_with_functions: bool = False


SCHEDULERS = {
    "over_the_air": Scheduler(description="all participants at once; the channel adds their messages"),
    "orthogonal": Scheduler(description="one participant after the other; the server sees each message", in_turn=True),
}
HIDDEN = "a record is in a batch with probability p q; nobody can infer which devices take part"
SEEN = "a device takes part with probability p, seen by the observer; then a record is in its batch with probability q"
NOISES: dict[str, NoiseScheme] = {
    "anonymous": NoiseScheme(
        description="calibrated with participation hidden",
        reading="anonymous",
        sampling=f"{HIDDEN}, nor from the noise how many records",
        is_given=True,
    ),
    "identified": NoiseScheme(
        description="calibrated with participation known",
        reading="identified_read",
        sampling=f"{SEEN}; the noise tells the size of all batches together",
    ),
    "local": NoiseScheme(
        description="each device calibrates for itself",
        reading="identified_read",
        sampling=f"{SEEN}, whose size its noise tells",
        local=True,
    ),
    "anonymous_fixed": NoiseScheme(
        description="as `anonymous`, with a strength that does not reveal the batch size",
        reading="anonymous_read",
        sampling=f"{HIDDEN}, unless none does",
        fixed=True,
    ),
    "identified_fixed": NoiseScheme(
        description="as `identified`, with a strength that does not reveal the batch size",
        reading="identified_read",
        sampling=SEEN,
        fixed=True,
        goes_with_functions=True,
    ),
    "local_fixed": NoiseScheme(
        description="as `local`, with a strength that does not reveal the batch size",
        reading="identified_read",
        sampling=SEEN,
        local=True,
        fixed=True,
    ),
    "none": NoiseScheme(
        description="no noise: a non-private baseline",
        reading="anonymous",
        sampling=HIDDEN,
        is_silent=True,
        goes_with_functions=True,
    ),
}
SCHEDULE_STATUSES = list_statuses(SCHEDULERS, "own")
NOISE_STATUSES = ("given", "calibrated", "no_guarantee", "no_noise", "own")  # how multipliers are found

# The last two are in the table `noise` if a user-defined function decides who takes part, or how much noise there is.
# The observer is then assumed to know the participation that occurred.
MECHANISMS: dict[str, Mechanism] = {
    **NOISES,
    "scheduled": Mechanism(reading="scheduled", fixed=True, occurred=True),
    "scheduled_local": Mechanism(reading="scheduled", local=True, fixed=True, occurred=True),
}
