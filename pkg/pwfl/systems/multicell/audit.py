"""Audit of the system `multicell`: what its observer sees of the worst-off user, of which colluders have taken noise."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from pwfl import streams
from pwfl.learning import features
from pwfl.privacy import accountant, audit, audited
from pwfl.systems.multicell.beyond import sums
from pwfl.systems.multicell.train import learner_of
from pwfl.tables.reception import receptions

if TYPE_CHECKING:
    from pwfl.systems.multicell.parameters import Multicell


def verdicts(scenario: "Multicell", tables: dict[str, pl.DataFrame]) -> Iterator[audit.Verdict]:
    """On the upload, or its group's sum, of the user that leaks most."""
    privacy, outcome = scenario.privacy, audit.worst(tables["outcome"])
    realization, observer, epsilon = outcome["realization"], privacy.observer, outcome["epsilon_exact"]
    subject = audit.Subject(realization, observer, outcome["delta"], epsilon)
    if epsilon is None or np.isinf(epsilon):
        yield audit.untested(subject)
        return
    found = accountant.losses(tables, observer, 2 * scenario.training.clip_norm, guaranteed=True)
    row = tables["users"]["realization"].unique().sort().to_list().index(realization)
    target = int(np.argmax((np.nan_to_num(found.mu[row]) ** 2).sum(axis=0)))
    users, reception = tables["users"].filter(realization=realization).sort("user"), receptions(tables)(realization)
    group = sums.groups(observer, users["cell"].to_numpy())
    seen = reception.of_users(group == group[target])
    yield from audited.verdicts(
        scenario,
        subject,
        lambda data: learner_of(scenario, data),
        features.size(scenario),
        users["samples"].to_numpy(),
        seen if observer == "user" else without(privacy, seen, target),
        np.repeat(found.mu[row, :, target], found.rounds),
        target,
        streams.generator(scenario.seed, "audit", realization),
        exact=not privacy.dropouts,
    )


def without(privacy, reception, target: int):
    """A reception without the noise of colluders: those of most noise, but for the target."""
    noise = reception.user_noise_std.copy()
    for own, sends in zip(noise, reception.sends, strict=True):
        senders = int(sends.sum())
        # Counted anew: what noise and accounts count by is tested, too.
        gone = int(min(np.ceil(privacy.colluders * senders - 1e-9), max(senders - 1, 0)))
        order = np.argsort(np.where(np.arange(len(own)) == target, -1.0, own))[::-1]
        own[order[:gone]] = 0.0
    return reception._replace(user_noise_std=noise, noise_std=np.sqrt((noise**2).sum(axis=1)))
