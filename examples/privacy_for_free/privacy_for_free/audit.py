"""Stage audit: what the server receives in the slot of the most exposed device, of its records."""

from collections.abc import Iterator

import numpy as np
import polars as pl

from privacy_for_free.learner import CLASSES
from privacy_for_free.parameters import PrivacyForFree
from privacy_for_free.tables import SERVER
from privacy_for_free.train import dealt, parts, trainer
from pwfl.learning.datasets import Size
from pwfl.privacy import audit
from pwfl.tables.arrays import to_array
from pwfl.tables.reception import Reception
from pwfl.training.audit import Audited, audit_system, claim_of


def verdicts(scenario: PrivacyForFree, tables: dict[str, pl.DataFrame]) -> Iterator[audit.Verdict]:
    """Tests of what the server sees of the most exposed device, in the realization with the most exposed record."""
    outcome = audit.worst(tables["outcome"])
    realization, epsilon = outcome["realization"], outcome["epsilon"]
    own = {name: tables[name].filter(realization=realization) for name in ("schedule", "noise", "users")}
    slot, std = (
        to_array(own[t], c, "round", "user") for t, c in (("schedule", "slot"), ("noise", "receiver_noise_std"))
    )
    _, first = np.unique(slot[0], return_index=True)
    share = std / np.sqrt((std[:, first] ** 2).sum(axis=1, keepdims=True))  # of a slot, of the update's noise

    def in_slot(device: int, reception: Reception) -> Reception:
        """The part of the update that is received in a device's slot."""
        seen = reception.select_users(slot[0] == slot[0, device])
        return seen._replace(noise_std=reception.noise_std * share[:, device])

    claim = claim_of(tables, realization, SERVER, 2 * scenario.training.clip_norm, view=in_slot)
    observer = f"the server: output of its receiver in the slot of device {claim.target} of every round"
    subject = audit.Subject(realization, observer, outcome["delta"], epsilon)
    size = Size(int(own["users"]["samples"].sum()), 1, (scenario.task.dimension + 1,), CLASSES)
    audited = Audited(parts, dealt(scenario), tables, size, receiver=True)
    yield from audit_system(audited, _with_objective, subject, claim)


def _with_objective(scenario: PrivacyForFree, data, tables: dict[str, pl.DataFrame]):
    """The system's trainer, with the objective in the column in which the audit looks for a loss."""
    train = trainer(scenario, data, tables)
    return lambda realization: train(realization).with_columns(loss="ridge_objective")
