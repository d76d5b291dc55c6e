"""Audit of coordinate bands, in which users are received with different weights: noise and signal of each band.

The other tests treat all bands as the one in which the target's message is most visible, since a record is most exposed
if it moves this band's coordinates alone. Here it is tested that each band has its own weights and noise.
"""

from collections.abc import Iterator

import numpy as np

from pwfl.privacy import audit
from pwfl.tables.reception import Reception
from pwfl.training import trainings
from pwfl.training.audits.audited import Audited
from pwfl.training.audits.claims import Claim, View
from pwfl.training.audits.received import receive_neighbours, received
from pwfl.training.bands import places

CLOSE = 1e-4  # of a message's largest coordinate: what float32 adds


def as_in_worst(used: trainings.Training, target: int) -> trainings.Training:
    """Return the same training, with all bands as the one in which the target's message is most visible."""

    def begin(realization: int, view: View | None = None) -> trainings.Start:
        def seen(reception: Reception) -> Reception:
            return (view(reception) if view else reception).as_most_shown(target)

        return used.begin(realization, seen)

    return used._replace(begin=begin) if used.loop.bands else used


def verdicts(
    audited: Audited, subject: audit.Subject, claim: Claim, used: trainings.Training, generator: np.random.Generator
) -> Iterator[audit.Verdict]:
    """Yield the tests of each band: the noise's standard deviation, and how far the target's record moves it.

    `used` is the training with its bands; the other arguments are as in `audit.verdicts`.
    """
    learner, target, bands = used.parts.learner, claim.target, used.loop.bands
    starts = [training.begin(subject.realization) for training in (used, as_in_worst(used, target))]
    band = np.concatenate([part.ravel() for part in places([w.shape for w in starts[0].weights], bands)])

    def flat(parts: list[np.ndarray]) -> np.ndarray:
        return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1).astype(float)

    reception = starts[0].reception
    std = np.repeat(reception.band_noise_std, reception.rounds, axis=0)
    noise = flat(received(used, [starts[0]._replace(weights=learner.silent())]))
    scaled = [noise[:, band == b][std[:, b] > 0] / std[std[:, b] > 0, b, None] for b in range(bands)]
    loud = [part.ravel() for part in scaled if part.size]
    if loud:
        yield audit.worst_of(audit.variance, subject, "deviation of each band's noise", loud)
    case, moved = next(learner.opposed(generator, audited.records)), []
    place = learner.place(starts[0], target, int(np.argmax(reception.weight[:, target] != 0)))
    for start in starts:
        first, second = map(flat, receive_neighbours(audited, used, case, place, [start]))
        moved.append(first - second)
    worst = reception.shown(target).argmax(axis=1)
    assert reception.bands is not None
    factor = reception.bands[:, target] * reception.sends[:, target, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.nan_to_num(factor / np.take_along_axis(factor, worst[:, None], axis=1), posinf=0.0, neginf=0.0)
    expected = moved[1] * np.repeat(share, reception.rounds, axis=0)[:, band]
    off, most = np.abs(moved[0] - expected).max(), np.abs(moved[1]).max()
    measured, fault = float(off / most) if most > 0 else float(off), "{percent} of a band's move"
    yield audit.within(subject, "signal in each band", expected.size, 0.0, measured, 0.0, CLOSE, CLOSE, fault)
