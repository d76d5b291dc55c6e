"""One round of Lin et al.: the clients' data over time, their noisy means, the server's average (Sec. II-B)."""

import numpy as np

from pwfl.systems.age_aware import markov


def sample_means(generator, states, samples, start, transition, horizon: int, draws: int) -> np.ndarray:
    """Mean of each client's samples at t = 0..T, shape (draw, user, T + 1), each sample a chain of its own.

    `samples` has shape (user,), `start` (user, state), `transition` (user, state, state). Only the numbers of
    samples in each state are followed, which change by multinomial draws: the cost does not grow with samples.
    """
    counts = generator.multinomial(np.broadcast_to(samples, (draws, len(samples))), start)
    means = np.empty((draws, len(samples), horizon + 1))
    means[:, :, 0] = counts @ states
    for time in range(1, horizon + 1):
        moved = [generator.multinomial(counts[..., state], transition[:, state]) for state in range(len(states))]
        counts = np.sum(moved, axis=0)
        means[:, :, time] = counts @ states
    return means / samples[:, None]


def final_means(states, start, transition, horizon: int) -> np.ndarray:
    """Each client's expected value at T, shape (user,)."""
    return np.array([markov.laws(p, mu, horizon)[-1] @ states for mu, p in zip(start, transition, strict=True)])


def loss_differences(means, noise, share, times, scale, best: float) -> np.ndarray:
    """Loss of the private aged model less that of the fresh one without noise, at T, shape (draw, case).

    `means` has shape (draw, user, T + 1), `noise`, of scale one, (draw, user), `share` (user,), `times` and
    `scale` (case, user). A model's loss at T exceeds that of `best`, the mean at T, by their squared distance.
    """
    collected = means[:, np.arange(len(share)), times]  # (draw, case, user)
    private = uploads(collected, scale, noise[:, None]) @ share
    ideal = means[:, :, -1] @ share
    return (private - best) ** 2 - (ideal - best)[:, None] ** 2


def uploads(means: np.ndarray, scale: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """What clients send: the mean of what they hold, and Laplace noise; `noise` has scale one."""
    return means + scale * noise
