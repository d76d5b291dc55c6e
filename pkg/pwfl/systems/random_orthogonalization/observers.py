"""Who observes, who colludes with it, and who drops out: beyond the paper (docs/random_orthogonalization.md).

Whoever drops out of a round, the server receives the sum of the others: no protocol withholds it. So a guarantee is
planned for a number of users who are missing from a round, and that more are has a probability, which is part of delta.
"""

import numpy as np
import polars as pl

from pwfl.privacy import accountant, coalition
from pwfl.systems.random_orthogonalization.parameters import Privacy
from pwfl.systems.random_orthogonalization.tables import ANTENNAS, UPDATE, USER, observer

OF_DELTA = 0.1  # the tolerance of dropouts where a config has none, as a share of delta
SEEN = {
    UPDATE: "sees the server's update of every round and knows all channels",
    ANTENNAS: "sees the signals of all antennas in every round and knows all channels",
    USER: "sees every user's noisy update of every round",
}
OTHERS = {  # what epsilons of other observers are of
    UPDATE: "for epsilon_antennas and all that begin so, sees the signals of all antennas",
    ANTENNAS: "for epsilon_gaussian, sees the server's update of a round",
}
OTHERS[USER] = f"{OTHERS[UPDATE]}, for epsilon_gaussian the server's update of a round"


def rows_of(seen: str) -> tuple[str, bool]:
    """Which rows of the table `visibility` are an observer's, and whether they are those of the users' noise alone.

    Without the receiver's noise, all antennas show every user's noisy update.
    """
    return (ANTENNAS, True) if seen == USER else (seen, False)


def losses(
    tables: dict[str, pl.DataFrame], seen: str, users: int, own: int, sensitivity: float, users_only: bool
) -> accountant.Losses:
    """What an observer's view costs in a network of some users (`own`: the scenario's), by all noise or users'."""
    rows, alone = rows_of(seen)
    return accountant.losses(tables, observer(rows, users, own), sensitivity, users_only or alone, users)


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


def left(of_users: np.ndarray, many: int) -> np.ndarray:
    """Variance of the users' noise that hides each one's update, by the variance of each one's, shape (..., user).

    Its own is left, and that of the others without `many` of the largest, which may be others in each round.
    """
    users = of_users.shape[-1]
    own = of_users.ravel()
    others = coalition.others_left(own, np.arange(len(own)) // users, np.full(len(own), many))
    return (own + others).reshape(of_users.shape)


def words(privacy: Privacy) -> tuple[str, str]:
    """What is said of who observes, and of what the guarantee rests on besides."""
    seen, besides = SEEN[privacy.observer], ""
    if privacy.colluders:
        seen += f", {coalition.percent(privacy.colluders)} of the users (rounded up) collude with it"
    if privacy.colluders or privacy.dropouts:
        besides = (
            "; upper bounds: those who are gone are the loudest others of each round and, for all antennas, all others"
        )
    if privacy.dropouts:
        besides += (
            f"; each user drops out of a round with probability {privacy.dropouts:g}, whatever the data; that in some "
            f"round more do than are taken for gone has a probability of {tolerance(privacy):g} at most, part of delta"
        )
    return f"{seen}; {OTHERS[privacy.observer]}", besides
