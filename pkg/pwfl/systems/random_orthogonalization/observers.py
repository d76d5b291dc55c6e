"""Observers, colluders and dropouts, beyond the paper (docs/explanation/random_orthogonalization.md).

If users drop out of a round, the server receives the sum of the others: no protocol withholds it. So a guarantee
assumes a number of users who are missing from a round. The probability that more are missing is part of delta.
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

OF_DELTA = 0.1  # default tolerance of dropouts, as a share of delta
# Mechanism of the rounds, with which noise is calibrated and `account` computes epsilon.
ROUNDS = Gaussian("none claimed: a record may be in every mini-batch")
OBSERVED_BY = {
    UPDATE: Observer("the server's update of every round, channels known", ANTENNAS, (SERVER,), assumes=(REALIZED,)),
    ANTENNAS: Observer("the signals of all antennas in every round, channels known", ANTENNAS, assumes=(REALIZED,)),
    USER: Observer("every user's noisy update of every round", USER),
}


def table(privacy: Privacy, sizes: Iterable[int], users: int, realizations: range) -> pl.DataFrame:
    """Make the table `observers`, also for networks of other sizes, in which observers have other names.

    Colluders and dropouts are the loudest others of each round and, for all antennas, all others: upper bounds.
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
    """List the claims on a record in a network of `size` users, for all noise and for only users' noise.

    The scenario has `all_users`. Without the receiver's noise, all antennas show every user's noisy update.
    """
    asked = []
    for name in OBSERVED_BY:
        whose, rows = observer(name, size, all_users), observer(ANTENNAS if name == USER else name, size, all_users)
        for noise in (USERS,) if name == USER else (ALL, USERS):
            asked.append(Claim(whose, RECORD, sensitivity, noise=noise, rows=rows))
    return asked


def counted(seen: str) -> str:
    """Return the noise that counts in the epsilon stated against an observer: USERS or ALL."""
    return USERS if seen == USER else ALL


def tolerance(privacy: Privacy) -> float:
    """Return the part of delta for training runs in which a round lacks more users than planned."""
    if not privacy.dropouts:
        return 0.0
    return OF_DELTA * privacy.delta if privacy.dropout_tolerance is None else privacy.dropout_tolerance


def delta(privacy: Privacy) -> float:
    """Return the part of delta that remains for the received signals."""
    return privacy.delta - tolerance(privacy)


def gone(privacy: Privacy, users: int, rounds: int) -> int:
    """Return C + D, the largest number of other users with noise that does not hide a user's update, at most all."""
    dropping = 0
    if privacy.dropouts:
        dropping = coalition.missing(privacy.dropouts, users - 1, rounds, tolerance(privacy))
    return min(int(coalition.colluding(privacy.colluders, np.array(users))) + dropping, users - 1)


def left(variance: np.ndarray, many: int) -> np.ndarray:
    """Compute the noise variance that hides each user's update, from each user's noise variance, shape (..., user).

    It is the user's variance plus those of the others, without the `many` largest, which may differ between rounds.
    """
    users = variance.shape[-1]
    flat = variance.ravel()
    others = coalition.others_left(flat, np.arange(len(flat)) // users, np.full(len(flat), many))
    return (flat + others).reshape(variance.shape)
