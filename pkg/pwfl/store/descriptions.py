"""Descriptions of addresses as YAML, and their values read back at once: a store may have thousands of them."""

import re

import yaml

QUOTED = re.compile(r"('(?:[^']|'')*'|\"(?:[^\"\\]|\\.)*\"):(?: (.*))?")  # a key, and what follows it
ITEM = "- "  # how a line of a list begins


def written(description: dict) -> str:
    """A description as YAML, in block style."""
    return yaml.dump(description, Dumper=yaml.CSafeDumper, sort_keys=False)


def values(text: str) -> dict[str, str]:
    """The values of a description that `written` gave, as YAML, by their keys joined with dots; of a list all of it.

    A YAML parser would take several times as long. Of a text that is something else, what looks like values is found.

    >>> values(written({"stage": "train", "parameters": {"training": {"bits": None, "model": [8]}}}))
    {'stage': 'train', 'parameters.training.bits': 'null', 'parameters.training.model': '- 8'}
    """
    found: dict[str, str] = {}
    above: list[tuple[int, str]] = [(0, "")]  # of the mappings that a line is in: indentation, and key with a dot
    last, depth, held = "", 0, None  # the last key, its indentation, its value; None: there is none yet
    for line in text.splitlines():
        bare = line.lstrip(" ")
        indent = len(line) - len(bare)
        is_item = indent >= depth and bare.startswith(ITEM)
        if held is not None and (is_item if not held else indent > depth or (is_item and held.startswith(ITEM))):
            is_list = is_item or held.startswith(ITEM)
            found[last] = held = f"{held}\n{line[depth:]}".strip() if is_list else f"{held} {bare}"
        elif bare and (pair := _pair(bare)):
            if held == "" and indent > depth:  # a mapping
                del found[last]
                above.append((indent, f"{last}."))
            while above[-1][0] > indent:
                above.pop()
            last, depth, held = above[-1][1] + pair[0], indent, pair[1]
            found[last] = held
    return found


def _pair(line: str) -> tuple[str, str] | None:
    """Key and value of a line; None: it has none."""
    if line[0] in "'\"":
        match = QUOTED.fullmatch(line)
        return match and (match[1][1:-1], match[2] or "")
    key, colon, value = line.partition(": ")
    return (key, value) if colon else (line[:-1], "") if line[-1] == ":" else None
