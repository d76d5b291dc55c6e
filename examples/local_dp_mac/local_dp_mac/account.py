"""Stage account: what the server learns of a record of each device, and what it took to send."""

import numpy as np
import polars as pl

from local_dp_mac.reception import received
from pwfl.learning import datasets, mlp
from pwfl.privacy.gaussian import exact_epsilon, zcdp
from pwfl.tables.arrays import joined


def leakage(scenario, tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """zCDP of each device's record: a Gaussian mechanism a round, of sensitivity 2 L / samples; they add up."""
    rounds = joined(received(tables), tables["users"], "realization", "user").sort("realization", "user", "round")
    rho = zcdp(2 * scenario.training.clip_norm / rounds["samples"].to_numpy(), rounds["received_std"].to_numpy(), 1)
    rounding = 1 + scenario.training.rounds * np.finfo(float).eps  # a sum may fall below the true one by no more
    total = pl.Series("rho", rho).to_frame().hstack(rounds.select("realization", "user"))
    total = total.group_by("realization", "user", maintain_order=True).agg(pl.col("rho").sum() * rounding)
    epsilon = exact_epsilon(total["rho"].to_numpy(), scenario.privacy.delta)
    return total.with_columns(epsilon=pl.Series(epsilon))


def run(scenario, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """`leakage` of each device and `outcome` of each realization."""
    leaks = leakage(scenario, tables)
    perfect = tables | {"noise": tables["noise"].with_columns(receiver_std=pl.lit(0.0))}
    server = leakage(scenario, perfect).group_by("realization").agg(epsilon_server=pl.col("epsilon").max())
    size = datasets.size(scenario.data)
    coordinates = mlp.parameter_count([size.features, *scenario.training.hidden_layers, size.classes])
    slots = tables["schedule"].select("realization", "round", "slot").unique().group_by("realization").len("slots")
    noisy = tables["noise"].group_by("realization").agg(guaranteed=pl.col("noise_std").min() > 0)
    outcome = (
        leaks.group_by("realization")
        .agg(pl.col("rho").max(), epsilon_exact=pl.col("epsilon").max())
        .join(server, on="realization")
        .join(tables["users"].group_by("realization").agg(pl.col("samples").sum()), on="realization")
        .join(noisy, on="realization")
        .join(slots, on="realization")
        .sort("realization")
        .with_columns(
            rounds=pl.lit(scenario.training.rounds, pl.Int64),
            delta=scenario.privacy.delta,
            channel_uses=pl.col("slots").cast(float) * coordinates,
            air_seconds=pl.lit(None, float),
            transmit_energy_j=pl.lit(None, float),
            link_budget=pl.lit("none: powers are factors of gradients, without a unit"),
            local_steps=1.0,
            accuracy_of=pl.lit("the server's model"),
            unit=pl.lit("one training record of one device"),
            neighbouring_relation=pl.lit("one record replaced"),
            sampling=pl.lit("none: every record in every round"),
            observer=pl.lit("the server, through its receiver: all symbols of all rounds, with the receiver's noise"),
            guarantee=pl.lit(
                "epsilon_server: the other devices add their noise; epsilon_exact: and the receiver's noise is white, "
                "Gaussian and unknown"
            ),
        )
        .drop("slots")
    )
    return {"leakage": leaks, "outcome": outcome}
