"""Who takes part in a round, and with which batch: Sec. III of Hasircioglu and Gunduz."""

import numpy as np
import polars as pl
from scipy.stats import binom

from pwfl import streams
from pwfl.systems.anonymous_oac.parameters import AnonymousOac
from pwfl.tables.arrays import joined


def batches(scenario: AnonymousOac, scheduler: str, tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Every device with a good channel takes part, with a binomial number of its records.

    A channel is good where its gain is at least -ln p, which has probability p. All at once (`over_the_air`), or one
    after the other (`orthogonal`), with the same batches. Drawing their sizes here and that many records in training is
    Poisson sampling.
    """
    good = pl.col("fading_gain") >= -np.log(scenario.network.participation)
    links = joined(tables["links"].filter(good), tables["users"], "realization", "user")
    rounds, devices = scenario.training.rounds, scenario.network.devices
    frames = []
    for (realization,), frame in links.group_by("realization", maintain_order=True):
        span = range(realization, realization + 1)
        draws = streams.uniforms(scenario.seed, "batch", span, (rounds, devices))[0]
        chosen = draws[frame["round"].to_numpy() - 1, frame["user"].to_numpy()]
        batch = binom.ppf(chosen, frame["samples"].to_numpy(), scenario.data.sampling).astype(np.int64)
        frames.append(frame.with_columns(batch=pl.Series(batch, dtype=pl.Int64)))
    schedule = pl.concat(frames) if frames else links.with_columns(batch=pl.lit(0, pl.Int64))
    turns = pl.int_range(pl.len()).over("realization", "round")
    return schedule.drop("samples").with_columns(slot=turns if scheduler == "orthogonal" else pl.lit(None, pl.Int64))


def counts(users: pl.DataFrame, uploads: pl.DataFrame, rounds: int, *sums: pl.Expr) -> pl.DataFrame:
    """Each realization's records, means over rounds of what uploads it has, rounds without records, and other sums."""
    each = uploads.group_by("realization", maintain_order=True).agg(
        *sums,
        participants=pl.len(),
        batch_records=pl.col("batch").sum(),
        filled=pl.col("round").filter(pl.col("batch") > 0).n_unique().cast(pl.Int64),
    )
    samples = users.group_by("realization", maintain_order=True).agg(pl.col("samples").sum())
    counted = samples.join(each, on="realization", how="left", maintain_order="left").fill_null(0)
    # Polars divides columns of several rows by one number otherwise than those of one row.
    means = {name: pl.Series(counted[name].to_numpy() / rounds) for name in ("participants", "batch_records")}
    return counted.with_columns(rounds=pl.lit(rounds), empty_rounds=rounds - pl.col("filled"), **means)
