"""Convert zCDP, or a Gaussian mechanism, to (epsilon, delta).

`rho` is the zCDP parameter and mu = sqrt(2 rho) the Gaussian DP parameter of a mechanism, composed or not. Logarithms
are natural; functions work elementwise on arrays of any shape. Exact epsilons and multipliers are found by a root
finder for a rho that is 1e-9 larger (relative), so that rounding errors never make them too small.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import erfcx, erfinv, ndtr, ndtri

from pwfl.privacy.labels import Kind, gives

UP = 1e-9  # relative amount by which results are rounded up
CLOSE = 3e-5  # mu below which a difference of Mills' ratios is computed from the derivative


def zcdp(sensitivity: np.ndarray | float, noise_std: np.ndarray | float, rounds: np.ndarray | int) -> np.ndarray:
    """Compute rho = rounds / 2 (sensitivity / noise_std)^2 of Gaussian mechanisms (Bun and Steinke, 2016, Prop. 1.6).

    `sensitivity` (L2 norm) and `noise_std` have the same unit; the three arguments are broadcast.

    >>> round(float(zcdp(0.2, 1.0, 200)), 9)
    4.0
    """
    sensitivity = np.asarray(sensitivity, float)
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        rho = rounds / 2 * (sensitivity / noise_std) ** 2
    # A positive rho that underflows is not 0.
    return np.maximum(rho, np.where(sensitivity > 0, np.finfo(float).tiny, 0.0))


@gives(Kind.EXACT)
def exact_epsilon(rho: np.ndarray, delta: float) -> np.ndarray:
    """Compute the smallest epsilon at `delta` of a Gaussian mechanism (Balle and Wang, 2018, Theorem 8), rounded up.

    It solves Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu) = delta. Infinite if rho is infinite or NaN.

    >>> f"{float(exact_epsilon(4.0, 1e-5)):.5f}"
    '15.45616'
    """
    rho = np.asarray(rho, float)
    with np.errstate(over="ignore", invalid="ignore"):
        mu = np.sqrt(2 * rho) * (1 + UP / 2)
    epsilon = np.where(rho == 0, 0.0, np.inf)
    search = (rho > 0) & np.isfinite(mu)
    mu = mu[search]
    # delta is met at a = -ndtri(delta); epsilon is at least 0, and beyond a = -9 delta is 1.
    most = np.full(mu.shape, -ndtri(delta))
    a = _root(lambda a, mu: _log_delta(a, mu, delta), np.maximum(-mu / 2, -9.0), np.maximum(most, -mu / 2), mu)
    with np.errstate(over="ignore"):
        solution = np.maximum(mu * (a + mu / 2), 0.0)
    epsilon[search] = np.where(_log_delta(-mu / 2, mu, delta) <= 0, 0.0, solution)
    return epsilon


def attack_rate(rho: np.ndarray, false_positives: float) -> np.ndarray:
    """Compute the largest true-positive rate of any attack on a Gaussian mechanism, at a false-positive rate.

    Phi(mu + Phi^-1(false_positives)), by the trade-off curve (Dong, Roth and Su, 2022, Definition 2.6).

    >>> f"{float(attack_rate(4.0, 0.01)):.3f}"
    '0.692'
    """
    return ndtr(np.sqrt(2 * np.asarray(rho, float)) + ndtri(false_positives))


@gives(Kind.UPPER)
def tight_epsilon(rho: np.ndarray, delta: float) -> np.ndarray:
    """Compute epsilon at `delta` from zCDP by Renyi DP of the best order (Canonne et al., 2020, Proposition 12).

    min over alpha > 1 of rho alpha + ln(1 - 1/alpha) - ln(delta alpha) / (alpha - 1), at least 0.
    """
    rho = np.asarray(rho, float)
    epsilon = np.where(rho == 0, 0.0, np.inf)
    search = np.isfinite(rho) & (rho > 0)
    rho, loss = rho[search], -np.log(delta)
    # The best order has rho x^2 + y = ln(1/delta), x = alpha - 1, y = ln(alpha): convex in y, so Newton's method
    # converges from above. Every order gives a valid epsilon; a missed best one only makes it larger.
    y = np.minimum(np.log1p(np.sqrt(loss) / np.sqrt(rho)), loss)
    for _ in range(8):
        x = np.expm1(y)
        y -= (rho * x * x + y - loss) / (rho * x * (2 + 2 * x) + 1)
    x = np.expm1(y)
    with np.errstate(over="ignore"):
        epsilon[search] = np.maximum(rho * (1 + x) - np.log1p(1 / x) + loss / x - np.log1p(x) / x, 0.0)
    return epsilon


@gives(Kind.UPPER)
def classic_epsilon(rho: np.ndarray, delta: float) -> np.ndarray:
    """Compute epsilon at `delta` from zCDP, rho + 2 sqrt(rho ln(1/delta)) (Bun and Steinke, 2016, Prop. 1.3)."""
    with np.errstate(over="ignore"):
        return rho + 2 * np.sqrt(rho) * np.sqrt(-np.log(delta))


@gives(Kind.UNPROVED)
def textbook_epsilon(mu: np.ndarray, delta: float) -> np.ndarray:
    """Compute mu sqrt(2 ln(1.25/delta)) (Dwork and Roth, 2014, Theorem A.1), which is proved only if it is below 1."""
    return np.asarray(mu) * np.sqrt(2 * np.log(1.25 / delta))


def exact_multiplier(epsilon: np.ndarray | float, delta: float) -> np.ndarray:
    """Compute the smallest noise multiplier of a Gaussian mechanism that is (epsilon, delta)-DP.

    The noise multiplier is the noise's standard deviation over the L2 sensitivity, 1 / mu.

    The inverse of `exact_epsilon` (Balle and Wang, 2018, Algorithm 1), rounded up.

    >>> f"{float(zcdp(1.0, float(exact_multiplier(15.45616, 1e-5)), 1)):.5f}"
    '4.00000'
    """
    epsilon = np.asarray(epsilon, float)
    # delta is met where it is at epsilon = 0, and is 1 at a = -9.
    most, least = np.log(9 + np.sqrt(81 + 2 * epsilon)), np.full(epsilon.shape, np.log(np.sqrt(8) * erfinv(delta)))

    def excess(log_mu, epsilon):
        mu = np.exp(log_mu)
        with np.errstate(over="ignore"):
            a = np.minimum(epsilon / mu - mu / 2, 40.0)  # beyond which it is met
        return _log_delta(a, mu, delta)

    return np.exp(-_root(excess, most, least, epsilon)) * (1 + UP)


def composed_multiplier(epsilon: float, delta: float, releases: int) -> float:
    """Compute the noise multiplier of each of `releases` Gaussian mechanisms that together have `epsilon` at `delta`.

    Their epsilon by `exact_epsilon` is at most that, and smaller by at most 1e-6 (relative).

    >>> f"{float(exact_epsilon(zcdp(1.0, composed_multiplier(2.0, 1e-5, releases=60), 60), 1e-5)):.6f}"
    '2.000000'
    """
    return float(exact_multiplier(epsilon, delta)) * releases**0.5


def _root(excess: Callable, unmet: np.ndarray, met: np.ndarray, given: np.ndarray) -> np.ndarray:
    """Find x between `unmet` and `met` where `excess(x, given)` changes from positive to negative, elementwise.

    `met` is returned if excess is positive at both, `unmet` if it is at neither. The arrays have the same shape.
    """
    from scipy.optimize import elementwise  # here, as it would delay reports and plans

    with np.errstate(invalid="ignore"):  # of an infinite excess
        found = elementwise.find_root(excess, (unmet, met), args=(given,))
    ends = np.where(excess(unmet, given) <= 0, unmet, met)  # by rounding, or as it is met everywhere
    return np.where(found.success, found.x, ends)


def _log_delta(a: np.ndarray, mu: np.ndarray, delta: float) -> np.ndarray:
    """Compute ln(d / delta) with the smallest delta d of a Gaussian mechanism at epsilon = mu (a + mu / 2).

    With b = a + mu and Mills' ratio M(x) = Phi(-x) / phi(x), d = phi(a) (M(a) - M(b)). For delta > 1/2, which implies
    a < 0, the result is ln((1 - delta) / (1 - d)) with 1 - d = phi(a) (M(-a) + M(b)), which has the same sign.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        if delta > 0.5:
            return np.log(1 - delta) - np.log(_mills(-a) + _mills(a + mu)) + (a * a + np.log(2 * np.pi)) / 2
        middle = a + mu / 2
        slope = np.where(mu < CLOSE, 1 - middle * _mills(middle), (_mills(a) - _mills(a + mu)) / mu)  # -M', mean
        return np.log(slope) + np.log(mu) - np.log(delta) - (a * a + np.log(2 * np.pi)) / 2


def _mills(x: np.ndarray) -> np.ndarray:
    """Compute Mills' ratio Phi(-x) / phi(x)."""
    return np.sqrt(np.pi / 2) * erfcx(x / np.sqrt(2))
