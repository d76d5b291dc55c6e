"""Broadband analog aggregation of Zhu, Wang and Huang (IEEE TWC 2020), over several interfering cells."""

from collections.abc import Callable

import numpy as np
from scipy.special import exp1

from pwfl.airs.air import LINEAR, Received, Sent, alone, amplitude, at_server, at_stations, in_update, inverted_power


def over(subchannels: int, truncation: float) -> Callable[[Sent], Received]:
    """Return the air interface of a band with some subchannels and truncated channel inversion.

    Coordinate c of a message is sent on subchannel c mod `subchannels`. `Sent.gain` is the mean power gain of a link;
    Rayleigh fading is independent in each subchannel and drawn for each interval. A user inverts its channel to its
    base station in subchannels with a power gain of at least g = `truncation` times the mean. It does not send in the
    others, a share of 1 - exp(-g). The server divides by exp(-g). The mean power of truncated inversion is E1(g) (the
    exponential integral) times that without fading. The amplitude is the largest at which no user's mean power exceeds
    the maximum. Stations use the real part; those that serve no active user are ignored.
    """

    def receive(sent: Sent) -> Received:
        fading, arrived = couplings(sent, subchannels, truncation)
        heard_share, listening = np.exp(-truncation), sent.listening
        received = amplitude(sent) / np.sqrt(subchannels * exp1(truncation))
        weight = sent.weight / heard_share
        factor = np.where(listening[..., None, None], arrived.real, 0.0).sum(axis=2)
        each_std = np.sqrt(sent.noise_w / subchannels / 2) / received  # of a real coordinate at a station
        receiver_std = each_std * np.sqrt(listening.sum(axis=2)) / heard_share
        sends = fading > 0
        all_noise, users_own = (np.where(np.any(sends, axis=3), shown, 0.0) for shown in alone(sent))
        seen = {
            "user": (all_noise, users_own),
            "cell": most(at_stations(sent, arrived[..., b], each_std) for b in range(subchannels)),
            "server": most(at_server(sent, arrived[..., b].real, each_std[..., None]) for b in range(subchannels)),
            "network": most(in_update(sent, weight * factor[..., b], receiver_std) for b in range(subchannels)),
        }
        coordinates = np.array([len(range(b, sent.dimension, subchannels)) for b in range(subchannels)])  # on each one
        on_air, symbol_s = np.any(sends, axis=(2, 3)), subchannels / sent.bandwidth_hz
        with np.errstate(divide="ignore"):
            inverted = np.where(sends, 1 / fading, 0.0) @ coordinates
        joules = received**2 * (inverted_power(sent) * inverted).sum(axis=2) * symbol_s
        symbols, seconds = sent.dimension * on_air, coordinates.max() * symbol_s * on_air
        return Received(weight, receiver_std, seen, symbols, seconds, joules, factor, LINEAR)

    return receive


def couplings(sent: Sent, subchannels: int, truncation: float) -> tuple[np.ndarray, np.ndarray]:
    """Draw fading and compute the amplitudes at which users arrive at stations in each subchannel.

    Returns the power gains to users' base stations over their means, shape (realization, interval, user, subchannel), 0
    where a user does not send; and complex amplitudes, 1 at the user's base station, shape (realization, interval,
    station, user, subchannel).
    """
    shape = *sent.gain.shape[1:], subchannels
    fading = -np.log(sent.uniforms("fading", shape))
    gain = np.take_along_axis(fading, sent.cell[:, None, None, :, None], axis=2)[:, :, 0]
    gain = np.where(sent.sends[..., None] & (gain >= truncation), gain, 0.0)
    phase = np.exp(2j * np.pi * sent.uniforms("phases", shape))
    with np.errstate(divide="ignore"):
        inverse = np.where(gain > 0, 1 / gain, 0.0)[:, :, None]
    path = (sent.gain / sent.own_gain[:, :, None])[..., None]
    return gain, np.where(sent.serving[..., None], inverse > 0, np.sqrt(path * fading * inverse) * phase)


def most(shown) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest visibility over subchannels, as a record may move the coordinates of only one of them.

    `shown` iterates over pairs of arrays (against all noise, against only users' noise), one per subchannel.
    """
    first, second = zip(*shown, strict=True)
    return np.max(first, axis=0), np.max(second, axis=0)
