"""Stage channel: devices with equal numbers of records, and Rician block fading."""

import numpy as np
import polars as pl

from privacy_for_free.parameters import PrivacyForFree
from pwfl import streams
from pwfl.tables.arrays import to_table


def run(scenario: PrivacyForFree, realizations: range) -> dict[str, pl.DataFrame]:
    """Make the tables `users` and `links` of consecutive realizations; E|h|^2 is 1."""
    radio, devices = scenario.radio, scenario.network.devices
    intervals = -(-radio.blocks // radio.coherence_blocks)
    power, phase = np.moveaxis(streams.uniforms(scenario.seed, "fading", realizations, (2, intervals, devices)), 1, 0)
    scattered = np.sqrt(-np.log(power)) * np.exp(2j * np.pi * phase)  # complex normal, E|.|^2 = 1
    factor = radio.rician_factor
    gain = np.abs((np.sqrt(factor) + scattered) / np.sqrt(factor + 1)) ** 2
    of_blocks = np.repeat(gain, radio.coherence_blocks, axis=1)[:, : radio.blocks]
    keys = {"realization": realizations, "block": range(radio.blocks), "user": range(devices)}
    return {
        "users": to_table({"realization": realizations, "user": range(devices)}, samples=scenario.task.samples),
        "links": to_table(keys, fading_gain=of_blocks),
    }
