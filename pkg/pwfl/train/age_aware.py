"""One round of Lin et al.: clients average what they hold, add noise, the server averages the uploads (Sec. II-B)."""

import logging
from collections.abc import Callable

import numpy as np
import polars as pl

from pwfl import markov, streams
from pwfl.tables import to_array

log = logging.getLogger(__name__)


def trainer(parameters: dict, data: None, tables: dict[str, pl.DataFrame]) -> Callable[[int], pl.DataFrame]:
    """A function that simulates one realization and returns the loss difference of each of its cases.

    The model is one number, the prediction that minimizes the mean squared error, so training is a mean.
    `data` is None: the clients' data are simulated. All schemes and cases see the same data and noise.
    """
    seed, horizon, draws = parameters["seed"], parameters["schedule"]["horizon"], parameters["training"]["draws"]
    schedule = tables["schedule"].select("realization", "case", "target_epsilon", "collection_time")
    schedule = schedule.with_columns(tables["noise"]["noise_scale_wh"])
    users_of = {realization: part for (realization,), part in tables["users"].group_by("realization")}
    schedule_of = {r: part for (r,), part in schedule.group_by("realization", maintain_order=True)}

    def train(realization: int) -> pl.DataFrame:
        users, cases = users_of[realization].sort("user"), schedule_of[realization]
        states = np.array(users["states_wh"][0].to_list())
        samples, start, transition = (np.array(users[c].to_list()) for c in ("samples", "start", "transition"))
        share = samples / samples.sum()
        generator = streams.generator(seed, "data", realization)
        means = sample_means(generator, states, samples, start, transition, horizon, draws)
        noise = streams.generator(seed, "noise", realization).laplace(size=means.shape[:2])
        best = share @ final_means(states, start, transition, horizon)
        losses = loss_differences(
            means,
            noise,
            share,
            times=to_array(cases, "collection_time", -1, len(users)),
            scale=to_array(cases, "noise_scale_wh", -1, len(users)),
            best=best,
        ).mean(axis=0)
        log.info("realization %d: %d cases, %d draws", realization, len(losses), draws)
        return cases[:: len(users)].select(
            "realization", "case", "target_epsilon", loss_difference_wh2=pl.Series(losses)
        )

    return train


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
