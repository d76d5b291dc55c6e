"""Stage audit: what the server receives in the worst-off device's slot, of its records."""

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
from pwfl.training.audit import Audited, audit_system, claim_of


def verdicts(scenario: LocalDpMac, tables: dict[str, pl.DataFrame]) -> Iterator[audit.Verdict]:
    """Tests of what the server sees of the worst-off device, in the realization whose worst record is worst off."""
    outcome = audit.worst(tables["outcome"])
    own = {name: tables[name].filter(realization=outcome["realization"]) for name in ("schedule", "noise")}
    slot = to_array(own["schedule"], "slot", "round", "user")[0]
    receiver = to_array(own["noise"], "receiver_std", "round", "user")

    def in_slot(device: int, reception: Reception) -> Reception:
        """What is received in a device's slot, with the receiver's noise in it."""
        seen = reception.select_users(slot == slot[device])
        return seen._replace(noise_std=np.hypot(seen.noise_std, receiver[:, device] / len(slot)))

    claim = claim_of(tables, outcome["realization"], SERVER, 2 * scenario.training.clip_norm, view=in_slot)
    observer = f"what is received in the slot of device {claim.target} of every round"
    subject = audit.Subject(outcome["realization"], observer, outcome["delta"], outcome["epsilon"])
    yield from audit_system(Audited(parts, scenario, tables, features.size(scenario)), trainer, subject, claim)
