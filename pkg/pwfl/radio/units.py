"""Conversions of units."""


def dbm_to_w(power_dbm: float) -> float:
    """Power in watts of a power in dBm."""
    return 10 ** (power_dbm / 10 - 3)


def db_to_ratio(ratio_db: float) -> float:
    """Ratio of powers that is given in dB."""
    return 10 ** (ratio_db / 10)
