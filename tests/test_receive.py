"""What the air delivers, by simulated signals: each air is written anew from its paper, without the tables it is to fit.

An air is played with messages and normal numbers for its noise, of links, schedule and noise alone. What comes out must
be what the tables `reception`, `reception_noise` and `visibility` say of it; where these are wrong, the same checks fail.
"""

from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from itertools import combinations, count, product
from math import ceil
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
import tensorflow as tf
from scipy import integrate, stats

import stage_of
from conftest import ROOT
from pipeline import finished, part
from pwfl import registry, streams
from pwfl.airs import air as airs
from pwfl.airs import broadband as broadband_air
from pwfl.airs import superposed as superposed_air
from pwfl.learning import features
from pwfl.privacy import visibility
from pwfl.scenario import resolve
from pwfl.scenario.values import replaced
from pwfl.tables.reception import receptions
from pwfl.testing import signals
from pwfl.training import rounds, sent
from pwfl.training.batching import Draws

FALSE_ALARM = 1e-6
LIMIT = stats.norm.isf(FALSE_ALARM / 2)  # standard errors
DRAWS = 2**17  # normal numbers of which a deviation 2 % low is missed with probability 1e-7
EXACT = {"rtol": 1e-9, "atol": 1e-12}
SYMBOLS = 650  # of a model of 64 x 10 weights and 10 biases
MULTICELL, OAC, ANTENNAS = "multicell", "anonymous_oac", "random_orthogonalization"
EXAMPLE = "local_dp_mac"


class Air(NamedTuple):
    """A round on air, linear in messages and normal numbers, whose last axis is draws.

    `holds`: whose message is of any record; `receivers`: how many numbers the receivers' noise takes; `send(messages,
    normals)`: users' signals; `hear(signals, normals)`: what is received; `serve(received)`: the server's update;
    `views[observer](received)`; `absent(observer, user, dropouts)`: whose noise may be missing together.
    """

    holds: np.ndarray
    receivers: int
    send: Callable
    hear: Callable
    serve: Callable
    views: dict[str, Callable]
    absent: Callable = lambda observer, user, dropouts=True: [()]

    def play(self, draws: int = 1, messages=0.0, normals=0.0, receivers=0.0) -> np.ndarray:
        """What is received."""
        of_users, of_receivers = np.zeros((len(self.holds), draws)), np.zeros((self.receivers, draws))
        return self.hear(self.send(of_users + messages, of_users + normals), of_receivers + receivers)


def of_users(frame: pl.DataFrame, column: str, users: int) -> np.ndarray:
    """A column by user; 0 of who has no row."""
    found = np.zeros(users)
    found[frame["user"].to_numpy()] = frame[column].to_numpy()
    return found


def multicell(model, tables, realization, interval, heard=None) -> Air:
    """Algorithm 1 with (8) and (9): digital uploads, averaged by stations, then by the server. `heard`: None, all."""
    here = {"realization": realization, "interval": interval}
    samples, cell = tables["users"].filter(realization=realization).select("samples", "cell").to_numpy().T
    sigma = tables["noise"].filter(**here)["noise_std"].to_numpy()
    sends = tables["schedule"].filter(**here)["resource_block"].is_not_null().to_numpy()
    group = {"user": np.arange(len(cell)), "cell": cell, "network": 0 * cell}
    training, privacy, counted = model.training, model.privacy, samples * sends * 1.0
    for summed in set(group[privacy.observer][sends]) if training.recipe == "inverse_variance" else ():
        mine = sends & (group[privacy.observer] == summed)
        together = samples[mine].sum()
        variance = ((samples * sigma)[mine] ** 2).sum() / together**2
        inverse = 0.001 / together + variance / (2 * training.rounds * training.clip_norm**2)
        counted[mine] = samples[mine] / together / inverse
    unit = (samples if training.clipping == "per_sample" else 1 + 0 * samples)[:, None]
    on_air, noise = (sends if heard is None else heard)[:, None], (sends * sigma)[:, None]
    of_cells = (counted[:, None] * (np.unique(cell) == cell[:, None])).T  # (cell, user)

    def serve(uploads):
        in_cell = of_cells.sum(axis=1)
        stations = of_cells @ uploads / np.where(in_cell > 0, in_cell, 1)[:, None]
        return in_cell @ stations / max(in_cell.sum(), 1e-300)

    def absent(observer, user, dropouts=True):
        """Any colluders of the observer's sum; and of the sum that is opened any dropouts, all of sums that are not."""
        mine, opened = (sends & (group[of] == group[of][user]) for of in (observer, privacy.observer))
        colluding = min(ceil(privacy.colluders * mine.sum() - 1e-9), mine.sum() - 1)
        alone = np.arange(len(cell)) == user
        colluders = combinations(np.flatnonzero(mine & ~alone), colluding)
        if not privacy.dropouts or not dropouts:
            return colluders
        size, unopened = opened.sum(), np.flatnonzero(mine & ~opened)
        least = next(d for d in count() if stats.binom.sf(d, size, privacy.dropouts) <= privacy.dropout_tolerance)
        others = np.flatnonzero(opened & ~alone)
        lost = list(combinations(others, min(least, size - 1)))
        return {tuple(sorted({*some, *more, *unopened})) for some in colluders for more in lost}

    views = {"user": lambda x: x, "cell": lambda x: of_cells @ x, "network": lambda x: counted[None] @ x}
    return Air(sends, 0, lambda m, n: on_air * (m / unit + noise * n), lambda x, _: x, serve, views, absent)


def anonymous_oac(model, tables, realization, interval) -> Air:
    """(1) and (2): all participants invert their channels at once; or each uploads in turn what it protects itself."""
    here = {"realization": realization, "round": interval + 1}
    users = len(tables["users"].filter(realization=realization))
    schedule, noise = tables["schedule"].filter(**here), tables["noise"].filter(**here).row(0, named=True)
    batch, gain = of_users(schedule, "batch", users), of_users(schedule, "fading_gain", users)[:, None]
    deviation = 2 * model.training.clip_norm * noise["noise_multiplier"]  # of a sum's noise
    fixed = noise["noise"].endswith("fixed")
    each = model.data.samples * model.data.sampling  # records that a participant is expected to take
    if noise["noise"].startswith("local"):
        sends = (gain[:, 0] > 0) & (fixed | (batch > 0))
        share = sends * (each if fixed else batch)
        scale = np.divide(1, share, where=sends, out=np.zeros(users))[:, None]
        views = {"upload": lambda x: x}
        average = share / max(share.sum(), 1)
        return Air(batch > 0, 0, lambda m, n: scale * (m + deviation * n), lambda x, _: x, lambda x: average @ x, views)
    divisor = users * model.network.participation * each if fixed else max(batch.sum(), 1)
    sends = (gain > 0) & (fixed or batch.any())
    inverted = np.divide(1, np.sqrt(gain), where=sends, out=np.zeros((users, 1)))
    beta = 1 / np.sqrt(max(sends.sum(), 1))
    return Air(
        batch > 0,
        1,
        lambda m, n: inverted * (m + beta * deviation * n) / divisor,
        lambda x, z: (np.sqrt(gain) * x).sum(axis=0) + np.sqrt(model.radio.noise_variance) * z[0],
        lambda y: y,
        {"sum": lambda y: y[None]},
    )


def random_orthogonalization(model, tables, realization, interval, size=None, heard=None) -> Air:
    """(1) to (4), in a network of some size: what comes in over the antennas, combined by the sum of all channels.

    Of all antennas, what is stated is that all others are gone, where anybody may be.
    """
    here, own = {"realization": realization, "round": interval + 1}, model.network.users
    antennas, size = model.network.antennas, size or own
    (sigma,) = tables["noise"].filter(**here)["noise_std"]
    (alpha,) = set(tables["schedule"].filter(**here)["amplitude"])
    coherence = model.radio.coherence_rounds or model.training.rounds
    span, purpose = range(realization, realization + 1), f"channel/{interval // coherence + 1}"
    drawn = np.array([streams.uniforms(model.seed, f"{purpose}/{k}", span, (2, antennas))[0] for k in range(size)])
    channel = np.sqrt(-np.log(drawn[:, 0])) * np.exp(2j * np.pi * drawn[:, 1])  # CN(0, I), (user, antenna)
    deviation, further = np.sqrt(model.radio.receiver_noise_variance / 2), antennas
    if model.radio.normalization == "I/M":
        channel, further = channel / np.sqrt(antennas), 1

    def serve(y):
        return (channel.sum(axis=0).conj() @ y).real / (alpha * size) / further

    def absent(observer, user, dropouts=True):
        lost, colluding = (
            missing(model, size) if dropouts else 0,
            min(ceil(model.privacy.colluders * size - 1e-9), size - 1),
        )
        others = np.flatnonzero(np.arange(size) != user)
        gone = size - 1 if observer.startswith("antennas") and lost + colluding else min(lost + colluding, size - 1)
        return combinations(others, gone)

    on_air = np.full(size, True) if heard is None else heard
    name = "{}" if size == own else f"{{}} of {size} users"
    return Air(
        np.full(size, True),
        2 * antennas,
        lambda m, n: on_air[:, None] * alpha * (m + sigma * n),
        lambda x, z: channel.T @ x + deviation * (z[:antennas] + 1j * z[antennas:]),
        serve,
        {
            name.format("update"): lambda y: serve(y)[None],
            name.format("antennas"): lambda y: np.concatenate([y.real, y.imag]),
        },
        absent,
    )


def missing(model, size) -> int:
    """The least number of a user's others of whom more drop out of any round with the tolerated probability at most."""
    privacy, each = model.privacy, model.training.rounds
    if not privacy.dropouts:
        return 0
    chance = stats.binom.pmf(range(size), size - 1, privacy.dropouts)
    return next(d for d in count() if each * chance[d + 1 :].sum() <= privacy.dropout_tolerance)


def local_dp_mac(model, tables, realization, interval) -> Air:
    """Channel inversion: all arrive at one amplitude, in one slot; or one after the other, each at its own."""
    here = {"realization": realization, "round": interval}
    channel = np.sqrt(tables["links"].filter(**here)["fading_gain"].to_numpy())[:, None]
    sigma = tables["noise"].filter(**here)["noise_std"].to_numpy()[:, None]
    amplitude = tables["schedule"].filter(**here)["received_amplitude"].to_numpy()[:, None]
    slots, users = np.eye(len(channel)), len(channel)
    if model.schemes[0].scheduler == "over_the_air":
        slots, (amplitude,) = np.ones((1, users)), set(amplitude.ravel())
    return Air(
        np.full(users, True),
        len(slots),
        lambda m, n: amplitude / channel * (m / model.data.samples + sigma * n),
        lambda x, z: slots @ (channel * x) + np.sqrt(model.radio.noise_variance) * z,
        lambda y: (y / amplitude).sum(axis=0) / users,
        {"server": lambda y: y},
    )


class OnAir(NamedTuple):
    """What users of several cells send on air, as `multicell` would say it: arrays of users, and of stations by users."""

    sends: np.ndarray
    noise: np.ndarray  # of a message, a sum of gradients
    records: int  # that the server divides a sum of messages by
    amplitude: np.ndarray  # of a message, which arrives at its own station with `unit`
    unit: float
    serving: np.ndarray
    gain: np.ndarray
    receiver_std: float  # of a real coordinate


def on_air(model, tables, realization, interval) -> OnAir:
    """Channel inversion up to the largest power of the user who needs most, in the band of all resource blocks."""
    here, radio = {"realization": realization, "interval": interval}, model.radio
    samples, cell = tables["users"].filter(realization=realization).select("samples", "cell").to_numpy().T
    gain = tables["links"].filter(**here).sort("station", "user")["gain"].to_numpy().reshape(-1, len(cell))
    sends = tables["schedule"].filter(**here)["resource_block"].is_not_null().to_numpy()
    noise = samples * tables["noise"].filter(**here)["noise_std"].to_numpy() * sends
    own = gain[cell, np.arange(len(cell))]
    radiated = ((samples * model.training.clip_norm) ** 2 / SYMBOLS + noise**2) / own  # at an amplitude of 1
    most = 10 ** (radio.max_power_dbm / 10 - 3)
    unit = np.sqrt(most / radiated[sends].max()) if sends.any() else 1.0
    thermal = 10 ** (radio.noise_density_dbm_hz / 10 - 3) * radio.bandwidth_hz * radio.resource_blocks
    serving = (cell == np.arange(len(gain))[:, None]) & sends
    total = max(samples @ sends, 1)
    return OnAir(sends, noise, total, sends * unit / np.sqrt(own), unit, serving, gain, np.sqrt(thermal / 2))


def superposed(model, tables, realization, interval) -> Air:
    """All at once: a station takes the real part; links to others have phases, which the air draws, of their own."""
    sent, span = on_air(model, tables, realization, interval), range(realization, realization + 1)
    shape = tables["links"]["interval"].n_unique(), *sent.gain.shape
    turn = np.exp(2j * np.pi * streams.uniforms(model.seed, "air/phases", span, shape)[0, interval])
    users, stations, listening = len(sent.sends), len(sent.gain), sent.serving.any(axis=1)
    own = 1j  # the phase to one's own station, which a sender takes off
    channel = np.sqrt(sent.gain) * np.where(sent.serving, own, turn * own)  # others' are of what arrives
    send = sent.amplitude[:, None] / own

    def hear(signals, normals):
        noise = sent.receiver_std * (normals[:stations] + 1j * normals[stations:])
        return np.concatenate([signals, channel @ signals + noise])

    return Air(
        sent.sends,
        2 * stations,
        lambda m, n: send * (m + sent.noise[:, None] * n),
        hear,
        lambda y: y[users:][listening].real.sum(axis=0) / sent.unit / sent.records,
        {
            "user": lambda y: (y[:users] * own).real,
            "cell": lambda y: np.concatenate([y[users:].real, y[users:].imag]),
            "server": lambda y: y[users:][listening].real,
            "network": lambda y: y[users:][listening].real.sum(axis=0)[None],
        },
    )


def broadband(model, tables, realization, interval, band) -> Air:
    """One subchannel: as sums over the air, each link fading by itself; who fades below the truncation is silent."""
    sent, span, radio = on_air(model, tables, realization, interval), range(realization, realization + 1), model.radio
    users, stations, listening = len(sent.sends), len(sent.gain), sent.serving.any(axis=1)
    shape = tables["links"]["interval"].n_unique(), *sent.gain.shape, radio.subchannels
    draws = (streams.uniforms(model.seed, f"air/{name}", span, shape)[0, interval, ..., band] for name in FADING)
    power, turn = -np.log(next(draws)), np.exp(2j * np.pi * next(draws))
    cell = tables["users"].filter(realization=realization)["cell"].to_numpy()
    turn[cell, range(users)] = 1.0  # others' are of what arrives, after a sender took off its own
    channel = np.sqrt(sent.gain * power) * 1j * turn
    own, faded = channel[cell, range(users)], power[cell, range(users)]
    heard = sent.sends & (faded >= radio.truncation)
    # Of the mean power over fading, a subchannel has its share, and takes the mean of 1 / fading of who sends.
    inverse, chance = (integrate.quad(lambda x, p=p: np.exp(-x) / x**p, radio.truncation, np.inf)[0] for p in (1, 0))
    unit = sent.unit / np.sqrt(radio.subchannels * inverse)
    send = np.where(heard, unit / own, 0.0)[:, None]

    def hear(signals, normals):
        noise = sent.receiver_std / np.sqrt(radio.subchannels) * (normals[:stations] + 1j * normals[stations:])
        return np.concatenate([signals * (own / unit)[:, None], channel @ signals + noise])

    def update(y):
        return y[users:][listening].real.sum(axis=0) / unit / sent.records / chance

    views = {
        "user": lambda y: y[:users].real,
        "cell": lambda y: np.concatenate([y[users:].real, y[users:].imag]),
        "server": lambda y: y[users:][listening].real,
        "network": lambda y: update(y)[None],
    }
    return Air(heard, 2 * stations, lambda m, n: send * (m + sent.noise[:, None] * n), hear, update, views)


FADING = "fading", "phases"


def stations_antennas(model, tables, realization, interval) -> Air:
    """Each station correlates its antennas' signals with the sum of its senders' channels; who sees all, sees users."""
    sent, span = on_air(model, tables, realization, interval), range(realization, realization + 1)
    antennas, users, stations = model.radio.antennas, len(sent.sends), len(sent.gain)
    drawn = [
        streams.uniforms(model.seed, f"air/channels/{interval}/{s}", span, (2, users, antennas))[0]
        for s in range(stations)
    ]
    fading = np.array([np.sqrt(-np.log(power)) * np.exp(2j * np.pi * phase) for power, phase in drawn])
    channel = (
        (np.sqrt(sent.gain)[..., None] * fading).transpose(0, 2, 1).reshape(-1, users)
    )  # (station's antenna, user)
    known = (fading * sent.serving[..., None]).sum(axis=1).ravel()

    def hear(signals, normals):
        noise = sent.receiver_std * (normals[: len(known)] + 1j * normals[len(known) :])
        return np.concatenate([signals, channel @ signals + noise])

    def serve(y):
        return (known.conj() @ y[users:]).real / antennas / sent.unit / sent.records

    views = dict.fromkeys(("user", "cell"), lambda y: y[:users].real) | {"network": lambda y: serve(y)[None]}
    views["server"] = lambda y: (known.conj()[:, None] * y[users:]).reshape(stations, antennas, -1).sum(axis=1).real
    send = sent.amplitude[:, None]
    return Air(sent.sends, 2 * len(known), lambda m, n: send * (m + sent.noise[:, None] * n), hear, serve, views)


AIRS = {air.__name__: air for air in (multicell, anonymous_oac, random_orthogonalization, local_dp_mac)}
CROSSED = {"superposed": superposed, "antennas": stations_antennas, "broadband": broadband}


def air_of(model) -> Callable:
    """The air of a scenario, written anew."""
    return CROSSED.get(getattr(model.radio, "air", None), AIRS[model.system])


DIGITS, LINEAR = {"dataset": "digits"}, {"hidden_layers": [], "clip_norm": 1.5}
BASES = {
    MULTICELL: {
        "network": {"users": 13},
        "radio": {"resource_blocks": 3, "coherence_rounds": 3},
        "data": DIGITS | {"samples_offset": 10, "samples_log_mean": 2.5},
        "privacy": {"min_noise": 3.5, "max_noise_error": 0.4, "colluders": 0.3},
        "training": LINEAR | {"rounds": 6},
    },
    OAC: {
        "network": {"devices": 5, "participation": 0.3},
        "radio": {"noise_variance": 0.02},
        "data": DIGITS | {"samples": 4, "sampling": 0.4},
        "training": LINEAR | {"rounds": 12},
    },
    ANTENNAS: {
        "network": {"users": 5, "antennas": 6},
        "radio": {"coherence_rounds": 1},
        "data": DIGITS | {"samples_per_user": 30},
        "privacy": {"user_numbers": [2, 9]},
        "training": {"rounds": 3, "clip_norm": 1.5, "batch_size": 10},
    },
    EXAMPLE: {"network": {"devices": 4}, "data": DIGITS | {"samples": 7}, "training": LINEAR | {"rounds": 3}},
}
SUMS = {"dropouts": 0.3, "dropout_tolerance": 0.3}
FEWER = {"privacy": SUMS | {"colluders": 0.2, "delta": 0.5}}  # of 5 users, 1 colludes, and 2 may drop out
CROSSING = {"privacy": {"colluders": 0.0, "target_epsilon": 5.0}}
PRECISE = {"privacy": {"observer": "cell"}, "training": {"recipe": "inverse_variance"}}
CASES = {  # system, scheduler, noise, changes
    "uploads": (MULTICELL, "random", "random", {}),
    "uploads by precision": (MULTICELL, "optimal", "random", {"training": {"recipe": "inverse_variance"}}),
    "uploads clipped per user": (MULTICELL, "random", "optimal", {"training": {"clipping": "per_user"}}),
    "uploads without noise": (MULTICELL, "random", "none", {}),
    "cells": (MULTICELL, "random", "random", {"privacy": SUMS | {"observer": "cell"}}),
    "network": (MULTICELL, "random", "random", {"privacy": SUMS | {"observer": "network"}}),
    "cells by precision": (MULTICELL, "random", "random", PRECISE),
    "superposed": (MULTICELL, "inversion", "target", CROSSING | {"radio": {"air": "superposed"}}),
    "superposed cells": (
        *(MULTICELL, "inversion", "target"),
        {"radio": {"air": "superposed"}, "privacy": CROSSING["privacy"] | {"observer": "cell"}},
    ),
    "stations' antennas": (
        *(MULTICELL, "inversion", "target"),
        {"radio": {"air": "antennas", "antennas": 3}, "privacy": CROSSING["privacy"] | {"observer": "network"}},
    ),
    "broadband": (
        *(MULTICELL, "inversion", "target"),
        CROSSING | {"radio": {"air": "broadband", "subchannels": 3, "truncation": 0.4}},
    ),
    "broadband sums": (
        *(MULTICELL, "inversion", "target"),
        {"radio": {"air": "broadband", "subchannels": 2}, "privacy": CROSSING["privacy"] | {"observer": "network"}},
    ),
    "anonymous": (OAC, "over_the_air", "anonymous", {}),
    "anonymous fixed": (OAC, "over_the_air", "anonymous_fixed", {}),
    "without channel noise": (OAC, "over_the_air", "identified", {"radio": {"noise_variance": 0.0}}),
    "in turn": (OAC, "orthogonal", "local", {}),
    "in turn fixed": (OAC, "orthogonal", "local_fixed", {}),
    "antennas": (ANTENNAS, "all", "fixed", {}),
    "antennas, one channel": (ANTENNAS, "all", "fixed", {"radio": {"coherence_rounds": None}}),
    "antennas, two rounds a channel": (
        ANTENNAS,
        "all",
        "fixed",
        {"radio": {"coherence_rounds": 2}, "training": {"rounds": 4}},
    ),
    "antennas, one channel, with both": (ANTENNAS, "all", "fixed", FEWER | {"radio": {"coherence_rounds": None}}),
    "antennas, unit channels": (ANTENNAS, "all", "fixed", {"radio": {"normalization": "I"}}),
    "antennas without users' noise": (ANTENNAS, "all", "none", {}),
    "antennas without their noise": (ANTENNAS, "all", "fixed", {"radio": {"receiver_noise_variance": 0.0}}),
    "antennas with colluders": (ANTENNAS, "all", "fixed", {"privacy": {"colluders": 0.3}}),
    "antennas with dropouts": (ANTENNAS, "all", "fixed", {"privacy": FEWER["privacy"] | {"colluders": 0.0}}),
    "antennas with both": (ANTENNAS, "all", "fixed", FEWER),
    "at once": (EXAMPLE, "over_the_air", "gaussian", {}),
    "at once without devices' noise": (EXAMPLE, "over_the_air", "none", {}),
    "at once without receiver's noise": (EXAMPLE, "over_the_air", "gaussian", {"radio": {"noise_variance": 0.0}}),
    "orthogonal": (EXAMPLE, "orthogonal", "gaussian", {}),
}


@pytest.fixture(autouse=True, scope="module")
def example():
    """The example outside of the package is one of the systems."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "examples" / EXAMPLE)
        claims = registry.claims() | {EXAMPLE: (f"{EXAMPLE}.system:SYSTEM",)}
        patch.setattr(registry, "claims", lambda: claims)
        yield


class Case(NamedTuple):
    """A scenario of one scheme, and its tables before `receive`."""

    model: object
    tables: dict[str, pl.DataFrame]

    def received(self) -> "Case":
        """With what the stage `receive` makes of them."""
        return self._replace(tables=self.tables | stage_of.receive(part(self.model, "receive"), self.tables))

    def occurring(self) -> Iterator[tuple]:
        """Realization, interval, `Reception` and the air as it occurs, of all intervals of `reception`."""
        own = air_of(self.model)
        for realization in range(self.model.realizations):
            reception = receptions(self.tables)(realization)
            for place, sends in enumerate(reception.sends):
                channel, heard = place, {}
                if self.model.system == MULTICELL:
                    channel = place * reception.length // self.model.radio.coherence_rounds
                if getattr(self.model.privacy, "dropouts", 0):  # who drops out is taken from the table
                    heard = {"heard": sends}
                if own is not broadband:
                    yield realization, place, reception, own(self.model, self.tables, realization, channel, **heard)
                    continue
                for band in range(self.model.radio.subchannels):
                    air = own(self.model, self.tables, realization, channel, band)
                    yield realization, place, reception.as_in_band(np.full(len(reception.sends), band)), air

    def planned(self) -> Iterator[tuple]:
        """The air as it is planned, in each band, of all rounds that differ, and the rows of `visibility` of it."""
        own, once = air_of(self.model), self.model.system == OAC
        intervals = {MULTICELL: 2}.get(self.model.system, self.model.training.rounds)
        for realization, interval in np.ndindex(self.model.realizations, intervals):
            rows = self.tables["visibility"].filter(realization=realization, interval=0 if once else interval)
            bands = [(band,) for band in range(self.model.radio.subchannels)] if own is broadband else [()]
            for size in [()] if own is not random_orthogonalization else [(), (2,), (9,)]:
                yield [own(self.model, self.tables, realization, interval, *size, *band) for band in bands], rows


@cache
def made(name: str) -> Case:
    """A case's tables; in `multicell`, nobody sends in the second realization, nor in the third's first interval."""
    system, scheduler, noise, changes = CASES[name]
    scheme = {"name": "a", "scheduler": scheduler, "noise": noise}
    base = {"system": system, "realizations": 3, "training_realizations": 3, "schemes": [scheme]}
    model = resolve(base | BASES[system], changes)
    found = finished(stage_of.channel(part(model, "channel"), range(3)), model)
    found |= finished(stage_of.schedule(part(model, "schedule", scheduler), scheduler, found), model)
    if system == MULTICELL:
        silent = (pl.col("realization") == 1) | ((pl.col("realization") == 2) & (pl.col("interval") == 0))
        sent = {name: pl.when(~silent).then(name) for name in ("resource_block", "power_w", "rate_bps")}
        found["schedule"] = found["schedule"].with_columns(**sent)
        found["schedule"] = found["schedule"].with_columns(pl.col("power_w", "rate_bps").fill_null(0))
    return Case(model, found | finished(stage_of.noise(part(model, "noise", noise), noise, found), model))


# What must hold of a case, with the tables of its stage `receive`


def assert_normal(numbers: np.ndarray) -> None:
    """Independent normal numbers have deviation 1, by a chi-square test."""
    assert FALSE_ALARM / 2 < stats.chi2.cdf(np.square(numbers).sum(), numbers.size) < 1 - FALSE_ALARM / 2


def check_weights(case: Case, generator) -> None:
    """Without noise, the server's update of random messages is their weighted sum."""
    for _, place, reception, air in case.occurring():
        messages = generator.standard_normal((len(air.holds), 3)) * air.holds[:, None]
        np.testing.assert_allclose(reception.weight[place] @ messages, air.serve(air.play(3, messages)), **EXACT)


def check_silence(case: Case, generator) -> None:
    """Without messages, the update is noise of the stated deviation: that of all, and each user's."""
    played, found = list(case.occurring()), {"all": [], "own": []}
    draws = -(-DRAWS // len(played))
    for _, place, reception, air in played:
        normals, receivers = (generator.standard_normal((size, draws)) for size in (len(air.holds), air.receivers))
        parts = [("all", reception.noise_std[place], normals, receivers)]
        each = normals * np.eye(len(normals))[..., None]
        parts += [("own", std, alone, 0.0) for std, alone in zip(reception.user_noise_std[place], each, strict=True)]
        for whose, std, *noise in parts:
            update = air.serve(air.play(draws, 0.0, *noise))
            assert std > 0 or not update.any()
            found[whose] += [update / std] if std > 0 else []
    for numbers in filter(None, found.values()):
        assert_normal(np.array(numbers))


def best_test(air: Air, observer: str, user: int, moved: float, users_only: bool, generator) -> float:
    """mu of the likelihood-ratio test of whether a message has moved, its noise's covariance found by brute force.

    With noise S normals the least normals that look like the move g, S x = g, have the norm sqrt(g' (S S')^-1 g).
    """
    users, view = len(air.holds), air.views[observer]
    messages, normals = generator.standard_normal((2, users, 1))
    receivers = generator.standard_normal((air.receivers, 1))
    step = moved * (np.arange(users) == user)[:, None]
    before, after = (view(air.play(1, each, normals, receivers)) for each in (messages, messages + step))
    gain, largest = after - before, 0.0
    of_users, of_receivers = view(air.play(users, 0.0, np.eye(users))), 0 * gain
    if air.receivers and not users_only:
        of_receivers = view(air.play(air.receivers, receivers=np.eye(air.receivers)))
    for absent in air.absent(observer, user):
        spread = np.hstack([np.delete(of_users, list(absent), axis=1), of_receivers])
        least = np.linalg.lstsq(spread, gain, rcond=1e-12)[0]
        hidden = np.abs(spread @ least - gain).max() < 1e-9 * np.abs(gain).max()
        largest = max(largest, np.linalg.norm(least) if hidden else np.inf)
    return largest


def check_visibility(case: Case, generator, moved: float = 0.7) -> None:
    """A move of a message shows as much as stated, to who counts the receivers' noise and who takes it off."""
    without, seen, observers = case.model.system == OAC, 0, set()  # OAC never counts the channel's noise
    for of_bands, rows in case.planned():
        for row in rows.filter(pl.col("observer").is_in(list(of_bands[0].views))).iter_rows(named=True):
            for column, users_only in {"visibility": without, "visibility_users_only": True}.items():
                whole = [air for air in of_bands if air.holds[row["user"]]]
                if whole or case.model.system == MULTICELL:
                    how = row["observer"], row["user"], moved, users_only, generator
                    mu, seen = max((best_test(air, *how) for air in whole), default=0.0), seen + 1
                    np.testing.assert_allclose(moved * row[column], mu, rtol=1e-7, err_msg=f"{column} {row}")
                    observers.add((row["observer"], column))
    stated = case.tables["visibility"]["observer"].unique()
    assert observers == set(product(stated, ("visibility", "visibility_users_only")))
    assert without or seen == 2 * len(case.tables["visibility"])


def radiated(air: Air, largest: np.ndarray | float, generator) -> tuple[np.ndarray, float]:
    """Mean energy of each user's signal of SYMBOLS symbols, its message of a norm; by how much it may be off."""
    users, repeats = len(air.holds), 40
    messages = np.tile(np.broadcast_to(largest, users)[:, None] * np.eye(1, SYMBOLS), repeats)
    signals = air.send(messages, generator.standard_normal((users, repeats * SYMBOLS)))
    return (np.abs(signals) ** 2).sum(axis=1) / repeats, LIMIT * np.sqrt(2 / (repeats * SYMBOLS))


def check_energy(case: Case, generator) -> None:
    """The largest messages take the allowed energy at most, and what is stated; digital ones fit into Shannon's."""
    model, radio, norm = case.model, case.model.radio, case.model.training.clip_norm
    for realization, place, _, air in case.occurring():
        stated = case.tables["reception_noise"].filter(realization=realization, interval=place).row(0, named=True)
        if model.system == MULTICELL and radio.air == "broadband":
            pass  # by all subchannels together: `test_subchannels_take_the_energy_that_is_stated`
        elif model.system == MULTICELL and radio.air != "digital":
            samples = case.tables["users"].filter(realization=realization)["samples"].to_numpy()
            energy, error = radiated(air, norm * samples, generator)
            assert energy.max() / SYMBOLS <= 10 ** (radio.max_power_dbm / 10 - 3) * (1 + error)
            joules = energy.sum() / (radio.bandwidth_hz * radio.resource_blocks)
            np.testing.assert_allclose(stated["joules"], joules, rtol=error)
            assert stated["symbols"] == SYMBOLS * air.holds.any()
        elif model.system == MULTICELL:
            seconds, joules = digital(case, realization, place // (3 if model.privacy.dropouts else 1))
            np.testing.assert_allclose([stated["seconds"], stated["joules"]], [seconds, joules], **EXACT)
        elif model.system == OAC:
            schedule = case.tables["schedule"].filter(realization=realization, round=place + 1)
            batch, gain = (of_users(schedule, name, len(air.holds)) for name in ("batch", "fading_gain"))
            energy, error = radiated(air, norm * batch, generator)
            thermal = 10 ** ((-174.0 + 100.0) / 10) / 1000  # J, over a gain of 1
            if model.schemes[0].scheduler == "orthogonal":
                symbols, error = 32 * SYMBOLS / 2.0, 1e-9
                used = symbols * (thermal / gain[energy > 0]).sum() * (2**2.0 - 1)
                np.testing.assert_allclose(stated["symbols"], symbols * (energy > 0).sum(), **EXACT)
            else:  # the channel's noise stands for thermal noise
                used = energy.sum() * thermal / (radio.noise_variance or np.inf)
            np.testing.assert_allclose(stated["joules"] or 0.0, used, rtol=error)
        else:
            power = radio.amplitude**2 if model.system == ANTENNAS else radio.max_power
            variance = model.privacy.noise_variance if model.system == ANTENNAS else model.privacy.noise_std**2
            energy, error = radiated(air, norm * getattr(model.data, "samples", 1), generator)
            of_noise = SYMBOLS * variance * (model.schemes[0].noise != "none")
            assert energy.max() == pytest.approx(power * (norm**2 + of_noise), rel=error)


def digital(case: Case, realization: int, interval: int) -> tuple[float, float]:
    """Seconds and joules of a round of `multicell`, whose uploads must fit into powers and rates."""
    radio, here = case.model.radio, {"realization": realization, "interval": interval}
    cell = case.tables["users"].filter(realization=realization)["cell"].to_numpy()
    gain = case.tables["links"].filter(**here).sort("user", "station")["gain"].to_numpy().reshape(len(cell), -1)
    schedule = case.tables["schedule"].filter(**here)
    power, block = schedule["power_w"].to_numpy(), schedule["resource_block"].fill_null(-1).to_numpy()
    assert (power <= 10 ** (radio.max_power_dbm / 10 - 3) * (1 + 1e-12)).all()
    seconds, thermal = np.zeros(len(cell)), 10 ** (radio.noise_density_dbm_hz / 10 - 3) * radio.bandwidth_hz
    for i in np.flatnonzero(block >= 0):
        others = (block == block[i]) & (cell != cell[i])
        sinr = power[i] * gain[i, cell[i]] / (power[others] @ gain[others, cell[i]] + thermal)
        rate, bits = radio.bandwidth_hz * np.log2(1 + sinr), 32 * SYMBOLS
        assert rate >= radio.min_rate_bps * (1 - 1e-6)
        if (observer := case.model.privacy.observer) != "user":  # two keys, sealed pairs of shares, a share of each
            size = ((block >= 0) & ((observer == "network") | (cell == cell[i]))).sum()
            bits += 8 * (2 * 32 + (size - 1) * (2 * 32 + 28) + size * 32)
        seconds[i] = bits / rate
    return seconds.max(), seconds @ power


def check_occurred(case: Case, generator) -> None:
    """No message shows more in what occurs than was planned: in the update, and in sums of users' noisy messages."""
    model, rows, compared = case.model, case.tables["visibility"], 0
    for realization, place, reception, air in case.occurring():
        interval = place * reception.length // rows["rounds"][0]
        weight, noise = np.abs(reception.weight[place]) * air.holds, reception.user_noise_std[place]
        for row in rows.filter(realization=realization, interval=interval).iter_rows(named=True):
            observer, user = row["observer"], row["user"]
            # More dropouts than planned are a part of delta.
            lost = (~reception.sends[place]).sum() if model.system == ANTENNAS else 0
            if observer not in air.views or not weight[user] or (lost and lost > missing(model, len(noise))):
                continue
            response = air.views[observer](air.play(len(noise), np.eye(len(noise)))) != 0
            beside = response[response[:, user]].any(axis=0)
            coalitions = air.absent(observer, user, dropouts=False)
            of_users = min(np.linalg.norm(np.delete(noise * beside, list(gone))) for gone in coalitions)
            receivers = np.sqrt(max(reception.noise_std[place] ** 2 - (noise**2).sum(), 0.0))
            for column, std in (("visibility_users_only", of_users), ("visibility", np.hypot(of_users, receivers))):
                most = row[column] * std * (1 + 1e-6) if std > 0 else row[column]  # without noise, infinite
                assert weight[user] <= most if std > 0 else most == np.inf, (column, row)
            compared += 1
    assert compared


def check_scaling(case: Case, generator) -> None:
    """What the air makes of messages is the same whatever the data are."""
    found = []
    for scale in (1.0, 3.0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(features, "training_data", lambda *given, scale=scale: scale * np.ones((4, 64)))
            found.append(case.received().tables)
    assert [name for name in found[0] if not found[0][name].equals(found[1][name])] == []


CHECKS = {"weights": check_weights, "silence": check_silence, "visibility": check_visibility, "energy": check_energy}
CHECKS |= {"occurred": check_occurred, "scaling": check_scaling}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("check", CHECKS)
def test_the_air_delivers_what_is_stated(check, name):
    case = made(name).received()
    CHECKS[check](case, np.random.default_rng(1))
    if case.model.system in (MULTICELL, OAC):
        assert any(not reception.weight[place].any() for _, place, reception, _ in case.occurring())


# Faults of the stage, each of which a check sees


def changed(table, **columns):
    """Other values in some columns of a table."""
    return lambda made, *_: made | {table: made[table].with_columns(**columns)}


def users_noise_low(made, *_):
    """What is stated would be right, were users' noise not 2 % lower than that."""
    rows, own = ["realization", "interval"], made["reception"].with_columns(pl.col("user_noise_std") / 0.98)
    more = own.group_by(rows).agg(more=(pl.col("user_noise_std") ** 2).sum() * (1 - 0.98**2))
    noise = made["reception_noise"].join(more, on=rows, how="left", maintain_order="left")
    std = (pl.col("update_noise_std") ** 2 + pl.col("more").fill_null(0.0)).sqrt()
    return made | {"reception": own, "reception_noise": noise.with_columns(update_noise_std=std)}


def receiver_counted(made, scenario, *_):
    """The receiver's noise is said to hide messages even from who takes it off."""
    variance = scenario.radio.noise_variance if scenario.system == OAC else 0.0
    return changed("visibility", visibility_users_only=(pl.col("visibility") ** -2 + variance) ** -0.5)(made)


def unplanned(parameter):
    """Visibilities are of a scenario without colluders, or without dropouts."""
    return lambda made, scenario, tables, run: (
        made | {"visibility": run(replaced(scenario, parameter, 0.0), tables)["visibility"]}
    )


def scaled_by_data(made, scenario, *_):
    """Users scale what they send by the norm of their data."""
    norm = float(np.linalg.norm(features.training_data(scenario, {})))
    return changed("reception", weight=pl.col("weight") / norm)(made)


FIRST = (pl.int_range(pl.len()) == (pl.col("weight").abs() > 0).arg_max()).cast(pl.Float64)
LOW = pl.col("visibility_users_only") * 0.98
JOULES = ["uploads", "anonymous", "in turn", "superposed", "stations' antennas"]
NOISY = set(CASES) - {"uploads without noise", "antennas without users' noise", "at once without devices' noise"}
RECEIVERS = ["anonymous", "anonymous fixed", "antennas", "antennas, unit channels", "at once", "orthogonal"]
SUMMED = ["cells", "network"]
GONE = ["antennas with colluders", "antennas with dropouts", "antennas with both"]
FAULTS = {  # what is wrong, the check that sees it, in which cases
    "a weight 5 % off": (changed("reception", weight=pl.col("weight") * (1 + 0.05 * FIRST)), "weights", CASES),
    "users' noise 2 % low": (users_noise_low, "silence", NOISY),
    "noise 2 % low": (changed("reception_noise", update_noise_std=pl.col("update_noise_std") / 0.98), "silence", NOISY),
    "visibility 2 % low": (changed("visibility", visibility=pl.col("visibility") * 0.98), "visibility", NOISY),
    "visibility by users 2 % low": (changed("visibility", visibility_users_only=LOW), "visibility", NOISY),
    "receiver's noise counted": (receiver_counted, "visibility", RECEIVERS),
    "colluders not planned": (unplanned("privacy.colluders"), "visibility", ["uploads", *SUMMED, *GONE[::2]]),
    "dropouts not planned": (unplanned("privacy.dropouts"), "visibility", [*SUMMED, *GONE[1:]]),
    "dropouts not planned that occur": (unplanned("privacy.dropouts"), "occurred", [*SUMMED, *GONE[1:]]),
    "energy 10 % low": (changed("reception_noise", joules=pl.col("joules") * 0.9), "energy", JOULES),
    "scaling by data": (scaled_by_data, "scaling", CASES),
}


@pytest.mark.parametrize(("fault", "name"), [(fault, name) for fault in FAULTS for name in sorted(FAULTS[fault][2])])
def test_a_fault_of_the_stage_is_seen(fault, name, monkeypatch):
    case, (change, check, _) = made(name), FAULTS[fault]
    stage = import_module(f"{registry.system(case.model.system).package}.receive")
    run = stage.run
    monkeypatch.setattr(stage, "run", lambda *given: change(run(*given), *given, run))
    monkeypatch.setattr(features, "training_data", lambda *given: np.ones((4, 64)))
    faulty = case.received()
    with pytest.raises(AssertionError):
        CHECKS[check](faulty, np.random.default_rng(1))


@pytest.mark.parametrize("name", ["uploads", "antennas", "at once", "orthogonal"])
def test_power_that_is_not_allowed_is_seen(name):
    case = made(name)
    column = {MULTICELL: "power_w", ANTENNAS: "amplitude", EXAMPLE: "received_amplitude"}[case.model.system]
    schedule = case.tables["schedule"].with_columns(pl.col(column) * 1.1)
    with pytest.raises(AssertionError):
        check_energy(case._replace(tables=case.tables | {"schedule": schedule}).received(), np.random.default_rng(1))


# Subchannels


@pytest.mark.parametrize("name", ["broadband", "broadband sums"])
def test_subchannels_take_the_energy_that_is_stated(name):
    case, generator, energy = made(name).received(), np.random.default_rng(1), {}
    radio, clip = case.model.radio, case.model.training.clip_norm
    for number, (realization, place, _, air) in enumerate(case.occurring()):
        samples = case.tables["users"].filter(realization=realization)["samples"].to_numpy()
        power = radiated(air, clip * samples, generator)[0].sum() / SYMBOLS
        symbols = len(range(number % radio.subchannels, SYMBOLS, radio.subchannels))
        seconds = symbols * radio.subchannels / (radio.bandwidth_hz * radio.resource_blocks)
        energy[realization, place] = energy.get((realization, place), 0.0) + power * seconds
    stated = case.tables["reception_noise"].sort("realization", "interval")["joules"].to_list()
    error = LIMIT * np.sqrt(2 / (40 * SYMBOLS))
    np.testing.assert_allclose(stated, list(energy.values()), rtol=error)


@pytest.mark.parametrize(("truncation", "silent", "ratio"), [(0.2, 0.181, 0.818), (0.5, 0.393, 1.786)])
def test_truncation_is_as_the_paper_has_it(truncation, silent, ratio):
    """The share that is silent, the signal-to-noise ratio beside a flat channel's, and the mean power over fading."""
    sent, sets, bands = signals.example(), 4000, 5
    sent = sent._replace(
        **{name: np.repeat(getattr(sent, name)[:1], sets, axis=0) for name in ("sends", "weight", "noise_std", "norm")},
        **{name: np.repeat(getattr(sent, name)[:1], sets, axis=0) for name in ("gain", "cell")},
        uniforms=lambda purpose, shape: streams.uniforms(5, purpose, range(sets), shape),
    )
    found, flat = (receive(sent) for receive in (broadband_air.over(bands, truncation), superposed_air.receive))
    fading, _ = broadband_air.couplings(sent, bands, truncation)
    drawn = fading[sent.sends]
    expected = 1 - np.exp(-truncation)
    assert expected == pytest.approx(silent, abs=5e-4)
    assert stats.binomtest(int((drawn == 0).sum()), drawn.size, expected).pvalue > FALSE_ALARM
    np.testing.assert_allclose(found.weight * (1 - expected), sent.weight)  # divided by the share that is expected
    snr = (flat.receiver_std / (found.receiver_std * (1 - expected))) ** 2
    np.testing.assert_allclose(snr, ratio, rtol=6e-4)
    # The user who needs most radiates its largest power, in the mean over fading.
    inverse = np.where(fading > 0, 1 / np.where(fading > 0, fading, 1.0), 0.0).sum(axis=3)
    noise = sent.noise_w / bands / 2  # of a real coordinate
    amplitude = np.sqrt(noise * flat_stations(sent)) / (found.receiver_std * (1 - expected))
    power = amplitude[..., None] ** 2 * airs.inverted_power(sent) * inverse
    most = power.reshape(sets, -1).mean(axis=0).reshape(power.shape[1:])
    spread = power.reshape(sets, -1).std(axis=0).reshape(most.shape) / np.sqrt(sets)
    for interval in range(len(most)):
        user = most[interval].argmax()
        assert abs(most[interval, user] - sent.max_power_w) < LIMIT * spread[interval, user]


def flat_stations(sent) -> np.ndarray:
    """How many stations are listened to, (realization, interval)."""
    return np.array([[len(set(sent.cell[r][sends])) for sends in sent.sends[r]] for r in range(len(sent.sends))])


# Votes


def test_votes_arrive_as_stated():
    """Signs at one amplitude, whatever the messages are; a vote's weight, the receivers' noise, power and energy."""
    name, generator = "votes", np.random.default_rng(1)
    CASES[name] = MULTICELL, "inversion", "target", CROSSING | {"radio": {"air": "majority"}}
    CASES[name][3]["training"] = {"learning_rate": 0.01}
    case = made(name).received()
    del CASES[name]
    radio, silence = case.model.radio, []
    for realization in range(case.model.realizations):
        reception = receptions(case.tables)(realization)
        for place in range(len(reception.sends)):
            sends, span = on_air(case.model, case.tables, realization, place), range(realization, realization + 1)
            shape = case.tables["links"]["interval"].n_unique(), *sends.gain.shape
            turn = np.exp(2j * np.pi * streams.uniforms(case.model.seed, "air/phases", span, shape)[0, place])
            channel = np.sqrt(sends.gain) * np.where(sends.serving, 1.0, turn)
            here = {"realization": realization, "interval": place}
            stated = case.tables["reception_noise"].filter(**here).row(0, named=True)
            own = np.where(sends.serving, sends.gain, 0.0).sum(axis=0)[sends.sends]
            if not sends.sends.any():
                assert not reception.weight[place].any()
                assert stated["joules"] == stated["symbols"] == stated["update_noise_std"] == 0
                continue
            most, thermal = 10 ** (radio.max_power_dbm / 10 - 3), 2 * sends.receiver_std**2
            unit = np.sqrt(most * own.min())
            signs = generator.choice([-1.0, 1.0], (len(sends.sends), 5)) * sends.sends[:, None]
            radiated = np.zeros(signs.shape)
            radiated[sends.sends] = unit / np.sqrt(own)[:, None] * signs[sends.sends]
            heard = (channel @ radiated).real[sends.serving.any(axis=1)].sum(axis=0) / unit
            np.testing.assert_allclose(reception.weight[place] @ signs, heard, **EXACT)
            assert np.square(radiated).max() == pytest.approx(most)
            joules = np.square(radiated[:, 0]).sum() * SYMBOLS / (radio.bandwidth_hz * radio.resource_blocks)
            assert stated["joules"] == pytest.approx(joules)
            assert stated["symbols"] == SYMBOLS
            listening = sends.serving.any(axis=1).sum()
            assert reception.receiver_std[place] == pytest.approx(np.sqrt(thermal / 2 * listening) / unit, rel=1e-6)
            noise = np.abs(reception.weight[place]) * sends.noise
            np.testing.assert_allclose(reception.user_noise_std[place], noise, **EXACT)
            silence.append(reception.noise_std[place])
    assert silence


@pytest.mark.parametrize(("users", "loudness"), [(1, 1.0), (9, 1.0), (9, 3.0), (101, 3.0)])
def test_a_vote_errs_as_often_as_a_binomial_number_is_small(users, loudness):
    """The majority of signs of +1 with noise, against the binomial law of how many of them are positive."""
    vectors, weight = tf.ones((users, DRAWS // 8)), tf.ones(users)
    at = sent.Sent(*[None] * 6, np.full(users, loudness))
    heard, receiver = sent.noisy(vectors, at, tf.constant(3, tf.int64), Draws(tf.constant(1), False))
    wrong = int((sent.majority(heard, weight, 0 * receiver).numpy() < 0).sum())
    expected = stats.binom.cdf(users // 2, users, stats.norm.cdf(1 / loudness))
    assert stats.binomtest(wrong, DRAWS // 8, expected).pvalue > FALSE_ALARM
    # A receiver's noise as loud as all votes together makes more of them wrong.
    louder = (sent.majority(heard, weight, users * receiver).numpy() < 0).mean()
    assert louder > wrong / (DRAWS // 8)


# What trains receives it so


def check_received() -> None:
    """The update that trains is linear in messages, with noise beside them."""
    weight, key = tf.constant([0.5, 0.0, -0.2]), tf.constant(7, tf.int64)
    messages = np.random.default_rng(1).standard_normal((3, 2, DRAWS // 2)).astype(np.float32)

    def update(scale):
        given = [tf.constant(np.float32(scale) * messages)], weight, tf.constant(0.3), key, Draws(tf.constant(1), False)
        return rounds.receive(*given)[0].numpy().astype(float)

    silence = update(0)
    for scale in (1, 4):
        expected = scale * np.tensordot(weight.numpy(), messages, 1)
        np.testing.assert_allclose(update(scale) - silence, expected, rtol=0, atol=1e-5)
    assert_normal(silence / 0.3)


RECEIVED = {
    "a weight 5 % off": lambda m, w, std: (m, w * [1.05, 1, 1], std),
    "noise 2 % low": lambda m, w, std: (m, w, 0.98 * std),
    "scaling by the messages": lambda m, w, std: ([x / tf.reduce_max(tf.abs(x) + 1e-9) for x in m], w, std),
    "noise by the messages": lambda m, w, std: (m, w, std + 1e-3 * tf.reduce_max(tf.abs(m[0]))),
}


def test_what_trains_receives_is_linear_in_messages():
    check_received()


@pytest.mark.parametrize("fault", RECEIVED)
def test_a_fault_of_what_trains_receives_is_seen(fault, monkeypatch):
    right = rounds.receive
    monkeypatch.setattr(rounds, "receive", lambda m, w, std, *more: right(*RECEIVED[fault](m, w, std), *more))
    with pytest.raises(AssertionError):
        check_received()


# The formulas of `visibility`, by likelihood ratios


def likelihood_ratio(heard, noise_std, receiver_std, user, generator) -> float:
    """mu of the test whether a message has moved by 1: by densities, which must fit what is drawn."""
    covariance = np.diag(receiver_std**2)
    for column, std in zip(heard.T, noise_std, strict=True):
        covariance = covariance + std**2 * np.outer(column, column)
    still, moved = (stats.multivariate_normal(mean, covariance) for mean in (0 * heard[:, user], heard[:, user]))
    mu = np.sqrt(2 * (moved.logpdf(moved.mean) - still.logpdf(moved.mean)))
    of_users, of_receivers = (generator.standard_normal((20_000, len(std))) * std for std in (noise_std, receiver_std))
    silence = of_users @ heard.T + of_receivers
    assert_normal((moved.logpdf(silence) - still.logpdf(silence) + mu**2 / 2) / mu)
    return mu


@pytest.mark.parametrize(("observed", "users"), [(1, 1), (1, 4), (3, 3), (6, 2), (2, 6)])
def test_visibility_is_the_likelihood_ratios(observed, users):
    generator = np.random.default_rng(observed * 10 + users)
    heard = generator.standard_normal((observed, users))
    noise_std, receiver_std = generator.uniform(0.3, 1, users), generator.uniform(0.3, 1, observed)
    seen = visibility.linear(heard, noise_std, receiver_std)
    by_products = visibility.through_gram(heard.T @ heard, np.array(0.4), 0.6)
    for user in range(users):
        mu = likelihood_ratio(heard, noise_std, receiver_std, user, generator)
        alike = likelihood_ratio(heard, np.full(users, 0.4), np.full(observed, 0.6), user, generator)
        np.testing.assert_allclose([seen[user], by_products[user]], [mu, alike], rtol=1e-9)
