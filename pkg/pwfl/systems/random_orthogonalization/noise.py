"""Noise schemes of the system `random_orthogonalization`."""

from typing import NamedTuple

import numpy as np
import polars as pl

from pwfl.privacy import accountant, target
from pwfl.process import user_code
from pwfl.systems.random_orthogonalization import mimo, observers, receive
from pwfl.systems.random_orthogonalization.parameters import RandomOrthogonalization
from pwfl.systems.random_orthogonalization.schemes import NOISES
from pwfl.tables.arrays import size_of, to_array, to_table

KEYS = ("realization", "round", "user")


def run(scenario: RandomOrthogonalization, scheme: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Make the tables `noise` and `noise_status`: the users' noise, and that of the server's update (5).

    `scheme` is one of `schemes.NOISES`, or the name of a user-defined function (`user_noise`).
    """
    realizations = tables["schedule"]["realization"].unique().sort()
    if user_code.is_reference(scheme):
        noise_std, status = user_noise(scenario, scheme, tables), ["own"] * len(realizations)
    else:
        noise_std, status = NOISES[scheme].load()(scenario, tables)
    return {
        "noise": build_noise(scenario, tables, noise_std),
        "noise_status": pl.DataFrame({"realization": realizations, "status": status}),
    }


class Deviations(NamedTuple):
    """Standard deviations of the users' noise, and a status for each realization: how they were found."""

    noise_std: np.ndarray  # (realization, round) or (realization, 1)
    status: list[str]


def add_fixed(scenario: RandomOrthogonalization, tables: dict[str, pl.DataFrame]) -> Deviations:
    """Return noise of one variance in all rounds: the configured one, or the one that a target epsilon requires."""
    count, goal = tables["schedule"]["realization"].n_unique(), scenario.privacy.target_epsilon
    if goal is None:
        return Deviations(np.full((count, 1), np.sqrt(scenario.privacy.noise_variance)), ["fixed"] * count)
    noise_std = to_target(scenario, tables, goal)
    return Deviations(noise_std[:, None], ["target" if std > 0 else "receiver_noise_suffices" for std in noise_std])


def add_none(scenario: RandomOrthogonalization, tables: dict[str, pl.DataFrame]) -> Deviations:
    """Return zero noise."""
    count = tables["schedule"]["realization"].n_unique()
    return Deviations(np.zeros((count, 1)), ["none"] * count)


def build_noise(
    scenario: RandomOrthogonalization, tables: dict[str, pl.DataFrame], noise_std: np.ndarray
) -> pl.DataFrame:
    """Make the table `noise` from standard deviations of users' noise, (realization, round) or (realization, 1)."""
    schedule = tables["schedule"]
    coupling = {name: to_array(schedule, name, *KEYS) for name in mimo.COUPLINGS}
    std = np.broadcast_to(noise_std, coupling["energy"].shape[:2])
    senders = (to_array(schedule, "amplitude", *KEYS) > 0).sum(axis=-1)
    effective = mimo.effective_noise(coupling, mimo.uplink_of(scenario, schedule, std), senders)
    rounds = schedule["round"].unique().sort()
    keys = {"realization": schedule["realization"].unique().sort(), "round": rounds}
    return to_table(keys, noise_std=std, **effective)


def to_target(scenario: RandomOrthogonalization, tables: dict[str, pl.DataFrame], goal: float) -> np.ndarray:
    """Find the smallest standard deviation of users' noise with no user's epsilon above the goal, (realization,).

    `receive` and `account` define epsilon: against `privacy.observer`, counting the receiver's noise. The result is 0
    if that is enough. Channels of all rounds, also of later ones, are assumed known. Users, who know none, would have
    to receive this value, or to add more noise.
    """
    realizations = tables["schedule"]["realization"].unique().sort()
    span = range(realizations[0], realizations[-1] + 1)
    all_users = pl.lit(size_of(tables["users"], "user"), pl.Int64)
    seen, delta = scenario.privacy.observer, observers.delta(scenario.privacy)
    links = tables["schedule"].drop("amplitude").with_columns(users=all_users)

    def worst(noise_std: np.ndarray) -> np.ndarray:
        candidate = tables | {"links": links, "noise": build_noise(scenario, tables, noise_std[:, None])}
        candidate["visibility"] = receive.visible(scenario, candidate, span, (seen,))
        losses = accountant.losses(candidate, seen, 2 * scenario.training.clip_norm)
        return observers.ROUNDS.worth(losses, accountant.Claim(seen), delta)[0].max(axis=1)

    needed = worst(np.zeros(len(realizations))) > goal
    scale = target.scales(lambda factor: np.where(needed, worst(factor), 0.0), goal, len(realizations))
    return np.where(needed, scale, 0.0)


def user_noise(scenario: RandomOrthogonalization, scheme: str, tables: dict[str, pl.DataFrame]) -> np.ndarray:
    """Compute the standard deviation of users' noise, per coordinate of an update, by a user-defined function.

    Its arguments are the scenario, samples (realization, user), gains ||h_k||^2 and amplitudes (realization, round,
    user; both 0: does not send), and `now`, generators, if it has a parameter of this name. It returns standard
    deviations (realization, round), equal for all active users. Raises UserCodeError if the result is no noise.
    """
    samples = to_array(tables["users"], "samples", "realization", "user")
    gain, amplitude = (to_array(tables["schedule"], name, *KEYS) for name in ("energy", "amplitude"))
    realizations = tables["users"]["realization"].unique().sort()
    now = user_code.Drawn(user_code.generators(scenario.seed, "noise", realizations))
    arguments = scenario, samples, gain, amplitude
    noise = user_code.call(scheme, *arguments, reads=scenario.own.reads, now=now)
    what = "the standard deviation of the users' noise, realizations by rounds"
    return user_code.noise_of(scheme, noise, np.ones(gain.shape[:2], bool), what, zero=True)
