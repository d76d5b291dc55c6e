"""Random orthogonalization over several cells: base stations with many antennas, users without fading knowledge."""

from collections.abc import Callable

import numpy as np

from pwfl.airs.air import LINEAR, MESSAGES, Received, Sent, alone, amplitude, at_server, in_update, spent
from pwfl.privacy.labels import Kind

# An observer of all antennas is assumed to receive each user's message.
OBSERVED_BY = LINEAR | {"cell": MESSAGES._replace(weaker="cell", kind=Kind.UPPER)}


def over(antennas: int) -> Callable[[Sent], Received]:
    """Return the air interface of stations with `antennas` antennas each.

    `Sent.gain` is the mean power gain of a link. Fading is CN(0, 1) at each antenna, independent, and drawn for each
    interval. Users invert only the mean gain to their base station. A station correlates the received vector with the
    sum of its active users' channel vectors, which it has from undisturbed pilots, and divides the real part by the
    number of antennas; the server adds up the stations' results. An observer of all antennas is assumed to receive each
    user's noisy message.
    """

    def receive(sent: Sent) -> Received:
        arrived, energy = couplings(sent, antennas)
        received = amplitude(sent)
        weight = sent.weight * arrived.sum(axis=2)
        receiver_std = np.sqrt(energy.sum(axis=2) * sent.noise_w / 2) / antennas / received
        station_std = np.sqrt(energy * sent.noise_w / 2) / antennas / received[..., None]
        messages = alone(sent)
        seen = {"user": messages, "cell": messages, "server": at_server(sent, arrived, station_std)}
        seen["network"] = in_update(sent, weight, receiver_std)
        return Received(weight, receiver_std, seen, *spent(sent, received), observed_by=OBSERVED_BY)

    return receive


def couplings(sent: Sent, antennas: int) -> tuple[np.ndarray, np.ndarray]:
    """Compute each user's amplitude after correlation at each station, and the combiners' squared norms.

    Amplitudes, shape (realization, interval, station, user), are relative to one unit of the update; squared norms have
    shape (realization, interval, station). Stations are computed one after the other to save memory.
    """
    arrived, energy = np.zeros(sent.gain.shape), np.zeros(sent.gain.shape[:3])
    intervals, stations, users = sent.gain.shape[1:]
    for interval in range(intervals):
        for station in range(stations):
            drawn = sent.uniforms(f"channels/{interval}/{station}", (2, users, antennas))
            channel = np.sqrt(-np.log(drawn[:, 0])) * np.exp(2j * np.pi * drawn[:, 1])  # (realization, user, antenna)
            combiner = np.where(sent.serving[:, interval, station, :, None], channel, 0.0).sum(axis=1)
            energy[:, interval, station] = np.square(np.abs(combiner)).sum(axis=1)
            arrived[:, interval, station] = (channel @ combiner.conj()[..., None])[..., 0].real / antennas
    scale = np.sqrt(sent.gain / sent.own_gain[:, :, None])
    return np.where(sent.sends[:, :, None], scale * arrived, 0.0), energy
