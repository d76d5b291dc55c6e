"""Noise of the system `utility_fair`: of the devices' copies of the model, (14), and of what they send, (7)."""

from typing import TYPE_CHECKING

import polars as pl

from pwfl.systems.utility_fair import copies

if TYPE_CHECKING:
    from pwfl.systems.utility_fair.scenario import UtilityFair


def run(scenario: "UtilityFair", scheme: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Each device's noise at deviation 0, how deviation scales it, which devices share a draw; noise of uploads.

    `scheme` is `fair` (more noise the more a device deviates), `independent` (the same noise for all, in
    vectors of their own) or `shared` (one vector for all). Deviations are known in training alone. Noisy uploads
    have the noise of a copy at deviation 0: the paper's benchmark takes one (epsilon_g, delta_g) for both.
    """
    privacy = scenario.privacy
    base = copies.base_multiplier(privacy.epsilon, privacy.delta)
    theta = privacy.theta if scheme == "fair" else 0.0
    upload = base if privacy.uploads == "noisy" else None
    noise = (
        tables["users"]
        .select("realization", "device")
        .with_columns(
            noise_multiplier=pl.lit(base),
            noise_std=pl.lit(base * privacy.sensitivity),
            theta=pl.lit(theta),
            noise_vector=pl.lit(0) if scheme == "shared" else pl.col("device"),
            upload_multiplier=pl.lit(upload, pl.Float64),
            upload_std=pl.lit(upload, pl.Float64) * privacy.sensitivity,
        )
    )
    status = noise.select(pl.col("realization").unique(maintain_order=True)).with_columns(
        status=pl.lit(scheme),
        noise_multiplier=pl.lit(base),
        largest_multiplier=pl.lit(copies.scaled(base, theta, 1.0)),
    )
    return {"noise": noise, "noise_status": status}
