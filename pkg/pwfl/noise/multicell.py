"""Noise schemes of the system `multicell`."""

import numpy as np
import polars as pl

from pwfl.noise.optimal import optimal_noise
from pwfl.tables import to_array


def run(parameters: dict, scheme: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Each scheduled user's noise standard deviation, and how it was found.

    `scheme` is `random` (start values) or `optimal` (36). A realization where even the least noise
    breaks (21) gets nulls and the status `infeasible`; users who are not scheduled get 0.
    """
    users = tables["users"]
    realizations = users["realization"].unique(maintain_order=True)
    shape = (len(realizations), -1)
    scheduled = tables["schedule"]["resource_block"].is_not_null().to_numpy().reshape(shape)
    if scheme == "random":
        noise = np.where(scheduled, to_array(users, "start_noise_std", *shape), 0.0)
        multiplier = np.full(len(noise), np.nan)
        status = np.full(len(noise), "random", dtype=object)
    else:
        privacy = parameters["privacy"]
        noise, multiplier, feasible = optimal_noise(
            to_array(users, "samples", *shape), scheduled, privacy["max_noise_error"], privacy["min_noise"]
        )
        status = np.where(feasible, "optimal", "infeasible").astype(object)
    status[~scheduled.any(axis=1)] = "no_user_scheduled"
    return {
        "noise": users.select("realization", "user").with_columns(noise_std=pl.Series(noise.ravel(), nan_to_null=True)),
        "noise_status": pl.DataFrame(
            {
                "realization": realizations,
                "status": status.tolist(),
                "multiplier": pl.Series(multiplier, nan_to_null=True),
            }
        ),
    }
