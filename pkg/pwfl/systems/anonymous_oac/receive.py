"""Reception of the server over the air or in turn: sums of batches over the table noise's `divisor`, and noise."""

import numpy as np
import polars as pl

from pwfl.airs import air
from pwfl.airs.air import Observer
from pwfl.privacy.labels import BATCH_SIZES, PARTICIPATION
from pwfl.systems.anonymous_oac.costs import KEYS, mechanism_of, spent
from pwfl.systems.anonymous_oac.parameters import AnonymousOac
from pwfl.systems.anonymous_oac.schemes import READ, READINGS, SUM, UPLOAD
from pwfl.tables.arrays import joined
from pwfl.tables.reception import EMPTY


def run(scenario: AnonymousOac, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Make the tables `reception`, `reception_noise`, `visibility` and `observers`; each round is an interval.

    A device's message is the sum of its batch's clipped gradients. In turn, uploads are digital, without errors. In a
    round without records, the server adds the noise that it receives, as it cannot detect such rounds.
    """
    kind = mechanism_of(tables)
    variance = 0.0 if kind.local else scenario.radio.noise_variance
    interval = (pl.col("round") - 1).alias("interval")
    noise = tables["noise"].with_columns(
        # In float32, as the server's sum.
        all_std=pl.Series(
            np.sqrt(tables["noise"]["update_noise_std"].to_numpy().astype(np.float32) ** 2 + np.float32(variance))
        )
    )
    rows = joined(tables["schedule"], noise, *KEYS)
    # Over the air all participants share the noise, also those without records, unless no participant has any.
    records = pl.col("batch") if kind.local else pl.col("batch").sum().over(KEYS)
    sends = pl.lit(kind.fixed) | (records > 0)  # without a column, a literal would be one row in sums
    rows = rows.with_columns(
        weight=pl.when(pl.col("divisor") > 0).then(1 / pl.col("divisor")).otherwise(0.0),
        senders=sends.cast(pl.Int64).sum().over(KEYS),
    ).with_columns(
        user_noise_std=pl.when(sends).then(pl.col("update_noise_std") / pl.col("senders").sqrt()).otherwise(0.0)
    )
    senders = rows.group_by(KEYS).agg(pl.col("senders").first())
    rounds = joined(noise, spent(scenario, tables), *KEYS).join(senders, on=KEYS, how="left", maintain_order="left")
    return {
        "reception": rows.select(
            "realization", interval, "user", "weight", "user_noise_std", **EMPTY | {"records": "batch"}
        ),
        "reception_noise": rounds.select(
            "realization",
            interval,
            "symbols",
            "seconds",
            "joules",
            rounds=pl.lit(1, pl.Int64),
            update_noise_std=pl.col("all_std").cast(pl.Float64),
            planned_noise_std=pl.col("all_std").cast(pl.Float64),
            planned_senders=pl.col("senders").fill_null(0),
        ),
        "visibility": visible(scenario, tables),
        "observers": air.table(observed_by(scenario, tables), tables["users"]["realization"].unique().sort()),
    }


def observed_by(scenario: AnonymousOac, tables: dict[str, pl.DataFrame]) -> dict[str, Observer]:
    """Return the scheme's assumed observer, and the server, which reads the number of records in a sum off the noise.

    Noise of a strength that does not follow the batches' sizes hides them, unless somebody publishes them.
    """
    kind = mechanism_of(tables)
    known = READINGS[kind.reading]
    hidden = () if known.participation else (PARTICIPATION,)
    sizes = (BATCH_SIZES,) if scenario.data.sampling < 1 and (kind.fixed or not known.noise) else ()
    name, seen = (
        (UPLOAD, "each participant's noisy update") if kind.local else (SUM, "the sum of all participants' updates")
    )
    receives = f"{seen} of every round"
    if known.noise:
        return {name: Observer(receives, name, assumes=(*hidden, *sizes))}
    server = Observer(f"{seen} of every round, and reads off its noise how many records it is of", READ, assumes=hidden)
    return {name: Observer(receives, READ, assumes=(*hidden, *sizes)), READ: server}


def visible(scenario: AnonymousOac, tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Make the table `visibility`: for each device, the visibility in any round that it takes part in, if it does.

    If the rounds in which it takes part are known (`Mechanism.occurred`), the table has a row for each of them instead.

    In turn, each participant protects its own upload; over the air, all together protect their sum. A message of weight
    1 / divisor is hidden by noise of the noise multiplier times 2 L / divisor. The channel's noise is not counted.
    """
    kind, hiding = mechanism_of(tables), 2 * scenario.training.clip_norm * pl.col("noise_multiplier")
    observer = pl.lit(UPLOAD if kind.local else SUM)
    if kind.occurred:
        rows = joined(tables["schedule"].select(*KEYS, "user"), tables["noise"], *KEYS)
        keys = {"interval": pl.col("round") - 1, "rounds": pl.lit(1, pl.Int64), "observer": observer}
        shown = dict.fromkeys(("visibility", "visibility_users_only"), 1 / hiding)
        return rows.select("realization", "user", **keys, **shown)
    multipliers = tables["noise"].group_by("realization", maintain_order=True).agg(pl.col("noise_multiplier").min())
    return joined(tables["users"], multipliers, "realization").select(
        "realization",
        "user",
        interval=pl.lit(0, pl.Int64),
        rounds=pl.lit(scenario.training.rounds, pl.Int64),
        observer=observer,
        visibility=1 / hiding,
        visibility_users_only=1 / hiding,
    )
