"""Divide a study into parts, the jobs of the workflow: each part's items, and the parts that it needs.

A part's name consists of a number and a digest of its items and of the parts that it needs. Equal names mean equal
work, so Snakemake's records of a name are never of another study. A part's *mark* is the file that its job creates at
the end. Its *manifest* (`pwfl.workflow.outlook`) contains everything that its job needs.
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

ORDER = [*GRAPH, AUDIT, REPORT]  # rules in the order of the workflow
LOCAL_SECONDS, CLUSTER_SECONDS = 60.0, 900.0  # target time of a part
FEW = 16  # most parts of a rule per core: with more work, each part lasts longer
WORTH = 2.0  # least ratio of a part's time to its start-up time for which idle cores get another part
REPORT_WORTH = 8.0  # the same for the report: most changes affect each of its parts


def rule_of(item: Item) -> str:
    """Return the rule that computes an item; report jobs except audits have one rule, to share a process's start-up."""
    return item.stage if item.stage in ORDER else REPORT


class Part(NamedTuple):
    """A part: its path in a study, RULE/NAME, its items, and the paths of the parts that it needs."""

    path: str
    items: list[Item]
    after: list[str]

    @property
    def rule(self) -> str:
        """The rule that computes the part."""
        return self.path.partition("/")[0]


def needed(work: Plan, wanted: Iterable[str], store: Store | None = None) -> list[Item]:
    """List the items with wanted keys and those that they need, in order; with a store, stop at items that it has."""
    asked, lacking = set(wanted), []
    for item in reversed(list(work.items())):  # each is after those that it needs
        if item.key in asked and (store is None or not store.has(item.key, work.outputs(item))):
            lacking.append(item)
            asked |= work.needs(item)
    return lacking[::-1]


def plan(work: Plan, items: Iterable[Item], store: Store, seconds: float, cores: int | None) -> dict[str, Part]:
    """Divide items into parts of about `seconds` each; return the parts by path, each after those that it needs.

    `cores` is the number of this machine's cores; None: a cluster. Times are estimated for all items, including those
    that the store has, so that the parts do not depend on what is missing.
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
    """Restore the parts of a saved `division`, to keep names if estimates change; None: it is of other items."""
    known = {item.key: item for item in items}
    try:
        parts = {path: Part(path, [known[key] for key in keys], after) for path, keys, after in division}
    except (KeyError, TypeError, ValueError):  # of other items, or damaged
        return None
    return parts if sum(len(part.items) for part in parts.values()) == len(known) else None


def following(parts: Collection[Part], forced: Collection[str]) -> set[str]:
    """List the paths of parts that are `forced`, by rule or path, and of all parts that need them."""
    paths: set[str] = set()
    for part in parts:  # each after those that it needs
        if part.rule in forced or part.path in forced or not paths.isdisjoint(part.after):
            paths.add(part.path)
    return paths


def split(durations: list[float], seconds: float, worth: float, cores: int | None) -> Iterator[range]:
    """Yield ranges of consecutive items with these `durations`, of about equal total duration, about `seconds`.

    There are more ranges than that, for idle cores, only if each lasts about `worth` seconds or more.

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
    """Estimate the seconds that an item takes."""
    passed = 0.0  # bytes that a realization's training run processes: in each round its memory, or a sampled share
    if item.stage == "train":
        owner = work.owner(item)
        shares = (value_of(owner, key) or 1 for key in ("training.rounds", "data.sampling", "network.participation"))
        passed = checks.training_bytes(owner)[0] * prod(shares)
    return costs.seconds(item, work.descriptions[item.address].get("system", ""), passed)


def kind(work: Plan, item: Item) -> tuple[str, tuple[str, ...]]:
    """Return the device and the user-defined functions that an item needs; they are equal for all items of a part."""
    # The report's items need each other, so they are one kind; no parameter of the report names a function.
    on = device(work.owner(item)) if item.stage == "train" else devices.CPU
    return on, () if rule_of(item) == REPORT else tuple(work.descriptions[item.address].get("functions", ()))
