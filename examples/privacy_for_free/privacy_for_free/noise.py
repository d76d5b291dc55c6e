"""Stage noise: the receiver's, beside a unit of a device's message; devices add none."""

import polars as pl

from privacy_for_free.parameters import PrivacyForFree


def run(scenario: PrivacyForFree, scheme: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Standard deviations: amplitudes are given over that of the receiver's noise."""
    noise = tables["schedule"].select(
        "realization", "round", "user", receiver_noise_std=1 / pl.col("message_amplitude")
    )
    status = noise.select("realization").unique().with_columns(status=pl.lit("receiver_only"))
    return {"noise": noise, "noise_status": status}
