"""Estimate items' times: medians of stored items of the same stage and system, otherwise guesses.

Times are CPU seconds, which other programs on the machine do not lengthen; with a GPU, wall-clock seconds.
"""

from contextlib import suppress
from functools import cache
from itertools import islice
from math import inf
from statistics import median

from pwfl.process import devices
from pwfl.report.words import plural
from pwfl.stages import AUDIT, DATASET, FEATURES, IMPORTED, PROJECTION, REPORT
from pwfl.store import grids
from pwfl.store.items import COST, Store, read_note
from pwfl.workflow.plan import Item
from pwfl.workflow.reports import COMPARISON, FIGURES, PAGE, PAPER

SAMPLE = 50  # most addresses of a stage that are sampled
SAMPLE_OF_ADDRESS = 3  # most items sampled per address
# Guessed seconds of an item of a stage without timings: per realization, and constant.
GUESSES = {
    "train": (0.05, 0.5),
    PROJECTION: (0, 3),
    AUDIT: (0, 6),
    FIGURES: (0, 0.4),
    COMPARISON: (0, 4),
    PAPER: (0, 5),
    PAGE: (0, 1),
}
GUESS = (0.002, 0.05)
# Bytes per second that a training run processes, if each round processes all of its memory: a guess, and a value that
# no core was measured to exceed (3e9 to 3.5e10 at full size).
GUESSED_SPEED, FASTEST = 5e9, 1e11
FAR = 4  # largest ratio of a training run's estimate to its guess: timed items may be of another size
# Seconds until a process has imported a stage's packages, and MiB that it then uses.
START_SECONDS = {"train": 5.0, PROJECTION: 5.0, AUDIT: 5.0, REPORT: 2.5}
MEMORY_MIB = {"train": 3000, AUDIT: 3000, PROJECTION: 3000, FEATURES: 4000, DATASET: 2000, IMPORTED: 2000}


class Costs:
    """Estimates of items' seconds from the timings in a store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.recorded = cache(self.recorded)

    def seconds(self, item: Item, system: str, passed: float = 0.0) -> float:
        """Estimate an item's seconds; `passed`: bytes that one realization's training run processes in all rounds."""
        known = self.recorded(item.stage)
        # Another system's times do not apply to a training run: networks and data sets differ by factors of a thousand.
        timed = known.get(system) or (None if passed else next(iter(known.values()), None))
        count = len(grids.realizations(item.chunk))
        per_realization, constant = GUESSES.get(item.stage, GUESS)
        guess = constant + (per_realization + passed / GUESSED_SPEED) * count
        if timed is None:
            return guess
        per_realization, constant = timed
        seconds = constant + per_realization * count
        return min(max(seconds, passed / FASTEST * count), FAR * guess) if passed else seconds

    def recorded(self, stage: str) -> dict[str, tuple[float, float]]:
        """Read a stage's median seconds, by system: per realization, and of items without realizations."""
        recorded: dict[str, list[tuple[float, float]]] = {}
        for folder in islice(self.store.path(stage).glob("*"), SAMPLE):
            for path in islice(folder.rglob(COST), SAMPLE_OF_ADDRESS):
                cost = read_note(path)
                with suppress(ValueError, KeyError, TypeError):  # being pruned, or damaged: others suffice
                    clock = "seconds" if str(cost["processor"]).endswith(devices.WITH_GPU) else "cpu_seconds"
                    count, seconds, system = int(cost["realizations"]), float(cost[clock]), str(cost["system"])
                    if 0 < seconds < inf:
                        recorded.setdefault(system, []).append((seconds / count, 0.0) if count else (0.0, seconds))
        return {system: tuple(map(median, zip(*timings, strict=True))) for system, timings in recorded.items()}


def duration(seconds: float, prefix: str = "") -> str:
    """Format seconds in a suitable unit, preceded by a `prefix` such as "core-".

    >>> duration(1.2), duration(600, "core-"), duration(9000, "core-")
    ('1 second', '10 core-minutes', '2.5 core-hours')
    """
    if seconds >= 7200:
        return f"{seconds / 3600:,.1f} {prefix}hours"
    unit, length = ("minute", 60) if seconds >= 180 else ("second", 1)
    return plural(round(seconds / length), prefix + unit)
