"""Messages about configs that cannot be run: file, key, value and remedy."""

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args

from pwfl import registry
from pwfl.errors import printable
from pwfl.scenario import common, fields
from pwfl.scenario.fields import Section, parameters

BOUNDS = {"ge": "must be at least ", "gt": "must be above ", "le": "must be at most ", "lt": "must be below "}
BEYOND = {"below the minimum": BOUNDS["ge"], "above the maximum": BOUNDS["le"]}
# Remedies by the kind of pydantic's error; for lengths, the bound in words, its name, and the unit that is counted.
RIGHT = {
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "string_unicode": "must be text in Unicode",
    "dict_type": "must be a mapping, as in {name: 1}",
    "model_type": "must be a mapping of parameters, as in {key: value}",
    "invalid_key": "a key must be text",
}
LENGTHS = {
    "too_short": ("at least", "min_length", "value"),
    "too_long": ("at most", "max_length", "value"),
    "string_too_short": ("at least", "min_length", "character"),
    "string_too_long": ("at most", "max_length", "character"),
}
RULES = {  # remedies for texts, by their patterns
    common.SHA256: "must be a SHA-256: 64 digits 0 to 9 and a to f, as `sha256sum FILE` prints them",
    fields.OWN_NAME: "must be a name: letters, digits and _, beginning with a letter, at most 64 of them",
}
# Replacements for parameters of version 1 that no system has any more; docs/upgrading.md lists them, too.
RECIPE = "`training.recipe` sets it (values: docs/upgrading.md)"
CONSTANT = "it is a constant now; delete it"
FORMER = {
    "shards": "chunks of realizations follow from the network's size; delete it",
    "data.validation": "write `data.reserved` and `data.evaluate_on: reserved`",
    **{
        f"training.{name}": RECIPE
        for name in ("weights", "initial_weights", "step_decay", "directions", "tail_average", "test_variants")
    },
    **dict.fromkeys(
        (
            *("convergence", "privacy.min_classical_epsilon", "training.correction", "training.accuracy_level"),
            *("schedule.searches", "schedule.sweep_clients", "schedule.sweep_epsilon"),
            *("radio.user_height_m", "radio.min_distance_m", "radio.digital_efficiency", "radio.path_loss_db"),
        ),
        CONSTANT,
    ),
}
NEAR = 0.5  # similarity from which one word is suggested for another
PLAIN = re.compile(r"[^\W_][\w .,+()/-]{0,59}")  # a name that a message may use for an entry of a list
ALTERNATIVE = re.compile(
    r"constrained-\w+|literal\[.*\]|\[key\]"
)  # last part of pydantic's location, for a union or a key


class ScenarioError(ValueError):
    """A config that cannot be run; the message names file, key, value and remedy, and is printable."""

    def __str__(self) -> str:
        return printable(super().__str__())


def explain(errors: Iterable[Mapping[str, Any]], model: type[Section], content: dict) -> list[str]:
    """Write a line for each of pydantic's errors: key, problem, remedy; all types that a value may have share a line.

    `content` is the validated config.
    """
    remedies: dict[str, list[str]] = {}  # problem -> remedies
    for wrong, right in (_explain(error, model, content) for error in errors):
        remedies.setdefault(wrong, []).append(right)
    return [_joined(wrong, right) for wrong, right in remedies.items()]


def _joined(wrong: str, right: list[str]) -> str:
    """Join a problem and its remedies to a line."""
    for words, bound in BEYOND.items():
        if len(right) == 1 and right[0].startswith(bound):
            return f"{wrong} is {words}, {right[0].removeprefix(bound)}"
    must = ", or ".join([*right[:1], *(other.removeprefix("must be ") for other in right[1:])])
    return f"{wrong} is wrong: {must}" if must else wrong


def place(location: Sequence[str | int], content) -> str:
    """Return the key at a location in a config; a list's entry has its name, if unique, or its number from 1.

    >>> place(("schemes", 1, "noise"), {"schemes": [{"name": "A"}, {"name": "B"}]}), place(("times", 2), {"times": []})
    ('schemes[B].noise', 'times[3rd]')
    """
    key = ""
    for part in location:
        if isinstance(part, str):
            key += f".{part}" if key else part
            content = content.get(part) if isinstance(content, dict) else None
            continue
        parts = content if isinstance(content, list) else []
        names = [one.get("name") if isinstance(one, dict) else None for one in parts]
        content, name = (parts[part], names[part]) if part < len(parts) else (None, None)
        is_known = isinstance(name, str) and PLAIN.fullmatch(name) and names.count(name) == 1
        key += f"[{name if is_known else _ordinal(part + 1)}]"
    return key


def _ordinal(number: int) -> str:
    """Write a number as an ordinal.

    >>> [_ordinal(number) for number in (1, 2, 3, 4, 11, 22, 113)]
    ['1st', '2nd', '3rd', '4th', '11th', '22nd', '113th']
    """
    ending = "th" if number // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _explain(error: Mapping[str, Any], model: type[Section], content: dict) -> tuple[str, str]:
    """Return an error's problem and the remedy that follows it in the message."""
    location, value = error["loc"], error["input"]
    key = place([part for part in location if not ALTERNATIVE.fullmatch(str(part))], content)
    if error["type"] == "extra_forbidden":
        return f"{key}: {unknown(key, model, _section(model, location).model_fields)}", ""
    if error["type"] == "value_error":
        return (f"{key}." if key else "") + str(error["ctx"]["error"]), ""
    if error["type"] == "string_pattern_mismatch" and error["ctx"]["pattern"] == common.NAME["pattern"]:
        return f"{key}: {shown(value)} is not a valid name; {common.NAME_RULE}", ""
    if error["type"] == "missing":
        return f"{key}: is missing", ""
    if bound := BOUNDS.keys() & error.get("ctx", {}).keys():  # pydantic would write the bound with all its zeros
        return f"{key}: {shown(value)}", f"{BOUNDS[kind := bound.pop()]}{error['ctx'][kind]:g}"
    return f"{key}: {shown(value)}", _right(error, _section(model, location))


def _section(model: type[Section], location: Sequence[str | int]) -> type[Section]:
    """Return the section, or other model, that has the last key of a location."""
    for part in location[:-1]:
        if isinstance(part, str) and part in model.model_fields:
            kind = model.model_fields[part].annotation
            kinds = [kind, *get_args(kind)]
            model = next((inner for inner in kinds if isinstance(inner, type) and issubclass(inner, Section)), model)
    return model


def _right(error: Mapping[str, Any], section: type[Section]) -> str:
    """Return the remedy for a value of a section, by the kind of pydantic's error."""
    kind, value, known = error["type"], error["input"], error.get("ctx", {})
    if kind == "literal_error":
        choices = re.sub("^Input should be ", "must be ", error["msg"])
        return choices + (nearest(value, re.findall("'(.*?)'", known["expected"])) if isinstance(value, str) else "")
    if kind == "string_pattern_mismatch":
        return RULES.get(known["pattern"], f"must match the pattern {known['pattern']}")
    if kind == "list_type":
        held = set(_kinds(section.model_fields[error["loc"][-1]].annotation)) if error["loc"] else set()
        is_entry = type(value) in held or (type(value) is int and float in held)
        text = value if isinstance(value, str) else shown(value)
        return f"must be a list, as in [{text}]" if is_entry and len(text) <= 60 else "must be a list"
    if kind in LENGTHS:
        least, length, what = LENGTHS[kind]
        return f"must have {least} {known[length]} {what}{'s' * (known[length] != 1)}"
    return RIGHT[kind]


def _kinds(annotation) -> Iterator:
    """Yield a type, and all types in its arguments."""
    yield annotation
    for part in get_args(annotation):
        yield from _kinds(part)


def unknown(key: str, model: type[Section], known: Collection[str]) -> str:
    """Explain a key that a system's model does not have: the reason, or where a parameter of this name is.

    `known` are the last parts of the keys in its section, or whole keys.
    """
    if now := FORMER.get(key):
        return f"is a key of version 1: {now}"
    system, last = model.model_fields["system"].default, key.rpartition(".")[2]
    if reason := getattr(model, "lacks", {}).get(key):
        having = _systems_with(key)
        return f"{system} has no such parameter: {reason}; systems that have it: {', '.join(having)}"
    elsewhere = [".".join(path) for path, _ in parameters(model) if path[-1] == last]
    others = [name for name in _systems_with(key) if name != system]
    word = key if any("." in known_key for known_key in known) else last
    if not (elsewhere or others):
        return f"unknown key{did_you_mean(word, known)}"
    near = [] if elsewhere else difflib.get_close_matches(word, known, n=1, cutoff=NEAR)
    offers = [*(f"{known_key!r}{_condition(model, known_key)}" for known_key in elsewhere), *map(repr, near)]
    offers += [f"`system: {' or '.join(others)}`, which {'has' if len(others) == 1 else 'have'} it"] if others else []
    return f"unknown key of {system}; did you mean {', or '.join(offers)}?"


def _systems_with(key: str) -> list[str]:
    """List the built-in systems that have a parameter."""
    models = {name: registry.system(name).model for name in registry.BUILT_IN}
    return [name for name, model in models.items() if tuple(key.split(".")) in dict(parameters(model))]


def _condition(model: type[Section], key: str) -> str:
    """Return the setting that gives a parameter an effect, if its meaning names it: ` with `air: antennas``."""
    (meaning,) = (field.description for path, field in parameters(model) if ".".join(path) == key)
    match = re.search(r", with (`\w+: \w+`)$", meaning or "")
    return f" with {match[1]}" if match else ""


def blame(problem: str, name: str, base: dict, override: dict) -> str:
    """Prefix a problem with the part of the file that sets its key."""
    keys = problem.split(":", maxsplit=1)[0].split(".")
    for part, content in ((f"scenarios.{name}", override), ("base", base)):
        if sets(content, keys):
            return f"{part}.{problem}"
    return f"scenarios.{name}: {problem}"


def sets(content, keys: Sequence[str]) -> bool:
    """Return whether a part of a config sets the value at a key's parts; a list sets everything in it."""
    if not keys or isinstance(content, list):
        return True
    key = keys[0].partition("[")[0]
    return isinstance(content, dict) and key in content and sets(content[key], keys[1:])


def did_you_mean(word: str, known) -> str:
    """Return the known word nearest to an unknown one, or else all known words, as the end of a message."""
    return nearest(word, known) or f"; known: {', '.join(known)}"


def nearest(word, known: Iterable[str]) -> str:
    """Return the known word nearest to an unknown one, as the end of a message; '': none is near."""
    near = difflib.get_close_matches(str(word), list(known), n=1, cutoff=NEAR)
    return f"; did you mean {near[0]!r}?" if near else ""


def at(line: str, points: Sequence[str]) -> str:
    """Append to a line the first of the sweep points that it is about, if any, and the number of the others."""
    return f"{line} (at {first(points, 'point')})" if points else line


def first(names: Sequence[str], kind: str) -> str:
    """Write the first of some names of a kind, and the number of the others.

    >>> first(["a"], "point"), first(["a", "b", "c"], "point")
    ('a', 'a and 2 more points')
    """
    more = len(names) - 1
    return f"{names[0]} and {more} more {kind}{'s' * (more > 1)}" if more else names[0]


def shown(value) -> str:
    """Write a value for a message, shortened to a line; null is written as `empty`."""
    try:
        text = "empty" if value is None else repr(value)
    except (ValueError, RecursionError):  # a number with more digits than Python writes, or endless nesting
        return "a value too long to show"
    return text if len(text) <= 120 else f"{text[:100]}... ({len(text)} characters)"


def report(problems: dict[str, list[str]]) -> str:
    """Write all problems by their places: a single one after the place's name, several on separate lines below it."""
    return "\n".join(
        "\n  ".join([f"{place}:", *lines]) if len(lines) > 1 else f"{place}: {lines[0]}"
        for place, lines in problems.items()
    )
