"""What is received in some runs, from a model that stays."""

from collections.abc import Sequence

import numpy as np

from pwfl.learning import adversarial
from pwfl.training import trainings
from pwfl.training.audits.audited import Audited, blank
from pwfl.training.sent import is_by_user

RUNS = 3  # of noise at least: two of the release's realizations, and one of another release
ALONE = 48  # runs that take less time one by one than another graph takes to be traced
KEPT = 4096  # coordinates of noise in a round, at most
FEW = 3  # rounds in which a large network is looked at again
SAME = 1e-6  # to which a sum of noise is that of its parts, in float32


def received(
    used: trainings.Training,
    starts: Sequence[trainings.Start],
    rounds: int | None = None,
    places: Sequence[np.ndarray] | None = None,
) -> list[np.ndarray]:
    """What is received in some runs, from a model that stays: tensors of shape (round, run, ...); see `Training.tap`.

    Of small models it may take many runs: after the first ones they are side by side then, where users are summed.
    """
    batch = RUNS if not is_by_user(used.parts.learner) and len(starts) > ALONE else len(starts)
    groups = [[start] for start in starts[:batch]] + [starts[batch:]] * (len(starts) > batch)
    updates = [together(used, group, rounds, places) for group in groups]
    if len(updates) == 1:
        return updates[0]
    return [np.concatenate(runs, axis=1) for runs in zip(*updates, strict=True)]


def receive_neighbours(
    audited: Audited,
    used: trainings.Training,
    case: adversarial.Opposed,
    places: int | slice,
    starts: Sequence[trainings.Start],
    rounds: int | None = None,
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What is received of two data sets, blank but for the case's first record, or its second, in some places."""
    updates = []
    for features, label in zip(case.x, case.y, strict=True):
        data = blank(audited.size, audited.records)
        data.x_train[places], data.y_train[places] = features, label
        updates.append(received(used.over(data), [start._replace(weights=case.weights) for start in starts], rounds))
    first, second = updates
    return first, second


def together(
    used: trainings.Training,
    starts: Sequence[trainings.Start],
    rounds: int | None = None,
    places: Sequence[np.ndarray] | None = None,
) -> list[np.ndarray]:
    """As `received`, all runs side by side."""
    updates, _ = used.tap(starts, True, rounds, places)
    return updates if used.loop.compiled or len(starts) > 1 else [part[:, None] for part in updates]


def chosen(weights: Sequence[np.ndarray], generator: np.random.Generator) -> list[np.ndarray] | None:
    """Some places of each of many weights: half of them next to each other, half anywhere; None: all of few."""
    if sum(w.size for w in weights) <= KEPT:
        return None
    half, places = KEPT // (2 * len(weights)), []
    for size in (w.size for w in weights):
        first = generator.integers(max(size - half, 0) + 1)
        anywhere = generator.choice(size, min(half, size), replace=False)
        places.append(np.union1d(np.arange(first, min(first + half, size)), anywhere).astype(np.int32))
    return places


def scaled_silence(
    used: trainings.Training,
    start: trainings.Start,
    rounds: int | None = None,
    places: Sequence[np.ndarray] | None = None,
) -> np.ndarray:
    """What is received in silence in the rounds with noise, over its deviation, (round, coordinate); see `received`."""
    std = np.repeat(start.reception.noise_std, start.reception.rounds)[:rounds]
    noise = received(used, [start._replace(weights=used.parts.learner.silent())], rounds, places)
    loud = np.flatnonzero(std)
    scaled = [part[loud].reshape(len(loud), -1) / std[loud, None] for part in noise]
    return np.concatenate(scaled, axis=1, dtype=float)


def looked_at(start: trainings.Start) -> int | None:
    """In how many rounds a large network is looked at where all are alike; None: in all."""
    alike = len(start.reception.rounds) == 1 and sum(w.size for w in start.weights) > KEPT
    return min(FEW, int(start.reception.rounds[0])) if alike else None


def lengths(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Norms of vectors, shape (round,), of whose tensors, (round, 1, ...), each has a part."""
    return np.sqrt(sum(np.square(part).sum(axis=tuple(range(1, part.ndim)), dtype=float) for part in parts))
