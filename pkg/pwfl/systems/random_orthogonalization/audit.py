"""Audit of the system `random_orthogonalization`: the server's update of every round, or one user's uploads.

Channels are known. Signals of all antennas are not simulated. If the scenario's observer receives them, the update, a
function of these signals, is tested against the update's epsilon.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
import polars as pl

from pwfl.learning import features
from pwfl.privacy import audit
from pwfl.privacy.accountant import ALL
from pwfl.systems.random_orthogonalization.parameters import Privacy, RandomOrthogonalization
from pwfl.systems.random_orthogonalization.tables import ANTENNAS, UPDATE, USER
from pwfl.systems.random_orthogonalization.train import parts, trainer
from pwfl.tables.reception import Reception
from pwfl.training.audit import Audited, Claim, audit_system, claim_of, upload

SEEN = "server's update of every round, channels known"


def verdicts(scenario: RandomOrthogonalization, tables: dict[str, pl.DataFrame]) -> Iterator[audit.Verdict]:
    """Yield verdicts on the most exposed user and the scenario's observer; for all antennas, on the update."""
    privacy, shown_more = scenario.privacy, scenario.privacy.observer == ANTENNAS
    outcome = audit.worst(audit.against(tables, UPDATE, noise=ALL) if shown_more else tables["outcome"])
    claim = claim_by(privacy, tables, outcome["realization"], 2 * scenario.training.clip_norm)
    seen = SEEN + "; the loudest colluders' noise taken off" * (privacy.colluders > 0)
    if shown_more:
        seen += "; not tested: all else that its antennas show"
    if privacy.observer == USER:
        seen = f"user {claim.target}'s noisy update of every round"
    subject = audit.Subject(outcome["realization"], seen, outcome["delta"], outcome["epsilon"])
    audited = Audited(parts, scenario, tables, features.size(scenario), few=True)
    yield from audit_system(audited, trainer, subject, claim)


def claim_by(privacy: Privacy, tables: dict[str, pl.DataFrame], realization: int, sensitivity: float) -> Claim:
    """Make the claim on a realization's most exposed user; on the update, exact unless dropouts are planned for."""
    if privacy.observer == USER:
        return claim_of(tables, realization, ANTENNAS, sensitivity, True, upload)
    view = partial(observed, privacy.colluders) if privacy.colluders else None
    claim = claim_of(tables, realization, UPDATE, sensitivity, view=view)
    return claim._replace(exact=not privacy.dropouts)


def observed(colluders: float, target: int, reception: Reception) -> Reception:
    """Remove the assumed number of colluders' noise from the server's reception: the loudest other active users."""
    rounds, users = reception.sends.shape
    left = reception.without(target, colluders, np.full(rounds, users))
    off = (reception.user_noise_std**2).sum(axis=1) - (left**2).sum(axis=1)
    noise_std = np.sqrt(np.maximum(reception.noise_std**2 - off, (left**2).sum(axis=1)))
    return reception._replace(user_noise_std=left, noise_std=noise_std)
