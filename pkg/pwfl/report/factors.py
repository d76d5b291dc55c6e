"""Effects of a study's factors in words, from the table `effects` grouped by factor and its two values."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

import polars as pl

from pwfl.report import parameters
from pwfl.report.catalog import Outcome
from pwfl.report.effects import ENDS, LEVEL, NOISE, OBSERVER, PRIVACY, SCHEDULER
from pwfl.report.points import called
from pwfl.report.sweeps import INDEX
from pwfl.report.words import number, signed, unit, upper

NAMES = {SCHEDULER: "Scheduler", NOISE: "Noise allocation", PRIVACY: "Price of privacy", OBSERVER: "Observer"}
SECTIONS = {"training": "Learning rule", "schedule": "Scheduling", "privacy": "Privacy parameters"}
ORDER = (SCHEDULER, NOISE, "training", OBSERVER)  # factors that come first; PRIVACY comes last
ALIKE = 0.05  # relative change up to which no change is described
COSTS = {"air_seconds": "airtime", "transmit_energy_j": "energy"}
FIRST_SETTINGS, MOST_SETTINGS = 12, 60  # most rows of a factor, unfolded and at all (`effects` has all)


class Factor(NamedTuple):
    """A factor, two of its values, and the rows of one outcome, the largest difference first."""

    key: str
    name: str
    before: str
    after: str
    outcome: Outcome
    rows: list[dict]  # rows of `effects`, with the `setting` that both points share

    @property
    def idle(self) -> bool:
        """Whether no point is above chance."""
        return not any(row["above_chance"] for row in self.rows)

    @property
    def shown(self) -> list[tuple[dict, bool]]:
        """Rows of the study report, those of the largest and smallest differences, and whether each is folded."""
        half = MOST_SETTINGS // 2
        rows = [*self.rows[:half], *self.rows[-half:]] if len(self.rows) > MOST_SETTINGS else self.rows
        kept = (0, len(rows) // 2, len(rows) - 1)
        return [(row, len(rows) > FIRST_SETTINGS and place not in kept) for place, row in enumerate(rows)]

    @property
    def significant(self) -> int:
        """Number of settings with a significant difference in which either point is above chance."""
        return sum(is_significant(row) for row in self.rows)


def is_significant(row: dict) -> bool:
    """Return whether a row of `effects` is significant and either point is above chance."""
    return row["p_corrected"] is not None and row["p_corrected"] < LEVEL and row["above_chance"]


def factors(effects: pl.DataFrame, points: pl.DataFrame, outcome: str, known: Outcome) -> list[Factor]:
    """List the factors of an outcome from one system's effects and points, in the study report's order."""
    point_rows = {tuple(row[key] for key in INDEX): row for row in points.iter_rows(named=True)}
    groups: dict[tuple[str, str, str], list[dict]] = {}
    for row in effects.filter(outcome=outcome).iter_rows(named=True):
        one, other = (point_rows.get(tuple(row[f"{end}_{key}"] for key in INDEX)) for end in ("from", "to"))
        if one and other and not _sees_the_same(row, one, other):
            before, after = _levels(row, one, other)
            setting = {"setting": _setting(row, one, other)}
            groups.setdefault((row["factor"], before, after), []).append(row | setting)
    listed = []
    for (key, before, after), rows in groups.items():
        rows.sort(key=lambda row: -row["difference"])
        listed.append(Factor(key, name(rows[0]["system"], key), before, after, known, rows))
    places = {key: place for place, key in enumerate(ORDER)} | {PRIVACY: len(ORDER) + 1}
    return sorted(listed, key=lambda factor: places.get(factor.key, len(ORDER)))


def name(system: str, key: str) -> str:
    """Return a factor's name; of a parameter its title, without unit and key.

    >>> name("multicell", "training"), name("multicell", "training.clip_norm"), name("multicell", "radio")
    ('Learning rule', 'Clipping norm L of a gradient', 'Radio')
    """
    if key in NAMES or "." not in key:
        return NAMES.get(key) or SECTIONS.get(key) or upper(key.replace("_", " "))
    return upper(parameters.title(system, key))


def _sees_the_same(row: dict, one: dict, other: dict) -> bool:
    """Return whether a row compares two observers that see the same, so that it has nothing to compare.

    >>> message = {"seen": "each message"}
    >>> _sees_the_same({"factor": OBSERVER}, message, message), _sees_the_same({"factor": NOISE}, message, message)
    (True, False)
    >>> _sees_the_same({"factor": OBSERVER}, message, {"seen": "the server's update"})
    False
    """
    return row["factor"] == OBSERVER and bool(one["seen"]) and one["seen"] == other["seen"]


def _levels(row: dict, one: dict, other: dict) -> tuple[str, str]:
    """Return a factor's two values for readers; of several parameters, the parts in which the titles differ."""
    if row["factor"] == OBSERVER and one["seen"] and other["seen"]:
        return without_common_end(one["seen"], other["seen"])
    if row["factor"] in (SCHEDULER, NOISE, PRIVACY) or "." in row["factor"]:
        return row["from"].replace("_", " "), row["to"].replace("_", " ")
    titles = [point["title"].split(", ") for point in (one, other)]
    parts = [", ".join(part for part in titles[k] if part not in titles[1 - k]) or one["title"] for k in (0, 1)]
    return without_common_end(*parts)


def without_common_end(before: str, after: str) -> tuple[str, str]:
    """Remove the common last words of two values from the second one, except its first word.

    >>> without_common_end("Paper's learning", "Better learning"), without_common_end("a", "b")
    (("Paper's learning", 'Better'), ('a', 'b'))
    """
    words = [text.split() for text in (before, after)]
    pairs = zip(*(reversed(parts) for parts in words), strict=False)
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return before, " ".join(words[1][: max(len(words[1]) - common, 1)])


def _setting(row: dict, one: dict, other: dict) -> str:
    """Describe the common setting of a row's two points."""
    if row["factor"] in (SCHEDULER, NOISE):
        return upper(other["place"]) or "This study"
    if row["factor"] == PRIVACY:
        return called(other)
    scheme = other["scheme"] if one["scheme"] == other["scheme"] else f"{other['scheme']}, {one['scheme']}"
    if one["value"] and one["value"] == other["value"]:
        return f"{scheme}, {one['value']}"
    common = [part for part in one["place"].split(", ") if part in other["place"].split(", ")]
    return ", ".join([scheme, *common])


def effect(factor: Factor) -> tuple[str, str, str]:
    """Describe an effect: its size over all settings, the number of significant settings, and the intervals' ends.

    >>> accuracy = Outcome("Final test accuracy", "more", "~%")
    >>> row = {"difference": 0.025, "difference_ci_low": 0.013, "difference_ci_high": 0.037, "p_corrected": 0.001}
    >>> row |= {"above_chance": True}
    >>> big = row | {"difference": 0.145, "difference_ci_high": 0.194}
    >>> def describe(*rows): return effect(Factor("scheduler", "Scheduler", "a", "b", accuracy, list(rows)))
    >>> describe(big, row)
    ('+2.5 to +14.5 points', 'significant in 2 of 2 settings', '95% CI +1.3 to +19.4')
    >>> describe(row)[:2]
    ('+2.5 points', 'significant in 1 of 1 setting')
    >>> describe(row | {"p_corrected": 0.4}), describe(row | {"above_chance": False})[:2]
    (('no significant effect (+2.5 points)', 'in 1 setting', '95% CI +1.3 to +3.7'), \
('Nothing to compare', 'neither is above chance'))
    >>> describe(row | {"p_corrected": None, "difference_ci_low": None, "difference_ci_high": None})[1:]
    ('in 1 setting', 'one realization: no interval')
    """
    rows, outcome = factor.rows, factor.outcome
    least, most = (signed(end(row["difference"] for row in rows), outcome) for end in (min, max))
    size = f"{least if least == most else f'{least} to {most}'} {unit(outcome)}".rstrip()
    low, high = ([row[f"difference_ci_{end}"] for row in rows if row[f"difference_ci_{end}"] is not None]
                 for end in ("low", "high"))  # fmt: skip
    detail = (
        f"95% CI {signed(min(low), outcome)} to {signed(max(high), outcome)}" if low else "one realization: no interval"
    )
    if factor.idle:
        return "Nothing to compare", "neither is above chance", f"difference {size}, {detail}"
    settings = "setting" if len(rows) == 1 else "settings"
    if not factor.significant:
        return f"no significant effect ({size})", f"in {len(rows)} {settings}", detail
    return size, f"significant in {factor.significant} of {len(rows)} {settings}", detail


def costs(factor: Factor, others: Mapping[str, Sequence[Factor]] = {}) -> str:
    """Describe how a factor changes epsilon, airtime and energy by more than ALIKE, without insignificant changes.

    `others` maps columns to the factors of these outcomes, which contain the tests; untested changes are described.

    >>> row = {"from_epsilon": 18.1, "to_epsilon": 4.23, "from_air_seconds": 10.0, "to_air_seconds": 25.0}
    >>> row |= {"from_transmit_energy_j": 0.1, "to_transmit_energy_j": 0.078}
    >>> row |= {f"{end}_{key}": end for end in ENDS for key in INDEX}
    >>> def changes(*rows, key="noise"): return costs(Factor(key, "", "a", "b", Outcome("", "more"), list(rows)))
    >>> changes(row)
    'ε 18.1 → 4.23; airtime × 2.5; energy 22% lower'
    >>> changes(row | {"to_epsilon": 18.1, "to_air_seconds": None, "to_transmit_energy_j": 0.0})
    'same ε'
    >>> changes(row, row | {"to_epsilon": 9.0}, key=PRIVACY), changes(row | {"from_epsilon": float("inf")}, key=PRIVACY)
    ('ε 50–77% lower', '')
    >>> factor = Factor("", "", "a", "b", Outcome("", ""), [row])
    >>> def energy(p): return {"transmit_energy_j": [factor._replace(rows=[row | {"p_corrected": p}])]}
    >>> costs(factor, energy(0.2)), costs(factor, energy(0.01))
    ('ε 18.1 → 4.23; airtime × 2.5', 'ε 18.1 → 4.23; airtime × 2.5; energy 22% lower')
    >>> costs(factor._replace(rows=[row, row | {"to_scenario": "other"}]), energy(0.2))
    'ε 18.1 → 4.23; airtime × 2.5; energy 22% lower in 1 of 2'
    """
    parts = [_counted(_epsilons, _changes(factor, "epsilon", others), factor)]
    if factor.key != PRIVACY:  # the baseline may transmit otherwise
        ratios = {what: _counted(_ratios, _changes(factor, column, others), factor) for column, what in COSTS.items()}
        same = len(set(ratios.values())) == 1 and all(ratios.values())
        parts += (
            [f"airtime and energy {ratios['airtime']}"]
            if same
            else [f"{what} {text}" for what, text in ratios.items() if text]
        )
    return "; ".join(text for text in parts if text)


def _changes(
    factor: Factor, column: str, others: Mapping[str, Sequence[Factor]]
) -> list[tuple[float | None, float | None]]:
    """Return a column's values at both points of a factor's rows, except rows with an insignificant difference."""
    alike = {
        _ends(row)
        for other in others.get(column, ())
        if other.key == factor.key
        for row in other.rows
        if row["p_corrected"] is not None and row["p_corrected"] >= LEVEL
    }
    return [(row[f"from_{column}"], row[f"to_{column}"]) for row in factor.rows if _ends(row) not in alike]


def _counted(words: Callable[[list], str], pairs: list, factor: Factor) -> str:
    """Describe pairs of values by `words`, with the number of settings if they are not all of the factor's."""
    text = words(pairs)
    counted = len(pairs) < len(factor.rows) and text not in ("", "same ε")
    return f"{text} in {len(pairs)} of {len(factor.rows)}" if counted else text


def _ends(row: dict) -> tuple:
    """Return the keys of the two points that a row compares."""
    return tuple(row[f"{end}_{key}"] for end in ENDS for key in INDEX)


def _epsilons(pairs: list[tuple[float | None, float | None]]) -> str:
    known = list(_positive(pairs))
    if len({(number(x), number(y)) for x, y in known}) == 1 and number(known[0][0]) != number(known[0][1]):
        return f"ε {number(known[0][0])} → {number(known[0][1])}"
    ratios = _ratios(pairs)
    return f"ε {ratios}" if ratios else "same ε" if known and len(known) == len(pairs) else ""


def _positive(pairs: list[tuple[float | None, float | None]]) -> Iterator[tuple[float, float]]:
    for x, y in pairs:
        if x and y and math.isfinite(x) and math.isfinite(y) and x > 0 and y > 0:
            yield x, y


def _ratios(pairs: list[tuple[float | None, float | None]]) -> str:
    """Describe the ratios of pairs of values; "" if no value changes by more than ALIKE."""
    ratios = [y / x for x, y in _positive(pairs)]
    if not ratios or (min(ratios) > 1 - ALIKE and max(ratios) < 1 + ALIKE):
        return ""
    low, high = min(ratios), max(ratios)
    if high <= 1 and low > 0.2:
        less = sorted({round(100 * (1 - high)), round(100 * (1 - low))})
        return f"{'up to ' * (not less[0])}{'–'.join(str(value) for value in less if value)}% lower"
    ends = dict.fromkeys(number(float(f"{ratio:.2g}")) for ratio in (low, high))
    return f"× {'–'.join(ends)}"


def epsilons(row: dict) -> str:
    """Format the epsilons of a row's two points, or the common one."""
    return " → ".join(dict.fromkeys(number(row[f"{end}_epsilon"]) for end in ("from", "to")))


def describe_row(row: dict, factor: Factor) -> str:
    """Describe a setting's difference for the tooltip of its dot."""
    low, high = (row[f"difference_ci_{end}"] for end in ("low", "high"))
    interval = f" (95% CI {signed(low, factor.outcome)} to {signed(high, factor.outcome)})" if low is not None else ""
    what = f"{signed(row['difference'], factor.outcome)} {unit(factor.outcome)}".rstrip()
    return f"{row['setting']}: {what}{interval}"
