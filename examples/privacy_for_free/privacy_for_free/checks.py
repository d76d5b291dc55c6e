"""Joint checks of the parameters of `privacy_for_free`, and estimates of memory; see `pwfl.scenario.checks`."""

from privacy_for_free.parameters import PrivacyForFree


def consistent(scenario: PrivacyForFree) -> None:
    """Raise ValueError if blocks and devices, gamma and D G, or mu and L do not fit each other."""
    training, devices, blocks = scenario.training, scenario.network.devices, scenario.radio.blocks
    if any(scheme.scheduler.startswith("orthogonal") for scheme in scenario.schemes) and blocks % devices:
        raise ValueError(
            f"radio.blocks: {blocks} blocks are no whole number of rounds of {devices} devices with a block each; use "
            f"a multiple of network.devices, or only schemes with superposed access"
        )
    most = scenario.task.samples * training.mean_norm
    if training.clip_norm > most:
        raise ValueError(
            f"training.clip_norm: {training.clip_norm:g} is larger than a device's whole message, which is at most "
            f"task.samples times training.mean_norm; use {most:g} or less"
        )
    if training.strong_convexity >= training.smoothness:
        raise ValueError(
            f"training.strong_convexity: {training.strong_convexity:g} must be less than training.smoothness, "
            f"{training.smoothness:g}"
        )


def table_bytes(scenario: PrivacyForFree) -> tuple[float, float, str]:
    """Estimate the bytes of a realization's tables: some arrays with one entry per block and device."""
    return 300.0 * scenario.radio.blocks * scenario.network.devices, 0.0, "radio.blocks, network.devices"


def training_bytes(scenario: PrivacyForFree) -> tuple[float, str]:
    """Estimate the bytes of a training run: records, and some arrays of their size."""
    numbers = scenario.network.devices * scenario.task.samples * (scenario.task.dimension + 1)
    return 32.0 * numbers, "task.samples, task.dimension, network.devices"
