"""What a zCDP guarantee, or a Gaussian mechanism, is worth in (epsilon, delta).

`rho` is the zCDP parameter, mu = sqrt(2 rho) the Gaussian DP parameter, of a mechanism composed or not; natural
logarithms; all functions work on arrays. Epsilons, noise multipliers and `zcdp` are upper bounds, by bounds on the
errors of floating point: at least the true value of the formula at the very floats that are given. Infinite where no
bound is found.

In terms of a = epsilon / mu - mu / 2, b = a + mu and Mills' ratio M(x) = Phi(-x) / phi(x), the least delta of a
Gaussian mechanism (Balle and Wang, 2018, Theorem 8; Dong et al., 2022, Corollary 2.13) is given by

    delta = phi(a) (M(a) - M(b)),    1 - delta = phi(a) (M(-a) + M(b)),    epsilon = mu (a + mu / 2),

the first for delta <= 1/2, where a > -0.68, the second for the others, where a < 0. a is at most 39 whatever rho is,
and an error in it is worth a relative one in rho. The logarithm of either form is concave in a at fixed mu, and in ln
mu at fixed epsilon, so that Newton's method converges from where it starts.
"""

from collections.abc import Callable

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.special import erfcx, erfinv, ndtri

FLOAT = np.finfo(float)
ULP = FLOAT.eps
MILLS_ERROR = 10 * ULP  # of `_mills`, relative, for x >= -0.7; half of it is seen
CLOSE = 0.5  # mu below which M(a) - M(b) is an integral
# Derivatives of M are moments of a Gaussian's positive part: on a length CLOSE the rule is within 1e-16.
NODES, WEIGHTS = leggauss(7)
SLACK = 1e-9  # relative, of noise: more than what is rounded when its epsilon is found again
STEPS = 60  # of Newton's method, and upward; usual are 6 and 1


def zcdp(sensitivity: np.ndarray | float, noise_std: np.ndarray | float, rounds: np.ndarray | int) -> np.ndarray:
    """rho of `rounds` Gaussian releases of L2 `sensitivity` (Bun and Steinke, 2016, Prop. 1.6), rounded up.

    >>> round(float(zcdp(0.2, 1.0, 200)), 9)
    4.0
    """
    sensitivity = np.asarray(sensitivity, float)
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        rho = rounds / 2 * (sensitivity / noise_std) ** 2 * (1 + 4 * ULP)
    # What underflows has leaked all the same.
    return np.maximum(rho, np.where(sensitivity > 0, FLOAT.tiny, 0.0))


def exact_epsilon(rho: np.ndarray, delta: float) -> np.ndarray:
    """The least epsilon at `delta` of a Gaussian mechanism, rounded up to at most that of a rho 1e-13 larger.

    >>> f"{float(exact_epsilon(4.0, 1e-5)):.5f}"
    '15.45616'
    """
    rho = np.asarray(rho, float)
    with np.errstate(over="ignore", invalid="ignore"):
        mu = np.nextafter(np.sqrt(2 * rho), np.inf)
    epsilon = np.where(rho == 0, 0.0, np.inf)
    search = (rho > 0) & np.isfinite(mu)
    free = np.zeros_like(search)
    free[search] = _excess(-mu[search] / 2, mu[search], delta)[0] <= 0  # delta is met at epsilon = 0
    epsilon[free] = 0.0
    search &= ~free
    mu = mu[search]

    def excess(a):
        value, error, rate, mills = _excess(a, mu, delta)
        return value, error, rate * mills

    # From above: delta <= Phi(-a), and delta <= mu phi(a) at a > 0.
    a = np.minimum(-ndtri(delta), np.sqrt(2 * np.maximum(np.log(mu) - np.log(delta) - 0.9, 0.0)))
    with np.errstate(over="ignore"):
        epsilon[search] = np.nextafter(mu * (_least(excess, a) + mu / 2) * (1 + 4 * ULP), np.inf)
    return epsilon


def tight_epsilon(rho: np.ndarray, delta: float) -> np.ndarray:
    """epsilon at `delta` from zCDP by Renyi DP, best order (Canonne et al., 2020, Proposition 12).

    min over alpha > 1 of rho alpha + ln(1 - 1/alpha) - ln(delta alpha) / (alpha - 1), at least 0, rounded up by at most
    1e-13 of the classic epsilon.
    """
    rho = np.asarray(rho, float)
    epsilon = np.where(rho == 0, 0.0, np.inf)
    search = np.isfinite(rho) & (rho > 0)
    rho, loss = rho[search], -np.log(delta)
    # Best where rho x^2 + y = ln(1/delta), x = alpha - 1, y = ln(alpha): convex in y, so by Newton's method
    # from above. Every order is a guarantee, so a missed best one costs tightness alone.
    y = np.minimum(np.log1p(np.sqrt(loss) / np.sqrt(rho)), loss)
    for _ in range(8):
        x = np.expm1(y)
        y -= (rho * x * x + y - loss) / (rho * x * (2 + 2 * x) + 1)
    x = np.expm1(y)
    with np.errstate(over="ignore"):
        terms = np.stack([rho * (1 + x), -np.log1p(1 / x), loss / x, -np.log1p(x) / x])
        epsilon[search] = np.maximum(terms.sum(axis=0) + 4 * ULP * np.abs(terms).sum(axis=0), 0.0)
    return epsilon


def classic_epsilon(rho: np.ndarray, delta: float) -> np.ndarray:
    """epsilon at `delta` from zCDP, rho + 2 sqrt(rho ln(1/delta)) (Bun and Steinke, 2016, Prop. 1.3), rounded up."""
    with np.errstate(over="ignore"):
        return (rho + 2 * np.sqrt(rho) * np.sqrt(-np.log(delta))) * (1 + 8 * ULP)


def textbook_epsilon(mu: np.ndarray, delta: float) -> np.ndarray:
    """The formula mu sqrt(2 ln(1.25/delta)) (Dwork and Roth, 2014, Theorem A.1): no guarantee where it is 1 or more."""
    return np.asarray(mu) * np.sqrt(2 * np.log(1.25 / delta))


def exact_multiplier(epsilon: np.ndarray | float, delta: float) -> np.ndarray:
    """The least noise multiplier, sigma over sensitivity, of a Gaussian mechanism that is (epsilon, delta)-DP.

    The inverse of `exact_epsilon` (Balle and Wang, 2018, Algorithm 1), rounded up by at most 1e-13.

    >>> f"{float(zcdp(1.0, float(exact_multiplier(15.45616, 1e-5)), 1)):.5f}"
    '4.00000'
    """
    shape, epsilon = np.shape(epsilon), np.ravel(np.asarray(epsilon, float))
    # a = scale sinh(v), v = ln(scale / mu): what is rounded of a difference is not rounded of v.
    scale = np.maximum(np.sqrt(2 * epsilon), 1e-305)

    def multiplier(v):
        a = scale * np.sinh(v)
        length = np.hypot(a, np.sqrt(2 * epsilon))
        with np.errstate(divide="ignore", invalid="ignore"):
            return a, np.where(a > 0, (a + length) / (2 * epsilon), 1 / (length - a))

    def excess(v):
        a, least = multiplier(v)
        return _excess(a, (1 + 6 * ULP) / least, delta)[:3]

    # From above: delta <= Phi(-a), and delta <= 1 - 2 Phi(-mu / 2), which it is at epsilon = 0.
    v = np.minimum(np.arcsinh(-ndtri(delta) / scale), np.log(scale) - np.log(np.sqrt(8) * erfinv(delta)))
    return (multiplier(_least(excess, v))[1] * (1 + 6 * ULP)).reshape(shape)


def composed_multiplier(epsilon: float, delta: float, releases: int) -> float:
    """The noise multiplier of each of some Gaussian releases that are worth `epsilon` together.

    By `exact_epsilon` they are worth at most that, whatever is rounded on the way, and less by at most 1e-6 of it.

    >>> f"{float(exact_epsilon(zcdp(1.0, composed_multiplier(2.0, 1e-5, releases=60), 60), 1e-5)):.6f}"
    '2.000000'
    """
    return float(exact_multiplier(epsilon, delta)) * releases**0.5 * (1 + SLACK)


def _least(excess: Callable, v: np.ndarray) -> np.ndarray:
    """The least v for which `excess` is known to be at most 0, infinite where none is found.

    `excess(v)` falls with v and gives an upper bound on its value, the error in that, and the rate of the fall.
    Newton's method down to the error, then steps upward of twice the length each.
    """
    for _ in range(STEPS):
        value, error, rate = excess(v)
        done = np.abs(value) <= error + 2 * ULP * rate * np.abs(v)
        if done.all():
            break
        v = np.where(done, v, v + value / rate)  # what is done stays, whatever else is in the array
    step = error / rate
    for _ in range(STEPS):
        met = excess(v)[0] <= 0
        if met.all():
            return v
        v, step = np.where(met, v, v + step), 2 * step
    return np.where(excess(v)[0] <= 0, v, np.inf)


def _excess(a: np.ndarray, mu: np.ndarray, delta: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """By how much a Gaussian mechanism misses `delta` at epsilon = mu (a + mu / 2), as a logarithm.

    ln(its least delta / delta), or of 1 - delta over 1 - its own for delta > 1/2: an upper bound, what of it is allowed
    for errors, by how much the logarithm rises with ln mu at fixed epsilon, and M(a + mu). That times the rate is by
    how much it falls with a at fixed mu.
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        mills = _mills(a + mu)
        if delta > 0.5:
            factor, relative, rate = _mills(-a) + mills, MILLS_ERROR, mu
            goal, sign = np.log(1 - delta), -1
        else:
            close = mu < CLOSE
            factor = _mills(a) - mills
            relative = MILLS_ERROR * (factor + 2 * mills) / factor
            factor[close] = _slope(a[close], mu[close])
            relative[close] = 2.5 * MILLS_ERROR / factor[close]
            rate, goal, sign = np.where(close, 1.0, mu), np.log(delta / np.where(close, mu, 1.0)), 1
        log_factor = np.log(factor)
        half = a * a / 2
        error = relative + 4 * ULP * (2 + half + np.abs(goal) + np.abs(log_factor))
        value = sign * (log_factor - half - np.log(np.sqrt(2 * np.pi)) - goal) + error
    return value, error, rate / factor, mills


def _slope(a: np.ndarray, mu: np.ndarray) -> np.ndarray:
    """(M(a) - M(a + mu)) / mu, the mean of -M'(x) = 1 - x M(x) between both."""
    total = np.zeros_like(a)
    for node, weight in zip((1 + NODES) / 2, WEIGHTS / 2, strict=True):
        x = a + node * mu
        total += weight * (1 - x * _mills(x))
    return total


def _mills(x: np.ndarray) -> np.ndarray:
    """Phi(-x) / phi(x)."""
    return np.sqrt(np.pi / 2) * erfcx(x / np.sqrt(2))
