"""One round of Lin et al.: the clients' data over time, their noisy means, the server's average (Sec. II-B)."""

from functools import reduce
from typing import NamedTuple

import numpy as np
import polars as pl

from pwfl.systems.age_aware import markov


class Clients(NamedTuple):
    """What the data of some clients follow."""

    states: np.ndarray  # values that the data take, shape (state,)
    samples: np.ndarray  # n_k, shape (user,)
    start: np.ndarray  # laws of X_0, shape (user, state)
    transition: np.ndarray  # shape (user, state, state)

    @classmethod
    def from_table(cls, users: pl.DataFrame) -> "Clients":
        """The clients of one realization's table `users`, in the order of its rows."""
        columns = (np.array(users[name].to_list()) for name in ("samples", "start", "transition"))
        return cls(np.array(users["states_wh"][0].to_list()), *columns)

    @property
    def share(self) -> np.ndarray:
        """Their weights alpha_k in the server's average, shape (user,)."""
        return self.samples / self.samples.sum()


def sample_means(generator: np.random.Generator, clients: Clients, horizon: int, draws: int) -> np.ndarray:
    """Mean of each client's samples at t = 0..T, shape (draw, user, T + 1), each sample a chain of its own.

    Numbers of samples in each state are followed, which change by multinomial draws: samples do not add to the cost.
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
    """Each client's expected value at T, shape (user,)."""
    laws = (markov.laws(p, mu, horizon) for mu, p in zip(clients.start, clients.transition, strict=True))
    return np.array([law[-1] @ clients.states for law in laws])


def loss_differences(
    uploaded: np.ndarray, final: np.ndarray, share: np.ndarray, best: np.ndarray | float
) -> np.ndarray:
    """Loss of the private aged model less that of the fresh one without noise, at T, squares of Wh, (draw, case).

    Of clients' uploads, shape (draw, case, user), means of their samples at T, shape (draw, user), and weights, shape
    (user,); and the mean at T, `best`: a model's loss exceeds that of `best` by their squared distance.
    """
    return (uploaded @ share - best) ** 2 - (final @ share - best)[:, None] ** 2


def uploads(means: np.ndarray, scale: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """What clients send: the mean of what they hold, and Laplace noise; `noise` has scale one."""
    return means + scale * noise
