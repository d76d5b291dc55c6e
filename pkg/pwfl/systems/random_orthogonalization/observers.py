"""Observers, colluders and dropouts, beyond the paper (docs/explanation/random_orthogonalization.md).

Whoever drops out of a round, the server receives the sum of the others: no protocol withholds it. So a guarantee is
planned for a number of users who are missing from a round, and that more are has a probability, which is part of delta.
"""

from collections.abc import Iterable

import numpy as np
import polars as pl

from pwfl.airs import air
from pwfl.airs.air import Observer
from pwfl.privacy import coalition
from pwfl.privacy.accountant import ALL, RECORD, USERS, Claim, Gaussian
from pwfl.privacy.labels import REALIZED, SERVER, Kind
from pwfl.systems.random_orthogonalization.parameters import Privacy
from pwfl.systems.random_orthogonalization.tables import ANTENNAS, UPDATE, USER, observer

OF_DELTA = 0.1  # the tolerance of dropouts where a config has none, as a share of delta
# How rounds hide a record: what noise is found by, and what account states.
ROUNDS = Gaussian("none claimed: a record may be in every mini-batch")
OBSERVED_BY = {
    UPDATE: Observer("the server's update of every round, channels known", ANTENNAS, (SERVER,), assumes=(REALIZED,)),
    ANTENNAS: Observer("the signals of all antennas in every round, channels known", ANTENNAS, assumes=(REALIZED,)),
    USER: Observer("every user's noisy update of every round", USER),
}


def table(privacy: Privacy, sizes: Iterable[int], users: int, realizations: range) -> pl.DataFrame:
    """The table `observers`, of networks of other sizes, too, whose observers have names of their own.

    Those who are gone are the loudest others of each round and, for all antennas, all others: upper bounds.
    """
    kind = Kind.UPPER if privacy.colluders or privacy.dropouts else Kind.EXACT
    share = f"; {coalition.percent(privacy.colluders)} of the users (rounded up) collude with it" * bool(
        privacy.colluders
    )
    rows = {}
    for size in sizes:
        for name, observed in OBSERVED_BY.items():
            whose, weaker = (observer(label, size, users) for label in (name, observed.weaker))
            rows[whose] = observed._replace(weaker=weaker, kind=kind, receives=observed.receives + share)
    return air.table(rows, pl.Series(realizations))


def claims(sensitivity: float, size: int, all_users: int) -> list[Claim]:
    """What is asked of a record in a network of some users, by all noise and by users' alone.

    The scenario has `all_users`. Without the receiver's noise, all antennas show every user's noisy update.
    """
    asked = []
    for name in OBSERVED_BY:
        whose, rows = observer(name, size, all_users), observer(ANTENNAS if name == USER else name, size, all_users)
        for noise in (USERS,) if name == USER else (ALL, USERS):
            asked.append(Claim(whose, RECORD, sensitivity, noise=noise, rows=rows))
    return asked


def counted(seen: str) -> str:
    """Whose noise counts in what is stated of an observer."""
    return USERS if seen == USER else ALL


def tolerance(privacy: Privacy) -> float:
    """The part of delta that is left to trainings of which a round lacks more users than planned."""
    if not privacy.dropouts:
        return 0.0
    return OF_DELTA * privacy.delta if privacy.dropout_tolerance is None else privacy.dropout_tolerance


def delta(privacy: Privacy) -> float:
    """The part of delta that is left to what is received."""
    return privacy.delta - tolerance(privacy)


def gone(privacy: Privacy, users: int, rounds: int) -> int:
    """C + D, how many others' noise does not hide a user's update at worst, at most all, in a network of some users."""
    dropping = 0
    if privacy.dropouts:
        dropping = coalition.missing(privacy.dropouts, users - 1, rounds, tolerance(privacy))
    return min(int(coalition.colluding(privacy.colluders, np.array(users))) + dropping, users - 1)


def left(variance: np.ndarray, many: int) -> np.ndarray:
    """Variance of the users' noise that hides each one's update, by the variance of each one's, shape (..., user).

    Its own is left, and that of the others without `many` of the largest, which may be others in each round.
    """
    users = variance.shape[-1]
    flat = variance.ravel()
    others = coalition.others_left(flat, np.arange(len(flat)) // users, np.full(len(flat), many))
    return (flat + others).reshape(variance.shape)
