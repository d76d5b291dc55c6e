"""What users send, what an air makes of it, and what several airs have in common.

An air is a function of `Sent` that returns `Received`. It is linear: with messages m_k and their noise n_k, by
coordinate, the server's update is the sum of weight_k (m_k + n_k), plus noise of the receivers.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import polars as pl

from pwfl.privacy import labels, visibility
from pwfl.privacy.labels import REALIZED, STATIONS, Kind

OBSERVERS = ("user", "cell", "network")


class Observer(NamedTuple):
    """Who observes.

    Attributes
    ----------
    receives
        What, in words.
    weaker
        The observer that the server is where those whom this one `trusts` fail.
    trusts
        Who must be trusted that it receives no more, of `labels.TRUSTS`.
    kind
        What its visibility is of what it receives: an upper bound where it is taken to receive more.
    assumes
        What its visibility takes for granted, of `labels.ASSUMPTIONS`: a channel that nobody knows when noise is set.
    """

    receives: str
    weaker: str
    trusts: tuple[str, ...] = ()
    kind: Kind = Kind.EXACT
    assumes: tuple[str, ...] = ()


MESSAGES = Observer("each active user's noisy message of every round", "user")
# Of any linear air; channels are known to who observes them. An air whose observers receive otherwise declares its own.
LINEAR = {
    "user": MESSAGES,
    "cell": Observer("the signals of all stations in every round", "cell", assumes=(REALIZED,)),
    "server": Observer("a real signal of each station that serves anybody, every round", "server", assumes=(REALIZED,)),
    "network": Observer("the server's update of every round", "server", (STATIONS,), assumes=(REALIZED,)),
}
UNDECLARED = {name: LINEAR[name]._replace(weaker="user") for name in OBSERVERS}


class Sent(NamedTuple):
    """What users send, arrays of shape (realization, interval, user) where nothing else is said.

    Attributes
    ----------
    sends
        Who sends.
    weight
        Of a unit of each user's message in the update that the server wants; 0 of who does not send.
    noise_std
        Of the noise that a user adds to each coordinate of its message.
    norm
        What the norm of a user's message does not exceed.
    gain
        Of power, from each user to each station, (realization, interval, station, user).
    cell
        The station that serves a user, (realization, user).
    dimension
        How many coordinates a message has.
    max_power_w, bandwidth_hz, noise_w
        A user's largest mean power; the band, in which a second has as many symbols; and the power of the thermal noise
        of a receiver in it.
    uniforms
        `uniforms(purpose, shape)` draws numbers in (0, 1) of the air's own, (realization, *shape).
    """

    sends: np.ndarray
    weight: np.ndarray
    noise_std: np.ndarray
    norm: np.ndarray
    gain: np.ndarray
    cell: np.ndarray
    dimension: int
    max_power_w: float
    bandwidth_hz: float
    noise_w: float
    uniforms: Callable[[str, tuple[int, ...]], np.ndarray]

    @property
    def own_gain(self) -> np.ndarray:
        """To the station that serves a user, (realization, interval, user)."""
        return np.take_along_axis(self.gain, self.cell[:, None, None], axis=2)[:, :, 0]

    @property
    def serving(self) -> np.ndarray:
        """Which station serves which sender, boolean, (realization, interval, station, user)."""
        station = np.arange(self.gain.shape[2])[:, None]
        return (self.cell[:, None, None] == station) & self.sends[:, :, None]

    @property
    def listening(self) -> np.ndarray:
        """Which stations serve somebody who sends, boolean, (realization, interval, station)."""
        return np.any(self.serving, axis=3)


class Received(NamedTuple):
    """What an air makes of it, arrays of shape (realization, interval) where nothing else is said.

    Attributes
    ----------
    weight
        Of a unit of each user's message in the update, (realization, interval, user).
    receiver_std
        Of the receivers' noise in each coordinate of the update.
    seen
        For each of OBSERVERS, and those that `observed_by` has besides, how a unit of each user's message shows to it
        (`privacy.visibility`), against all noise
        and against users' noise alone, two arrays of shape (realization, interval, user); 0 of who does not send.
    symbols, seconds, joules
        Of a round on air, of messages of the largest norm.
    bands
        What `weight` is multiplied by in each band of coordinates, (realization, interval, user, band): coordinate c is
        in band c modulo their number. None: there are none. `seen` is of the band in which a message shows most.
    observed_by
        Who each of those in `seen` is. None: the server is taken to see what "user" does.
    """

    weight: np.ndarray
    receiver_std: np.ndarray
    seen: Mapping[str, tuple[np.ndarray, ...]]
    symbols: np.ndarray
    seconds: np.ndarray
    joules: np.ndarray
    bands: np.ndarray | None = None
    observed_by: Mapping[str, Observer] | None = None


class Signals(NamedTuple):
    """What is on air in one interval, arrays whose last axis is of coordinates.

    Attributes
    ----------
    radiated
        By each user, in root watts, real or complex, (user, coordinate).
    update
        What the server makes of it, (coordinate,).
    seen
        What each observer sees, real, (observed, coordinate), with all noise in it; in any scale.
    """

    radiated: np.ndarray
    update: np.ndarray
    seen: dict[str, np.ndarray]


def table(observed_by: Mapping[str, Observer], realizations: pl.Series | range) -> pl.DataFrame:
    """The table `observers` of some realizations."""
    rows = [
        {
            "observer": name,
            "receives": observer.receives,
            "trusts": labels.together(observer.trusts),
            "weaker": observer.weaker,
            "kind": str(labels.words(np.array(observer.kind))),
            "assumes": labels.together(observer.assumes),
        }
        for name, observer in observed_by.items()
    ]
    return pl.DataFrame({"realization": realizations}).join(pl.DataFrame(rows), how="cross")


def problem(sent: Sent, received) -> str | None:
    """What is wrong with what an air of the user's own returns; None: nothing."""
    if not isinstance(received, Received):
        return f"returns {type(received).__name__}; must return pwfl.airs.air.Received"
    if received.bands is not None:
        return "has bands, which signals do not test; leave them out"
    named = {*OBSERVERS, *(observed_by := received.observed_by or {})}
    if missing := named - set(received.seen):
        return f"`seen` lacks {', '.join(sorted(missing))}; must have {', '.join(sorted(named))}"
    if observed_by and (
        missing := {*received.seen, *(view.weaker for view in observed_by.values())} - set(observed_by)
    ):
        return f"`observed_by` lacks {', '.join(sorted(missing))}; must say who each in `seen` is"
    users, intervals = sent.sends.shape, sent.sends.shape[:2]
    parts = {"weight": (received.weight, users)}
    parts |= {key: (getattr(received, key), intervals) for key in ("receiver_std", "symbols", "seconds", "joules")}
    parts |= {f"seen[{key!r}]": (view, users) for key in received.seen for view in received.seen[key]}
    for part, (returned, shape) in parts.items():
        values = np.asarray(returned)
        numbers = values.dtype.kind in "biuf"
        if values.shape != shape or not numbers or np.isnan(values).any():
            has = ", with NaN" if numbers and np.isnan(values).any() else "" if numbers else f" of {values.dtype}"
            return f"{part} must be numbers of shape {shape}; is of shape {values.shape}{has}"
        if part != "weight" and (values < 0).any():
            return f"{part} must not be negative; the least is {values.min():g}"
    return None


def amplitude(sent: Sent) -> np.ndarray:
    """At which amplitude, in root watts, all stations receive a unit of the update, (realization, interval).

    Each user inverts its channel to its own station, as if its message were to arrive there at this amplitude times its
    weight. It is the largest that leaves nobody's mean power over a message above what is allowed.
    """
    with np.errstate(divide="ignore"):
        most = sent.max_power_w / inverted_power(sent)
    least = np.where(sent.sends, most, np.inf).min(axis=2)
    return np.sqrt(np.where(np.isfinite(least), least, 1.0))


def inverted_power(sent: Sent) -> np.ndarray:
    """What a user radiates, in watts, at an amplitude of 1: a message of the largest norm and its noise."""
    power = sent.norm**2 / sent.dimension + sent.noise_std**2
    return np.where(sent.sends, sent.weight**2 * power / sent.own_gain, 0.0)


def spent(sent: Sent, received: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Symbols, seconds and joules of a round in which all send at once, a symbol a coordinate, at some `amplitude`."""
    symbols = sent.dimension * np.any(sent.sends, axis=2)
    seconds = symbols / sent.bandwidth_hz
    return symbols, seconds, received**2 * inverted_power(sent).sum(axis=2) * seconds


def alone(sent: Sent) -> tuple[np.ndarray, np.ndarray]:
    """How messages show to who sees each of them with its own noise."""
    with np.errstate(divide="ignore"):
        shown = np.where(sent.sends, 1 / sent.noise_std, 0.0)
    return shown, shown


def at_stations(sent: Sent, arrived: np.ndarray, std: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How messages show to who hears all stations, in phase and out of phase.

    `arrived` is complex, of a unit of the update that the server wants, (realization, interval, station, user); `std`
    of a real coordinate's noise at a station, (realization, interval).
    """
    amplitudes = sent.weight[:, :, None] * np.concatenate([arrived.real, arrived.imag], axis=2)
    receivers = np.broadcast_to(std[..., None], amplitudes.shape[:3])
    all_noise, users_noise = (
        visibility.linear(amplitudes, sent.noise_std, receiver_std) for receiver_std in (receivers, 0 * receivers)
    )
    return all_noise, users_noise


def at_server(sent: Sent, arrived: np.ndarray, std: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How messages show to a server that gets a real number of each station with active users, to add them up.

    `arrived` is real, of a unit of the update, and `std` that of the noise in it, (realization, interval, station).
    """
    amplitudes = sent.weight[:, :, None] * np.where(sent.listening[..., None], arrived, 0.0)
    receivers = np.where(sent.listening, std, 0.0)
    all_noise, users_noise = (
        visibility.linear(amplitudes, sent.noise_std, receiver_std) for receiver_std in (receivers, 0 * receivers)
    )
    return all_noise, users_noise


def in_update(sent: Sent, weight: np.ndarray, receiver_std: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How messages show to who sees the update."""
    users_std = np.sqrt(np.square(weight * sent.noise_std).sum(axis=2, keepdims=True))
    with np.errstate(divide="ignore", invalid="ignore"):
        shown = [np.abs(weight) / std for std in (np.hypot(users_std, receiver_std[..., None]), users_std)]
    all_noise, users_noise = (np.where(weight != 0, part, 0.0) for part in shown)
    return all_noise, users_noise
