"""Stage noise: the devices' own."""

import polars as pl


def run(scenario, scheme: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """`noise` of each device, and its status."""
    std = scenario.privacy.noise_std if scheme == "gaussian" else 0.0
    noise = tables["users"].select("realization", "user", noise_std=pl.lit(std))
    status = noise.select("realization").unique().with_columns(status=pl.lit("noise" if std else "no_noise"))
    return {"noise": noise, "noise_status": status}
