"""Sweeps: grids of a scenario's parameters, each point of which is a separate scenario.

`sweep`, in the base or in a scenario, maps keys of parameters to lists of values, and denotes the product of the lists.
A list of such mappings is the union of their products, as in scikit-learn's ParameterGrid.
"""

import re
from collections import Counter
from itertools import product
from math import prod
from typing import NamedTuple

from pwfl.scenario.endings import UNITS, ending
from pwfl.scenario.fields import OWN_NAME, Own, Section, parameters, stages_of
from pwfl.scenario.messages import shown, unknown

KEY = "sweep"
UNSWEPT = {  # keys with values that no axis can compare
    "system": "write one scenario per system",
    "schemes": "list all of them in `schemes`: a scenario compares them",
}
EXAMPLE = "as in `sweep: {schedule.gamma: [100, 1000], radio.resource_blocks: [3, 5]}`"
MAX_NAME = 200  # characters of a point's name, which is also a folder's
MAX_POINTS = 10_000
LONG = 1e6  # numbers from here on have an exponent in titles
GREEK = {"alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "rho": "ρ", "sigma": "σ"}
GREEK |= {"lambda": "λ", "mu": "μ"}
SPELLED = GREEK | {"snr": "SNR"}

Values = dict[str, object]  # of a point, by dotted key


class Point(NamedTuple):
    """A sweep point: the name of the swept scenario, and the point's values."""

    of: str
    values: Values


def problems(written, model: type[Section]) -> list[str]:
    """List problems with a `sweep`, a line for each; the values themselves are not checked."""
    if not isinstance(written, dict | list) or not all(isinstance(grid, dict) for grid in _grids(written)):
        return [
            (
                f"{KEY}: must be a mapping from keys to lists of values, or a list of such mappings, is "
                f"{shown(written)}; {EXAMPLE}"
            )
        ]
    known = {".".join(path): field for path, field in parameters(model)}
    sections = {".".join(path[:end]) for path, _ in parameters(model) for end in range(1, len(path))}
    wrong, count = [], 0
    for grid in _grids(written):
        sizes = []
        for key, values in grid.items():
            if hint := UNSWEPT.get(str(key).split(".", maxsplit=1)[0]):
                wrong.append(f"{key}: cannot be swept; {hint}")
            elif key in sections:
                inside = ", ".join(name for name in known if name.startswith(f"{key}."))
                wrong.append(f"{key}: is a section; sweep one of its parameters: {inside}")
            elif (parent := str(key).rpartition(".")[0]) in known and known[parent].annotation == Own:
                if re.fullmatch(OWN_NAME, str(key).rpartition(".")[2]) and isinstance(values, list) and values:
                    sizes.append(len(values))
                else:
                    wrong.append(f"{key}: must be a name and a list of its values, is {shown(values)}; {EXAMPLE}")
            elif key not in known:
                wrong.append(f"{key}: {unknown(str(key), model, known)}")
            elif not stages_of(known[key]):
                wrong.append(f"{key}: cannot be swept; results do not depend on it")
            elif not isinstance(values, list) or not values:
                wrong.append(f"{key}: must be a list of values, is {shown(values)}; {EXAMPLE}")
            else:
                sizes.append(len(values))
        count += prod(sizes)
    if count > MAX_POINTS:
        wrong.append(f"has {count:,} points; at most {MAX_POINTS:,} are allowed; sweep fewer values")
    return [f"{KEY}: {problem}" for problem in wrong]


def points(written) -> list[Values]:
    """List the points of a sweep without `problems`, in the order of its values; the last key's change fastest."""
    grids = [grid for grid in _grids(written) if grid]
    return [dict(zip(grid, values, strict=True)) for grid in grids for values in product(*grid.values())]


def name(scenario: str, values: Values) -> str:
    """Return a point's name: the scenario's and the values, each after its key's last part, or its key if ambiguous."""
    short = {key: key.rpartition(".")[2] for key in values}
    count = Counter(short.values())
    labels = {key: last if count[last] == 1 else key for key, last in short.items()}
    return ",".join([scenario, *(f"{labels[key]}={text(value)}" for key, value in values.items())])


def title(scenario: str, values: Values) -> str:
    """Return a point's title: its scenario's, and the values with their parameters' names in words and Greek letters.

    >>> title("Paper's learning", {"schedule.gamma": 30.0, "radio.resource_blocks": 2})
    "Paper's learning, γ = 30, resource blocks = 2"
    >>> title("Paper's schedules", {"schedule.gamma": 1e7})
    "Paper's schedules, γ = 1e7"
    >>> title("Loud", {"radio.snr_db": 30.0})
    'Loud, SNR = 30 dB'
    """
    named = [(*name_and_unit(key), _shown(value)) for key, value in values.items()]
    return ", ".join([scenario, *(f"{name} = {value} {unit}".strip() for name, unit, value in named)])


def in_words(key: str) -> str:
    """Write a parameter's key for readers: its last part in words and Greek letters, and its unit after `in`.

    >>> in_words("privacy.target_epsilon"), in_words("radio.snr_db"), in_words("radio.noise_density_dbm_hz")
    ('target ε', 'SNR in dB', 'noise density in dBm/Hz')
    """
    return " in ".join(filter(None, name_and_unit(key)))


def name_and_unit(key: str) -> tuple[str, str]:
    """Return a parameter's name in words, and the unit that its key ends with, or ""."""
    name = key.rpartition(".")[2]
    end = ending(name)
    return " ".join(SPELLED.get(word, word) for word in name.removesuffix(end).split("_")), UNITS.get(end, "")


def short_exponents(text: str) -> str:
    """Shorten the exponents of numbers in a text.

    >>> short_exponents("1e-05 to 3.2e+07, < 1e10")
    '1e-5 to 3.2e7, < 1e10'
    """
    return re.sub(r"(?<=\de)(?:\+0*|(-)0+)", r"\1", text)


def _shown(value) -> str:
    if isinstance(value, float) and abs(value) >= LONG:
        return short_exponents(f"{value:g}")
    return text(value) if isinstance(value, float | list | bool | None) else " ".join(str(value).split())


def text(value) -> str:
    """Write a value for names: a number in its shortest exact form, and only characters that folder names may have."""
    if isinstance(value, list):
        return "x".join(map(text, value)) or "none"
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    return re.sub(r"[^A-Za-z0-9_.+-]", "_", str(value))


def nested(values: Values) -> dict:
    """Nest a point's values by sections, as in a scenario's content."""
    content: dict = {}
    for key, value in values.items():
        *sections, last = key.split(".")
        inner = content
        for section in sections:
            inner = inner.setdefault(section, {})
        inner[last] = value
    return content


def _grids(written) -> list:
    return written if isinstance(written, list) else [written]
