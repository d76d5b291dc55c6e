"""Noise schemes of the system `random_orthogonalization`."""

import numpy as np
import polars as pl

from pwfl import mimo
from pwfl.tables import to_array


def run(parameters: dict, scheme: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The users' noise, and with the receiver's what the server's update of each round holds (5).

    `scheme` is `fixed` (every user adds noise of the same variance) or `none`.
    """
    schedule, radio = tables["schedule"], parameters["radio"]
    shape = (schedule["realization"].n_unique(), schedule["round"].n_unique(), -1)
    amplitude = to_array(schedule, "amplitude", *shape)[..., 0]
    variance = parameters["privacy"]["noise_variance"] if scheme == "fixed" else 0.0
    noise_std = np.full(amplitude.shape, np.sqrt(variance))
    receiver_std = mimo.receiver_noise_std(
        radio["receiver_noise_variance"], radio["normalization"], parameters["network"]["antennas"]
    )
    coupling = {name: to_array(schedule, name, *shape) for name in mimo.COUPLINGS}
    effective = mimo.effective_noise(coupling, noise_std, receiver_std, amplitude)
    keys = schedule.select("realization", "round").unique(maintain_order=True)
    return {
        "noise": keys.with_columns(
            pl.Series(name, values.ravel()) for name, values in ({"noise_std": noise_std} | effective).items()
        ),
        "noise_status": keys.select("realization").unique(maintain_order=True).with_columns(status=pl.lit(scheme)),
    }
