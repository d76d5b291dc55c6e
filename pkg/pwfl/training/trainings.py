"""Train realizations by the tables of the stage `receive`, and make the rows of `history`.

1. `training` joins a system's `Parts` (learner, server, evaluations) with data and tables to a `Training`.
2. `Training.begin(realization)` makes the arrays of one realization, a `Start`.
3. `Training.train(starts)` runs all rounds (`rounds.train_function`); `Training.tap(starts)` runs them for audits and
   returns the server's update of each round.
4. `history_table` makes the rows of `history`. `trainers` does all this for a system's stage `train`.

"Realization" is one Monte Carlo draw of network and users; "interval" a coherence interval of several rounds. Rounds,
intervals, users and records are counted from 0. Arrays of several realizations have the realization in axis 0.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
import polars as pl

from pwfl import streams
from pwfl.learning import datasets, partition
from pwfl.process.tensorflow import tf
from pwfl.tables.reception import Reception, bands_of, receptions
from pwfl.training.bands import ByBand
from pwfl.training.batching import side_by_side
from pwfl.training.rounds import Course, Inputs, Learner, Loop, Tap, tap_function, train_function
from pwfl.training.sent import is_by_user

log = logging.getLogger(__name__)


class Server(NamedTuple):
    """How the server updates its model: w <- w - steps[t] update[t] in round t.

    Attributes
    ----------
    steps
        `steps(reception)` returns a realization's step sizes, shape (round,).
    summed
        Function that computes the update from messages sent as integers (`Loop.summed`), as `integers.summed(bits)`
        returns it; None: messages are real numbers.
    decided
        Function that computes the update from each sender's noisy message (`Loop.decided`), as `sent.majority`; None:
        the update is their weighted sum.
    """

    steps: Callable[[Reception], np.ndarray]
    summed: Callable | None = None
    decided: Callable | None = None


class Parts(NamedTuple):
    """What a system defines of its training.

    Attributes
    ----------
    learner
        What users compute from their records (`rounds.Learner`).
    server
        How the server updates its model.
    stops
        Numbers of rounds after which the model is evaluated, increasing; the first is 0, the start parameters
        (`evaluation_rounds`).
    columns
        `columns(start, sums)` returns additional columns of `history` by name, of shape (evaluation,). `sums` is
        `Course.sums`, shape (evaluation, `learner.measured`).
    size
        Approximate GPU memory of training one realization, in bytes. It decides how many are trained together.
    """

    learner: Learner
    server: Server
    stops: Sequence[int]
    columns: Callable[["Start", np.ndarray], dict]
    size: float


class Start(NamedTuple):
    """The NumPy arrays from which one realization is trained.

    If the realization is not trained (`Reception.status`), `fixed`, `varying`, `noise_std` and `steps` are None.

    Attributes
    ----------
    realization
        Its number.
    weights
        The model's start parameters, float32, one array per tensor of the model.
    fixed, varying
        The learner's inputs, two named tuples (`Learner.inputs`). `fixed` is the same in all rounds; the arrays of
        `varying` have the interval in axis 0.
    noise_std
        Standard deviation of the noise in each coordinate of the server's update, float32, shape (interval,) or, if
        coordinate bands differ, (interval, band). Only the receiver's noise if the learner leaves users' noise to
        `rounds.receive_messages` (`sent.is_by_user`).
    key
        Key of the noise's random number stream, int64 (`batching.Draws`); `NO_NOISE` if no noise is drawn.
    steps
        The server's step sizes, float32, shape (round,).
    user_records
        One array per user: the indices of its records in the training data, shape (record,).
    reception
        What the server receives: weights, noise and senders of each interval.
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


# The types of the functions `trainer` and `batch_trainer` of `pwfl.system.Trainers`; see `both_trainers`.
OneByOne = Callable[[Any, Any, dict[str, pl.DataFrame]], Callable[[int], pl.DataFrame]]
SideBySide = Callable[[Any, Any, dict[str, pl.DataFrame]], tuple[Callable[[list[int]], dict[int, pl.DataFrame]], float]]
NO_NOISE = np.int64(0)  # the key where no noise is drawn
TENSORS = ("weights", *Inputs._fields)


class Training(NamedTuple):
    """The training of a scenario's realizations, which `trainers` runs and audits tap.

    Attributes
    ----------
    parts
        Learner, server and evaluations.
    loop
        What determines the graph of rounds.
    begin
        `begin(realization, view=None)` returns a realization's `Start`. A `view` is a function that maps the server's
        reception to an observer's; messages and noise then follow the observer's, step sizes the server's.
    data
        Training and test data as a named tuple of tensors (`Learner.tensors`).
    tested
        Shape of the test features, (record, feature).
    """

    parts: Parts
    loop: Loop
    begin: Callable[..., Start]
    data: Any
    tested: tuple[int, ...]

    def train(self, starts: Sequence[Start]) -> list[Course]:
        """Train realizations as one batch and return the evaluations of each, in the same order."""
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
        """Return the server's update of each round and its model parameters after the last round.

        The result is `(updates, weights)`, two lists with one array per tensor of the model: of shape (round,
        realization, ...) and (realization, ...). The axis of realizations is missing if `starts` has one element and
        the loop is not compiled. Updates are not yet multiplied by the step size.

        Parameters
        ----------
        starts
            The realizations.
        stays
            Whether the model keeps its start parameters in all rounds: the server steps along zeros instead of its
            update.
        rounds
            Number of rounds, from the first on; None: all.
        places
            One array per tensor of the model: the flat indices of the coordinates to return, shape (index,), which
            replaces the tensor's axes in `updates`; None: all coordinates.
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
        """Return the same training on another data set of the same sizes; users hold records of the same indices."""
        return self._replace(data=self.parts.learner.tensors(data), tested=data.x_test.shape)

    def _tensors(self, starts: Sequence[Start], several: bool) -> tuple[list[tf.Tensor], Inputs]:
        """Return start parameters and `Inputs` of realizations as tensors."""
        weights, *rest = stack_starts(starts, several, self.loop.compiled)
        return weights, Inputs(*rest)

    def _several(self, starts: Sequence[Start]) -> bool:
        """Return whether tensors have an axis of realizations: always if compiled, else if there are several."""
        return self.loop.compiled or len(starts) > 1


def count_evaluations(losses: np.ndarray) -> list[int]:
    """Count each realization's evaluations up to its first loss that is not finite, this one included.

    `losses` has shape (realization, evaluation).
    """
    ended = ~np.isfinite(losses)
    return np.where(ended.any(axis=1), ended.argmax(axis=1) + 1, losses.shape[1]).tolist()


def stack_starts(starts: Sequence[Any], several: bool, compiled: bool, names: Sequence[str] = TENSORS) -> list:
    """Make tensors of some fields of each realization's `Start`.

    Parameters
    ----------
    starts
        One `Start`, or another named tuple of arrays, for each realization.
    several
        Whether tensors have the realization in axis 0. Arrays of realizations are then padded with zeros to one shape
        (`batching.side_by_side`). Otherwise only the first start is used.
    compiled
        Whether the training is compiled by XLA: axes of records are then padded to one of few sizes.
    names
        The fields, in the order of the result.
    """
    if not several:
        return tf.nest.map_structure(tf.constant, [getattr(starts[0], name) for name in names])
    return [side_by_side([getattr(start, name) for start in starts], compiled) for name in names]


def key_of(scenario, realization: int, purpose: str = "noise") -> np.int64:
    """Return the key of a random number stream for a realization's noise.

    It follows from the scenario's seed, its `release` (`streams.name_noise`), the realization and the name `purpose`.
    """
    return np.int64(streams.key(*streams.name_noise(scenario, realization, purpose)))


def beginnings(
    scenario,
    data: datasets.Dataset,
    users: pl.DataFrame,
    start: Callable[[Callable[[], np.random.Generator]], list[np.ndarray]],
    deal: Callable[[np.ndarray, int], list[np.ndarray]] | None = None,
    key: str = "user",
) -> Callable[[int], tuple[list[np.ndarray], list[np.ndarray]]]:
    """Return a function that assigns a realization's records to users and draws the model's start parameters.

    The function maps a realization to `(user_records, weights)`: one array of indices in the training data per user,
    shape (record,), and one float32 array per tensor of the model. Both depend on the seed and the realization alone,
    so they are the same for all schemes.

    Parameters
    ----------
    scenario
        Its `seed` and section `data` are used.
    data
        Training and test data.
    users
        The table `users`, one row per realization and user. Its column `samples` is the user's number of records.
    start
        `start(draws)` returns the start parameters (`Learner.start`).
    deal
        `deal(samples, realization)` returns the users' record indices for numbers of records `samples`, shape (user,);
        None: `partition.deal_out` by the section `data`.
    key
        Name of the column with the user's number, by which rows are sorted; utility_fair's tables call it `device`.
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
    """Build the training of a scenario from a system's parts, data and tables.

    Parameters
    ----------
    parts
        Learner, server and evaluations.
    scenario
        Its `seed`, `release` and section `data` are used.
    data
        Training and test data.
    tables
        By name; `users`, `reception` and `reception_noise` are used. Each interval has the same number of rounds.
    compiled
        Whether XLA compiles the rounds, for a GPU.
    deal
        As in `beginnings`.
    """
    server, noise, bands = parts.server, tables["reception_noise"], bands_of(tables["reception"])
    if bands:
        parts = parts._replace(learner=cast(Learner, ByBand(parts.learner)))
    learner, length, intervals = parts.learner, noise["rounds"][0], noise["interval"].n_unique()
    loop = Loop(learner, length, intervals, server.summed, compiled, bands, server.decided)
    reception_of = receptions(tables)
    draw_start = beginnings(scenario, data, tables["users"], learner.start, deal)

    def begin(realization: int, view: Callable[[Reception], Reception] | None = None) -> Start:
        """Make the `Start` of a realization; see `Training.begin`."""
        (user_records, weights), reception = draw_start(realization), reception_of(realization)
        if reception.status:
            return Start(realization, weights, None, None, None, NO_NOISE, None, user_records, reception)
        steps, received = server.steps(reception).astype(np.float32), view(reception) if view else reception
        fixed, varying = learner.inputs(received, user_records, scenario.seed, realization)
        # A key other than NO_NOISE only where numbers are drawn; integers are rounded at random without noise, too.
        key = key_of(scenario, realization) if received.noise_std.any() or server.summed else NO_NOISE
        std = received.band_noise_std if bands else received.noise_std
        if is_by_user(learner):  # each user's noise is added to its message
            std = received.receiver_std
        return Start(realization, weights, fixed, varying, std.astype(np.float32), key, steps, user_records, received)

    return Training(parts, loop, begin, learner.tensors(data), data.x_test.shape)


def both_trainers(build_trainer: Callable[..., tuple[Callable, float]]) -> tuple[OneByOne, SideBySide]:
    """Make a system's `trainer` and `batch_trainer` from one function that builds either.

    Parameters
    ----------
    build_trainer
        `build_trainer(scenario, data, tables, compiled)` returns `(train_all, size)`. `train_all(realizations)` trains
        realizations as one batch and returns their rows of `history` by realization; `size` is the approximate GPU
        memory of one realization, in bytes.

    Returns
    -------
    trainer
        `trainer(scenario, data, tables)` returns a function from one realization to its rows of `history`, for a CPU.
    batch_trainer
        `batch_trainer(scenario, data, tables)` returns the `(train_all, size)` of `compiled=True`, for a GPU.
    """

    def trainer(scenario, data: datasets.Dataset, tables: dict) -> Callable[[int], pl.DataFrame]:
        train_all, _ = build_trainer(scenario, data, tables, compiled=False)
        return lambda realization: train_all([realization])[realization]

    def batch_trainer(scenario, data: datasets.Dataset, tables: dict) -> tuple[Callable, float]:
        return build_trainer(scenario, data, tables, compiled=True)

    return trainer, batch_trainer


def trainers(parts_of: Callable[..., Parts]) -> tuple[OneByOne, SideBySide]:
    """Make a system's `trainer` and `batch_trainer` (see `both_trainers`) from its parts.

    `parts_of(scenario, data, tables, compiled)` returns the system's `Parts`. Noise is drawn independently for each
    scheme. The column `status` of `history` is:

    - `trained`;
    - `no_user_scheduled`: nobody sends; the model keeps its start parameters, or follows the receiver's noise alone;
    - `noise_infeasible`: no noise is feasible; the realization is not trained;
    - `diverged`: the loss, or a norm of users' local steps, became infinite or NaN; training stopped there.
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
    """List the numbers of rounds after which the model is evaluated: 0 (start), 1, multiples of `every`, and `rounds`.

    >>> evaluation_rounds(12, every=5)
    [0, 1, 5, 10, 12]
    """
    return sorted({0, 1, rounds, *range(every, rounds + 1, every)})


def history_table(
    used: Training, data: datasets.Dataset, tables: dict
) -> Callable[[Start, Course | None], pl.DataFrame]:
    """Return a function that makes a realization's rows of `history`, one per evaluation.

    The function is `table(start, course)`, where `course` is None if the realization was not trained: the model is then
    evaluated at its start parameters or, if no noise is feasible, accuracy and loss are null.

    Parameters
    ----------
    used
        The training.
    data
        Training and test data.
    tables
        By name; `reception_noise` is used, for airtime and energy.
    """
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
    """Compute the column `clipped_share`: the share of gradients clipped since the previous evaluation.

    For `Parts.columns`. `sums` has shape (evaluation, 2): the number clipped and the number of all. The share is null
    if there were none.
    """
    with np.errstate(invalid="ignore"):
        return {"clipped_share": pl.Series(np.divide(*sums.T, dtype=np.float32)).fill_nan(None).cast(pl.Float64)}


def spent_function(tables: dict) -> Callable[[int, Sequence[int]], dict]:
    """Return a function that computes airtime (s) and radiated energy (J) up to given rounds.

    The function is `spent(realization, done)`; `done` lists numbers of rounds. It returns the columns
    `air_seconds_cumulative` and `transmit_energy_j_cumulative`, of shape (len(done),), null where the table has no
    values. `tables["reception_noise"]` has `seconds` and `joules` per round of each interval.
    """
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
