"""Warnings about values that may be in another unit than their parameter's, such as watts instead of dBm.

A parameter may declare its usual range. A value outside is no error; the warning converts it from other units.
"""

from contextlib import suppress
from math import isfinite, log10

from pwfl.radio.units import db_to_ratio, dbm_to_w
from pwfl.scenario.common import Scenario
from pwfl.scenario.fields import extra_of, parameters, usual_of
from pwfl.scenario.values import value_of

PREFIXES = {"p": 1e-12, "n": 1e-9, "µ": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
COMMON = {"m": "mk", "s": "nµm"}  # usual prefixes of these units; other units have all


def unusual(scenario: Scenario | dict, model: type[Scenario] | None = None) -> list[str]:
    """Write a line `key: problem` for each value that is unusual in its parameter's unit; 0 never is.

    With a `model`, the scenario is its content, which may be invalid.
    """
    lines = []
    for path, field in parameters(model or type(scenario)):
        key, usual = ".".join(path), usual_of(field)
        value = usual and value_of(scenario, key)
        if isinstance(value, float) and value and isfinite(value):
            with suppress(OverflowError):  # decibels beyond the range of floats
                what = _what(value, extra_of(field)["unit"], *usual)
                lines += [f"{key}: {what}"] if what else []
    return lines


def _what(value: float, unit: str, low: float, high: float) -> str:
    """Describe an unusual value other than 0: it is out of range, or a fraction of a decibel; '': it is usual.

    Values between 0 and 1 are rare in decibels but common in watts.
    """
    others = {other: reading for other, reading in _readings(value, unit).items() if low <= reading <= high}
    outside = not low <= value <= high
    if not outside and not (unit in DECIBELS and 0 < value < 1 and others):
        return ""
    texts = [DECIBELS[unit](value)] if unit in DECIBELS else []
    texts += [f"outside the usual {_written(low, unit)} to {_written(high, unit)}"] if outside else []
    meant = ", ".join(f"{value:g} {other} would be {reading:.4g} {unit}" for other, reading in others.items())
    return f"{value:g} {unit} is {', '.join(texts)}; check the unit" + (f": {meant}" if meant else "")


def _readings(value: float, unit: str) -> dict[str, float]:
    """Convert a number to a unit from other units in which it may be meant, by the names of these."""
    if unit not in DECIBELS:
        return {f"{prefix}{unit}": value * PREFIXES[prefix] for prefix in COMMON.get(unit, filter(None, PREFIXES))}
    if value < 0:
        return {"dBm": {"dBW": value + 30}, "dBm/Hz": {"dBW/Hz": value + 30}}.get(unit, {})
    ratio = 10 * log10(value)
    return {"dBm": {"W": ratio + 30, "mW": ratio}, "dB": {"as a ratio": ratio}}.get(unit, {})


def _written(value: float, unit: str) -> str:
    """Write a value with its unit, with a prefix if the unit is linear.

    >>> _written(1.8e5, "Hz"), _written(-10, "dBm")
    ('180 kHz', '-10 dBm')
    """
    if unit in DECIBELS:
        return f"{value:g} {unit}"
    prefix = max((p for p in PREFIXES if PREFIXES[p] <= abs(value)), key=PREFIXES.__getitem__, default="")
    return f"{value / PREFIXES[prefix]:.4g} {prefix}{unit}"


DECIBELS = {  # by unit, a function that writes a value in decibels as a ratio or power
    "dB": lambda value: f"a ratio of {db_to_ratio(value):.4g}",
    "dBm": lambda value: _written(dbm_to_w(value), "W"),
    "dBm/Hz": lambda value: f"{dbm_to_w(value):.4g} W/Hz",
}
