"""Noise in integers: exact discrete Gaussian samples, and what sums of them keep private after stochastic rounding.

A discrete Gaussian of variance v has integers z with probability proportional to exp(-z^2 / 2 v) (Canonne, Kamath and
Steinke, 2020). From v = 1 on, v is its variance to 1e-6; below 1/4, its variance is far less. Lengths are in steps of
the grid that values are rounded to, Renyi divergences in nats.
"""

from bisect import bisect_right
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from math import prod

import numpy as np

from pwfl.privacy.labels import Kind, gives

LEAST_STEPS = 1.5  # of a user's noise deviation: below, sums of discrete Gaussians soon are no discrete Gaussian
ORDERS = 1 + np.geomspace(0.1, 1000, 256)  # of Renyi divergences: the best of them costs 2e-4 of epsilon at most
MOST = 2**29  # variance of samples: a table of 600,000 numbers
BITS = 64  # of a uniform number, by which most samples are known
SPARE = 64  # bits more, in which a table's errors of rounding stay
UNSURE = 2  # by which an integer may be off: a table's value by 1, and digits by what follows them
WHOLE_ORDERS = np.unique(np.round(np.geomspace(2, 2000, 200)))  # of `private_dither_cost`
MOST_Z = 1.25  # (order - 1) / variance up to which it is proved
PIECES = 16  # of a coordinate's cost, between integers, that are taken as they are
STEPS = 40  # of the search for a tangent
UPWARD = 1 + 1e-9  # more than what is rounded


def discrete_gaussian(generator: np.random.Generator, variance: Fraction | float, shape: tuple[int, ...]) -> np.ndarray:
    """Independent samples of the discrete Gaussian of a variance, a number that is taken as it is, int64.

    By inversion of the distribution function. The first BITS binary digits of a uniform number decide where they lie
    between two of its values for certain; the others are drawn until they do. So the law is exact if the generator's
    integers are uniform.

    Raises ValueError for a variance that is not positive, or above MOST.
    """
    if not 0 < variance <= MOST:
        raise ValueError(f"variance {variance}: must be positive, and at most {MOST}")
    first, values = _table(Fraction(variance), BITS)
    drawn = generator.integers(2**BITS - 1, size=prod(shape), dtype=np.uint64, endpoint=True)
    place = np.searchsorted(values, drawn, side="right")
    below, above = values[np.maximum(place - 1, 0)], values[np.minimum(place, len(values) - 1)]
    samples = first + place.astype(np.int64)
    for k in np.flatnonzero((drawn - below <= UNSURE) | (above - drawn <= UNSURE)):
        samples[k] = _resolved(generator, Fraction(variance), int(drawn[k]))
    return samples.reshape(shape)


@lru_cache(maxsize=256)
def _table(variance: Fraction, bits: int) -> tuple[int, np.ndarray]:
    """As `_distribution`, in unsigned integers."""
    first, values = _distribution(variance, bits)
    return first, np.array([min(value, 2**bits - 1) for value in values], np.uint64)


def _distribution(variance: Fraction, bits: int) -> tuple[int, list[int]]:
    """The discrete Gaussian's distribution function times 2^bits, off by less than 1, at integers from `first` on.

    Before these and after them it is less than 1 from 0 and 2^bits.
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
    """The sample of a uniform number whose first BITS binary digits are given, the others drawn."""
    bits = BITS
    while True:
        bits, digits = 2 * bits, digits << bits | _integer(generator, bits)
        first, values = _distribution(variance, bits)
        place = bisect_right(values, digits)
        sure = [abs(values[k] - digits) > UNSURE for k in (place - 1, place) if 0 <= k < len(values)]
        if all(sure) and 0 < place < len(values):
            return first + place


def _integer(generator: np.random.Generator, bits: int) -> int:
    """A uniform integer of so many bits."""
    return int.from_bytes(generator.bytes(-(-bits // 8)), "little") >> (-bits % 8)


def divergence_of_sum(deviation: np.ndarray, honest: np.ndarray) -> np.ndarray:
    """What a sum of `honest` discrete Gaussians costs beyond one of its variance, in each coordinate and at each order.

    Their `deviation` is in steps. tau of Kairouz, Liu and Steinke (2021, Proposition 14).
    """
    k = np.arange(1, np.max(honest))
    terms = np.exp(-2 * (np.pi * np.asarray(deviation)[..., None]) ** 2 * k / (k + 1))
    return 10 * np.sum(terms, axis=-1, where=k < np.asarray(honest)[..., None])


def round_cost(
    orders: np.ndarray, sensitivity: np.ndarray, deviation: np.ndarray, honest: np.ndarray, dimensions: int
) -> np.ndarray:
    """Renyi divergences of a round's sum when a record is replaced, an upper bound, shape (..., order).

    `sensitivity` is by how much a record moves the sum before it is rounded, of L2 norm, and `deviation` that of each
    user's discrete Gaussian, in steps; `honest` users' noise is unknown to the observer. These three broadcast. It is
    tau d + d H(sensitivity^2 / d), with tau of `divergence_of_sum`, H the least concave function that is nowhere below
    a coordinate's cost, as a function of the square of what it moves by; docs/explanation/sums_proof.md proves it.

    Raises ValueError for a deviation below LEAST_STEPS.
    """
    deviation = _checked(deviation)
    sensitivity, variance = np.broadcast_arrays(sensitivity, honest * deviation**2)
    rate = orders / (2 * variance[..., None])
    cost = _envelope((sensitivity**2 / dimensions)[..., None], rate, orders - 1)
    return dimensions * (divergence_of_sum(deviation, honest)[..., None] + cost) * UPWARD


def private_dither_cost(
    orders: np.ndarray, sensitivity: np.ndarray, deviation: np.ndarray, honest: np.ndarray, dimensions: int
) -> np.ndarray:
    """As `round_cost`, at whole orders from 2 on, where the observer does not know how an honest user rounded.

    It is order / 2 S^2 times little more than the squared sensitivity, as without rounding, S^2 the variance of all
    noise; docs/explanation/sums_proof.md proves it. Infinite at orders above 1 + MOST_Z S^2.

    Raises ValueError for other orders, and for a deviation below LEAST_STEPS.
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
    """epsilon at `delta` from Renyi divergences, shape (..., order), those of rounds added up; by the best order.

    Canonne et al. (2020, Proposition 12), at least 0. Every order is a guarantee, so a missed best one costs tightness
    alone.
    """
    return np.maximum(np.min(_converted(orders, divergences, delta), axis=-1), 0.0)


def attack_rate(orders: np.ndarray, divergences: np.ndarray, false_positives: float) -> np.ndarray:
    """An upper bound on the true-positive rate of any attack, shape (...), from Renyi divergences (..., order).

    min over epsilon >= 0 of exp(epsilon) false_positives + delta(epsilon), of each order's delta (Canonne et al., 2020,
    Proposition 12) in closed form: c u + K u^-(order - 1) is least at u^order = (order - 1) K / c.
    """
    above = orders - 1
    log_k = above * (divergences * UPWARD + np.log1p(-1 / orders)) - np.log(orders)
    log_u = np.maximum((np.log(above) + log_k - np.log(false_positives)) / orders, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        rate = np.exp(log_u) * false_positives + np.exp(log_k - above * log_u)
    return np.minimum(np.nan_to_num(rate, nan=1.0, posinf=1.0).min(axis=-1), 1.0)


def concentrated(orders: np.ndarray, divergences: np.ndarray, delta: float) -> tuple[np.ndarray, np.ndarray]:
    """rho and an order, shape (...): up to it no divergence, shape (..., order), is more than rho times its own order.

    The order is that of `epsilon`. Of several releases together the best order is no larger.
    """
    best = np.argmin(_converted(orders, divergences, delta), axis=-1)
    within = np.arange(len(orders)) <= best[..., None]
    return np.max(divergences / orders, axis=-1, where=within, initial=0.0) * UPWARD, orders[best]


def _converted(orders: np.ndarray, divergences: np.ndarray, delta: float) -> np.ndarray:
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
    """H at `square`, from above: any line of slope lambda over the costs is, so the search may stop anywhere.

    At order 1 + `above`, a shift by k steps costs rate k^2. H(u) is the least, over lambda, of lambda u + the largest
    excess of a coordinate's cost over lambda times the square it moves by: a convex function of lambda.
    """
    square, rate, above = (x[..., None] for x in np.broadcast_arrays(square, rate, above))
    m = np.arange(PIECES)
    exponent = above * rate * (2 * m + 1)
    # v >= PIECES steps cost at most steepest v^2 + linear v + constant: by Hoeffding's lemma, or, where that is worse,
    # since v + 1 whole steps cost more.
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
    """ln(1 - fraction + fraction exp(exponent)), also where that is next to 1, or overflows."""
    with np.errstate(divide="ignore"):
        large = np.logaddexp(np.log1p(-fraction), np.log(fraction) + exponent)
    return np.where(exponent < 1, np.log1p(fraction * np.expm1(np.minimum(exponent, 1))), large)
