"""Observers who see sums of uploads, as secure aggregation leaves them, and not single ones (docs/explanation/sums.md).

Uploads are summed in groups: a user alone, a cell's senders, or all senders. User i's upload, the sum of its clipped
gradients, has noise of deviation s_i = K_i sigma_i. Of a group's n senders C collude with the observer, who takes their
noise off the sum, and up to D drop out, whose noise is missing; a sum that lacks more is not opened. What then hides a
record is at least the noise of its own user and of the others but for the C + D of most noise.
"""

from typing import Any

import numpy as np
import scipy  # whose modules are imported where they are first used

from pwfl.airs.air import MESSAGES, OBSERVERS, Observer
from pwfl.privacy import coalition
from pwfl.privacy.labels import AGGREGATION, REALIZED, Kind
from pwfl.systems.multicell.parameters import Privacy

ROUNDING = 1e-9  # of noise that is the least


def groups(observer: str, cell: np.ndarray) -> np.ndarray:
    """Number of the group in which each user's upload is summed, of the shape of `cell`, whose last axis is of users.

    `observer` sees the sums: `user`, each upload alone; `cell`, a sum for each cell; `network`, one sum; on air, where
    there are no groups, it does not matter.
    """
    if observer == "user":
        return np.broadcast_to(np.arange(cell.shape[-1]), cell.shape)
    return cell if observer == "cell" else np.zeros_like(cell)


def summed_groups(privacy: Privacy, cell: np.ndarray) -> np.ndarray:
    """Number of the group of which the scenario's observer sees the sum, as `groups`."""
    return groups(privacy.observer, cell)


OBSERVED_BY = {
    "user": MESSAGES,
    "cell": Observer("the sum of each cell's noisy messages of every round", "cell", (AGGREGATION,)),
    "network": Observer("the sum of all noisy messages of every round", "network", (AGGREGATION,)),
}


def observed_by(privacy: Privacy, intervals: int) -> dict[str, Observer]:
    """Who observes digital uploads.

    The worst coalition may be another one in each interval, and who drops out hides more: upper bounds. What hides a
    record in a sum follows from who sends in intervals to come, by their channels.
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
    """C, how many of a group's senders collude with the observer, of any shape (`coalition.colluding`)."""
    return coalition.colluding(privacy.colluders, senders)


def dropping(privacy: Privacy, senders: np.ndarray) -> np.ndarray:
    """D, how many of a group's senders may drop out before its sum is not opened, of any shape.

    The least number that is exceeded with a probability of at most `dropout_tolerance`, where each drops out by itself.
    """
    if not privacy.dropouts:
        return np.zeros(np.shape(senders), int)
    return scipy.stats.binom.ppf(1 - privacy.dropout_tolerance, senders, privacy.dropouts).astype(int)


def honest(privacy: Privacy, senders: np.ndarray) -> np.ndarray:
    """h = max(1, n - C - D), how many users' noise hides a record at least, of groups of n >= 1 senders."""
    return np.maximum(1, senders - colluding(privacy, senders) - dropping(privacy, senders))


def left_to(observer: str, privacy: Privacy, cell: np.ndarray, sends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The group in which each user's record is hidden from an observer, and how many others are gone from it at most.

    Both have the shape of `cell` and `sends`, whose last axis is of users. Colluders are a share of the senders of the
    observer's own group. Which sums are opened goes by `privacy.observer`, whose groups may lack D each. Another
    observer's sum may thus lack all else where it is of several of them, and D of its own where it is a part of one:
    where users drop out, a record is hidden in what both groups have in common.
    """
    group = groups(observer, cell)
    if observer == "user":  # nobody else's noise is in an upload
        return group, np.zeros(sends.shape, int)
    gone = colluding(privacy, total(sends * 1.0, group))
    if privacy.dropouts:
        opened = summed_groups(privacy, cell)
        gone = gone + dropping(privacy, total(sends * 1.0, opened))
        group = groups(finest(observer, privacy.observer), cell)
    return group, gone


def finest(*observers: str) -> str:
    """The observer of the sums of which those of all are made."""
    return min(observers, key=OBSERVERS.index)


def total(values: np.ndarray, group: np.ndarray) -> np.ndarray:
    """What the values of each one's group in its row add up to; both of shape (..., user)."""
    index, sizes = _places(group)
    return np.bincount(index.ravel(), values.ravel(), sizes)[index].reshape(values.shape)


def _places(group: np.ndarray) -> tuple[np.ndarray, int]:
    """Places of the groups of all rows in one list, of the shape of `group`, and its length."""
    most, rows = int(group.max(initial=0)) + 1, group.size // group.shape[-1]
    return (np.arange(rows)[:, None] * most + group.reshape(rows, -1)).reshape(group.shape), rows * most


def shared_noise(
    privacy: Privacy, samples: np.ndarray, noise_std: np.ndarray, sends: np.ndarray, group: np.ndarray
) -> np.ndarray:
    """Noise of the least total variance with which no record spends more than the worst-off one of given noise.

    Given is the noise sigma_i that each user would add if it sent in all rounds and were alone. The least of the
    realization's (K_i sigma_i)^2, V, is what has to hide every record; its senders' h honest ones at least share it
    equally: s_i^2 = V / h. As the user who sends most often is to spend its budget, and no other one more, V is smaller
    by the share of the intervals in which that user sends.

    Parameters
    ----------
    samples, noise_std, sends, group
        K_i, sigma_i, who sends, and in which group, shape (realization, interval, user). Who does not send keeps its
        noise.
    """
    variance = np.where(sends, (samples * noise_std) ** 2, np.inf)
    least = variance.min(axis=(1, 2), keepdims=True)
    ratio = np.divide(least, variance, where=sends & (variance > 0), out=np.ones(noise_std.shape))
    ratio = np.where(ratio > 1 - ROUNDING, 1.0, ratio)  # what is rounded of K_i sigma_i is no difference
    honest_share = honest(privacy, np.maximum(total(sends * 1.0, group), 1))
    return np.where(sends, noise_std * np.sqrt(ratio * busiest(sends) / honest_share), noise_std)


def busiest(sends: np.ndarray) -> np.ndarray:
    """The largest share of the intervals in which a user sends, shape (realization, 1, 1); 1 where nobody does."""
    share = sends.mean(axis=1).max(axis=1)[:, None, None]
    return np.where(share > 0, share, 1.0)


def hiding_noise(
    counts: np.ndarray, noise_std: np.ndarray, sends: np.ndarray, group: np.ndarray, gone: np.ndarray
) -> np.ndarray:
    """Deviation of the noise that hides each user's record in its group's sum, as if it were the user's own.

    With a_j = counts_j / K_j, the public weight of user j's upload in the sum, V = sum a_j^2 s_j^2 over the user itself
    and the others of its group, but for the `gone` of most noise, and the result is sqrt(V) / counts_i, rounded down:
    the user's own sigma_i, where the others are gone. All arrays have shape (..., user).
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
    """Whose uploads are in the sums that are opened, shape (round, user): dropouts are drawn in each round.

    A group that lacks more than D of its senders is not opened, so that nothing of it is heard. `sends`, who sends, and
    `group` have shape (interval, user).
    """
    length = rounds // len(sends)
    sends, group = (np.repeat(values, length, axis=0) for values in (sends, group))
    lost = sends & (generator.random(sends.shape) < privacy.dropouts)
    planned = dropping(privacy, total(sends * 1.0, group).astype(int))
    return sends & ~lost & (total(lost * 1.0, group) <= planned)
