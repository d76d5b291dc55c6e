"""Reader of config files: YAML with the plain scalars of its version 1.2, or JSON."""

import json
import re
from itertools import accumulate
from pathlib import Path

import yaml
from yaml.reader import ReaderError

from pwfl.store import files

FLOAT = "[-+]?((0|[1-9][0-9]*)([.][0-9]*)?|[.][0-9]+)([eE][-+]?[0-9]+)?|[-+]?[.](inf|Inf|INF)|[.](nan|NaN|NAN)"
BOOL, INT, NULL = "true|True|TRUE|false|False|FALSE", "[-+]?(0|[1-9][0-9]{0,99})", "null|Null|NULL|~|"
PLAIN = {"bool": BOOL, "int": INT, "float": FLOAT, "null": NULL, "merge": "<<"}  # all others are text: 010, 1:30, yes
MOST = 1_000_000  # characters of a config with its aliases expanded


class _Loader(yaml.SafeLoader):
    def fetch_tag(self) -> None:
        raise yaml.MarkedYAMLError(problem="tags (!) are not allowed", problem_mark=self.get_mark())

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Merge (<<) other mappings into one; keys must be unique before, and are unique after."""
        at = {}  # key -> line
        for key_node, _ in node.value:
            if isinstance(key := key_node.value, list) or key in at:
                fault = (
                    f"{key}: appears twice, first in line {at[key]}" if isinstance(key, str) else "keys must be text"
                )
                raise yaml.MarkedYAMLError(problem=fault, problem_mark=key_node.start_mark)
            at[key] = key_node.start_mark.line + 1
        super().flatten_mapping(node)
        node.value = list({key.value: (key, value) for key, value in node.value}.values())


_Loader.yaml_implicit_resolvers = {None: [(f"tag:yaml.org,2002:{k}", re.compile(rf"({PLAIN[k]})\Z")) for k in PLAIN]}


def read(path: str | Path) -> dict:
    """Read a config file. Raises ValueError or OSError."""
    if not isinstance(config := parse(files.text(path)), dict):
        raise ValueError(f"{'is empty; ' * (config is None)}must be a mapping, with `scenarios:` among its keys")
    return config


def parse(text: str):
    """Parse a text in YAML or JSON. Raises ValueError, which names a line."""
    if text.lstrip().startswith("{"):
        text = text.replace("\t", " ")  # JSON allows tabs for indentation, YAML does not
    try:
        content = yaml.load(text, _Loader)
        if any(length > MOST for length in accumulate(map(len, json.JSONEncoder().iterencode(content)))):
            raise ValueError(f"more than {MOST:,} characters once its aliases (*) are expanded")
        return content
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, problem = mark.line if mark else 0, error.problem
    except ReaderError as error:
        line, problem = text[: error.position].count("\n"), f"the character {error.character:#06x} is not allowed"
    except (RecursionError, ValueError) as error:
        line, problem = 0, error
    raise ValueError(f"line {line + 1}: is not valid YAML: {problem}")
