"""Calibrate noise to a target epsilon: find the scale of the noise at which an accountant's epsilon is the target.

The only assumption is that epsilon is above the target at some scale and not above it at some larger one. Every scale
that is returned was evaluated by the accountant.
"""

from collections.abc import Callable

import numpy as np

ABOVE, BELOW = 1e-9, 2e-9  # relative amounts by which epsilon may be above and below its target
NARROW = 1e-13  # smallest width of a bracket of the logarithm of a scale
FARTHEST = np.log(4.0)  # largest change of the logarithm of a scale in a step
EVEN = 1e-7  # relative amount by which mu of groups may differ
TRIES = 3  # consecutive secant steps that leave more than half of a bracket, before it is halved
EVALUATIONS, BALANCES = 80, 12  # at most


class UnreachableError(ArithmeticError):
    """No scale of the noise attains the target."""


def scales(epsilon: Callable[[np.ndarray], np.ndarray], target: float, count: int, below: float = BELOW) -> np.ndarray:
    """Find each realization's scale of the noise at which its epsilon is the target, shape (realization,).

    All realizations are searched at once, by secants of logarithms within brackets. The scale stays 1 if epsilon is
    then the target, NaN (no noise is feasible) or 0 (nobody sends). If epsilon jumps over the target, the scale is on
    the side below it.

    Parameters
    ----------
    epsilon
        `epsilon(scales)` returns epsilons for scales, both of shape (realization,).
    target
        The target epsilon.
    count
        Number of realizations.
    below
        Relative amount by which epsilon may be below the target; above, ABOVE is allowed.

    Raises
    ------
    UnreachableError
        If some realization has no scale with an epsilon of at most the target after EVALUATIONS.
    """
    x, low, high = np.zeros(count), np.full(count, -np.inf), np.full(count, np.inf)
    last_x, last_y, slow, done = np.full(count, np.nan), np.full(count, np.nan), np.zeros(count, int), None
    for _ in range(EVALUATIONS):
        with np.errstate(divide="ignore"):
            excess = np.log(epsilon(np.exp(x)) / target)
        if done is None:
            done = np.isnan(excess) | np.isneginf(excess)
        above, width = ~(excess <= ABOVE), high - low
        low = np.where(above & ~done, np.maximum(low, x), low)
        high = np.where(~above & ~done, np.minimum(high, x), high)
        right, closed = ~above & (excess >= -below), high - low <= NARROW
        x = np.where(closed & ~right & ~done, high, x)
        done |= right | closed
        if done.all():
            return np.exp(x)
        y = excess + below / 2
        with np.errstate(invalid="ignore", divide="ignore"):
            slope = (y - last_y) / (x - last_x)
            slope = np.where(np.isfinite(slope) & (slope < 0), slope, -1.0)
            secant = x + np.clip(-y / slope, -FARTHEST, FARTHEST)
            middle = (low + high) / 2  # infinite or NaN without a bracket
        slow = np.where(high - low > width / 2, slow + 1, 0)
        halve = np.isfinite(middle) & ((secant <= low) | (secant >= high) | (slow > TRIES))
        slow = np.where(halve, 0, slow)
        last_x, last_y, x = x, y, np.where(done, x, np.where(halve, middle, secant))
    if np.isinf(high[~done]).any():
        raise UnreachableError(
            f"no noise scale with an epsilon of {target} or less was found in {EVALUATIONS} evaluations"
        )
    return np.exp(np.where(done, x, high))


def balanced(largest_mu: Callable[[np.ndarray], np.ndarray], shape: tuple[int, int]) -> np.ndarray:
    """Find scales of groups' noise at which all groups of a realization have the same largest mu.

    Each scale is multiplied by the group's mu over the realization's largest, at most BALANCES times, until ratios
    differ from 1 by at most EVEN. Groups whose mu is 0 or infinite keep the scale 1.

    Parameters
    ----------
    largest_mu
        `largest_mu(scales)` returns the largest mu of each group's members and rounds; both have shape (realization,
        group). A group's mu may depend on others' scales.
    shape
        Number of realizations and of groups.
    """
    scale = np.ones(shape)
    for _ in range(BALANCES):
        mu = largest_mu(scale)
        counts = (mu > 0) & np.isfinite(mu)
        worst = np.where(counts, mu, 0.0).max(axis=1, keepdims=True)
        ratio = np.divide(mu, worst, where=counts, out=np.ones(shape))
        if np.abs(ratio - 1).max(initial=0.0) <= EVEN:
            break
        scale = scale * ratio
    return scale
