"""Estimate items' times: medians of stored items of the same stage and system, otherwise defaults."""

import json
from itertools import islice
from math import inf
from statistics import median

from pwfl.stages import AUDIT, DATASET, FEATURES, IMPORTED, PROJECTION
from pwfl.store import grids
from pwfl.store.items import COST, Store
from pwfl.workflow.plan import Item
from pwfl.workflow.reports import COMPARISON, FIGURES, PAGE

SAMPLE = 50  # addresses of a stage whose items are looked at, and of each this many items
SAMPLE_OF_ADDRESS = 3
# Seconds of an item where none is known: of each realization, and besides.
GUESSES = {"train": (0.05, 0.5), PROJECTION: (0, 3), AUDIT: (0, 3), FIGURES: (0, 3), COMPARISON: (0, 3), PAGE: (0, 1)}
GUESS = (0.002, 0.05)
# Seconds until a process has imported what a stage needs, and MiB that it then takes.
START_SECONDS = {"train": 5.0, PROJECTION: 5.0, AUDIT: 5.0, FIGURES: 2.0, COMPARISON: 2.0, PAGE: 2.0}
MEMORY_MIB = {"train": 3000, AUDIT: 3000, PROJECTION: 3000, FEATURES: 4000, DATASET: 2000, IMPORTED: 2000}


class Costs:
    """The seconds that items take, by what is recorded in a store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.known: dict[str, dict[str, tuple[float, float]]] = {}  # stage -> system -> of a realization, and besides

    def seconds(self, item: Item, system: str) -> float:
        """About how long an item takes."""
        if item.stage not in self.known:
            self.known[item.stage] = self._recorded(item.stage)
        known = self.known[item.stage]
        of_each, besides = known.get(system) or next(iter(known.values()), GUESSES.get(item.stage, GUESS))
        return besides + of_each * realizations(item)

    def _recorded(self, stage: str) -> dict[str, tuple[float, float]]:
        """The median seconds of a realization, by system; of items without realizations, of an item."""
        found: dict[str, list[tuple[float, float]]] = {}
        for folder in islice(self.store.path(stage).glob("*"), SAMPLE):
            for path in islice(folder.rglob(COST), SAMPLE_OF_ADDRESS):
                try:
                    held = json.loads(path.read_bytes())
                    count, seconds = int(held["realizations"]), float(held["seconds"])
                    system = str(held["system"])
                    if not 0 < seconds < inf:
                        continue
                except (OSError, ValueError, KeyError, TypeError):  # being pruned, or damaged: another one tells
                    continue
                found.setdefault(system, []).append((seconds / count, 0.0) if count else (0.0, seconds))
        return {system: tuple(map(median, zip(*each, strict=True))) for system, each in found.items()}


def realizations(item: Item) -> int:
    """How many realizations an item has; 0 of one that is not computed in chunks of them."""
    if item.chunk == grids.ALL:
        return 0
    first, stop = grids.bounds(item.chunk)
    return stop - first
