"""Costs of the scheduled users' uploads: channel uses, airtime, radiated energy."""

import polars as pl

from pwfl.learning import features
from pwfl.systems.multicell.assigned import KEYS, assigned
from pwfl.systems.multicell.parameters import Multicell
from pwfl.training.models import network, parameter_count

COSTS = ("symbols", "seconds", "joules")
FLOAT_BITS = 32
SECRET = 32  # bytes of a key or a share
SEALED = 28  # bytes that authenticated encryption adds: nonce and tag


def interval_costs(scenario: Multicell, tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Compute channel uses, airtime (s) and radiated energy (J) of a round of each coherence interval.

    In every round, each user that sends, by schedule and noise, sends 32 bits per model parameter, or `training.bits`,
    at its rate, and the bits of secure aggregation (`secrets_bits`) if observers see sums. Cells use a resource block
    at the same time, so it is occupied until the slowest of them has sent. Blocks are used at the same time, so a round
    lasts as long as the slowest block. All rounds of an interval cost the same, and users who drop out have sent.
    """
    training, schedule = scenario.training, tables["schedule"]
    rounds = training.rounds // schedule["interval"].n_unique()
    bits = (training.bits or FLOAT_BITS) * parameter_count(network(training, features.size(scenario))) * rounds
    senders = assigned(tables).filter("scheduled").select(*KEYS, "cell")
    sent = schedule.join(senders, on=KEYS, maintain_order="left")
    if scenario.privacy.observer != "user":
        group = ("cell",) if scenario.privacy.observer == "cell" else ()
        bits += rounds * secrets_bits(pl.len().over("realization", "interval", *group))
    sent = sent.with_columns(seconds=bits / pl.col("rate_bps"))
    rows = ("realization", "interval")
    blocks = sent.group_by(*rows, "resource_block", maintain_order=True).agg(
        pl.col("seconds").max(), energy=(pl.col("seconds") * pl.col("power_w")).sum()
    )
    total = blocks.group_by(rows, maintain_order=True).agg(
        symbols=(pl.col("seconds") * scenario.radio.bandwidth_hz).sum(),
        seconds=pl.col("seconds").max(),
        joules=pl.col("energy").sum(),
    )
    every = schedule.select(rows).unique(maintain_order=True)
    costs = every.join(total, on=rows, how="left", maintain_order="left").with_columns(pl.exclude(rows).fill_null(0.0))
    # By NumPy: Polars multiplies a column of several rows by the inverse of a number, but divides a single row.
    return costs.with_columns(pl.Series(name, costs[name].to_numpy() / rounds) for name in COSTS)


def secrets_bits(senders: pl.Expr) -> pl.Expr:
    """Compute the bits of keys and shares that each user of a sum sends in a round (Bonawitz et al., 2017, Fig. 4).

    Two public keys; for each other user, an encrypted pair of shares, of its secret key and of its mask's seed; and
    a share for each user after dropouts are known.
    """
    return 8 * (2 * SECRET + (senders - 1) * (2 * SECRET + SEALED) + senders * SECRET)
