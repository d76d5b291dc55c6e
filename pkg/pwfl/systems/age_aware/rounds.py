"""One round of Lin et al.: the clients' data over time, their noisy means, the server's average (Sec. II-B)."""

from functools import reduce
from typing import NamedTuple

import numpy as np
import polars as pl

from pwfl.systems.age_aware import markov


class Clients(NamedTuple):
    """The Markov chains of some clients' data."""

    states: np.ndarray  # values of the data, shape (state,)
    samples: np.ndarray  # n_k, shape (user,)
    start: np.ndarray  # distributions of X_0, shape (user, state)
    transition: np.ndarray  # shape (user, state, state)

    @classmethod
    def from_table(cls, users: pl.DataFrame) -> "Clients":
        """Return the clients of one realization's table `users`, in the order of its rows."""
        columns = (np.array(users[name].to_list()) for name in ("samples", "start", "transition"))
        return cls(np.array(users["states_wh"][0].to_list()), *columns)

    @property
    def share(self) -> np.ndarray:
        """Aggregation weights alpha_k of the server's average, shape (user,)."""
        return self.samples / self.samples.sum()


def sample_means(generator: np.random.Generator, clients: Clients, horizon: int, draws: int) -> np.ndarray:
    """Simulate the mean of each client's samples at t = 0..T, shape (draw, user, T + 1), each sample a separate chain.

    Only the numbers of samples in each state are simulated, by multinomial draws. So samples do not add to the cost.
    """
    states, samples, start, transition = clients
    counts = generator.multinomial(np.broadcast_to(samples, (draws, len(samples))), start)
    sums = np.empty((horizon + 1, draws, len(samples)))
    sums[0] = counts @ states
    for t in range(horizon):
        moved = (generator.multinomial(counts[..., s], transition[:, s]) for s in range(len(states)))
        counts = reduce(np.add, moved)
        sums[t + 1] = counts @ states
    return np.moveaxis(sums / samples, 0, -1)


def final_means(clients: Clients, horizon: int) -> np.ndarray:
    """Compute each client's expected value at T, shape (user,)."""
    laws = (markov.laws(p, mu, horizon) for mu, p in zip(clients.start, clients.transition, strict=True))
    return np.array([law[-1] @ clients.states for law in laws])


def loss_differences(
    uploaded: np.ndarray, final: np.ndarray, share: np.ndarray, best: np.ndarray | float
) -> np.ndarray:
    """Compute the loss of the private aged model less that of the fresh one without noise, at T, in Wh^2, (draw, case).

    `uploaded` has shape (draw, case, user); `final`, the clients' means at T, (draw, user); `share`, the weights,
    (user,). `best` is the expected mean at T: a model's loss exceeds that of `best` by their squared distance.
    """
    return (uploaded @ share - best) ** 2 - (final @ share - best)[:, None] ** 2


def uploads(means: np.ndarray, scale: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Add Laplace noise to the means that clients upload; `noise` has scale 1."""
    return means + scale * noise
