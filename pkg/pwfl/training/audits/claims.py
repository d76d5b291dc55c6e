"""What a system claims of a user's message, and what observers receive.

A view is a function from the server's `Reception` to an observer's.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import polars as pl

from pwfl.privacy import accountant
from pwfl.tables.reception import Reception

View = Callable[[Reception], Reception]


class Claim(NamedTuple):
    """What a system claims of the messages of the audited user, the target.

    Attributes
    ----------
    target
        Number of the user.
    mu
        mu = sensitivity / noise standard deviation of its message in each round, against the observer, shape (round,).
    view
        Function from the server's reception to the observer's; None: they are the same.
    exact
        Whether mu is the largest that a record attains, rather than an upper bound.
    epsilon
        Lower bound on epsilon of all rounds; None: epsilon of a Gaussian mechanism with the norm of `mu`.
    everyone
        mu of all users' messages, shape (round, user); None: nothing is claimed of others.
    view_of
        `view_of(user, reception)` returns what the observer receives of a user's record.
    """

    target: int
    mu: np.ndarray
    view: View | None = None
    exact: bool = True
    epsilon: float | None = None
    everyone: np.ndarray | None = None
    view_of: Callable[[int, Reception], Reception] = lambda user, reception: reception


def claim_of(
    tables: dict[str, pl.DataFrame],
    realization: int,
    observer: str,
    sensitivity: float,
    users_only: bool = False,
    view: Callable[[int, Reception], Reception] | None = None,
) -> Claim:
    """Make the claim of the table `visibility` for the most exposed user of a realization.

    The user is one whose records are received in some round, if there is any.

    Parameters
    ----------
    tables
        By name; `users`, `reception` and `visibility` are used.
    realization
        Its number.
    observer
        The observer's rows of `visibility`.
    sensitivity
        L2 norm by which replacing one record changes a message, at most.
    users_only
        Whether only users' noise counts, and not the receivers'.
    view
        `view(user, reception)` returns what the observer receives of a user's record; None: the server's reception.
    """
    losses = accountant.losses(tables, observer, sensitivity, users_only)
    row = tables["users"]["realization"].unique().sort().to_list().index(realization)
    senders = select_deliveries(tables, realization)["user"].unique().sort().to_list()
    among = senders or list(range(losses.mu.shape[2]))
    target = among[int(losses.rho[row, among].argmax())]
    everyone = np.repeat(losses.mu[row], losses.rounds, axis=0)
    claim = Claim(target, everyone[:, target], partial(view, target) if view else None, everyone=everyone)
    return claim._replace(view_of=view) if view else claim


def select_deliveries(tables: dict[str, pl.DataFrame], realization: int) -> pl.DataFrame:
    """Select a realization's rows of `reception` in which a record is received: weight and records are not zero."""
    sent = pl.col("records").is_null() | (pl.col("records") > 0)
    in_a_band = pl.col("bands").is_null() | pl.col("bands").list.eval(pl.element() != 0).list.any()
    return tables["reception"].filter(pl.col("weight") != 0, sent, in_a_band, realization=realization)


def upload(target: int, reception: Reception) -> Reception:
    """View: an observer who receives the uploads of user `target` alone."""
    return reception.select_users(np.arange(reception.sends.shape[1]) == target)


def noise_of(user: int, view: View | None, reception: Reception) -> Reception:
    """View: what the observer of `view` receives (None: the server) if only one user adds noise."""
    seen = view(reception) if view else reception
    noise = seen.user_noise_std * (np.arange(seen.sends.shape[1]) == user)
    return seen._replace(user_noise_std=noise, noise_std=np.sqrt((noise**2).sum(axis=1)))
