"""Noise schemes of the system `random_orthogonalization`."""

import numpy as np
import polars as pl
from scipy.optimize import brentq

from pwfl.privacy.gaussian import composed_multiplier, zcdp
from pwfl.systems.random_orthogonalization import mimo
from pwfl.systems.random_orthogonalization.parameters import RandomOrthogonalization
from pwfl.tables.arrays import to_array


def run(scenario: RandomOrthogonalization, scheme: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The users' noise, of one variance in all rounds (`fixed`) or `none`, and that of the server's update (5)."""
    schedule, radio = tables["schedule"], scenario.radio
    keys, antennas = ("realization", "round", "user"), scenario.network.antennas
    amplitude = to_array(schedule, "amplitude", *keys)[..., 0]
    receiver_std = mimo.receiver_noise_std(radio.receiver_noise_variance, radio.normalization, antennas)
    coupling = {name: to_array(schedule, name, *keys) for name in mimo.COUPLINGS}
    variance, status = np.zeros(len(amplitude)), [scheme] * len(amplitude)
    if scheme == "fixed" and scenario.privacy.target_epsilon is None:
        variance[:] = scenario.privacy.noise_variance
    elif scheme == "fixed":
        privacy = scenario.privacy
        mu = 1 / composed_multiplier(privacy.target_epsilon, privacy.delta, releases=1)
        for row in range(len(variance)):
            own = {name: values[row] for name, values in coupling.items()}
            variance[row] = target_variance(own, receiver_std, amplitude[row], scenario.training.clip_norm, mu)
        status = ["target" if v > 0 else "receiver_noise_suffices" for v in variance]
    noise_std = np.broadcast_to(np.sqrt(variance)[:, None], amplitude.shape)
    effective = mimo.effective_noise(coupling, mimo.Uplink(noise_std, receiver_std, amplitude))
    rounds = schedule.select("realization", "round").unique(maintain_order=True)
    columns = [pl.Series(name, values.ravel()) for name, values in ({"noise_std": noise_std} | effective).items()]
    realizations = rounds.select(pl.col("realization").unique(maintain_order=True))
    return {
        "noise": rounds.with_columns(columns),
        "noise_status": realizations.with_columns(status=pl.Series(status)),
    }


def target_variance(
    coupling: dict[str, np.ndarray], receiver_std: float, amplitude: np.ndarray, clip_norm: float, mu: float
) -> float:
    """The least variance of the users' noise with which nobody's updates of all rounds have more than `mu`.

    0 where the receiver's noise is enough. The rounds' channels are taken as known, those to come, too: users, who know
    none, would have to be told, or to add more. Couplings are of shape (round, user), the amplitude (round,).
    """
    goal = zcdp(mu, 1.0, 1)

    def share(variance: float, receiver_std: float = receiver_std) -> float:
        """The goal over the largest zCDP parameter of a user: it grows with the noise, nearly in proportion."""
        uplink = mimo.Uplink(np.full(len(amplitude), variance**0.5), receiver_std, amplitude)
        std = mimo.effective_noise(coupling, uplink)["effective_noise_std"]
        return goal / zcdp(mimo.update_mu(coupling["coupling_real"], std, clip_norm), 1.0, 1).sum(axis=0).max()

    if share(0.0) >= 1:
        return 0.0
    enough = 2 / share(1.0, receiver_std=0.0)  # twice what is enough without the receiver's noise
    return brentq(lambda variance: share(variance) - 1, 0.0, enough, xtol=1e-15 * enough)
