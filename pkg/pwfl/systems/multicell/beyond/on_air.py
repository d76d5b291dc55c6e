"""Scheduled users' messages over other papers' air interfaces (`pwfl.airs`), and over user-defined ones."""

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from pwfl.airs import air, antennas, broadband, majority, superposed
from pwfl.learning import features
from pwfl.process import user_code
from pwfl.radio.units import dbm_to_w
from pwfl.systems.multicell.beyond.intervals import uniforms
from pwfl.systems.multicell.parameters import Multicell
from pwfl.systems.multicell.sending import Sent
from pwfl.tables.arrays import to_array, to_table
from pwfl.training.models import network, parameter_count


def is_digital(scenario: Multicell) -> bool:
    """Return whether users upload digitally, as in the paper; otherwise all send at once, over an air interface."""
    return scenario.radio.air == "digital"


def received(scenario: Multicell, tables: dict[str, pl.DataFrame], sent: Sent) -> air.Received:
    """Compute what arrives over the air; `tables` has `links`. Raises UserCodeError for an invalid user-defined air."""
    name, transmission = scenario.radio.air, on_air(scenario, tables["links"], sent)
    if user_code.is_reference(name):
        return call_user_air(name, transmission, scenario.own.reads, scenario.privacy.observer)
    return AIRS[name](scenario)(transmission)


AIRS: dict[str, Callable[[Multicell], Callable[[air.Sent], air.Received]]] = {
    "superposed": lambda _: superposed.receive,
    "antennas": lambda scenario: antennas.over(scenario.radio.antennas),
    "majority": lambda _: majority.receive,
    "broadband": lambda scenario: broadband.over(scenario.radio.subchannels, scenario.radio.truncation),
}


def on_air(scenario: Multicell, links: pl.DataFrame, sent: Sent) -> air.Sent:
    """Convert messages to the input of air interfaces, in the band of all of a cell's resource blocks."""
    radio, realizations = scenario.radio, list(sent.keys["realization"])
    band = radio.resource_blocks * radio.bandwidth_hz
    return air.Sent(
        sends=sent.scheduled,
        weight=np.where(sent.scheduled, sent.share / sent.unit, 0.0),
        noise_std=np.where(sent.scheduled, sent.unit * sent.noise_std, 0.0),
        norm=np.where(sent.scheduled, scenario.training.clip_norm * sent.records, 0.0),
        gain=to_array(links, "gain", "realization", "interval", "station", "user"),
        cell=sent.cell[:, 0],
        dimension=parameter_count(network(scenario.training, features.size(scenario))),
        max_power_w=dbm_to_w(radio.max_power_dbm),
        bandwidth_hz=band,
        noise_w=dbm_to_w(radio.noise_density_dbm_hz) * band,
        uniforms=lambda purpose, shape: uniforms(scenario.seed, f"air/{purpose}", realizations, shape),
    )


def costs(sent: Sent, received: air.Received) -> pl.DataFrame:
    """Make the table of symbols, seconds and joules of a round of each interval, as `costs.interval_costs`."""
    return to_table(sent.keys, symbols=received.symbols, seconds=received.seconds, joules=received.joules)


def find_audited_observer(scenario: Multicell) -> tuple[str, bool]:
    """Find the observer that the audit tests, and whether the scenario declares another one."""
    declared = scenario.privacy.observer
    audited = declared if is_digital(scenario) or declared == "user" else "network"  # the update shows the signals
    if scenario.radio.air == "majority":  # an observer of votes or signs is assumed to see messages
        audited = "user"
    return audited, audited != declared


def call_user_air(name: str, sent: air.Sent, reads: Sequence[str], observer: str) -> air.Received:
    """Call a user-defined air. Raises UserCodeError if it returns no valid `Received` with the observer."""
    received = user_code.call(name, sent, reads=reads)
    if wrong := air.problem(sent, received):
        raise user_code.UserCodeError(f"{name}: {wrong}")
    if observer not in received.seen:
        raise user_code.UserCodeError(
            f"{name}: `seen` lacks {observer!r}, which is privacy.observer; declare it in `seen` and `observed_by`, or "
            f"use {', '.join(f'`{name_}`' for name_ in received.seen)}"
        )
    return received
