"""What the scheduled users' uploads take: symbols and seconds on air, transmit energy."""

from typing import TYPE_CHECKING

import polars as pl

from pwfl.learning import datasets
from pwfl.learning.mlp import parameter_count

if TYPE_CHECKING:
    from pwfl.systems.multicell.scenario import Multicell

FLOAT_BITS = 32


def costs(scenario: "Multicell", tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Symbols and seconds on air and transmit energy of each realization's training.

    In every round each scheduled user sends 32 bits a parameter at its rate. Cells use a resource block
    at the same time, so it is taken for as long as the slowest of them takes; blocks are used side by side, so
    the round lasts as long as the slowest of all. Rounds are alike, so each costs the same.
    """
    training = scenario.training
    bits = FLOAT_BITS * model_size(scenario.data.dataset, training.hidden_layers) * training.rounds
    sent = tables["schedule"].filter(pl.col("resource_block").is_not_null())
    sent = sent.with_columns(seconds=bits / pl.col("rate_bps"))
    blocks = sent.group_by("realization", "resource_block", maintain_order=True).agg(
        symbols=pl.col("seconds").max() * scenario.radio.bandwidth_hz,
        seconds=pl.col("seconds").max(),
        energy=(pl.col("seconds") * pl.col("power_w")).sum(),
    )
    total = blocks.group_by("realization", maintain_order=True).agg(
        channel_uses=pl.col("symbols").sum(),
        air_seconds=pl.col("seconds").max(),
        transmit_energy_j=pl.col("energy").sum(),
    )
    everyone = tables["users"].select("realization").unique(maintain_order=True)
    return everyone.join(total, on="realization", how="left").with_columns(pl.exclude("realization").fill_null(0.0))


def model_size(dataset: str, hidden_layers: list[int]) -> int:
    """Number d of trained parameters."""
    size = datasets.SIZES[dataset]
    return parameter_count([size.features, *hidden_layers, size.classes])
