"""Observers of sums of uploads, by secure aggregation, instead of single uploads (docs/explanation/sums.md).

Uploads are summed in groups: one user, a cell's active users, or all active users. User i's upload, the sum of its
clipped gradients, has noise of standard deviation s_i = K_i sigma_i. Of a group's n active users, C collude with the
observer, who subtracts their noise. Up to D drop out, and their noise is missing; a sum that lacks more is not opened.
A record is then hidden at least by the noise of its user and of the others, except the C + D with most noise.
"""

from typing import Any

import numpy as np
import scipy  # its modules are imported when they are first used

from pwfl.airs.air import MESSAGES, OBSERVERS, Observer
from pwfl.privacy import coalition
from pwfl.privacy.labels import AGGREGATION, REALIZED, Kind
from pwfl.systems.multicell.parameters import Privacy

ROUNDING = 1e-9  # relative difference up to which noise is treated as the least


def groups(observer: str, cell: np.ndarray) -> np.ndarray:
    """Return the number of the group in which each user's upload is summed, of the shape of `cell`, (..., user).

    `observer` sees the sums: `user`, each upload; `cell`, a sum for each cell; `network`, one sum. On air there are no
    groups, and the result is irrelevant.
    """
    if observer == "user":
        return np.broadcast_to(np.arange(cell.shape[-1]), cell.shape)
    return cell if observer == "cell" else np.zeros_like(cell)


OBSERVED_BY = {
    "user": MESSAGES,
    "cell": Observer("the sum of each cell's noisy messages of every round", "cell", (AGGREGATION,)),
    "network": Observer("the sum of all noisy messages of every round", "network", (AGGREGATION,)),
}


def observed_by(privacy: Privacy, intervals: int) -> dict[str, Observer]:
    """Return the observers of digital uploads.

    Visibilities are upper bounds if the worst coalition may change between intervals, or if users may drop out. With
    several intervals, the noise in a sum depends on who sends in later ones, which follows from channels (REALIZED).
    """
    gone = Kind.UPPER if privacy.dropouts else Kind.EXACT
    others = Kind.UPPER if privacy.colluders and intervals > 1 else gone
    share = f"; up to {coalition.percent(privacy.colluders)} of a sum's senders collude" * (privacy.colluders > 0)
    changes: dict[str, Any] = {"kind": others, "assumes": (REALIZED,) * (intervals > 1)}
    return {
        name: observer._replace(receives=observer.receives + share, **changes)
        if name != "user"
        else observer._replace(kind=gone)
        for name, observer in OBSERVED_BY.items()
    }


def colluding(privacy: Privacy, senders: np.ndarray) -> np.ndarray:
    """Compute C, the number of a group's active users who collude, of any shape (`coalition.colluding`)."""
    return coalition.colluding(privacy.colluders, senders)


def dropping(privacy: Privacy, senders: np.ndarray) -> np.ndarray:
    """Compute D, the largest number of active users who may drop out of a sum that is opened, any shape.

    It is the least number that is exceeded with probability at most `dropout_tolerance`, with independent dropouts.
    """
    if not privacy.dropouts:
        return np.zeros(np.shape(senders), int)
    return scipy.stats.binom.ppf(1 - privacy.dropout_tolerance, senders, privacy.dropouts).astype(int)


def honest(privacy: Privacy, senders: np.ndarray) -> np.ndarray:
    """Compute h = max(1, n - C - D), the least number of users with noise that hides a record, for n >= 1 users."""
    return np.maximum(1, senders - colluding(privacy, senders) - dropping(privacy, senders))


def left_to(observer: str, privacy: Privacy, cell: np.ndarray, sends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find the group that hides each user's record from an observer, and the largest number of others gone from it.

    Both have the shape of `cell` and `sends`, (..., user). Users who collude or drop out are gone. Colluders are a
    share of the observer's group. `privacy.observer` determines which sums are opened; each of its groups may lack D.
    Another observer's sum of several of these groups may lack all the others; a sum of a part of one may lack D. So if
    users drop out, a record is hidden in the intersection of both groups.
    """
    group = groups(observer, cell)
    if observer == "user":  # an upload contains only its user's noise
        return group, np.zeros(sends.shape, int)
    gone = colluding(privacy, total(sends * 1.0, group))
    if privacy.dropouts:
        opened = groups(privacy.observer, cell)
        gone = gone + dropping(privacy, total(sends * 1.0, opened))
        group = groups(finest(observer, privacy.observer), cell)
    return group, gone


def finest(*observers: str) -> str:
    """Return the observer of the smallest sums, of which those of all given observers consist."""
    return min(observers, key=OBSERVERS.index)


def total(values: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Sum the values of each user's group in its row; arrays and result have shape (..., user)."""
    index, sizes = _places(group)
    return np.bincount(index.ravel(), values.ravel(), sizes)[index].reshape(values.shape)


def _places(group: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the places of all rows' groups in one list, of the shape of `group`, and the list's length."""
    most, rows = int(group.max(initial=0)) + 1, group.size // group.shape[-1]
    return (np.arange(rows)[:, None] * most + group.reshape(rows, -1)).reshape(group.shape), rows * most


def shared_noise(
    privacy: Privacy, samples: np.ndarray, noise_std: np.ndarray, sends: np.ndarray, group: np.ndarray
) -> np.ndarray:
    """Compute the least noise with which no record is more exposed than the most exposed one of given noise.

    The given noise sigma_i is that of a user who sends in all rounds, without a group. The least (K_i sigma_i)^2 of the
    realization, V, must hide every record. The h or more honest users of a group share it equally: s_i^2 = V / h. The
    user who sends most often is to spend its privacy budget, and no user more, so V is multiplied by the share of the
    intervals in which that user sends.

    Parameters
    ----------
    samples, noise_std, sends, group
        K_i, sigma_i, whether a user sends, and its group, shape (realization, interval, user). A user who does not send
        keeps its noise.
    """
    variance = np.where(sends, (samples * noise_std) ** 2, np.inf)
    least = variance.min(axis=(1, 2), keepdims=True)
    ratio = np.divide(least, variance, where=sends & (variance > 0), out=np.ones(noise_std.shape))
    ratio = np.where(ratio > 1 - ROUNDING, 1.0, ratio)  # rounding errors of K_i sigma_i are no difference
    honest_share = honest(privacy, np.maximum(total(sends * 1.0, group), 1))
    return np.where(sends, noise_std * np.sqrt(ratio * busiest(sends) / honest_share), noise_std)


def busiest(sends: np.ndarray) -> np.ndarray:
    """Compute the largest share of intervals in which a user sends, shape (realization, 1, 1); 1 if nobody does."""
    share = sends.mean(axis=1).max(axis=1)[:, None, None]
    return np.where(share > 0, share, 1.0)


def hiding_noise(
    counts: np.ndarray, noise_std: np.ndarray, sends: np.ndarray, group: np.ndarray, gone: np.ndarray
) -> np.ndarray:
    """Compute the standard deviation of noise that hides a user's record in its group's sum, comparable to sigma_i.

    With a_j = counts_j / K_j, the public weight of user j's upload in the sum, V = sum a_j^2 s_j^2 over the user and
    the others of its group, except the `gone` with most noise. The result is sqrt(V) / counts_i, rounded down: sigma_i
    if all others are gone. All arrays have shape (..., user).
    """
    noise = np.where(sends, noise_std, 0.0)
    chosen, variance = np.nonzero(sends.ravel())[0], (counts * noise).ravel() ** 2
    index, _ = _places(group)
    others = coalition.others_left(variance[chosen], index.ravel()[chosen], gone.ravel()[chosen])
    hiding = np.array(noise, float).ravel()
    hiding[chosen] = np.hypot(hiding[chosen], np.sqrt(others) / counts.ravel()[chosen])
    return hiding.reshape(noise.shape)


def rounds_heard(
    privacy: Privacy, sends: np.ndarray, group: np.ndarray, rounds: int, generator: np.random.Generator
) -> np.ndarray:
    """Draw dropouts of each round; return which uploads are in sums that are opened, boolean, shape (round, user).

    The sum of a group that lacks more than D active users is not opened, and none of its uploads are received.
    `sends`, whether a user sends, and `group` have shape (interval, user).
    """
    length = rounds // len(sends)
    sends, group = (np.repeat(values, length, axis=0) for values in (sends, group))
    lost = sends & (generator.random(sends.shape) < privacy.dropouts)
    planned = dropping(privacy, total(sends * 1.0, group).astype(int))
    return sends & ~lost & (total(lost * 1.0, group) <= planned)
