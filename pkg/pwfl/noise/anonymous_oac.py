"""Noise of the system `anonymous_oac`: Lemma 4 and Theorem 1 of Hasircioglu and Gunduz, and what lies beyond."""

import numpy as np
import polars as pl

from pwfl.privacy import batches, sampled

LOCAL = ("local", "local_fixed")  # each device protects its own update
FIXED = ("anonymous_fixed", "identified_fixed", "local_fixed")  # strength does not follow the batch's size
READING = {"anonymous": "anonymous", "anonymous_fixed": "anonymous_read"}  # all others': identified_read


def run(parameters: dict, scheme: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Standard deviation of the privacy noise that each round's update carries, and what its sum is divided by.

    `anonymous`: the devices together add the given multiple of the sensitivity 2 L / b_t.
    `identified`: the same, with the multiplier that gives as small an epsilon where participation and
    b_t are known. `local`: each device protects its own update, of sensitivity 2 L / b_i, with the
    multiplier that gives this epsilon where its participation and b_i are known; the average of a_t
    such updates, weighted by their records, carries sqrt(a_t) times as much. A round without records
    carries none: nothing is sent.

    `_fixed`: sums are divided by the expected batch size instead, of all devices or, `local`, of each
    participant, so that the strength of the noise tells nothing of the realized one. Participants send
    their noise in rounds without records, too. Only a round without participants is silent: where
    participation is hidden, the multiplier makes up for that silence being heard.
    """
    multiplier, epsilon, status = _multiplier(parameters, scheme, tables)
    realizations = tables["users"].select("realization").unique(maintain_order=True)
    return {
        "noise": strengths(parameters, scheme, multiplier, tables),
        "noise_status": realizations.with_columns(
            status=pl.lit(status), noise_multiplier=pl.lit(multiplier), epsilon=pl.lit(epsilon)
        ),
    }


def strengths(parameters: dict, scheme: str, multiplier: float, tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """The table `noise` of a multiplier, from `users` and `schedule`; see `run`."""
    keys, (devices, samples) = ["realization", "round"], population(tables)
    local, fixed = scheme in LOCAL, scheme in FIXED
    senders = tables["schedule"].filter(pl.lit(fixed) | (pl.col("batch") > 0))
    sums = senders.group_by(keys).agg(senders=pl.len(), records=pl.col("batch").sum())
    of_each = samples * parameters["data"]["sampling"]
    divisor = pl.col("records").cast(pl.Float64)
    if fixed:
        divisor = pl.col("senders") * of_each if local else devices * parameters["network"]["participation"] * of_each
    realizations = tables["users"].select("realization").unique(maintain_order=True)
    rounds = pl.DataFrame({"round": np.arange(1, parameters["training"]["rounds"] + 1)})
    noise_std = multiplier * 2 * parameters["training"]["clip_norm"] / pl.col("divisor")
    return (
        realizations.join(rounds, how="cross")
        .join(sums.with_columns(divisor=divisor), on=keys, how="left", maintain_order="left")
        .select(
            *keys,
            noise_std=(noise_std * (pl.col("senders").sqrt() if local else 1.0)).fill_null(0.0),
            divisor=pl.col("divisor").fill_null(0.0),
            noise_multiplier=pl.lit(multiplier),
            noise=pl.lit(scheme),
            reading=pl.lit(READING.get(scheme, "identified_read")),
        )
    )


def population(tables: dict[str, pl.DataFrame]) -> tuple[int, int]:
    """The number of devices, and of each one's records: the same in all realizations."""
    users = tables["users"]
    return len(users.filter(pl.col("realization") == users["realization"][0])), users["samples"][0]


def readings(parameters: dict, scheme: str, tables: dict[str, pl.DataFrame]) -> dict[str, sampled.Rates]:
    """What each reading of a noise scheme lets the observer know; see `batches.readings`."""
    participation, sampling = parameters["network"]["participation"], parameters["data"]["sampling"]
    return batches.readings(*population(tables), participation, sampling, scheme in LOCAL, scheme in FIXED)


def _multiplier(parameters: dict, scheme: str, tables: dict[str, pl.DataFrame]) -> tuple[float, float, str]:
    """The noise multiplier, the epsilon it is to give, and how it was found.

    All schemes get the epsilon that the paper's reading gives the configured multiplier.
    """
    rounds, delta = parameters["training"]["rounds"], parameters["privacy"]["delta"]
    given, laws = parameters["privacy"]["noise_multiplier"], readings(parameters, scheme, tables)
    epsilon = float(sampled.tight_epsilon(laws["anonymous"], given, [rounds], delta)[0])
    if not np.isfinite(epsilon):
        return given, epsilon, "no_guarantee"
    own = laws[READING.get(scheme, "identified_read")]
    if scheme == "anonymous" or sampled.tight_epsilon(own, given, [rounds], delta)[0] <= epsilon:
        return given, epsilon, "given"
    return sampled.multiplier_for(epsilon, own, rounds, delta), epsilon, "calibrated"
