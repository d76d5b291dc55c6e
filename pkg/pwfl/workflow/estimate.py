"""What a study still costs, told before it starts: by what jobs of the same stages took that ran here before."""

import csv
from collections import Counter, defaultdict
from math import ceil
from pathlib import Path
from statistics import median
from typing import NamedTuple

from pwfl.stages import GRAPH, MAKER
from pwfl.workflow.plan import Plan

MOST = 200  # jobs of a stage that are looked at


class Cost(NamedTuple):
    """What a job takes: seconds on a core, and bytes of its tables on disk."""

    seconds: float
    stored: float


GUESS = Cost(10.0, 2**20)  # of a job of a stage that never ran here


def remaining(plan: Plan) -> list[str]:
    """A line on what the stages have still to compute: jobs, time on a core, disk; none where there is nothing."""
    missing = Counter()
    for job in plan.jobs():
        if not all(Path(path).exists() for path in job.outputs.values()):
            missing[job.description["stage"], job.description.get("system", "")] += 1
    if not (jobs := missing.total()):
        return []
    before = {stage: measured(stage) for stage in GRAPH if stage in {name for name, _ in missing}}
    costs = {job: typical(before[job[0]], job[1]) for job in missing}
    seconds = sum(count * costs[job].seconds for job, count in missing.items())
    stored = sum(count * costs[job].stored for job, count in missing.items())
    time = f"{seconds / 3600:,.1f} core-hours" if seconds > 3600 else f"{ceil(seconds / 60)} core-minutes"
    disk = f"{stored / 2**30:,.1f} GiB" if stored > 2**30 else f"{ceil(stored / 2**20)} MiB"
    guessed = [stage for stage, jobs_of in before.items() if not jobs_of]
    basis = f", with {GUESS.seconds:g} s a job of {', '.join(guessed)}, as none ran here before" if guessed else ""
    return [f"Stages have {jobs:,} jobs to do, about {time} and {disk} in store/{basis}; then the report"]


def measured(stage: str) -> dict[str, list[Cost]]:
    """What jobs of a stage took that ran here and whose files are there, by system."""
    costs = defaultdict(list)
    # Addresses are digests, so the first ones are a random sample.
    for path in sorted(Path("logs", stage).rglob("*.tsv"))[:MOST]:
        place = Path("store", path.relative_to("logs").with_suffix(""))
        sizes = {file.stem: file.stat().st_size for file in place.glob("*.*") if file.stem in MAKER}
        if (seconds := _seconds(path)) is not None and sizes.keys() >= set(GRAPH[stage].makes):
            system = _system(Path(*place.parts[:3], "description.yaml"))
            costs[system].append(Cost(seconds, sum(sizes.values())))
    return costs


def typical(before: dict[str, list[Cost]], system: str) -> Cost:
    """The median cost of a stage's jobs of a system; where there are none, of all systems', or else a guess."""
    jobs = before.get(system) or [job for jobs in before.values() for job in jobs]
    return Cost(*(median(each) for each in zip(*jobs, strict=True))) if jobs else GUESS


def _seconds(path: Path) -> float | None:
    """The seconds in a benchmark file of Snakemake; None where it holds none."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return float(next(csv.DictReader(file, delimiter="\t"))["s"])
    except (OSError, StopIteration, KeyError, TypeError, ValueError):
        return None


def _system(path: Path) -> str:
    """The system of an address, by the description of this path; empty where there is none."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else ()
    return next((line.partition(": ")[2] for line in lines if line.startswith("system: ")), "")
