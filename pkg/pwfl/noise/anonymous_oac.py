"""Noise of the system `anonymous_oac`: Lemma 4 and Theorem 1 of Hasircioglu and Gunduz."""

import numpy as np
import polars as pl

from pwfl.privacy import sampled


def run(parameters: dict, scheme: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Standard deviation of the privacy noise that each round's update carries.

    `anonymous`: the devices together add the given multiple of the sensitivity 2 L / b_t.
    `identified`: the same, with the multiplier that gives as small an epsilon where participation is
    known. `local`: the same multiplier, but each device protects its own update, of sensitivity
    2 L / b_i; the average of a_t such updates, weighted by their records, carries sqrt(a_t) times
    as much. A round without records carries none: nothing is sent.
    """
    multiplier, epsilon, status = _multiplier(parameters, scheme)
    filled = tables["schedule"].filter(pl.col("batch") > 0)
    sums = filled.group_by("realization", "round").agg(senders=pl.len(), records=pl.col("batch").sum())
    copies = pl.col("senders").sqrt() if scheme == "local" else 1.0
    realizations = tables["users"].select("realization").unique(maintain_order=True)
    rounds = pl.DataFrame({"round": np.arange(1, parameters["training"]["rounds"] + 1)})
    noise_std = multiplier * 2 * parameters["training"]["clip_norm"] / pl.col("records") * copies
    return {
        "noise": realizations.join(rounds, how="cross")
        .join(sums, on=["realization", "round"], how="left", maintain_order="left")
        .select(
            "realization",
            "round",
            noise_std=noise_std.fill_null(0.0),
            noise_multiplier=pl.lit(multiplier),
            reading=pl.lit("anonymous" if scheme == "anonymous" else "identified"),
        ),
        "noise_status": realizations.with_columns(
            status=pl.lit(status), noise_multiplier=pl.lit(multiplier), epsilon=pl.lit(epsilon)
        ),
    }


def _multiplier(parameters: dict, scheme: str) -> tuple[float, float, str]:
    """The noise multiplier, the epsilon it is to give, and how it was found."""
    privacy, rounds = parameters["privacy"], parameters["training"]["rounds"]
    given, delta = privacy["noise_multiplier"], privacy["delta"]
    participation, rate = parameters["network"]["participation"], parameters["data"]["sampling"]
    epsilon = float(sampled.tight_epsilon(1.0, participation * rate, given, [rounds], delta)[0])
    if not np.isfinite(epsilon):
        return given, epsilon, "no_guarantee"
    if scheme == "anonymous" or participation == 1:
        return given, epsilon, "given"
    if sampled.tight_epsilon(participation, rate, given, [rounds], delta)[0] <= epsilon:
        return given, epsilon, "given"
    return sampled.multiplier_for(epsilon, participation, rate, rounds, delta), epsilon, "calibrated"
