"""One round of Lin et al.: clients add noise to the means of their samples, the server averages them (Sec. II-B)."""

import logging
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import polars as pl

from pwfl import streams
from pwfl.systems.age_aware.parameters import AgeAware
from pwfl.systems.age_aware.rounds import Clients, final_means, loss_differences, sample_means, uploads
from pwfl.tables.arrays import joined, to_array

KEYS = ("realization", "case", "user")

log = logging.getLogger(__name__)


class Start(NamedTuple):
    """Inputs of a realization's training.

    Attributes
    ----------
    clients
        The clients' Markov chains.
    times, scale
        Collection time of each client, and scale of its noise, shape (case, user).
    data, noise
        Generators of the data, which all schemes share, and of the scheme's noise.
    """

    clients: Clients
    times: np.ndarray
    scale: np.ndarray
    data: np.random.Generator
    noise: np.random.Generator


def trainer(scenario: AgeAware, data: None, tables: dict[str, pl.DataFrame]) -> Callable[[int], pl.DataFrame]:
    """Return a function that simulates one realization and returns the loss difference of each of its cases.

    The model is one number, the prediction that minimizes the mean squared error, so training is a mean. `data` is
    None: the clients' data are simulated. All schemes and cases have the same data, but independent noise.
    """
    horizon, draws = scenario.schedule.horizon, scenario.training.draws
    begin, targets = beginnings(scenario, tables), tables["schedule"].select("realization", "case", "target_epsilon")
    cases_of = targets.unique().sort("case").partition_by("realization", as_dict=True)

    def train(realization: int) -> pl.DataFrame:
        start = begin(realization)
        best = start.clients.share @ final_means(start.clients, horizon)
        losses = loss_differences(*released(start, horizon, draws), start.clients.share, best).mean(axis=0)
        log.info("realization %d: %d cases, %d draws", realization, len(losses), draws)
        no_radio = pl.lit(None, pl.Float64)
        return cases_of[realization,].with_columns(
            loss_difference_wh2=losses, air_seconds_cumulative=no_radio, transmit_energy_j_cumulative=no_radio
        )

    return train


def beginnings(scenario: AgeAware, tables: dict[str, pl.DataFrame]) -> Callable[[int], Start]:
    """Return a function from a realization to its `Start`, by the tables `users`, `schedule` and `noise`."""
    plan = joined(tables["schedule"].select(*KEYS, "collection_time"), tables["noise"], *KEYS)
    users_of, plan_of = (frame.partition_by("realization", as_dict=True) for frame in (tables["users"], plan))

    def begin(realization: int) -> Start:
        times, scale = (
            to_array(plan_of[realization,], name, "case", "user") for name in ("collection_time", "noise_scale_wh")
        )
        data = streams.generator(scenario.seed, "data", realization)
        noise = streams.generator(*streams.name_noise(scenario, realization))
        return Start(Clients.from_table(users_of[realization,].sort("user")), times, scale, data, noise)

    return begin


def released(start: Start, horizon: int, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Compute clients' uploads, (draw, case, user), and the means of their samples at T = horizon, (draw, user)."""
    means, (cases, users) = sample_means(start.data, start.clients, horizon, draws), start.times.shape
    noise = np.moveaxis(start.noise.laplace(size=(cases, draws, users)), 0, 1)  # the same if there are more cases
    collected = means[:, np.arange(users), start.times]  # (draw, case, user)
    return uploads(collected, start.scale, noise), means[:, :, -1]
