"""Audit of the system `random_orthogonalization`: the server's update of every round, channels known.

What all antennas see is not simulated, so not tested.
"""

from collections.abc import Iterator

import numpy as np
import polars as pl

from pwfl import streams
from pwfl.learning import features
from pwfl.privacy import audit
from pwfl.systems.random_orthogonalization.parameters import RandomOrthogonalization
from pwfl.systems.random_orthogonalization.tables import UPDATE
from pwfl.systems.random_orthogonalization.train import parts
from pwfl.training.audit import Audited, claim_of
from pwfl.training.audit import verdicts as of_message


def verdicts(scenario: RandomOrthogonalization, tables: dict[str, pl.DataFrame]) -> Iterator[audit.Verdict]:
    """On the server's update of every round, held to the worst user's exact epsilon."""
    outcome = audit.worst(tables["outcome"])
    realization = outcome["realization"]
    seen = "server's update of every round, channels known"
    subject = audit.Subject(realization, seen, outcome["delta"], outcome["epsilon_exact"])
    if np.isinf(outcome["epsilon_exact"]):
        yield audit.untested(subject)
        return
    claim = claim_of(tables, realization, UPDATE, 2 * scenario.training.clip_norm)
    generator = streams.generator(scenario.seed, "audit", realization)
    yield from of_message(Audited(parts, scenario, tables, features.size(scenario)), subject, claim, generator)
