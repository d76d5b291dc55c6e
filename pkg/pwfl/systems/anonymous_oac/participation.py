"""Who takes part in a round, and with which batch: Sec. III of Hasircioglu and Gunduz."""

import numpy as np
import polars as pl
from scipy.stats import binom

from pwfl import streams
from pwfl.systems.anonymous_oac.parameters import AnonymousOac
from pwfl.tables.arrays import joined, to_table


def draw(scenario: AnonymousOac, realizations: range) -> dict[str, pl.DataFrame]:
    """The devices, and for each round the channels that are good enough to take part over.

    Rayleigh fading, redrawn for each device and round: |c|^2 is exponential of mean 1, and at least -ln p with
    probability p.
    """
    rounds, devices = scenario.training.rounds, scenario.network.devices
    links = []
    for realization in realizations:
        span = range(realization, realization + 1)
        fading = streams.uniforms(scenario.seed, "fading", span, (rounds, devices))[0]
        round_, device = np.nonzero(fading <= scenario.network.participation)
        gain = -np.log(fading[round_, device])
        keys = {"realization": np.full(len(device), realization), "round": round_ + 1, "user": device}
        links.append(pl.DataFrame(keys | {"fading_gain": gain}))
    users = to_table({"realization": realizations, "user": range(devices)}, samples=scenario.data.samples)
    return {"users": users, "links": pl.concat(links)}


def batches(scenario: AnonymousOac, scheduler: str, tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Every device with a good channel takes part, with a binomial number of its records.

    All at once (`over_the_air`), or one after the other (`orthogonal`), with the same batches. Drawing their sizes here
    and that many records in training is Poisson sampling.
    """
    links = joined(tables["links"], tables["users"], "realization", "user")
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
        participants=pl.len() / rounds,
        batch_records=pl.col("batch").sum() / rounds,
        filled=pl.col("round").filter(pl.col("batch") > 0).n_unique().cast(pl.Int64),
    )
    samples = users.group_by("realization", maintain_order=True).agg(pl.col("samples").sum())
    counted = samples.join(each, on="realization", how="left", maintain_order="left").fill_null(0)
    return counted.with_columns(rounds=pl.lit(rounds), empty_rounds=rounds - pl.col("filled"))
