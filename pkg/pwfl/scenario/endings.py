"""Units of columns and parameters, by the endings of their names."""

UNITS = {"_dbm_hz": "dBm/Hz", "_bps": "bit/s", "_db": "dB", "_dbm": "dBm", "_hz": "Hz", "_j": "J", "_m": "m"}
UNITS |= {"_nats": "nats", "_s": "s", "_w": "W", "_wh": "Wh", "_wh2": "Wh²"}
PARTS = ("_mean", "_ci_low", "_ci_high", "_min", "_max", "_std")


def unit(column: str) -> str:
    """Return the unit that ends a column's name, apart from the suffix of a statistic (PARTS); none: ''.

    >>> unit("transmit_energy_j_mean"), unit("accuracy_mean")
    ('J', '')
    """
    for part in PARTS:
        column = column.removesuffix(part)
    return UNITS.get(ending(column), "")


def ending(name: str) -> str:
    """Return the ending of a name that denotes its unit; none: ''.

    >>> ending("noise_density_dbm_hz"), ending("gamma")
    ('_dbm_hz', '')
    """
    return next((end for end in UNITS if name.endswith(end)), "")
