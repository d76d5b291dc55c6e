"""Value of a schedule, by which it lowers the objective (20), if users' noise is given, or may be chosen.

Both problems are to find the users of largest total value within the budget (21). With a multiplier as the price of the
budget, each user has a worth that does not depend on the others. The total worth is at least the total value.
"""

from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

from pwfl.systems.multicell import objective
from pwfl.systems.multicell.optimal_noise import optimal_noise

EXACT = 1e-12  # share of the sum of loads by which rounding may miss the budget


class Problem(Protocol):
    """Values of users in a schedule; rows are realizations, or other cases that are scheduled at once."""

    @property
    def least_load(self) -> np.ndarray:
        """Smallest contribution of a user to sum_i a_i K_i (sigma_i^2 - Vmax), which must not be positive by (21)."""

    def rows(self, chosen: np.ndarray) -> Self:
        """Return the problem of some rows, which may be repeated."""

    def priced(self, multiplier: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Compute each user's worth and load, shape (row, user), at a multiplier of (21), shape (row,)."""

    def value(self, scheduled: np.ndarray) -> np.ndarray:
        """Compute by how much scheduling these users, (row, user), lowers (20); minus infinity if (21) cannot hold."""


@dataclass(frozen=True)
class GivenNoise:
    """Users with given values and loads, of shape (row, user); with loads of zero, there is no budget."""

    values: np.ndarray
    loads: np.ndarray

    @classmethod
    def build(cls, samples: np.ndarray, noise_std: np.ndarray, gamma: float, max_error: float) -> Self:
        """Build problem (20), (21) for users' samples and noise, shape (row, user)."""
        return cls(objective.value(samples, noise_std, gamma), objective.load(samples, noise_std, max_error))

    @property
    def least_load(self) -> np.ndarray:
        """See `Problem`."""
        return self.loads

    def rows(self, chosen: np.ndarray) -> Self:
        """See `Problem`."""
        return type(self)(self.values[chosen], self.loads[chosen])

    def priced(self, multiplier: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Problem`."""
        return self.values - multiplier[:, None] * self.loads, self.loads

    def value(self, scheduled: np.ndarray) -> np.ndarray:
        """See `Problem`."""
        load = np.where(scheduled, self.loads, 0.0)
        fits = load.sum(axis=1) <= EXACT * abs(load).sum(axis=1)
        return np.where(fits, np.where(scheduled, self.values, 0.0).sum(axis=1), -np.inf)


@dataclass(frozen=True)
class ChosenNoise:
    """Users with noise that is chosen, as (36) chooses it for scheduled users.

    At a multiplier mu, the noise with which user i has most worth is s_i = sigma_i^2 = max(sqrt(gamma / (mu K_i^3)),
    (Nmin / K_i)^2). The worth is then K_i (1 + mu Vmax) - gamma / (K_i^2 s_i) - mu K_i s_i.
    """

    samples: np.ndarray  # K_i, float, shape (row, user)
    gamma: float
    max_error: float  # Vmax
    min_noise: float  # Nmin

    @property
    def least_load(self) -> np.ndarray:
        """See `Problem`."""
        return objective.least_load(self.samples, self.max_error, self.min_noise)

    def rows(self, chosen: np.ndarray) -> Self:
        """See `Problem`."""
        return type(self)(self.samples[chosen], self.gamma, self.max_error, self.min_noise)

    def priced(self, multiplier: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Problem`."""
        samples, price = self.samples, multiplier[:, None]
        floor = self.min_noise**2 / samples
        at_floor = self.gamma / self.min_noise**2 + price * floor
        with np.errstate(divide="ignore", invalid="ignore"):
            free = np.sqrt(self.gamma / (price * samples))  # K_i s_i, above the floor (22)
            cost = np.where(free > floor, 2 * np.sqrt(self.gamma * price / samples), at_floor)
        error = np.where(free > floor, free, floor)
        return samples + price * self.max_error * samples - cost, error - self.max_error * samples

    def value(self, scheduled: np.ndarray) -> np.ndarray:
        """See `Problem`."""
        noise_std, _, feasible = optimal_noise(self.samples, scheduled, self.max_error, self.min_noise)
        with np.errstate(divide="ignore", invalid="ignore"):
            values = objective.value(self.samples, noise_std, self.gamma)
        return np.where(feasible, np.where(scheduled, values, 0.0).sum(axis=1), -np.inf)
