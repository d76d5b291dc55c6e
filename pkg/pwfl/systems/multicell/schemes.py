"""The noise schemes of the system `multicell`; what they are in words, `parameters` says."""

from typing import Literal, NamedTuple


class NoiseScheme(NamedTuple):
    """What is asked of a noise scheme: whether (21) or (22) limits it, and what its objective compares to.

    `bound` is of the problem that leaves open schedules and powers, for `given` noise, or with `chosen` noise as well;
    None: the noise is not what (20)-(22) ask for, and nothing bounds its objective.
    """

    is_limited: bool
    bound: Literal["given", "chosen"] | None = None


NOISES = {
    "random": NoiseScheme(is_limited=True, bound="given"),
    "optimal": NoiseScheme(is_limited=True, bound="chosen"),
    "equal_sum": NoiseScheme(is_limited=True),
    "equal_max": NoiseScheme(is_limited=True),
    "fill_up": NoiseScheme(is_limited=True),
    "target": NoiseScheme(is_limited=False),
    "none": NoiseScheme(is_limited=False),
}
LIMITED = tuple(name for name, scheme in NOISES.items() if scheme.is_limited)
