"""Audit of the system `anonymous_oac`: what the server receives, and by which chance a record is in it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from pwfl import streams
from pwfl.learning import features
from pwfl.privacy import accountant, audit, audited
from pwfl.systems.anonymous_oac.receive import UPLOAD
from pwfl.systems.anonymous_oac.train import learner_of
from pwfl.tables.reception import receptions

if TYPE_CHECKING:
    from pwfl.systems.anonymous_oac.parameters import AnonymousOac

SEEN = {"sum": "sum of all uploads of every round", "upload": "one device's upload of every round"}


def verdicts(scenario: "AnonymousOac", tables: dict[str, pl.DataFrame]) -> Iterator[audit.Verdict]:
    """On the sum of all uploads, or on one device's, without the channel's noise."""
    outcome = audit.worst(tables["outcome"])
    observer = tables["visibility"]["observer"].first()
    realization, nobody = outcome["realization"], observer is None
    epsilon = None if nobody else outcome["epsilon_exact"]
    subject = audit.Subject(realization, SEEN[observer or "sum"], outcome["delta"], epsilon)
    if nobody or np.isinf(epsilon):
        yield audit.untested(subject)
        return
    clip_norm, devices = scenario.training.clip_norm, scenario.network.devices
    found = accountant.losses(tables, observer, 2 * clip_norm)
    row = tables["users"]["realization"].unique().sort().to_list().index(realization)
    target = int(np.argmax((found.mu[row] ** 2).sum(axis=0)))
    reception_of, samples = receptions(tables), np.full(devices, scenario.data.samples)
    chosen = np.arange(devices) == target if observer == UPLOAD else np.ones(devices, bool)
    generator = streams.generator(scenario.seed, "audit", realization)
    yield from audited.verdicts(
        scenario,
        subject,
        lambda data: learner_of(scenario, data),
        features.size(scenario),
        samples,
        reception_of(realization).of_users(chosen),
        np.repeat(found.mu[row, :, target], found.rounds),
        target,
        generator,
    )
    chance, all_of = scenario.network.participation * scenario.data.sampling, tables["users"]["realization"].unique()
    learner = learner_of(scenario, audited.blank(features.size(scenario), 1))
    drawn = [reception_of(realization) for realization in all_of.sort()]
    yield audited.participation(subject, learner, drawn, samples, scenario.seed, chance)
