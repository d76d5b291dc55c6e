"""Config files and `--config` as they are written: what YAML refuses, and what it would take for something else.

YAML 1.1, as PyYAML and Snakemake read it, lets the last of two equal keys win, and takes `010` for 8, `1:30` for
90, `on` for true and `2026-11-21` for a date. Each is an error here, with its line.
"""

import json
import re
from pathlib import Path

import yaml

NUMBER_LIKE = re.compile(
    r"[-+]?(0[0-9_]+|0[box][0-9a-fA-F_]+|[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?|[0-9][0-9.]*_[0-9_.]*)"
)
TRUTHS = ("true", "True", "false", "False")


class WrittenError(ValueError):
    """Text that is no config; the message holds a line for each flaw."""


def read(path: str | Path) -> dict:
    """Content of a config file, YAML or JSON. Raises WrittenError, with lines that begin with the line's number."""
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        raise WrittenError("there is no such file") from None
    except OSError as error:
        raise WrittenError(f"cannot be read: {error.strerror}") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise WrittenError(f"line {line}: is not UTF-8 text ({error.reason}); save the file as UTF-8") from None
    found = parse(text)
    if not isinstance(found, dict):
        raise WrittenError("line 1: must be a mapping, with `scenarios:` among its keys")
    return found


def parse(text: str, typed: bool = True):
    """What a YAML (or JSON) text says. Raises WrittenError.

    Without `typed`, scalars are text to its reader, as Snakemake takes those of `--config`.
    """
    try:
        json.loads(text)
        text = text.replace("\t", " ")  # which JSON may indent with, and YAML may not
    except ValueError:
        pass
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is None:
            return None
        if flaws := _flaws(node, typed):
            raise WrittenError("\n".join(dict.fromkeys(flaws)))
        return yaml.load(text, Loader=yaml.SafeLoader if typed else yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        hint = "; indent with blanks, not with tabs" if "'\\t'" in str(error.problem) else ""
        context = f" ({error.context} in line {error.context_mark.line + 1})" if error.context_mark else ""
        raise WrittenError(f"line {mark.line + 1}: is no YAML: {error.problem}{context}{hint}") from None
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise WrittenError(f"line {line}: holds the character {error.character:#06x}, which YAML forbids") from None
    except WrittenError:
        raise
    except (ValueError, RecursionError) as error:  # a value that does not fit its tag; a thousand brackets
        raise WrittenError(f"line 1: is no YAML: {error}") from None


def _flaws(node: yaml.Node, typed: bool, above: tuple[yaml.Node, ...] = ()) -> list[str]:
    """A line for each part of a YAML document that would be read as something else than it seems."""
    if node in above:
        return [f"line {node.start_mark.line + 1}: refers to itself"]
    if isinstance(node, yaml.ScalarNode):
        flaw = _scalar_flaw(node, typed)
        return [f"line {node.start_mark.line + 1}: {flaw}"] if flaw else []
    above = (*above, node)
    if isinstance(node, yaml.SequenceNode):
        return [flaw for part in node.value for flaw in _flaws(part, typed, above)]
    flaws, lines = [], {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            flaws.append(f"line {line}: a key must be text")
        elif key.value in lines:
            flaws.append(f"line {line}: {key.value}: stands twice, first in line {lines[key.value]}")
        else:
            lines[key.value] = line
            flaws += _flaws(key, typed, above)
        flaws += _flaws(value, typed, above)
    return flaws


def _scalar_flaw(node: yaml.ScalarNode, typed: bool) -> str | None:
    """What is misleading about a plain scalar; quoted ones are text."""
    text, kind = node.value, node.tag.rpartition(":")[2]
    if node.style is not None:
        return None
    if NUMBER_LIKE.fullmatch(text):
        found = yaml.safe_load(text)
        taken = f"is {'text' if isinstance(found, str) else found} in YAML" if typed else "is no decimal number"
        return f"{text} {taken}; write numbers in decimal digits without leading zeros, and quote text"
    if typed and kind == "bool" and text not in TRUTHS:
        return f"{text} is {json.dumps(yaml.safe_load(text))} in YAML; quote it if it is text"
    if typed and kind == "timestamp":
        return f"{text} is a date in YAML; quote it"
    return None
