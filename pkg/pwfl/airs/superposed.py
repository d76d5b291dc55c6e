"""All users of all cells send at once in one band, each at the inverse of its channel; cells leak into each other."""

import numpy as np

from pwfl.airs.air import LINEAR, Received, Sent, alone, amplitude, at_server, at_stations, in_update, spent


def receive(sent: Sent) -> Received:
    """What stations receive, and add up: a sum over the air at each (the real part), which others' users disturb.

    A user knows its channel to its own station, gain and phase, and inverts it; it arrives at another one with a phase
    that nobody controls, uniform and drawn for each interval. Stations that serve no sender are not listened to.
    """
    arrived = couplings(sent)  # at amplitude 1, of a unit of the update
    received, listening = amplitude(sent), sent.listening
    weight = sent.weight * np.where(listening[..., None], arrived.real, 0.0).sum(axis=2)
    each_std = np.sqrt(sent.noise_w / 2) / received  # of a real coordinate
    receiver_std = each_std * np.sqrt(listening.sum(axis=2))
    seen = {
        "user": alone(sent),
        "cell": at_stations(sent, arrived, each_std),
        "server": at_server(sent, arrived.real, each_std[..., None]),
        "network": in_update(sent, weight, receiver_std),
    }
    return Received(weight, receiver_std, seen, *spent(sent, received), observed_by=LINEAR)


def couplings(sent: Sent) -> np.ndarray:
    """Amplitudes at which users arrive at stations, 1 at their own, complex, (realization, interval, station, user)."""
    phase = 2j * np.pi * sent.uniforms("phases", sent.gain.shape[1:])
    arrived = np.sqrt(sent.gain / sent.own_gain[:, :, None]) * np.exp(phase)
    return np.where(sent.serving, 1.0, np.where(sent.sends[:, :, None], arrived, 0.0))
