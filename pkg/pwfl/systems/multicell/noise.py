"""Noise schemes of the system `multicell`."""

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from pwfl.privacy.gaussian import composed_multiplier
from pwfl.systems.multicell.optimal_noise import optimal_noise
from pwfl.tables.arrays import beside, to_array

if TYPE_CHECKING:
    from pwfl.systems.multicell.scenario import Multicell


def run(scenario: "Multicell", scheme: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Each scheduled user's noise standard deviation, and how it was found.

    Parameters
    ----------
    scheme
        `random` (start values), `optimal` (36), or `target`: every user's records get the same epsilon, so its noise
        is in proportion to 1 / K_i, by (11). Nothing is asked of (21) and (22).
    tables
        `users` and `schedule`.

    Returns
    -------
    The tables `noise` and `noise_status`. A realization where even the least noise breaks (21) gets nulls and the
    status `infeasible`; users who are not scheduled get 0.
    """
    keys = ("realization", "user")
    users = beside(tables["users"], tables["schedule"], *keys).sort(keys)
    realizations = users["realization"].unique(maintain_order=True)
    scheduled = to_array(users.with_columns(scheduled=pl.col("resource_block").is_not_null()), "scheduled", *keys)
    multiplier = np.full(len(scheduled), np.nan)
    status = np.full(len(scheduled), scheme, dtype=object)
    if scheme == "random":
        noise = np.where(scheduled, to_array(users, "start_noise_std", *keys), 0.0)
    elif scheme == "target":
        privacy, training = scenario.privacy, scenario.training
        sensitivity = 2 * training.clip_norm / to_array(users, "samples", *keys)
        each = composed_multiplier(privacy.target_epsilon, privacy.delta, training.rounds)
        noise = np.where(scheduled, each * sensitivity, 0.0)
    else:
        privacy = scenario.privacy
        noise, multiplier, feasible = optimal_noise(
            to_array(users, "samples", *keys), scheduled, privacy.max_noise_error, privacy.min_noise
        )
        status[~feasible] = "infeasible"
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
