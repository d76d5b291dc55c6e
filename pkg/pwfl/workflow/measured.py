"""Measurements of one's own, to be drawn over a study's outcomes: a CSV file, checked.

A row is a point: its `label`, the `source` that it comes from, outcomes by their names in the table `outcomes`, with or
without the ends NAME_low and NAME_high of their intervals, and values of numbers and texts that the study sweeps.
"""

import csv
import sys
from collections import Counter
from io import StringIO

from pwfl import registry
from pwfl.report.catalog import COMMON_OUTCOMES, Outcome
from pwfl.scenario import ScenarioError, Study
from pwfl.scenario.messages import did_you_mean, shown
from pwfl.scenario.study import with_units
from pwfl.store.files import TextError, text

WORDS = ("label", "source")
MOST = sys.float_info.max
Row = dict[str, str | float]


@with_units
def read(study: Study) -> list[Row]:
    """The rows of a study's file of measurements, without cells that are empty; none where it names no file.

    Raises ScenarioError with one line for every flaw, which names file, line, column and value.
    """
    path = study.measurements
    if path is None:
        return []
    systems = Counter(scenario.system for scenario in study.scenarios.values())
    known: dict[str, Outcome] = dict(COMMON_OUTCOMES)
    for system in systems:
        known |= registry.system(system).catalog.outcomes
    if systems.most_common(1)[0][1] < 2:
        raise ScenarioError(
            f"measurements: {path}: needs at least two scenarios of one system, to be drawn over their comparison"
        )
    values = {key: [study.point(name).values[key] for name in study.scenarios] for key in study.swept}
    kinds = {key: {type(value) for value in of_key} for key, of_key in values.items()}
    swept = {key: bool(of_key & {int, float}) for key, of_key in kinds.items() if of_key <= {int, float, str}}
    flaws, rows = [], []
    try:
        lines = csv.reader(StringIO(text(path), newline=""), strict=True)
        heads = [head.strip() for head in next(lines, [])]
        flaws += _of_heads(heads, known, swept) if heads else ["is empty"]
        for cells in lines if not flaws else ():
            row, found = _row(dict(zip(heads, map(str.strip, cells), strict=False)), known, swept)
            if len(cells) != len(heads):
                found = [f"has {len(cells)} cells, but the header has {len(heads)}"]
            rows.append(row)
            flaws += [f"line {lines.line_num}: {flaw}" for flaw in found]
    except TextError as error:
        raise ScenarioError(f"measurements: {path}: {error}") from None
    except (OSError, csv.Error) as error:
        raise ScenarioError(f"measurements: {path}: cannot be read: {error}") from None
    if flaws or not rows:
        raise ScenarioError("\n".join(f"measurements: {path}: {flaw}" for flaw in flaws or ["has no rows"]))
    return rows


def _of_heads(heads: list[str], known: dict[str, Outcome], swept: dict[str, bool]) -> list[str]:
    """What is wrong with the names of the columns."""
    ends = [f"{name}_{end}" for name in known for end in ("low", "high")]
    flaws = [f"column {name!r} is missing" for name in WORDS if name not in heads]
    flaws += [f"column {name!r} appears {count} times" for name, count in Counter(heads).items() if count > 1]
    of_all = (*WORDS, *known, *swept)
    flaws += [f"unknown column {name!r}{did_you_mean(name, of_all)}" for name in heads if name not in (*of_all, *ends)]
    return flaws


def _row(cells: dict[str, str], known: dict[str, Outcome], swept: dict[str, bool]) -> tuple[Row, list[str]]:
    """A row's values, and what is wrong with them; `swept` says which parameters are numbers."""
    row = {name: cell if name in WORDS else _value(cell) for name, cell in cells.items() if cell}
    flaws = [f"{name}: is empty; a measurement needs a label and a source" for name in WORDS if name not in row]
    for name, outcome in known.items():
        least, most, what = (
            (0, 1, "a fraction from 0 to 1") if "%" in outcome.format else (-MOST, MOST, "a finite number")
        )
        parts = {part: row[part] for part in (f"{name}_low", name, f"{name}_high") if part in row}
        wrong = [part for part, value in parts.items() if isinstance(value, str) or not least <= value <= most]
        flaws += [f"{part}: {shown(parts[part])} is wrong: must be {what}" for part in wrong]
        if len(parts) not in (0, 3) and list(parts) != [name]:
            flaws.append(f"{name}: an interval needs {name}, {name}_low and {name}_high")
        elif not wrong and list(parts.values()) != sorted(parts.values()):
            flaws.append(f"{name}: {parts[name]:g} is not between {name}_low and {name}_high")
    texts = [key for key, is_number in swept.items() if is_number and isinstance(row.get(key), str)]
    flaws += [f"{key}: {shown(row[key])} is wrong: must be a number" for key in texts]
    if sum(name in row for name in (*known, *swept)) < 2:
        flaws.append("needs at least two outcomes or swept parameters, one for each axis")
    return row, flaws


def _value(cell: str) -> str | float:
    try:
        return float(cell)
    except ValueError:
        return cell
