"""Noise schemes of the system `random_orthogonalization`."""

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from pwfl.systems.random_orthogonalization import mimo
from pwfl.tables.arrays import to_array

if TYPE_CHECKING:
    from pwfl.systems.random_orthogonalization.scenario import RandomOrthogonalization


def run(scenario: "RandomOrthogonalization", scheme: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The users' noise, and with the receiver's what the server's update of each round holds (5).

    `scheme` is `fixed` (every user adds noise of the same variance) or `none`.
    """
    schedule, radio = tables["schedule"], scenario.radio
    keys = ("realization", "round", "user")
    amplitude = to_array(schedule, "amplitude", *keys)[..., 0]
    variance = scenario.privacy.noise_variance if scheme == "fixed" else 0.0
    noise_std = np.full(amplitude.shape, np.sqrt(variance))
    receiver_std = mimo.receiver_noise_std(
        radio.receiver_noise_variance, radio.normalization, scenario.network.antennas
    )
    coupling = {name: to_array(schedule, name, *keys) for name in mimo.COUPLINGS}
    effective = mimo.effective_noise(coupling, mimo.Uplink(noise_std, receiver_std, amplitude))
    rounds = schedule.select("realization", "round").unique(maintain_order=True)
    return {
        "noise": rounds.with_columns(
            pl.Series(name, values.ravel()) for name, values in ({"noise_std": noise_std} | effective).items()
        ),
        "noise_status": rounds.select("realization").unique(maintain_order=True).with_columns(status=pl.lit(scheme)),
    }
