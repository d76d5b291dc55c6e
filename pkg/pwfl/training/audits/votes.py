"""Audit of majority votes: the vote must be computed from messages that include their senders' noise.

The other tests are of the weighted sum of the noisy messages, which the training returns without `Loop.decided`.
"""

import numpy as np

from pwfl.privacy import audit
from pwfl.training import trainings


def not_decided(used: trainings.Training) -> trainings.Training:
    """Return the same training, with a server that adds up messages instead of deciding by a vote."""
    return used._replace(loop=used.loop._replace(decided=None))


def decided(used: trainings.Training, subject: audit.Subject, start: trainings.Start) -> audit.Verdict:
    """Test whether the vote of one user alone is the sign of its noisy message; `start` has no other sender."""
    vote, noisy = (
        np.concatenate([part.ravel() for part in training.tap([start], True)[0]])
        for training in (used, not_decided(used))
    )
    other = float((vote != np.sign(noisy)).mean())
    fault = "{percent} of a vote"
    return audit.within(subject, "vote of noisy messages", vote.size, 0.0, other, 0.0, 0.0, 1 / vote.size, fault)
