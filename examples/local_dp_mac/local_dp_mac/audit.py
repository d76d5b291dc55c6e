"""Stage audit: tests of what the server receives in the slot of the most exposed device."""

from collections.abc import Iterator

import numpy as np
import polars as pl

from local_dp_mac.parameters import LocalDpMac
from local_dp_mac.tables import SERVER
from local_dp_mac.train import parts, trainer
from pwfl.learning import features
from pwfl.privacy import audit
from pwfl.tables.arrays import to_array
from pwfl.tables.reception import Reception
from pwfl.training.audit import Audited, audit_worst


def verdicts(scenario: LocalDpMac, tables: dict[str, pl.DataFrame]) -> Iterator[audit.Verdict]:
    """Return verdicts on the most exposed device's slot, in the realization with the most exposed record."""
    audited = Audited(parts, scenario, tables, features.size(scenario))
    return audit_worst(audited, trainer, SERVER, "what is received in the slot of device {} of every round", in_slot)


def in_slot(tables: dict[str, pl.DataFrame], device: int, reception: Reception) -> Reception:
    """Return the part of a reception that is in a device's slot, with the slot's receiver noise."""
    slot = to_array(tables["schedule"], "slot", "round", "user")[0]
    receiver = to_array(tables["noise"], "receiver_std", "round", "user")[:, device]
    seen = reception.select_users(slot == slot[device])
    return seen._replace(noise_std=np.hypot(seen.noise_std, receiver / len(slot)))
