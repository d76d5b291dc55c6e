"""What a study lacks, in batches: a job of the workflow computes one, item after item (`pwfl.workflow.compute`).

That an item exists in the store is all that decides whether it is computed. A batch's *manifest* says all that its job
needs to know, so that a cluster's nodes plan nothing.
"""

import json
from collections.abc import Iterable, Iterator
from math import ceil
from typing import NamedTuple

from pwfl.process import devices
from pwfl.scenario import checks
from pwfl.scenario.values import value_of
from pwfl.stages import GRAPH
from pwfl.store.items import Store, key_of
from pwfl.workflow import reports
from pwfl.workflow.costs import MEMORY_MIB, START_SECONDS, Costs, counted, duration
from pwfl.workflow.plan import Files, Item, Plan, device, gpus
from pwfl.workflow.publish import Published
from pwfl.workflow.reasons import Reasons
from pwfl.workflow.reports import Report

RULES = {reports.RESOLVED: "tables"}  # stage -> the rule that computes its items, where it has none of its own
DOES = {  # what the jobs of a rule do, in the order of rules
    "dataset": "loading the data set",
    "projection": "computing a projection",
    "features": "computing features",
    "imported": "checking imported channels",
    "channel": "drawing networks and channels",
    "schedule": "scheduling users",
    "noise": "setting privacy noise",
    "receive": "simulating reception",
    "train": "training models",
    "account": "accounting for privacy",
    "audit": "auditing privacy",
    "tables": "writing tables",
    "figures": "drawing figures",
    "comparison": "comparing scenarios",
    "page": "writing the study report",
}
ORDER = [*DOES]
LOCAL_SECONDS, CLUSTER_SECONDS = 60.0, 900.0  # that a batch is to take
FEW = 16  # batches of a rule for each core: of more, each takes longer
WORTH = 2.0  # times its start that a batch must take for more cores to be worth another one
MARGIN = 3  # times the seconds of an estimate that a batch may take
LEAST_MIB, LEAST_MINUTES = 1000, 10
NAMED = 3  # scenarios that a message names


class Batch(NamedTuple):
    """A batch: what Snakemake knows of it, and its items."""

    rule: str
    number: int
    items: list[Item]
    after: list[str]  # the names of the batches that make what it needs
    message: str
    seconds: float  # about how long it takes
    guessed: bool  # whether nothing of its stage and system was timed
    mem_mb: int
    gpu: int
    device: str
    runs_user_code: bool

    @property
    def name(self) -> str:
        """Its name in a plan, RULE-NUMBER."""
        return f"{self.rule}-{self.number}"

    @property
    def minutes(self) -> int:
        """The minutes that it may take."""
        return max(LEAST_MINUTES, ceil(MARGIN * self.seconds / 60))


class Work(NamedTuple):
    """The items of a study, stages' and report's, as one."""

    planned: Plan
    report: Report

    def items(self) -> Iterator[Item]:
        """All items, each after those that it is made of."""
        yield from self.planned.items()
        yield from self.report.items()

    @property
    def descriptions(self) -> dict[str, dict]:
        """What items' files depend on, by the items' addresses."""
        return self.planned.descriptions | {item.address: part.description for item, part in self.report.parts.items()}

    def description(self, item: Item) -> dict:
        """What an item's files depend on."""
        return self.planned.descriptions[item.address] if item.stage in GRAPH else self.report.parts[item].description

    def outputs(self, item: Item) -> list[str]:
        """The names of an item's files."""
        return (self.planned if item.stage in GRAPH else self.report).outputs(item)

    def inputs(self, item: Item) -> Files:
        """The files of the store that an item is made of."""
        return (self.planned if item.stage in GRAPH else self.report).inputs(item)

    def needs(self, item: Item) -> set[str]:
        """The keys of the items that an item is made of."""
        return {key_of(path) for paths in self.inputs(item).values() for path in paths}

    def scenario(self, item: Item) -> str | None:
        """A scenario that an item belongs to, if any."""
        if item.stage in GRAPH:
            return self.planned.owners[item.address]
        return self.report.parts[item].description.get("scenario")

    def entry(self, item: Item) -> dict:
        """An item in a manifest: key, files, inputs, files from outside, scenario."""
        given = {} if item.stage in GRAPH else self.report.parts[item].given()
        outside = self.planned.outside(item) if item.stage in GRAPH else {}
        files = {"files": self.outputs(item), "inputs": self.inputs(item), "outside": outside}
        return item._asdict() | files | {"key": item.key, "given": given, "scenario": self.scenario(item)}


def missing(work: Work, wanted: Iterable[str], store: Store) -> list[Item]:
    """The items that the store lacks of those with the keys wanted, and of what these are made of, in order."""
    known = {item.key: item for item in work.items()}
    open_, lacks, seen = list(wanted), set(), set()
    while open_:
        key = open_.pop()
        if key not in seen:
            seen.add(key)
            item = known[key]
            if not store.has(key, work.outputs(item)):
                lacks.add(key)
                open_ += work.needs(item)
    return [item for key, item in known.items() if key in lacks]


def plan(
    work: Work, items: list[Item], store: Store, seconds: float, cores: int | None, last: Published | None = None
) -> list[Batch]:
    """Batches of items that take about so many seconds each; `cores` of this machine, or None for a cluster.

    `last` is what the study published last, by which batches say why they are computed.
    """
    groups: dict[tuple, list[Item]] = {}
    for item in items:
        rule = RULES.get(item.stage, item.stage)
        groups.setdefault((rule, _device(work, item), _user_code(work, item)), []).append(item)
    costs, found, holder = Costs(store), [], {}
    reasons = Reasons(store, work.planned, work.descriptions, last)
    for (rule, on, user_code), group in sorted(groups.items(), key=lambda each: ORDER.index(each[0][0])):
        systems = [work.description(item).get("system", "") for item in group]
        each = [costs.seconds(item, of, _passed(work, item)) for item, of in zip(group, systems, strict=True)]
        timed = [costs.is_timed(item, of) for item, of in zip(group, systems, strict=True)]
        start = START_SECONDS.get(rule, 1.0)
        for part in split(each, seconds, start, cores):
            of_it = group[part.start : part.stop]
            after = sorted({holder[key] for item in of_it for key in work.needs(item) if key in holder})
            total = start + sum(each[part.start : part.stop])
            number = sum(batch.rule == rule for batch in found) + 1
            gpu = gpus(work.planned.owner(of_it[0])) if rule == "train" else 0  # a group has one device
            why = reasons.why(of_it[0], work.scenario(of_it[0]))
            if len({item.address for item in of_it}) > 1:
                why = f"first result: {why}"
            message = f"{rule}-{number}: {DOES[rule]}, {_summary(work, of_it)}, about {duration(total)} ({why})"
            guessed, memory = not all(timed[part.start : part.stop]), _memory(work, rule, of_it)
            batch = Batch(rule, number, of_it, after, message, total, guessed, memory, gpu, on, bool(user_code))
            found.append(batch)
            holder |= {item.key: batch.name for item in of_it}
    return found


def split(each: list[float], seconds: float, start: float, cores: int | None) -> Iterator[range]:
    """Ranges of consecutive items, which take `each` so long, that take about the same time, about `seconds`.

    More ranges than that, for cores that would be idle, only where they take much longer than a start does.

    >>> list(split([10.0] * 6, 30.0, 1.0, 1))
    [range(0, 3), range(3, 6)]
    >>> list(split([10.0] * 6, 60.0, 5.0, 2)), list(split([1.0] * 6, 60.0, 5.0, 2))
    ([range(0, 3), range(3, 6)], [range(0, 6)])
    """
    total = sum(each)
    longest = max(seconds, total / (FEW * cores)) if cores else seconds
    useful = min(cores or 1, int(total / (WORTH * start)))
    count = min(len(each), max(1, ceil(total / longest), useful))
    first, done, part = 0, 0.0, 0
    for number, own in enumerate(each):
        now = min(count - 1, int((done + own / 2) / total * count))
        if now > part and number > first:
            yield range(first, number)
            first = number
        part, done = now, done + own
    yield range(first, len(each))


def manifest(work: Work, batch: Batch) -> str:
    """A batch's manifest, as JSON."""
    descriptions = {item.address: work.description(item) for item in batch.items}
    items = [work.entry(item) for item in batch.items]
    return json.dumps(batch._asdict() | {"minutes": batch.minutes, "items": items, "descriptions": descriptions})


def remaining(batches: list[Batch]) -> list[str]:
    """A line on what is to be computed, and how well its time is known; none where there is nothing."""
    if not batches:
        return []
    rules = dict.fromkeys(batch.rule for batch in batches)
    guessed = dict.fromkeys(batch.rule for batch in batches if batch.guessed)
    of = "" if guessed == rules else f" for {', '.join(guessed)}"
    rough = f" (a rough guess{of}: ./store has no timings of such jobs yet)" if guessed else ""
    time = duration(sum(batch.seconds for batch in batches), "core-")
    results, jobs = counted(sum(len(batch.items) for batch in batches), "result"), counted(len(batches), "job")
    return [f"To compute: {results} in {jobs}, about {time}{rough}"]


def _summary(work: Work, items: list[Item]) -> str:
    """Which items, in a few words."""
    names = list(dict.fromkeys(filter(None, (work.scenario(item) for item in items))))
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    of = f" for scenario{'s' * (len(names) > 1)} {', '.join(map(repr, names[:NAMED]))}{more}" if names else ""
    return counted(len(items), "result") + of


def _passed(work: Work, item: Item) -> float:
    """The bytes that a realization's training goes through: all of its memory, in each round."""
    if item.stage != "train":
        return 0.0
    owner = work.planned.owner(item)
    return checks.training_bytes(owner)[0] * (value_of(owner, "training.rounds") or 1)


def _user_code(work: Work, item: Item) -> tuple[str, ...]:
    """The user-defined functions that an item runs."""
    return tuple(work.description(item).get("functions", ()))


def _device(work: Work, item: Item) -> str:
    return device(work.planned.owner(item)) if item.stage == "train" else devices.CPU


def _memory(work: Work, rule: str, items: list[Item]) -> int:
    """MiB that a batch takes."""
    needed = [0]
    if rule == "train":
        needed = [int(checks.training_bytes(work.planned.owner(item))[0] / 2**20) for item in items]
    return max(MEMORY_MIB.get(rule, LEAST_MIB), *needed)
