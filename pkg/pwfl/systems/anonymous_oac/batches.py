"""Distributions of a record's probability to be in a round's batch, as an observer knows it (`sampled.Rates`).

Devices take part with probability `participation`. A participant adds each of its `samples` records to its batch with
probability `sampling`, all independently. If the strength of the noise follows the batch's size b, it reveals b to an
observer of thousands of coordinates. Given b, all sets of b of the n eligible records are equally likely, so a record
is in the batch with probability b / n.
"""

import numpy as np
from scipy.stats import binom

from pwfl.privacy.sampled import Rates
from pwfl.privacy.users import Messages
from pwfl.systems.anonymous_oac.schemes import READINGS, Mechanism

NODES = 64  # largest number of rates of a distribution; more are spread over as many
CUT = 1e-24  # largest probability that is cut off a binomial distribution; it counts as lost


def poisson(rate: float) -> Rates:
    """Return the distribution for Poisson sampling: participants and batch sizes are hidden from the observer."""
    return Rates(np.array([rate]), np.ones(1))


def seen(participation: float, rates: Rates) -> Rates:
    """Return the distribution if the observer sees whether the record's device takes part, and knows `rates` then."""
    if participation == 1:
        return rates
    values, weights = np.append(rates.values, 0.0), np.append(participation * rates.weights, 1 - participation)
    return Rates(values, weights, participation * rates.lost)


def participants_batch(devices: int, samples: int, participation: float, sampling: float) -> Rates:
    """Return the distribution if the participants, with the record's device, and their joint batch's size are known."""
    others, weight, lost = _binomial(devices - 1, participation)
    rates, weights = [], []
    for count, probability in zip(others + 1, weight, strict=True):
        size, part, cut = _binomial(count * samples, sampling)
        rates.append(size / (count * samples))
        weights.append(probability * part)
        lost += probability * cut
    return _spread(np.concatenate(rates), np.concatenate(weights), lost)


def total_batch(devices: int, samples: int, participation: float, sampling: float) -> Rates:
    """Return the distribution if the size of the joint batch is known, but not who takes part.

    All records are eligible. It is assumed to stay hidden, too, that a device's records come together or not at all.
    """
    joint = np.zeros(devices * samples + 1)
    participants, weight, lost = _binomial(devices, participation)
    for count, probability in zip(participants, weight, strict=True):
        size, part, cut = _binomial(count * samples, sampling)
        joint[size] += probability * part
        lost += probability * cut
    size = np.flatnonzero(joint)
    return _spread(size / (devices * samples), joint[size], lost)


def readings(
    devices: int, samples: int, participation: float, sampling: float, local: bool, fixed: bool
) -> dict[str, Rates]:
    """Return the distribution under each interpretation of the observer's knowledge, by name (`schemes.READINGS`).

    There is no `anonymous_read` of devices that send separately (`local`): the observer sees them.

    >>> readings(100, 600, 0.5, 0.1, local=False, fixed=True)["identified"]
    Rates(values=array([0.1, 0. ]), weights=array([0.5, 0.5]), lost=0.0)
    """
    known = seen(participation, poisson(sampling))
    laws = {"anonymous": poisson(participation * sampling), "identified": known}
    if fixed and local:
        return laws | {"identified_read": known}
    if fixed:
        # Participation is hidden, except that nobody takes part: a round without participants is silent.
        sounding = -np.expm1(devices * np.log1p(-participation)) if participation < 1 else 1.0
        users = seen(sounding, poisson(participation * sampling / sounding))
        return laws | {"anonymous_read": users, "identified_read": known}
    if local:
        size, weight, cut = _binomial(samples, sampling)
        return laws | {"identified_read": seen(participation, _spread(size / samples, weight, cut))}
    joint = participants_batch(devices, samples, participation, sampling)
    return laws | {
        "anonymous_read": total_batch(devices, samples, participation, sampling),
        "identified_read": seen(participation, joint),
    }


def messages(devices: int, samples: int, participation: float, sampling: float, known: bool, fixed: bool) -> Messages:
    """Return the distribution of a device's message, for an observer who knows who takes part (`known`) or does not.

    With noise of `fixed` strength, a round in which no other device takes part shows whether this one does: it is
    silent without participants.
    """
    sizes, weights, lost = _binomial(samples, sampling)
    shown = 1.0 if known else (1 - participation) ** (devices - 1) if fixed else 0.0
    return Messages(sizes, weights, participation, shown, participation * lost)


def revealed_facts(noise: Mechanism) -> frozenset[str]:
    """List what uploads reveal of batches, by the names of `known`, if participation is as hidden as noise assumes."""
    facts = {"participation"} if READINGS[noise.reading].participation else set()
    if not noise.fixed:
        facts |= {"sizes" if noise.local else "size"}
    return frozenset(facts)


def known(
    devices: int, samples: int, participation: float, sampling: float, knows: frozenset[str]
) -> tuple[Rates, float]:
    """Return the distribution, and `absent` of `sampled.replace_one`, for releases of the same batches.

    `knows` lists what any release reveals: `participation`; the joint batch's `size`; `sizes` of participants' batches.
    If a size is known, another record replaces an absent one.
    """
    fixed = knows.isdisjoint({"size", "sizes"})
    laws = readings(devices, samples, participation, sampling, local="sizes" in knows, fixed=fixed)
    return laws["identified_read" if "participation" in knows else "anonymous_read"], 0.5 if fixed else 1.0


def _binomial(count: int, rate: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Return a binomial variable's values, their probabilities, and a bound on the rest (Bernstein's inequality)."""
    mean, log_tail = count * rate, np.log(2 / CUT)
    width = log_tail / 3 + np.sqrt(log_tail**2 / 9 + 2 * log_tail * mean * (1 - rate))
    values = np.arange(max(0, np.floor(mean - width)), min(count, np.ceil(mean + width)) + 1, dtype=int)
    weights = binom.pmf(values, count, rate)
    cut = 0.0 if rate == 1 or len(values) == count + 1 else CUT
    return values[weights > 0], weights[weights > 0], cut


def _spread(rates: np.ndarray, weights: np.ndarray, lost: float) -> Rates:
    """Reduce a distribution to at most NODES of its rates, without more privacy.

    The mass of every other rate is split between the two nodes around it, which keeps the mean. A round's hockey-stick
    curve is convex in the rate, so its mean does not fall. The density of nodes follows the cube root of the masses,
    which keeps sums of mass times squared spacing small.
    """
    values, place = np.unique(rates, return_inverse=True)
    mass = np.bincount(place, weights) / weights.sum()
    if len(values) > NODES:
        position = np.cumsum(np.cbrt(mass))
        chosen = np.searchsorted(position, np.linspace(position[0], position[-1], NODES))
        nodes = values[np.unique([0, *np.minimum(chosen, len(values) - 1), len(values) - 1])]
        below = np.clip(np.searchsorted(nodes, values, side="right") - 1, 0, len(nodes) - 2)
        share = (values - nodes[below]) / (nodes[below + 1] - nodes[below])
        mass = np.bincount(below, mass * (1 - share), len(nodes)) + np.bincount(below + 1, mass * share, len(nodes))
        values = nodes
    return Rates(values, mass, lost)
