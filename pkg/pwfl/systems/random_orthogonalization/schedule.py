"""Schedulers of the system `random_orthogonalization`: active users of each round, and their amplitude."""

from typing import NamedTuple

import numpy as np
import polars as pl

from pwfl.process import user_code
from pwfl.systems.random_orthogonalization import mimo
from pwfl.systems.random_orthogonalization.parameters import RandomOrthogonalization
from pwfl.systems.random_orthogonalization.schemes import SCHEDULERS
from pwfl.tables.arrays import size_of, to_array, to_table

KEYS = ("realization", "round", "user")


class Uplink(NamedTuple):
    """The channels of a round, for a user-defined scheduler; arrays of shape (realization, user)."""

    gain: np.ndarray  # ||h_k||^2
    coupling: np.ndarray  # Re(h_s^H h_k) if all users send
    max_amplitude: float  # radio.amplitude; its square is the power limit


def run(scenario: RandomOrthogonalization, scheduler: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Make the tables `schedule` (amplitudes, the same for all active users, and their links) and `schedule_status`.

    `scheduler` is one of `schemes.SCHEDULERS`, or the name of a user-defined function (`user_amplitudes`). The server
    knows the active users: its sum h_s has only their channels, and K is their number.
    """
    if not user_code.is_reference(scheduler):
        return SCHEDULERS[scheduler].load()(scenario, tables)
    links = _select_links(tables)
    amplitude = user_amplitudes(scenario, scheduler, tables["users"], links)
    realizations, (_, rounds, count) = tables["users"]["realization"].unique().sort().to_list(), amplitude.shape
    keys = {"realization": realizations, "round": range(1, rounds + 1), "user": range(count)}
    fewest = (amplitude > 0).sum(axis=2).min(axis=1)
    return {
        "schedule": to_table(keys, amplitude=amplitude, **links_among(scenario, realizations, amplitude > 0)),
        "schedule_status": to_table({"realization": realizations}, transmitting=fewest).with_columns(
            status=pl.lit("own")
        ),
    }


def schedule_all(scenario: RandomOrthogonalization, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Make the stage's tables if all users send in every round, as no user knows its channel (2)."""
    users = tables["users"].group_by("realization", maintain_order=True)
    return {
        "schedule": _select_links(tables).with_columns(amplitude=pl.lit(scenario.radio.amplitude)),
        "schedule_status": users.agg(status=pl.lit("all"), transmitting=pl.len()),
    }


def _select_links(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Select links in the network of all users."""
    return tables["links"].filter(users=size_of(tables["users"], "user")).drop("users")


def user_amplitudes(
    scenario: RandomOrthogonalization, scheduler: str, users: pl.DataFrame, links: pl.DataFrame
) -> np.ndarray:
    """Compute amplitudes, (realization, round, user), by a user-defined function, round by round; 0: does not send.

    Its arguments are the scenario, the round's `Uplink`, the table `users`, and `now` (`user_code.Now`, of amplitudes)
    if it has a parameter of this name. It returns each user's amplitude, shape (realization, user), or a pair of these
    and a state to keep. Raises UserCodeError if no user is active, or if active users' amplitudes differ, as the server
    divides by one amplitude, or exceed `radio.amplitude`.
    """
    gain, coupling = (to_array(links, name, *KEYS) for name in ("energy", "coupling_real"))
    realizations, most = users["realization"].unique().sort().to_list(), scenario.radio.amplitude

    def sent(t: int, amplitude: np.ndarray) -> np.ndarray:
        what = "each user's amplitude, 0 for a user who does not send, realizations by users"
        amplitude = user_code.array_of(scheduler, amplitude, gain[:, t].shape, what).astype(float)
        largest = amplitude.max(axis=1, keepdims=True)
        wrong = ~((amplitude == 0) | (amplitude == largest)) | ~((largest > 0) & (largest <= most))
        if wrong.any():
            row = np.argwhere(wrong)[0, 0]
            amplitudes = ", ".join(f"{value:g}" for value in np.unique(amplitude[row])[:5])
            raise user_code.UserCodeError(
                f"{scheduler}: gives users of realization {realizations[row]} the amplitudes {amplitudes} in round "
                f"{t + 1}; must be 0 or, for all active users, the same amplitude, by which the server divides, at "
                f"most radio.amplitude, {most:g}; at least one user must be active"
            )
        return amplitude

    arguments = ((scenario, Uplink(gain[:, t], coupling[:, t], most), users) for t in range(gain.shape[1]))
    return user_code.round_by_round(scheduler, arguments, sent, scenario.seed, realizations, scenario.own.reads)


def links_among(scenario: RandomOrthogonalization, realizations: list[int], sends: np.ndarray) -> dict[str, np.ndarray]:
    """Compute `mimo.COUPLINGS` of users who send, boolean (realization, round, user), 0 of others; redraw channels."""
    columns = {name: np.empty(sends.shape) for name in mimo.COUPLINGS}
    (_, rounds, users), antennas = sends.shape, scenario.network.antennas
    span, coherence = range(realizations[0], realizations[-1] + 1), scenario.radio.coherence_rounds
    for rows, within, channel in mimo.drawn(scenario.seed, span, rounds, coherence, users, antennas):
        products = mimo.inner_products(channel) if mimo.few(users, antennas) else None
        for t in within:
            if products is None:
                sender_links = mimo.couplings_of_many(np.where(sends[rows, t, :, None], channel, 0.0))
            else:
                sender_links = mimo.couplings(mimo.among(products, sends[rows, t]))
            for name, values in sender_links.items():
                columns[name][rows, t] = values
    return columns
