"""One audit of all linear airs: the system's own training, tapped, against `reception` and what is claimed of it.

What trains are a system's `parts`; the audit has no learner, server, start or loop but theirs, and gives them other
data, start weights and keys. Its tests:

- Noise is what is received in silence: of data and weights of which no gradient is left, from a model that stays, as
  the training goes on by zeros in place of what it received (`instead`).
- Signal is what two neighbouring data sets' trainings receive with the same keys, from a model that stays. Loss is the
  one over the other, against the claimed mu; these leave what is stated as epsilon, or less. What an observer of some
  users sees is a view of the reception, whose whole has all users' noise in it.
- The model is what follows from what was received, step by step; and what the trainer evaluates is that model.
- Sums of integers are rounded without bias: residuals are what is received less what is in silence with the same keys.
- Records are in messages by chance as claimed.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import polars as pl
import tensorflow as tf
from scipy import stats

from pwfl import streams
from pwfl.learning import datasets
from pwfl.privacy import accountant, audit
from pwfl.privacy.gaussian import exact_epsilon
from pwfl.tables.reception import Reception
from pwfl.training import trainings

RUNS = 4  # of noise at least: two of the scheme's realizations, others, and one of another scheme
MOST = 256  # runs of noise, of models that are too small for as many draws as usual
CLOSE = 1e-3  # to which a model in float32 is that of its steps
SAME = 1e-6  # to which a sum of noise is that of its parts, in float32
RESIDUALS = 48  # draws of rounding, at least
UNEVEN = 0.1  # by which the variance of rounding may be off, as a message need not be anywhere between integers
WRAPPED = 5.0  # times the median of differences of sums: one of the two sums was wrapped around
NORMAL = stats.norm.cdf, 0.0  # what a distribution of noise is held to
TESTED = 16  # records that lively data have to evaluate a model on

View = Callable[[Reception], Reception]


class Claim(NamedTuple):
    """What is claimed of a user's message.

    Attributes
    ----------
    target
        The user.
    mu
        Of its message in each round, shape (round,), against the observer.
    view
        The observer's reception by the server's; None: the same.
    exact
        The claim is what is lost, and no bound of it.
    epsilon
        What these losses cost at least; None: that of Gaussian mechanisms.
    """

    target: int
    mu: np.ndarray
    view: View | None = None
    exact: bool = True
    epsilon: float | None = None


class Audited(NamedTuple):
    """A system's training: of a scenario, by its `parts`, its tables, and records of a size.

    `receiver`: the server's update may have more noise in it than users add.
    """

    parts: Callable[..., trainings.Parts]
    scenario: object
    tables: dict[str, pl.DataFrame]
    size: datasets.Size
    receiver: bool = True

    def training(self, data: datasets.Dataset, compiled: bool = False) -> trainings.Training:
        """That of some data, which users hold one after the other."""
        parts = self.parts(self.scenario, data, self.tables, compiled)
        return trainings.training(parts, self.scenario, data, self.tables, compiled, in_turn)

    @property
    def records(self) -> int:
        """How many the users of a realization have at most."""
        return max(frame["samples"].sum() for frame in self.tables["users"].partition_by("realization"))


def claim_of(
    tables: dict[str, pl.DataFrame],
    realization: int,
    observer: str,
    sensitivity: float,
    users_only: bool = False,
    view: Callable[[int, Reception], Reception] | None = None,
) -> Claim:
    """What `visibility` claims of the user that loses most to an observer, whose `view(user, reception)` it is.

    It is one of those who are heard in some round, if there are any: by chance, others drop out of all.
    """
    found = accountant.losses(tables, observer, sensitivity, users_only)
    row = tables["users"]["realization"].unique().sort().to_list().index(realization)
    heard = tables["reception"].filter(realization=realization)["user"].unique().sort().to_list()
    among = heard or list(range(found.mu.shape[2]))
    target = among[int(found.rho[row, among].argmax())]
    return Claim(target, np.repeat(found.mu[row, :, target], found.rounds), view and partial(view, target))


def upload(target: int, reception: Reception) -> Reception:
    """The view of who sees a user's uploads alone."""
    return reception.of_users(np.arange(reception.sends.shape[1]) == target)


def in_turn(samples: np.ndarray, realization: int) -> list[np.ndarray]:
    """Records of users, one user after the other."""
    return np.split(np.arange(samples.sum()), samples.cumsum())[:-1]


def verdicts(
    audited: Audited, subject: audit.Subject, claim: Claim, generator: np.random.Generator
) -> Iterator[audit.Verdict]:
    """Tests of what an observer receives of the target's record in the subject's realization."""
    scenario, view, target = audited.scenario, claim.view, claim.target
    data = blank(audited.size, audited.records)
    used = audited.training(data)
    begun = used.begin(subject.realization, view)
    reception, learner = begun.reception, used.parts.learner
    rounds, silent = int(reception.rounds.sum()), learner.silent()
    noisy = max(int(reception.rounds[reception.noise_std > 0].sum()), 1)
    runs = int(np.clip(-(-audit.DRAWS // (sum(w.size for w in silent) * noisy)), RUNS, MOST))
    keys = [trainings.key_of(scenario, run) for run in range(runs - 1)]
    keys.append(np.int64(streams.key(*streams.of_noise(scenario, "noise", "another scheme"), 0)))

    yield from all_users(subject, used.begin(subject.realization).reception, audited.receiver)
    std = np.repeat(reception.noise_std, reception.rounds)
    heard = received(used, begun, silent, keys)
    yield from noise(subject, heard, np.broadcast_to(std[:, None], (rounds, runs)))

    weight = np.repeat(np.abs(reception.weight[:, target]) * reception.sends[:, target], reception.rounds)
    stated, place = learner.sensitivity * weight, learner.place(begun, target, int(np.argmax(weight > 0)))
    rounded = used.parts.server.summed is not None  # to integers
    share, most, error = [], np.zeros(rounds), 0.0
    for case in learner.opposed(generator, audited.records):
        pair = []
        for features, label in zip(case.x, case.y, strict=True):
            x, y = data.x_train.copy(), data.y_train.copy()
            x[place], y[place] = features, label
            other = audited.training(data._replace(x_train=x, y_train=y))
            of_it = other.begin(subject.realization, view)
            pair.append(flat(received(other, of_it, case.weights, keys[: runs if rounded else 1])))
        difference = pair[0] - pair[1]
        moved = np.linalg.norm(difference[:, 0], axis=1)
        if rounded:  # what is alike in all rounds is what was moved
            length, uncertain = common(unwrapped(difference[weight > 0] / weight[weight > 0, None, None]))
            moved, error = length * weight, max(error, uncertain / learner.sensitivity)
        share.append(np.divide(moved, stated, out=np.where(moved > 0, np.inf, 0.0), where=stated > 0))
        most = np.maximum(most, moved)
    tolerance = audit.ROUNDING + audit.LIMIT * error
    reached = (audit.REACHED - audit.LIMIT * error) * learner.reached
    yield audit.sensitivity(subject, np.array(share), 1.0, reached=learner.reached, tolerance=tolerance)
    least = claim.epsilon
    if least is None:
        least = float(exact_epsilon((claim.mu**2).sum() / 2, subject.delta))
    yield audit.at_least(subject, least)
    claimed, here = np.pad(claim.mu, (0, rounds - len(claim.mu))), most > 0  # after the last row nobody sends
    found = float(np.sqrt((np.divide(most, std, out=np.zeros(rounds), where=here) ** 2).sum()))
    wanted = float(np.sqrt((claimed[here] ** 2).sum()))
    low, high = reached * wanted * claim.exact, (1 + tolerance) * wanted
    seen = tolerance if reached else max(tolerance, high / max(found, audit.NO_MOVE * high) - 1)
    yield audit.within(subject, audit.RECORD, int(here.sum()), wanted, found, low, high, seen, "mu {percent} too low")

    lively = random_data(audited.size, audited.records, generator)
    yield from model(subject, audited.training(lively))
    if rounded:
        other = audited.training(lively)
        of_it = other.begin(subject.realization, view)
        interval = np.repeat(np.arange(len(reception.rounds)), reception.rounds)
        here = interval == int(np.argmax(reception.sends.any(axis=1)))
        more = [trainings.key_of(scenario, run) for run in range(-(-RESIDUALS // int(here.sum())))]
        loud = flat(received(other, of_it, learner.start(lambda: generator), more))
        yield from rounding(subject, loud[here] - flat(received(used, begun, silent, more))[here], reception)


def received(
    used: trainings.Training, begun: trainings.Start, weights: Sequence[np.ndarray], keys: Sequence[np.int64]
) -> list[np.ndarray]:
    """What is received with some keys, from a model that stays: tensors of shape (round, run, ...).

    Of small models it takes many runs: after the first ones they are side by side, where sums are linear.
    """
    alone = RUNS if used.loop.summed is None else len(keys)
    groups = [[key] for key in keys[:alone]] + [keys[alone:]] * (len(keys) > alone)
    found = [together(used, begun, weights, group) for group in groups]
    return [np.concatenate(each, axis=1) for each in zip(*found, strict=True)]


def together(
    used: trainings.Training, begun: trainings.Start, weights: Sequence[np.ndarray], keys: Sequence[np.int64]
) -> list[np.ndarray]:
    """As `received`, all runs side by side."""
    several = used.loop.compiled or len(keys) > 1
    still = [np.zeros((used.loop.length * used.loop.intervals, *[1] * (w.ndim + several)), np.float32) for w in weights]
    found, _ = used.tap([begun._replace(weights=weights, key=key) for key in keys], still)
    return found if several else [part[:, None] for part in found]


def all_users(subject: audit.Subject, reception: Reception, receiver: bool) -> Iterator[audit.Verdict]:
    """Whether the server's update has the noise in it that all users add, and no more unless a `receiver` adds some."""
    users = np.sqrt((reception.user_noise_std**2).sum(axis=1))
    share = reception.noise_std[users > 0] / users[users > 0]
    if share.size:
        lacking = np.maximum(1 - share, 0.0) if receiver else np.abs(1 - share)
        most, fault = float(lacking.max()), "noise of the update {percent} below the users'"
        yield audit.within(subject, "noise of all users", share.size, 0.0, most, 0.0, SAME, SAME, fault)


def noise(
    subject: audit.Subject, heard: Sequence[np.ndarray], std: np.ndarray, runs_are: str = "runs"
) -> Iterator[audit.Verdict]:
    """Whether what is received in silence is independent normal noise of stated deviations.

    Parameters
    ----------
    heard
        Tensors of shape (round, run, ...).
    std
        Shape (round, run); 0: nothing is to be heard.
    runs_are
        What the verdict calls them, where they are no runs.
    """
    parts = []
    for part in heard:
        over = std.reshape(*std.shape, *[1] * (part.ndim - 2))
        scaled = np.divide(part, over, out=np.where(part == 0, 0.0, np.inf), where=over > 0)
        parts.append(scaled.reshape(*std.shape, part[0, 0].size).astype(float))
    together, everywhere = np.concatenate(parts, axis=2), (std > 0).all(axis=1)
    every, each = together[std > 0], [part[std > 0] for part in parts]
    tests = (("deviation", audit.variance, ()), ("mean", audit.mean, ()), ("distribution", audit.distribution, NORMAL))
    for of_what, test, more in tests:
        yield test(subject, f"{of_what} of the noise", every, *more)
        if len(each) > 1:
            yield audit.worst_of(test, subject, f"{of_what} of each tensor's noise", each, *more)
    yield each_coordinate(subject, every)
    yield lags(subject, every)
    both = together[everywhere]
    rounds, runs, _ = both.shape
    if rounds > 1:
        yield audit.correlation(subject, "noise of different rounds", both.reshape(rounds, -1))
    if rounds and runs > 1:
        yield audit.correlation(subject, f"noise of different {runs_are}", np.swapaxes(both, 0, 1).reshape(runs, -1))


def each_coordinate(subject: audit.Subject, draws: np.ndarray) -> audit.Verdict:
    """Whether any coordinate has too little noise, or too much, by the least likely sum of squares of all."""
    count, squares = len(draws), (draws**2).sum(axis=0)
    tails = np.minimum(stats.chi2.cdf(squares, count), stats.chi2.sf(squares, count))
    least, limit = float(tails.min()), audit.LEVEL / (2 * len(squares))
    quiet = np.sqrt(stats.chi2.ppf(limit, count) / stats.chi2.ppf(audit.POWER, count))
    test, fault = "deviation of each coordinate's noise", "noise of a coordinate {percent} too low"
    return audit.within(subject, test, draws.size, 0.5, least, limit, 0.5, 1 - quiet, fault)


def lags(subject: audit.Subject, draws: np.ndarray) -> audit.Verdict:
    """Whether coordinates of a round's vector, of all its tensors, go together at any distance."""
    count, size = draws.shape
    spectrum = np.abs(np.fft.rfft(draws, 2 * size, axis=1)) ** 2
    sums = np.fft.irfft(spectrum.sum(axis=0), 2 * size)[1:size]
    terms = count * np.arange(size - 1, 0, -1)
    many = terms >= 1000  # of fewer products, sums are not normal
    largest = float(np.abs(sums / np.sqrt(terms))[many].max())
    limit = float(stats.norm.isf(audit.LEVEL / (2 * many.sum())))
    # A correlation at the distance of the fewest products.
    seen = min(1.0, (limit + stats.norm.isf(1 - audit.POWER)) / np.sqrt(terms[many].min()))
    test = "noise of different coordinates"
    return audit.within(subject, test, draws.size, 0.0, largest, 0.0, limit, seen, audit.CORRELATED)


def model(subject: audit.Subject, used: trainings.Training) -> Iterator[audit.Verdict]:
    """Whether the model steps by what was received and by nothing else, and is what the trainer evaluates."""
    begun = used.begin(subject.realization)
    update, weights = used.tap([begun])
    steps, (course,) = begun.steps.astype(float), used.train([begun])
    off = []
    for start, parts, end in zip(begun.weights, update, weights, strict=True):
        path = start - np.cumsum(steps.reshape(-1, *[1] * start.ndim) * parts, axis=0)
        tail = used.loop.tail
        replayed = path[-1] if tail is None else path[tail:].mean(axis=0)
        scale = np.abs(path).max() + np.abs(start).max()
        off.append(np.abs(replayed - end).max() / scale if scale > 0 else np.abs(end).max())
    draws = int(sum(w.size for w in weights))
    most, fault = float(max(off)), "a model {percent} off"
    yield audit.within(subject, "model of what was received", draws, 0.0, most, 0.0, CLOSE, CLOSE, fault)
    _, loss = used.parts.learner.evaluate([tf.constant(w) for w in weights], used.data)
    last = float(course.losses[-1])
    found = abs(last - float(loss)) / max(abs(last), 1e-6)
    yield audit.within(subject, "loss of that model", 1, 0.0, found, 0.0, CLOSE, CLOSE, "a loss {percent} off")


def side_by_side(audited: Audited, subject: audit.Subject, claim: Claim, runs: int = 2) -> audit.Verdict:
    """Whether trainings side by side, compiled, receive in silence what each alone does; takes a compilation."""
    data, keys = blank(audited.size, audited.records), [trainings.key_of(audited.scenario, run) for run in range(runs)]
    used, both = audited.training(data), audited.training(data, compiled=True)
    silent = used.parts.learner.silent()
    alone = received(used, used.begin(subject.realization, claim.view), silent, keys)
    begun = both.begin(subject.realization, claim.view)
    found = together(both, begun, silent, keys)
    scale = max(begun.reception.noise_std.max(), 1e-30)
    most = max(float(np.abs(a - b).max()) / scale for a, b in zip(found, alone, strict=True))
    return audit.within(subject, "side by side as alone", sum(b.size for b in found), 0.0, most, 0.0, CLOSE, CLOSE)


def rounding(subject: audit.Subject, difference: np.ndarray, reception: Reception) -> Iterator[audit.Verdict]:
    """Whether messages' integers are drawn at random, right in the mean, and by each user and coordinate for itself.

    `difference` is what is received of one message in rounds of one interval, less what is in silence with the same
    keys: what is left of the noise is nothing. Of numbers anywhere between integers, residuals have a variance of 1/6
    of a squared step; 1/12 if rounded to the nearest, and more where users' are alike; always up piles up in few
    coordinates.
    """
    interval = int(np.argmax(reception.sends.any(axis=1)))
    steps = (reception.weight * np.where(reception.sends, reception.grid_step, 0.0))[interval]
    parts = unwrapped(difference)
    count, coordinates = parts.shape
    residual = (parts - parts.mean(axis=0)) / np.sqrt((steps**2).sum() / 6 * (1 - 1 / count))
    whole, limit = float((residual**2).mean()), audit.LIMIT * np.sqrt(2 / (count * coordinates))
    low, high = 1 - UNEVEN - limit, 1 + UNEVEN + limit
    seen, fault = UNEVEN + limit, "a variance {percent} off"
    yield audit.within(subject, "variance of rounding", residual.size, 1.0, whole, low, high, seen, fault)
    largest = float((residual**2).mean(axis=0).max())
    over = stats.chi2.isf(audit.LEVEL / coordinates, count) / count
    test, fault = "rounding of each coordinate", "a variance {percent} too large"
    yield audit.within(subject, test, residual.size, 1.0, largest, 0.0, over, over - 1, fault)


def participation(
    audited: Audited, subject: audit.Subject, chance: float, more: Sequence[np.ndarray] = ()
) -> audit.Verdict:
    """Whether records are in messages by chance as claimed: the numbers of rounds that each user's first is in.

    `more` says of further runs how many records users' messages are of, each of shape (round, user).
    """
    used, counts = audited.training(blank(audited.size, audited.records)), []
    for realization in audited.tables["users"]["realization"].unique().sort():
        begun = used.begin(realization)
        counts.append(_rounds_with_first(begun.at, begun.owned))
    for run, records in enumerate(more, start=len(counts)):
        sends = records > 0
        reception = begun.reception._replace(sends=sends, weight=sends.astype(float), records=records)
        _, at = used.parts.learner.inputs(reception, begun.owned, audited.scenario.seed, run)
        counts.append(_rounds_with_first(at, begun.owned))
    law = partial(stats.binom.cdf, n=used.loop.length * used.loop.intervals, p=chance)
    return audit.distribution(subject, "rounds that a record is in", np.array(counts), law, 0.5)


def _rounds_with_first(at, owned: list[np.ndarray]) -> np.ndarray:
    """In how many rounds each user's first record is, of rounds `at`; None: no training."""
    if at is None:
        return np.zeros(len(owned), int)
    taken = np.concatenate([rows[:many] for rows, many in zip(at.rows, at.sizes, strict=True)])
    return np.bincount(taken, minlength=owned[-1][-1] + 1)[[mine[0] for mine in owned]]


def flat(heard: Sequence[np.ndarray]) -> np.ndarray:
    """Tensors of shape (round, run, ...) as one, (round, run, coordinate), in float64."""
    return np.concatenate([part.reshape(*part.shape[:2], -1) for part in heard], axis=2).astype(float)


def unwrapped(difference: np.ndarray) -> np.ndarray:
    """Differences, (round, run, coordinate), as (draw, coordinate), without those of which a sum wrapped around."""
    rows = difference.reshape(-1, difference.shape[-1])
    norms = np.linalg.norm(rows, axis=1)
    return rows[norms <= WRAPPED * np.median(norms)]


def common(parts: np.ndarray) -> tuple[float, float]:
    """The length of a vector that noisy ones, shape (draw, coordinate), have in common, and its standard error.

    By the product of the means of two halves, in which squares of errors do not add up.
    """
    halves = parts[::2], parts[1::2]
    first, second = (half.mean(axis=0) for half in halves)
    length = float(np.sqrt(max(first @ second, 0.0)))
    errors = [half.var(axis=0, ddof=1).mean() / len(half) for half in halves]
    spread = np.sqrt(length**2 * sum(errors) + parts.shape[1] * errors[0] * errors[1])
    return length, float(spread / (2 * max(length, 1e-12)))


def random_data(size: datasets.Size, records: int, generator: np.random.Generator) -> datasets.Dataset:
    """Data of which there are gradients."""
    x = generator.random((records + TESTED, size.features), np.float32)
    y = generator.integers(size.classes, size=records + TESTED).astype(np.int32)
    return datasets.Dataset(x[:records], y[:records], x[records:], y[records:])


def blank(size: datasets.Size, records: int) -> datasets.Dataset:
    """Data of zeros, all of the first class."""
    x = np.zeros((records, size.features), np.float32)
    return datasets.Dataset(x, np.zeros(records, np.int32), x[:1], np.zeros(1, np.int32))
