"""What parameters of the system `local_dp_mac` must satisfy together, and the memory that its jobs take."""

from local_dp_mac.parameters import LocalDpMac
from pwfl.scenario.checks import check_holdings
from pwfl.scenario.size import layer_bytes, network_bytes
from pwfl.training import models


def consistent(scenario: LocalDpMac) -> None:
    """Refuse what cannot be run."""
    models.check(scenario)
    check_holdings(scenario.data, "data.samples", scenario.data.samples, "network.devices", scenario.network.devices)


def problems(scenario: LocalDpMac) -> list[str]:
    """See `pwfl.scenario.checks`."""
    return models.problems(scenario)


def table_bytes(scenario: LocalDpMac) -> tuple[float, float, str]:
    """Bytes of a realization's tables: some arrays with an entry for each round and device."""
    return 300.0 * scenario.training.rounds * scenario.network.devices, 0.0, "training.rounds, network.devices"


def training_bytes(scenario: LocalDpMac) -> tuple[float, str]:
    """Bytes of a training: the data, the weights, and activations and derivatives of all layers."""
    layers = layer_bytes(scenario, scenario.network.devices * scenario.data.samples)
    return network_bytes(scenario, scenario.training.hidden_layers, 1) + layers, "data.samples, training.hidden_layers"
