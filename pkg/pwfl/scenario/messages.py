"""What is said of a config that cannot be run: file, key, value, and what would be right."""

import difflib
import re
from collections.abc import Iterable, Sequence

from pwfl import registry
from pwfl.errors import printable
from pwfl.scenario import common
from pwfl.scenario.fields import Section, parameters

BOUNDS = {"ge": "must be at least ", "gt": "must be above ", "le": "must be at most ", "lt": "must be below "}
BEYOND = {"below the minimum": BOUNDS["ge"], "above the maximum": BOUNDS["le"]}
PLAIN = re.compile(r"[^\W_][\w .,+()/-]{0,59}")  # a name that a message may have in its place
ALTERNATIVE = re.compile(r"constrained-\w+|literal\[.*\]")  # of a union: pydantic's last part of a location


class ScenarioError(ValueError):
    """A config that cannot be run; the message names file, key, value and what would be right, all printable."""

    def __str__(self) -> str:
        return printable(super().__str__())


def explain(errors: Iterable[dict], model: type[Section], content: dict) -> list[str]:
    """A line for each of pydantic's errors: key, what is wrong, what would be right; one for all kinds of a value.

    `content` is what was validated.
    """
    found: dict[str, list[str]] = {}  # what is wrong -> what would be right
    for wrong, right in (_explain(error, model, content) for error in errors):
        found.setdefault(wrong, []).append(right)
    return [_joined(wrong, right) for wrong, right in found.items()]


def _joined(wrong: str, right: list[str]) -> str:
    """A line of what is wrong, and of all that would be right."""
    for words, bound in BEYOND.items():
        if len(right) == 1 and right[0].startswith(bound):
            return f"{wrong} is {words}, {right[0].removeprefix(bound)}"
    must = ", or ".join([*right[:1], *(other.removeprefix("must be ") for other in right[1:])])
    return f"{wrong} is wrong: {must}" if must else wrong


def place(location: Sequence[str | int], content) -> str:
    """The key at a place in a config; a part of a list is called by its name where no other has it, or counted from 1.

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
    """A number as in counting.

    >>> [_ordinal(number) for number in (1, 2, 3, 4, 11, 22, 113)]
    ['1st', '2nd', '3rd', '4th', '11th', '22nd', '113th']
    """
    ending = "th" if number // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _explain(error: dict, model: type[Section], content: dict) -> tuple[str, str]:
    """What is wrong, and what would be right, which follows it."""
    location, value = error["loc"], error["input"]
    key = place([part for part in location if not ALTERNATIVE.fullmatch(str(part))], content)
    if error["type"] == "extra_forbidden":
        if reason := lacking(key, model):
            return f"{key}: {reason}", ""
        for part in location[:-1]:
            if isinstance(part, str):
                kind = model.model_fields[part].annotation
                model = kind if isinstance(kind, type) else kind.__args__[0]
        return f"{key}: unknown key{did_you_mean(location[-1], model.model_fields)}", ""
    if error["type"] == "value_error":
        return (f"{key}." if key else "") + str(error["ctx"]["error"]), ""
    if error["type"] == "string_pattern_mismatch":
        return f"{key}: {shown(value)} is not a valid name; {common.NAME_RULE}", ""
    if error["type"] == "missing":
        return f"{key}: is missing", ""
    message = error["msg"][0].lower() + error["msg"][1:]
    if bound := BOUNDS.keys() & error.get("ctx", {}).keys():  # which pydantic writes with all its zeros
        return f"{key}: {shown(value)}", f"{BOUNDS[found := bound.pop()]}{error['ctx'][found]:g}"
    if error["type"] == "literal_error" and isinstance(value, str):
        message += nearest(value, re.findall("'(.*?)'", error["ctx"]["expected"]))
    return f"{key}: {shown(value)}", re.sub("^input should be ", "must be ", message)


def lacking(key: str, model: type[Section]) -> str | None:
    """Why a system lacks a parameter that others have, and which have it; None: it does not say."""
    if (reason := getattr(model, "lacks", {}).get(key)) is None:
        return None
    models, path = {name: registry.system(name).model for name in registry.BUILT_IN}, tuple(key.split("."))
    having = [name for name, other in models.items() if path in dict(parameters(other))]
    own = model.model_fields["system"].default
    return f"{own} has no such parameter: {reason}; systems that have it: {', '.join(having)}"


def blame(problem: str, name: str, base: dict, override: dict) -> str:
    """Prefix a problem with the part of the file that sets its key."""
    keys = problem.split(":", maxsplit=1)[0].split(".")
    for part, content in ((f"scenarios.{name}", override), ("base", base)):
        if sets(content, keys):
            return f"{part}.{problem}"
    return f"scenarios.{name}: {problem}"


def sets(content, keys: Sequence[str]) -> bool:
    """Whether a part of a config sets the value at a key's parts; a list sets all in it."""
    if not keys or isinstance(content, list):
        return True
    key = keys[0].partition("[")[0]
    return isinstance(content, dict) and key in content and sets(content[key], keys[1:])


def did_you_mean(word: str, known) -> str:
    """The known word nearest to an unknown one, or all known ones, as the end of a message."""
    return nearest(word, known) or f"; known: {', '.join(known)}"


def nearest(word, known: Iterable[str]) -> str:
    """The known word nearest to an unknown one, as the end of a message; nothing where none is near."""
    near = difflib.get_close_matches(str(word), list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""


def at(line: str, points: Sequence[str]) -> str:
    """A line, and the first of the points of sweeps that it is about, if any, with how many more there are."""
    return f"{line} (at {first(points, 'point')})" if points else line


def first(names: Sequence[str], kind: str) -> str:
    """The first of some names of a kind, and how many more there are.

    >>> first(["a"], "point"), first(["a", "b", "c"], "point")
    ('a', 'a and 2 more points')
    """
    more = len(names) - 1
    return f"{names[0]} and {more} more {kind}{'s' * (more > 1)}" if more else names[0]


def shown(value) -> str:
    """A value in a message: as YAML's null is called there, and not longer than a line."""
    try:
        text = "empty" if value is None else repr(value)
    except (ValueError, RecursionError):  # of a number of more digits than Python writes, of brackets without end
        return "a value too long to show"
    return text if len(text) <= 120 else f"{text[:100]}... ({len(text)} characters)"


def report(problems: dict[str, list[str]]) -> str:
    """All problems by their places: after the place's name where it has one, in lines of their own below it if more."""
    return "\n".join(
        "\n  ".join([f"{place}:", *lines]) if len(lines) > 1 else f"{place}: {lines[0]}"
        for place, lines in problems.items()
    )
