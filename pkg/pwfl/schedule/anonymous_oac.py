"""Schedule of the system `anonymous_oac`: who takes part in a round, and with which batch."""

import numpy as np
import polars as pl
from scipy.stats import binom

from pwfl import streams


def run(parameters: dict, scheduler: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Every device with a good channel takes part, with a binomial number of its records.

    `scheduler` is `over_the_air`: all at once, or `orthogonal`: one after the other. The batches are
    the same for both. Drawing their sizes here and that many records in training is Poisson sampling.
    """
    users, links = tables["users"], tables["links"]
    rounds, devices = parameters["training"]["rounds"], parameters["network"]["devices"]
    frames = []
    for (realization,), frame in links.group_by("realization", maintain_order=True):
        span = range(realization, realization + 1)
        draws = streams.uniforms(parameters["seed"], "batch", span, (rounds, devices))[0]
        chosen = draws[frame["round"].to_numpy() - 1, frame["user"].to_numpy()]
        samples = users.filter(pl.col("realization") == realization)["samples"].to_numpy()[frame["user"]]
        batch = binom.ppf(chosen, samples, parameters["data"]["sampling"]).astype(np.int64)
        frames.append(frame.with_columns(batch=pl.Series(batch, dtype=pl.Int64)))
    schedule = pl.concat(frames) if frames else links.with_columns(batch=pl.lit(0, pl.Int64))
    turns = pl.int_range(pl.len()).over("realization", "round")
    schedule = schedule.with_columns(slot=turns if scheduler == "orthogonal" else pl.lit(None, pl.Int64))
    return {"schedule": schedule, "schedule_status": _status(users, schedule, scheduler, rounds)}


def _status(users: pl.DataFrame, schedule: pl.DataFrame, scheduler: str, rounds: int) -> pl.DataFrame:
    counts = schedule.group_by("realization").agg(
        participants=pl.len() / rounds,
        records=pl.col("batch").sum() / rounds,
        filled=pl.col("round").filter(pl.col("batch") > 0).n_unique(),
    )
    return (
        users.select("realization")
        .unique(maintain_order=True)
        .join(counts, on="realization", how="left", maintain_order="left")
        .with_columns(
            pl.col("participants", "records", "filled").fill_null(0), status=pl.lit(scheduler), rounds=pl.lit(rounds)
        )
        .with_columns(empty_rounds=rounds - pl.col("filled").cast(pl.Int64))
    )
