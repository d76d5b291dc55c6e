"""Parts beyond the paper, and the pairs of them that are not supported, with their error messages.

The module `schemes` declares what schemes support.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from pwfl.scenario.values import value_of
from pwfl.systems.multicell.parameters import Multicell
from pwfl.systems.multicell.recipes import RECIPES
from pwfl.systems.multicell.schemes import NOISES, SCHEDULERS

Used = Callable[[Multicell], str | None]  # returns a part as a config writes it, if a scenario uses it


def used(key: str, *without: object) -> Used:
    """Return a part that a parameter selects, unless its value is in `without`, 0 or null."""

    def write(scenario: Multicell) -> str | None:
        value = value_of(scenario, key)
        if not value or value in without:
            return None
        return f"{key}: {value:g}" if isinstance(value, float) else f"{key}: {value}"

    return write


def inverse_variance(scenario: Multicell) -> str | None:
    """Return the recipe as a config writes it if it has inverse-variance weighting; otherwise None."""
    recipe = scenario.training.recipe
    return f"training.recipe: {recipe}" if RECIPES[recipe].inverse_variance else None


def only(key: str, value: str) -> Used:
    """Return a part that a parameter selects by one value."""
    return lambda scenario: f"{key}: {value}" if value_of(scenario, key) == value else None


VOTES, DIGITAL, SERVER = only("radio.air", "majority"), only("radio.air", "digital"), only("privacy.observer", "server")
AIR, LEARNER, SAMPLING = used("radio.air", "digital"), used("training.learner", "gradients"), used("data.sampling")
BITS, DROPOUTS, COLLUDERS = used("training.bits"), used("privacy.dropouts"), used("privacy.colluders")
PER_USER, MODEL = used("training.clipping", "per_sample"), used("training.model", "dense")
STEP, COHERENCE = used("training.step", "constant"), used("radio.coherence_rounds")


class Unsupported(NamedTuple):
    """Parts that do not support any of some others; `why` is a message with both, and a remedy."""

    parts: tuple[Used, ...]
    others: tuple[Used, ...]
    why: str


WHOLE_GRADIENTS = "{part}: {other} requires uploads of all records' gradients; leave one of the two out"
UNSUPPORTED = (
    Unsupported(
        (BITS,),
        (MODEL, PER_USER),
        "{part} requires `model: dense` and `clipping: per_sample`, since sums of integers are of samples' gradients "
        "of a fully connected network; {other} is not supported",
    ),
    Unsupported((AIR,), (BITS, DROPOUTS), WHOLE_GRADIENTS),
    Unsupported((LEARNER, SAMPLING), (BITS, PER_USER, DROPOUTS), WHOLE_GRADIENTS),
    Unsupported(
        (SAMPLING,),
        (LEARNER,),
        "{part} samples the records of a round, but {other} uses mini-batches of all records, whose update one record "
        "can change entirely, so sampling does not amplify privacy; leave one of them out",
    ),
    Unsupported(
        (SAMPLING,),
        (COHERENCE,),
        "{part} is accounted for only if all rounds are alike, not with {other}; leave one of them out",
    ),
    Unsupported(
        (SAMPLING,),
        (inverse_variance,),
        "{part} requires a training.recipe that weighs all records alike, such as `paper`, not {other}",
    ),
    Unsupported(
        (VOTES,),
        (STEP, LEARNER, PER_USER, MODEL),
        "{part}: each vote is the sign of a sum of clipped gradients and counts 1, however large its noise; {other} is "
        "not supported; use `step: constant`, `learner: gradients`, `clipping: per_sample` and `model: dense`",
    ),
    Unsupported(
        (AIR,),
        (COLLUDERS, inverse_variance),
        "{part}: {other} requires uploads, which the server weights; remove {other} or use `air: digital`",
    ),
    Unsupported(
        (SERVER,),
        (DIGITAL,),
        "{part}: receives, of digital uploads, each of them or sums of secure aggregation; use `user`, `cell` or "
        "`network`, or set another radio.air",
    ),
)
AIR_KEYS = {"antennas": "antennas", "subchannels": "broadband", "truncation": "broadband"}  # the air that reads each


def idle(scenario: Multicell) -> dict[str, str]:
    """List parameters of other airs than the scenario's, and why they have no effect, as `checks.idle`."""
    air = scenario.radio.air
    return {f"radio.{key}": f"radio.air: {air}" for key, reader in AIR_KEYS.items() if reader != air}


def list_used(scenario: Multicell, parts: Iterable[Used]) -> list[str]:
    """List the parts that a scenario uses, as a config writes them."""
    return [text for write in parts if (text := write(scenario))]


def check_pairs(scenario: Multicell) -> None:
    """Raise ValueError for the first two parts of a scenario that are not supported together."""
    for unsupported in UNSUPPORTED:
        for part in list_used(scenario, unsupported.parts):
            for other in list_used(scenario, unsupported.others):
                raise ValueError(unsupported.why.format(part=part, other=other))


def check_schemes(scenario: Multicell) -> None:
    """Raise ValueError for the first scheme with a noise or scheduler that a part of the scenario does not support."""
    part = next(iter(list_used(scenario, (AIR, LEARNER, SAMPLING))), None)
    on_air = AIR(scenario)
    for scheme in scenario.schemes:
        noise, scheduler = NOISES.get(scheme.noise), SCHEDULERS.get(scheme.scheduler)  # None: a user-defined function
        if part and noise and noise.is_limited:
            raise ValueError(
                f"{part}: the scheme {scheme.name!r} has `noise: {scheme.noise}`, whose constraints, (21) and (22) of "
                "the paper (docs/explanation/multicell.md), assume uploads of all records' gradients; use "
                "`noise: target`, `none` or a user-defined function"
            )
        if on_air and scheduler and not scheduler.on_air:
            raise ValueError(
                f"{on_air}: the scheme {scheme.name!r} has `scheduler: {scheme.scheduler}`, which assigns resource "
                "blocks and powers for uploads; use `scheduler: inversion` or a user-defined function"
            )
        if not on_air and scheduler and scheduler.on_air:
            raise ValueError(
                f"schemes: {scheme.name!r} has `scheduler: {scheme.scheduler}`, which assigns no resource blocks, but "
                "radio.air: digital needs them; set another radio.air"
            )
