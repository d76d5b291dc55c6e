"""One audit of all linear airs: the system's own training, tapped, against `reception` and what is claimed of it.

What trains are a system's `parts`; the audit has no learner, server, start or loop but theirs, and gives them other
data, start weights and keys. Its tests:

- Noise is what is received in silence: of data and weights of which no gradient is left, from a model that stays, as
  the training goes on by zeros in place of what it received (`instead`).
- Signal is what two neighbouring data sets' trainings receive with the same keys, from a model that stays. Loss is the
  one over the other, against the claimed mu; these leave what is stated as epsilon, or less. What an observer of some
  users sees is a view of the reception, whose whole has all users' noise in it.
- The model is what follows from what was received, step by step; and what the trainer evaluates is that model.
- Where the scenario is trained on a GPU, realizations side by side: they receive what each alone does, which is tested.
- Sums of integers are rounded at random, each user's by numbers of its own (`audit_of_rounding`).
- Records are in messages by chance as claimed.
- All users' records move the server's update as far as all may, and one no other user's message; of no user the tables
  claim less than its reception shows.
- What the system's trainer comes to is what is tapped, of records of which each is one user's.

It costs the tracing of four graphs, a second of CPU time, and some 20 trainings of a realization; of networks of more
than KEPT weights, noise is looked at in as many of them, and all but the first layer's signal in FEW rounds.
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
from pwfl.process import devices
from pwfl.scenario.values import Values, plain, value_of
from pwfl.tables.reception import Reception
from pwfl.training import audit_of_rounding, trainings

RUNS = 3  # of noise at least: two of the release's realizations, and one of another release
MOST = 256  # runs of noise, of models that are too small for as many draws as usual
KEPT = 4096  # coordinates of noise in a round, at most
FEW = 3  # rounds in which a large network's signal is looked at again for each layer
CLOSE = 1e-4  # to which a model in float32 is that of its steps, and its loss
COMPILED = 1e-3  # to which what is received compiled is what is received otherwise
SAME = 1e-6  # to which a sum of noise is that of its parts, in float32
WRAPPED = 5.0  # times the median of differences of sums: one of the two sums was wrapped around
NORMAL = stats.norm.cdf, 0.0  # what a distribution of noise is held to
LOUD = 1.0  # deviation of what noise adds up to in each weight, where it is to make another model
ANY_USER = "signal of any user's record"  # the test of what tables say of all users
ALL_RECORDS, ONE_RECORD = "records of all users", "a record in all messages"  # tests of the whole update
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
    everyone, view_of
        mu of all users' messages, shape (round, user), None: nothing is claimed of others; and the observer's
        reception, of a user's record, by the server's.
    """

    target: int
    mu: np.ndarray
    view: View | None = None
    exact: bool = True
    epsilon: float | None = None
    everyone: np.ndarray | None = None
    view_of: Callable[[int, Reception], Reception] = lambda user, reception: reception


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
    everyone = np.repeat(found.mu[row], found.rounds, axis=0)
    claim = Claim(target, everyone[:, target], view and partial(view, target), everyone=everyone)
    return claim._replace(view_of=view) if view else claim


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
    used = audited.training(blank(audited.size, audited.records))
    scenario, begin, view = audited.scenario, partial(used.begin, subject.realization), claim.view
    begun, views, whole = begin(view), [view], begin().reception
    yield from all_users(subject, whole, audited.receiver)
    integers = used.loop.summed is not None
    if integers:
        loud = np.flatnonzero(begun.reception.user_noise_std.any(axis=0))
        views = [partial(noise_of, user, view) for user in loud]  # which is drawn user by user, and takes long
    yield from noise(subject, *silence(scenario, used, [begin(each) for each in views], generator))
    yield from signal(audited, subject, claim, used, views[0], generator)
    yield from of_any_user(subject, whole, claim, used.parts.learner.sensitivity)
    if not integers:
        yield from whole_update(audited, subject, used, claim.target, generator)
    lively = random_data(audited.size, audited.records, generator)
    trained = audited.training(lively)
    yield from model(trained, subject, trained.begin(subject.realization, views[0] if integers else None))
    if devices.has_gpu(value_of(scenario, "training.device")):
        yield from side_by_side(audited, subject, view, lively, generator)
    if integers:
        yield all_noise(subject, used, begun)
        bits = scenario.training.bits  # ty: ignore  # of all whose sums are of integers
        yield from audit_of_rounding.verdicts(subject, used, begun, bits, generator)


def noise_of(user: int, view: View | None, reception: Reception) -> Reception:
    """A view of a reception in which one user alone adds noise."""
    seen = view(reception) if view else reception
    noise = seen.user_noise_std * (np.arange(seen.sends.shape[1]) == user)
    return seen._replace(user_noise_std=noise, noise_std=np.sqrt((noise**2).sum(axis=1)))


def silence(
    scenario, used: trainings.Training, begun: Sequence[trainings.Start], generator: np.random.Generator
) -> tuple[list[np.ndarray], np.ndarray]:
    """What is received in silence, tensors of shape (round, run, ...), and its deviation, (round, run).

    Runs are of several views, one after the other, but RUNS of the first, the last of these of another release.
    """
    silent, (first, *_) = used.parts.learner.silent(), begun
    places = chosen(silent, generator)
    size = sum(w.size for w in silent) if places is None else sum(map(len, places))
    noisy = max(int(first.reception.rounds[first.reception.noise_std > 0].sum()), 1)
    runs = int(np.clip(-(-audit.DRAWS // (size * noisy)), RUNS, MOST))
    starts = [first] * (RUNS - 1) + [begun[run % len(begun)] for run in range(1, runs - RUNS + 1)] + [first]
    keys = [trainings.key_of(scenario, run) for run in range(runs - 1)]
    keys.append(np.int64(streams.key(*streams.of_noise(scenario, "noise", "another release"), 0)))
    starts = [start._replace(weights=silent, key=key) for start, key in zip(starts, keys, strict=True)]
    std = np.stack([np.repeat(start.reception.noise_std, start.reception.rounds) for start in starts], axis=1)
    return received(used, starts, places=places), std


def signal(
    audited: Audited,
    subject: audit.Subject,
    claim: Claim,
    used: trainings.Training,
    view: View | None,
    generator: np.random.Generator,
) -> Iterator[audit.Verdict]:
    """Tests of how far a record of the target's moves what is received in a view, and what that is over all noise."""
    scenario, target, learner = audited.scenario, claim.target, used.parts.learner
    begun, rounded = used.begin(subject.realization, claim.view), used.loop.summed is not None
    reception = begun.reception
    std, rounds = np.repeat(reception.noise_std, reception.rounds), int(reception.rounds.sum())
    weight = np.repeat(np.abs(reception.weight[:, target]) * reception.sends[:, target], reception.rounds)
    stated, place = learner.sensitivity * weight, learner.place(begun, target, int(np.argmax(weight > 0)))
    keys = [trainings.key_of(scenario, run) for run in range(RUNS if rounded else 1)]
    share, most, error = [], np.zeros(rounds), 0.0
    for k, case in enumerate(learner.opposed(generator, audited.records)):
        alike = k > 0 and len(reception.rounds) == 1 and sum(w.size for w in case.weights) > KEPT
        pair = []
        for features, label in zip(case.x, case.y, strict=True):
            data = blank(audited.size, audited.records)
            data.x_train[place], data.y_train[place] = features, label
            other = audited.training(data)
            of_it = other.begin(subject.realization, view)
            starts = [of_it._replace(weights=case.weights, key=key) for key in keys]
            pair.append(received(other, starts, min(FEW, rounds) if alike else None))
        moved = lengths([first - second for first, second in zip(*pair, strict=True)])
        if rounded:  # what is alike in all rounds is what was moved
            rows = [np.concatenate([p.reshape(*p.shape[:2], -1) for p in parts], axis=2, dtype=float) for parts in pair]
            rows = (rows[0] - rows[1])[weight > 0] / weight[weight > 0, None, None]
            length, uncertain = common(unwrapped(rows))
            moved, error = length * weight, max(error, uncertain / learner.sensitivity)
        moved = np.pad(moved, (0, rounds - len(moved)), mode="edge")
        share.append(np.divide(moved, stated, out=np.where(moved > 0, np.inf, 0.0), where=stated > 0))
        most = np.maximum(most, moved)
    tolerance = audit.ROUNDING + audit.LIMIT * error
    reached = (audit.REACHED - audit.LIMIT * error) * learner.reached
    yield audit.sensitivity(subject, np.array(share), 1.0, reached=learner.reached, tolerance=tolerance)
    least = claim.epsilon
    if least is None:
        least = audit.gaussian_epsilon(float(np.linalg.norm(claim.mu)), subject.delta)
    yield audit.at_least(subject, least)
    claimed, here = np.pad(claim.mu, (0, rounds - len(claim.mu))), most > 0  # after the last row nobody sends
    found = float(np.sqrt((np.divide(most, std, out=np.zeros(rounds), where=here) ** 2).sum()))
    wanted = float(np.sqrt((claimed[here] ** 2).sum()))
    low, high = reached * wanted * claim.exact, (1 + tolerance) * wanted
    seen = tolerance if reached else max(tolerance, high / max(found, audit.NO_MOVE * high) - 1)
    yield audit.within(subject, audit.RECORD, int(here.sum()), wanted, found, low, high, seen, "mu {percent} too low")


def lengths(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Norms of vectors, shape (round,), of whose tensors, (round, 1, ...), each has a part."""
    return np.sqrt(sum(np.square(part).sum(axis=tuple(range(1, part.ndim)), dtype=float) for part in parts))


def received(
    used: trainings.Training,
    begun: Sequence[trainings.Start],
    rounds: int | None = None,
    places: Sequence[np.ndarray] | None = None,
) -> list[np.ndarray]:
    """What is received in some runs, from a model that stays: tensors of shape (round, run, ...); see `Training.tap`.

    Of small models it takes many runs: after the first ones they are side by side, where sums are linear.
    """
    alone = RUNS if used.loop.summed is None else len(begun)
    groups = [[start] for start in begun[:alone]] + [begun[alone:]] * (len(begun) > alone)
    found = [together(used, group, rounds, places) for group in groups]
    return [np.concatenate(each, axis=1) for each in zip(*found, strict=True)]


def together(
    used: trainings.Training,
    begun: Sequence[trainings.Start],
    rounds: int | None = None,
    places: Sequence[np.ndarray] | None = None,
) -> list[np.ndarray]:
    """As `received`, all runs side by side."""
    several, played = used.loop.compiled or len(begun) > 1, rounds or used.loop.length * used.loop.intervals
    still = [np.zeros((played, *[1] * (w.ndim + several)), np.float32) for w in begun[0].weights]
    found, _ = used.tap(begun, still, rounds, places)
    return found if several else [part[:, None] for part in found]


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


def all_users(subject: audit.Subject, reception: Reception, receiver: bool) -> Iterator[audit.Verdict]:
    """Whether the server's update has the noise in it that all users add, and no more unless a `receiver` adds some."""
    users = np.sqrt((reception.user_noise_std**2).sum(axis=1))
    share = reception.noise_std[users > 0] / users[users > 0]
    if share.size:
        lacking = np.maximum(1 - share, 0.0) if receiver else np.abs(1 - share)
        most, test = float(lacking.max()), "noise of all users"
        yield audit.within(subject, test, share.size, 0.0, most, 0.0, SAME, SAME, audit.LOW_NOISE)


def of_any_user(
    subject: audit.Subject, reception: Reception, claim: Claim, sensitivity: float
) -> Iterator[audit.Verdict]:
    """Whether no user's message is more visible to the observer, in any round, than the claim has it."""
    if claim.everyone is None:
        return
    share = []
    for user, claimed in enumerate(claim.everyone.T):  # after the last row nobody sends
        seen = claim.view_of(user, reception)
        sends = seen.sends[:, user] if seen.records is None else seen.sends[:, user] & (seen.records[:, user] > 0)
        moved = sensitivity * np.abs(seen.weight[:, user]) * sends
        with np.errstate(divide="ignore", invalid="ignore"):
            mu = np.repeat(np.where(moved > 0, moved / seen.noise_std, 0.0), seen.rounds)
            share.append(np.where(mu > 0, mu / np.pad(claimed, (0, len(mu) - len(claimed))), 0.0).max())
    fault = "mu of a user {percent} too low"
    yield audit.within(subject, ANY_USER, len(share), 1.0, float(max(share)), 0.0, 1 + SAME, SAME, fault)


def whole_update(
    audited: Audited, subject: audit.Subject, used: trainings.Training, target: int, generator: np.random.Generator
) -> Iterator[audit.Verdict]:
    """Whether the server's update, of all users, has the noise that is stated, and moves by records as messages do."""
    learner, begun = used.parts.learner, used.begin(subject.realization)
    reception, sensitivity = begun.reception, learner.sensitivity
    if (reception.noise_std > 0).any():
        scaled = scaled_silence(used, begun, places=chosen(learner.silent(), generator))
        yield audit.variance(subject, "deviation of all noise", scaled)
    case = next(learner.opposed(generator, audited.records))
    weight = np.repeat(reception.weight * reception.sends, reception.rounds, axis=0)
    place = learner.place(begun, target, int(np.argmax(weight[:, target] != 0)))
    number = np.ones(weight.shape)
    if reception.records is not None:
        number = np.repeat(reception.records, reception.rounds, axis=0)
        taken = max(
            np.bincount(rows[:size]).max(initial=0) for rows, size in zip(begun.at.rows, begun.at.sizes, strict=True)
        )
        test, fault = "times of a record in a round", "{number} more time"
        yield audit.within(subject, test, number.size, 1.0, float(taken), 1.0, 1.0, 1.0, fault)
    elif learner.message == "sum of gradients":
        number = number * [len(mine) for mine in begun.owned]
    everyone = slice(None), np.abs((weight * number).sum(axis=1))
    for test, (places, total) in (ALL_RECORDS, everyone), (ONE_RECORD, (place, np.abs(weight[:, target]))):
        pair = []
        for features, label in zip(case.x, case.y, strict=True):
            data = blank(audited.size, audited.records)
            data.x_train[places], data.y_train[places] = features, label
            other = audited.training(data)
            start = other.begin(subject.realization)._replace(weights=case.weights, key=begun.key)
            pair.append(received(other, [start]))
        here = total > 0.5 * total.max()  # of users whose weights have opposite signs, little may be left
        moved = lengths([first - second for first, second in zip(*pair, strict=True)])
        share = moved[here] / (sensitivity * total[here])
        low = audit.REACHED if learner.reached else 0.0
        most, high = float(share.max()), 1 + audit.ROUNDING
        yield audit.within(subject, test, share.size, 1.0, most, low, high, audit.ROUNDING, "moves {percent} too far")


def noise(
    subject: audit.Subject, heard: Sequence[np.ndarray], std: np.ndarray, runs_are: str = "runs", others: int = 1
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
    others
        How many runs, the last ones, are of another release, 1 or 0.
    """
    parts = []
    for part in heard:
        over = std.reshape(*std.shape, *[1] * (part.ndim - 2))
        scaled = np.divide(part, over, out=np.where(part == 0, 0.0, np.inf), where=over > 0)
        parts.append(scaled.reshape(*std.shape, part[0, 0].size).astype(float))
    together, alike = np.concatenate(parts, axis=2), ((std > 0) == (std[:, :1] > 0)).all(axis=0)
    every, each = together[std > 0], [part[std > 0] for part in parts]
    tests = (("deviation", audit.variance, ()), ("mean", audit.mean, ()), ("distribution", audit.distribution, NORMAL))
    for of_what, test, more in tests:
        yield test(subject, f"{of_what} of the noise", every, *more)
        if len(each) > 1:
            yield audit.worst_of(test, subject, f"{of_what} of each tensor's noise", each, *more)
    yield audit.each_coordinate(subject, "deviation of each coordinate's noise", every)
    yield audit.lags(subject, "noise of different coordinates", every)
    in_a_row = np.swapaxes(together, 0, 1)[std.T > 0]
    yield audit.lags(subject, "noise at any distance", in_a_row.reshape(1, -1))
    # Where runs differ in which rounds have noise: those that are as the first, or rounds in which all have some.
    paired = together[:, alike][std[:, 0] > 0] if others else together[(std > 0).all(axis=1)]
    rounds, runs, _ = paired.shape
    if rounds > 1:
        yield audit.correlation(subject, "noise of different rounds", paired.reshape(rounds, -1))
    of_runs = np.swapaxes(paired, 0, 1).reshape(runs, -1)
    if rounds and runs - others > 1:
        yield audit.correlation(subject, f"noise of different {runs_are}", of_runs[: runs - others])
    if others:
        yield audit.correlation(subject, "noise of another release", of_runs[[0, -1]])


def all_noise(subject: audit.Subject, used: trainings.Training, begun: trainings.Start) -> audit.Verdict:
    """Whether noise that users draw each for itself adds up as independent noise does."""
    std, size = np.repeat(begun.reception.noise_std, begun.reception.rounds), sum(w.size for w in begun.weights)
    last = min(int(np.argmax(std > 0)) - (-KEPT // size), len(std))
    return audit.variance(subject, "deviation of all users' noise", scaled_silence(used, begun, last))


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


def model(used: trainings.Training, subject: audit.Subject, begun: trainings.Start) -> Iterator[audit.Verdict]:
    """Whether the model steps by what was received and by nothing else, and is what the trainer evaluates."""
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


def trained(
    audited: Audited, trainer: Callable[..., Callable], subject: audit.Subject, generator: np.random.Generator
) -> Iterator[audit.Verdict]:
    """Whether a system's `trainer` comes to the model that is tapped, and no two users hold one record.

    Records are dealt at random: of `data.partition` an audit knows nothing. Noise is so loud that half of it would make
    another model.
    """
    dealt = plain(audited.scenario.data) | {"partition": "iid"}
    scenario, tables = Values(vars(audited.scenario) | {"data": dealt}), audited.tables
    data = random_data(audited.size, audited.records, generator)
    quiet = trainings.training(audited.parts(scenario, data, tables, False), scenario, data, tables)
    begun = quiet.begin(subject.realization)
    if quiet.loop.summed is None:
        walk = np.sqrt((np.square(begun.steps * np.repeat(begun.noise_std, begun.reception.rounds))).sum())
        louder = pl.col("update_noise_std") * float(LOUD / walk if walk > 0 else 1.0)
        tables = tables | {"reception_noise": tables["reception_noise"].with_columns(louder)}
    used = trainings.training(audited.parts(scenario, data, tables, False), scenario, data, tables)
    begun = used.begin(subject.realization)
    _, weights = used.tap([begun])
    _, loss = used.parts.learner.evaluate([tf.constant(w) for w in weights], used.data)
    last = float(trainer(scenario, data, tables)(subject.realization)["loss"][-1])
    off = abs(last - float(loss)) / max(abs(last), 1e-6) if np.isfinite([last, loss]).any() else 0.0
    yield audit.within(subject, audit.TRAINED, 1, 0.0, off, 0.0, CLOSE, CLOSE, "a loss {percent} off")
    held = np.concatenate(begun.owned)
    most = float(np.bincount(held).max())
    yield audit.within(subject, "users of a record", len(held), 1.0, most, 1.0, 1.0, 1.0, "{number} more user")


def side_by_side(
    audited: Audited,
    subject: audit.Subject,
    view: View | None,
    lively: datasets.Dataset,
    generator: np.random.Generator,
) -> Iterator[audit.Verdict]:
    """Whether trainings side by side, compiled as for a GPU, receive what each alone does, in silence and of data.

    What trains no two realizations at once has nothing to compare. It takes a compilation.
    """
    keys, off, size = [trainings.key_of(audited.scenario, run) for run in range(2)], [], 0
    blanks = blank(audited.size, audited.records)
    lively = lively._replace(x_test=blanks.x_test, y_test=blanks.y_test)
    for data in (blanks, lively):
        one = audited.training(data)
        try:
            both = audited.training(data, compiled=True)
        except NotImplementedError:
            return
        learner = one.parts.learner
        weights = learner.silent() if data is blanks else learner.start(lambda: generator)
        alone, found = (
            receive(used, [used.begin(subject.realization, view)._replace(weights=weights, key=key) for key in keys])
            for used, receive in ((one, received), (both, together))
        )
        scale, size = max(np.abs(part).max() for part in alone), size + sum(part.size for part in alone)
        off += [float(np.abs(a - b).max() / scale) for a, b in zip(found, alone, strict=True)]
    yield audit.within(
        subject, "side by side as alone", size, 0.0, max(off), 0.0, COMPILED, COMPILED, "{percent} of difference"
    )


def participation(
    audited: Audited, subject: audit.Subject, chance: float, more: Sequence[np.ndarray] = (), of_senders: bool = False
) -> audit.Verdict:
    """Whether records are in messages by chance as claimed: the numbers of rounds that each user's first is in.

    With `of_senders`, of each user who sends, in all rounds or none.
    `more` says of further runs how many records users' messages are of, each of shape (round, user).
    """
    used, counts = audited.training(blank(audited.size, audited.records)), []
    for realization in audited.tables["users"]["realization"].unique().sort():
        begun = used.begin(realization)
        heard = begun.reception.sends.any(axis=0) | (not of_senders)
        counts.append(_rounds_with_first(begun.at, begun.owned)[heard])
    for run, records in enumerate(more, start=len(counts)):
        sends = records > 0
        reception = begun.reception._replace(sends=sends, weight=sends.astype(float), records=records)
        _, at = used.parts.learner.inputs(reception, begun.owned, audited.scenario.seed, run)
        counts.append(_rounds_with_first(at, begun.owned))
    law = partial(stats.binom.cdf, n=used.loop.length * used.loop.intervals, p=chance)
    return audit.distribution(subject, "rounds that a record is in", np.concatenate(counts), law, 0.5)


def senders(subject: audit.Subject, records: np.ndarray, chance: float) -> audit.Verdict:
    """Whether users send records by a chance as claimed, each round by itself: the numbers of rounds in which they do.

    `records` says of runs how many records users' messages are of, shape (run, round, user).
    """
    law = partial(stats.binom.cdf, n=records.shape[1], p=chance)
    return audit.distribution(subject, "rounds that a user is in", (records > 0).sum(axis=1), law, 0.5)


def _rounds_with_first(at, owned: list[np.ndarray]) -> np.ndarray:
    """In how many rounds each user's first record is, of rounds `at`; None: no training."""
    if at is None:
        return np.zeros(len(owned), int)
    taken = np.concatenate([rows[:many] for rows, many in zip(at.rows, at.sizes, strict=True)])
    return np.bincount(taken, minlength=owned[-1][-1] + 1)[[mine[0] for mine in owned]]


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
