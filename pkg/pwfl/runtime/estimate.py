"""What a study still costs, told before a large one starts."""

from pathlib import Path

from pwfl.runtime import shards
from pwfl.scenario import size
from pwfl.stages import STAGES


def remaining(described: dict, least: int) -> str:
    """About what is still to be computed: jobs, core-hours, disk; nothing where fewer than `least` jobs are.

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
    if jobs < least:
        return ""
    return (
        f"{jobs:,} jobs are still to be computed, which take about {seconds / 3600:,.1f} core-hours and "
        f"{stored / 2**30:,.1f} GiB in store/, by a rough estimate from their sizes"
    )


def _computed(folder: Path, stage: str) -> bool:
    return all((folder / f"{table}.parquet").exists() for table in STAGES[stage].makes)
