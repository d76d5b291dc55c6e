"""Stage channel: devices with equal numbers of records, and Rayleigh fading."""

import numpy as np
import polars as pl

from pwfl import streams


def run(scenario, realizations: range) -> dict[str, pl.DataFrame]:
    """`users` and `links` of some consecutive realizations; |h|^2 is exponential with mean 1."""
    rounds, devices = scenario.training.rounds, scenario.network.devices
    gain = -np.log(streams.uniforms(scenario.seed, "fading", realizations, (rounds, devices)))
    realization, t, user = (index.ravel() for index in np.indices(gain.shape))
    links = pl.DataFrame(
        {"realization": realization + realizations.start, "round": t, "user": user, "gain": gain.ravel()}
    )
    users = links.filter(pl.col("round") == 0).select("realization", "user", samples=pl.lit(scenario.data.samples))
    return {"users": users, "links": links}
