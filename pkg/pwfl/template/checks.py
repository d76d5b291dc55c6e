"""What parameters of the system `template` must satisfy together."""

from pwfl.scenario.checks import available


def consistent(scenario) -> None:
    """Refuse what cannot be run."""
    devices, samples, there = scenario.network.devices, scenario.data.samples, available(scenario.data)
    if devices * samples > there:
        raise ValueError(
            f"data.samples: {devices} devices need {devices * samples} records, {scenario.data.dataset} has {there}; "
            f"at most {there // devices} each are there"
        )
    if scenario.radio.senders > devices:
        raise ValueError(f"radio.senders: {scenario.radio.senders} is more than network.devices: {devices}; lower it")
