"""What an observer of a round knows of a record's chance to be in its batch (`sampled.Rates`).

Devices take part with probability `participation`; a participant takes each of its `samples` records into its batch
with probability `sampling`, all independently. Noise whose strength follows the batch's size b tells b to whoever sees
thousands of its coordinates. Given b, which b of the n eligible records they are is uniform, so a record is among them
with probability b / n.
"""

import numpy as np
from scipy.stats import binom

from pwfl.privacy.sampled import Rates
from pwfl.privacy.users import Messages
from pwfl.systems.anonymous_oac.schemes import READINGS, Mechanism

NODES = 64  # of a law; more points are spread over as many
CUT = 1e-24  # of a binomial law's mass is left out at most, and counts as lost


def poisson(rate: float) -> Rates:
    """Nobody can tell who takes part, nor how many records: Poisson sampling."""
    return Rates(np.array([rate]), np.ones(1))


def seen(participation: float, rates: Rates) -> Rates:
    """The observer sees whether a record's device takes part, and knows `rates` of it if it does."""
    if participation == 1:
        return rates
    values, weights = np.append(rates.values, 0.0), np.append(participation * rates.weights, 1 - participation)
    return Rates(values, weights, participation * rates.lost)


def participants_batch(devices: int, samples: int, participation: float, sampling: float) -> Rates:
    """The participants, a record's device among them, and the size of their joint batch are known."""
    others, weight, lost = _binomial(devices - 1, participation)
    rates, weights = [], []
    for count, probability in zip(others + 1, weight, strict=True):
        size, part, cut = _binomial(count * samples, sampling)
        rates.append(size / (count * samples))
        weights.append(probability * part)
        lost += probability * cut
    return _spread(np.concatenate(rates), np.concatenate(weights), lost)


def total_batch(devices: int, samples: int, participation: float, sampling: float) -> Rates:
    """Nobody can tell who takes part, but the size of the joint batch is known.

    All records are eligible: that those of a device come together or not at all is taken to stay hidden, too.
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
    """What each reading of a scheme lets the observer know, by its name; see `schemes`.

    There is no `anonymous_read` of devices that send on their own (`local`): they are seen.

    >>> readings(100, 600, 0.5, 0.1, local=False, fixed=True)["identified"]
    Rates(values=array([0.1, 0. ]), weights=array([0.5, 0.5]), lost=0.0)
    """
    known = seen(participation, poisson(sampling))
    laws = {"anonymous": poisson(participation * sampling), "identified": known}
    if fixed and local:
        return laws | {"identified_read": known}
    if fixed:
        # Nobody can tell who takes part, but that nobody does: a round without participants is silent.
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
    """The law of a device's message to an observer who knows (`known`) or does not know who takes part.

    In a round of noise of `fixed` strength nobody can hide that no other device takes part: it is silent without one.
    """
    sizes, weights, lost = _binomial(samples, sampling)
    shown = 1.0 if known else (1 - participation) ** (devices - 1) if fixed else 0.0
    return Messages(sizes, weights, participation, shown, participation * lost)


def revealed_facts(noise: Mechanism) -> frozenset[str]:
    """What uploads reveal of batches, by the names of `known`, if participation is as hidden as the noise assumes."""
    facts = {"participation"} if READINGS[noise.reading].participation else set()
    if not noise.fixed:
        facts |= {"sizes" if noise.local else "size"}
    return frozenset(facts)


def known(
    devices: int, samples: int, participation: float, sampling: float, knows: frozenset[str]
) -> tuple[Rates, float]:
    """The law, and `absent` of `sampled.replace_one`, of releases of the same batches, by what any of them tells.

    `knows` has `participation`, of who takes part; `size`, of the joint batch; `sizes`, of each participant's own.
    Where a size is known, another record stands in the place of an absent one.
    """
    fixed = knows.isdisjoint({"size", "sizes"})
    laws = readings(devices, samples, participation, sampling, local="sizes" in knows, fixed=fixed)
    return laws["identified_read" if "participation" in knows else "anonymous_read"], 0.5 if fixed else 1.0


def _binomial(count: int, rate: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Values of a binomial variable, their probabilities, and what they leave out at most (Bernstein's inequality)."""
    mean, log_tail = count * rate, np.log(2 / CUT)
    width = log_tail / 3 + np.sqrt(log_tail**2 / 9 + 2 * log_tail * mean * (1 - rate))
    values = np.arange(max(0, np.floor(mean - width)), min(count, np.ceil(mean + width)) + 1, dtype=int)
    weights = binom.pmf(values, count, rate)
    cut = 0.0 if rate == 1 or len(values) == count + 1 else CUT
    return values[weights > 0], weights[weights > 0], cut


def _spread(rates: np.ndarray, weights: np.ndarray, lost: float) -> Rates:
    """A law on at most NODES of its rates that is worth no more privacy.

    Each other rate's mass goes to the two nodes around it, so that the mean stays: a round's hockey-stick curve is
    convex in the rate, so its mean does not fall. Nodes lie as densely as the cube root of the masses, which keeps sums
    of mass times squared spacing small.
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
