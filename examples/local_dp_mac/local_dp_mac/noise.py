"""Stage noise: the devices' own, and the receiver's as it stands beside a device's gradient."""

import polars as pl

from local_dp_mac.parameters import LocalDpMac


def run(scenario: LocalDpMac, scheme: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Standard deviations for each coordinate; that of the receiver's noise is sqrt(N0) / c."""
    std = scenario.privacy.noise_std if scheme == "gaussian" else 0.0
    receiver = scenario.radio.noise_variance**0.5
    noise = tables["schedule"].select(
        "realization", "round", "user", noise_std=pl.lit(std), receiver_std=receiver / pl.col("received_amplitude")
    )
    word = "devices_and_receiver" if std else "receiver_only" if receiver else "nobody"
    status = noise.select("realization").unique().with_columns(status=pl.lit(word))
    return {"noise": noise, "noise_status": status}
