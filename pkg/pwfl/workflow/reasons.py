"""Why items are computed: the keys in which their descriptions differ from those of what the study last published."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from pwfl.stages import AUDIT, GRAPH
from pwfl.store import grids
from pwfl.store.items import DESCRIPTION, Store, read_note
from pwfl.workflow.plan import Item, Plan
from pwfl.workflow.publish import Published
from pwfl.workflow.reports import COMPARISON, FIGURES, SCENARIOS, TABLES

NAMED = 3  # keys that are named
MADE_OF = ("upstream", AUDIT, COMPARISON, SCENARIOS)  # keys that hold addresses
LEFT_OUT = ("address", "stage", "parameters.release")  # which follow from the others
WORDS = {"view": "files", "content": "texts", "point": "sweep"}


class Reasons:
    """Why items of a plan are computed that a store lacks; `last` is what was published."""

    def __init__(self, store: Store, plan: Plan, last: Published | None) -> None:
        self.store, self.plan = store, plan
        self.before: dict[tuple[str, str], str] = {}  # job of the report, scenario -> address
        for name, (source, *_) in (last.files if last else {}).items():
            if source:
                stage, address = source.split("/")[:2]
                self.before[stage, name.rpartition("." if stage == FIGURES else "/")[0]] = address
        self.recorded = cache(self.recorded)
        self.differing = cache(self.differing)

    def why(self, item: Item) -> str:
        """In a few words, what is new about an item."""
        if self.store.path(f"{item.stage}/{item.address}/{DESCRIPTION}").is_file():
            folder = self.store.path(f"{item.stage}/{item.address}")
            stops = [grids.bounds(path.name)[1] for path in folder.glob("[0-9]*-[0-9]*")]
            is_beyond = stops and grids.bounds(item.chunk)[0] >= max(stops)
            return f"more realizations than the {max(stops):,} in the store" if is_beyond else "deleted"
        before = self._before(item, self.plan.owners.get(item.address) or "")
        if before is None or not self.recorded(before):
            return "new"
        differing = list(self.differing(item.address, before))
        keys = [key for key in differing if key not in ("parameters", *WORDS.values())] or differing or ["inputs"]
        more = f" and {len(keys) - NAMED} more" if len(keys) > NAMED else ""
        return f"{', '.join(keys[:NAMED])}{more} changed"

    def _before(self, item: Item, scenario: str) -> str | None:
        """The address that an item's scenario had of its stage, by the scheme, when the study was last published."""
        if item.stage not in GRAPH:
            figure = self.plan.descriptions[item.address].get("figure")
            return self.before.get((item.stage, f"{scenario}/{figure}" if figure else scenario))
        was = self.recorded(self.before.get((TABLES, scenario), "")).get("upstream", {})
        for scheme, route in self.plan.routes[scenario].items():
            if item.stage in was.get(scheme, {}) and route.get(item.stage, {}).get("address") == item.address:
                return was[scheme][item.stage]
        return None

    def recorded(self, address: str) -> dict:
        """The description that the store has of an address; empty where there is none, or it is damaged."""
        paths = self.store.root.glob(f"*/{address}/{DESCRIPTION}") if address else ()
        return next(filter(None, map(read_note, paths)), {})

    def differing(self, address: str, before: str) -> dict[str, None]:
        """The keys in which a planned address differs from a recorded one, in what they are made of included."""
        now, was = dict(_flat(self.plan.descriptions.get(address, {}))), dict(_flat(self.recorded(before)))
        keys: dict[str, None] = {}
        for key in dict.fromkeys([*now, *was]):
            first, _, rest = key.partition(".")
            if now.get(key) == was.get(key) or key in LEFT_OUT:
                continue
            if first not in MADE_OF:
                keys[rest or WORDS.get(key, now.get("stage", key) if key == "variant" else key)] = None
            elif key in now and key in was:
                keys |= self.differing(now[key], was[key])
        return keys


def _flat(description: Mapping) -> Iterator[tuple[str, Any]]:
    """The values of a description by keys joined with dots: parameters, addresses, packages and files one by one."""
    for key, value in description.items():
        if isinstance(value, Mapping) and key not in ("titles", *WORDS):
            yield from ((f"{key}.{inner}", leaf) for inner, leaf in _flat(value))
        else:
            yield key, value
