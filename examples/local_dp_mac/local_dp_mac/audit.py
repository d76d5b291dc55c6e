"""Stage audit: what the server receives in the worst-off device's slot, of its records."""

from collections.abc import Iterator

import numpy as np
import polars as pl

from local_dp_mac.parameters import LocalDpMac
from local_dp_mac.tables import SERVER
from local_dp_mac.train import parts, trainer
from pwfl import streams
from pwfl.learning import features
from pwfl.privacy import audit
from pwfl.tables.arrays import to_array
from pwfl.tables.reception import Reception
from pwfl.training.audit import Audited, claim_of, trained
from pwfl.training.audit import verdicts as message_verdicts


def verdicts(scenario: LocalDpMac, tables: dict[str, pl.DataFrame]) -> Iterator[audit.Verdict]:
    """Tests of what the server sees of the worst-off device, in the realization whose worst record is worst off."""
    outcome = audit.worst(tables["outcome"])
    realization, epsilon = outcome["realization"], outcome["epsilon"]
    own = {name: tables[name].filter(realization=realization) for name in ("schedule", "noise")}
    slot, receiver = (
        to_array(own[t], c, "round", "user") for t, c in (("schedule", "slot"), ("noise", "receiver_std"))
    )

    def in_slot(device: int, reception: Reception) -> Reception:
        """What is received in a device's slot, with the receiver's noise in it."""
        sharing, devices = slot[0] == slot[0, device], len(slot[0])
        seen = reception.select_users(sharing)
        return seen._replace(noise_std=np.hypot(seen.noise_std, receiver[:, device] / devices))

    claim = claim_of(tables, realization, SERVER, 2 * scenario.training.clip_norm, view=in_slot)
    observer = f"what is received in the slot of device {claim.target} of every round"
    subject = audit.Subject(realization, observer, outcome["delta"], epsilon)
    if not np.isfinite(epsilon):
        yield audit.untested(subject)
        return
    generator = streams.generator(scenario.seed, "audit", realization)
    audited = Audited(parts, scenario, tables, features.size(scenario))
    yield from message_verdicts(audited, subject, claim, generator)
    yield from trained(audited, trainer, subject, generator)
