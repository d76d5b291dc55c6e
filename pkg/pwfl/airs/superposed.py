"""Over-the-air sums of several cells: all users send at once in one band with channel inversion; cells interfere."""

import numpy as np

from pwfl.airs.air import LINEAR, Received, Sent, alone, amplitude, at_server, at_stations, in_update, spent


def receive(sent: Sent) -> Received:
    """Compute the reception of over-the-air sums: stations receive a sum plus interference, and the server adds these.

    A user knows gain and phase of the channel to its base station, and inverts it. At other stations it arrives with a
    uniform phase, drawn for each interval. The server adds the real parts at all stations that serve an active user.
    """
    arrived = couplings(sent)  # relative to one unit of the update
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
    """Compute complex amplitudes at which users arrive at base stations, 1 at the station that serves them.

    Shape (realization, interval, station, user), relative to one unit of the update.
    """
    phase = 2j * np.pi * sent.uniforms("phases", sent.gain.shape[1:])
    arrived = np.sqrt(sent.gain / sent.own_gain[:, :, None]) * np.exp(phase)
    return np.where(sent.serving, 1.0, np.where(sent.sends[:, :, None], arrived, 0.0))
