"""Trainings of realizations by the tables of `receive`: what they begin with, and rows of `history`."""

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
from pwfl.training.sent import apart

log = logging.getLogger(__name__)


class Server(NamedTuple):
    """How the server's model steps: by how much in each round; all else is as in `Loop`."""

    steps: Callable[[Reception], np.ndarray]  # (round,)
    summed: Callable | None = None
    decided: Callable | None = None


class Parts(NamedTuple):
    """What a system trains by.

    Attributes
    ----------
    stops
        The rounds after which models are evaluated, from 0 on.
    columns
        Columns of `history` that a learner measures, by `Start` and `Course.sums`.
    size
        About how many bytes of a GPU's memory a realization takes.
    """

    learner: Learner
    server: Server
    stops: Sequence[int]
    columns: Callable[["Start", np.ndarray], dict]
    size: float


class Start(NamedTuple):
    """What a realization's training goes by, in NumPy arrays; `own` and `at` are the learner's."""

    realization: int
    weights: Sequence[np.ndarray]
    own: Any
    at: Any
    noise_std: Any  # None, as steps, where nobody trains
    key: np.int64
    steps: Any
    owned: list[np.ndarray]  # places in the training data of each user's records
    reception: Reception


# What `pwfl.system.Trainers` holds.
OneByOne = Callable[[Any, Any, dict[str, pl.DataFrame]], Callable[[int], pl.DataFrame]]
SideBySide = Callable[[Any, Any, dict[str, pl.DataFrame]], tuple[Callable[[list[int]], dict[int, pl.DataFrame]], float]]
NO_NOISE = np.int64(0)  # the key of noise that is none
TENSORS = ("weights", *Inputs._fields)


class Training(NamedTuple):
    """What trains the realizations of some tables, and what an audit taps."""

    parts: Parts
    loop: Loop
    begin: Callable[..., Start]
    data: Any  # as the learner has them
    tested: tuple[int, ...]

    def train(self, begun: Sequence[Start]) -> list[Course]:
        """Train some realizations side by side; of one alone, on a CPU, arrays have no axis of realizations."""
        several = self._several(begun)
        history = train_function(self.loop, several, tuple(self.parts.stops), self.tested)
        count, *found = (part.numpy() for part in history(*self._tensors(begun, several), self.data))
        found = [part[:count] for part in found]
        if not several:
            return [Course(*found)]
        return [Course(*(part[:length, b] for part in found)) for b, length in enumerate(lengths(found[1].T))]

    def tap(
        self,
        begun: Sequence[Start],
        stays: bool = False,
        rounds: int | None = None,
        places: Sequence[np.ndarray] | None = None,
    ) -> tuple[list, list]:
        """What the server receives, arrays (round, realization, ...), and its weights at the end.

        Parameters
        ----------
        begun
            Realizations; where there is one alone, its axis is missing.
        stays
            The training goes on by zeros in place of what is received, so that its model stays.
        rounds
            How many are played, the first ones; None: all.
        places
            Which of its coordinates are kept of each tensor, which then are in one axis, (place,); None: all.
        """
        several, played = self._several(begun), rounds or self.loop.length * self.loop.intervals
        kept = None if places is None else [tf.constant(part) for part in places]
        tap = tap_function(self.loop, several, played if self.loop.compiled else None)
        # By tensors, so that one graph serves for any number of rounds, whether or not the model stays.
        how = tf.constant(played), Tap(tf.constant(not stays), kept)
        found = tap(*self._tensors(begun, several), self.data, *how)
        heard, weights = ([part.numpy() for part in each] for each in found)
        return heard, weights

    def over(self, data: datasets.Dataset) -> "Training":
        """The same of other data, of which users hold as many records at the same places."""
        return self._replace(data=self.parts.learner.tensors(data), tested=data.x_test.shape)

    def _tensors(self, begun: Sequence[Start], several: bool) -> tuple[list[tf.Tensor], Inputs]:
        """The weights and inputs of some realizations."""
        weights, *rest = given(begun, several, self.loop.compiled)
        return weights, Inputs(*rest)

    def _several(self, begun: Sequence[Start]) -> bool:
        """Whether arrays have an axis of realizations."""
        return self.loop.compiled or len(begun) > 1


def lengths(losses: np.ndarray) -> list[int]:
    """Of how many evaluations each training is: up to the first loss that is not finite; (realization, evaluation)."""
    ended = ~np.isfinite(losses)
    return np.where(ended.any(axis=1), ended.argmax(axis=1) + 1, losses.shape[1]).tolist()


def given(begun: Sequence[Any], several: bool, compiled: bool, names: Sequence[str] = TENSORS) -> list:
    """What some realizations go by as tensors, by their `names`; shorter arrays are filled up with zeros."""
    if not several:
        return tf.nest.map_structure(tf.constant, [getattr(begun[0], name) for name in names])
    return [side_by_side([getattr(start, name) for start in begun], compiled) for name in names]


def key_of(scenario, realization: int, purpose: str = "noise") -> np.int64:
    """The key of the noise of a realization's training."""
    return np.int64(streams.key(*streams.name_noise(scenario, realization, purpose)))


def beginnings(
    scenario,
    data: datasets.Dataset,
    users: pl.DataFrame,
    start: Callable[[Callable[[], np.random.Generator]], list[np.ndarray]],
    deal: Callable[[np.ndarray, int], list[np.ndarray]] | None = None,
    key: str = "user",
) -> Callable[[int], tuple[list[np.ndarray], list[np.ndarray]]]:
    """A function of a realization: the places in the training data of each user's records, and a model's start weights.

    Both are drawn by streams of their own, the same for all schemes. `start` is a model's. `deal(samples, realization)`
    says which records users hold, instead of `partition.deal_out` by `scenario.data`. `key` is the column of users.
    """
    of_each = users.partition_by("realization", as_dict=True)

    def begin(realization: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
        samples = of_each[realization,].sort(key)["samples"].to_numpy()
        if deal is None:
            owned = partition.deal_out(scenario.data, data.y_train, samples, scenario.seed, realization, data.users)
        else:
            owned = deal(samples, realization)
        return owned, start(partial(streams.generator, scenario.seed, "weights", realization))

    return begin


def training(
    parts: Parts,
    scenario,
    data: datasets.Dataset,
    tables: dict,
    compiled: bool = False,
    deal: Callable[[np.ndarray, int], list[np.ndarray]] | None = None,
) -> Training:
    """What trains a scenario's realizations by its tables `users`, `reception` and `reception_noise`.

    `deal` is that of `beginnings`.
    """
    server, noise, bands = parts.server, tables["reception_noise"], bands_of(tables["reception"])
    if bands:
        parts = parts._replace(learner=cast(Learner, ByBand(parts.learner)))
    learner, length, intervals = parts.learner, noise["rounds"][0], noise["interval"].n_unique()
    loop = Loop(learner, length, intervals, server.summed, compiled, bands, server.decided)
    reception_of = receptions(tables)
    begun = beginnings(scenario, data, tables["users"], learner.start, deal)

    def begin(realization: int, view: Callable[[Reception], Reception] | None = None) -> Start:
        """With `view`, what is received is another reception, such as an observer's; steps stay the server's."""
        (owned, weights), reception = begun(realization), reception_of(realization)
        if reception.status:
            return Start(realization, weights, None, None, None, NO_NOISE, None, owned, reception)
        steps, received = server.steps(reception).astype(np.float32), view(reception) if view else reception
        own, at = learner.inputs(received, owned, scenario.seed, realization)
        # Noise that is none draws nothing.
        key = key_of(scenario, realization) if received.noise_std.any() or server.summed else NO_NOISE
        std = received.band_noise_std if bands else received.noise_std
        if apart(learner):  # users' noise is in their messages
            std = received.receiver_std
        return Start(realization, weights, own, at, std.astype(np.float32), key, steps, owned, received)

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
            begun = [used.begin(realization) for realization in realizations]
            trained = [start for start in begun if start.reception.status is None]
            courses = iter(used.train(trained) if trained else [])
            return {s.realization: table(s, None if s.reception.status else next(courses)) for s in begun}

        return train_all, parts.size

    return both_trainers(build_trainer)


def evaluation_rounds(rounds: int, every: int) -> list[int]:
    """The rounds after which the model is evaluated: 0 (start), 1, multiples of `every`, the last."""
    return sorted({0, 1, rounds, *range(every, rounds + 1, every)})


def history_table(
    used: Training, data: datasets.Dataset, tables: dict
) -> Callable[[Start, Course | None], pl.DataFrame]:
    """A function that makes a realization's rows of `history` of its training, None where it is not trained."""
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
        samples = sum(len(start.owned[user]) for user in np.flatnonzero(sends))
        log.info(
            "realization %d: %d users, %d samples, %s, accuracy %.4f",
            *(start.realization, sends.sum(), samples, status, accuracies[-1, 0]),
        )
        held = partition.held(data.y_train, start.owned, accuracies.shape[1] - 1)
        found = {"round": done, "accuracy": accuracies[:, 0], "loss": losses} | columns(start, sums)
        found |= partition.user_accuracies(accuracies[:, 1:], held) | spent(start.realization, done)
        lacking = ("accuracy", "loss") if status == "noise_infeasible" else ()  # NaN where it diverged
        null = pl.col(lacking + partition.USER_ACCURACIES).fill_nan(None)
        return pl.DataFrame(found).with_columns(null, realization=pl.lit(start.realization), status=pl.lit(status))

    return table


def clipped_share(start: Start, sums: np.ndarray) -> dict[str, pl.Series]:
    """The column of how many of all were clipped since the evaluation before; null of none."""
    with np.errstate(invalid="ignore"):
        return {"clipped_share": pl.Series(np.divide(*sums.T, dtype=np.float32)).fill_nan(None).cast(pl.Float64)}


def spent_function(tables: dict) -> Callable[[int, Sequence[int]], dict]:
    """A function of a realization and numbers of rounds: columns of seconds and joules up to each."""
    noise = tables["reception_noise"].sort("realization", "interval").partition_by("realization", as_dict=True)

    def spent(realization: int, done: Sequence[int]) -> dict:
        frame, found = noise[realization,], {}
        length = frame["rounds"][0]
        interval, into = np.divmod(done, length)
        for name, column in (("air_seconds", "seconds"), ("transmit_energy_j", "joules")):
            if frame[column].null_count():
                found[f"{name}_cumulative"] = pl.Series([None] * len(done), dtype=pl.Float64)
                continue
            each = frame[column].to_numpy() * length
            before = np.append(0.0, each.cumsum())[interval]
            found[f"{name}_cumulative"] = before + into / length * np.append(each, 0.0)[interval]
        return found

    return spent
