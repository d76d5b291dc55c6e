"""Participants of each round, and the sizes of their batches: Sec. III of Hasircioglu and Gunduz."""

from typing import NamedTuple

import numpy as np
import polars as pl
from scipy.stats import binom

from pwfl import streams
from pwfl.process import user_code
from pwfl.systems.anonymous_oac.parameters import AnonymousOac
from pwfl.systems.anonymous_oac.schemes import SCHEDULERS
from pwfl.tables.arrays import joined, to_array, to_table

KEYS = ("realization", "round", "user")


class Uplink(NamedTuple):
    """The channels of a round, for a user-defined scheduler; arrays of shape (realization, user)."""

    gain: np.ndarray  # |c|^2
    good: np.ndarray  # whether a user takes part in the paper's system, by network.participation


def batches(scenario: AnonymousOac, scheduler: str, tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Make the table `schedule`: every device with a good channel takes part, with a binomial number of its records.

    A channel is good if its gain is at least -ln p, which has probability p. Participants send all at once
    (`over_the_air`), or one after the other (`orthogonal`), with the same batches. A user-defined function may decide
    who takes part instead (`user_participants`); its participants send all at once.
    """
    links = tables["links"].with_columns(good=pl.col("fading_gain") >= -np.log(scenario.network.participation))
    if user_code.is_reference(scheduler):
        links = user_participants(scenario, scheduler, tables["users"], links)
    schedule = drawn(scenario, links.filter("good").drop("good"), tables["users"])
    in_turn = not user_code.is_reference(scheduler) and SCHEDULERS[scheduler].in_turn
    turns = pl.int_range(pl.len()).over("realization", "round")
    return schedule.with_columns(slot=turns if in_turn else pl.lit(None, pl.Int64))


def user_participants(scenario: AnonymousOac, scheduler: str, users: pl.DataFrame, links: pl.DataFrame) -> pl.DataFrame:
    """Return `links` with participants in the column `good`, by a user-defined function that is called for each round.

    Its arguments are the scenario, the round's `Uplink`, the table `users`, and `now` (`user_code.Now`, of who took
    part) if it has a parameter of this name. It returns who takes part, boolean, shape (realization, user), or a pair
    of this and a state to keep. Raises UserCodeError for anything else.
    """
    gain, good = (to_array(links, name, *KEYS) for name in ("fading_gain", "good"))
    realizations, (_, rounds, devices) = users["realization"].unique().sort().to_list(), gain.shape

    def sent(t: int, takes_part: np.ndarray) -> np.ndarray:
        what = "who takes part, as booleans, realizations by users"
        return user_code.array_of(scheduler, takes_part, gain[:, t].shape, what, "b")

    arguments = ((scenario, Uplink(gain[:, t], good[:, t].astype(bool)), users) for t in range(rounds))
    participants = user_code.round_by_round(scheduler, arguments, sent, scenario.seed, realizations, scenario.own.reads)
    keys = {"realization": realizations, "round": range(1, rounds + 1), "user": range(devices)}
    return joined(links.drop("good"), to_table(keys, good=participants), *KEYS)


def drawn(scenario: AnonymousOac, links: pl.DataFrame, users: pl.DataFrame) -> pl.DataFrame:
    """Draw the sizes of participants' batches, and add them to the participants' links.

    Drawing the sizes here and that many records in training is Poisson sampling.
    """
    links = joined(links, users, "realization", "user")
    rounds, devices = scenario.training.rounds, scenario.network.devices
    frames = []
    for (realization,), frame in links.group_by("realization", maintain_order=True):
        span = range(realization, realization + 1)
        draws = streams.uniforms(scenario.seed, "batch", span, (rounds, devices))[0]
        chosen = draws[frame["round"].to_numpy() - 1, frame["user"].to_numpy()]
        batch = binom.ppf(chosen, frame["samples"].to_numpy(), scenario.data.sampling).astype(np.int64)
        frames.append(frame.with_columns(batch=pl.Series(batch, dtype=pl.Int64)))
    schedule = pl.concat(frames) if frames else links.with_columns(batch=pl.lit(0, pl.Int64))
    return schedule.drop("samples")


def counts(users: pl.DataFrame, uploads: pl.DataFrame, rounds: int) -> pl.DataFrame:
    """Count each realization's records, its mean uploads and sent records per round, and its empty rounds."""
    per_realization = uploads.group_by("realization", maintain_order=True).agg(
        participants=pl.len(),
        batch_records=pl.col("batch").sum(),
        filled=pl.col("round").filter(pl.col("batch") > 0).n_unique().cast(pl.Int64),
    )
    samples = users.group_by("realization", maintain_order=True).agg(pl.col("samples").sum())
    counted = samples.join(per_realization, on="realization", how="left", maintain_order="left").fill_null(0)
    # By NumPy: Polars divides a column of several rows by a number differently from a column of one row.
    means = {name: pl.Series(counted[name].to_numpy() / rounds) for name in ("participants", "batch_records")}
    return counted.with_columns(rounds=pl.lit(rounds), empty_rounds=rounds - pl.col("filled"), **means)
