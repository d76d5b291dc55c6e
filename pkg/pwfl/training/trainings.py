"""Train realizations on what the tables of `receive` say arrives at the server, and make rows of `history`.

`training` joins a system's `Parts` (learner, server, evaluations) with data and tables. `Training.begin` gives the
arrays of one realization (`Start`), `Training.train` runs their rounds (`rounds.train_function`), and `Training.tap`
returns what the server receives in each round, for audits.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
import polars as pl
import tensorflow as tf

from pwfl import streams
from pwfl.learning import datasets, partition
from pwfl.tables.reception import Reception, bands_of, receptions
from pwfl.training.bands import ByBand
from pwfl.training.batching import side_by_side
from pwfl.training.rounds import Course, Inputs, Learner, Loop, Tap, tap_function, train_function
from pwfl.training.sent import is_by_user

log = logging.getLogger(__name__)


class Server(NamedTuple):
    """How the server updates its model: w <- w - step[t] update[t].

    Attributes
    ----------
    steps
        Gives the step sizes of a realization's rounds from its reception, shape (round,).
    summed, decided
        As in `rounds.Loop`; None where the server adds up what it receives.
    """

    steps: Callable[[Reception], np.ndarray]
    summed: Callable | None = None
    decided: Callable | None = None


class Parts(NamedTuple):
    """The parts of a system's training.

    Attributes
    ----------
    learner
        What users compute from their records.
    server
        How the server updates its model.
    stops
        Numbers of rounds after which the model is evaluated, increasing; the first is 0.
    columns
        Gives columns of `history` from a `Start` and `Course.sums`, shape (evaluation, `learner.measured`).
    size
        Approximate GPU memory of one realization, in bytes.
    """

    learner: Learner
    server: Server
    stops: Sequence[int]
    columns: Callable[["Start", np.ndarray], dict]
    size: float


class Start(NamedTuple):
    """The arrays from which one realization trains, in NumPy.

    Attributes
    ----------
    weights
        The model's start parameters, one array for each tensor.
    fixed, varying
        The learner's inputs (`Learner.inputs`): the same in all rounds, and by interval in the first axis. None, as
        `noise_std` and `steps`, if the realization is not trained.
    noise_std
        Standard deviation of the noise in the server's update, float32, shape (interval,) or (interval, band); of the
        receiver's noise alone if each sender adds its own to its message.
    key
        Key of the noise's random numbers; `NO_NOISE` if none are drawn.
    steps
        The server's step sizes, float32, shape (round,).
    user_records
        For each user, the indices of its records in the training data, shape (record,).
    reception
        What arrives at the server.
    """

    realization: int
    weights: Sequence[np.ndarray]
    fixed: Any
    varying: Any
    noise_std: Any
    key: np.int64
    steps: Any
    user_records: list[np.ndarray]
    reception: Reception


# What `pwfl.system.Trainers` holds.
OneByOne = Callable[[Any, Any, dict[str, pl.DataFrame]], Callable[[int], pl.DataFrame]]
SideBySide = Callable[[Any, Any, dict[str, pl.DataFrame]], tuple[Callable[[list[int]], dict[int, pl.DataFrame]], float]]
NO_NOISE = np.int64(0)  # the key of noise that is none
TENSORS = ("weights", *Inputs._fields)


class Training(NamedTuple):
    """The training of a scenario's realizations, which audits tap.

    Attributes
    ----------
    begin
        Gives the `Start` of a realization.
    data
        Training and test data as the learner's tensors (`Learner.tensors`).
    tested
        Shape of the test features, (record, feature).
    """

    parts: Parts
    loop: Loop
    begin: Callable[..., Start]
    data: Any
    tested: tuple[int, ...]

    def train(self, starts: Sequence[Start]) -> list[Course]:
        """Train realizations as one batch; of a single one, not compiled, arrays have no axis of realizations."""
        several = self._several(starts)
        history = train_function(self.loop, several, tuple(self.parts.stops), self.tested)
        count, *found = (part.numpy() for part in history(*self._tensors(starts, several), self.data))
        found = [part[:count] for part in found]
        if not several:
            return [Course(*found)]
        return [Course(*(part[:length, b] for part in found)) for b, length in enumerate(count_evaluations(found[1].T))]

    def tap(
        self,
        starts: Sequence[Start],
        stays: bool = False,
        rounds: int | None = None,
        places: Sequence[np.ndarray] | None = None,
    ) -> tuple[list, list]:
        """Return the server's update of each round, before its step, and its model parameters after the last round.

        Updates have shape (round, realization, ...), one array for each tensor of the model.

        Parameters
        ----------
        starts
            The realizations; the axis of realizations is missing if there is one alone.
        stays
            Whether the model keeps its start parameters: the server steps along zeros in place of its update.
        rounds
            Number of rounds, from the first on; None: all.
        places
            For each tensor, the flat indices of the coordinates to return, then in one axis, (index,); None: all.
        """
        several, played = self._several(starts), rounds or self.loop.length * self.loop.intervals
        kept = None if places is None else [tf.constant(part) for part in places]
        tap = tap_function(self.loop, several, played if self.loop.compiled else None)
        # By tensors, so that one graph serves for any number of rounds, whether or not the model stays.
        how = tf.constant(played), Tap(tf.constant(not stays), kept)
        result = tap(*self._tensors(starts, several), self.data, *how)
        updates, weights = ([part.numpy() for part in tensors] for tensors in result)
        return updates, weights

    def over(self, data: datasets.Dataset) -> "Training":
        """Replace the data by others with as many records, which users hold at the same indices."""
        return self._replace(data=self.parts.learner.tensors(data), tested=data.x_test.shape)

    def _tensors(self, starts: Sequence[Start], several: bool) -> tuple[list[tf.Tensor], Inputs]:
        """Make tensors of the weights and inputs of realizations."""
        weights, *rest = stack_starts(starts, several, self.loop.compiled)
        return weights, Inputs(*rest)

    def _several(self, starts: Sequence[Start]) -> bool:
        """Whether arrays have an axis of realizations."""
        return self.loop.compiled or len(starts) > 1


def count_evaluations(losses: np.ndarray) -> list[int]:
    """Count evaluations up to each realization's first infinite or NaN loss, by losses (realization, evaluation)."""
    ended = ~np.isfinite(losses)
    return np.where(ended.any(axis=1), ended.argmax(axis=1) + 1, losses.shape[1]).tolist()


def stack_starts(starts: Sequence[Any], several: bool, compiled: bool, names: Sequence[str] = TENSORS) -> list:
    """Make tensors of the fields `names` of realizations, with an axis of realizations if `several`.

    Arrays of realizations are padded with zeros to one shape (`batching.side_by_side`).
    """
    if not several:
        return tf.nest.map_structure(tf.constant, [getattr(starts[0], name) for name in names])
    return [side_by_side([getattr(start, name) for start in starts], compiled) for name in names]


def key_of(scenario, realization: int, purpose: str = "noise") -> np.int64:
    """Derive the key of the noise of a realization's training from its release, a purpose and the seed."""
    return np.int64(streams.key(*streams.name_noise(scenario, realization, purpose)))


def beginnings(
    scenario,
    data: datasets.Dataset,
    users: pl.DataFrame,
    start: Callable[[Callable[[], np.random.Generator]], list[np.ndarray]],
    deal: Callable[[np.ndarray, int], list[np.ndarray]] | None = None,
    key: str = "user",
) -> Callable[[int], tuple[list[np.ndarray], list[np.ndarray]]]:
    """Return a function of a realization that draws the indices of users' records and the model's start weights.

    Both are drawn by streams of their own, the same for all schemes. `start` is a model's. `deal(samples, realization)`
    says which records users hold, instead of `partition.deal_out` by `scenario.data`. `key` is the column of users.
    """
    users_by_run = users.partition_by("realization", as_dict=True)

    def begin(realization: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
        samples = users_by_run[realization,].sort(key)["samples"].to_numpy()
        if deal is None:
            user_records = partition.deal_out(
                scenario.data, data.y_train, samples, scenario.seed, realization, data.users
            )
        else:
            user_records = deal(samples, realization)
        return user_records, start(partial(streams.generator, scenario.seed, "weights", realization))

    return begin


def training(
    parts: Parts,
    scenario,
    data: datasets.Dataset,
    tables: dict,
    compiled: bool = False,
    deal: Callable[[np.ndarray, int], list[np.ndarray]] | None = None,
) -> Training:
    """Build the training of a scenario from its tables `users`, `reception` and `reception_noise`.

    `compiled`: by XLA, for a GPU. `deal`: see `beginnings`.
    """
    server, noise, bands = parts.server, tables["reception_noise"], bands_of(tables["reception"])
    if bands:
        parts = parts._replace(learner=cast(Learner, ByBand(parts.learner)))
    learner, length, intervals = parts.learner, noise["rounds"][0], noise["interval"].n_unique()
    loop = Loop(learner, length, intervals, server.summed, compiled, bands, server.decided)
    reception_of = receptions(tables)
    draw_start = beginnings(scenario, data, tables["users"], learner.start, deal)

    def begin(realization: int, view: Callable[[Reception], Reception] | None = None) -> Start:
        """Make the `Start` of a realization; `view` changes its reception to an observer's, but not the step sizes."""
        (user_records, weights), reception = draw_start(realization), reception_of(realization)
        if reception.status:
            return Start(realization, weights, None, None, None, NO_NOISE, None, user_records, reception)
        steps, received = server.steps(reception).astype(np.float32), view(reception) if view else reception
        fixed, varying = learner.inputs(received, user_records, scenario.seed, realization)
        # Noise that is none draws nothing.
        key = key_of(scenario, realization) if received.noise_std.any() or server.summed else NO_NOISE
        std = received.band_noise_std if bands else received.noise_std
        if is_by_user(learner):  # users' noise is in their messages
            std = received.receiver_std
        return Start(realization, weights, fixed, varying, std.astype(np.float32), key, steps, user_records, received)

    return Training(parts, loop, begin, learner.tensors(data), data.x_test.shape)


def both_trainers(build_trainer: Callable[..., tuple[Callable, float]]) -> tuple[OneByOne, SideBySide]:
    """A system's `trainer` and `batch_trainer`, by `build_trainer(scenario, data, tables, compiled)`.

    This gives a function that trains some realizations and returns the rows of `history` of each, and about how many
    bytes of a GPU's memory each takes. `trainer` gives a function of one realization, on a CPU; `batch_trainer` one
    of several side by side, compiled, and how many bytes each takes.
    """

    def trainer(scenario, data: datasets.Dataset, tables: dict) -> Callable[[int], pl.DataFrame]:
        train_all, _ = build_trainer(scenario, data, tables, compiled=False)
        return lambda realization: train_all([realization])[realization]

    def batch_trainer(scenario, data: datasets.Dataset, tables: dict) -> tuple[Callable, float]:
        return build_trainer(scenario, data, tables, compiled=True)

    return trainer, batch_trainer


def trainers(parts_of: Callable[..., Parts]) -> tuple[OneByOne, SideBySide]:
    """A system's `trainer` and `batch_trainer` (`both_trainers`), by `parts_of(scenario, data, tables, compiled)`.

    Noise is each scheme's own. A realization to which nobody sends keeps its start weights; one without feasible noise
    is not trained; one whose loss leaves the finite numbers stops there. The column `status` says so.
    """

    def build_trainer(scenario, data, tables, compiled: bool) -> tuple[Callable[[Iterable[int]], dict], float]:
        parts = parts_of(scenario, data, tables, compiled)
        used = training(parts, scenario, data, tables, compiled)
        table = history_table(used, data, tables)

        def train_all(realizations: Iterable[int]) -> dict[int, pl.DataFrame]:
            starts = [used.begin(realization) for realization in realizations]
            trained = [start for start in starts if start.reception.status is None]
            courses = iter(used.train(trained) if trained else [])
            return {s.realization: table(s, None if s.reception.status else next(courses)) for s in starts}

        return train_all, parts.size

    return both_trainers(build_trainer)


def evaluation_rounds(rounds: int, every: int) -> list[int]:
    """List the numbers of rounds after which the model is evaluated: 0 (start), 1, multiples of `every`, the last."""
    return sorted({0, 1, rounds, *range(every, rounds + 1, every)})


def history_table(
    used: Training, data: datasets.Dataset, tables: dict
) -> Callable[[Start, Course | None], pl.DataFrame]:
    """Return a function that makes a realization's rows of `history` from its `Course`, None if it was not trained."""
    spent, (learner, _, stops, columns, _) = spent_function(tables), used.parts

    def untrained(start: Start) -> Course:
        accuracies, loss = (
            value.numpy() for value in learner.evaluate([tf.constant(w) for w in start.weights], used.data)
        )
        count = 1 if start.reception.status == "noise_infeasible" else len(stops)
        course = Course(
            np.tile(accuracies, (count, 1)), np.repeat(loss, count), np.zeros((count, learner.measured), "f4")
        )
        if start.reception.status == "noise_infeasible":
            return Course(*(np.full_like(part, np.nan) for part in course))
        return course

    def table(start: Start, course: Course | None) -> pl.DataFrame:
        status, (accuracies, losses, sums) = start.reception.status, course or untrained(start)
        accuracies, losses, done = accuracies.astype(float), losses.astype(float), list(stops[: len(losses)])
        learnt = "trained" if start.reception.planned_senders.any() else "no_user_scheduled"
        status = status or (learnt if np.isfinite(losses[-1]) else "diverged")
        sends = start.reception.sends.any(axis=0)
        samples = sum(len(start.user_records[user]) for user in np.flatnonzero(sends))
        log.info(
            "realization %d: %d users, %d samples, %s, accuracy %.4f",
            *(start.realization, sends.sum(), samples, status, accuracies[-1, 0]),
        )
        held = partition.held(data.y_train, start.user_records, accuracies.shape[1] - 1)
        history = {"round": done, "accuracy": accuracies[:, 0], "loss": losses} | columns(start, sums)
        history |= partition.user_accuracies(accuracies[:, 1:], held) | spent(start.realization, done)
        lacking = ("accuracy", "loss") if status == "noise_infeasible" else ()  # NaN where it diverged
        null = pl.col(lacking + partition.USER_ACCURACIES).fill_nan(None)
        return pl.DataFrame(history).with_columns(null, realization=pl.lit(start.realization), status=pl.lit(status))

    return table


def clipped_share(start: Start, sums: np.ndarray) -> dict[str, pl.Series]:
    """Compute the share of messages clipped since the previous evaluation; null if there were none.

    `sums`, shape (evaluation, 2), counts clipped ones, and all.
    """
    with np.errstate(invalid="ignore"):
        return {"clipped_share": pl.Series(np.divide(*sums.T, dtype=np.float32)).fill_nan(None).cast(pl.Float64)}


def spent_function(tables: dict) -> Callable[[int, Sequence[int]], dict]:
    """A function of a realization and numbers of rounds: columns of seconds and joules up to each."""
    noise = tables["reception_noise"].sort("realization", "interval").partition_by("realization", as_dict=True)

    def spent(realization: int, done: Sequence[int]) -> dict:
        frame, totals = noise[realization,], {}
        length = frame["rounds"][0]
        interval, into = np.divmod(done, length)
        for name, column in (("air_seconds", "seconds"), ("transmit_energy_j", "joules")):
            if frame[column].null_count():
                totals[f"{name}_cumulative"] = pl.Series([None] * len(done), dtype=pl.Float64)
                continue
            per_interval = frame[column].to_numpy() * length
            before = np.append(0.0, per_interval.cumsum())[interval]
            totals[f"{name}_cumulative"] = before + into / length * np.append(per_interval, 0.0)[interval]
        return totals

    return spent
