"""What the scheduled users' uploads take: symbols and seconds on air, transmit energy."""

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
    """Symbols, seconds and joules of a round of each interval in which the channel stays.

    In every round each user that sends, by schedule and noise, sends 32 bits a parameter at its rate, or
    `training.bits`, and what secure aggregation takes (`secrets_bits`) where observers see sums. Cells use a resource
    block at the same time, so it is taken for as long as the slowest of them takes; blocks are used side by side, so
    the round lasts as long as the slowest of all. Rounds of an interval are alike, so each costs the same; who drops
    out has sent.
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
    # By NumPy: a column of several rows Polars multiplies by the inverse of a number, which it divides one by.
    return costs.with_columns(pl.Series(name, costs[name].to_numpy() / rounds) for name in COSTS)


def secrets_bits(senders: pl.Expr) -> pl.Expr:
    """Bits of keys and shares that each of a sum's senders sends in a round (Bonawitz et al., 2017, Fig. 4).

    Two public keys; for each other sender an encrypted pair of shares, of its secret key and of its mask's seed; and a
    share for each sender once those who remain are known.
    """
    return 8 * (2 * SECRET + (senders - 1) * (2 * SECRET + SEALED) + senders * SECRET)
