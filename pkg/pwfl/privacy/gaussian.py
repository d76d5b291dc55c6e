"""What a zCDP guarantee, or a Gaussian mechanism, is worth in (epsilon, delta).

`rho` is the zCDP parameter, mu = sqrt(2 rho) the Gaussian DP parameter, of a mechanism composed or not; natural
logarithms; all functions work on arrays. Exact epsilons and multipliers are found by a root finder and rounded up, by
that of a rho 1e-9 larger: more than the errors of floating point.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import erfcx, erfinv, ndtr, ndtri

from pwfl.privacy.labels import Kind, gives

UP = 1e-9  # by which results are rounded up, relative
CLOSE = 3e-5  # mu below which a difference of Mills' ratios is taken by their derivative


def zcdp(sensitivity: np.ndarray | float, noise_std: np.ndarray | float, rounds: np.ndarray | int) -> np.ndarray:
    """rho of `rounds` Gaussian releases of L2 `sensitivity` (Bun and Steinke, 2016, Prop. 1.6).

    >>> round(float(zcdp(0.2, 1.0, 200)), 9)
    4.0
    """
    sensitivity = np.asarray(sensitivity, float)
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        rho = rounds / 2 * (sensitivity / noise_std) ** 2
    # What underflows has leaked all the same.
    return np.maximum(rho, np.where(sensitivity > 0, np.finfo(float).tiny, 0.0))


@gives(Kind.EXACT)
def exact_epsilon(rho: np.ndarray, delta: float) -> np.ndarray:
    """The least epsilon at `delta` of a Gaussian mechanism (Balle and Wang, 2018, Theorem 8), rounded up.

    Infinite where rho is, or is no number.

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
    """The largest true-positive rate of any attack on a Gaussian mechanism, at a rate of false positives.

    Phi(mu + Phi^-1(false_positives)), by the trade-off curve (Dong, Roth and Su, 2022, Definition 2.6).

    >>> f"{float(attack_rate(4.0, 0.01)):.3f}"
    '0.692'
    """
    return ndtr(np.sqrt(2 * np.asarray(rho, float)) + ndtri(false_positives))


@gives(Kind.UPPER)
def tight_epsilon(rho: np.ndarray, delta: float) -> np.ndarray:
    """epsilon at `delta` from zCDP by Renyi DP, best order (Canonne et al., 2020, Proposition 12).

    min over alpha > 1 of rho alpha + ln(1 - 1/alpha) - ln(delta alpha) / (alpha - 1), at least 0.
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
        epsilon[search] = np.maximum(rho * (1 + x) - np.log1p(1 / x) + loss / x - np.log1p(x) / x, 0.0)
    return epsilon


@gives(Kind.UPPER)
def classic_epsilon(rho: np.ndarray, delta: float) -> np.ndarray:
    """epsilon at `delta` from zCDP, rho + 2 sqrt(rho ln(1/delta)) (Bun and Steinke, 2016, Prop. 1.3)."""
    with np.errstate(over="ignore"):
        return rho + 2 * np.sqrt(rho) * np.sqrt(-np.log(delta))


@gives(Kind.UNPROVED)
def textbook_epsilon(mu: np.ndarray, delta: float) -> np.ndarray:
    """The formula mu sqrt(2 ln(1.25/delta)) (Dwork and Roth, 2014, Theorem A.1): no guarantee where it is 1 or more."""
    return np.asarray(mu) * np.sqrt(2 * np.log(1.25 / delta))


def exact_multiplier(epsilon: np.ndarray | float, delta: float) -> np.ndarray:
    """The least noise multiplier, sigma over sensitivity, of a Gaussian mechanism that is (epsilon, delta)-DP.

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
    """The noise multiplier of each of some Gaussian releases that are worth `epsilon` together.

    By `exact_epsilon` they are worth at most that, and less by at most 1e-6 of it.

    >>> f"{float(exact_epsilon(zcdp(1.0, composed_multiplier(2.0, 1e-5, releases=60), 60), 1e-5)):.6f}"
    '2.000000'
    """
    return float(exact_multiplier(epsilon, delta)) * releases**0.5


def _root(excess: Callable, unmet: np.ndarray, met: np.ndarray, given: np.ndarray) -> np.ndarray:
    """Where `excess(place, given)` ceases to be positive between two places: at one of them where its sign is the same.

    Places and what is `given` have one shape.
    """
    from scipy.optimize import elementwise  # here, as reports and plans would wait for it

    with np.errstate(invalid="ignore"):  # of an infinite excess
        found = elementwise.find_root(excess, (unmet, met), args=(given,))
    ends = np.where(excess(unmet, given) <= 0, unmet, met)  # by rounding, or as it is met everywhere
    return np.where(found.success, found.x, ends)


def _log_delta(a: np.ndarray, mu: np.ndarray, delta: float) -> np.ndarray:
    """ln of the least delta over `delta` of a Gaussian mechanism at epsilon = mu (a + mu / 2).

    With b = a + mu and Mills' ratio M(x) = Phi(-x) / phi(x) it is phi(a) (M(a) - M(b)); where delta > 1/2, which has
    a < 0, the sign is of ln of 1 - delta over phi(a) (M(-a) + M(b)).
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        if delta > 0.5:
            return np.log(1 - delta) - np.log(_mills(-a) + _mills(a + mu)) + (a * a + np.log(2 * np.pi)) / 2
        middle = a + mu / 2
        slope = np.where(mu < CLOSE, 1 - middle * _mills(middle), (_mills(a) - _mills(a + mu)) / mu)  # -M', mean
        return np.log(slope) + np.log(mu) - np.log(delta) - (a * a + np.log(2 * np.pi)) / 2


def _mills(x: np.ndarray) -> np.ndarray:
    """Phi(-x) / phi(x)."""
    return np.sqrt(np.pi / 2) * erfcx(x / np.sqrt(2))
