"""Units of the columns of tables, as they are written after a column's name."""

UNITS = {"_bps": "bit/s", "_db": "dB", "_hz": "Hz", "_j": "J", "_m": "m", "_nats": "nats", "_s": "s", "_w": "W"}
UNITS |= {"_wh": "Wh", "_wh2": "Wh²"}
PARTS = ("_mean", "_ci_low", "_ci_high", "_min", "_max", "_std")


def unit(column: str) -> str:
    """The unit that the end of a column's name says, before what is said of its distribution; none: ''.

    >>> unit("transmit_energy_j_mean"), unit("accuracy_mean")
    ('J', '')
    """
    for part in PARTS:
        column = column.removesuffix(part)
    return next((text for ending, text in UNITS.items() if column.endswith(ending)), "")
