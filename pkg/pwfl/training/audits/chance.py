"""Audit of sampling: the probability with which records, and users, are in a round's messages."""

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
    """Test whether records are in a round's messages with the claimed probability.

    The number of rounds with each user's first record must be binomial.

    Parameters
    ----------
    audited, subject
        As in `audit.audit_system`.
    chance
        The claimed probability.
    more
        Additional draws: one array each, the number of sampled records of each user's message, shape (round, user).
    senders_only
        Whether only users who send in some round are counted.
    with_study
        Whether the study's own realizations are counted; if not, only `more`.
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
    """Test whether users send with the claimed probability `chance`, independently in each round.

    `records`, shape (draw, round, user), has the number of sampled records of each user's message; a user sends if it
    is positive. The number of rounds in which a user sends must be binomial.
    """
    law = partial(stats.binom.cdf, n=records.shape[1], p=chance)
    return audit.distribution(subject, "rounds that a user is in", (records > 0).sum(axis=1), law, 0.5)


def _rounds_with_first(varying, user_records: list[np.ndarray]) -> np.ndarray:
    """Count the rounds with each user's first record, shape (user,).

    `varying` is the learner's `gradients.Rows`; None: the realization is not trained.
    """
    if varying is None:
        return np.zeros(len(user_records), int)
    taken = np.concatenate([rows[:many] for rows, many in zip(varying.rows, varying.sizes, strict=True)])
    return np.bincount(taken, minlength=user_records[-1][-1] + 1)[[mine[0] for mine in user_records]]
