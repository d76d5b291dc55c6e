"""By which chance records, and users, are in messages."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from scipy import stats

from pwfl.privacy import audit
from pwfl.training.audits.audited import Audited, blank


def participation(
    audited: Audited,
    subject: audit.Subject,
    chance: float,
    more: Sequence[np.ndarray] | np.ndarray = (),
    senders_only: bool = False,
    with_study: bool = True,
) -> audit.Verdict:
    """Whether records are in messages by chance as claimed: the numbers of rounds that each user's first is in.

    With `senders_only`, of each user who sends, in all rounds or none.
    `more` says of further runs how many records users' messages are of, each of shape (round, user); they
    count alone without `with_study`.
    """
    used, counts = audited.training(blank(audited.size, audited.records)), []
    for realization in audited.tables["users"]["realization"].unique().sort():
        start = used.begin(realization)
        observed = start.reception.sends.any(axis=0) | (not senders_only)
        counts.append(_rounds_with_first(start.varying, start.user_records)[observed & with_study])
    for run, records in enumerate(more, start=len(counts)):
        sends = records > 0
        reception = start.reception._replace(sends=sends, weight=sends.astype(float), records=records)
        _, varying = used.parts.learner.inputs(reception, start.user_records, audited.scenario.seed, run)
        counts.append(_rounds_with_first(varying, start.user_records))
    law = partial(stats.binom.cdf, n=used.loop.length * used.loop.intervals, p=chance)
    return audit.distribution(subject, "rounds that a record is in", np.concatenate(counts), law, 0.5)


def senders(subject: audit.Subject, records: np.ndarray, chance: float) -> audit.Verdict:
    """Whether users send records by a chance as claimed, each round by itself: the numbers of rounds in which they do.

    `records` says of runs how many records users' messages are of, shape (run, round, user).
    """
    law = partial(stats.binom.cdf, n=records.shape[1], p=chance)
    return audit.distribution(subject, "rounds that a user is in", (records > 0).sum(axis=1), law, 0.5)


def _rounds_with_first(varying, user_records: list[np.ndarray]) -> np.ndarray:
    """In how many rounds each user's first record is, of rounds `at`; None: no training."""
    if varying is None:
        return np.zeros(len(user_records), int)
    taken = np.concatenate([rows[:many] for rows, many in zip(varying.rows, varying.sizes, strict=True)])
    return np.bincount(taken, minlength=user_records[-1][-1] + 1)[[mine[0] for mine in user_records]]
