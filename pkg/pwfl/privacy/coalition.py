"""How many users are gone from what hides a record, as they take their noise off for an observer or drop out."""

import numpy as np
import scipy  # whose modules are imported where they are first used

ROUNDING = 1e-9  # of a share of users
ULP = np.finfo(float).eps


def colluding(share: float, users: np.ndarray) -> np.ndarray:
    """C, how many of some users pool what they know with the observer: a share of them, rounded up, of any shape.

    The user whose record is hidden does not, so at most all others.
    """
    return np.minimum(np.ceil(share * users - ROUNDING), np.maximum(users - 1, 0)).astype(int)


def percent(share: float) -> str:
    """A share of users in words.

    >>> percent(0.2), percent(0.125)
    ('20%', '12.500%')
    """
    return f"{share:.3%}".replace(".000%", "%")


def missing(chance: float, others: int, rounds: int, tolerance: float) -> int:
    """D, how many of a user's others are missing from a round at most, but with a probability of `tolerance`.

    Each drops out of a round with probability `chance`, by itself. D is the least number with rounds P(Binomial(others,
    chance) > D) <= tolerance, so that by the union bound no round of a training lacks more, but with that probability.
    """
    more = scipy.stats.binom.sf(np.arange(others + 1), others, chance)
    return int(np.argmax(rounds * more <= tolerance))


def others_left(variance: np.ndarray, group: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """Variance of the others of each one's group, without those `gone` of the largest, rounded down.

    Arrays of shape (member,): each one's variance, the number of its group, and how many others are gone, at most all,
    which is the same in a group.
    """
    members = np.bincount(group)
    order = np.lexsort((-variance, group))
    rank = np.empty(len(order), int)
    rank[order] = np.arange(len(order)) - np.repeat(members.cumsum() - members, members)
    by_rank = np.zeros((len(members), members.max(initial=0) + 2))
    by_rank[group, rank] = variance
    remaining = by_rank[:, ::-1].cumsum(axis=1)[:, ::-1]  # of this rank and those after it
    gone = np.minimum(gone, members[group] - 1)
    left = np.where(rank <= gone, remaining[group, gone + 1], remaining[group, gone] - variance)
    return np.maximum(left, 0.0) * (1 - 4 * (members[group] + 1) * ULP)
