"""Audit of the noise: with all messages zero, updates are independent Gaussian noise of the stated standard deviation.

A "run" is one training of the tapped realization with a key of its own.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from scipy import special

from pwfl import streams
from pwfl.privacy import audit
from pwfl.tables.reception import Reception
from pwfl.training import trainings
from pwfl.training.audits.claims import View
from pwfl.training.audits.received import KEPT, RUNS, SAME, chosen, received, scaled_silence

MOST = 256  # runs, at most: small models need more runs for the same number of random numbers
NORMAL = special.ndtr, 0.0  # arguments of `audit.distribution`: standard normal
TESTS: tuple[tuple[str, Callable[..., audit.Verdict], tuple], ...] = (
    ("deviation", audit.variance, ()),
    ("mean", audit.mean, ()),
    ("distribution", audit.distribution, NORMAL),
)


def silence(
    scenario,
    used: trainings.Training,
    begin: Callable[[View | None], trainings.Start],
    views: Sequence[View | None],
    generator: np.random.Generator,
) -> tuple[list[np.ndarray], np.ndarray]:
    """Receive updates with all messages zero, in several runs.

    Returns the updates, one array of shape (round, run, ...) per tensor of the model, and their stated standard
    deviations, shape (round, run). The first RUNS - 1 runs and the last one are of the first view, the last one with
    the key of another release; the runs between cycle through all views.

    Parameters
    ----------
    scenario
        Its `seed` and `release` give the keys.
    used
        The training.
    begin
        `begin(view)` returns the realization's `Start` for an observer.
    views
        Observers' views; None: the server's reception.
    generator
        Draws the parameters to look at in large models (`received.chosen`).
    """
    silent, first = used.parts.learner.silent(), begin(views[0])
    places = chosen(silent, generator)
    size = sum(w.size for w in silent) if places is None else sum(map(len, places))
    noisy = max(int(first.reception.rounds[first.reception.noise_std > 0].sum()), 1)
    runs = int(np.clip(-(-audit.DRAWS // (size * noisy)), RUNS, MOST))
    distinct = [first, *map(begin, views[1 : runs - RUNS + 1])]
    starts = [first] * (RUNS - 1) + [distinct[run % len(distinct)] for run in range(1, runs - RUNS + 1)] + [first]
    keys = [trainings.key_of(scenario, run) for run in range(runs - 1)]
    keys.append(np.int64(streams.key(*streams.name_noise(scenario, 0, "noise", "another release"))))
    starts = [start._replace(weights=silent, key=key) for start, key in zip(starts, keys, strict=True)]
    std = np.stack([np.repeat(start.reception.noise_std, start.reception.rounds) for start in starts], axis=1)
    return received(used, starts, places=places), std


def noise(
    subject: audit.Subject, received: Sequence[np.ndarray], std: np.ndarray, runs_are: str = "runs", others: int = 1
) -> Iterator[audit.Verdict]:
    """Test whether updates without messages are independent Gaussian noise of the stated standard deviations.

    Parameters
    ----------
    subject
        What is tested.
    received
        The updates, one array of shape (round, run, ...) per tensor of the model.
    std
        The stated standard deviations, shape (round, run); 0: updates must be 0.
    runs_are
        What the verdict calls runs, if they are something else, as users.
    others
        Number of runs, 0 or 1, the last ones, whose keys are of another release.
    """
    parts = []
    for part in received:
        over = std.reshape(*std.shape, *[1] * (part.ndim - 2))
        scaled = np.divide(part, over, out=np.where(part == 0, 0.0, np.inf), where=over > 0)
        parts.append(scaled.reshape(*std.shape, part[0, 0].size).astype(float))
    together, alike = np.concatenate(parts, axis=2), ((std > 0) == (std[:, :1] > 0)).all(axis=0)
    every, run = together[std > 0], [part[std > 0] for part in parts]
    for statistic, test, more in TESTS:
        yield test(subject, f"{statistic} of the noise", every, *more)
        if len(run) > 1:
            yield audit.worst_of(test, subject, f"{statistic} of each tensor's noise", run, *more)
    yield audit.each_coordinate(subject, "deviation of each coordinate's noise", every)
    yield audit.lags(subject, "noise of different coordinates", every)
    in_a_row = np.swapaxes(together, 0, 1)[std.T > 0]
    yield audit.lags(subject, "noise at any distance", in_a_row.reshape(1, -1))
    # If runs have noise in different rounds: runs with noise in the first one's rounds, or rounds with noise in all.
    paired = together[:, alike][std[:, 0] > 0] if others else together[(std > 0).all(axis=1)]
    rounds, runs, _ = paired.shape
    if rounds > 1:
        yield audit.correlation(subject, "noise of different rounds", paired.reshape(rounds, -1))
    by_run = np.swapaxes(paired, 0, 1).reshape(runs, -1)
    if rounds and runs - others > 1:
        yield audit.correlation(subject, f"noise of different {runs_are}", by_run[: runs - others])
    if others:
        yield audit.correlation(subject, "noise of another release", by_run[[0, -1]])


def all_users(subject: audit.Subject, reception: Reception, receiver: bool) -> Iterator[audit.Verdict]:
    """Test whether the stated noise of the update includes all users' noise, by the reception.

    noise_std^2 must be sum_k user_noise_std[k]^2, or at least that if a `receiver` may add noise.
    """
    users = np.sqrt((reception.user_noise_std**2).sum(axis=1))
    share = reception.noise_std[users > 0] / users[users > 0]
    if share.size:
        lacking = np.maximum(1 - share, 0.0) if receiver else np.abs(1 - share)
        most, test = float(lacking.max()), "noise of all users"
        yield audit.within(subject, test, share.size, 0.0, most, 0.0, SAME, SAME, audit.LOW_NOISE)


def all_noise(subject: audit.Subject, used: trainings.Training, start: trainings.Start) -> audit.Verdict:
    """Test whether the sum of all users' noise has the standard deviation of a sum of independent noise."""
    std, size = np.repeat(start.reception.noise_std, start.reception.rounds), sum(w.size for w in start.weights)
    last = min(int(np.argmax(std > 0)) - (-KEPT // size), len(std))
    return audit.variance(subject, "deviation of all users' noise", scaled_silence(used, start, last))
