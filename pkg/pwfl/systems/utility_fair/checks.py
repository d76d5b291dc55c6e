"""Joint conditions on parameters of the system `utility_fair`, and the memory that its jobs use."""

from math import log

from pwfl.scenario.checks import check_holdings
from pwfl.scenario.size import COPIES, FLOAT32, LINK_BYTES, layer_bytes, network_bytes
from pwfl.systems.utility_fair import link
from pwfl.systems.utility_fair.parameters import UtilityFair
from pwfl.training import models

MAX_ITERATIONS = 1e9  # of a device in a round
MAX_LEARNED = 700  # largest computing energy of a round, in units of beta_2: exp of more overflows
UNIFORM_BITS = 53  # bits of the uniform numbers from which fading is computed: they limit the strongest fading


def consistent(scenario: UtilityFair) -> None:
    """Raise ValueError for parameters that no realization can satisfy, or that Theorem 2 does not cover."""
    models.check(scenario)
    network, device, data = scenario.network, scenario.device, scenario.data
    if network.min_distance_m > network.max_distance_m:
        raise ValueError(
            f"network.min_distance_m: {network.min_distance_m:g} exceeds network.max_distance_m: "
            f"{network.max_distance_m:g}; raise the maximum or lower the minimum"
        )
    if network.savers > network.devices:
        raise ValueError(f"network.savers: {network.savers} exceeds network.devices: {network.devices}")
    if device.computing_power_w < device.circuit_power_w:
        raise ValueError(
            f"device.computing_power_w: {device.computing_power_w:g} is below device.circuit_power_w: "
            f"{device.circuit_power_w:g}, for which (27) of the paper (docs/explanation/utility_fair.md) may have "
            "several roots; raise it to at least as much"
        )
    if device.batch_size > data.samples_per_device:
        raise ValueError(
            f"device.batch_size: {device.batch_size} exceeds data.samples_per_device: {data.samples_per_device}; a "
            "batch contains a sample at most once"
        )
    check_holdings(data, "data.samples_per_device", data.samples_per_device, "network.devices", network.devices)
    if scenario.training.clip_norm is not None and scenario.privacy.uploads == "clean":
        raise ValueError(
            f"training.clip_norm: {scenario.training.clip_norm:g} guarantees nothing if uploads are not noisy; set "
            "privacy.uploads to noisy, or leave the key out"
        )
    _check_deadline(scenario)


def _check_deadline(scenario: UtilityFair) -> None:
    """Raise ValueError if no device could ever take part, or if iterations or utilities could become too large."""
    radio, device = scenario.radio, scenario.device
    limits = link.limits(radio, device)
    least = link.least_z(limits)
    if least == float("inf"):
        raise ValueError(
            f"device.deadline_s: {limits.deadline_s:g} leaves no time to transmit after device.min_iterations: "
            f"{limits.min_iterations} iterations, which last {limits.min_iterations * limits.iteration_s:.3g} s; "
            "raise the deadline or lower the iterations"
        )
    if (most := limits.deadline_s / limits.iteration_s) > MAX_ITERATIONS:
        raise ValueError(
            f"device.deadline_s: {limits.deadline_s:g} allows {most:.3g} iterations of {limits.iteration_s:.3g} s; "
            f"at most {MAX_ITERATIONS:g} are supported; lower it, or raise device.batch_size, device.sample_bits or "
            "device.seconds_per_bit"
        )
    computing_j, beta_2_j = limits.deadline_s * device.computing_power_w, scenario.utility.beta_2_j
    if computing_j > MAX_LEARNED * beta_2_j:
        raise ValueError(
            f"utility.beta_2_j: {beta_2_j:g} is too small: exp of {computing_j:.3g} J, the energy of computing for "
            f"the whole device.deadline_s, over it overflows; raise it to {computing_j / MAX_LEARNED:.3g} or more"
        )
    strongest_fade = 2 * radio.fading_scale**2 * UNIFORM_BITS * log(2)
    best_gain = strongest_fade * link.path_gain(scenario.network.min_distance_m, radio)
    if least > link.log_snr(limits.max_power_w, link.unit_power_w(best_gain, radio)):
        raise ValueError(
            f"device.max_power_dbm: {device.max_power_dbm:g} is too low to reach the access point from any distance, "
            f"even with the strongest fading gain: after device.min_iterations: {limits.min_iterations}, too little "
            f"of device.deadline_s: {limits.deadline_s:g} is left; raise the power or the deadline"
        )


def problems(scenario: UtilityFair) -> list[str]:
    """See `pwfl.scenario.checks`."""
    return models.problems(scenario)


def table_bytes(scenario: UtilityFair) -> tuple[float, float, str]:
    """See `pwfl.scenario.checks`."""
    return scenario.training.rounds * scenario.network.devices * LINK_BYTES, 0, "network.devices or training.rounds"


def training_bytes(scenario: UtilityFair) -> tuple[float, str]:
    """See `pwfl.scenario.checks`."""
    devices, batch = scenario.network.devices, scenario.device.batch_size
    networks = network_bytes(scenario, scenario.training.hidden_layers, devices)
    batches = layer_bytes(scenario, devices * batch) + devices * batch**2 * FLOAT32 * COPIES
    return networks + batches, "network.devices or device.batch_size"
