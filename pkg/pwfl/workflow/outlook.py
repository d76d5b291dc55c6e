"""List the work of each part in a call of Snakemake: items to compute, reasons, estimated times and resources."""

from collections.abc import Collection, Iterable
from functools import cache
from math import ceil

from pwfl.process import devices
from pwfl.report.words import plural
from pwfl.scenario import checks
from pwfl.store import code
from pwfl.store.items import Store
from pwfl.workflow.costs import MEMORY_MIB, START_SECONDS, Costs, duration
from pwfl.workflow.parts import Part, kind, seconds_of
from pwfl.workflow.plan import Item, Plan, device
from pwfl.workflow.publish import Published
from pwfl.workflow.reasons import Reasons

MARGIN = 3  # ratio of a part's time limit to its estimated time
LEAST_MIB, LEAST_MINUTES = 1000, 10
NAMED = 3  # most scenarios that a message names


class Outlook:
    """The work of parts, determined on demand.

    A part's job computes the items that the store `lacks`, or all of them if Snakemake is to run the part `again`.
    Reasons are changes since the study's `last` publication.
    """

    def __init__(
        self, work: Plan, store: Store, lacks: set[str], again: Collection[str] = (), last: Published | None = None
    ) -> None:
        self.work, self.lacks, self.again = work, lacks, again
        self.costs = Costs(store)
        self.reasons = cache(lambda: Reasons(store, work, last))

    def computes(self, part: Part) -> list[Item]:
        """List the items that a part's job computes."""
        return part.items if part.path in self.again else [item for item in part.items if item.key in self.lacks]

    def seconds(self, part: Part, items: Iterable[Item]) -> float:
        """Estimate the seconds of a job for some items of a part."""
        return START_SECONDS.get(part.rule, 1.0) + sum(seconds_of(self.work, item, self.costs) for item in items)

    def asked(self, part: Part) -> dict:
        """Return a part's values for Snakemake: marks of earlier parts, message, MiB, GPUs, minutes for all items."""
        names = {self.work.owners[item.address] for item in part.items} if part.rule == "train" else ()
        trained = [self.work.study.scenarios[name] for name in names]
        mib = (int(checks.training_bytes(scenario)[0] / 2**20) for scenario in trained)
        return {
            "marks_before": [f".pwfl/{self.work.study.name}/{path}.done" for path in part.after],
            "message": self.message(part),
            "mem_mb": max([MEMORY_MIB.get(part.rule, LEAST_MIB), *mib]),
            "gpu": int(any(devices.has_gpu(device(scenario)) for scenario in trained)),
            "minutes": max(LEAST_MINUTES, ceil(MARGIN * self.seconds(part, part.items) / 60)),
        }

    def message(self, part: Part) -> str:
        """Describe in one line what a part's job does, and why."""
        name, items = part.path.replace("/", " "), self.computes(part)
        if not items:
            return f"{name}: the store has all {plural(len(part.items), 'result')} (something before it ran)"
        names = list(dict.fromkeys(filter(None, (self.work.owners.get(item.address) for item in items))))
        more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
        where = f" for scenario{'s' * (len(names) > 1)} {', '.join(map(repr, names[:NAMED]))}{more}" if names else ""
        about = f"{name}: {plural(len(items), 'result')}{where}, about {duration(self.seconds(part, items))}"
        if part.path in self.again and not self.lacks.issuperset(item.key for item in items):
            return f"{about} (again, as Snakemake was told)"
        why = self.reasons().why(items[0])
        return f"{about} ({'first result: ' if len({item.address for item in items}) > 1 else ''}{why})"

    def manifest(self, part: Part, is_last: bool) -> dict:
        """Return a part's manifest, with which its job runs without planning; `is_last`: no other part needs it."""
        items = self.computes(part)
        on, functions = kind(self.work, part.items[0])
        return self.asked(part) | {
            "rule": part.rule,
            "is_last": is_last,
            "again": part.path in self.again,
            "device": on,
            "runs_user_code": bool(functions),
            "seconds": self.seconds(part, items or part.items),
            "stamp": code.stamp(),
            "items": [self.work.entry(item) for item in items],
            "descriptions": {item.address: self.work.descriptions[item.address] for item in items},
        }

    def remaining(self, parts: Iterable[Part]) -> str | None:
        """Describe in one line the work left, and how well its time is known; None: nothing is left."""
        computed = [(part, items) for part in parts if (items := self.computes(part))]
        if not computed:
            return None
        rules = dict.fromkeys(part.rule for part, _ in computed)
        systems = {address: each.get("system", "") for address, each in self.work.descriptions.items()}
        guessed = dict.fromkeys(
            part.rule
            for part, items in computed
            if any(systems[item.address] not in self.costs.recorded(item.stage) for item in items)
        )
        names = "" if guessed == rules else f" for {', '.join(guessed)}"
        rough = f" (a rough guess{names}: ./store has no timings of such jobs yet)" if guessed else ""
        time = duration(sum(self.seconds(*part_items) for part_items in computed), "core-")
        results = plural(sum(len(items) for _, items in computed), "result")
        return f"Not computed yet: {results} in {plural(len(computed), 'job')}, about {time}{rough}"
