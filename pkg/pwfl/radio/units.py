"""Conversions of units."""

from typing import Any


def dbm_to_w(power_dbm: float) -> float:
    """Power in watts of a power in dBm."""
    return 10 ** (power_dbm / 10 - 3)


def db_to_ratio(ratio_db: Any) -> Any:
    """Ratio of powers that is given in dB, a number or an array."""
    return 10 ** (ratio_db / 10)
