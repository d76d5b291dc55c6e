"""Training of the system `anonymous_oac`: (2) of Hasircioglu and Gunduz, batches that differ from round to round."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import tensorflow as tf

from pwfl import streams
from pwfl.learning import datasets, engine, features, partition
from pwfl.learning.mlp import glorot_uniform
from pwfl.systems.anonymous_oac.costs import in_turn, spent
from pwfl.systems.anonymous_oac.rounds import drawn, history_function
from pwfl.tables.arrays import to_array

if TYPE_CHECKING:
    from pwfl.systems.anonymous_oac.parameters import AnonymousOac

log = logging.getLogger(__name__)


def trainer(
    scenario: "AnonymousOac", data: datasets.Dataset, tables: dict[str, pl.DataFrame]
) -> Callable[[int], pl.DataFrame]:
    """A function that trains one realization and returns its test accuracy and loss over the rounds.

    A round's update is the sum of the batch's clipped gradients over the table noise's `divisor`, privacy noise and
    channel noise; in a round without records the server, which cannot know, adds the noise it hears. Start weights
    and records come from streams of their own, the same for all schemes; noise is each scheme's own. A loss that
    leaves the finite numbers ends a training; the column `status` says so.
    """
    training, seed = scenario.training, scenario.seed
    size = features.size(scenario)
    widths = [size.features, *training.hidden_layers, size.classes]
    rounds = engine.evaluation_rounds(training.rounds, training.evaluate_every)
    history_of = history_function(widths, rounds, training, data)
    # In turn, uploads are digital: no error.
    channel_noise = 0.0 if in_turn(tables) else scenario.radio.noise_variance
    costs = spent(scenario, tables)
    users = tables["users"].partition_by("realization", as_dict=True)
    schedule = tables["schedule"].partition_by("realization", as_dict=True)
    noise = tables["noise"].partition_by("realization", as_dict=True)

    def train(realization: int) -> pl.DataFrame:
        samples = to_array(users[realization,], "samples", "user")
        owned = partition.deal_out(scenario.data, data.y_train, samples, seed, realization)
        taken = schedule.get((realization,), tables["schedule"].clear())
        generator = streams.generator(seed, "records", realization)
        sent = drawn(taken, noise[realization,], samples, generator, channel_noise)
        measured = history_of(
            [tf.constant(w) for w in glorot_uniform(widths, streams.generator(seed, "weights", realization))],
            sent=sent._replace(rows=tf.gather(tf.constant(np.concatenate(owned), tf.int32), sent.rows)),
            key=tf.constant(streams.key(*streams.of_noise(scenario), realization), tf.int64),
        )
        accuracies, losses, shares = (values.numpy() for values in measured)
        status, batch = "trained" if np.isfinite(losses[-1]) else "diverged", len(sent.rows) / training.rounds
        text = "realization %d: %.1f records a round, %s, accuracy %.4f"
        log.info(text, realization, batch, status, accuracies[-1, 0])
        columns = {
            "round": rounds[: len(losses)],
            "accuracy": accuracies[:, 0],
            "loss": losses,
            "clipped_share": shares,
        }
        counts = partition.held(data.y_train, owned, size.classes)
        history = pl.DataFrame(columns | partition.user_accuracies(accuracies[:, 1:], counts)).with_columns(
            pl.col("clipped_share", *partition.USER_ACCURACIES).cast(pl.Float64).fill_nan(None),
            realization=pl.lit(realization, pl.Int64),
            status=pl.lit(status),
        )
        return history.join(costs, on=("realization", "round"), how="left", maintain_order="left")

    return train
