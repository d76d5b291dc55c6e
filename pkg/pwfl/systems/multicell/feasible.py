"""Checks whether a scenario's users can satisfy constraints (21) and (22), with the random numbers of its jobs."""

import json
from functools import lru_cache
from typing import TYPE_CHECKING

from pwfl.learning.datasets import DataError
from pwfl.scenario.chunks import extent_of
from pwfl.scenario.messages import first
from pwfl.scenario.values import build_values, value_of
from pwfl.systems.multicell import hexagons, start_values
from pwfl.systems.multicell.bounds import alternatives
from pwfl.systems.multicell.schemes import LIMITED

if TYPE_CHECKING:
    import polars as pl

    from pwfl.systems.multicell.parameters import Multicell

MOST_REALIZATIONS = 100  # largest number that is drawn
MOST_NUMBERS = 2 * 10**6  # largest number that is drawn or computed, which takes some ten milliseconds


def problems(scenario: "Multicell", users: "pl.DataFrame | None" = None, stations: int | None = None) -> list[str]:
    """List what stops the scenario's channel or schedules, or leaves schedules empty, as lines `key: problem`.

    `users` and the number of `stations` are those of imported channels; None: channels are drawn. Samples and start
    values are drawn as in the jobs of channel and schedule, so a line describes what would happen there. If one
    realization of a network needs more than MOST_NUMBERS, nothing is drawn and nothing is listed.
    """
    values = _parameters(scenario)
    if stations is None:
        stations = hexagons.cells(scenario.network.rings)
    computed = extent_of(scenario, "channel").stop
    if users is not None:
        computed = min(computed, users["realization"].n_unique())
    numbers = stations * (scenario.network.users + scenario.radio.resource_blocks)
    realizations = range(min(computed, MOST_REALIZATIONS, MOST_NUMBERS // numbers))
    if not realizations:
        return []
    if users is None:
        line, most = _check_drawn_users(json.dumps(values), realizations, stations)
    else:
        line, most = _check_users(
            build_values(values), realizations, users.filter(users["realization"] < realizations.stop), stations
        )
    if line:
        return [line + (required_by(scenario, "bounded") if "(21)" in line else "")]
    return _unscheduled(scenario, most) if scenario.meets("least_noise") and not values["bounded"] else []


def required_by(scenario: "Multicell", condition: str) -> str:
    """Return the end of a line on (21) or (22): schemes that require it, and a remedy if their noise does not."""
    needs = scenario.conditions[condition]
    schemes = [scheme for scheme in scenario.schemes if needs.met([scheme])]
    limited = [scheme for scheme in schemes if scheme.noise in LIMITED]
    why = [f"noise: {scheme.noise}" if scheme in limited else f"scheduler: {scheme.scheduler}" for scheme in schemes]
    names = [f"{scheme.name!r} (`{key}`)" for scheme, key in zip(schemes, why, strict=True)]
    note = f". Required by {'scheme' if len(names) == 1 else 'schemes'} {first(names, 'scheme')}"
    if limited:
        return note
    others = "`scheduler: joint_snr` or `random`" if condition == "bounded" else "`scheduler: random`"
    return f"{note}, not for the noise: {others} works without"


def _parameters(scenario: "Multicell") -> dict:
    """Return the parameters from which the scenario's channel and start values are drawn."""
    values, schedule = scenario.dump_for("channel"), scenario.dump_for("schedule")
    for key in start_values.READS:
        section, _, name = key.rpartition(".")
        if (value := value_of(schedule, key)) is not None:
            (values.setdefault(section, {}) if section else values)[name] = value
    return values


@lru_cache(maxsize=100)  # sweep points that differ only in other parameters share an entry
def _check_drawn_users(values: str, realizations: range, stations: int) -> tuple[str, int]:
    """Apply `_check_users` to the users that a channel draws; `values` are `_parameters` as JSON."""
    from pwfl.systems.multicell import channel  # imports SciPy, which reading a scenario does not need

    parameters = build_values(json.loads(values))
    users, _ = channel.located(parameters, realizations)
    return _check_users(parameters, realizations, users, stations)


def _check_users(values: "Multicell", realizations: range, users: "pl.DataFrame", stations: int) -> tuple[str, int]:
    """Return a line on what stops the channel or schedules, or "", and the largest number of samples of a user."""
    from pwfl.systems.multicell import channel

    try:
        cell, samples = channel.cells_and_samples(values, realizations, users)
        if values.bounded:
            start_values.drawn(values, realizations, cell, samples, stations)
    except DataError as error:
        return f"data.samples_log_mean: {error}", 0
    except start_values.StartValueError as error:
        return f"privacy.max_noise_error: {error}", 0
    return "", int(samples.max())


def _unscheduled(scenario: "Multicell", most: int) -> list[str]:
    """Return a line if users of at most `most` samples are never scheduled: even their least noise violates (21)."""
    privacy = scenario.privacy
    if (error := (privacy.min_noise / most) ** 2) <= privacy.max_noise_error:
        return []
    return [
        f"privacy.min_noise: {privacy.min_noise:g} is so large that the schedulers `joint_noise` and `joint_snr` can "
        "schedule no user: the smallest noise error, (21) of the paper (docs/explanation/multicell.md), that of a user "
        f"with {most} samples, is {error:.3g}, above privacy.max_noise_error: {privacy.max_noise_error:g}; set "
        f"{alternatives(privacy, error)}, or give users more samples{required_by(scenario, 'least_noise')}"
    ]
