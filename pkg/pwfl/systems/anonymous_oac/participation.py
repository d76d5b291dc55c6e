"""Who takes part in a round, and with which batch: Sec. III of Hasircioglu and Gunduz."""

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from scipy.stats import binom

from pwfl import streams
from pwfl.tables.arrays import beside, to_table

if TYPE_CHECKING:
    from pwfl.systems.anonymous_oac.parameters import AnonymousOac


def draw(scenario: "AnonymousOac", realizations: range) -> dict[str, pl.DataFrame]:
    """The devices, and for each round the channels that are good enough to take part over.

    Rayleigh fading, redrawn for each device and round: |c|^2 is exponential with mean 1, and at least
    -ln p with probability p.
    """
    network, rounds = scenario.network, scenario.training.rounds
    devices = network.devices
    users = to_table({"realization": realizations, "user": range(devices)}, samples=scenario.data.samples)
    links = [
        _good_links(scenario.seed, realization, rounds, devices, network.participation) for realization in realizations
    ]
    return {"users": users, "links": pl.concat(links)}


def _good_links(seed: int, realization: int, rounds: int, devices: int, participation: float) -> pl.DataFrame:
    fading = streams.uniforms(seed, "fading", range(realization, realization + 1), (rounds, devices))[0]
    round_, device = np.nonzero(fading <= participation)
    return pl.DataFrame(
        {
            "realization": np.full(len(device), realization),
            "round": round_ + 1,
            "user": device,
            "gain": -np.log(fading[round_, device]),
        }
    )


def batches(scenario: "AnonymousOac", scheduler: str, tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Every device with a good channel takes part, with a binomial number of its records.

    `scheduler` is `over_the_air`: all at once, or `orthogonal`: one after the other. The batches are
    the same for both. Drawing their sizes here and that many records in training is Poisson sampling.
    """
    links = beside(tables["links"], tables["users"], "realization", "user")
    rounds, devices = scenario.training.rounds, scenario.network.devices
    frames = []
    for (realization,), frame in links.group_by("realization", maintain_order=True):
        span = range(realization, realization + 1)
        draws = streams.uniforms(scenario.seed, "batch", span, (rounds, devices))[0]
        chosen = draws[frame["round"].to_numpy() - 1, frame["user"].to_numpy()]
        batch = binom.ppf(chosen, frame["samples"].to_numpy(), scenario.data.sampling).astype(np.int64)
        frames.append(frame.with_columns(batch=pl.Series(batch, dtype=pl.Int64)))
    schedule = pl.concat(frames) if frames else links.with_columns(batch=pl.lit(0, pl.Int64))
    turns = pl.int_range(pl.len()).over("realization", "round")
    return schedule.drop("samples").with_columns(slot=turns if scheduler == "orthogonal" else pl.lit(None, pl.Int64))
