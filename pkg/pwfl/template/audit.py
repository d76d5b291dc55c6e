"""Stage audit: the uploads of the device that is worst off."""

from collections.abc import Iterator

import numpy as np
import polars as pl

from pwfl import streams
from pwfl.learning import features
from pwfl.privacy import audit
from pwfl.template.tables import SERVER
from pwfl.template.train import parts
from pwfl.training.audit import Audited, claim_of, upload
from pwfl.training.audit import verdicts as of_message


def verdicts(scenario, tables: dict[str, pl.DataFrame]) -> Iterator[audit.Verdict]:
    """Tests of what the server receives of it, in the realization whose worst record is worst off."""
    outcome = audit.worst(tables["outcome"])
    realization, epsilon = outcome["realization"], outcome["epsilon_exact"]
    claim = claim_of(tables, realization, SERVER, 2 * scenario.training.clip_norm, view=upload)
    subject = audit.Subject(realization, f"device {claim.target}'s upload of every round", outcome["delta"], epsilon)
    if not np.isfinite(epsilon):
        yield audit.untested(subject)
        return
    generator = streams.generator(scenario.seed, "audit", realization)
    yield from of_message(Audited(parts, scenario, tables, features.size(scenario)), subject, claim, generator)
