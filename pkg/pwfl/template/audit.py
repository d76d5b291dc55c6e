"""Stage audit: the uploads of the device that is worst off."""

from collections.abc import Iterator

import numpy as np
import polars as pl

from pwfl import streams
from pwfl.learning.descent import Received
from pwfl.privacy import audit, received
from pwfl.tables.arrays import to_array


def verdicts(scenario, tables: dict[str, pl.DataFrame]) -> Iterator[audit.Verdict]:
    """Tests of what the server receives of it, in the realization whose worst record is worst off."""
    outcome = audit.worst(tables["outcome"])
    own = {name: frame.filter(realization=outcome["realization"]) for name, frame in tables.items()}
    user = own["leakage"].sort("epsilon", "user", descending=[True, False])["user"][0]
    subject = audit.Subject(
        outcome["realization"], f"device {user}'s upload of every round", outcome["delta"], outcome["epsilon_exact"]
    )
    if not np.isfinite(subject.epsilon):
        yield audit.untested(subject)
        return
    of_user = {name: own[name].filter(user=user) for name in ("users", "schedule", "noise")}
    sends = to_array(of_user["schedule"], "sends", "round").astype(float)
    counts = np.tile(sends[:, None], of_user["users"]["samples"].item())
    uploads = Received(counts, np.full(len(sends), of_user["noise"]["noise_std"].item()))
    generator = streams.generator(scenario.seed, "canaries", outcome["realization"])
    yield from received.verdicts(scenario, subject, uploads, 0, generator)
