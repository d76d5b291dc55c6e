"""Stage audit: tests of what the server receives in the slot of the most exposed device."""

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
from pwfl.training.audit import Audited, audit_worst


def verdicts(scenario: PrivacyForFree, tables: dict[str, pl.DataFrame]) -> Iterator[audit.Verdict]:
    """Return verdicts on the most exposed device's slot, in the realization with the most exposed record."""
    users = tables["users"]
    records = int(users["samples"].sum()) // users["realization"].n_unique()  # the same number in all realizations
    size = Size(records, 1, (scenario.task.dimension + 1,), CLASSES)
    audited = Audited(parts, dealt(scenario), tables, size, receiver=True)
    seen = "the server: output of its receiver in the slot of device {} of every round"
    return audit_worst(audited, _with_objective, SERVER, seen, in_slot)


def in_slot(tables: dict[str, pl.DataFrame], device: int, reception: Reception) -> Reception:
    """Return the part of the update that is received in a device's slot, with the slot's noise."""
    slot = to_array(tables["schedule"], "slot", "round", "user")[0]
    std = to_array(tables["noise"], "receiver_noise_std", "round", "user")
    _, first = np.unique(slot, return_index=True)
    share = std[:, device] / np.sqrt((std[:, first] ** 2).sum(axis=1))  # the slot's noise over the update's
    seen = reception.select_users(slot == slot[device])
    return seen._replace(noise_std=reception.noise_std * share)


def _with_objective(scenario: PrivacyForFree, data, tables: dict[str, pl.DataFrame]):
    """Build the system's trainer with the objective in the column `loss`, which the audit reads."""
    train = trainer(scenario, data, tables)
    return lambda realization: train(realization).with_columns(loss="ridge_objective")
