"""Config files and `--config` as they are written: what YAML refuses, and what it would take for something else.

YAML 1.1, as PyYAML and Snakemake read it, lets the last of two equal keys win, and takes `010` for 8, `1:30` for 90,
`on` for true and `2026-11-21` for a date. Each is an error here, with its line. So is what says more than a config can
need: some lines of aliases of aliases come to billions of values.
"""

import json
import re
from contextlib import suppress
from itertools import chain
from pathlib import Path

import yaml

from pwfl.store import files

NUMBER_LIKE = re.compile(
    r"[-+]?(0[0-9_]+|0[box][0-9a-fA-F_]+|[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?|[0-9][0-9.]*_[0-9_.]*)"
)
TRUTHS = ("true", "True", "false", "False")
MOST_CHARACTERS = 1_000_000  # of a document with its aliases written out, one more for each value, list and mapping


class WrittenError(ValueError):
    """Text that is no config; the message holds a line for each flaw."""


def read(path: str | Path) -> dict:
    """Content of a config file, YAML or JSON. Raises WrittenError, with lines that begin with a line's number."""
    try:
        text = files.text(path)
    except FileNotFoundError:
        raise WrittenError("file not found") from None
    except OSError as error:
        raise WrittenError(f"cannot be read: {error.strerror}") from None
    except files.TextError as error:
        raise WrittenError(str(error)) from None
    if not isinstance(config := parse(text), dict):
        is_empty = "is empty; " if not text.strip() else ""
        raise WrittenError(f"line 1: {is_empty}must be a mapping, with `scenarios:` among its keys")
    return config


def parse(text: str, typed: bool = True):
    """What a YAML (or JSON) text says. Raises WrittenError.

    Without `typed`, scalars are text to its reader, as Snakemake takes those of `--config`.
    """
    with suppress(ValueError, RecursionError):
        json.loads(text)
        text = text.replace("\t", " ")  # which JSON may indent with, and YAML may not
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is None:
            return None
        if flaws := _flaws(node, typed):
            raise WrittenError("\n".join(flaws))
        _check_size(node, {})
        return yaml.load(text, Loader=yaml.SafeLoader if typed else yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        hint = "; indent with spaces, not tabs" if "'\\t'" in str(error.problem) else ""
        context = f" ({error.context} in line {error.context_mark.line + 1})" if error.context_mark else ""
        raise WrittenError(f"line {mark.line + 1}: is not valid YAML: {error.problem}{context}{hint}") from None
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise WrittenError(f"line {line}: contains the character {error.character:#06x}, which YAML forbids") from None
    except RecursionError as error:  # a thousand brackets
        raise WrittenError(f"line 1: is not valid YAML: {error}") from None


def _flaws(node: yaml.Node, typed: bool) -> list[str]:
    """A line for each part of a YAML document that would be read as something else than it seems."""
    flaws, seen = [], {}  # nodes by id, which aliases share; False: not yet looked at to its end

    def look(node: yaml.Node) -> None:
        line = node.start_mark.line + 1
        if id(node) in seen:
            if not seen[id(node)]:
                flaws.append(f"line {line}: refers to itself")
            return
        seen[id(node)] = False
        if isinstance(node, yaml.ScalarNode):
            if flaw := _scalar_flaw(node, typed):
                flaws.append(f"line {line}: {flaw}")
        elif isinstance(node, yaml.SequenceNode):
            for part in node.value:
                look(part)
        else:
            lines = {}
            for key, value in node.value:
                at = key.start_mark.line + 1
                if not isinstance(key, yaml.ScalarNode):
                    flaws.append(f"line {at}: a key must be text")
                elif key.value in lines:
                    flaws.append(f"line {at}: {key.value}: appears twice, first in line {lines[key.value]}")
                else:
                    lines[key.value] = at
                    look(key)
                look(value)
        seen[id(node)] = True

    look(node)
    return list(dict.fromkeys(flaws))


def _check_size(node: yaml.Node, known: dict[int, int]) -> int:
    """How many characters a node of a document without flaws has, its aliases written out; `known` are sizes by `id`.

    Raises WrittenError, with the line of the innermost node that has too many.
    """
    if id(node) not in known:
        parts = chain(*node.value) if isinstance(node, yaml.MappingNode) else node.value
        size = 1 + sum(_check_size(part, known) if isinstance(part, yaml.Node) else 1 for part in parts)
        if size > MOST_CHARACTERS:
            raise WrittenError(
                f"line {node.start_mark.line + 1}: has {size:,} characters once its aliases (*) are expanded; at "
                f"most {MOST_CHARACTERS:,} are allowed in a config"
            )
        known[id(node)] = size
    return known[id(node)]


def _scalar_flaw(node: yaml.ScalarNode, typed: bool) -> str | None:
    """What is misleading about a plain scalar; quoted ones are text."""
    text, kind = node.value, node.tag.rpartition(":")[2]
    if typed and (misfit := _misfit(node)):
        return misfit
    if node.style is not None:
        return None
    if NUMBER_LIKE.fullmatch(text):
        value = yaml.safe_load(text) if len(text) <= 40 else "another number"
        taken = f"is {'text' if value == text else value} in YAML" if typed else "is not a decimal number"
        return f"{text[:40]} {taken}; write numbers as decimals without leading zeros, and quote text"
    if typed and kind == "bool" and text not in TRUTHS:
        return f"{text} is {json.dumps(yaml.safe_load(text))} in YAML; quote it if it is text"
    if typed and kind == "timestamp":
        return f"{text} is a date in YAML; quote it"
    return None


def _misfit(node: yaml.ScalarNode) -> str | None:
    """Why a scalar, plain or quoted, has no value: its tag is not for it, or Python does not read so many digits."""
    try:
        yaml.SafeLoader("").construct_object(node)
    except yaml.MarkedYAMLError:  # of an unknown tag: said with its line when all is read
        return None
    except Exception:  # of any kind: constructors take for granted that a scalar looks as its tag says
        text, count = node.value, len(node.value)
        short = repr(text) if count <= 40 else f"{text[:20]!r}... ({count} characters)"
        return f"is not valid YAML: {short} is not a valid {node.tag.replace('tag:yaml.org,2002:', '!!')}"
    return None
