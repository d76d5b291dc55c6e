"""What is received in some runs, from a model that stays."""

from collections.abc import Sequence

import numpy as np

from pwfl.learning import adversarial
from pwfl.training import trainings
from pwfl.training.audits.audited import Audited, blank
from pwfl.training.sent import apart

RUNS = 3  # of noise at least: two of the release's realizations, and one of another release
ALONE = 48  # runs that take less time one by one than another graph takes to be traced
KEPT = 4096  # coordinates of noise in a round, at most
FEW = 3  # rounds in which a large network is looked at again
SAME = 1e-6  # to which a sum of noise is that of its parts, in float32


def received(
    used: trainings.Training,
    begun: Sequence[trainings.Start],
    rounds: int | None = None,
    places: Sequence[np.ndarray] | None = None,
) -> list[np.ndarray]:
    """What is received in some runs, from a model that stays: tensors of shape (round, run, ...); see `Training.tap`.

    Of small models it may take many runs: after the first ones they are side by side then, where users are summed.
    """
    alone = RUNS if not apart(used.parts.learner) and len(begun) > ALONE else len(begun)
    groups = [[start] for start in begun[:alone]] + [begun[alone:]] * (len(begun) > alone)
    found = [together(used, group, rounds, places) for group in groups]
    if len(found) == 1:
        return found[0]
    return [np.concatenate(each, axis=1) for each in zip(*found, strict=True)]


def receive_neighbours(
    audited: Audited,
    used: trainings.Training,
    case: adversarial.Opposed,
    places: int | slice,
    begun: Sequence[trainings.Start],
    rounds: int | None = None,
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What is received of two data sets, blank but for the case's first record, or its second, in some places."""
    found = []
    for features, label in zip(case.x, case.y, strict=True):
        data = blank(audited.size, audited.records)
        data.x_train[places], data.y_train[places] = features, label
        found.append(received(used.over(data), [start._replace(weights=case.weights) for start in begun], rounds))
    first, second = found
    return first, second


def together(
    used: trainings.Training,
    begun: Sequence[trainings.Start],
    rounds: int | None = None,
    places: Sequence[np.ndarray] | None = None,
) -> list[np.ndarray]:
    """As `received`, all runs side by side."""
    found, _ = used.tap(begun, True, rounds, places)
    return found if used.loop.compiled or len(begun) > 1 else [part[:, None] for part in found]


def chosen(weights: Sequence[np.ndarray], generator: np.random.Generator) -> list[np.ndarray] | None:
    """Some places of each of many weights: half of them next to each other, half anywhere; None: all of few."""
    if sum(w.size for w in weights) <= KEPT:
        return None
    half, found = KEPT // (2 * len(weights)), []
    for size in (w.size for w in weights):
        first = generator.integers(max(size - half, 0) + 1)
        anywhere = generator.choice(size, min(half, size), replace=False)
        found.append(np.union1d(np.arange(first, min(first + half, size)), anywhere).astype(np.int32))
    return found


def scaled_silence(
    used: trainings.Training,
    begun: trainings.Start,
    rounds: int | None = None,
    places: Sequence[np.ndarray] | None = None,
) -> np.ndarray:
    """What is received in silence in the rounds with noise, over its deviation, (round, coordinate); see `received`."""
    std = np.repeat(begun.reception.noise_std, begun.reception.rounds)[:rounds]
    heard = received(used, [begun._replace(weights=used.parts.learner.silent())], rounds, places)
    loud = np.flatnonzero(std)
    scaled = [part[loud].reshape(len(loud), -1) / std[loud, None] for part in heard]
    return np.concatenate(scaled, axis=1, dtype=float)


def looked_at(begun: trainings.Start) -> int | None:
    """In how many rounds a large network is looked at where all are alike; None: in all."""
    alike = len(begun.reception.rounds) == 1 and sum(w.size for w in begun.weights) > KEPT
    return min(FEW, int(begun.reception.rounds[0])) if alike else None


def lengths(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Norms of vectors, shape (round,), of whose tensors, (round, 1, ...), each has a part."""
    return np.sqrt(sum(np.square(part).sum(axis=tuple(range(1, part.ndim)), dtype=float) for part in parts))
