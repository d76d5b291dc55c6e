"""What is claimed of a user's message, and the views of who observes it."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import polars as pl

from pwfl.privacy import accountant
from pwfl.tables.reception import Reception

View = Callable[[Reception], Reception]


class Claim(NamedTuple):
    """What is claimed of a user's message.

    Attributes
    ----------
    target
        The user.
    mu
        Of its message in each round, shape (round,), against the observer.
    view
        The observer's reception by the server's; None: the same.
    exact
        The claim is what is lost, and no bound of it.
    epsilon
        What these losses cost at least; None: that of Gaussian mechanisms.
    everyone, view_of
        mu of all users' messages, shape (round, user), None: nothing is claimed of others; and the observer's
        reception, of a user's record, by the server's.
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
    """What `visibility` claims of the user that loses most to an observer, whose `view(user, reception)` it is.

    It is one of those of whom a record is heard in some round, if there are any: by chance, others drop out of all, or
    none of their records is in any message.
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
    """Select the rows of `reception` in a realization that deliver records."""
    sent = pl.col("records").is_null() | (pl.col("records") > 0)
    in_a_band = pl.col("bands").is_null() | pl.col("bands").list.eval(pl.element() != 0).list.any()
    return tables["reception"].filter(pl.col("weight") != 0, sent, in_a_band, realization=realization)


def upload(target: int, reception: Reception) -> Reception:
    """The view of who sees a user's uploads alone."""
    return reception.select_users(np.arange(reception.sends.shape[1]) == target)


def noise_of(user: int, view: View | None, reception: Reception) -> Reception:
    """A view of a reception in which one user alone adds noise."""
    seen = view(reception) if view else reception
    noise = seen.user_noise_std * (np.arange(seen.sends.shape[1]) == user)
    return seen._replace(user_noise_std=noise, noise_std=np.sqrt((noise**2).sum(axis=1)))
