"""The chunks of a scenario's stages: of an address there is one grid, whoever asks, for however many realizations.

Sizes follow from what the channel reads, and chunks end where tables from outside do: both are behind the address of
every stage.
"""

from pwfl.scenario import checks
from pwfl.scenario.common import Scenario
from pwfl.stages import GRAPH, REALIZATIONS
from pwfl.store import grids

MOST_BYTES = 2**30  # of a chunk's tables, unless a single realization takes more


def chunks_of(scenario: Scenario, stage: str) -> list[str]:
    """Names of the chunks of a scenario's stage; `grids.ALL` alone where it computes all realizations together."""
    return [grids.ALL] if GRAPH[stage].grid is None else covering(scenario, stage, 0, count_of(scenario, stage))


def covering(scenario: Scenario, stage: str, first: int, stop: int) -> list[str]:
    """Names of the chunks of a stage that has a grid, for the realizations from `first` to before `stop`."""
    return grids.covering(first, stop, sizes_of(scenario, stage), checks.imported_realizations(scenario))


def extent_of(scenario: Scenario, stage: str) -> grids.Extent:
    """The extent of the chunks of a stage that has a grid, without a look at where tables from outside end."""
    return grids.extent(count_of(scenario, stage), sizes_of(scenario, stage))


def sizes_of(scenario: Scenario, stage: str) -> grids.Sizes:
    """From which realization on the chunks of a stage are of which size; trainings on a data set are slow."""
    is_slow = GRAPH[stage].takes_data and "data" in type(scenario).model_fields
    most = MOST_BYTES / max(checks.realization_bytes(scenario), 1)
    return grids.fitting(grids.TRAININGS if is_slow else grids.TABLES, most)


def count_of(scenario: Scenario, stage: str) -> int:
    """How many realizations a scenario asks a stage for that has a grid."""
    return getattr(scenario, REALIZATIONS[GRAPH[stage].grid])
