"""Devices and their channels in each round: Sec. III of Hasircioglu and Gunduz."""

import numpy as np
import polars as pl

from pwfl import streams
from pwfl.systems.anonymous_oac.parameters import AnonymousOac
from pwfl.tables.arrays import to_table


def draw(scenario: AnonymousOac, realizations: range) -> dict[str, pl.DataFrame]:
    """Draw the tables `users` and `links` of consecutive realizations.

    Rayleigh fading is independent for each device and round: |c|^2 is exponential with mean 1.
    """
    rounds, devices = scenario.training.rounds, scenario.network.devices
    fading = streams.uniforms(scenario.seed, "fading", realizations, (rounds, devices))
    keys = {"realization": realizations, "round": range(1, rounds + 1), "user": range(devices)}
    users = to_table({"realization": realizations, "user": range(devices)}, samples=scenario.data.samples)
    return {"users": users, "links": to_table(keys, fading_gain=-np.log(fading))}
