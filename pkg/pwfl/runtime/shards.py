"""Shards: blocks of realizations that a job takes, on a fixed grid, always whole.

How many realizations a study asks for decides which shards are computed, and not what is in one.
"""

from pwfl.stages import GRAPH, REALIZATIONS

ALL = "all"  # no folder of its own


def names(count: int, size: int) -> list[str]:
    """Names FIRST-STOP of the shards of a size that cover the first `count` realizations."""
    return covering(0, count, size)


def covering(first: int, stop: int, size: int) -> list[str]:
    """Names of the shards of a size that cover the realizations from `first` to before `stop`.

    >>> covering(3, 6, 5)
    ['000000-000005', '000005-000010']
    """
    return [f"{start:06d}-{start + size:06d}" for start in range(first - first % size, stop, size)]


def of(scenario, stage: str) -> list[str]:
    """Names of the shards that a scenario's stage has; ALL alone of one that takes all realizations together."""
    grid = GRAPH[stage].grid
    if grid is None:
        return [ALL]
    return names(getattr(scenario, REALIZATIONS[grid]), getattr(scenario.shards, grid))


def bounds(shard: str) -> tuple[int, int]:
    """First realization of a shard, and the one after its last.

    >>> bounds("000005-000010")
    (5, 10)
    """
    first, stop = shard.split("-")
    return int(first), int(stop)
