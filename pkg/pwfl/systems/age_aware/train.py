"""One round of Lin et al.: clients average what they hold, add noise, the server averages the uploads (Sec. II-B)."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from pwfl import streams
from pwfl.systems.age_aware.rounds import final_means, loss_differences, sample_means
from pwfl.tables import beside, to_array

if TYPE_CHECKING:
    from pwfl.systems.age_aware.scenario import AgeAware

KEYS = ("realization", "case", "user")

log = logging.getLogger(__name__)


def trainer(scenario: "AgeAware", data: None, tables: dict[str, pl.DataFrame]) -> Callable[[int], pl.DataFrame]:
    """A function that simulates one realization and returns the loss difference of each of its cases.

    The model is one number, the prediction that minimizes the mean squared error, so training is a mean.
    `data` is None: the clients' data are simulated. All schemes and cases see the same data and noise.
    """
    seed, horizon, draws = scenario.seed, scenario.schedule.horizon, scenario.training.draws
    schedule = tables["schedule"].select(*KEYS, "target_epsilon", "collection_time")
    schedule = beside(schedule, tables["noise"].select(*KEYS, "noise_scale_wh"), *KEYS)
    users_of = {
        realization: part for (realization,), part in tables["users"].group_by("realization", maintain_order=True)
    }
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
            times=to_array(cases, "collection_time", "case", "user"),
            scale=to_array(cases, "noise_scale_wh", "case", "user"),
            best=best,
        ).mean(axis=0)
        log.info("realization %d: %d cases, %d draws", realization, len(losses), draws)
        return cases[:: len(users)].select(
            "realization", "case", "target_epsilon", loss_difference_wh2=pl.Series(losses)
        )

    return train
