"""The interface of air interfaces: what users send, what the server and observers receive, and shared functions.

An air interface is a function from `Sent` to `Received`. It is linear: with messages m_k, the users' noise n_k and the
receivers' noise z, each coordinate of the server's update is

    sum_k weight_k (m_k + n_k) + z.

"Visibility" of a user's message to an observer is its amplitude over the noise's standard deviation in what the
observer receives (`privacy.visibility`); times the sensitivity it is mu of a Gaussian mechanism.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import polars as pl

from pwfl.privacy import labels, visibility
from pwfl.privacy.labels import REALIZED, STATIONS, Kind

OBSERVERS = ("user", "cell", "network")


class Observer(NamedTuple):
    """An honest-but-curious observer.

    Attributes
    ----------
    receives
        What it receives, in words.
    weaker
        The observer that the server becomes if those whom this one `trusts` fail.
    trusts
        Parties, of `labels.TRUSTS`, that are trusted to let the observer receive no more than this.
    kind
        `Kind.EXACT`, or `Kind.UPPER` if the visibility is that of an observer who receives more. For example, it may be
        that of the most visible of several signals in each interval, if the observer receives the same one in all.
    assumes
        Assumptions of its visibility, of `labels.ASSUMPTIONS`, such as that it is computed with known channels.
    """

    receives: str
    weaker: str
    trusts: tuple[str, ...] = ()
    kind: Kind = Kind.EXACT
    assumes: tuple[str, ...] = ()


MESSAGES = Observer("each active user's noisy message of every round", "user")
# Observers of any linear air interface, who know the channels. Others are declared in `Received.observed_by`.
LINEAR = {
    "user": MESSAGES,
    "cell": Observer("the signals of all stations in every round", "cell", assumes=(REALIZED,)),
    "server": Observer("a real signal of each station that serves anybody, every round", "server", assumes=(REALIZED,)),
    "network": Observer("the server's update of every round", "server", (STATIONS,), assumes=(REALIZED,)),
}
UNDECLARED = {name: LINEAR[name]._replace(weaker="user") for name in OBSERVERS}


class Sent(NamedTuple):
    """Transmissions of the users; arrays have shape (realization, interval, user) unless stated otherwise.

    Attributes
    ----------
    sends
        Whether a user sends, boolean.
    weight
        Desired weight of the user's message in the update; 0 if it does not send.
    noise_std
        Standard deviation of the noise that the user adds to each coordinate of its message, in the message's unit.
    norm
        Upper bound on the L2 norm of the user's message.
    gain
        Power gain of the channel from each user to each base station, shape (realization, interval, station, user).
    cell
        Number of the base station that serves a user, shape (realization, user).
    dimension
        Number of coordinates of a message.
    max_power_w
        Largest mean transmit power of a user, in watts.
    bandwidth_hz
        Bandwidth, in Hz; one symbol lasts 1 / bandwidth_hz seconds.
    noise_w
        Thermal noise power of a receiver in the bandwidth, in watts.
    uniforms
        `uniforms(purpose, shape)` draws uniform numbers in (0, 1), shape (realization, *shape), of a stream with the
        name `purpose`, for random channels of the air interface.
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
        """Power gain to the base station that serves a user, shape (realization, interval, user)."""
        return np.take_along_axis(self.gain, self.cell[:, None, None], axis=2)[:, :, 0]

    @property
    def serving(self) -> np.ndarray:
        """Whether a station serves a user who sends, boolean, shape (realization, interval, station, user)."""
        station = np.arange(self.gain.shape[2])[:, None]
        return (self.cell[:, None, None] == station) & self.sends[:, :, None]

    @property
    def listening(self) -> np.ndarray:
        """Whether a station serves any user who sends, boolean, shape (realization, interval, station)."""
        return np.any(self.serving, axis=3)


class Received(NamedTuple):
    """Reception of the server and observers; arrays have shape (realization, interval) unless stated otherwise.

    Attributes
    ----------
    weight
        Actual weight of each user's message in the update, shape (realization, interval, user).
    receiver_std
        Standard deviation of the receivers' noise in each coordinate of the update.
    seen
        For each of OBSERVERS, and any other in `observed_by`, the visibility of each user's message: two arrays of
        shape (realization, interval, user), against all noise and against only users' noise; 0 if the user does not
        send, infinite without noise.
    symbols
        Channel uses of a round.
    seconds
        Airtime of a round, in seconds.
    joules
        Energy that all users radiate in a round, in joules, for messages of the largest norm.
    bands
        Factor of `weight` in each band of coordinates, shape (realization, interval, user, band); coordinate c is in
        band c mod B, of B bands. None: there are no bands. `seen` is then of the band in which a message is most
        visible.
    observed_by
        The `Observer` for each name in `seen`; None: UNDECLARED, in which the server is assumed to receive what the
        observer "user" receives.
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
    """Simulated signals of one interval, by which a test compares an air interface with its `Received`.

    Attributes
    ----------
    radiated
        Each user's signal, in root watts, real or complex, shape (user, coordinate).
    update
        The server's update, shape (coordinate,).
    seen
        For each observer, the real signals that it receives, with all noise, in any unit, shape (observed, coordinate).
    """

    radiated: np.ndarray
    update: np.ndarray
    seen: dict[str, np.ndarray]


def table(observed_by: Mapping[str, Observer], realizations: pl.Series | range) -> pl.DataFrame:
    """Make the table `observers`, the same rows for each of some realizations."""
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
    """Return what is wrong with the result of a user-defined air interface; None: nothing."""
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
    for name, view in observed_by.items():
        for part, words, known in ("trusts", view.trusts, labels.TRUSTS), ("assumes", view.assumes, labels.ASSUMPTIONS):
            if not (isinstance(words, tuple) and set(words) <= set(known)):
                return f"`observed_by[{name!r}].{part}` is {words!r}; must be a tuple of names among {', '.join(known)}"
        if bool(view.trusts) != (view.weaker != name):
            return (
                f"`observed_by[{name!r}]`: its `trusts` name somebody where its `weaker` is another one, and only there"
            )
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
    """Compute the amplitude, in root watts, at which stations receive one unit of the update, (realization, interval).

    Each user inverts its channel to its base station, where its message arrives at this amplitude times its weight. It
    is the largest amplitude at which no user's mean power over a message exceeds the maximum; 1 if nobody sends.
    """
    with np.errstate(divide="ignore"):
        most = sent.max_power_w / inverted_power(sent)
    least = np.where(sent.sends, most, np.inf).min(axis=2)
    return np.sqrt(np.where(np.isfinite(least), least, 1.0))


def inverted_power(sent: Sent) -> np.ndarray:
    """Compute a user's mean power, in watts, at an amplitude of 1, shape (realization, interval, user).

    weight^2 (norm^2 / dimension + noise_std^2) / own_gain: a message of the largest norm and its noise.
    """
    power = sent.norm**2 / sent.dimension + sent.noise_std**2
    return np.where(sent.sends, sent.weight**2 * power / sent.own_gain, 0.0)


def spent(sent: Sent, received: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute symbols, seconds and joules of a round in which all users send at once, one symbol per coordinate.

    `received` is the `amplitude`, in root watts; it and the three results have shape (realization, interval).
    """
    symbols = sent.dimension * np.any(sent.sends, axis=2)
    seconds = symbols / sent.bandwidth_hz
    return symbols, seconds, received**2 * inverted_power(sent).sum(axis=2) * seconds


def alone(sent: Sent) -> tuple[np.ndarray, np.ndarray]:
    """Compute the visibility to an observer who receives each user's noisy message: 1 / noise_std."""
    with np.errstate(divide="ignore"):
        shown = np.where(sent.sends, 1 / sent.noise_std, 0.0)
    return shown, shown


def at_stations(sent: Sent, arrived: np.ndarray, std: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute the visibility to an observer who receives the in-phase and quadrature signals of all stations.

    Parameters
    ----------
    sent
        Transmissions of the users.
    arrived
        Complex amplitude at which each user arrives at each station, relative to that of one unit of the update, shape
        (realization, interval, station, user).
    std
        Standard deviation of a station's noise in a real coordinate, in units of the update, shape (realization,
        interval).

    Returns
    -------
    all_noise, users_noise
        Visibility against all noise, and against only users' noise, shape (realization, interval, user).
    """
    amplitudes = sent.weight[:, :, None] * np.concatenate([arrived.real, arrived.imag], axis=2)
    receivers = np.broadcast_to(std[..., None], amplitudes.shape[:3])
    all_noise, users_noise = (
        visibility.linear(amplitudes, sent.noise_std, receiver_std) for receiver_std in (receivers, 0 * receivers)
    )
    return all_noise, users_noise


def at_server(sent: Sent, arrived: np.ndarray, std: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute the visibility to a server that receives a real number from each station with active users.

    As `at_stations`, but `arrived` is real, and `std` has shape (realization, interval, station).
    """
    amplitudes = sent.weight[:, :, None] * np.where(sent.listening[..., None], arrived, 0.0)
    receivers = np.where(sent.listening, std, 0.0)
    all_noise, users_noise = (
        visibility.linear(amplitudes, sent.noise_std, receiver_std) for receiver_std in (receivers, 0 * receivers)
    )
    return all_noise, users_noise


def in_update(sent: Sent, weight: np.ndarray, receiver_std: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute the visibility to an observer who receives the update.

    |weight| over the standard deviation of all noise in it, and of only users' noise. `weight` has shape (realization,
    interval, user), `receiver_std` (realization, interval).
    """
    users_std = np.sqrt(np.square(weight * sent.noise_std).sum(axis=2, keepdims=True))
    with np.errstate(divide="ignore", invalid="ignore"):
        shown = [np.abs(weight) / std for std in (np.hypot(users_std, receiver_std[..., None]), users_std)]
    all_noise, users_noise = (np.where(weight != 0, part, 0.0) for part in shown)
    return all_noise, users_noise
