"""Who takes part in a round, and with which batch: Sec. III of Hasircioglu and Gunduz."""

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
    """The channels of a round, for a scheduler of the user's own; arrays of shape (realization, user)."""

    gain: np.ndarray  # |c|^2
    good: np.ndarray  # who takes part in the paper's system, by network.participation


def batches(scenario: AnonymousOac, scheduler: str, tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Every device with a good channel takes part, with a binomial number of its records.

    A channel is good where its gain is at least -ln p, which has probability p. All at once (`over_the_air`), or one
    after the other (`orthogonal`), with the same batches. A function of the user's own may say who takes part
    (`user_participants`), all at once.
    """
    links = tables["links"].with_columns(good=pl.col("fading_gain") >= -np.log(scenario.network.participation))
    if user_code.is_reference(scheduler):
        links = user_participants(scenario, scheduler, tables["users"], links)
    schedule = drawn(scenario, links.filter("good").drop("good"), tables["users"])
    in_turn = not user_code.is_reference(scheduler) and SCHEDULERS[scheduler].in_turn
    turns = pl.int_range(pl.len()).over("realization", "round")
    return schedule.with_columns(slot=turns if in_turn else pl.lit(None, pl.Int64))


def user_participants(scenario: AnonymousOac, scheduler: str, users: pl.DataFrame, links: pl.DataFrame) -> pl.DataFrame:
    """Links, and in `good` who takes part by a function of the user's own, asked round by round.

    It gets the scenario, the round's `Uplink`, the table `users`, and `now` (`user_code.Now`, of who took part) if it
    has a parameter of this name. It returns who takes part, booleans (realization, user), or a pair of these and what
    it keeps. Raises UserCodeError for anything else.
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
    """Links of who takes part, and the sizes of their batches.

    Drawing these here and that many records in training is Poisson sampling.
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


def counts(users: pl.DataFrame, uploads: pl.DataFrame, rounds: int, *sums: pl.Expr) -> pl.DataFrame:
    """Each realization's records, means over rounds of what uploads it has, rounds without records, and other sums."""
    per_realization = uploads.group_by("realization", maintain_order=True).agg(
        *sums,
        participants=pl.len(),
        batch_records=pl.col("batch").sum(),
        filled=pl.col("round").filter(pl.col("batch") > 0).n_unique().cast(pl.Int64),
    )
    samples = users.group_by("realization", maintain_order=True).agg(pl.col("samples").sum())
    counted = samples.join(per_realization, on="realization", how="left", maintain_order="left").fill_null(0)
    # Polars divides columns of several rows by one number otherwise than those of one row.
    means = {name: pl.Series(counted[name].to_numpy() / rounds) for name in ("participants", "batch_records")}
    return counted.with_columns(rounds=pl.lit(rounds), empty_rounds=rounds - pl.col("filled"), **means)
