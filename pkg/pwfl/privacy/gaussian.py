"""What a zCDP guarantee, or a Gaussian mechanism, is worth in (epsilon, delta).

`rho` is the zCDP parameter, mu = sqrt(2 rho) the Gaussian DP parameter; natural logarithms. All
functions work on arrays; dp-accounting, which takes one value at a time, is their oracle in the tests.
A result that floating point cannot reach is infinite, so epsilon is never understated.
"""

import numpy as np
from scipy.optimize import elementwise
from scipy.special import erf, log_ndtr

LARGEST_RHO = 1e15  # for which the exact epsilon is searched


def zcdp(sensitivity: np.ndarray, noise_std: np.ndarray, rounds: int) -> np.ndarray:
    """rho of `rounds` Gaussian releases of L2 `sensitivity` (Bun and Steinke, 2016, Prop. 1.6)."""
    with np.errstate(divide="ignore", over="ignore"):
        return rounds / 2 * (np.asarray(sensitivity) / noise_std) ** 2


def exact_epsilon(rho: np.ndarray, delta: float) -> np.ndarray:
    """The least epsilon at `delta` of a Gaussian mechanism, composed or not.

    Root of delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu) (Balle and Wang, 2018,
    Theorem 8; Dong et al., 2022, Corollary 2.13).
    """

    def gap(epsilon, mu):
        return _log_delta(epsilon, mu) - np.log(delta)

    rho = np.asarray(rho, float)
    mu = np.sqrt(2 * rho)
    # Beyond this the rounding of epsilon drowns delta; the classic bound is then within a millionth.
    beyond = ~(rho <= LARGEST_RHO)
    epsilon = np.where(beyond, np.where(np.isnan(rho), np.inf, classic_epsilon(rho, delta)), 0.0)
    # At epsilon = 0 the mechanism has delta = 2 Phi(mu/2) - 1; nothing to search below that.
    search = ~beyond & (erf(mu / np.sqrt(8)) > delta)
    if search.any():
        high = classic_epsilon(mu[search] ** 2 / 2, delta)
        result = elementwise.find_root(gap, (np.zeros_like(high), high), args=(mu[search],))
        epsilon[search] = np.where(result.success, result.x, np.inf)
    return epsilon


def tight_epsilon(rho: np.ndarray, delta: float) -> np.ndarray:
    """epsilon at `delta` from zCDP by Renyi DP, best order (Canonne et al., 2020, Proposition 12).

    min over alpha > 1 of rho alpha + ln(1 - 1/alpha) - ln(delta alpha) / (alpha - 1), at least 0.
    """

    def conversion(log_order, rho):
        excess = np.exp(log_order)  # alpha - 1
        return rho * (1 + excess) - np.log1p(1 / excess) - (np.log(delta) + np.log1p(excess)) / excess

    rho = np.asarray(rho, float)
    epsilon = np.where(rho == 0, 0.0, np.inf)
    search = np.isfinite(rho) & (rho > 0)
    if search.any():
        # Near the optimal order of the classic conversion, sqrt(ln(1/delta) / rho).
        guess = 0.5 * np.log(-np.log(delta) / rho[search])
        bracket = elementwise.bracket_minimum(conversion, guess, args=(rho[search],))
        result = elementwise.find_minimum(conversion, bracket.bracket, args=(rho[search],))
        epsilon[search] = np.where(bracket.success & result.success, np.maximum(result.f_x, 0.0), np.inf)
    return epsilon


def classic_epsilon(rho: np.ndarray, delta: float) -> np.ndarray:
    """epsilon at `delta` from zCDP, rho + 2 sqrt(rho ln(1/delta)) (Bun and Steinke, 2016, Prop. 1.3)."""
    with np.errstate(over="ignore"):
        return rho + 2 * np.sqrt(-rho * np.log(delta))


def textbook_epsilon(mu: np.ndarray, delta: float) -> np.ndarray:
    """The formula mu sqrt(2 ln(1.25/delta)) of many papers (Dwork and Roth, 2014, Theorem A.1).

    Proved only where it is below 1; above about 8.4 (at delta = 1e-5) it is less than the exact
    epsilon, so no guarantee.
    """
    return np.asarray(mu) * np.sqrt(2 * np.log(1.25 / delta))


def exact_multiplier(epsilon: np.ndarray, delta: float) -> np.ndarray:
    """The least noise multiplier, sigma over sensitivity, of a Gaussian mechanism that is (epsilon, delta)-DP.

    The inverse of `exact_epsilon`, for epsilon > 0 (Balle and Wang, 2018, Algorithm 1, by root finding).
    """

    def gap(log_mu, epsilon):
        return _log_delta(epsilon, np.exp(log_mu)) - np.log(delta)

    epsilon = np.asarray(epsilon, float)
    # The classic conversion never asks for less noise than is needed, so its mu is a lower end.
    root = np.sqrt(-np.log(delta))
    low = np.log(np.sqrt(2) * (np.sqrt(root**2 + epsilon) - root))
    bracket = elementwise.bracket_root(gap, low, low + 1, xmin=low, args=(epsilon,))
    result = elementwise.find_root(gap, bracket.bracket, args=(epsilon,))
    return np.where(bracket.success & result.success, np.exp(-result.x), np.inf)


def _log_delta(epsilon: np.ndarray, mu: np.ndarray) -> np.ndarray:
    """Logarithm of Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)."""
    first, second = log_ndtr(mu / 2 - epsilon / mu), epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    return first + np.log(-np.expm1(np.minimum(second - first, -np.finfo(float).tiny)))
