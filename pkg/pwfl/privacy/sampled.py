"""What a Gaussian mechanism on a random sample of the records is worth in (epsilon, delta).

A round releases a sum over a batch, in which each record is with probability `rate`, plus Gaussian
noise of `multiplier` times the sensitivity; natural logarithms. Two ways to sample: record by record
(Poisson sampling), or device by device and then record by record within the device (cluster sampling).
The second is worth as much as the first at the product of both rates while nobody can tell which
devices take part; an observer who can tell sees the device's record-by-record sampling at times, and
nothing otherwise.
"""

from functools import partial

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss
from scipy.optimize import brentq
from scipy.special import gammaln, log_ndtr, logsumexp, ndtr

from pwfl.privacy.gaussian import exact_epsilon, zcdp

ORDERS = np.arange(2, 65)  # integer: for fractional ones libraries sum an alternating series
INTERVAL, COARSE = 1e-4, 5e-4  # between points of a privacy loss: of results, of curves and searches
POINTS = 400_000  # of a privacy loss, at most: beyond, the interval widens, and the bound loosens
TAIL = 10.0  # standard deviations of the noise that are looked at
NEGLIGIBLE = 1e-6  # epsilon
LARGEST_LOSS = 2000.0  # of a round: what is worse counts as no guarantee


def renyi(rate: float, multiplier: float) -> np.ndarray:
    """Renyi DP of a Poisson-sampled round at ORDERS (Mironov, Talwar and Zhang, 2019, Sec. 3.3)."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        precision = 1 / np.square(multiplier)
        if rate == 1:
            return ORDERS * precision / 2
        k = np.arange(ORDERS[-1] + 1)
        left = np.maximum(ORDERS[:, None] - k, 0)
        terms = gammaln(ORDERS[:, None] + 1) - gammaln(k + 1) - gammaln(left + 1)
        terms = terms + k * np.log(rate) + left * np.log1p(-rate) + k * (k - 1) / 2 * precision
    return logsumexp(np.where(k <= ORDERS[:, None], terms, -np.inf), axis=1) / (ORDERS - 1)


def revealed(participation: float, divergence: np.ndarray) -> np.ndarray:
    """Renyi DP at ORDERS of a round that takes place with a probability, for all to see."""
    if participation == 1:
        return divergence
    exponent = (ORDERS - 1) * divergence
    return np.logaddexp(np.log1p(-participation), np.log(participation) + exponent) / (ORDERS - 1)


def renyi_epsilon(divergence: np.ndarray, rounds: np.ndarray, delta: float) -> np.ndarray:
    """epsilon after some numbers of rounds of a Renyi DP at ORDERS, by Mironov's conversion (Lemma 1).

    The least of rounds divergence(alpha) + ln(1 / delta) / (alpha - 1) over the orders.
    """
    total = np.multiply.outer(np.asarray(rounds, float), divergence) - np.log(delta) / (ORDERS - 1)
    return np.where(np.isnan(total), np.inf, total).min(axis=-1)


def renyi_closed_form(rate: float, multiplier: float) -> np.ndarray:
    """Renyi DP of a round at ORDERS by Theorem 1 of Hasircioglu and Gunduz, infinite where it does not apply.

    2 rate^2 alpha / multiplier^2 for rate <= 1/5, multiplier >= 4 and orders that meet (3) and (4).
    """
    if not (rate <= 1 / 5 and multiplier >= 4):
        return np.full(len(ORDERS), np.inf)
    half, log_multiplier = multiplier**2 / 2, np.log(multiplier)
    gain = np.log1p(1 / (rate * (ORDERS - 1)))
    third = half * gain - 2 * log_multiplier
    fourth = (half * gain**2 - np.log(5) - 2 * log_multiplier) / (gain + np.log(rate * ORDERS) + 1 / (2 * half))
    return np.where((third >= ORDERS) & (fourth >= ORDERS), 2 * rate**2 * ORDERS / multiplier**2, np.inf)


def tight_epsilon(
    participation: float, rate: float, multiplier: float, rounds: list[int], delta: float, interval: float = INTERVAL
) -> np.ndarray:
    """epsilon after some numbers of rounds, by privacy loss distributions.

    Of the pair of outputs that is usual for the sampled Gaussian, a round with and without a record
    of twice the norm, from its hockey-stick curve by connect-the-dots. `participation` is the
    probability of a round in which the observer sees that the device takes part; 1 is plain Poisson
    sampling at `rate`. Closed form where nothing is sampled. Infinite where the loss of a round
    exceeds LARGEST_LOSS.
    """
    if participation == rate == 1:
        return exact_epsilon(zcdp(1.0, multiplier, np.asarray(rounds, float)), delta)
    if _beyond(multiplier):
        return np.full(len(rounds), np.inf)
    masses = []
    for adjacency in (AdjacencyType.REMOVE, AdjacencyType.ADD):
        loss = GaussianPrivacyLoss(multiplier, sampling_prob=rate, adjacency_type=adjacency)
        bounds = loss.connect_dots_bounds()
        limits = bounds.epsilon_lower, bounds.epsilon_upper
        masses.append(_mass(partial(hockey_stick, rate, multiplier, adjacency), limits, participation, interval))
    return _composed(PrivacyLossDistribution(*masses), rounds, delta)


def hockey_stick(rate: float, multiplier: float, adjacency: AdjacencyType, epsilon: np.ndarray) -> np.ndarray:
    """The least delta at each epsilon of one Poisson-sampled round, shape of `epsilon`.

    The output is N(1, multiplier^2) with probability `rate` and else N(0, multiplier^2), against always
    the latter: REMOVE; ADD is the other way around. dp-accounting computes the same epsilon by epsilon.
    """
    remove = adjacency == AdjacencyType.REMOVE
    loss, side = (epsilon, -1) if remove else (-epsilon, 1)
    with np.errstate(divide="ignore", over="ignore"):
        # The output at which ln(1 - rate + rate exp((2 x - 1) / (2 multiplier^2))) is `loss`.
        log_ratio = loss + np.log1p(-np.minimum((1 - rate) * np.exp(-loss), 1.0)) - np.log(rate)
        x = multiplier**2 * log_ratio + 0.5
        absent = log_ndtr(side * x / multiplier)
        present = np.logaddexp(np.log1p(-rate) + absent, np.log(rate) + log_ndtr(side * (x - 1) / multiplier))
    upper, lower = (present, absent) if remove else (absent, present)
    return np.clip(np.exp(upper) - np.exp(epsilon + lower), 0.0, 1.0)


def opposite_epsilon(
    participation: float, rate: float, multiplier: float, rounds: list[int], delta: float, interval: float = INTERVAL
) -> np.ndarray:
    """epsilon after some numbers of rounds for one pair of data: a record's gradient is turned around.

    What a record can at least lose: no accountant for replace-one may say less. See `tight_epsilon`.
    """
    if _beyond(multiplier):
        return np.full(len(rounds), np.inf)

    def loss(x):
        likelihoods = [np.log(rate) + (sign * x / 2 - 1 / 8) / multiplier**2 for sign in (1, -1)]
        present, replaced = (np.logaddexp(absent, value) for value in likelihoods) if rate < 1 else likelihoods
        return present - replaced

    def curve(epsilon):
        # The output at which the loss is epsilon solves a quadratic in exp(x / (2 multiplier^2)).
        with np.errstate(over="ignore"):
            c = rate * np.exp(-1 / (8 * multiplier**2))
            half = (1 - rate) * np.expm1(epsilon) / (2 * c)
            root = half + np.sqrt(half**2 + np.exp(epsilon))
            other = np.exp(epsilon) / (np.sqrt(half**2 + np.exp(epsilon)) - half)
        x = 2 * multiplier**2 * np.log(np.where(half > 0, root, other))
        tails = [(1 - rate) * ndtr(-x / multiplier) + rate * ndtr((sign / 2 - x) / multiplier) for sign in (1, -1)]
        return np.clip(tails[0] - np.exp(epsilon) * tails[1], -np.expm1(np.minimum(epsilon, 0.0)), 1.0)

    absent = np.log1p(-rate) if rate < 1 else -np.inf
    limit = float(loss(TAIL * multiplier + 0.5))
    mass = _mass(curve, (-limit, limit), participation, interval)
    return _composed(PrivacyLossDistribution(mass), rounds, delta)


def multiplier_for(epsilon: float, participation: float, rate: float, rounds: int, delta: float) -> float:
    """The noise multiplier whose `tight_epsilon` is `epsilon`, or NEGLIGIBLE if that is more.

    Raises ValueError where no multiplier between 0.1 and 10^5 is.
    """

    def excess(log_multiplier):
        found = tight_epsilon(participation, rate, np.exp(log_multiplier), [rounds], delta, COARSE)[0]
        return min(found, 1e9) - max(epsilon, NEGLIGIBLE)

    # From above, as small multipliers take long.
    edges = np.log(np.geomspace(1e5, 0.1, 7))
    first = next((k for k, edge in enumerate(edges) if excess(edge) > 0), 0)
    if first == 0:
        raise ValueError(f"no noise multiplier between 0.1 and 1e5 gives epsilon {epsilon:g} after {rounds} rounds")
    return float(np.exp(brentq(excess, edges[first], edges[first - 1], xtol=1e-5)))


def advanced_composition(multiplier: float, rounds: np.ndarray, delta: float) -> np.ndarray:
    """epsilon of unsampled rounds by Theorem 3.20 of Dwork and Roth (2014).

    `delta` is spent in every round by the classic Gaussian mechanism and once more by the
    composition, so that (rounds + 1) delta are spent in all. The classic formula is proved for
    less than 1 only, and understates where multipliers are small.
    """
    rounds = np.asarray(rounds, float)
    each = np.sqrt(2 * np.log(1.25 / delta)) / multiplier
    with np.errstate(over="ignore"):
        return np.sqrt(-2 * rounds * np.log(delta)) * each + rounds * each * np.expm1(each)


def _beyond(multiplier: float) -> bool:
    # What an unsampled round loses at the tail; a sampled one loses no more.
    return not (TAIL + 0.5 / multiplier) / multiplier < LARGEST_LOSS


def _mass(curve, limits: tuple[float, float], participation: float, interval: float) -> pld_pmf.PLDPmf:
    """The privacy loss of a round that takes place with a probability, from a round's hockey-stick curve."""
    lower, upper = limits
    interval = max(interval, (upper - lower) / POINTS)
    steps = np.arange(np.floor(lower / interval), np.ceil(upper / interval) + 1)
    epsilon = steps * interval
    mixed = participation * curve(epsilon) + (1 - participation) * -np.expm1(np.minimum(epsilon, 0.0))
    return pld_pmf.create_pmf_pessimistic_connect_dots(interval, steps.astype(int), mixed)


def _composed(distribution: PrivacyLossDistribution, rounds: list[int], delta: float) -> np.ndarray:
    return np.array([distribution.self_compose(int(count)).get_epsilon_for_delta(delta) for count in rounds])
