"""What a study still costs, told before it starts."""

from math import ceil
from pathlib import Path

from pwfl.runtime import shards
from pwfl.scenario import size
from pwfl.stages import STAGES


def remaining(described: dict) -> str:
    """About what the stages have still to compute: jobs, time on a core, disk; empty where there is nothing.

    Parameters
    ----------
    described
        Address -> its description, and a scenario that it belongs to.
    """
    jobs, seconds, stored = 0, 0.0, 0.0
    for address, (description, scenario) in described.items():
        if (stage := description["stage"]) not in STAGES:
            continue
        home = Path("store", stage, address)
        missing = [s for s in shards.of(scenario, stage) if not _computed(home if s == shards.ALL else home / s, stage)]
        each = size.estimate(scenario, stage)
        jobs, seconds, stored = jobs + len(missing), seconds + each[0] * len(missing), stored + each[1] * len(missing)
    if jobs == 0:
        return ""
    time = f"{seconds / 3600:,.1f} core-hours" if seconds > 3600 else f"{ceil(seconds / 60)} core-minutes"
    disk = f"{stored / 2**30:,.1f} GiB" if stored > 2**30 else f"{ceil(stored / 2**20)} MiB"
    return (
        f"Stages have {jobs:,} jobs to do, about {time} and {disk} in store/, give or take a factor of three; then the "
        "report"
    )


def _computed(folder: Path, stage: str) -> bool:
    return all((folder / f"{table}.parquet").exists() for table in STAGES[stage].makes)
