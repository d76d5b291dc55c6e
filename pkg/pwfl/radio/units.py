"""Conversions of units."""

from typing import Any


def dbm_to_w(power_dbm: float) -> float:
    """Convert a power from dBm to watts."""
    return 10 ** (power_dbm / 10 - 3)


def db_to_ratio(ratio_db: Any) -> Any:
    """Convert a ratio of powers, a number or an array, from dB."""
    return 10 ** (ratio_db / 10)
