"""Updates that the server receives while the model keeps its start parameters, for the audit's tests.

A "run" is one training of the tapped realization with a key, start parameters and data of its own.
"""

from collections.abc import Sequence

import numpy as np

from pwfl.learning import adversarial
from pwfl.training import trainings
from pwfl.training.audits.audited import Audited, blank
from pwfl.training.sent import is_by_user

RUNS = 3  # of noise, at least: two with the release's keys and one with another release's
ALONE = 48  # up to so many runs, training one by one is faster than tracing another graph
KEPT = 4096  # coordinates of noise that are tested in a round, at most
FEW = 3  # rounds in which a large network is tested, after a first test of all rounds
SAME = 1e-6  # relative error of a sum of noise in float32


def received(
    used: trainings.Training,
    starts: Sequence[trainings.Start],
    rounds: int | None = None,
    places: Sequence[np.ndarray] | None = None,
) -> list[np.ndarray]:
    """Return the server's updates in some runs, one array of shape (round, run, ...) per tensor of the model.

    Each run is a `Start`; `rounds` and `places` are as in `Training.tap`. More than ALONE runs, as of small models, are
    trained as one batch after the first RUNS, unless the learner is `by_user`.
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
    """Return the server's updates for two data sets that differ in some records, each as `received` returns it.

    Parameters
    ----------
    audited, used
        What is audited, and its training.
    case
        Start parameters and two records.
    places
        Index, or slice, of the training records that are the case's first record in the first data set, and its second
        in the second; all others are zero, of class 0.
    starts
        The runs.
    rounds
        Number of rounds; None: all.
    """
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
    """Return what `received` does, with all runs trained as one batch."""
    updates, _ = used.tap(starts, True, rounds, places)
    return updates if used.loop.compiled or len(starts) > 1 else [part[:, None] for part in updates]


def chosen(weights: Sequence[np.ndarray], generator: np.random.Generator) -> list[np.ndarray] | None:
    """Choose which coordinates of a large model to test, about KEPT; None: all, as there are no more than KEPT.

    Returns flat indices for each tensor of the model, sorted: half of them consecutive, half anywhere.
    """
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
    """Return one run's updates with all messages zero, over their stated standard deviation.

    Shape (round, coordinate), of the rounds with noise; `rounds` and `places` are as in `Training.tap`.
    """
    std = np.repeat(start.reception.noise_std, start.reception.rounds)[:rounds]
    noise = received(used, [start._replace(weights=used.parts.learner.silent())], rounds, places)
    loud = np.flatnonzero(std)
    scaled = [part[loud].reshape(len(loud), -1) / std[loud, None] for part in noise]
    return np.concatenate(scaled, axis=1, dtype=float)


def looked_at(start: trainings.Start) -> int | None:
    """Return in how many rounds a test of a large network is repeated, if all are in one interval; None: in all."""
    alike = len(start.reception.rounds) == 1 and sum(w.size for w in start.weights) > KEPT
    return min(FEW, int(start.reception.rounds[0])) if alike else None


def lengths(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Compute the L2 norm of each round's update, shape (round,), from arrays (round, 1, ...) of a model's tensors."""
    return np.sqrt(sum(np.square(part).sum(axis=tuple(range(1, part.ndim)), dtype=float) for part in parts))
