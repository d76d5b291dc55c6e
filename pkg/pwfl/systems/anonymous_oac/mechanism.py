"""The noise that each scheme's rounds carry, and what an observer may know of their sampling."""

import numpy as np
import polars as pl

from pwfl.privacy import sampled
from pwfl.systems.anonymous_oac import batches
from pwfl.systems.anonymous_oac.parameters import AnonymousOac
from pwfl.systems.anonymous_oac.schemes import MECHANISMS


def strengths(scenario: AnonymousOac, scheme: str, multiplier: float, tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """The table `noise` of a noise multiplier, from `users` and `schedule`; see `noise.run`."""
    keys, (devices, samples) = ["realization", "round"], population(tables)
    reading, local, fixed = MECHANISMS[scheme]
    senders = tables["schedule"].filter(pl.lit(fixed) | (pl.col("batch") > 0))
    sums = senders.group_by(keys, maintain_order=True).agg(senders=pl.len(), records=pl.col("batch").sum())
    of_each = samples * scenario.data.sampling
    divisor = pl.col("records").cast(pl.Float64)
    if fixed:
        divisor = pl.col("senders") * of_each if local else devices * scenario.network.participation * of_each
    realizations = tables["users"].select("realization").unique(maintain_order=True)
    rounds = pl.DataFrame({"round": np.arange(1, scenario.training.rounds + 1)})
    update_noise_std = pl.lit(float(multiplier * 2 * scenario.training.clip_norm)) / pl.col("divisor")
    return (
        realizations.join(rounds, how="cross")
        .join(sums.with_columns(divisor=divisor), on=keys, how="left", maintain_order="left")
        .select(
            *keys,
            update_noise_std=(update_noise_std * (pl.col("senders").sqrt() if local else 1.0)).fill_null(0.0),
            divisor=pl.col("divisor").fill_null(0.0),
            noise_multiplier=pl.lit(multiplier),
            noise=pl.lit(scheme),
            reading=pl.lit(reading),
        )
    )


def population(tables: dict[str, pl.DataFrame]) -> tuple[int, int]:
    """The number of devices, and of each one's records: the same in all realizations."""
    users = tables["users"]
    return len(users.filter(pl.col("realization") == users["realization"][0])), users["samples"][0]


def accounting(scheme: str) -> dict:
    """How a noise scheme is accounted for, as `accountant.epsilons` takes it.

    Of fixed noise by what is proved: sums are divided by a constant, so a record's gradient counts against none. Of
    other noise that bound is far above the usual pair.
    """
    fixed = MECHANISMS[scheme].fixed
    return {"method": "proved" if fixed else "tight", "absent": 0.5 if fixed else 1.0}


def readings(scenario: AnonymousOac, scheme: str, tables: dict[str, pl.DataFrame]) -> dict[str, sampled.Rates]:
    """What each reading of a noise scheme lets the observer know; see `batches.readings`."""
    _, local, fixed = MECHANISMS[scheme]
    return batches.readings(*population(tables), scenario.network.participation, scenario.data.sampling, local, fixed)
