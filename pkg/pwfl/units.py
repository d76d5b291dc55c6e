"""Conversions of units."""


def dbm_to_w(power_dbm: float) -> float:
    """Power in watts of a power in dBm."""
    return 10 ** (power_dbm / 10 - 3)
