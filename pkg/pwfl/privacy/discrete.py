"""Noise in integers: exact discrete Gaussian samples, and what sums of them keep private after stochastic rounding.

A discrete Gaussian of variance v has integers z with probability proportional to exp(-z^2 / 2 v) (Canonne, Kamath and
Steinke, 2020). From v = 1 on, v is its variance to 1e-6; below 1/4, its variance is far less. Lengths are in steps of
the grid that values are rounded to, Renyi divergences in nats.
"""

from fractions import Fraction
from math import ceil, isqrt, prod

import numpy as np

LEAST_STEPS = 1.5  # of a user's noise deviation: below, sums of discrete Gaussians soon are no discrete Gaussian
ORDERS = 1 + np.geomspace(0.1, 1000, 256)  # of Renyi divergences: the best of them costs 2e-4 of epsilon at most
MOST_PARTS = 2**16  # denominator of a variance, and
MOST = 2**29  # of it times (floor(deviation) + 1)^2: what int64 holds
WHOLE_ORDERS = np.unique(np.round(np.geomspace(2, 2000, 200)))  # of `private_dither_cost`
MOST_Z = 1.25  # (order - 1) / variance up to which it is proved
PIECES = 16  # of a coordinate's cost, between integers, that are taken as they are
STEPS = 40  # of the search for a tangent
UPWARD = 1 + 1e-9  # more than what is rounded


def discrete_gaussian(generator: np.random.Generator, variance: Fraction, shape: tuple[int, ...]) -> np.ndarray:
    """Independent samples of the discrete Gaussian of `variance`, an integer or a fraction, int64.

    Algorithms 1 to 3 of Canonne, Kamath and Steinke (2020): only integers are drawn and compared, so the law is exact
    if the generator's integers are uniform. (To overflow takes an event of probability below exp(-500).)

    Raises ValueError for a variance that is not positive, or too large or too fine for int64, see MOST_PARTS and MOST.
    `sampled_variance` has one that fits.
    """
    parts, denominator = Fraction(variance).as_integer_ratio()
    scale = isqrt(max(parts, 0) // denominator) + 1
    if parts <= 0 or denominator > MOST_PARTS or denominator * scale**2 > MOST:
        raise ValueError(
            f"variance {variance}: must be positive, with a denominator of at most {MOST_PARTS}, and at most "
            f"{MOST} over (floor(deviation) + 1)^2"
        )
    samples = np.empty(prod(shape), np.int64)
    pending = np.arange(samples.size)
    while pending.size:
        candidate = _discrete_laplace(generator, scale, pending.size)
        # Accepted with probability exp(-miss^2 / whole), whole = 2 parts denominator scale^2, by way of the square of
        # miss / scale, since that of miss does not fit into int64.
        miss = np.abs(np.abs(candidate) * (denominator * scale) - parts)
        quotient, remainder = np.divmod(miss, scale)
        times, rest = np.divmod(quotient * quotient, 2 * parts * denominator)
        rest = rest * scale**2 + 2 * scale * quotient * remainder + remainder * remainder
        more, rest = np.divmod(rest, 2 * parts * denominator * scale**2)
        accepted = np.flatnonzero(_geometric(generator, pending.size) >= times + more)
        accepted = accepted[_bernoulli(generator, rest[accepted], 2 * parts * denominator * scale**2)]
        samples[pending[accepted]] = candidate[accepted]
        pending = np.delete(pending, accepted)
    return samples.reshape(shape)


def sampled_variance(variance: float) -> Fraction:
    """The least variance that `discrete_gaussian` takes, of those of one denominator, from `variance` on.

    >>> sampled_variance(2.3)
    Fraction(150733, 65536)
    """
    denominator = max(min(MOST_PARTS, MOST // (isqrt(ceil(variance)) + 2) ** 2), 1)
    return Fraction(ceil(Fraction(variance) * denominator), denominator)


def _discrete_laplace(generator: np.random.Generator, scale: int, size: int) -> np.ndarray:
    """Integers z with probability proportional to exp(-|z| / scale)."""
    samples = np.empty(size, np.int64)
    pending = np.arange(size)
    while pending.size:
        below = generator.integers(scale, size=pending.size)
        kept = np.flatnonzero(_bernoulli(generator, below, scale))
        magnitude = below[kept] + scale * _geometric(generator, kept.size)
        negative = generator.integers(2, size=kept.size) == 1
        once = ~negative | (magnitude > 0)  # zero has one sign
        samples[pending[kept[once]]] = np.where(negative, -magnitude, magnitude)[once]
        pending = np.delete(pending, kept[once])
    return samples


def _geometric(generator: np.random.Generator, size: int) -> np.ndarray:
    """Integers k >= 0 with probability proportional to exp(-k)."""
    samples = np.zeros(size, np.int64)
    pending = np.arange(size)
    while pending.size:
        pending = pending[_bernoulli(generator, np.ones_like(pending), 1)]
        samples[pending] += 1
    return samples


def _bernoulli(generator: np.random.Generator, numerator: np.ndarray, denominator: int) -> np.ndarray:
    """True with probability exp(-numerator / denominator), of 0 <= numerator <= denominator."""
    samples = np.empty(numerator.size, bool)
    pending, k = np.arange(numerator.size), 1
    while pending.size:
        # Goes on with probability numerator / (denominator k); of one number there is nothing to draw.
        ends = numerator[pending] <= (generator.integers(denominator, size=pending.size) if denominator > 1 else 0)
        if k > 1:
            ends |= generator.integers(k, size=pending.size) > 0
        samples[pending[ends]] = k % 2 == 1
        pending, k = pending[~ends], k + 1
    return samples


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
    a coordinate's cost, as a function of the square of what it moves by; docs/sums.md proves it.

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
    noise; docs/sums.md proves it. Infinite at orders above 1 + MOST_Z S^2.

    Raises ValueError for other orders, and for a deviation below LEAST_STEPS.
    """
    deviation = _checked(deviation)
    if np.any((orders < 2) | (orders % 1 != 0)):
        raise ValueError(f"orders {orders}: must be whole numbers from 2 on")
    square, variance = (x[..., None] for x in np.broadcast_arrays(np.square(sensitivity), honest * deviation**2))
    z = (orders - 1) / variance
    growth = np.expm1(np.minimum(z, MOST_Z)) / z
    moved = np.minimum(np.maximum(growth, 1 + 1 / (8 * orders)) * square, growth * square + dimensions / (4 * orders))
    of_sum = dimensions * divergence_of_sum(deviation, honest)[..., None] * orders / (orders - 1)
    return np.where(z <= MOST_Z, (orders * moved / (2 * variance) + of_sum) * UPWARD, np.inf)


def epsilon(orders: np.ndarray, divergences: np.ndarray, delta: float) -> np.ndarray:
    """epsilon at `delta` from Renyi divergences, shape (..., order), those of rounds added up; by the best order.

    Canonne et al. (2020, Proposition 12), at least 0. Every order is a guarantee, so a missed best one costs tightness
    alone.
    """
    return np.maximum(np.min(_converted(orders, divergences, delta), axis=-1), 0.0)


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
            f"noise of {np.min(deviation):.3g} steps of the grid: must be at least {LEAST_STEPS}; "
            "each bit more halves the step"
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
