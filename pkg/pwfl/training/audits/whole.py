"""Audit of the whole update, of all users: its noise, and how far records move it."""

from collections.abc import Iterator

import numpy as np

from pwfl.privacy import audit
from pwfl.training import trainings
from pwfl.training.audits.audited import Audited
from pwfl.training.audits.received import chosen, lengths, looked_at, receive_neighbours, scaled_silence

ALL_RECORDS, ONE_RECORD = "records of all users", "a record in all messages"  # tests of the whole update


def whole_update(
    audited: Audited, subject: audit.Subject, used: trainings.Training, target: int, generator: np.random.Generator
) -> Iterator[audit.Verdict]:
    """Test the noise of the server's update, and how far one user's and all users' records move it.

    Replacing all records must move it by at most sensitivity |sum_k weight[k] n[k]|, with n[k] records in message k if
    messages are sums of gradients, and else 1; replacing a record of the target, by sensitivity |weight[target]|. No
    record may be sampled more than once in a round.
    """
    learner, start = used.parts.learner, used.begin(subject.realization)
    reception, sensitivity = start.reception, learner.sensitivity
    if (reception.noise_std > 0).any():
        scaled = scaled_silence(used, start, places=chosen(learner.silent(), generator))
        yield audit.variance(subject, "deviation of all noise", scaled)
    case = next(learner.opposed(generator, audited.records))
    weight = np.repeat(reception.weight * reception.sends, reception.rounds, axis=0)
    place = learner.place(start, target, int(np.argmax(weight[:, target] != 0)))
    number, own_records = np.ones(weight.shape), np.abs(weight[:, target])
    if reception.records is not None:
        round_rows = [rows[:size] for rows, size in zip(start.varying.rows, start.varying.sizes, strict=True)]
        own_records *= [place in rows for rows in round_rows]
        number = np.repeat(reception.records, reception.rounds, axis=0)
        taken = max(np.bincount(rows).max(initial=0) for rows in round_rows)
        test, fault = "times of a record in a round", "{number} more time"
        yield audit.within(subject, test, number.size, 1.0, float(taken), 1.0, 1.0, 1.0, fault)
    elif learner.message == "sum of gradients":
        number = number * [len(mine) for mine in start.user_records]
    rounds, everyone = looked_at(start), (slice(None), np.abs((weight * number).sum(axis=1)))
    for test, (places, every) in (ALL_RECORDS, everyone), (ONE_RECORD, (place, own_records)):
        pair, total = receive_neighbours(audited, used, case, places, [start], rounds), every[:rounds]
        large = total > 0.5 * total.max()  # of users whose weights have opposite signs, little may be left
        moved = lengths([first - second for first, second in zip(*pair, strict=True)])
        share = moved[large] / (sensitivity * total[large])
        low = audit.REACHED if learner.reached else 0.0
        most, high = float(share.max()), 1 + audit.ROUNDING
        yield audit.within(subject, test, share.size, 1.0, most, low, high, audit.ROUNDING, "moves {percent} too far")
