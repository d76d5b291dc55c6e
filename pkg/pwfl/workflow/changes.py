"""Explain why an item is computed: by what it differs in from the nearest result in the store."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import yaml

from pwfl.errors import printable
from pwfl.stages import AUDIT
from pwfl.store import code, descriptions, grids
from pwfl.store.items import DESCRIPTION, Store
from pwfl.workflow.reports import COMPARISON, SCENARIOS

NAMED = 3  # differences, files of code, and parts of a list that are named
LONGEST = 40  # characters of a value that is shown
CODE = "changed code: "
LIKE = ("system", "variant", "scenario", "study")  # a result is compared with those that have the same
MADE_OF = ("upstream", AUDIT, COMPARISON, SCENARIOS)  # keys that hold addresses
LEFT_OUT = {"address", "systems"}  # said by others
RELEASE = "parameters.release"  # as well
INPUTS = "inputs changed"
# Said where nothing else is, since no reader knows these by their values.
VAGUE = {
    "view": "files of the study changed",
    "content": "texts of the report changed",
    "resolved": "parameters changed",
    "parameters": "parameters changed",
    "point": "sweep changed",
    "schemes": "other scenarios' schemes changed",
    "titles": "titles changed",
    "title": "title changed",
    "measured": "measurements changed",
    "references": "references changed",
}

SCHEME = {"schedule": "scheduler"}  # stage -> the key of a scheme that chooses its variant, where it is another word

Said = dict[str, None]  # differences, a text each, in their order


class Reasons:
    """Why items are computed that a store lacks. Descriptions are read when they are first needed, and kept.

    `planned` are the descriptions of all items of a study, by their addresses.
    """

    def __init__(self, store: Store, planned: Mapping[str, dict]) -> None:
        self.store, self.planned = store, planned
        self.paths: dict[str, Path] = {path.parent.name: path for path in store.root.glob(f"*/*/{DESCRIPTION}")}
        self.recorded: dict[str, dict[str, str]] = {}
        self.now: dict[str, dict[str, str]] = {}
        self.stages: dict[str, list[str]] = {}
        self.between: dict[tuple[str, str], tuple[Said, Said]] = {}

    def why(self, description: dict, chunk: str) -> str:
        """In a few words, in what an address differs from the nearest one of its kind in the store.

        Nearest is what has the fewest differences, in what it is made of included; of several the newest. Of an address
        that the store has, whether the chunk follows those that are there.
        """
        address = description["address"]
        if address in self.paths:
            return _absent(self.store, description, chunk)
        now = self._now(address)
        like = [other for other in self._of_stage(description["stage"]) if self._is_like(other, now)]
        least = [(_count(self._recorded(other), now), age) for age, other in enumerate(like)]
        nearest, fewest = None, (0, 0, 0)
        for at_least, age in sorted(least):
            if nearest is not None and (at_least > fewest[0] or fewest[:2] <= (1, 0)):  # none is nearer
                break
            found, vague = self._differences(address, like[age])
            if nearest is None or (len(found), len(vague), age) < fewest:
                nearest, fewest = found or vague, (len(found), len(vague), age)
        return "new" if nearest is None else _joined(list(nearest))

    def _of_stage(self, stage: str) -> list[str]:
        """The addresses of a stage in the store, newest first."""
        if stage not in self.stages:
            stamped = []
            for address, path in self.paths.items():
                with suppress(OSError):  # it is being pruned
                    stamped += [(path.stat().st_mtime_ns, address)] if path.parent.parent.name == stage else []
            self.stages[stage] = [address for _, address in sorted(stamped, reverse=True)]
        return self.stages[stage]

    def _recorded(self, address: str) -> dict[str, str]:
        """The values that the store has of an address; none where they are damaged."""
        if address not in self.recorded:
            self.recorded[address] = {}
            with suppress(OSError, KeyError):
                text = self.paths[address].read_bytes().decode(errors="replace")
                self.recorded[address] = descriptions.values(text)
        return self.recorded[address]

    def _now(self, address: str) -> dict[str, str]:
        """The values of an address that is planned."""
        if address not in self.now:
            text = descriptions.written(self.planned[address]) if address in self.planned else ""
            self.now[address] = descriptions.values(text)
        return self.now[address]

    def _is_like(self, address: str, now: dict[str, str]) -> bool:
        """Whether an address is of one kind with another: of one of another variant nothing would be said."""
        other = self._recorded(address)
        return "code" in other and all(other.get(key) == now.get(key) for key in LIKE)

    def _differences(self, address: str, before: str) -> tuple[Said, Said]:
        """What differs between an address that is planned and one in the store, in what they are made of included.

        What is vague is apart.
        """
        if (address, before) in self.between:
            return self.between[address, before]
        old, now = self._recorded(before), self._now(address)
        if not (old and now):  # not in the store any more
            return {}, {INPUTS: None}
        found, vague = _scenarios(old, now), {}
        is_other = old.get("variant") != now.get("variant")  # which reads other parameters
        for key in dict.fromkeys([*now, *old]):
            if old.get(key) == now.get(key):
                continue
            first, _, rest = key.partition(".")
            if first in MADE_OF:
                below = {}, {INPUTS: None}
                if key in old and key in now:
                    below = self._differences(now[key].strip("'"), old[key].strip("'"))
                found, vague = found | below[0], vague | below[1]
            elif first == "code":
                found |= dict.fromkeys(self._changed_files(address, old, now))
            elif first in VAGUE and not (first == "parameters" and rest):
                found |= dict.fromkeys(_swept(old.get(key), now.get(key)) if first == "point" else [])
                vague[VAGUE[first]] = None
            elif first not in LEFT_OUT and key != RELEASE and not (is_other and (key in old) != (key in now)):
                name = SCHEME.get(now["stage"], now["stage"]) if key == "variant" else key
                found[_said(name, old.get(key), now.get(key))] = None
        self.between[address, before] = found, {text: None for text in vague if text != INPUTS} or vague
        return self.between[address, before]

    def _changed_files(self, address: str, old: dict[str, str], now: dict[str, str]) -> list[str]:
        """The files of code that differ, in words."""
        before = self.store.code_files(old.get("code", "").strip("'"))
        if not before or address not in self.planned:
            return ["code changed"]
        files = code.of(self.planned[address])
        return [f"{CODE}{name}" for name in {**files, **before} if before.get(name) != files.get(name)]


def _absent(store: Store, description: dict, chunk: str) -> str:
    """Why a chunk of an address that the store has is not there."""
    folder = store.path(f"{description['stage']}/{description['address']}")
    stops = [grids.bounds(path.name)[1] for path in folder.glob("[0-9]*-[0-9]*")]
    if stops and grids.bounds(chunk)[0] >= max(stops):
        return f"more realizations than the {max(stops):,} in the store"
    return "deleted"


def _count(old: dict[str, str], now: dict[str, str]) -> int:
    """At least how many differences will be found: parameters that two descriptions name themselves."""
    keys = {key for key, _ in old.items() ^ now.items()}
    return sum(key.startswith("parameters.") and key != RELEASE for key in keys)


def _scenarios(old: dict[str, str], now: dict[str, str]) -> Said:
    """The scenarios that only one of two comparisons has."""
    before, after = ([key.partition(".")[2] for key in held if key.startswith("systems.")] for held in (old, now))
    if set(before) == set(after):
        return {}
    return {f"scenarios: {_of_lists(dict.fromkeys(before), dict.fromkeys(after))}": None}


def _swept(old: str | None, now: str | None) -> Iterator[str]:
    """Where the parameters that a study sweeps differ: both texts are of a scenario, and its values of them."""
    keys = []
    for text in (old, now):
        parsed = _parsed(text)
        values = parsed[1] if isinstance(parsed, list) and len(parsed) == 2 else None
        keys.append(list(values) if isinstance(values, dict) else [])
    if keys[0] != keys[1]:
        yield "swept parameters: {} → {}".format(*(", ".join(each) or "none" for each in keys))


def _said(key: str, old: str | None, now: str | None) -> str:
    """What differs in a value: by its key, with both values, or with what a list has more and less."""
    first, _, rest = key.partition(".")
    if first == "contents":
        return f"{rest} changed"
    name = rest if first == "parameters" else key.replace("packages.", "package ")
    before, after = _parsed(old), _parsed(now)
    if isinstance(before, list) and isinstance(after, list):
        is_nested = any(isinstance(each, list | dict) for each in before + after)
        if is_nested or max(len(str(before)), len(str(after))) > LONGEST:
            return f"{name}: {_of_lists(_labelled(before), _labelled(after))}"
    return f"{name}: {_shown(old, before)} → {_shown(now, after)}"


def _of_lists(old: dict, now: dict) -> str:
    """What a list has more and less than another one, both by their parts' names."""
    parts = {
        "added": [name for name in now if name not in old],
        "removed": [name for name in old if name not in now],
        "changed": [name for name in now if name in old and now[name] != old[name]],
    }
    return "; ".join(f"{what} {_named(names)}" for what, names in parts.items() if names) or "in another order"


def _labelled(parts: list) -> dict[str, object]:
    """The parts of a list by a name for each."""
    found = {}
    for part in parts:
        text = " ".join(map(str, part)) if isinstance(part, list) else str(part)
        found[str(part["name"]) if isinstance(part, dict) and "name" in part else _cut(text)] = part
    return found


def _shown(text: str | None, value: object) -> str:
    """A value as a config has it, on a line."""
    if text is None:
        return "unset"
    return _cut(str(value) if isinstance(value, list | str) else text)


def _cut(text: str) -> str:
    text = printable(text)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _parsed(text: str | None):
    """A value of a description; the text where it is none."""
    with suppress(yaml.YAMLError):
        return yaml.load(text or "null", Loader=yaml.CSafeLoader)
    return text


def _named(found: list[str], comma: str = ", ") -> str:
    """The first of some texts, and how many more there are."""
    more = f"{comma}and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return comma.join(found[:NAMED]) + more


def _joined(found: list[str]) -> str:
    """All differences in a few words: parameters first, then files of code."""
    files = [each.removeprefix(CODE) for each in found if each.startswith(CODE)]
    others = [each for each in found if not each.startswith(CODE)]
    parts = [_named(others, "; ")] if others else []
    return "; ".join([*parts, f"{CODE}{_named(files)}"] if files else parts) or INPUTS
