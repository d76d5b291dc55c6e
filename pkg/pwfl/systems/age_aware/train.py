"""One round of Lin et al.: clients average what they hold, add noise, the server averages the uploads (Sec. II-B)."""

import logging
from collections.abc import Callable

import polars as pl

from pwfl import streams
from pwfl.systems.age_aware.parameters import AgeAware
from pwfl.systems.age_aware.rounds import Clients, final_means, loss_differences, sample_means
from pwfl.tables.arrays import joined, to_array

KEYS = ("realization", "case", "user")

log = logging.getLogger(__name__)


def trainer(scenario: AgeAware, data: None, tables: dict[str, pl.DataFrame]) -> Callable[[int], pl.DataFrame]:
    """A function that simulates one realization and returns the loss difference of each of its cases.

    The model is one number, the prediction that minimizes the mean squared error, so training is a mean.
    `data` is None: the clients' data are simulated. All schemes see the same data, and all cases of a
    scheme the same noise.
    """
    seed, horizon, draws = scenario.seed, scenario.schedule.horizon, scenario.training.draws
    schedule = tables["schedule"].select(*KEYS, "target_epsilon", "collection_time")
    schedule = joined(schedule, tables["noise"].select(*KEYS, "noise_scale_wh"), *KEYS)
    users_of, schedule_of = (frame.partition_by("realization", as_dict=True) for frame in (tables["users"], schedule))

    def train(realization: int) -> pl.DataFrame:
        clients, plan = Clients.of(users_of[realization,].sort("user")), schedule_of[realization,]
        means = sample_means(streams.generator(seed, "data", realization), clients, horizon, draws)
        noise = streams.generator(*streams.of_noise(scenario), realization).laplace(size=means.shape[:2])
        times, scale = (to_array(plan, name, "case", "user") for name in ("collection_time", "noise_scale_wh"))
        best = clients.share @ final_means(clients, horizon)
        losses = loss_differences(means, noise, clients.share, times, scale, best).mean(axis=0)
        log.info("realization %d: %d cases, %d draws", realization, len(losses), draws)
        no_radio = pl.lit(None, pl.Float64)
        cases = plan.select("realization", "case", "target_epsilon").unique().sort("case")
        return cases.with_columns(
            loss_difference_wh2=losses, air_seconds_so_far=no_radio, transmit_energy_j_so_far=no_radio
        )

    return train
