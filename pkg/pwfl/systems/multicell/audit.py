"""Audit of the system `multicell`: its observer's view of the most exposed user, without the colluders' noise."""

from collections.abc import Iterator

import numpy as np
import polars as pl

from pwfl.learning import features
from pwfl.privacy import accountant, audit, sampled
from pwfl.privacy.accountant import RECORD
from pwfl.systems.multicell.beyond import batches, sums
from pwfl.systems.multicell.beyond.on_air import find_audited_observer, is_digital
from pwfl.systems.multicell.parameters import Multicell, Privacy
from pwfl.systems.multicell.sending import ENFORCED
from pwfl.systems.multicell.train import parts, trainer
from pwfl.tables.arrays import size_of
from pwfl.tables.reception import Reception
from pwfl.training.audit import Audited, audit_system, claim_of, participation, select_deliveries, upload


def verdicts(scenario: Multicell, tables: dict[str, pl.DataFrame]) -> Iterator[audit.Verdict]:
    """Yield verdicts on the upload of the user that leaks most, or on the sum of its group.

    With `per_user` clipping, a record can reverse its user's whole gradient, so the epsilon of that worst case is
    tested.
    """
    privacy, on_air = scenario.privacy, not is_digital(scenario)
    audited_observer, instead = find_audited_observer(scenario)
    outcome, stated = tables["outcome"], "epsilon_worst_case" if scenario.training.clipping == "per_user" else "epsilon"
    if instead:
        unit = RECORD if stated == "epsilon" else ENFORCED
        outcome, stated = audit.against(tables, audited_observer, unit), "epsilon"
    outcome = audit.worst(outcome, stated)
    realization, delta, epsilon = outcome["realization"], outcome["delta"], outcome[stated]
    if epsilon is None:
        yield audit.untested(audit.Subject(realization, "nobody sends", delta, None))
        return
    if np.isinf(epsilon):
        yield audit.untested(audit.Subject(realization, "every upload", delta, epsilon))
        return
    if select_deliveries(tables, realization).is_empty():  # no record was sampled, or all users dropped out
        yield audit.untested(audit.Subject(realization, "nobody's record is received", delta, None))
        return
    cell = tables["users"].filter(realization=realization).sort("user")["cell"].to_numpy()
    group = sums.groups(privacy.observer, cell)
    planned = senders(tables, realization)

    def view(target: int, reception: Reception) -> Reception:
        if on_air and audited_observer == "network":
            return reception.select_users(np.ones(len(cell), bool))
        if on_air or audited_observer == "user":
            return upload(target, reception)
        return observed(privacy, reception, target, group == group[target], planned)

    claim = claim_of(tables, realization, audited_observer, 2 * scenario.training.clip_norm, True, view)
    target, claim = claim.target, claim._replace(exact=not privacy.dropouts)
    if rate := scenario.data.sampling:
        # Records that attain the proved epsilon may not exist, so that of opposite records is tested.
        losses = accountant.Losses(claim.mu.max(keepdims=True)[None, None], np.array([len(claim.mu)]))
        opposite = batches.PoissonBatches(rate).record_batches._replace(method="opposite", interval=sampled.INTERVAL)
        claim = claim._replace(epsilon=float(opposite.epsilons(losses, delta).max()))
    audited = Audited(parts, scenario, tables, features.size(scenario), receiver=on_air, few=True)
    whose = {
        "user": f"user {target}'s {'noisy message' if on_air else 'upload'} of every round",
        "cell": f"sum of cell {cell[target]} of every round, user {target}'s records; the coalition's noise taken off",
        "network": f"sum of the network of every round, user {target}'s records; the coalition's noise taken off",
    }
    if on_air:
        whose["network"] = f"update of every round, user {target}'s records"
    if instead and audited_observer == "network":
        whose["network"] += "; not tested: all else that stations receive"
    subject = audit.Subject(realization, whose[audited_observer], delta, epsilon)
    yield from audit_system(audited, trainer, subject, claim)
    if rate := scenario.data.sampling:
        yield participation(audited, subject, rate, senders_only=True)


def senders(tables: dict[str, pl.DataFrame], realization: int) -> np.ndarray:
    """Return who is scheduled to send according to `visibility`, boolean, shape (interval, user)."""
    rows = tables["visibility"].filter(realization=realization, observer="user")
    sends = np.zeros((size_of(rows, "interval"), tables["users"]["user"].n_unique()), bool)
    sends[rows["interval"].to_numpy(), rows["user"].to_numpy()] = True
    return sends


def observed(
    privacy: Privacy, reception: Reception, target: int, records: np.ndarray, senders: np.ndarray
) -> Reception:
    """Select the observer's view of the target's group, without the noise of colluders, the users with most noise.

    Users who are missing from a round add none. `records` is whether a user is in the group, (user,); `senders` is
    whether it is scheduled to send in each interval, dropouts apart.
    """
    seen = reception.select_users(records)
    rounds = -(-len(reception.sends) // len(senders))
    planned = np.repeat((senders & records).sum(axis=1), rounds)[: len(reception.sends)]
    noise = seen.without(target, privacy.colluders, planned)
    return seen._replace(user_noise_std=noise, noise_std=np.sqrt((noise**2).sum(axis=1)))
