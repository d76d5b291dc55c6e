"""Number of users whose noise does not protect a record, since they collude with the observer or drop out."""

import numpy as np
import scipy  # whose modules are imported where they are first used

ROUNDING = 1e-9  # of a share of users
ULP = np.finfo(float).eps


def colluding(share: float, users: np.ndarray) -> np.ndarray:
    """Compute the number C of users who collude with the observer: `share` of `users`, rounded up.

    The user whose record is protected does not collude, so C is at most `users` - 1. `users` and C have any shape.
    """
    return np.minimum(np.ceil(share * users - ROUNDING), np.maximum(users - 1, 0)).astype(int)


def percent(share: float) -> str:
    """Format a share of users as a percentage.

    >>> percent(0.2), percent(0.125)
    ('20%', '12.500%')
    """
    return f"{share:.3%}".replace(".000%", "%")


def missing(chance: float, others: int, rounds: int, tolerance: float) -> int:
    """Compute the number D of other users who drop out of any round at most, except with probability `tolerance`.

    Each of `others` users drops out of a round with probability `chance`, independently. D is the smallest number with

        rounds P(Binomial(others, chance) > D) <= tolerance,

    which holds for all rounds together by the union bound.
    """
    more = scipy.stats.binom.sf(np.arange(others + 1), others, chance)
    return int(np.argmax(rounds * more <= tolerance))


def others_left(variance: np.ndarray, group: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """Sum the noise variances of the other members of each one's group, without the largest ones; rounded down.

    Parameters
    ----------
    variance
        Noise variance of each member, shape (member,).
    group
        Number of each member's group, shape (member,).
    gone
        How many other members, those with the largest variances, are left out, int, shape (member,), the same within a
        group.
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
