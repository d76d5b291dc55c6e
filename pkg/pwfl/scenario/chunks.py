"""Chunks of realizations of a scenario's stages: all results at an address are on one grid of chunks.

The grid is independent of the number of realizations requested. Sizes follow from parameters that the channel reads,
and the last chunk ends where imported tables end. The address of every stage depends on both.
"""

from pwfl.scenario import checks
from pwfl.scenario.common import Scenario
from pwfl.stages import GRAPH, REALIZATIONS
from pwfl.store import grids

MOST_BYTES = 2**30  # of a chunk's tables, unless a single realization has more


def chunks_of(scenario: Scenario, stage: str) -> list[str]:
    """List the names of the chunks of a scenario's stage; only `grids.ALL` if one job computes all realizations."""
    return [grids.ALL] if GRAPH[stage].grid is None else covering(scenario, stage, 0, count_of(scenario, stage))


def covering(scenario: Scenario, stage: str, first: int, stop: int) -> list[str]:
    """List the names of the chunks that cover realizations `first` to `stop` - 1, for a stage with a grid."""
    return grids.covering(first, stop, sizes_of(scenario, stage), checks.imported_realizations(scenario))


def extent_of(scenario: Scenario, stage: str) -> grids.Extent:
    """Return the extent of the chunks of a stage with a grid, as if imported tables had no end."""
    return grids.extent(count_of(scenario, stage), sizes_of(scenario, stage))


def sizes_of(scenario: Scenario, stage: str) -> grids.Sizes:
    """Return a stage's chunk sizes, each with its first realization; they are smaller for training on a data set."""
    is_slow = GRAPH[stage].takes_data and "data" in type(scenario).model_fields
    most = MOST_BYTES / max(checks.realization_bytes(scenario), 1)
    return grids.fitting(grids.TRAININGS if is_slow else grids.TABLES, most)


def count_of(scenario: Scenario, stage: str) -> int:
    """Return the number of realizations that a scenario requests of a stage with a grid."""
    return getattr(scenario, REALIZATIONS[GRAPH[stage].grid])
