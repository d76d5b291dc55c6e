"""Noise schemes of the system `multicell`."""

from typing import NamedTuple, Self

import numpy as np
import polars as pl

from pwfl.privacy import accountant, target
from pwfl.privacy.gaussian import composed_multiplier
from pwfl.process import user_code
from pwfl.systems.multicell import receive
from pwfl.systems.multicell.assigned import KEYS, assigned
from pwfl.systems.multicell.beyond import allocation, sums
from pwfl.systems.multicell.beyond.intervals import planned
from pwfl.systems.multicell.beyond.mechanism import mechanism
from pwfl.systems.multicell.beyond.on_air import is_digital
from pwfl.systems.multicell.bounds import noise_scale
from pwfl.systems.multicell.optimal_noise import optimal_noise
from pwfl.systems.multicell.parameters import Multicell, Privacy
from pwfl.systems.multicell.schemes import NOISES
from pwfl.systems.multicell.sending import sums_records
from pwfl.tables.arrays import joined, to_array


def run(scenario: Multicell, scheme: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The tables `noise`, each scheduled user's noise standard deviation, and `noise_status`, how it was found.

    `scheme` is one of `schemes.NOISES`, or the name of a user-defined function (`user_noise`). An interval where even
    the least noise breaks (21) gets nulls and the status `infeasible`; users who are not scheduled get 0.

    A scheme's noise is what a user would add if it sent in all T rounds, and stands for its budget rho. A user who
    plans for n rounds spends rho / n in each, so it adds sqrt(n / T) times that noise. Bounds (21) and (22) are on the
    noise before that, and before it is scaled to the clipping norm and rounds (`privacy.bounds`). Where observers see
    sums, users share the noise that leaves no record worse off than the worst-off one (`sums.shared_noise`).
    """
    keys = ("realization", "interval", "user")
    users = joined(tables["schedule"], tables["users"], "realization", "user").sort(keys)
    users = users.with_columns(scheduled=pl.col("resource_block").is_not_null())
    columns = [to_array(users, name, *keys) for name in ("samples", "scheduled")]
    realizations, intervals, count = columns[0].shape
    samples, scheduled = (values.reshape(-1, count) for values in columns)
    start_noise_std = to_array(tables["start_values"], "noise_std", "realization", "user").repeat(intervals, axis=0)
    privacy, calibrated = scenario.privacy, False
    inputs = Given(samples, scheduled, start_noise_std)
    if is_own := user_code.is_reference(scheme):
        now = Now.build(scenario, users, tables["links"])
        computed = Computed(user_noise(scenario, scheme, samples, scheduled, start_noise_std, now))
    else:
        calibrated = NOISES[scheme].calibrated
        computed = NOISES[scheme].load()(scenario, inputs)
    status = np.full(len(scheduled), "own" if is_own else scheme, dtype=object)
    status[~np.broadcast_to(computed.feasible, status.shape)] = "infeasible"
    status[~scheduled.any(axis=1)] = "no_user_scheduled"
    noise = computed.noise_std if calibrated else computed.noise_std * noise_scale(scenario)
    # Users share the noise of digital sums; on air they add what they are given.
    on_air = (calibrated or is_own) and not is_digital(scenario)
    if privacy.observer == "user" or on_air:
        noise = noise * np.sqrt(planned(privacy, intervals) / intervals)
    else:
        shape = (realizations, intervals, count)
        sends = (scheduled & np.isfinite(noise)).reshape(shape)
        group = sums.summed_groups(privacy, to_array(users, "cell", *keys))
        noise = sums.shared_noise(privacy, samples.reshape(shape), noise.reshape(shape), sends, group)
    rows = users.select("realization", "interval").unique(maintain_order=True)
    table = users.select(keys).with_columns(noise_std=pl.Series(noise.ravel(), nan_to_null=True))
    multiplier = np.broadcast_to(computed.multiplier, status.shape)
    return {
        "noise": to_target(scenario, tables, table) if calibrated else table,
        "noise_status": rows.with_columns(
            status=pl.Series(status.tolist(), dtype=pl.String),
            noise=pl.lit(scheme),
            multiplier=pl.Series(multiplier, nan_to_null=True),
        ),
    }


class Given(NamedTuple):
    """What noise is decided by: arrays of shape (interval, user), those of all realizations one after the other."""

    samples: np.ndarray  # K_i
    scheduled: np.ndarray
    start_noise_std: np.ndarray


class Computed(NamedTuple):
    """Noise, in the units of (21) and (22), 0 of users who are not scheduled, NaN where infeasible."""

    noise_std: np.ndarray  # sigma_i, (interval, user)
    multiplier: np.ndarray | float = np.nan  # kappa of (38), (interval,)
    feasible: np.ndarray | bool = True  # whether (21) holds with the least noise, (interval,)


def take_start_noise(scenario: Multicell, inputs: Given) -> Computed:
    """Noise of the start values."""
    return Computed(np.where(inputs.scheduled, inputs.start_noise_std, 0.0))


def add_none(scenario: Multicell, inputs: Given) -> Computed:
    """No noise."""
    return Computed(np.zeros(inputs.scheduled.shape))


def equalize_epsilon(scenario: Multicell, inputs: Given) -> Computed:
    """Noise that gives every scheduled user's records the same epsilon where each message is seen by itself."""
    privacy, training = scenario.privacy, scenario.training
    multiplier = composed_multiplier(goal_of(privacy), privacy.delta, training.rounds)
    sensitivity = 2 * training.clip_norm / (inputs.samples if sums_records(training) else 1)
    return Computed(np.where(inputs.scheduled, multiplier * sensitivity, 0.0))


def minimize_noise(scenario: Multicell, inputs: Given) -> Computed:
    """Optimal noise (36)."""
    privacy = scenario.privacy
    return Computed(*optimal_noise(inputs.samples, inputs.scheduled, privacy.max_noise_error, privacy.min_noise))


def share_sum(scenario: Multicell, inputs: Given) -> Computed:
    """The sum of the exposures of (36), shared equally."""
    computed = minimize_noise(scenario, inputs)
    return computed._replace(noise_std=allocation.share_sum(inputs.samples, computed.noise_std))


def share_maximum(scenario: Multicell, inputs: Given) -> Computed:
    """The maximum of the exposures of (36), for everyone."""
    computed = minimize_noise(scenario, inputs)
    return computed._replace(noise_std=allocation.share_maximum(inputs.samples, computed.noise_std))


def fill_up(scenario: Multicell, inputs: Given) -> Computed:
    """The maximum of the exposures of (36), for as many users as their sum pays for."""
    computed = minimize_noise(scenario, inputs)
    return computed._replace(noise_std=allocation.fill_up(inputs.samples, computed.noise_std))


def goal_of(privacy: Privacy) -> float:
    """The target epsilon; without one, no scheme is `target` (`checks`)."""
    assert privacy.target_epsilon is not None
    return privacy.target_epsilon


def to_target(scenario: Multicell, tables: dict[str, pl.DataFrame], noise: pl.DataFrame) -> pl.DataFrame:
    """The table `noise`, scaled so that in each realization the worst-off user's epsilon is `privacy.target_epsilon`.

    The users of groups whose sums the observer sees, of which one may be better off, first get the same mu in a round;
    then all of a realization's noise is scaled alike. What an epsilon is, receive and account say.
    """
    privacy, training = scenario.privacy, scenario.training
    cell = to_array(tables["users"], "cell", "realization", "user")
    claim = accountant.Claim(privacy.observer)
    # On air messages of all cells arrive together: what hides one is everybody's noise.
    group = sums.groups(privacy.observer if is_digital(scenario) else "network", cell)
    member = group[:, None] == np.arange(group.max() + 1)[:, None]  # (realization, group, user)
    place = tuple(noise[name].to_numpy() - noise[name].min() for name in ("realization", "user"))

    def scaled(scale: np.ndarray) -> pl.DataFrame:
        user_scale = np.take_along_axis(scale, group, axis=1)
        return noise.with_columns(pl.col("noise_std") * pl.Series(user_scale[place]))

    def seen(scale: np.ndarray) -> tuple[pl.DataFrame, accountant.Losses]:
        frame = assigned(tables | {"noise": scaled(scale)}).sort(KEYS)
        visibility = receive.visible(scenario, tables, frame, (privacy.observer,))
        return frame, accountant.losses(
            tables | {"visibility": visibility}, privacy.observer, 2 * training.clip_norm, users_only=True
        )

    def largest_mu(scale: np.ndarray) -> np.ndarray:
        return np.where(member, seen(scale)[1].mu.max(axis=1)[:, None], 0.0).max(axis=2)

    def worst(scale: np.ndarray) -> np.ndarray:
        frame, losses = seen(scale)
        if privacy.observer == "user":  # who sends in fewer intervals than its budget is planned for spends less
            rounds = losses.rounds[:1] * planned(privacy, frame["interval"].n_unique())
            losses = accountant.Losses(losses.mu.max(axis=1, keepdims=True), rounds)
        return mechanism(scenario, frame).worth(losses, claim, privacy.delta)[0].max(axis=1)

    balance = target.balanced(largest_mu, member.shape[:2])
    scale = target.scales(lambda factor: worst(balance * factor[:, None]), goal_of(privacy), len(cell))
    return scaled(balance * scale[:, None])


class Now(NamedTuple):
    """What else is known where noise is decided, for a noise scheme of the user's own that has a parameter `now`.

    Arrays have the shape (interval, user), those of all realizations one after the other.
    """

    gain: np.ndarray  # of power, to each station, (interval, station, user)
    cell: np.ndarray  # the station that serves a user
    block: np.ndarray  # the schedule: -1: does not send
    power_w: np.ndarray
    rate_bps: np.ndarray
    intervals: int  # of each realization
    rounds: int  # of each interval
    target_epsilon: float | None  # privacy.target_epsilon, at
    delta: float
    generators: tuple[np.random.Generator, ...]  # of each realization

    @classmethod
    def build(cls, scenario: Multicell, users: pl.DataFrame, links: pl.DataFrame) -> Self:
        """Of what is scheduled, a row for each realization, interval and user, and of links."""
        block, power_w, rate_bps, cell = (
            to_array(users.with_columns(pl.col("resource_block").fill_null(-1)), name, *KEYS)
            for name in ("resource_block", "power_w", "rate_bps", "cell")
        )
        _, intervals, count = block.shape
        gain = to_array(links, "gain", "realization", "interval", "station", "user")
        flat = [values.reshape(-1, count) for values in (cell, block, power_w, rate_bps)]
        numbers = users["realization"].unique().sort()
        return cls(
            gain.reshape(-1, *gain.shape[2:]),
            *flat,
            intervals,
            scenario.training.rounds // intervals,
            scenario.privacy.target_epsilon,
            scenario.privacy.delta,
            user_code.generators(scenario.seed, "noise", numbers),
        )


def user_noise(
    scenario: Multicell,
    scheme: str,
    samples: np.ndarray,
    scheduled: np.ndarray,
    start_noise_std: np.ndarray,
    now: Now,
) -> np.ndarray:
    """Noise by a function of the user's own, in the units of (21) and (22), before it is scaled.

    It gets the scenario, K_i, who is scheduled, and the start values' noise, and returns sigma_i, all of shape
    (interval, user), those of all realizations one after the other; infinite: sends nothing. A function with a
    parameter `now` gets this, too.
    Raises UserCodeError where that is no noise.
    """
    arguments = scenario, samples, scheduled, start_noise_std
    noise = user_code.call(scheme, *arguments, reads=scenario.own.reads, now=now)
    noise = user_code.array(scheme, noise).astype(float)
    if noise.shape != scheduled.shape or not (noise[scheduled] >= 0).all():
        raise user_code.UserCodeError(
            f"{scheme}: must return each scheduled user's standard deviation, at least 0, of shape "
            f"{scheduled.shape}, intervals of realizations by users; returns shape {noise.shape}"
            + (f"; the smallest value is {np.min(noise[scheduled]):g}" if noise.shape == scheduled.shape else "")
        )
    return np.where(scheduled, noise, 0.0)
