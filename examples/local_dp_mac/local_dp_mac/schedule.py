"""Stage schedule: channel inversion, by all devices at once or by one after the other."""

import polars as pl

from local_dp_mac.parameters import LocalDpMac


def run(scenario: LocalDpMac, scheduler: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Make the tables `schedule`, with slots and received amplitudes, and `schedule_status`.

    Over the air, all gradients arrive with the amplitude c = sqrt(P) min |h|, which the device with the weakest channel
    reaches at full power. One after the other, device k's gradient arrives with c_k = sqrt(P) |h_k|.
    """
    gain, slot = {
        "over_the_air": (pl.col("fading_gain").min().over("realization", "round"), pl.lit(0, pl.Int64)),
        "orthogonal": (pl.col("fading_gain"), pl.col("user")),
    }[scheduler]
    schedule = tables["links"].select(
        "realization", "round", "user", slot=slot, received_amplitude=(scenario.radio.max_power * gain).sqrt()
    )
    status = tables["links"].select("realization").unique().with_columns(status=pl.lit("everybody_sends"))
    return {"schedule": schedule, "schedule_status": status}
