"""Channel of the system `anonymous_oac`: Sec. III of Hasircioglu and Gunduz."""

import numpy as np
import polars as pl

from pwfl import streams


def run(parameters: dict, realizations: range) -> dict[str, pl.DataFrame]:
    """The devices, and for each round the channels that are good enough to take part over.

    Rayleigh fading, redrawn for each device and round: |c|^2 is exponential with mean 1, and at least
    -ln p with probability p.
    """
    network, rounds = parameters["network"], parameters["training"]["rounds"]
    devices = network["devices"]
    users = pl.DataFrame(
        {
            "realization": np.repeat(realizations, devices),
            "user": np.tile(np.arange(devices), len(realizations)),
            "samples": np.full(len(realizations) * devices, parameters["data"]["samples"]),
        }
    )
    links = [
        _good_links(parameters["seed"], realization, rounds, devices, network["participation"])
        for realization in realizations
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
