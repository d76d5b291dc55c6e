"""Stage channel: devices with equal numbers of records, and Rayleigh fading."""

import numpy as np
import polars as pl

from local_dp_mac.parameters import LocalDpMac
from pwfl import streams
from pwfl.tables.arrays import to_table


def run(scenario: LocalDpMac, realizations: range) -> dict[str, pl.DataFrame]:
    """Make the tables `users` and `links` of consecutive realizations; |h|^2 is exponential with mean 1."""
    rounds, devices = scenario.training.rounds, scenario.network.devices
    gain = -np.log(streams.uniforms(scenario.seed, "fading", realizations, (rounds, devices)))
    keys = {"realization": realizations, "round": range(rounds), "user": range(devices)}
    return {
        "users": to_table({"realization": realizations, "user": range(devices)}, samples=scenario.data.samples),
        "links": to_table(keys, fading_gain=gain),
    }
