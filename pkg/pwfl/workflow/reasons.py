"""Find why items are computed: the keys in which their descriptions differ from those that were last published."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from pwfl.stages import AUDIT, GRAPH
from pwfl.store import grids
from pwfl.store.items import DESCRIPTION, Store, read_note
from pwfl.workflow.plan import Item, Plan
from pwfl.workflow.publish import Published
from pwfl.workflow.reports import COMPARISON, FIGURES, SCENARIOS, TABLES

NAMED = 3  # most keys that are named
MADE_OF = ("upstream", AUDIT, COMPARISON, SCENARIOS)  # keys that contain addresses
LEFT_OUT = ("address", "stage", "parameters.release")  # keys that follow from the others
WORDS = {"view": "files", "content": "texts", "point": "sweep"}


class Reasons:
    """The reasons why a plan's items are computed; `last` is the record of the last publication."""

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
        """Describe in a few words what is new about an item that the store lacks."""
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
        """Return the address at the last publication of an item's stage, scenario and scheme; None: unknown."""
        if item.stage not in GRAPH:
            figure = self.plan.descriptions[item.address].get("figure")
            return self.before.get((item.stage, f"{scenario}/{figure}" if figure else scenario))
        was = self.recorded(self.before.get((TABLES, scenario), "")).get("upstream", {})
        for scheme, route in self.plan.routes[scenario].items():
            if item.stage in was.get(scheme, {}) and route.get(item.stage, {}).get("address") == item.address:
                return was[scheme][item.stage]
        return None

    def recorded(self, address: str) -> dict:
        """Read the store's description of an address; empty if there is none, or it is damaged."""
        paths = self.store.root.glob(f"*/{address}/{DESCRIPTION}") if address else ()
        return next(filter(None, map(read_note, paths)), {})

    def differing(self, address: str, before: str) -> dict[str, None]:
        """List the keys in which descriptions of a planned and a recorded address differ, including their inputs'."""
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
    """Yield the values of a description by keys joined with dots: parameters, addresses and packages one by one."""
    for key, value in description.items():
        if isinstance(value, Mapping) and key not in ("titles", *WORDS):
            yield from ((f"{key}.{inner}", leaf) for inner, leaf in _flat(value))
        else:
            yield key, value
