"""Noise for a target: the scale at which what an accountant says is the target, and not above it.

Nothing is assumed of the epsilon but that some scale has one above the target and some larger one has not: a scale that
is returned was evaluated, so what holds of it is what the accountant says of it.
"""

from collections.abc import Callable

import numpy as np

ABOVE, BELOW = 1e-9, 2e-9  # by which an epsilon may be above and below its target, relative
NARROW = 1e-13  # of the logarithm of a scale: brackets are not made smaller
FARTHEST = np.log(4.0)  # by which the logarithm of a scale is changed at once
EVEN = 1e-7  # by which mu of groups may differ, relative
TRIES = 3  # secants that may leave more than half of a bracket, before it is halved
EVALUATIONS, BALANCES = 80, 12  # at most


class UnreachableError(ArithmeticError):
    """No scale of the noise leads to the target."""


def scales(epsilon: Callable[[np.ndarray], np.ndarray], target: float, count: int, below: float = BELOW) -> np.ndarray:
    """Scales of `count` realizations' noise at which `epsilon(scales)` is `target`, but for ABOVE and `below`.

    All are looked for at once, each by secants of logarithms in a bracket; one that starts right stays 1, and so does
    one whose epsilon is NaN (no noise is feasible) or 0 (nobody sends). Where the epsilon jumps over the target, the
    scale is that of the lower side. Raises UnreachableError after EVALUATIONS without one.
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
    """Scales of groups' noise, (realization, group), at which all of a realization's have the mu of the worst-off.

    `largest_mu(scales)` is of each group's members and rounds. Groups may disturb each other; what is left after
    BALANCES evaluations, or of less than EVEN, is taken as it is. Groups without any mu, or of an infinite one, stay 1.
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
