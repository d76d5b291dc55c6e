"""The noise schemes of the system `anonymous_oac`, and what an observer may know of the sampling."""

from typing import NamedTuple


class Reading(NamedTuple):
    """What an observer of a round knows besides the sampling rates; see `batches.readings`.

    `participation`: which devices take part. `noise`: all that the strength of the noise tells.
    """

    participation: bool
    noise: bool


READINGS = {
    "anonymous": Reading(participation=False, noise=False),
    "identified": Reading(participation=True, noise=False),
    "anonymous_read": Reading(participation=False, noise=True),
    "identified_read": Reading(participation=True, noise=True),
}


class NoiseScheme(NamedTuple):
    """How devices add noise, enough against a `reading`.

    `local`: each device sends, and protects, an update of its own; else all share the noise of their sum. `fixed`: the
    noise's strength does not follow the batch's size.
    """

    reading: str
    local: bool = False
    fixed: bool = False


NOISES = {
    "anonymous": NoiseScheme("anonymous"),
    "identified": NoiseScheme("identified_read"),
    "local": NoiseScheme("identified_read", local=True),
    "anonymous_fixed": NoiseScheme("anonymous_read", fixed=True),
    "identified_fixed": NoiseScheme("identified_read", fixed=True),
    "local_fixed": NoiseScheme("identified_read", local=True, fixed=True),
}
