"""Audit of the system `random_orthogonalization`: the server's update of every round, channels known.

What all antennas see is not simulated, so not tested.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from pwfl import streams
from pwfl.learning import features
from pwfl.privacy import accountant, audit, audited
from pwfl.systems.random_orthogonalization.receive import UPDATE
from pwfl.systems.random_orthogonalization.train import learner_of
from pwfl.tables.reception import receptions

if TYPE_CHECKING:
    from pwfl.systems.random_orthogonalization.parameters import RandomOrthogonalization


def verdicts(scenario: "RandomOrthogonalization", tables: dict[str, pl.DataFrame]) -> Iterator[audit.Verdict]:
    """On the server's update of every round, held to the worst user's exact epsilon."""
    outcome = audit.worst(tables["outcome"])
    realization, observer = outcome["realization"], "server's update of every round, channels known"
    subject = audit.Subject(realization, observer, outcome["delta"], outcome["epsilon_exact"])
    reception = receptions(tables)(realization)
    if not (reception.noise_std > 0).all():
        yield audit.untested(subject)
        return
    found = accountant.losses(tables, UPDATE, 2 * scenario.training.clip_norm)
    row = tables["users"]["realization"].unique().sort().to_list().index(realization)
    target = int(np.argmax((found.mu[row] ** 2).sum(axis=0)))
    yield from audited.verdicts(
        scenario,
        subject,
        lambda data: learner_of(scenario, data),
        features.size(scenario),
        tables["users"].filter(realization=realization)["samples"].to_numpy(),
        reception,
        np.repeat(found.mu[row, :, target], found.rounds),
        target,
        streams.generator(scenario.seed, "audit", realization),
    )
