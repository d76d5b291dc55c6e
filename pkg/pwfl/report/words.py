"""Write numbers and names for readers."""

import math
import re
from typing import TYPE_CHECKING

from pwfl.report.catalog import Outcome
from pwfl.scenario.sweep import short_exponents

if TYPE_CHECKING:  # planning writes numbers, too, without importing Polars
    import polars as pl

NONE = "–"
SMALL_P = 1e-4  # smallest p-value that is written as a number
NEGLIGIBLE = 1e-12  # magnitude below which numbers are rounding errors, written as 0
THOUSANDS, MILLIONS = 1e3, 1e6  # between these, numbers are written in full, with separators
ALL = 0.995  # attack rate above which it is written as over 99%
BY_PARAMETERS = re.compile(r"(I\d+): [a-z]+\.[a-z_.]+\b[^;]*")  # an interpretation by a scenario's parameter
SHORT = ("dp", "mac", "oac")  # words of systems' names that are abbreviations
UNIT = re.compile(r"^(.*) \(([^()]*)\)$")


def number(value: float | None, outcome: Outcome | None = None) -> str:
    """Write a number: a share in percent, others to three digits, a dash for None and NaN.

    >>> number(0.94712, Outcome("accuracy", "more", "~%")), number(18.04), number(float("inf")), number(None)
    ('94.7%', '18', '∞', '–')
    >>> number(2484.2), number(3.2e7), number(1e-5), number(-0.5), number(float("nan")), number(0.0)
    ('2,480', '3.2e7', '1e-5', '−0.5', '–', '0')
    """
    if value is None or math.isnan(value):
        return NONE
    value = 0.0 if abs(value) < NEGLIGIBLE else value
    if outcome and is_share(outcome):
        return f"{value:.1%}".replace("-", "−")
    short = f"{value:.3g}"
    short = f"{float(short):,.0f}" if THOUSANDS <= abs(value) < MILLIONS else short.replace("inf", "∞")
    return re.sub("^-", "−", short_exponents(short))


def is_share(outcome: Outcome) -> bool:
    """Return whether an outcome is shown in percent."""
    return outcome.format.endswith("%")


def between(low: float | None, high: float | None, outcome: Outcome | None = None) -> str:
    """Write the ends of an interval; "" if one is None.

    >>> between(0.9, 0.94, Outcome("accuracy", "more", "~%")), between(None, None)
    ('90.0% to 94.0%', '')
    """
    return "" if low is None or high is None else f"{number(low, outcome)} to {number(high, outcome)}"


def estimated(value: float | None, low: float | None, high: float | None, outcome: Outcome | None = None) -> str:
    """Write a number, with its interval if it has one.

    >>> estimated(0.92, 0.9, 0.94, Outcome("accuracy", "more", "~%")), estimated(0.5, None, None)
    ('92.0% (95% interval 90.0% to 94.0%)', '0.5')
    """
    interval = between(low, high, outcome)
    return number(value, outcome) + (f" (95% interval {interval})" if interval else "")


def rate(value: float | None) -> str:
    """Write an attack rate with two digits, never as 100%.

    >>> rate(0.0342), rate(0.8149), rate(1.0), rate(0.0), rate(None)
    ('3.4%', '81%', 'over 99%', '0.0%', 'unknown')
    """
    if value is None or math.isnan(value):
        return "unknown"
    if value > ALL:
        return "over 99%"
    return f"{value:.0%}" if value >= 0.0995 else f"{value:.1%}"


def signed(value: float | None, outcome: Outcome | None = None) -> str:
    """Write a difference with its sign, and a true minus; that of shares in percentage points.

    >>> accuracy = Outcome("accuracy", "more", "~%")
    >>> signed(0.145, accuracy), signed(-0.00001, accuracy), signed(-2.5), signed(0.0), signed(None)
    ('+14.5', '0.0', '−2.5', '0', '–')
    """
    if value is None or math.isnan(value):
        return NONE
    text = f"{abs(100 * value):.1f}" if outcome and is_share(outcome) else number(abs(value))
    return ("" if not text.strip("0.") else "+" if value > 0 else "−") + text


def probability(value: float | None) -> str:
    """Write a p-value.

    >>> probability(0.0), probability(0.01234), probability(None)
    ('p < 0.0001', 'p = 0.012', 'no p')
    """
    if value is None:
        return "no p"
    return f"p < {SMALL_P:g}" if value < SMALL_P else f"p = {value:.2g}"


def unit(outcome: Outcome) -> str:
    """Return the unit of an outcome's differences: percentage points for shares.

    >>> unit(Outcome("accuracy", "more", "~%")), unit(Outcome("Airtime (s)", "less")), unit(Outcome("Loss", "less"))
    ('points', 's', '')
    """
    match = UNIT.match(outcome.title)
    return "points" if is_share(outcome) else match[2] if match else ""


def lower(title: str) -> str:
    """Write a title within a sentence: its first letter becomes lower case, unless the second one is upper case.

    >>> lower("Better learning"), lower("OAC"), lower("γ = 3"), lower("")
    ('better learning', 'OAC', 'γ = 3', '')
    """
    return title if title[1:2].isupper() else title[:1].lower() + title[1:]


def upper(text: str) -> str:
    """Capitalize a text for the start of a sentence or cell; symbols stay as they are.

    >>> upper("better learning"), upper("γ 3")
    ('Better learning', 'γ 3')
    """
    return text[:1].upper() + text[1:] if text[:1].isascii() else text


def system_name(system: str) -> str:
    """Return a system's name for readers.

    >>> system_name("utility_fair"), system_name("anonymous_oac")
    ('Utility fair', 'Anonymous OAC')
    """
    return upper(" ".join(word.upper() if word in SHORT else word for word in system.split("_")))


def plural(count: int, what: str = "realization") -> str:
    """Write a number of things.

    >>> plural(1, "test"), plural(250, "test")
    ('1 test', '250 tests')
    """
    return f"{count:,} {what}{'s' * (count != 1)}"


def ranged(counts: "pl.Series") -> str:
    """Write numbers of realizations, as a range if they differ.

    >>> import polars as pl
    >>> ranged(pl.Series([5, 5])), ranged(pl.Series([3, 5]))
    ('5 realizations', '3 to 5 realizations')
    """
    known = sorted(counts) or [0]
    least, most = known[0], known[-1]
    return plural(most) if least == most else f"{least} to {plural(most)}"


def interpreted(text: str) -> str:
    """Shorten the interpretations of a measurement: without a scenario's parameters, which its title contains.

    >>> interpreted("I1: privacy.uploads noisy; I4: training.clipping per_user; I5: of the median")
    'I1; I4; I5: of the median'
    """
    return BY_PARAMETERS.sub(r"\1", text)
