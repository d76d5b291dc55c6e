"""The noise schemes of the system `anonymous_oac`, and what an observer may know of the sampling."""

from typing import NamedTuple


class Reading(NamedTuple):
    """What an observer of a round knows: which devices take part; all that the strength of the noise tells."""

    participation: bool
    noise: bool


SUM, UPLOAD, READ = (
    "sum",
    "upload",
    "noise read",
)  # observers: of the sum of all uploads, of each upload; see `observed`
READINGS = {
    "anonymous": Reading(participation=False, noise=False),
    "identified": Reading(participation=True, noise=False),
    "anonymous_read": Reading(participation=False, noise=True),
    "identified_read": Reading(participation=True, noise=True),
    "scheduled": Reading(participation=True, noise=True),  # of the participation that occurred, not of its law
}


class NoiseScheme(NamedTuple):
    """How devices add noise, enough against a `reading`: each to an update of its own (`local`), or all to their sum.

    The strength of `fixed` noise does not follow the batch's size.
    """

    reading: str
    local: bool = False
    fixed: bool = False

    @property
    def tells(self) -> frozenset[str]:
        """What uploads tell of batches, by names of `batches.known`, where participation is as hidden as it takes."""
        told = {"participation"} if READINGS[self.reading].participation else set()
        if not self.fixed:
            told |= {"sizes" if self.local else "size"}
        return frozenset(told)


NOISES = {
    "anonymous": NoiseScheme("anonymous"),
    "identified": NoiseScheme("identified_read"),
    "local": NoiseScheme("identified_read", local=True),
    "anonymous_fixed": NoiseScheme("anonymous_read", fixed=True),
    "identified_fixed": NoiseScheme("identified_read", fixed=True),
    "local_fixed": NoiseScheme("identified_read", local=True, fixed=True),
    "none": NoiseScheme("anonymous"),
}

# What the table `noise` has in their place where a function of the user's own decides who takes part, or how much noise
# there is, so that the participation that occurred is what is known.
SCHEDULED = {
    "scheduled": NoiseScheme("scheduled", fixed=True),
    "scheduled_local": NoiseScheme("scheduled", local=True, fixed=True),
}
MECHANISMS = NOISES | SCHEDULED
SCHEDULABLE = ("identified_fixed", "none")  # that go with a scheduler of the user's own
