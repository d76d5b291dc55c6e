"""Explain why an item is computed, by comparison with the most similar description in the store."""

from collections.abc import Iterator
from contextlib import suppress
from functools import cache

import yaml

from pwfl.store import code, grids
from pwfl.store.items import DESCRIPTION, Store

COMPARED = 20  # recent addresses of a kind that one is compared with
NAMED = 3  # differences, and files of code, that are named
CODE = "changed code: "
# What no reader knows by its value, in words.
WORDS = {
    "upstream": "inputs",
    "audit": "inputs",
    "view": "the study's files",
    "content": "the report's texts",
    "resolved": "parameters",
    "parameters": "parameters",
}
LEFT_OUT = {"address", "shards", "work"}  # told by others
RELEASE = "parameters.release"  # as well


def why(store: Store, description: dict, chunk: str) -> str:
    """In what an address differs from the nearest earlier one of its stage and variant, in a few words.

    Of an address that the store has, whether the chunk follows those that are there.
    """
    like = [other for other in _recent(store, description["stage"]) if _is_like(other, description)]
    differences = [_differences(store, other, description) for other in like]
    found = min(differences, key=len, default=["new"]) or [_absent(store, description, chunk)]
    files = [each.removeprefix(CODE) for each in found if each.startswith(CODE)]
    others = [each for each in found if not each.startswith(CODE)]
    parts = [_named(others, "; ")] if others else []
    return "; ".join([*parts, f"{CODE}{_named(files, ', ')}"] if files else parts)


def _named(found: list[str], comma: str) -> str:
    """The first of some texts, and how many more there are."""
    more = f"{comma}and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return comma.join(found[:NAMED]) + more


def _absent(store: Store, description: dict, chunk: str) -> str:
    """Why a chunk of an address that the store has is not there."""
    folder = store.path(f"{description['stage']}/{description['address']}")
    stops = [grids.bounds(path.name)[1] for path in folder.glob("[0-9]*-[0-9]*")]
    return "more realizations" if stops and grids.bounds(chunk)[0] >= max(stops) else "deleted"


@cache
def _recent(store: Store, stage: str) -> list[dict]:
    """The descriptions of the newest addresses of a stage, newest first, without those that are damaged."""
    stamped, found = [], []
    for path in store.path(stage).glob(f"*/{DESCRIPTION}"):
        with suppress(OSError):  # it is being pruned
            stamped.append((path.stat().st_mtime_ns, path))
    for _, path in sorted(stamped, reverse=True)[:COMPARED]:
        with suppress(OSError, yaml.YAMLError):
            found.append(yaml.load(path.read_bytes(), yaml.CSafeLoader))
    return [each for each in found if isinstance(each, dict) and "code" in each]


def _is_like(other: dict, description: dict) -> bool:
    """Whether two addresses are of one kind: of a variant that only one of them has nothing would be said."""
    keys = ("system", "variant", "scenario", "study")
    return all(other.get(key) == description.get(key) for key in keys)


def _differences(store: Store, before: dict, now: dict) -> list[str]:
    """What differs, a text each: parameters with their values, files and code by their names."""
    old, new = (dict(_leaves({key: held[key] for key in held if key not in LEFT_OUT})) for held in (before, now))
    found: dict[str, None] = {}
    for key in dict.fromkeys([*new, *old]):
        first, _, rest = key.partition(".")
        if old.get(key) == new.get(key) or key == RELEASE:
            continue
        if first == "code":
            found |= dict.fromkeys(_changed_files(store, before, now))
        elif first == "parameters" and rest:
            found[f"{rest}: {_shown(old, key)} → {_shown(new, key)}"] = None
        elif first == "contents":
            found[f"{rest} changed"] = None
        elif first in WORDS:
            found[f"{WORDS[first]} changed"] = None
        else:
            found[f"{key}: {_shown(old, key)} → {_shown(new, key)}"] = None
    if len(found) > 1:  # what it is made of is told by the stages before it
        found.pop(f"{WORDS['upstream']} changed", None)
    return list(found)


def _changed_files(store: Store, before: dict, now: dict) -> list[str]:
    """The files of code that differ, in words."""
    old, new = store.code_files(before["code"]), code.of(now)
    names = [name for name in {**new, **old} if old.get(name) != new.get(name)]
    return [f"{CODE}{name}" for name in names] if old else ["code changed"]


def _shown(held: dict, key: str) -> str:
    text = str(held.get(key, "unset"))
    return text if len(text) <= 40 else f"{text[:40]}..."


def _leaves(held: dict, prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in held.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", list(value) if isinstance(value, tuple) else value
