"""Discrete Gaussian noise: exact samples, and the privacy of their sums after random rounding.

The discrete Gaussian of parameter v has the probability of an integer z proportional to exp(-z^2 / (2 v)) (Canonne,
Kamath and Steinke, 2020). For v >= 1, v is its variance to 1e-6; for v < 1/4 its variance is far smaller. Lengths are
in steps of the grid that values are rounded to, Renyi divergences in nats.
"""

from bisect import bisect_right
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from math import prod

import numpy as np

from pwfl.privacy.labels import Kind, gives

LEAST_STEPS = 1.5  # smallest standard deviation of a user's noise: below, sums are no longer close to discrete Gaussian
ORDERS = 1 + np.geomspace(0.1, 1000, 256)  # Renyi orders: the best of them adds at most 2e-4 (relative) to epsilon
MOST = 2**29  # largest variance of samples, for which a table has 600,000 numbers
BITS = 64  # of a uniform number, which determine most samples
SPARE = 64  # additional bits, which contain a table's rounding errors
UNSURE = 2  # error of a comparison: 1 of a table's value, and 1 of the digits that follow
WHOLE_ORDERS = np.unique(np.round(np.geomspace(2, 2000, 200)))  # Renyi orders of `private_dither_cost`
MOST_Z = 1.25  # largest (order - 1) / variance for which its bound is proved
PIECES = 16  # steps up to which a coordinate's cost is computed exactly between integers
STEPS = 40  # of the search for a tangent
UPWARD = 1 + 1e-9  # factor that exceeds rounding errors


def discrete_gaussian(generator: np.random.Generator, variance: Fraction | float, shape: tuple[int, ...]) -> np.ndarray:
    """Draw independent samples of the discrete Gaussian of parameter `variance`, int64, of a shape.

    By inversion of the distribution function. If the first BITS binary digits of a uniform number do not determine
    between which of the function's values it is, more digits are drawn. The distribution is therefore exact (for the
    exact value of `variance`) if the generator's integers are uniform.

    Raises ValueError for a variance that is not positive, or above MOST.
    """
    if not 0 < variance <= MOST:
        raise ValueError(f"variance {variance}: must be positive, and at most {MOST}")
    first, values = _table(Fraction(variance))
    drawn = generator.integers(2**BITS - 1, size=prod(shape), dtype=np.uint64, endpoint=True)
    place = np.searchsorted(values, drawn, side="right")
    below, above = values[np.maximum(place - 1, 0)], values[np.minimum(place, len(values) - 1)]
    samples = first + place.astype(np.int64)
    for k in np.flatnonzero((drawn - below <= UNSURE) | (above - drawn <= UNSURE)):
        samples[k] = _resolved(generator, Fraction(variance), int(drawn[k]))
    return samples.reshape(shape)


@lru_cache(maxsize=256)
def _table(variance: Fraction) -> tuple[int, np.ndarray]:
    """Return `_distribution` to BITS digits as an array of uint64."""
    first, values = _distribution(variance, BITS)
    return first, np.array([min(value, 2**BITS - 1) for value in values], np.uint64)


def _distribution(variance: Fraction, bits: int) -> tuple[int, list[int]]:
    """Compute the discrete Gaussian's distribution function times 2^bits, with errors below 1.

    Returns the integer `first`, and the values at first, first + 1, ... Below and above these integers, the function is
    within 1 of 0 and 2^bits.
    """
    precision = bits + SPARE
    with localcontext() as context:
        context.prec = precision // 3 + 10
        unit = Decimal(2) ** precision
        inverse = Decimal(variance.denominator) / Decimal(variance.numerator)
        slope, bend = int((-inverse / 2).exp() * unit), int((-inverse).exp() * unit)
    weight, masses = 1 << precision, []  # of 0, 1, 2 ...: each the one before times a slope that falls geometrically
    while weight >> (SPARE - SPARE // 4):
        masses.append(weight)
        weight, slope = weight * slope >> precision, slope * bend >> precision
    sums = [*accumulate([*masses[:0:-1], *masses])]
    return 1 - len(masses), [(part << bits) // sums[-1] for part in sums]


def _resolved(generator: np.random.Generator, variance: Fraction, digits: int) -> int:
    """Return the sample for a uniform number whose first BITS binary digits are given; draw more digits."""
    bits = BITS
    while True:
        more = int.from_bytes(generator.bytes(bits // 8), "little")
        bits, digits = 2 * bits, digits << bits | more
        first, values = _distribution(variance, bits)
        place = bisect_right(values, digits)
        sure = [abs(values[k] - digits) > UNSURE for k in (place - 1, place) if 0 <= k < len(values)]
        if all(sure) and 0 < place < len(values):
            return first + place


def divergence_of_sum(deviation: np.ndarray, honest: np.ndarray) -> np.ndarray:
    """Bound the additional Renyi divergence, per coordinate, of a sum of discrete Gaussians instead of a single one.

    tau = 10 sum_{k=1}^{honest - 1} exp(-2 pi^2 deviation^2 k / (k + 1)), at every order (Kairouz, Liu and Steinke,
    2021, Proposition 14). `honest` is the number of summands, `deviation` the standard deviation of each, in grid
    steps; they are broadcast.
    """
    k = np.arange(1, np.max(honest))
    terms = np.exp(-2 * (np.pi * np.asarray(deviation)[..., None]) ** 2 * k / (k + 1))
    return 10 * np.sum(terms, axis=-1, where=k < np.asarray(honest)[..., None])


def round_cost(
    orders: np.ndarray, sensitivity: np.ndarray, deviation: np.ndarray, honest: np.ndarray, dimensions: int
) -> np.ndarray:
    """Compute an upper bound on the Renyi divergence of a round's sum if a record is replaced, shape (..., order).

    With d dimensions it is d (tau + H(sensitivity^2 / d)), with tau of `divergence_of_sum`. H is the concave envelope
    of a coordinate's divergence as a function of its squared movement; docs/explanation/sums_proof.md has the proof.

    Parameters
    ----------
    orders
        Renyi orders, above 1, shape (order,).
    sensitivity
        L2 norm by which a record moves the sum before rounding, in grid steps, shape (...).
    deviation
        Standard deviation of each user's discrete Gaussian, in grid steps, shape (...).
    honest
        Number of users whose noise the observer does not know, shape (...).
    dimensions
        Number of coordinates d.

    Raises
    ------
    ValueError
        For a deviation below LEAST_STEPS.
    """
    deviation = _checked(deviation)
    sensitivity, variance = np.broadcast_arrays(sensitivity, honest * deviation**2)
    rate = orders / (2 * variance[..., None])
    cost = _envelope((sensitivity**2 / dimensions)[..., None], rate, orders - 1)
    return dimensions * (divergence_of_sum(deviation, honest)[..., None] + cost) * UPWARD


def private_dither_cost(
    orders: np.ndarray, sensitivity: np.ndarray, deviation: np.ndarray, honest: np.ndarray, dimensions: int
) -> np.ndarray:
    """Compute `round_cost` if the observer does not know the random numbers by which honest users round.

    With the variance S^2 of all honest users' noise it is little more than order sensitivity^2 / (2 S^2), the value
    without rounding; docs/explanation/sums_proof.md has the proof. Infinite at orders above 1 + MOST_Z S^2.

    `orders` must be whole numbers from 2 on. Raises ValueError for others, and for a deviation below LEAST_STEPS.
    """
    deviation = _checked(deviation)
    if np.any((orders < 2) | (orders % 1 != 0)):
        raise ValueError(f"orders {orders}: must be whole numbers from 2 on")
    square, variance = (x[..., None] for x in np.broadcast_arrays(np.square(sensitivity), honest * deviation**2))
    z = (orders - 1) / variance
    growth = np.expm1(np.minimum(z, MOST_Z)) / z
    moved = np.minimum(np.maximum(growth, 1 + 1 / (8 * orders)) * square, growth * square + dimensions / (4 * orders))
    sum_rho = dimensions * divergence_of_sum(deviation, honest)[..., None] * orders / (orders - 1)
    return np.where(z <= MOST_Z, (orders * moved / (2 * variance) + sum_rho) * UPWARD, np.inf)


@gives(Kind.UPPER)
def epsilon(orders: np.ndarray, divergences: np.ndarray, delta: float) -> np.ndarray:
    """Compute epsilon at `delta`, shape (...), from all rounds' Renyi divergences, shape (..., order).

    min over orders a of divergence(a) + ln(1 - 1/a) - ln(delta a) / (a - 1), at least 0 (Canonne et al., 2020,
    Proposition 12). Every order gives a valid epsilon; orders that are missing only make it larger.
    """
    return np.maximum(np.min(_converted(orders, divergences, delta), axis=-1), 0.0)


def attack_rate(orders: np.ndarray, divergences: np.ndarray, false_positives: float) -> np.ndarray:
    """Compute an upper bound on the true-positive rate of any attack, shape (...), at a false-positive rate.

    From all rounds' Renyi divergences, shape (..., order): min over orders and epsilon >= 0 of exp(epsilon)
    false_positives + delta(epsilon), with each order's delta (Canonne et al., 2020, Proposition 12). In closed form, c
    u + K u^-(order - 1) is smallest at u^order = (order - 1) K / c, with u = exp(epsilon) and c = false_positives.
    """
    above = orders - 1
    log_k = above * (divergences * UPWARD + np.log1p(-1 / orders)) - np.log(orders)
    log_u = np.maximum((np.log(above) + log_k - np.log(false_positives)) / orders, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        rate = np.exp(log_u) * false_positives + np.exp(log_k - above * log_u)
    return np.minimum(np.nan_to_num(rate, nan=1.0, posinf=1.0).min(axis=-1), 1.0)


def concentrated(orders: np.ndarray, divergences: np.ndarray, delta: float) -> tuple[np.ndarray, np.ndarray]:
    """Find rho and an order, shape (...), such that the divergence at any order a up to it is at most rho a.

    The order is the one that gives `epsilon`; for several releases together the best order is no larger.
    `divergences` has shape (..., order).
    """
    best = np.argmin(_converted(orders, divergences, delta), axis=-1)
    within = np.arange(len(orders)) <= best[..., None]
    return np.max(divergences / orders, axis=-1, where=within, initial=0.0) * UPWARD, orders[best]


def _converted(orders: np.ndarray, divergences: np.ndarray, delta: float) -> np.ndarray:
    """Compute epsilon by each order, shape (..., order), rounded up; see `epsilon`."""
    conversion = np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)
    return divergences * UPWARD + conversion + 1e-12 * np.abs(conversion)


def _checked(deviation: np.ndarray) -> np.ndarray:
    deviation = np.asarray(deviation, float)
    if not np.all(deviation >= LEAST_STEPS):
        raise ValueError(
            f"the noise's standard deviation is {np.min(deviation):.3g} grid steps; at least {LEAST_STEPS} are "
            "required; each further bit halves the step"
        )
    return deviation


def _envelope(square: np.ndarray, rate: np.ndarray, above: np.ndarray) -> np.ndarray:
    """Compute an upper bound on the concave envelope H of a coordinate's divergence, at the squared movement `square`.

    At order 1 + `above`, a movement by an integer k has the divergence rate k^2. With the divergence c(v) of a movement
    v, H(u) = min over lambda of lambda u + max over v of (c(v) - lambda v^2), a convex function of lambda. Every lambda
    gives an upper bound, so the search need not find the best one. The three arguments are broadcast.
    """
    square, rate, above = (x[..., None] for x in np.broadcast_arrays(square, rate, above))
    m = np.arange(PIECES)
    exponent = above * rate * (2 * m + 1)
    # For v >= PIECES, c(v) is at most steepest v^2 + linear v + constant: by Hoeffding's lemma or, if that is worse,
    # because c(v) is at most the divergence of v + 1 whole steps.
    spread = above * rate / 2
    near = spread < 1 / 8
    steepest = rate * np.where(near, 1 + spread, 1)
    linear = rate * np.where(near, spread, 2)
    constant = rate * np.where(near, (1 + spread) / 4, 1)

    def line(log_slope):
        slope = steepest + np.exp(log_slope)
        with np.errstate(over="ignore"):
            e, w = 1 / np.expm1(exponent), 1 / (2 * slope * above)
        fraction = np.clip(2 * (w - m * e) / (e + m + np.sqrt((e - m) ** 2 + 4 * w)), 0, 1)  # of the largest excess
        excess = rate * m**2 + _log_mean_exp(fraction, exponent) / above - slope * (m + fraction) ** 2
        v = np.maximum(PIECES, linear / (2 * (slope - steepest)))
        beyond = (steepest - slope) * v**2 + linear * v + constant
        return slope * square + np.maximum(excess.max(axis=-1, keepdims=True), beyond)

    with np.errstate(divide="ignore"):
        low, high = np.log(1e-9 * steepest), np.log(rate * (1 + 1 / np.sqrt(square)) ** 2 + steepest)
    for _ in range(STEPS):
        first, second = (2 * low + high) / 3, (low + 2 * high) / 3
        left = line(first) < line(second)
        low, high = np.where(left, low, first), np.where(left, second, high)
    return line((low + high) / 2)[..., 0]


def _log_mean_exp(fraction: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """Compute ln(1 - fraction + fraction exp(exponent)) accurately, also near 0 and for large exponents."""
    with np.errstate(divide="ignore"):
        large = np.logaddexp(np.log1p(-fraction), np.log(fraction) + exponent)
    return np.where(exponent < 1, np.log1p(fraction * np.expm1(np.minimum(exponent, 1))), large)
