"""Training of the system `anonymous_oac`: (2) of Hasircioglu and Gunduz, batches that differ from round to round."""

import logging
from collections.abc import Callable

import numpy as np
import polars as pl
import tensorflow as tf

from pwfl import streams
from pwfl.learning import datasets, engine, features, partition, side_by_side
from pwfl.learning.mlp import glorot_uniform
from pwfl.systems.anonymous_oac import together
from pwfl.systems.anonymous_oac.costs import in_turn, spent
from pwfl.systems.anonymous_oac.parameters import AnonymousOac
from pwfl.systems.anonymous_oac.rounds import Start, drawn, history_function
from pwfl.tables.arrays import to_array

log = logging.getLogger(__name__)


def trainer(
    scenario: AnonymousOac, data: datasets.Dataset, tables: dict[str, pl.DataFrame]
) -> Callable[[int], pl.DataFrame]:
    """A function that trains one realization and returns its test accuracy and loss over the rounds.

    A round's update is the sum of the batch's clipped gradients over the table noise's `divisor`, privacy noise and
    channel noise; in a round without records the server, which cannot know, adds the noise it hears. Start weights
    and records come from streams of their own, the same for all schemes; noise is each scheme's own. A loss that
    leaves the finite numbers ends a training, and one in which no record is sent learns nothing; the column `status`
    says so.
    """
    training = scenario.training
    rounds = engine.evaluation_rounds(training.rounds, training.evaluate_every)
    begin, told = starts(scenario, data, tables), history_table(scenario, data, tables)
    history_of = history_function(widths_of(scenario), rounds, training, data)

    def train(realization: int) -> pl.DataFrame:
        start = begin(realization)
        measured = history_of(
            [tf.constant(w) for w in start.weights], sent=start.sent, key=tf.constant(start.key, tf.int64)
        )
        return told(start, *(values.numpy() for values in measured))

    return train


def batch_trainer(
    scenario: AnonymousOac, data: datasets.Dataset, tables: dict[str, pl.DataFrame]
) -> tuple[Callable[[list[int]], dict[int, pl.DataFrame]], float]:
    """As `trainer`, a function that trains some realizations side by side, and how many bytes each takes."""
    begin, told = starts(scenario, data, tables), history_table(scenario, data, tables)
    train = side_by_side.batch_function(begin, together.together(scenario, data), told)
    return train, together.bytes_each(scenario, tables, widths_of(scenario), data.x_test.shape)


def widths_of(scenario: AnonymousOac) -> list[int]:
    """Widths of the network's layers, the input's first."""
    size = features.size(scenario)
    return [size.features, *scenario.training.hidden_layers, size.classes]


def starts(scenario: AnonymousOac, data: datasets.Dataset, tables: dict[str, pl.DataFrame]) -> Callable[[int], Start]:
    """A function that gives what a realization's training begins with."""
    seed, widths = scenario.seed, widths_of(scenario)
    # In turn, uploads are digital: no error.
    channel_noise = 0.0 if in_turn(tables) else scenario.radio.noise_variance
    users = tables["users"].partition_by("realization", as_dict=True)
    schedule = tables["schedule"].partition_by("realization", as_dict=True)
    noise = tables["noise"].partition_by("realization", as_dict=True)

    def begin(realization: int) -> Start:
        samples = to_array(users[realization,], "samples", "user")
        owned = partition.deal_out(scenario.data, data.y_train, samples, seed, realization, data.users)
        taken = schedule.get((realization,), tables["schedule"].clear())
        generator = streams.generator(seed, "records", realization)
        sent = drawn(taken, noise[realization,], samples, generator, channel_noise)
        sent = sent._replace(rows=tf.gather(tf.constant(np.concatenate(owned), tf.int32), sent.rows))
        weights = glorot_uniform(widths, streams.generator(seed, "weights", realization))
        return Start(realization, weights, owned, sent, streams.key(*streams.of_noise(scenario), realization))

    return begin


def history_table(
    scenario: AnonymousOac, data: datasets.Dataset, tables: dict[str, pl.DataFrame]
) -> Callable[[Start, np.ndarray, np.ndarray, np.ndarray], pl.DataFrame]:
    """A function that makes a realization's rows of `history` of accuracies, losses and clipped shares."""
    training, classes = scenario.training, features.size(scenario).classes
    rounds = engine.evaluation_rounds(training.rounds, training.evaluate_every)
    costs = spent(scenario, tables)

    def table(start: Start, accuracies: np.ndarray, losses: np.ndarray, shares: np.ndarray) -> pl.DataFrame:
        learnt = "trained" if len(start.sent.rows) else "no_user_scheduled"
        status, batch = learnt if np.isfinite(losses[-1]) else "diverged", len(start.sent.rows) / training.rounds
        text = "realization %d: %.1f records a round, %s, accuracy %.4f"
        log.info(text, start.realization, batch, status, accuracies[-1, 0])
        columns = {
            "round": rounds[: len(losses)],
            "accuracy": accuracies[:, 0],
            "loss": losses,
            "clipped_share": shares,
        }
        counts = partition.held(data.y_train, start.owned, classes)
        history = pl.DataFrame(columns | partition.user_accuracies(accuracies[:, 1:], counts)).with_columns(
            pl.col("clipped_share", *partition.USER_ACCURACIES).cast(pl.Float64).fill_nan(None),
            realization=pl.lit(start.realization, pl.Int64),
            status=pl.lit(status),
        )
        return history.join(costs, on=("realization", "round"), how="left", maintain_order="left")

    return table
