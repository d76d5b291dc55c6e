"""What all records of a user are worth in (epsilon, delta), where it takes part by chance, with a random batch of them.

A round releases a sum over a batch, plus Gaussian noise of `multiplier` times the sensitivity of one record; natural
logarithms. Upper bounds, exact where nothing is left to chance.
"""

from typing import NamedTuple

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from scipy import fft
from scipy.optimize import brentq
from scipy.special import log_ndtr

from pwfl.privacy.gaussian import exact_epsilon, zcdp
from pwfl.privacy.labels import Kind, gives, labeled
from pwfl.privacy.sampled import TAIL, beyond, composed, replace_one

POINTS = 20_000  # points of a round's privacy loss, which is of a curve for each size
NODES = 32  # sizes of a message's batch that it is of, at most
CELLS = 2**17  # of the sum of squared sizes over all rounds, at most, or one a round
ROUNDED = 20 * np.finfo(float).eps  # of a Fourier transform


class Messages(NamedTuple):
    """The law of how many records are in a user's message: `sizes` of `weights`, shapes (k,), if the user takes part.

    The user takes part with probability `participation`. The observer sees whether it does in a share `shown` of the
    rounds, whatever the user does, and cannot tell in the others. Up to `lost` more is the probability of other sizes.
    """

    sizes: np.ndarray
    weights: np.ndarray
    participation: float
    shown: float
    lost: float = 0.0


@gives(Kind.UPPER)
def epsilon(law: Messages, multiplier: float, rounds: int, delta: float, absent: float = 1.0) -> float:
    """An upper bound on epsilon after some rounds if all of a user's records are replaced; `absent` as `replace_one`.

    Batches are drawn whatever the records are. Given that a message is of b of them, it moves b times as far as by one:
    a Gaussian of multiplier / b. To tell the observer b, drawn whether or not the user takes part, hides no more (joint
    convexity). Who sees whether the user does sees Gaussian mechanisms of mu^2 = b^2 / multiplier^2 in all, at random;
    who does not sees at least no more than that, and rounds sampled at the rate of participation, by `replace_one`.

    Exact where nothing is sampled.
    """
    if multiplier == 0:
        return np.inf
    if law.participation == 1 and len(law.sizes) == 1:
        return float(exact_epsilon(zcdp(law.sizes[0], multiplier, rounds), delta))
    known = _known_participation(law, multiplier, rounds, delta)
    least = multiplier / law.sizes.max()
    if law.shown == 1 or beyond(least):
        return known
    sizes, weights = _rounded_up(law)
    limit = (TAIL + 0.5 / least) / least
    steps = np.arange(-POINTS // 2, POINTS // 2 + 1)
    losses = steps * (2 * limit / POINTS)
    nothing = -np.expm1(np.minimum(losses, 0.0))
    mixed = np.full_like(losses, law.lost)
    for size, weight in zip(sizes, weights, strict=True):
        hidden = shown = nothing
        if size:
            hidden = replace_one(law.participation, losses, multiplier / size, absent)
            always = replace_one(1.0, losses, multiplier / size, absent)
            shown = law.participation * always + (1 - law.participation) * nothing
        mixed += weight * ((1 - law.shown) * hidden + law.shown * shown)
    mass = pld_pmf.create_pmf_pessimistic_connect_dots(losses[1] - losses[0], steps, np.minimum(mixed, 1.0))
    return min(known, float(composed(PrivacyLossDistribution(mass), [rounds], delta)[0]))


def worth(law: Messages, multiplier: float, rounds: int, delta: float, absent: float = 1.0) -> tuple[float, Kind]:
    """As `epsilon`, and its kind: that of a Gaussian mechanism where nothing is left to chance."""
    if multiplier == 0:
        return np.inf, Kind.EXACT
    if law.participation == 1 and len(law.sizes) == 1:
        return labeled(exact_epsilon, zcdp(law.sizes[0], multiplier, rounds), delta)
    return labeled(epsilon, law, multiplier, rounds, delta, absent)


def _known_participation(law: Messages, multiplier: float, rounds: int, delta: float) -> float:
    """epsilon of Gaussian mechanisms whose mu^2 add up to a sum of squared sizes, which the observer knows.

    The sum's law is a convolution, on a grid that squares are rounded up to. What Fourier transforms round is taken off
    delta: a frequency is off by ROUNDED a round at most, and a sum over cells by the root of their number as much.
    """
    square = law.sizes.astype(float) ** 2
    step = max(1.0, np.ceil(rounds * square.max() / max(rounds, CELLS)))
    place = np.ceil(square / step).astype(int)
    once = np.bincount(place, law.participation * law.weights)
    once[0] += 1 - law.participation
    size = fft.next_fast_len(rounds * int(place.max()) + 1, real=True)
    known = delta - rounds * law.lost
    if known <= 0:
        return np.inf
    left, always = known - np.sqrt(size) * rounds * ROUNDED, zcdp(law.sizes.max(), multiplier, rounds)
    at_most = float(exact_epsilon(always, known))  # if the largest message were sent in each round
    if left <= 0:
        return at_most
    total = fft.irfft(fft.rfft(once, size) ** rounds, size)
    there = np.flatnonzero(total[1:] > 0) + 1
    weights, mu = total[there], np.sqrt(there * step) / multiplier

    def excess(epsilon: float) -> float:
        upper, lower = (log_ndtr(side * mu / 2 - epsilon / mu) for side in (1, -1))
        return float(weights @ np.maximum(np.exp(upper) - np.exp(epsilon + lower), 0.0)) - left

    if excess(0.0) <= 0:
        return 0.0
    most = float(exact_epsilon(zcdp(mu.max(), 1.0, 1), left))
    return min(brentq(excess, 0.0, most, rtol=1e-12) * (1 + 1e-9), at_most)


def _rounded_up(law: Messages) -> tuple[np.ndarray, np.ndarray]:
    """Sizes and weights of the law, at most NODES; sizes between two of them are rounded up."""
    if len(law.sizes) <= NODES:
        return law.sizes, law.weights
    share = np.cumsum(np.cbrt(law.weights))
    chosen = np.searchsorted(share, np.linspace(share[0], share[-1], NODES)[1:-1])
    nodes = np.unique([*chosen, len(law.sizes) - 1])
    place = np.searchsorted(nodes, np.arange(len(law.sizes)))
    return law.sizes[nodes], np.bincount(place, law.weights, len(nodes))
