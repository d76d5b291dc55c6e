"""Uploads as integers modulo 2^bits, which are summed exactly: their grids and their privacy loss.

Each group of active users has a public grid; its step follows from public numbers. A user rotates the sum of its
clipped gradients, rounds it to the grid and adds discrete Gaussian noise of standard deviation s_i = K_i sigma_i
(docs/explanation/sums.md).
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple, Self

import numpy as np
import polars as pl

from pwfl.learning import features, modular
from pwfl.privacy import discrete
from pwfl.privacy.accountant import FALSE_POSITIVES, USER, Account, Claim, Gaussian, Losses
from pwfl.privacy.labels import Kind, labeled
from pwfl.systems.multicell.assigned import KEYS
from pwfl.systems.multicell.beyond import sums
from pwfl.systems.multicell.parameters import Multicell, Training
from pwfl.tables.arrays import to_array
from pwfl.training.models import network, parameter_count

ORDERS = {True: discrete.ORDERS, False: discrete.WHOLE_ORDERS}  # Renyi orders, by whether the observer knows dithers


class RoundingError(ValueError):
    """Noise is too small for the grid; the message names the size of the sum, and a remedy."""


class Integers(NamedTuple):
    """Sums of integers, a mechanism of `accountant`: no epsilon is less than that of the noise before rounding.

    `spent(observer, unit, dithers_known)` returns the Renyi `divergences` of each user, shape (realization, user,
    order).
    """

    spent: Callable[[str, str, bool], np.ndarray]
    sampling: str = "none"

    @classmethod
    def from_table(cls, scenario: Multicell, frame: pl.DataFrame) -> Self:
        """Build the mechanism of a scenario; `frame` is as from `assigned`."""

        @cache
        def spent(observer: str, unit: str, dithers_known: bool) -> np.ndarray:
            records = to_array(frame, "samples", *KEYS) if unit == USER else 1
            return divergences(scenario.training, *_given(scenario, frame, observer), dithers_known, records)

        return cls(spent)

    def worth(self, losses: Losses, claim: Claim, delta: float) -> tuple[np.ndarray, Kind]:
        """Compute epsilon by Renyi divergences, as the smaller of two bounds; that for known dithers always holds."""
        noise, kind = Gaussian().worth(losses, claim, delta)
        (known, known_kind), (private, private_kind) = (self.epsilon(claim, delta, knows) for knows in (True, False))
        return np.fmax(np.minimum(private, known), noise), kind | known_kind | private_kind

    def epsilon(self, claim: Claim, delta: float, dithers_known: bool) -> tuple[np.ndarray, Kind]:
        """Compute each user's epsilon by one of the bounds, (realization, user), and its kind; 0 if it never sends."""
        spent = self.spent(claim.observer, claim.unit, dithers_known)
        value, kind = labeled(discrete.epsilon, ORDERS[dithers_known], spent, delta)
        return np.where((spent > 0).any(axis=-1), value, 0.0), kind

    def attack_rate(self, account: Account, worst: np.ndarray) -> np.ndarray:
        """Compute the rate by Renyi divergences, at least that of the noise before rounding."""
        spent = (self.spent(account.claim.observer, account.claim.unit, knows) for knows in ORDERS)
        worst_spent = (s[np.arange(len(worst)), worst] for s in spent)
        best = [discrete.attack_rate(*s, FALSE_POSITIVES) for s in zip(ORDERS.values(), worst_spent, strict=True)]
        return np.fmax(np.min(best, axis=0), Gaussian().attack_rate(account, worst))


def reception_columns(scenario: Multicell, frame: pl.DataFrame, group: np.ndarray) -> dict[str, pl.Series]:
    """Return the columns of `reception` on integers, the group of a sum and the grid step; none without integers.

    `group` has shape (realization, interval, user).
    """
    if not scenario.training.bits:
        return {}
    return {"group": pl.Series(group.ravel()), "grid_step": pl.Series(grids(scenario, frame).ravel())}


def grids(scenario: Multicell, frame: pl.DataFrame) -> np.ndarray:
    """Compute the steps of active users' grids, shape (realization, interval, user); `frame` is as from `assigned`.

    Raises RoundingError, as `grid_steps`.
    """
    columns = ("samples", "noise_std", "scheduled", "cell")
    samples, noise_std, scheduled, cell = (to_array(frame, name, *KEYS) for name in columns)
    training, sends = scenario.training, scheduled & ~np.isnan(noise_std)
    size = parameter_count(network(training, features.size(scenario)))
    return grid_steps(training, samples, noise_std, sends, sums.groups(scenario.privacy.observer, cell), size)


def grid_steps(
    training: Training,
    samples: np.ndarray,
    noise_std: np.ndarray,
    sends: np.ndarray,
    group: np.ndarray,
    dimensions: int,
) -> np.ndarray:
    """Compute the step gamma of active users' grids, 0 for others; arrays have shape (..., user), K_i may have (user,).

    Raises RoundingError if a user's noise is less than `discrete.LEAST_STEPS` steps, but not 0.
    """
    std = np.where(sends, samples * np.where(sends, noise_std, 0.0), 0.0)
    senders = np.maximum(sums.total(sends * 1.0, group), 1)
    norm = training.clip_norm * sums.total(np.where(sends, samples, 0.0), group)
    sum_std = np.sqrt(sums.total(std**2, group) / senders)
    assert training.bits is not None  # otherwise there are no integers
    step = np.where(sends, modular.grid_step(norm, sum_std, senders, dimensions, training.bits), 0.0)
    fine = np.divide(std, step, where=std > 0, out=np.full(step.shape, np.inf))
    if (least := fine.min(initial=np.inf)) < discrete.LEAST_STEPS:
        place = np.unravel_index(np.argmin(fine), fine.shape)
        bits = training.bits + int(np.ceil(np.log2(discrete.LEAST_STEPS / least)))
        raise RoundingError(
            f"training.bits: {training.bits} is too few: noise spans {least:.3g} grid steps in a sum of "
            f"{senders[place]:.0f} users; {discrete.LEAST_STEPS} are required. Use {bits} or more, or fewer users "
            "per sum"
        )
    return step


def divergences(
    training: Training,
    noise_std: np.ndarray,
    step: np.ndarray,
    sends: np.ndarray,
    group: np.ndarray,
    gone: np.ndarray,
    dimensions: int,
    dithers_known: bool = False,
    records: np.ndarray | int = 1,
) -> np.ndarray:
    """Bound each user's Renyi divergences for an observer of integer sums, all rounds, (realization, user, order).

    The sums are those of `group`: the groups of grids, or parts of them. An observer of sums of these sums sees less,
    but its whole coalition may be in one of them. The bound is `discrete.private_dither_cost`, with the orders
    `discrete.WHOLE_ORDERS`, or, if the observer knows how users rounded, `discrete.round_cost`, with `discrete.ORDERS`.
    It is 0 for users who never send, and infinite without noise.

    Parameters
    ----------
    noise_std, step, sends, group, gone
        s_i, the grid's step, whether a user sends, its group, and the largest number of others who are gone from it
        (`sums.left_to`), shape (realization, interval, user).
    records
        Number of a user's records that are replaced, of the same shape, or one number.
    """
    cost_of = discrete.round_cost if dithers_known else discrete.private_dither_cost
    orders = ORDERS[dithers_known]
    honest = np.maximum(1, sums.total(sends * 1.0, group) - gone)
    rounds = training.rounds // sends.shape[1]
    spent = np.zeros((sends.shape[0], sends.shape[2], len(orders)))
    moved = np.broadcast_to(2 * training.clip_norm * records, sends.shape)
    for interval in range(sends.shape[1]):
        now = sends[:, interval]
        grid, noise, hiding, far = (values[:, interval][now] for values in (step, noise_std, honest, moved))
        alike, place = np.unique([far / grid, noise / grid, hiding], axis=1, return_inverse=True)
        cost, noisy = np.full((alike.shape[1], len(orders)), np.inf), alike[1] > 0
        if noisy.any():
            cost[noisy] = cost_of(orders, *alike[:, noisy], dimensions)
        spent[now] += rounds * cost[place]
    return spent


def concentrated(scenario: Multicell, frame: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Compute rho of each user's records up to an order, for the scenario's observer; see `discrete.concentrated`."""
    spent = divergences(scenario.training, *_given(scenario, frame, scenario.privacy.observer))
    return discrete.concentrated(discrete.WHOLE_ORDERS, spent, scenario.privacy.delta)


def _given(scenario: Multicell, frame: pl.DataFrame, observer: str) -> tuple:
    """Compute the arguments of `divergences` for an observer, except the training."""
    columns = ("samples", "scheduled", "noise_std", "cell")
    samples, scheduled, noise_std, cell = (to_array(frame, name, *KEYS) for name in columns)
    sends, size = scheduled & ~np.isnan(noise_std), parameter_count(network(scenario.training, features.size(scenario)))
    group = sums.groups(sums.finest(observer, scenario.privacy.observer), cell)
    _, gone = sums.left_to(observer, scenario.privacy, cell, sends)
    return samples * noise_std, grids(scenario, frame), sends, group, gone, size
