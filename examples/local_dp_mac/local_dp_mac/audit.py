"""Stage audit: what the server receives in the worst-off device's slot, of its records.

That is the mean gradient of the devices that share the slot: of all over the air, of one alone one after the other.
"""

from collections.abc import Iterator

import numpy as np
import polars as pl

from local_dp_mac.reception import received
from pwfl import streams
from pwfl.learning.descent import Received
from pwfl.privacy import audit
from pwfl.privacy.received import verdicts as of_record


def verdicts(scenario, tables: dict[str, pl.DataFrame]) -> Iterator[audit.Verdict]:
    """Tests of what the server sees of the worst-off device, in the realization whose worst record is worst off."""
    outcome = audit.worst(tables["outcome"])
    realization, epsilon = outcome["realization"], outcome["epsilon_exact"]
    device = tables["leakage"].filter(realization=realization).sort("epsilon", descending=True)["user"][0]
    observer = f"what is received in the slot of device {device} of every round"
    subject = audit.Subject(realization, observer, outcome["delta"], epsilon)
    if not np.isfinite(epsilon):
        yield audit.untested(subject)
        return
    heard = received(tables).filter(realization=realization)
    heard = heard.join(heard.filter(user=device), on=["round", "slot"], how="semi").sort("round", "user")
    sharing = heard.filter(round=heard["round"][0]).select("user")
    records = tables["users"].filter(realization=realization).join(sharing, on="user", how="semi")["samples"].sum()
    noise_std = heard.filter(user=device)["received_std"].to_numpy() / len(sharing)
    slot = Received(np.ones((len(noise_std), records)), noise_std)
    yield from of_record(scenario, subject, slot, 0, streams.generator(scenario.seed, "canaries", realization))
