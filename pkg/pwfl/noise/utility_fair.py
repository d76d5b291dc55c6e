"""Noise of the system `utility_fair`: what the access point adds to each device's copy of the model, (14)."""

import polars as pl

from pwfl.fairness import copies


def run(parameters: dict, scheme: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Each device's noise at deviation 0, how deviation scales it, and which devices share a draw.

    `scheme` is `fair` (more noise the more a device deviates), `independent` (the same noise for all, in
    vectors of their own) or `shared` (one vector for all). Deviations are known in training alone.
    """
    privacy = parameters["privacy"]
    base = copies.base_multiplier(privacy["epsilon"], privacy["delta"])
    theta = privacy["theta"] if scheme == "fair" else 0.0
    noise = (
        tables["users"]
        .select("realization", "device")
        .with_columns(
            noise_multiplier=pl.lit(base),
            noise_std=pl.lit(base * privacy["sensitivity"]),
            theta=pl.lit(theta),
            noise_vector=pl.lit(0) if scheme == "shared" else pl.col("device"),
        )
    )
    status = noise.select(pl.col("realization").unique(maintain_order=True)).with_columns(
        status=pl.lit(scheme),
        noise_multiplier=pl.lit(base),
        largest_multiplier=pl.lit(copies.scaled(base, theta, 1.0)),
    )
    return {"noise": noise, "noise_status": status}
