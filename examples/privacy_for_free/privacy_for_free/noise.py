"""Stage noise: the receiver's noise relative to a unit of a device's received message; devices add none."""

import polars as pl

from privacy_for_free.parameters import PrivacyForFree


def run(scenario: PrivacyForFree, scheme: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Make `noise`, 1 / amplitude (amplitudes are over the receiver's standard deviation), and `noise_status`."""
    noise = tables["schedule"].select(
        "realization", "round", "user", receiver_noise_std=1 / pl.col("message_amplitude")
    )
    status = noise.select("realization").unique().with_columns(status=pl.lit("receiver_only"))
    return {"noise": noise, "noise_status": status}
