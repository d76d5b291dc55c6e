"""Noise schemes of the system `multicell`."""

from collections.abc import Callable
from typing import NamedTuple, Self

import numpy as np
import polars as pl

from pwfl.privacy import accountant, target
from pwfl.privacy.gaussian import composed_multiplier
from pwfl.process import user_code
from pwfl.systems.multicell import receive
from pwfl.systems.multicell.assigned import KEYS, assigned
from pwfl.systems.multicell.beyond import sums
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
    """Make the tables `noise`, each scheduled user's noise standard deviation, and `noise_status`, how it was found.

    `scheme` is one of `schemes.NOISES`, or the name of a user-defined function (`user_noise`). If even the least noise
    of an interval violates (21), it has nulls and the status `infeasible`. Users who are not scheduled have noise 0.

    A scheme's noise is that of a user who sends in all T rounds, and determines its privacy budget rho. A user who
    plans for n rounds spends rho / n in each, so it adds sqrt(n / T) times that noise. Constraints (21), (22) are on
    the noise before that, and before it is scaled to the clipping norm and rounds (`privacy.bounds`). If observers see
    sums, users share noise, and no record is more exposed than the most exposed one before (`sums.shared_noise`).
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
        computed = Computed(user_noise(scenario, scheme, inputs, now))
    else:
        calibrated = NOISES[scheme].calibrated
        computed = NOISES[scheme].load()(scenario, inputs)
    status = np.full(len(scheduled), "own" if is_own else scheme, dtype=object)
    status[~np.broadcast_to(computed.feasible, status.shape)] = "infeasible"
    status[~scheduled.any(axis=1)] = "no_user_scheduled"
    noise = computed.noise_std if calibrated else computed.noise_std * noise_scale(scenario)
    # Users share the noise of digital sums. On air, they add the noise of the scheme.
    on_air = (calibrated or is_own) and not is_digital(scenario)
    if privacy.observer == "user" or on_air:
        noise = noise * np.sqrt(planned(privacy, intervals) / intervals)
    else:
        shape = (realizations, intervals, count)
        sends = (scheduled & np.isfinite(noise)).reshape(shape)
        group = sums.groups(privacy.observer, to_array(users, "cell", *keys))
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
    """Inputs of noise schemes: arrays of shape (interval, user), concatenated over realizations."""

    samples: np.ndarray  # K_i
    scheduled: np.ndarray
    start_noise_std: np.ndarray


class Computed(NamedTuple):
    """Noise in the units of (21) and (22), 0 for users who are not scheduled, NaN if infeasible."""

    noise_std: np.ndarray  # sigma_i, (interval, user)
    multiplier: np.ndarray | float = np.nan  # kappa of (38), (interval,)
    feasible: np.ndarray | bool = True  # whether (21) holds with the least noise, (interval,)


def take_start_noise(scenario: Multicell, inputs: Given) -> Computed:
    """Return the noise of the start values."""
    return Computed(np.where(inputs.scheduled, inputs.start_noise_std, 0.0))


def add_none(scenario: Multicell, inputs: Given) -> Computed:
    """Return zero noise."""
    return Computed(np.zeros(inputs.scheduled.shape))


def equalize_epsilon(scenario: Multicell, inputs: Given) -> Computed:
    """Compute noise with the same epsilon for all scheduled users' records if each message is observed by itself."""
    privacy, training = scenario.privacy, scenario.training
    multiplier = composed_multiplier(goal_of(privacy), privacy.delta, training.rounds)
    sensitivity = 2 * training.clip_norm / (inputs.samples if sums_records(training) else 1)
    return Computed(np.where(inputs.scheduled, multiplier * sensitivity, 0.0))


def minimize_noise(scenario: Multicell, inputs: Given) -> Computed:
    """Compute the optimal noise (36)."""
    privacy = scenario.privacy
    return Computed(*optimal_noise(inputs.samples, inputs.scheduled, privacy.max_noise_error, privacy.min_noise))


def reallocate(
    allocated: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> Callable[[Multicell, Given], Computed]:
    """Return the scheme that divides the exposures of (36) among users by a function of `beyond.allocation`."""

    def compute(scenario: Multicell, inputs: Given) -> Computed:
        computed = minimize_noise(scenario, inputs)
        return computed._replace(noise_std=allocated(inputs.samples, computed.noise_std))

    return compute


def goal_of(privacy: Privacy) -> float:
    """Return the target epsilon, which `checks` requires for the noise `target`."""
    assert privacy.target_epsilon is not None
    return privacy.target_epsilon


def to_target(scenario: Multicell, tables: dict[str, pl.DataFrame], noise: pl.DataFrame) -> pl.DataFrame:
    """Scale the table `noise` so that the largest epsilon of a realization's users is `privacy.target_epsilon`.

    First, the noise of each group of users is scaled so that all groups have the same largest mu of a round. Then all
    of a realization's noise is scaled by one factor. Epsilons are computed as in the stages receive and account.
    """
    privacy, training = scenario.privacy, scenario.training
    cell = to_array(tables["users"], "cell", "realization", "user")
    claim = accountant.Claim(privacy.observer)
    # On air, messages of all cells arrive together, so everybody's noise hides each.
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
        if privacy.observer == "user":  # a user spends less if it sends in fewer intervals than planned
            rounds = losses.rounds[:1] * planned(privacy, frame["interval"].n_unique())
            losses = accountant.Losses(losses.mu.max(axis=1, keepdims=True), rounds)
        return mechanism(scenario, frame).worth(losses, claim, privacy.delta)[0].max(axis=1)

    balance = target.balanced(largest_mu, member.shape[:2])
    scale = target.scales(lambda factor: worst(balance * factor[:, None]), goal_of(privacy), len(cell))
    return scaled(balance * scale[:, None])


class Now(NamedTuple):
    """Further inputs of a user-defined noise scheme that has a parameter `now`.

    Arrays have the shape (interval, user), concatenated over realizations.
    """

    gain: np.ndarray  # power gain to each base station, (interval, station, user)
    cell: np.ndarray  # the base station that serves a user
    block: np.ndarray  # resource block; -1: the user does not send
    power_w: np.ndarray
    rate_bps: np.ndarray
    intervals: int  # number in each realization
    rounds: int  # number in each interval
    target_epsilon: float | None  # privacy.target_epsilon, at `delta`
    delta: float
    generators: tuple[np.random.Generator, ...]  # of each realization

    @classmethod
    def build(cls, scenario: Multicell, users: pl.DataFrame, links: pl.DataFrame) -> Self:
        """Build the inputs from schedules, with a row for each realization, interval and user, and from `links`."""
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


def user_noise(scenario: Multicell, scheme: str, inputs: Given, now: Now) -> np.ndarray:
    """Call a user-defined noise scheme; its noise is in the units of (21) and (22), before it is scaled.

    It gets the scenario, K_i, who is scheduled, and the start values' noise, and returns sigma_i. All arrays have shape
    (interval, user), concatenated over realizations; infinite noise: the user sends nothing. A function with
    a parameter `now` also gets `now`.
    Raises UserCodeError for another shape, or if a scheduled user's noise is negative or NaN.
    """
    noise = user_code.call(scheme, scenario, *inputs, reads=scenario.own.reads, now=now)
    noise, scheduled = user_code.array(scheme, noise).astype(float), inputs.scheduled
    if noise.shape != scheduled.shape or not (noise[scheduled] >= 0).all():
        raise user_code.UserCodeError(
            f"{scheme}: must return each scheduled user's standard deviation, at least 0, of shape "
            f"{scheduled.shape}, intervals of realizations by users; returns shape {noise.shape}"
            + (f"; the smallest value is {np.min(noise[scheduled]):g}" if noise.shape == scheduled.shape else "")
        )
    return np.where(scheduled, noise, 0.0)
