"""Compute the paper's privacy budget, and the powers of all rounds that minimize its bound within this budget.

A power is expressed by the noise x at this power: the variance of the receiver's noise over the squared amplitude with
which a unit of a device's message is received. A replaced record moves a message by at most 2 gamma, so a round is a
Gaussian mechanism of zCDP rho = 2 gamma^2 / x. With step size 1 / L, the bound on the optimality gap after T rounds is

    (1 - mu / L)^T (F(w_0) - F*) + d / (2 L n^2) sum over rounds t = 1..T of (1 - mu / L)^(T - t) x_t.
"""

import numpy as np
from scipy.special import lambertw

# Share of the budget that all rounds together would cost at the upper limit of the noise. With more noise, rounding in
# float32 would hide messages.
NEGLIGIBLE = 1e-4
HALVINGS = 200  # bisection steps on a logarithm: down to neighbouring floats


def constant(delta: float) -> float:
    """Compute C, the solution of sqrt(pi) C exp(C^2) = 1 / delta.

    >>> round(constant(0.01), 4)
    1.8488
    """
    return float(np.sqrt(lambertw(2 / np.pi / delta**2).real / 2))


def budget(epsilon: float, delta: float) -> float:
    """Compute the zCDP rho that all rounds may cost together for an epsilon, R_dp of the paper."""
    return (np.sqrt(epsilon + constant(delta) ** 2) - constant(delta)) ** 2


def converted(rho: np.ndarray, delta: float) -> np.ndarray:
    """Convert rho to epsilon by the paper's formula, the inverse of `budget`."""
    return rho + 2 * constant(delta) * np.sqrt(rho)


def static(least: np.ndarray, moved: float, rho: float) -> np.ndarray:
    """Compute the noise x of all rounds, shape (..., round), if the budget `rho` is divided equally over rounds.

    `least`, the noise at the power limit, is a lower bound. `moved` is how far a replaced record moves a message.
    """
    return np.maximum(least, moved**2 * least.shape[-1] / (2 * rho))


def adaptive(least: np.ndarray, moved: float, rho: float, contraction: float) -> np.ndarray:
    """Compute the noise x of all rounds that minimizes the bound within the budget; `contraction` is 1 - mu / L.

    x_t is the larger of `least` and lambda (1 - mu / L)^(t / 2); lambda is found by bisection, such that the budget
    is not exceeded. The second term has an upper limit, at which all rounds together would cost a NEGLIGIBLE share
    of the budget. The other parameters are as in `static`.
    """
    most = np.log(moved**2 * least.shape[-1] / (2 * rho * NEGLIGIBLE))
    falling = np.arange(1, least.shape[-1] + 1) / 2 * np.log(contraction)

    def noise(level: np.ndarray) -> np.ndarray:
        return np.maximum(least, np.exp(np.minimum(level[..., None] + falling, most)))

    def cost(level: np.ndarray) -> np.ndarray:
        return (moved**2 / (2 * noise(level))).sum(axis=-1)

    low = (np.log(least) - falling).min(axis=-1)  # all rounds have the noise `least`
    high = np.full_like(low, np.logaddexp.reduce(-falling) + np.log(moved**2 / (2 * rho)) + 2 * NEGLIGIBLE)
    high = np.where(cost(low) <= rho, -np.inf, np.maximum(low, high))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        within = cost(middle) <= rho
        low, high = np.where(within, low, middle), np.where(within, middle, high)
    return noise(high)
