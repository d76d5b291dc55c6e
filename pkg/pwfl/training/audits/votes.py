"""Votes of signs: all that is released is decided by messages that have their senders' noise in them.

The other tests are of the sum of these messages, which the server's training gives where nothing is decided.
"""

import numpy as np

from pwfl.privacy import audit
from pwfl.training import trainings


def not_decided(used: trainings.Training) -> trainings.Training:
    """The same training, but the server adds up what it hears."""
    return used._replace(loop=used.loop._replace(decided=None))


def decided(used: trainings.Training, subject: audit.Subject, start: trainings.Start) -> audit.Verdict:
    """Whether a vote of one user alone is the sign of its noisy message; `start` is what is received of this one."""
    vote, noisy = (
        np.concatenate([part.ravel() for part in training.tap([start], True)[0]])
        for training in (used, not_decided(used))
    )
    other = float((vote != np.sign(noisy)).mean())
    fault = "{percent} of a vote"
    return audit.within(subject, "vote of noisy messages", vote.size, 0.0, other, 0.0, 0.0, 1 / vote.size, fault)
