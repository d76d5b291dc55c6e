"""What a scenario must satisfy besides the bounds of single parameters, and what it needs of the machine.

Each function says what holds for all systems, and asks the function of the same name in the module `checks` of the
scenario's system for what is its own; a system leaves out those that it has no use for.
"""

from pwfl.learning import datasets, sources
from pwfl.learning.features import DIRECTIONS, asked
from pwfl.scenario.common import DataSource, Scenario
from pwfl.systems import registry

OF_PARTITION = {"alpha": "dirichlet", "labels_per_user": "shards"}  # parameters that only one of them reads


def consistent(scenario: Scenario) -> None:
    """Check what parameters must satisfy together.

    Raises ValueError, `key: what is wrong; what would be right`, at the first that do not.
    """
    if scenario.training_realizations > scenario.realizations:
        raise ValueError(
            f"training_realizations: {scenario.training_realizations} is more than realizations: "
            f"{scenario.realizations}; only realizations that exist can be trained"
        )
    for keys in (("name",), ("scheduler", "noise")):
        values = [tuple(getattr(scheme, key) for key in keys) for scheme in scenario.schemes]
        twice = next((value for value in values if values.count(value) > 1), None)
        if twice:
            raise ValueError(f"schemes: {' and '.join(keys)} {' + '.join(twice)} stands twice; it must be unique")
    _own("consistent", scenario, None)


def problems(scenario: Scenario) -> list[str]:
    """What the scenario needs besides itself and does not find, a line `key: problem` each."""
    found = []
    if isinstance(data := getattr(scenario, "data", None), DataSource):
        try:
            sources.check(data.dataset, data.folder)
        except datasets.DataError as error:
            found.append(f"data.folder: {error}")
    return found + _own("problems", scenario, [])


def idle(scenario: Scenario) -> dict[str, str]:
    """Keys of parameters that have no effect because of another one, and what that is."""
    kind, data = asked(scenario).kind, getattr(scenario, "data", None)
    found = {} if kind in DIRECTIONS else {"training.directions": f"training.features: {kind}"}
    if isinstance(data, DataSource):
        others = (key for key, partition in OF_PARTITION.items() if partition != data.partition)
        found |= {f"data.{key}": f"data.partition: {data.partition}" for key in others}
    return found | _own("idle", scenario, {})


def imports(scenario: Scenario) -> dict[str, str]:
    """Files of tables from outside that the channel is made of, by the tables' names.

    Those of a system that has any are checked and read by `run(paths)` of its module `imported`; its `channel.run`
    is handed them as a third argument.
    """
    return _own("imports", scenario, {})


def table_bytes(scenario: Scenario) -> tuple[float, float, str]:
    """About how many bytes a job on tables takes: for each realization, besides, and the keys that set both.

    Of a system that does not say, nothing.
    """
    return _own("table_bytes", scenario, (0.0, 0.0, ""))


def training_bytes(scenario: Scenario) -> tuple[float, str]:
    """About how many bytes a training takes, and the keys that set them; of a system that does not say, nothing."""
    return _own("training_bytes", scenario, (0.0, ""))


def available(data: DataSource) -> int:
    """Training samples that users may hold."""
    return datasets.SIZES[data.dataset].train - (data.validation or 0)


def _own(check: str, scenario: Scenario, otherwise):
    """What a function of the system's module `checks` says of a scenario, or otherwise, where there is none."""
    function = getattr(registry.system(scenario.system).part("checks"), check, None)
    return function(scenario) if function else otherwise
