"""Stage noise: the devices' noise, and the receiver's noise relative to a received gradient."""

import polars as pl

from local_dp_mac.parameters import LocalDpMac


def run(scenario: LocalDpMac, scheme: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Make `noise`, standard deviations per coordinate (of the receiver's, sqrt(N0) / c), and `noise_status`."""
    std = scenario.privacy.noise_std if scheme == "gaussian" else 0.0
    receiver = scenario.radio.noise_variance**0.5
    noise = tables["schedule"].select(
        "realization", "round", "user", noise_std=pl.lit(std), receiver_std=receiver / pl.col("received_amplitude")
    )
    word = "devices_and_receiver" if std else "receiver_only" if receiver else "nobody"
    status = noise.select("realization").unique().with_columns(status=pl.lit(word))
    return {"noise": noise, "noise_status": status}
