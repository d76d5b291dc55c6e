"""One audit of all linear airs: what the loop that trains receives, against `reception` and what is claimed of it.

Noise is what is received in silence: of data and weights of which no gradient is left. Signal is what two neighbouring
data sets' trainings receive with the same streams, from the same model in all rounds. Loss is the one over the other,
against the claimed mu. What an observer of some users sees is a reception of these alone.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from scipy import stats

from pwfl import streams
from pwfl.learning import air, datasets
from pwfl.privacy import audit
from pwfl.tables.reception import Reception

RUNS = 4  # of noise at least: two of the scheme's realizations, others, and one of another scheme


def verdicts(
    scenario,
    subject: audit.Subject,
    learning: Callable[[datasets.Dataset], air.Learner],
    size: datasets.Size,
    samples: np.ndarray,
    reception: Reception,
    mu: np.ndarray,
    target: int,
    generator: np.random.Generator,
    exact: bool = True,
) -> Iterator[audit.Verdict]:
    """Tests of what an observer receives of the target's record.

    Parameters
    ----------
    learning
        Of data, the learner: that which trains.
    samples
        How many records each user has, shape (user,).
    reception, mu
        What the observer receives, and mu of the target's message, shape (round,), that is claimed against it.
    exact
        The claim is what is lost, and no bound of it.
    """
    rounds = int(reception.rounds.sum())
    owned = np.split(np.arange(samples.sum()), samples.cumsum())[:-1]
    still = np.zeros(rounds, np.float32)
    data = blank(size, int(samples.sum()))

    def tapped(data: datasets.Dataset, weights: list[np.ndarray], keys: Sequence[int]) -> list[np.ndarray]:
        learner, server = learning(data), air.Server(lambda reception: still)  # models stay where records are seen best
        tap = air.tap(learner, server, reception.length, len(reception.rounds), rounds)
        parts = []
        for key in keys:
            begun = air.start(learner, server, 0, weights, owned, reception, scenario.seed, np.int64(key))
            parts.append(tap([begun]))
        return [np.stack(each, axis=1) for each in zip(*parts, strict=True)]

    learner = learning(data)
    silent = learner.silent()
    coordinates = sum(w.size for w in silent)
    runs = int(max(RUNS, -(-audit.DRAWS // (coordinates * rounds))))
    own = [streams.key(*streams.of_noise(scenario), run) for run in range(runs - 1)]
    other = streams.key(*streams.of_noise(scenario, "noise", "another scheme"), 0)
    heard = tapped(data, silent, [*own, other])
    std = np.repeat(reception.noise_std, reception.rounds)
    yield from noise(subject, heard, np.broadcast_to(std[:, None], (rounds, runs)))

    weight = np.repeat(np.abs(reception.weight[:, target]) * reception.sends[:, target], reception.rounds)
    stated, first = learner.sensitivity * weight, int(np.argmax(weight > 0))
    key = own[:1]
    place = int(owned[target][learner.place(reception, owned, scenario.seed, target, first) if len(owned[target]) else 0])
    moved = []
    for case in learner.opposed(generator):
        pair = []
        for features, label in zip(case.x, case.y, strict=True):
            x, y = data.x_train.copy(), np.zeros_like(data.y_train)
            x[place], y[place] = features, label
            pair.append(tapped(data._replace(x_train=x, y_train=y), learner.like(case.weights), key))
        square = sum(((a.astype(float) - b) ** 2).reshape(rounds, -1).sum(axis=1) for a, b in zip(*pair, strict=True))
        moved.append(np.sqrt(square))
    moved = np.array(moved)
    share = np.divide(moved, stated, out=np.where(moved > 0, np.inf, 0.0), where=stated > 0)
    reached = getattr(learner, "reached", True)
    yield audit.sensitivity(subject, share, 1.0, reached=reached)
    most, claimed = moved.max(axis=0), np.pad(mu, (0, rounds - len(mu)))  # after the last row nobody sends
    here = most > 0
    found = float(np.sqrt((np.divide(most, std, out=np.zeros(rounds), where=here) ** 2).sum()))
    wanted = float(np.sqrt((claimed[here] ** 2).sum()))
    low, high = audit.REACHED * wanted * (exact and reached), (1 + audit.ROUNDING) * wanted
    yield audit._within(subject, "loss", int(here.sum()), wanted, found, low, high, audit.ROUNDING)


def participation(subject, learner, receptions: Sequence[Reception], samples: np.ndarray, seed: int, chance: float):
    """Whether records are in messages by chance as claimed: the numbers of rounds that each is in."""
    owned, rounds = np.split(np.arange(samples.sum()), samples.cumsum())[:-1], int(receptions[0].rounds.sum())
    counts = []
    for realization, reception in enumerate(receptions):
        _, at = learner.inputs(reception, owned, seed, realization)
        taken = np.concatenate([rows[:size] for rows, size in zip(at.rows, at.sizes, strict=True)])
        counts.append(np.bincount(taken, minlength=samples.sum())[[mine[0] for mine in owned]])
    return audit.distribution(subject, "rounds that a record is in", np.array(counts), stats.binom(rounds, chance).cdf, 0.5)


def blank(size: datasets.Size, records: int) -> datasets.Dataset:
    """Data of zeros, all of the first class."""
    x = np.zeros((records, size.features), np.float32)
    return datasets.Dataset(x, np.zeros(records, np.int32), x[:1], np.zeros(1, np.int32))


def noise(subject: audit.Subject, received: Sequence[np.ndarray], std: np.ndarray) -> Iterator[audit.Verdict]:
    """Whether what is received in silence is independent normal noise of stated deviations.

    Parameters
    ----------
    received
        Tensors of shape (round, run, ...).
    std
        Shape (round, run); 0: nothing is to be heard.
    """
    parts = []
    for part in received:
        over = std.reshape(*std.shape, *[1] * (part.ndim - 2))
        scaled = np.divide(part, over, out=np.where(part == 0, 0.0, np.inf), where=over > 0)
        parts.append(scaled.reshape(*std.shape, part[0, 0].size).astype(float))
    flat, everywhere = np.concatenate(parts, axis=2), (std > 0).all(axis=1)
    for k, part in enumerate([*parts, flat]):
        which = f"tensor {k}" if k < len(parts) else "all tensors"
        heard = part[std > 0]
        yield audit.variance(subject, f"deviation of {which}", heard)
        yield audit.mean(subject, f"mean of {which}", heard)
        yield audit.distribution(subject, f"law of {which}", heard, stats.norm.cdf, 0.0)
    yield each_coordinate(subject, flat[std > 0])
    yield lags(subject, flat[std > 0])
    both = flat[everywhere]
    rounds, runs, _ = both.shape
    if rounds > 1:
        yield audit.correlation(subject, "noise of different rounds", both.reshape(rounds, -1))
    if rounds and runs > 1:
        yield audit.correlation(subject, "noise of different runs", np.swapaxes(both, 0, 1).reshape(runs, -1))


def each_coordinate(subject: audit.Subject, flat: np.ndarray) -> audit.Verdict:
    """Whether any coordinate has too little noise, or too much, by the least likely sum of squares of all."""
    draws, squares = len(flat), (flat**2).sum(axis=0)
    tails = np.minimum(stats.chi2.cdf(squares, draws), stats.chi2.sf(squares, draws))
    least, limit = float(tails.min()), audit.FALSE_ALARM / (2 * len(squares))
    return audit._within(subject, "each coordinate", flat.size, 0.5, least, limit, 0.5, 0.0)


def lags(subject: audit.Subject, flat: np.ndarray) -> audit.Verdict:
    """Whether coordinates of a round's vector, of all its tensors, go together at any distance."""
    draws, size = flat.shape
    spectrum = np.abs(np.fft.rfft(flat, 2 * size, axis=1)) ** 2
    sums = np.fft.irfft(spectrum.sum(axis=0), 2 * size)[1:size]
    terms = draws * np.arange(size - 1, 0, -1)
    few = terms >= 1000  # of fewer products, sums are not normal
    largest = float(np.abs(sums / np.sqrt(terms))[few].max())
    limit = float(stats.norm.isf(audit.FALSE_ALARM / (2 * few.sum())))
    return audit._within(subject, "coordinates", flat.size, 0.0, largest, 0.0, limit, 0.0)
