"""Algorithm 1 of Tavangaran et al.: two-level federated learning with clipping and noise."""

import logging
from collections.abc import Callable

import numpy as np
import polars as pl
import tensorflow as tf

from pwfl import streams
from pwfl.learning import datasets, engine, features, partition, side_by_side
from pwfl.systems.multicell import together
from pwfl.systems.multicell.beyond.costs import interval_costs
from pwfl.systems.multicell.parameters import Multicell
from pwfl.systems.multicell.rounds import history_function, model_of
from pwfl.systems.multicell.start import Course, Start, periods, starts

log = logging.getLogger(__name__)


def trainer(
    scenario: Multicell, data: datasets.Dataset, tables: dict[str, pl.DataFrame]
) -> Callable[[int], pl.DataFrame]:
    """A function that trains one realization and returns its test accuracy and loss over the rounds.

    Every realization starts from weights and shares out data by streams of its own, the same for all schemes; noise is
    each scheme's own. One where nobody is scheduled keeps its start weights; one without feasible noise, in one of its
    intervals, is not trained; one whose loss leaves the finite numbers stops there. The column `status` says so.
    """
    begin, told, alone = (
        starts(scenario, data, tables),
        history_table(scenario, data, tables),
        single(scenario, data, tables),
    )

    def train(realization: int) -> pl.DataFrame:
        start = begin(realization)
        return told(start, None if start.status else alone(start))

    return train


def batch_trainer(
    scenario: Multicell, data: datasets.Dataset, tables: dict[str, pl.DataFrame]
) -> tuple[Callable[[list[int]], dict[int, pl.DataFrame]], float]:
    """As `trainer`, a function that trains some realizations side by side, and how many bytes each takes.

    Raises NotImplementedError for what cannot be trained side by side.
    """
    given = scenario, data, tables
    of_trained = together.together(*given)

    def train_all(begun: list[Start]) -> list[tuple[Course | None]]:
        trained = [start for start in begun if start.status is None]
        courses = iter(of_trained(trained) if trained else [])
        return [(None if start.status else next(courses),) for start in begun]

    train = side_by_side.batch_function(starts(*given), train_all, history_table(*given))
    return train, together.bytes_each(*given)


def single(scenario: Multicell, data: datasets.Dataset, tables: dict[str, pl.DataFrame]) -> Callable[[Start], Course]:
    """A function that trains one realization."""
    training, size = scenario.training, features.size(scenario)
    rounds = engine.evaluation_rounds(training.rounds, training.evaluate_every)
    x_train, x_test, y_test = tf.constant(data.x_train), tf.constant(data.x_test), tf.constant(data.y_test)
    count = periods(scenario, tables)
    history_of = history_function(size, rounds, count, training, x_test, y_test)

    def train(start: Start) -> Course:
        senders, steps, mine = start.senders(training)
        evaluated = history_of(
            [tf.constant(w) for w in start.weights],
            x=tf.gather(x_train, mine),
            y=tf.constant(data.y_train[mine]),
            senders=senders,
            step_sizes=tf.constant(steps, tf.float32),
            key=tf.constant(streams.key(*streams.of_noise(scenario), start.realization), tf.int64),
        )
        return Course(*(values.numpy() for values in evaluated))

    return train


def history_table(
    scenario: Multicell, data: datasets.Dataset, tables: dict[str, pl.DataFrame]
) -> Callable[[Start, Course | None], pl.DataFrame]:
    """A function that makes a realization's rows of `history` of its training, None where it is not trained."""
    training, size = scenario.training, features.size(scenario)
    rounds = engine.evaluation_rounds(training.rounds, training.evaluate_every)
    x_test, y_test = tf.constant(data.x_test), tf.constant(data.y_test)
    spent_of = interval_costs(scenario, tables).partition_by("realization", as_dict=True)
    _, evaluate = model_of(training, size)

    def untrained(start: Start) -> tuple[np.ndarray, list]:
        if start.status == "noise_infeasible":
            return np.full((1, 1 + size.classes), np.nan), [(0, None, None, None)]
        accuracies, loss = (value.numpy() for value in evaluate(start.weights, x_test, y_test))
        each = [(t, float(accuracies[0]), float(loss), None) for t in rounds]
        return np.tile(accuracies, (len(rounds), 1)), each

    def table(start: Start, course: Course | None) -> pl.DataFrame:
        if course is None:
            accuracies, history = untrained(start)
            status = start.status
        else:
            accuracies = course.accuracies
            columns = (accuracies[:, 0], course.losses, course.clipped)
            history = list(zip(rounds, *(values.tolist() for values in columns), strict=False))
            status = "trained" if np.isfinite(history[-1][2]) else "diverged"
        sends = start.scheduled.any(axis=0)
        told = (start.realization, sends.sum(), start.samples[sends].sum(), status, history[-1][1])
        log.info("realization %d: %d users, %d samples, %s, accuracy %s", *told)
        rows = [(start.realization, *row, status) for row in history]
        frame = pl.DataFrame(rows, schema=engine.HISTORY, orient="row")
        held = partition.held(data.y_train, start.rows, size.classes)
        frame = frame.with_columns(**partition.user_accuracies(accuracies[:, 1:], held))
        frame = frame.with_columns(pl.col("clipped_share", *partition.USER_ACCURACIES).fill_nan(None))
        done, spent = frame["round"].to_numpy(), spent_of[start.realization,]
        return frame.with_columns(
            so_far(done, training.rounds, spent[cost].to_numpy()).alias(f"{cost}_so_far")
            for cost in ("air_seconds", "transmit_energy_j")
        )

    return table


def so_far(done: np.ndarray, rounds: int, spent: np.ndarray) -> pl.Series:
    """What a training has spent after some numbers of its rounds, by what the rounds of each interval spend."""
    interval, into = np.divmod(done, rounds // len(spent))
    before = np.concatenate([[0.0], spent.cumsum()])
    return pl.Series(before[interval] + into / (rounds // len(spent)) * np.append(spent, 0.0)[interval])
