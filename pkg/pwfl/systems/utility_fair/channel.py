"""Channel of the system `utility_fair`: distances, and Rayleigh fading by round and device."""

import numpy as np
import polars as pl

from pwfl import streams
from pwfl.radio.path_loss import rayleigh_power
from pwfl.systems.utility_fair import link
from pwfl.systems.utility_fair.parameters import UtilityFair
from pwfl.tables.arrays import to_table


def run(scenario: UtilityFair, realizations: range) -> dict[str, pl.DataFrame]:
    """Draw the tables `users` and `links` of consecutive realizations.

    Each round's fading has a separate random stream, so a longer training run begins with the rounds of a shorter one.
    """
    seed, network, radio = scenario.seed, scenario.network, scenario.radio
    devices, rounds = network.devices, range(1, scenario.training.rounds + 1)
    low, high = network.min_distance_m, network.max_distance_m
    distance = low + (high - low) * streams.uniforms(seed, "distance", realizations, (devices,))
    uniform = [streams.uniforms(seed, f"fading/{t}", realizations, (devices,)) for t in rounds]
    path = link.path_gain(distance, radio)
    gain = rayleigh_power(np.stack(uniform, axis=1), radio.fading_scale) * path[:, None]  # (realization, round, device)
    columns = {
        "distance_m": distance,
        "path_loss_db": -10 * np.log10(path),
        "samples": scenario.data.samples_per_device,
    }
    keys = {"realization": realizations, "round": rounds, "device": range(devices)}
    return {
        "users": to_table({"realization": realizations, "device": range(devices)}, **columns),
        "links": to_table(keys, gain=gain),
    }
