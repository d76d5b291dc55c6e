"""Joint checks of the parameters of `local_dp_mac`, and estimates of memory; see `pwfl.scenario.checks`."""

from local_dp_mac.parameters import LocalDpMac
from pwfl.scenario.checks import check_holdings
from pwfl.scenario.size import layer_bytes, network_bytes
from pwfl.training import models


def consistent(scenario: LocalDpMac) -> None:
    """Raise ValueError for a model that cannot be trained on the records, or records that cannot be assigned."""
    models.check(scenario)
    check_holdings(scenario.data, "data.samples", scenario.data.samples, "network.devices", scenario.network.devices)


def problems(scenario: LocalDpMac) -> list[str]:
    """List problems with a user-defined model, one text each."""
    return models.problems(scenario)


def table_bytes(scenario: LocalDpMac) -> tuple[float, float, str]:
    """Estimate the bytes of a realization's tables: some arrays with one entry per round and device."""
    return 300.0 * scenario.training.rounds * scenario.network.devices, 0.0, "training.rounds, network.devices"


def training_bytes(scenario: LocalDpMac) -> tuple[float, str]:
    """Estimate the bytes of a training run: data, model parameters, all layers' activations and derivatives."""
    layers = layer_bytes(scenario, scenario.network.devices * scenario.data.samples)
    return network_bytes(scenario, scenario.training.hidden_layers, 1) + layers, "data.samples, training.hidden_layers"
