"""A study in parts, the jobs of the workflow: which items each computes, and what comes before it.

A part's name is a number and a digest of its items and of the parts before it, so that equal names mean equal work, and
neither Snakemake's memory of a name nor its graph is ever of another study. That a part's *mark* exists says that the
store has its items; its *manifest* (`pwfl.workflow.outlook`) says all that its job needs to know.
"""

from collections.abc import Collection, Iterable, Iterator
from itertools import accumulate, groupby
from math import ceil, prod
from typing import Any, NamedTuple

from pwfl.process import devices
from pwfl.scenario import checks
from pwfl.scenario.values import value_of
from pwfl.stages import AUDIT, GRAPH, REPORT
from pwfl.store import addressing
from pwfl.store.items import Store
from pwfl.workflow.costs import START_SECONDS, Costs
from pwfl.workflow.plan import Item, Plan, device

ORDER = [*GRAPH, AUDIT, REPORT]  # of rules
LOCAL_SECONDS, CLUSTER_SECONDS = 60.0, 900.0  # that a part is to take
FEW = 16  # parts of a rule for each core: of more, each takes longer
WORTH = 2.0  # times its start that a part must take for more cores to be worth another one
REPORT_WORTH = 8.0  # of the report, of which most changes touch every part


def rule_of(item: Item) -> str:
    """The rule that computes an item: the jobs of the report but audits have one, so that they share a start."""
    return item.stage if item.stage in ORDER else REPORT


class Part(NamedTuple):
    """A part: its path in a study, RULE/NAME, its items, and the paths of the parts that it needs."""

    path: str
    items: list[Item]
    after: list[str]

    @property
    def rule(self) -> str:
        """The rule that computes it."""
        return self.path.partition("/")[0]


def needed(work: Plan, wanted: Iterable[str], store: Store | None = None) -> list[Item]:
    """The items with the keys wanted, and what these are made of, in order; with a store, those that it lacks."""
    asked, lacking = set(wanted), []
    for item in reversed(list(work.items())):  # each is after those that it is made of
        if item.key in asked and (store is None or not store.has(item.key, work.outputs(item))):
            lacking.append(item)
            asked |= work.needs(item)
    return lacking[::-1]


def plan(work: Plan, items: Iterable[Item], store: Store, seconds: float, cores: int | None) -> dict[str, Part]:
    """The parts of items, each after those that it needs, by their paths; they take about so many seconds each.

    `cores` are those of this machine, or None for a cluster. Estimates are of all items, whether or not the store has
    them, so that what is missing does not change the parts.
    """
    groups: dict[tuple, list[Item]] = {}
    for item in items:
        groups.setdefault((rule_of(item), kind(work, item)), []).append(item)
    costs, planned, holder = Costs(store), {}, {}
    numbers = dict.fromkeys(ORDER, 0)
    for (rule, _), group in sorted(groups.items(), key=lambda group: ORDER.index(group[0][0])):
        durations = [seconds_of(work, item, costs) for item in group]
        worth = START_SECONDS.get(rule, 1.0) * (REPORT_WORTH if rule == REPORT else WORTH)
        for span in split(durations, seconds, worth, cores):
            some = group[span.start : span.stop]
            after = sorted({holder[key] for item in some for key in work.needs(item) if key in holder})
            numbers[rule] += 1
            path = f"{rule}/{numbers[rule]}-{addressing.digest([[item.key for item in some], after])[:6]}"
            planned[path] = Part(path, some, after)
            holder |= {item.key: path for item in some}
    return planned


def divided(items: Iterable[Item], division: Any) -> dict[str, Part] | None:
    """The parts by a `division` that was saved, so that names stay though estimates change; None: it is of others."""
    known = {item.key: item for item in items}
    try:
        parts = {path: Part(path, [known[key] for key in keys], after) for path, keys, after in division}
    except (KeyError, TypeError, ValueError):  # of other items, or damaged
        return None
    return parts if sum(len(part.items) for part in parts.values()) == len(known) else None


def following(parts: Collection[Part], forced: Collection[str]) -> set[str]:
    """The paths of parts that are forced, by their rules or paths, and of all that are made of these."""
    paths: set[str] = set()
    for part in parts:  # each after those that it needs
        if part.rule in forced or part.path in forced or not paths.isdisjoint(part.after):
            paths.add(part.path)
    return paths


def split(durations: list[float], seconds: float, worth: float, cores: int | None) -> Iterator[range]:
    """Ranges of consecutive items of these `durations` that take about the same time, about `seconds`.

    More ranges than that, for cores that would be idle, only where each takes the seconds that are `worth` a start.

    >>> list(split([10.0] * 6, 30.0, 2.0, 1))
    [range(0, 3), range(3, 6)]
    >>> list(split([10.0] * 6, 60.0, 10.0, 2)), list(split([1.0] * 6, 60.0, 10.0, 2))
    ([range(0, 3), range(3, 6)], [range(0, 6)])
    """
    total = sum(durations)
    longest = max(seconds, total / (FEW * cores)) if cores else seconds
    useful = min(cores or 1, int(total / worth))
    count = min(len(durations), max(1, ceil(total / longest), useful))
    first, begins = 0, accumulate(durations, initial=0.0)
    middles = (begin + duration / 2 for begin, duration in zip(begins, durations, strict=False))
    for _, together in groupby(min(count - 1, int(middle / total * count)) for middle in middles):
        span = range(first, first + len([*together]))
        first = span.stop
        yield span


def seconds_of(work: Plan, item: Item, costs: Costs) -> float:
    """About how long an item takes."""
    passed = 0.0  # bytes that a realization's training goes through: in each round its memory, or a sampled share
    if item.stage == "train":
        owner = work.owner(item)
        shares = (value_of(owner, key) or 1 for key in ("training.rounds", "data.sampling", "network.participation"))
        passed = checks.training_bytes(owner)[0] * prod(shares)
    return costs.seconds(item, work.descriptions[item.address].get("system", ""), passed)


def kind(work: Plan, item: Item) -> tuple[str, tuple[str, ...]]:
    """The device and the user-defined functions that an item needs; those of a part have the same."""
    # The report's items, which are made of each other, are one kind; no parameter that it reads names a function.
    on = device(work.owner(item)) if item.stage == "train" else devices.CPU
    return on, () if rule_of(item) == REPORT else tuple(work.descriptions[item.address].get("functions", ()))
