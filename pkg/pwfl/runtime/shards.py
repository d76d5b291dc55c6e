"""Shards: blocks of realizations that a job takes, on a fixed grid, always whole, however many a study asks for."""

from pwfl.stages import GRAPH, REALIZATIONS

ALL = "all"  # no folder of its own


def covering(first: int, stop: int, size: int) -> list[str]:
    """Names FIRST-STOP of the shards of a size that cover the realizations from `first` to before `stop`.

    >>> covering(3, 5, 2)
    ['000002-000004', '000004-000006']
    """
    return [f"{start:06d}-{start + size:06d}" for start in range(first - first % size, stop, size)]


def of(scenario, stage: str) -> list[str]:
    """Names of the shards that a scenario's stage has; ALL alone of one that takes all realizations together."""
    grid = GRAPH[stage].grid
    if grid is None:
        return [ALL]
    return covering(0, getattr(scenario, REALIZATIONS[grid]), getattr(scenario.shards, grid))


def bounds(shard: str) -> tuple[int, int]:
    """First realization of a shard, and the one after its last."""
    first, stop = shard.split("-")
    return int(first), int(stop)
