"""Stage schedule: channel inversion, with powers within the power limit and the privacy budget."""

import numpy as np
import polars as pl

from privacy_for_free import power
from privacy_for_free.parameters import PrivacyForFree
from privacy_for_free.tables import FREE, SCALED
from pwfl.tables.arrays import to_array, to_table


def run(scenario: PrivacyForFree, scheduler: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Make `schedule`, with slots, received amplitudes and shares of the power limit, and `schedule_status`.

    A device's message, the sum of its records' gradients, has a norm of at most D G. For a received amplitude c, the
    device needs at most the power (c D G / |h|)^2; its limit P is d times the SNR. Superposed messages arrive with
    one amplitude, which is limited by the device with the largest D G / |h|. Orthogonal messages arrive with different
    amplitudes: device k has block k of every round.
    """
    access, rule = scheduler.split("_")
    gain = to_array(tables["links"], "fading_gain", "realization", "block", "user")
    samples = to_array(tables["users"], "samples", "realization", "user")
    limit = scenario.task.dimension * 10 ** (scenario.radio.snr_db / 10)
    if access == "orthogonal":
        devices = gain.shape[-1]
        own = gain.reshape(len(gain), -1, devices, devices)  # (realization, round, block of the round, device)
        gain = np.diagonal(own, axis1=2, axis2=3)
    least = (samples[:, None] * scenario.training.mean_norm) ** 2 / (limit * gain)
    alone = least.swapaxes(1, 2)  # (realization, device, round)
    shared = alone.max(axis=1, keepdims=True) if access == "superposed" else alone
    found = shared
    if rule != "full":
        rho = power.budget(scenario.privacy.epsilon, scenario.privacy.delta)
        moved = 2 * scenario.training.clip_norm
        if rule == "static":
            found = power.static(shared, moved, rho)
        else:
            contraction = 1 - scenario.training.strong_convexity / scenario.training.smoothness
            found = power.adaptive(shared, moved, rho, contraction)
    found, free = np.broadcast_to(found, alone.shape), (found <= shared).all(axis=(1, 2))
    realizations = tables["users"]["realization"].unique().sort()
    keys = {"realization": realizations, "round": range(alone.shape[2]), "user": range(alone.shape[1])}
    slot = np.arange(alone.shape[1]) if access == "orthogonal" else np.zeros(alone.shape[1], int)
    schedule = to_table(
        keys,
        slot=np.broadcast_to(slot, least.shape),
        message_amplitude=found.swapaxes(1, 2) ** -0.5,
        power_share=(alone / found).swapaxes(1, 2),
    )
    status = to_table({"realization": realizations}, status=np.where(free, FREE, SCALED))
    return {"schedule": schedule, "schedule_status": status}
