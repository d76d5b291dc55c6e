"""Massive-MIMO uplink of ul Zuhra et al.: channels, their couplings in the server's update, and its noise.

Channels are h_k ~ CN(0, I/M). The reception of the users' signals depends only on inner products h_j^H h_k of channels.
With CN(0, I) instead, and the further 1/M that (4) then needs, inner products are M times as large and divided by M:
only the receiver's noise changes, to a variance M times smaller (`receiver_noise_std`).
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from pwfl import streams
from pwfl.tables.arrays import size_of, to_array

BLOCK_BYTES = 2**26  # approximate memory limit of a chunk of realizations
COUPLINGS = ("energy", "coupling_real", "coupling_modulus", "cross_energy")
EFFECTIVE = ("effective_noise_std", "effective_noise_std_modulus", "effective_noise_std_printed")


class Uplink(NamedTuple):
    """Signals and noise of both sides; arrays of shape (...,), such as (realization, round), or numbers.

    `noise_std` is sigma, of the noise that each user adds to its update, `receiver_std` sigma_m, of an antenna's
    complex noise (see `receiver_noise_std`), `amplitude` alpha, of every user's signal.
    """

    noise_std: Any
    receiver_std: float
    amplitude: Any

    def round(self, t: int) -> "Uplink":
        """Select one round by its index in the last axis."""
        return self._replace(noise_std=self.noise_std[..., t], amplitude=self.amplitude[..., t])


def blocks(realizations: range, users: int, antennas: int) -> Iterator[range]:
    """Yield chunks of realizations to compute at once, with at least one each.

    A realization requires its channels, or inner products of `few` users, in one round.

    >>> list(blocks(range(5), users=1000, antennas=2000))
    [range(0, 2), range(2, 4), range(4, 5)]
    """
    realization_bytes = np.dtype(complex).itemsize * users * max(min(users, 2 * antennas), antennas)
    size = max(BLOCK_BYTES // realization_bytes, 1)
    for first in range(realizations.start, realizations.stop, size):
        yield range(first, min(first + size, realizations.stop))


def few(users: int, antennas: int) -> bool:
    """Return whether users are so few that `inner_products` cost less than computing from channels as for many."""
    return users <= 2 * antennas


def intervals(rounds: int, coherence_rounds: int | None) -> Iterator[tuple[int, range]]:
    """Yield each coherence interval's number, from 1, and its rounds' indices; None: one interval of all rounds.

    >>> list(intervals(6, 3)), list(intervals(6, None))
    ([(1, range(0, 3)), (2, range(3, 6))], [(1, range(0, 6))])
    """
    length = coherence_rounds or rounds
    for number, first in enumerate(range(0, rounds, length), start=1):
        yield number, range(first, first + length)


def channels(seed: int, realizations: range, interval: int, users: int, antennas: int) -> np.ndarray:
    """Draw channels h_k of an interval, numbered from 1, complex, shape (realization, k, antenna).

    A user's channel does not depend on the numbers of users and intervals, nor on the intervals' length.
    """
    channel = np.empty((len(realizations), users, antennas), complex)
    for user in range(users):
        uniform = streams.uniforms(seed, f"channel/{interval}/{user}", realizations, (2, antennas))
        power = -np.log(uniform[:, 0]) / antennas  # exponential: the squared modulus of CN(0, 1/M)
        channel[:, user] = np.sqrt(power) * np.exp(2j * np.pi * uniform[:, 1])
    return channel


def drawn(
    seed: int, realizations: range, rounds: int, coherence_rounds: int | None, users: int, antennas: int
) -> Iterator[tuple[slice, range, np.ndarray]]:
    """Draw the `channels` of all rounds, by chunks of realizations and by coherence intervals.

    Yields the chunk's place among the realizations, the indices of the interval's rounds, and their channels.
    """
    for block in blocks(realizations, users, antennas):
        rows = slice(block.start - realizations.start, block.stop - realizations.start)
        for interval, within in intervals(rounds, coherence_rounds):
            yield rows, within, channels(seed, block, interval, users, antennas)


def inner_products(channel: np.ndarray) -> np.ndarray:
    """Compute inner products h_j^H h_k of `channels`, complex, shape (realization, j, k)."""
    return channel.conj() @ channel.swapaxes(-1, -2)


def inner_products_of_few(channel: np.ndarray, sizes: Iterable[int]) -> np.ndarray:
    """Compute `inner_products` of the first users, as many as the largest of some networks of `few` users has."""
    return inner_products(channel[:, : max((size for size in sizes if few(size, channel.shape[2])), default=0)])


def among(products: np.ndarray, sends: np.ndarray) -> np.ndarray:
    """Select active users' inner products, shape (..., user, user), by `sends`, boolean, (..., user); 0 for others."""
    return np.where(sends[..., None] & sends[..., None, :], products, 0.0)


def couplings(products: np.ndarray) -> dict[str, np.ndarray]:
    """Compute the couplings of channels in the server's update, from inner products, shape (..., user, user).

    Returns arrays of shape (..., user). With h_s the sum of all users' channels, ||h_s||^2 is the sum of coupling_real:

    - energy: ||h_k||^2
    - coupling_real: Re(h_s^H h_k), K times the weight of user k's signal in the server's update
    - coupling_modulus: |h_s^H h_k|
    - cross_energy: sum over j of |h_j^H h_k|^2, j = k included
    """
    energy = np.diagonal(products, axis1=-2, axis2=-1).real
    return _couplings(energy, products.sum(axis=-2), (np.abs(products) ** 2).sum(axis=-2))


def couplings_of_many(channel: np.ndarray) -> dict[str, np.ndarray]:
    """Compute `couplings` from `channels` of active users, zeros of others, in time that grows linearly with users."""
    with_sum = (channel * channel.sum(axis=-2, keepdims=True).conj()).sum(axis=-1)
    spread = channel.swapaxes(-1, -2).conj() @ channel  # sum over j of conj(h_j) h_j^T
    cross_energy = ((channel @ spread) * channel.conj()).sum(axis=-1).real
    return _couplings(np.square(np.abs(channel)).sum(axis=-1), with_sum, cross_energy)


def _couplings(energy: np.ndarray, with_sum: np.ndarray, cross_energy: np.ndarray) -> dict[str, np.ndarray]:
    return dict(zip(COUPLINGS, (energy, with_sum.real, np.abs(with_sum), cross_energy), strict=True))


def receiver_noise_std(variance: float, normalization: str, antennas: int) -> float:
    """Return the standard deviation sigma_m of an antenna's noise, in units in which channels are CN(0, I/M)."""
    return float(np.sqrt(variance / antennas if normalization == "I" else variance))


def uplink_of(scenario, schedule: pl.DataFrame, noise_std: np.ndarray) -> Uplink:
    """Make the uplink of a scenario's table `schedule`, with users' noise, arrays of shape (realization, round)."""
    radio = scenario.radio
    receiver_std = receiver_noise_std(radio.receiver_noise_variance, radio.normalization, scenario.network.antennas)
    amplitude = to_array(schedule, "amplitude", "realization", "round", "user").max(axis=-1)  # equal for active users
    return Uplink(noise_std, receiver_std, amplitude)


def links_of(tables: dict[str, pl.DataFrame], users: int) -> pl.DataFrame:
    """Select links in a network of `users` users: in the scenario's network, those of active users in `schedule`."""
    all_users = users == size_of(tables["users"], "user")
    return tables["schedule"] if all_users else tables["links"].filter(users=users)


def sends_of(tables: dict[str, pl.DataFrame], users: int) -> np.ndarray:
    """Return who sends in a network of `users` users, boolean, (realization, round, user); all in other networks."""
    sends = to_array(tables["schedule"], "amplitude", "realization", "round", "user") > 0
    return sends if users == sends.shape[-1] else np.ones((*sends.shape[:-1], users), bool)


def effective_noise(
    coupling: dict[str, np.ndarray], uplink: Uplink, senders: np.ndarray | int
) -> dict[str, np.ndarray]:
    """Compute standard deviations, per coordinate, of noise in the server's update: EFFECTIVE, each of shape (...,).

    `senders` is the number of active users, shape (...,).

    - effective_noise_std: that of Re(h_s^H y) / (alpha K) given the channels. Users' noise is real, so user j's enters
      with Re(h_s^H h_j) / K, and of the receiver's noise m only the real part of h_s^H m.
    - effective_noise_std_modulus: given the channels, without the real part: |h_s^H h_j| / K and all of h_s^H m.
    - effective_noise_std_printed: (5) as printed, the expectation of the former.
    """
    sum_energy = np.maximum(coupling["coupling_real"].sum(axis=-1), 0)
    received = (uplink.receiver_std / uplink.amplitude) ** 2

    def std(column: str, receiver: np.ndarray, power: int = 2) -> np.ndarray:
        return np.sqrt(uplink.noise_std**2 * (coupling[column] ** power).sum(axis=-1) + received * receiver) / senders

    return {
        "effective_noise_std": std("coupling_real", sum_energy / 2),
        "effective_noise_std_modulus": std("coupling_modulus", sum_energy),
        "effective_noise_std_printed": std("cross_energy", coupling["energy"].sum(axis=-1), power=1),
    }


def mechanism_mu(sensitivity: np.ndarray, noise_std: np.ndarray) -> np.ndarray:
    """Divide sensitivity, shape (..., user), by the noise standard deviation, (...,); infinite without noise."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        mu = sensitivity / noise_std[..., None]
    return np.where(np.isnan(mu), np.inf, mu)


def mean_noise(users: int | np.ndarray, antennas: int, uplink: Uplink) -> np.ndarray:
    """Compute the square root of the mean of (5) over channels, in closed form, shape (...,)."""
    users_variance = uplink.noise_std**2 * users * (1 + users / antennas)  # K (1 + 1/M) + K (K - 1) / M
    return np.sqrt(users_variance + (uplink.receiver_std / uplink.amplitude) ** 2 * users) / users
