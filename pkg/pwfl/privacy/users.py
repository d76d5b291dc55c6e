"""User-level epsilon if users take part at random, each with a random batch of its records.

A round releases a sum over a batch, plus Gaussian noise of `multiplier` times the sensitivity of one record. Results
are upper bounds, exact if nothing is random. Logarithms are natural.
"""

from typing import NamedTuple

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from scipy import fft
from scipy.optimize import brentq

from pwfl.privacy.gaussian import exact_epsilon, zcdp
from pwfl.privacy.labels import Kind, gives, labeled
from pwfl.privacy.sampled import TAIL, beyond, composed, gaussian_delta, replace_one

POINTS = 20_000  # points of a round's privacy loss distribution
NODES = 32  # batch sizes in it, at most; each has its own curve
CELLS = 2**17  # of the grid of sums of squared sizes, at most, or one per round
ROUNDED = 20 * np.finfo(float).eps  # relative error of a Fourier transform


class Messages(NamedTuple):
    """The distribution of the number of records in a user's message.

    Attributes
    ----------
    sizes, weights
        Numbers of records, and their probabilities if the user takes part, shape (k,).
    participation
        Probability that the user takes part in a round.
    shown
        Share of rounds, independent of the user, in which the observer knows whether the user takes part.
    lost
        Upper bound on the probability of any other size.
    """

    sizes: np.ndarray
    weights: np.ndarray
    participation: float
    shown: float
    lost: float = 0.0


@gives(Kind.UPPER)
def epsilon(law: Messages, multiplier: float, rounds: int, delta: float, absent: float = 1.0) -> float:
    """Compute an upper bound on epsilon at `delta` after `rounds` rounds if all of a user's records are replaced.

    Batches are drawn independently of the records. A message of b records moves b times as far as by one record, so it
    is a Gaussian mechanism of multiplier / b. Revealing b, drawn whether or not the user takes part, does not decrease
    epsilon (joint convexity). An observer who knows whether the user takes part receives Gaussian mechanisms whose
    mu^2 = b^2 / multiplier^2 add up to a random total. An observer who does not know it receives no more than that;
    its rounds are also bounded by sampling at the rate of participation (`sampled.replace_one`, with `absent`). The
    result is the smaller bound.

    Parameters
    ----------
    law
        Distribution of the number of records in a message.
    multiplier
        Noise standard deviation over the sensitivity of one record, not 0.
    rounds, delta
        Number of rounds, and the delta.
    absent
        As in `sampled.replace_one`.
    """
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
    """Compute `epsilon` and its kind, which is exact if nothing is random."""
    if multiplier == 0:
        return np.inf, Kind.EXACT
    if law.participation == 1 and len(law.sizes) == 1:
        return labeled(exact_epsilon, zcdp(law.sizes[0], multiplier, rounds), delta)
    return labeled(epsilon, law, multiplier, rounds, delta, absent)


def _known_participation(law: Messages, multiplier: float, rounds: int, delta: float) -> float:
    """Compute epsilon of Gaussian mechanisms with mu^2 = S / multiplier^2, S the known sum of squared sizes.

    The distribution of S is a convolution over rounds, on a grid to which squares are rounded up. The error of Fourier
    transforms is subtracted from delta: at most ROUNDED per round in each frequency, and sqrt(number of cells) times
    that in a sum over cells.
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
        return float(weights @ gaussian_delta(mu, epsilon)) - left

    if excess(0.0) <= 0:
        return 0.0
    most = float(exact_epsilon(zcdp(mu.max(), 1.0, 1), left))
    return min(brentq(excess, 0.0, most, rtol=1e-12) * (1 + 1e-9), at_most)


def _rounded_up(law: Messages) -> tuple[np.ndarray, np.ndarray]:
    """Reduce a distribution to at most NODES sizes by rounding sizes up; return sizes and weights."""
    if len(law.sizes) <= NODES:
        return law.sizes, law.weights
    share = np.cumsum(np.cbrt(law.weights))
    chosen = np.searchsorted(share, np.linspace(share[0], share[-1], NODES)[1:-1])
    nodes = np.unique([*chosen, len(law.sizes) - 1])
    place = np.searchsorted(nodes, np.arange(len(law.sizes)))
    return law.sizes[nodes], np.bincount(place, law.weights, len(nodes))
